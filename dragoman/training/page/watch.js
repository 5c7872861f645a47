"use strict";
// Asks for the log and the looks every two seconds, and draws them. Text only ever enters as text
// nodes.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const CHARTS = [
  { kind: "train", value: "loss", title: "Training loss" },
  { kind: "train", value: "learning_rate", title: "Learning rate", exponent: true },
  { kind: "valid", value: "BLEU", title: "Validation BLEU", dots: true },
  { kind: "valid", value: "perplexity", title: "Validation perplexity", dots: true },
];
let looks = [],
  shown = -1,
  follow = true;

function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A curve over steps, with its smallest and largest value at the side.
function chart({ title, value, exponent, dots }, entries) {
  const points = entries
    .filter((entry) => Number.isFinite(entry[value]))
    .map((entry) => [entry.step, entry[value]]);
  const number = (y) => (exponent ? y.toExponential(1) : y.toFixed(2));
  const last = points.at(-1);
  const box = element(
    "div",
    { class: "chart" },
    element("h3", {}, title, element("b", {}, last ? number(last[1]) : "–")),
  );
  const width = 400,
    height = 170,
    left = 46,
    bottom = 18;
  const svg = drawing("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": last
      ? `${title}: ${number(last[1])} at step ${last[0]}`
      : `${title}: nothing yet`,
  });
  box.append(svg);
  if (!points.length) return box;
  const steps = points.map(([step]) => step),
    values = points.map(([, y]) => y);
  const low = Math.min(...values),
    high = Math.max(...values),
    end = Math.max(...steps, 1);
  const x = (step) => left + ((width - left - 8) * step) / end;
  const y = (v) => 10 + (height - bottom - 16) * (high === low ? 0.5 : (high - v) / (high - low));
  for (const [v, at] of [
    [high, y(high)],
    [low, y(low)],
  ]) {
    svg.append(
      drawing("line", { x1: left, x2: width, y1: at, y2: at }),
      drawing("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, number(v)),
    );
    if (high === low) break;
  }
  svg.append(
    drawing("text", { x: left, y: height - 3 }, "0"),
    drawing(
      "text",
      { x: width - 2, y: height - 3, "text-anchor": "end" },
      `step ${end.toLocaleString("en")}`,
    ),
  );
  svg.append(
    drawing("path", {
      d: points
        .map(([step, v], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(v).toFixed(1)}`)
        .join(""),
    }),
  );
  if (dots || points.length === 1)
    points.forEach(([step, v]) => svg.append(drawing("circle", { cx: x(step), cy: y(v), r: 3 })));
  return box;
}

// Where the decoder looks: words of the source across, of the reference down.
function attentionMap({ rows, columns, weights }) {
  const values = numbers(weights, Uint8Array),
    cell = columns.length > 18 ? 12 : 18,
    ratio = devicePixelRatio || 1;
  const canvas = element("canvas", {
    role: "img",
    "aria-label": `Attention: ${rows
      .map((row, i) => {
        const line = values.subarray(i * columns.length, (i + 1) * columns.length);
        return `${row} looks at ${columns[line.indexOf(Math.max(...line))]}`;
      })
      .join(", ")}`,
  });
  const context = canvas.getContext("2d"),
    style = getComputedStyle(document.documentElement);
  context.font = `12px ${style.getPropertyValue("--sans")}`;
  const room = (labels) =>
    Math.ceil(Math.min(90, Math.max(...labels.map((label) => context.measureText(label).width)))) +
    8;
  const left = room(rows),
    top = room(columns),
    width = left + cell * columns.length + 2,
    height = top + cell * rows.length + 2;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  context.scale(ratio, ratio);
  context.font = `${Math.min(12, cell)}px ${style.getPropertyValue("--sans")}`;
  context.fillStyle = style.getPropertyValue("--ink");
  context.textBaseline = "middle";
  context.textAlign = "right";
  rows.forEach((label, i) => context.fillText(label, left - 5, top + (i + 0.5) * cell, left - 5));
  context.textAlign = "left";
  columns.forEach((label, j) => {
    context.save();
    context.translate(left + (j + 0.5) * cell, top - 5);
    context.rotate(-Math.PI / 2);
    context.fillText(label, 0, 0, top - 5);
    context.restore();
  });
  const cells = element("canvas");
  paint(cells, rows.length, columns.length, (i) => shade(values[i] / 255), RAMPS);
  context.imageSmoothingEnabled = false;
  context.drawImage(cells, left, top, cell * columns.length, cell * rows.length);
  return element("div", { class: "map-holder" }, canvas);
}

function drawLook() {
  const look = looks[shown];
  if (!look) return;
  $("when").textContent = look.step.toLocaleString("en");
  $("time").setAttribute("aria-valuetext", `after step ${look.step}`);
  $("sentences").replaceChildren(
    ...look.sentences.map((sentence) =>
      element(
        "article",
        { class: "sentence" },
        element("p", { class: "said" }, sentence.translation || "…"),
        element(
          "dl",
          {},
          element("dt", {}, "source"),
          element("dd", {}, sentence.source),
          element("dt", {}, "reference"),
          element("dd", {}, sentence.reference),
        ),
        sentence.attention ? attentionMap(sentence.attention) : "",
      ),
    ),
  );
}

async function refresh() {
  let log, about;
  try {
    log = await (await fetch("log")).text();
    about = await (await fetch("looks")).json();
  } catch {
    $("state").textContent =
      "The run has ended, or was stopped. This is the last that was seen of it.";
    return;
  }
  const entries = log.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return []; // an empty line, or one that is being written
    }
  });
  const step = Math.max(0, ...entries.map((entry) => entry.step));
  $("about").textContent = `· ${about.architecture}`;
  $("state").textContent = step
    ? `step ${step.toLocaleString("en")} of ${about.lastStep.toLocaleString("en")}`
    : "Waiting for the first steps …";
  $("progress").value = step / about.lastStep;
  $("charts").replaceChildren(
    ...CHARTS.map((one) =>
      chart(
        one,
        entries.filter((entry) => entry.kind === one.kind),
      ),
    ),
  );
  if (about.looks.length !== looks.length) {
    looks = about.looks;
    $("time").max = looks.length - 1;
    if (follow) $("time").value = shown = looks.length - 1;
    drawLook();
  }
  setTimeout(refresh, 2000);
}

followSystemTheme();
document.addEventListener("theme", drawLook);
$("time").addEventListener("input", () => {
  shown = +$("time").value;
  follow = shown === looks.length - 1;
  drawLook();
});
refresh();
