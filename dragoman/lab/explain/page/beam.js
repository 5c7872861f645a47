"use strict";
// The second tab: a column for each step of search, a box for each candidate, a line to what it continues.

const BOX = { width: 104, height: 28, acrossGap: 44, downGap: 7, margin: 8 };

function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The words from the root to a node.
function hypothesis(nodes, at) {
  const pieces = [];
  for (; at >= 0; at = nodes[at].parent) pieces.unshift((nodes[at].starts ? " " : "") + nodes[at].text);
  return pieces.join("").trim();
}

// Dropped candidates are shown where there are at most so many.
function beamPanel(panel, data, most = 600) {
  const nodes = data.beam, readout = element("p", { class: "readout quiet", "aria-live": "polite" });
  const dropped = element("input", { type: "checkbox", role: "switch", onchange: () => draw() });
  dropped.checked = nodes.length <= most;
  const holder = element("div", { class: "scroll" });
  let drawn = new Map(), here = -1, columns = [];

  function point(at) {
    for (const marked of holder.querySelectorAll(".here")) marked.classList.remove("here");
    here = at;
    if (at < 0) {
      readout.textContent = "Point at a box, or focus the tree and move with the arrow keys.";
      return;
    }
    for (let i = at; i >= 0; i = nodes[i].parent) drawn.get(i)?.forEach((part) => part.classList.add("here"));
    const fates = { kept: "kept", ended: "finished", dropped: "dropped" };
    readout.replaceChildren(
      element("b", {}, hypothesis(nodes, at)),
      ` · log-probability ${nodes[at].total.toFixed(2)}`,
      nodes[at].score === null ? "" : ` · score ${nodes[at].score.toFixed(2)}`,
      ` · ${fates[nodes[at].fate]}${nodes[at].best ? ", chosen" : ""}`,
    );
  }
  function draw() {
    columns = [];
    nodes.forEach((node, i) => {
      if (node.fate !== "dropped" || node.best || dropped.checked) (columns[node.step] ??= []).push(i);
    });
    const order = (i) => (nodes[i].fate === "dropped" ? 1e6 : 0) - nodes[i].total;
    columns.forEach((column) => column.sort((a, b) => order(a) - order(b)));
    const tallest = Math.max(...columns.map((column) => column.length));
    const width = BOX.margin * 2 + columns.length * (BOX.width + BOX.acrossGap) - BOX.acrossGap;
    const height = BOX.margin * 2 + tallest * (BOX.height + BOX.downGap);
    const edges = drawing("g"), boxes = drawing("g"), places = new Map();
    drawn = new Map();
    columns.forEach((column, step) => column.forEach((i, rank) => {
      const node = nodes[i], x = BOX.margin + step * (BOX.width + BOX.acrossGap);
      const y = BOX.margin + rank * (BOX.height + BOX.downGap), middle = y + BOX.height / 2, parts = [];
      places.set(i, [x + BOX.width, middle]);
      if (places.has(node.parent)) {
        const [fromX, fromY] = places.get(node.parent), bend = BOX.acrossGap / 2;
        parts.push(drawing("path", {
          class: node.best ? "edge best" : "edge",
          d: `M${fromX} ${fromY}C${fromX + bend} ${fromY} ${x - bend} ${middle} ${x} ${middle}`,
        }));
        edges.append(parts[0]);
      }
      const name = node.label.length > 9 ? node.label.slice(0, 8) + "…" : node.label;
      const box = drawing("g", { class: `node ${node.fate}${node.best ? " best" : ""}` },
        drawing("rect", { x, y, width: BOX.width, height: BOX.height }),
        drawing("text", { x: x + 8, y: middle + 4 }, name === "</s>" ? "end" : name),
        drawing("text", { x: x + BOX.width - 8, y: middle + 4, "text-anchor": "end", class: "score" },
          (node.score ?? node.total).toFixed(2)));
      box.addEventListener("mouseenter", () => point(i));
      box.addEventListener("click", () => point(i));
      parts.push(box);
      boxes.append(box);
      drawn.set(i, parts);
    }));
    const tree = drawing("svg", {
      class: "tree", width, height, tabindex: 0, role: "img",
      "aria-label": "The beam as a tree: left and right follow a hypothesis, up and down go through a step.",
    }, edges, boxes);
    tree.addEventListener("keydown", move);
    holder.replaceChildren(tree);
    point(-1);
  }
  function move(event) {
    const column = columns[nodes[here]?.step ?? 0], rank = column.indexOf(here);
    const child = () => columns[nodes[here].step + 1]?.find((i) => nodes[i].parent === here);
    const next = here < 0 ? column[0] : {
      ArrowLeft: nodes[here].parent, ArrowRight: child(), ArrowUp: column[rank - 1], ArrowDown: column[rank + 1],
    }[event.key];
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (next === undefined || next < 0) return;
    point(next);
    drawn.get(next).at(-1).scrollIntoView({ block: "nearest", inline: "center" });
  }

  const sign = (name, text) => element("span", {}, element("i", { class: name }), text);
  panel.append(
    element("div", { class: "viewer-controls" },
      element("label", { class: "switch" }, dropped, "Show dropped candidates"),
      element("span", { class: "legend" }, sign("best", "chosen"), sign("kept", "kept"), sign("ended", "finished"),
        sign("dropped", "dropped"))),
    readout,
    data.searched === data.translation ? "" : element("p", { class: "card" },
      "The translation that you gave is not the one that the search chose: “", data.searched, "”."),
    element("div", { class: "card" },
      element("h3", {}, "Search, step by step ", element("span", {},
        "· numbers are sums of log-probabilities; at an end, the score that decides: the sum divided by the length penalty")),
      holder),
  );
  draw();
}
