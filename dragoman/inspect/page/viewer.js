"use strict";
// What the three tabs share: elements, colours, numbers, the tabs themselves. Text only ever enters as text nodes.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("theme"));
}

// Draw again in the other colours, for as long as the viewer stands.
let viewerLife = new AbortController();
function onTheme(draw) {
  document.addEventListener("theme", draw, { signal: viewerLife.signal });
}

function followSystemTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
}

const RAMPS = {
  light: [[255, 255, 255], [204, 222, 241], [92, 152, 208], [31, 95, 168], [8, 40, 88]],
  dark: [[26, 31, 38], [30, 60, 98], [52, 112, 178], [130, 182, 240], [235, 245, 255]],
};
// Above zero it is blue, like the ramp of weights: a colour has one meaning on all pages.
const SIGNED = {
  light: [[160, 64, 0], [244, 165, 96], [247, 247, 245], [107, 174, 214], [8, 69, 148]],
  dark: [[250, 190, 120], [150, 84, 30], [26, 31, 38], [44, 98, 156], [150, 200, 250]],
};

// 256 colours between the stops of a ramp.
function colours(ramps) {
  const stops = ramps[isDark() ? "dark" : "light"];
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, channel) => Math.round(from + (stops[low + 1][channel] - from) * (at - low)));
  });
}

// A small weight stays visible: colour grows with its square root.
const shade = (weight) => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, weight))));

// One pixel per value; the browser scales it up.
function paint(canvas, rows, columns, indexOf, ramps) {
  canvas.width = columns;
  canvas.height = rows;
  const table = colours(ramps), context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const [r, g, b] = table[indexOf(i)];
    image.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

function numbers(base64, Kind) {
  const raw = atob(base64), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

const percent = (share) => (share >= 0.0995 ? Math.round(100 * share) : (100 * share).toFixed(1)) + "%";

function legend(ramps, from, to) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const draw = () => paint(canvas, 1, 256, (i) => i, ramps);
  draw();
  onTheme(draw);
  return element("span", { class: "legend" }, from, canvas, to);
}

// Buttons of which one is chosen; arrow keys move between them.
function choice(label, names, chosen, pick, role = "group") {
  const tabs = role === "tablist", mark = tabs ? "aria-selected" : "aria-pressed";
  const buttons = names.map((name, i) => element("button", {
    type: "button", role: tabs ? "tab" : null, tabindex: i === chosen ? 0 : -1, [mark]: String(i === chosen),
    onclick: () => choose(i),
  }, name));
  function choose(i) {
    buttons.forEach((button, j) => {
      button.setAttribute(mark, String(i === j));
      button.tabIndex = i === j ? 0 : -1;
    });
    pick(i);
  }
  const step = { ArrowRight: 1, ArrowLeft: -1 };
  return element("div", {
    class: "segmented", role, "aria-label": label,
    onkeydown: (event) => {
      if (!(event.key in step)) return;
      const next = (buttons.indexOf(document.activeElement) + step[event.key] + buttons.length) % buttons.length;
      buttons[next].focus();
      choose(next);
      event.preventDefault();
    },
  }, ...buttons);
}

// The viewer: a tab is built when it is first opened. `loadExplanation` asks for what the last tab shows.
function showViewer(root, data, loadExplanation = null) {
  viewerLife.abort();
  viewerLife = new AbortController();
  const tabs = [["Attention", attentionPanel], ["Beam", beamPanel], ["Positions", positionsPanel]];
  if (loadExplanation) tabs.push(["Step by step", (panel) => explanationTab(panel, loadExplanation)]);
  const panels = tabs.map(([name]) => element("section", {
    class: "viewer-panel", role: "tabpanel", "aria-label": name, hidden: true,
  }));
  function open(i) {
    panels.forEach((panel, j) => { panel.hidden = i !== j; });
    if (!panels[i].hasChildNodes()) tabs[i][1](panels[i], data);
  }
  const bar = choice("Views", tabs.map(([name]) => name), 0, open, "tablist");
  bar.classList.add("viewer-tabs");
  root.classList.add("viewer");
  root.replaceChildren(bar, ...panels);
  open(0);
}

async function explanationTab(panel, load) {
  panel.append(element("p", { class: "quiet", role: "status" }, "Looking …"));
  try {
    const box = element("div");
    panel.replaceChildren(box);
    // A change is computed by whoever computes the rest, and shown in its place.
    async function show(change = null) {
      showExplanation(box, await load(change), show);
      if (change) document.getElementById("panel-touch")?.scrollIntoView();
    }
    await show();
  } catch (error) {
    panel.replaceChildren(element("p", { class: "card", role: "alert" }, error.message));
  }
}

function openPage(main, data) {
  const long = data.text.length > 160;
  const viewer = element("div");
  main.append(
    element("header", { class: long ? "long" : null }, element("p", {}, data.translation), element("p", {}, data.text)),
    viewer,
  );
  showViewer(viewer, data);
}
