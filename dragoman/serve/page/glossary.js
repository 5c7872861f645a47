"use strict";
// A table of terms that must be translated just so. There is always an empty row to write into.

function termsGiven() {
  return [...$("terms").querySelectorAll("tbody tr")]
    .map((row) => [...row.querySelectorAll("input")].map((input) => input.value.trim()))
    .filter(([source, target]) => source && target);
}

function termRow(source = "", target = "") {
  const row = element("tr", {},
    ...[["Source term", source], ["Its translation", target]].map(([label, value]) =>
      element("td", {}, element("input", { value, "aria-label": label, spellcheck: "false", maxlength: 200, oninput: termsChanged }))),
    element("td", {}, element("button", {
      class: "plain", type: "button", "aria-label": "Remove this term",
      onclick: () => { row.remove(); termsChanged(); },
    }, "×")));
  return row;
}

function showTerms() {
  const kept = JSON.parse(localStorage.getItem("terms") ?? "[]");
  $("terms").tBodies[0].replaceChildren(...kept.map(([source, target]) => termRow(source, target)), termRow());
}

function termsChanged() {
  const rows = [...$("terms").tBodies[0].rows], last = rows.at(-1);
  if (!last || [...last.querySelectorAll("input")].some((input) => input.value)) $("terms").tBodies[0].append(termRow());
  const before = localStorage.getItem("terms") ?? "[]", now = JSON.stringify(termsGiven());
  localStorage.setItem("terms", now);
  if (now !== before) soon(400);
}
