"use strict";
// Documents: dropped or chosen, sent, asked after until they are done, and then a link to fetch.

const EVERY_MS = 500;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function listenForFiles() {
  const drop = $("drop");
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); takeFiles(event.dataTransfer.files); });
  $("file").addEventListener("change", () => { takeFiles($("file").files); $("file").value = ""; });
  // A file beside the zone must not replace the page.
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
}

function takeFiles(files) {
  for (const file of files) translateFile(file);
}

async function translateFile(file) {
  const bar = element("progress", { "aria-label": `Translating ${file.name}` }), state_ = element("span", { class: "quiet" }, "…");
  const row = element("li", {}, element("span", { class: "name", title: file.name }, file.name), state_, bar);
  $("documents").prepend(row);
  try {
    const form = new FormData();
    form.append("file", file);
    form.append("source", $("from").value);
    // A target that nobody chose is a preference: a file that is in this language gets another.
    if ($("to").value) form.append(state.picked || $("from").value !== "auto" ? "target" : "prefer", $("to").value);
    form.append("glossary", termsGiven().map((pair) => pair.join("\t")).join("\n"));
    let job = await send("v1/documents", form);
    while (job.state === "waiting" || job.state === "translating") {
      await pause(EVERY_MS);
      job = await call(`v1/documents/${job.id}`);
      if (job.total) {
        bar.max = job.total;
        bar.value = job.done;
        state_.textContent = `${Math.round((100 * job.done) / job.total)}%`;
      }
    }
    if (job.error) throw new Error(job.error);
    state_.replaceWith(element("a", { href: `v1/documents/${job.id}/file`, download: job.name }, "Download"));
    row.querySelector(".name").textContent = job.name;
    const { doubtful, left } = job.report ?? {};
    if (job.report) row.append(element("a", { class: "report quiet", href: `v1/documents/${job.id}/report`, target: "_blank" },
      doubtful || left ? `Report: ${doubtful} doubtful, ${left} left as they are` : "Report"));
  } catch (error) {
    state_.remove();
    row.append(element("span", { class: "wrong" }, error.message));
  }
  bar.remove();
}

async function send(path, form) {
  const answer = await fetch(path, { method: "POST", body: form, headers: state.key ? { "X-API-Key": asBytes(state.key) } : {} });
  if (answer.status === 401) {
    await askForKey();
    return send(path, form);
  }
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}
