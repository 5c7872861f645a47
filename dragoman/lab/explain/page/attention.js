"use strict";
// The first tab: words that light up what they look at, every head as a small map, one head as a large one.

const FULL = 65535;

// The weights of one layer and head (or the mean of the heads, head -1) between words or pieces.
function attentionMatrix(data, map, layer, head, byWords) {
  const rows = data.axes[map.rows], columns = data.axes[map.columns];
  const height = rows.pieces.length, width = columns.pieces.length, size = height * width;
  map.numbers ??= numbers(map.weights, Uint16Array);
  const heads = head < 0 ? [...Array(map.heads).keys()] : [head];
  const rowOf = byWords ? rows.words : [...Array(height).keys()];
  const columnOf = byWords ? columns.words : [...Array(width).keys()];
  const rowLabels = byWords ? rows.labels : rows.pieces, columnLabels = byWords ? columns.labels : columns.pieces;
  const weights = new Float32Array(rowLabels.length * columnLabels.length), members = new Float32Array(rowLabels.length);
  rowOf.forEach((row) => { members[row] += 1; });
  for (const h of heads) {
    const start = (layer * map.heads + h) * size;
    for (let i = 0; i < height; i++) {
      const share = 1 / (FULL * heads.length * members[rowOf[i]]), target = rowOf[i] * columnLabels.length;
      for (let j = 0; j < width; j++) weights[target + columnOf[j]] += map.numbers[start + i * width + j] * share;
    }
  }
  return { weights, rowLabels, columnLabels, rows: rowLabels.length, columns: columnLabels.length };
}

function attentionPanel(panel, data) {
  const state = { map: data.maps.length - 1, layer: 0, head: -1, byWords: true, pinned: null };
  const shown = () => data.maps[state.map];
  state.layer = shown().layers - 1;
  let matrix;
  const asking = element("div", { class: "words", role: "group" });
  const lookedAt = element("div", { class: "words", role: "group" });
  const askingTitle = element("h3"), lookedAtTitle = element("h3"), mapTitle = element("h3");
  const readout = element("p", { class: "readout quiet", "aria-live": "polite" });
  const thumbs = element("div", { class: "thumbs" }), large = element("div", { class: "scroll" });
  const big = largeMap(large, (row) => (row == null ? rest() : light("row", row, true)));

  // Light up what a row looks at, or who looks at a column.
  function light(side, index, fromMap = false) {
    const own = side === "row" ? asking : lookedAt, other = side === "row" ? lookedAt : asking;
    const count = side === "row" ? matrix.columns : matrix.rows;
    const weight = (i) => matrix.weights[side === "row" ? index * matrix.columns + i : i * matrix.columns + index];
    clear();
    own.children[index].classList.add("here");
    const found = Array.from({ length: count }, (_, i) => [weight(i), i]);
    for (const [w, i] of found) {
      other.children[i].style.setProperty("--weight", Math.sqrt(w).toFixed(3));
      other.children[i].classList.toggle("strong", w > 0.56);
    }
    const labels = side === "row" ? matrix.columnLabels : matrix.rowLabels;
    const best = found.sort((a, b) => b[0] - a[0]).slice(0, 4).filter(([w]) => w > 0.005);
    readout.replaceChildren(
      element("b", {}, own.children[index].textContent), side === "row" ? " looks at " : " is looked at by ",
      best.map(([w, i]) => `${labels[i]} ${percent(w)}`).join(", ") || "nothing much",
    );
    if (!fromMap) big.mark(side, index);
  }
  function clear() {
    for (const word of [...asking.children, ...lookedAt.children]) {
      word.classList.remove("here", "strong");
      word.style.removeProperty("--weight");
    }
    big.mark(null);
  }
  function rest() {
    if (state.pinned) return light(...state.pinned);
    clear();
    readout.textContent = "Point at a word, or move with the arrow keys; click to hold it.";
  }
  function pin(side, index, word) {
    const same = state.pinned?.[0] === side && state.pinned?.[1] === index;
    panel.querySelectorAll(".word[aria-pressed=true]").forEach((w) => w.setAttribute("aria-pressed", "false"));
    state.pinned = same ? null : [side, index];
    word.setAttribute("aria-pressed", String(!same));
    rest();
  }
  function fill(box, labels, side) {
    box.classList.toggle("many", labels.length > 40);
    box.replaceChildren(...labels.map((label, index) => {
      const special = /^(<\/?s>|>>.*<<|␣)$/.test(label);
      const word = element("button", {
        type: "button", class: special ? "word special" : "word", tabindex: index ? -1 : 0, "aria-pressed": "false",
        onmouseenter: () => light(side, index), onmouseleave: rest, onfocus: () => light(side, index), onblur: rest,
        onclick: () => pin(side, index, word),
      }, label);
      return word;
    }));
    box.onkeydown = (event) => {
      const words = [...box.children], at = words.indexOf(document.activeElement);
      const next = words[at + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN)];
      if (next) {
        words[at].tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
        event.preventDefault();
      } else if (event.key === "Escape" && state.pinned) pin(...state.pinned, words[at]);
    };
  }
  function choose(layer, head) {
    Object.assign(state, { layer, head });
    for (const thumb of thumbs.querySelectorAll(".thumb")) {
      thumb.setAttribute("aria-pressed", String(+thumb.dataset.layer === layer && +thumb.dataset.head === head));
    }
    matrix = attentionMatrix(data, shown(), layer, head, state.byWords);
    const who = head < 0 ? "mean of the heads" : `head ${head + 1}`;
    mapTitle.replaceChildren(`Layer ${layer + 1}, ${who} `, element("span", {}, "· rows ask, columns are looked at"));
    big.draw(matrix);
    rest();
  }
  function show() {
    state.pinned = null;
    const map = shown(), sides = { source: "Source", target: "Translation", shifted: "Translation before" };
    askingTitle.replaceChildren(`${sides[map.rows]} `, element("span", {}, "· asks"));
    lookedAtTitle.replaceChildren(`${sides[map.columns]} `, element("span", {}, "· is looked at"));
    matrix = attentionMatrix(data, map, 0, 0, state.byWords);
    fill(asking, matrix.rowLabels, "row");
    fill(lookedAt, matrix.columnLabels, "column");
    asking.setAttribute("aria-label", `${sides[map.rows]}: words that ask`);
    lookedAt.setAttribute("aria-label", `${sides[map.columns]}: words that are looked at`);
    fillThumbs(thumbs, data, map, state.byWords, choose);
    choose(Math.min(state.layer, map.layers - 1), Math.min(state.head, map.heads - 1));
  }

  const words = element("input", {
    type: "checkbox", role: "switch", checked: true,
    onchange: () => { state.byWords = words.checked; show(); },
  });
  const kinds = choice("Attention", data.maps.map((map) => map.title), state.map, (i) => { state.map = i; show(); });
  panel.append(
    element("div", { class: "viewer-controls" }, kinds,
      element("label", { class: "switch" }, words, "Join pieces to words"), legend(RAMPS, "0", "1")),
    readout,
    element("div", { class: "pair" }, element("div", { class: "card" }, askingTitle, asking),
      element("div", { class: "card" }, lookedAtTitle, lookedAt)),
    element("div", { class: "columns" },
      element("div", { class: "card" }, element("h3", {}, "Layers and heads"), thumbs),
      element("div", { class: "card" }, mapTitle, large)),
  );
  show();
  onTheme(show);
}

function fillThumbs(box, data, map, byWords, choose) {
  const size = `clamp(2.1rem, (100vw - 10rem) / ${map.heads + 1}, ${map.heads > 8 ? 2.6 : map.heads > 4 ? 3.2 : 4.2}rem)`;
  box.style.gridTemplateColumns = `auto repeat(${map.heads + 1}, ${size})`;
  const heads = [...Array(map.heads).keys(), -1];
  const cells = [element("span"), ...heads.map((head) => element("span", {}, head < 0 ? "mean" : `${head + 1}`))];
  for (let layer = 0; layer < map.layers; layer++) {
    cells.push(element("span", {}, `layer ${layer + 1}`));
    for (const head of heads) {
      const canvas = element("canvas"), { weights, rows, columns } = attentionMatrix(data, map, layer, head, byWords);
      paint(canvas, rows, columns, (i) => shade(weights[i]), RAMPS);
      if (Math.max(rows, columns) > 50) canvas.style.imageRendering = "auto"; // shrunk, not enlarged
      cells.push(element("button", {
        type: "button", class: "thumb", "data-layer": layer, "data-head": head, "aria-pressed": "false",
        "aria-label": `Layer ${layer + 1}, ${head < 0 ? "mean of the heads" : "head " + (head + 1)}`,
        onclick: () => choose(layer, head),
      }, canvas));
    }
  }
  box.replaceChildren(...cells);
}

// One head with its words along the edges; pointing at a cell tells `point`. A matrix may bring its own colours, words for
// a cell, and cells that nobody may see.
function largeMap(scroll, point, pick = () => {}) {
  const canvas = element("canvas", { role: "img" }), frame = element("div", { class: "cross" });
  const cells = element("canvas");
  let cell = 20, left = 0, top = 0, matrix;
  frame.hidden = true;
  scroll.append(element("div", { class: "map" }, canvas, frame));
  canvas.addEventListener("pointermove", (event) => {
    const row = Math.floor((event.offsetY - top) / cell), column = Math.floor((event.offsetX - left) / cell);
    const inside = row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns;
    point(inside ? row : null, inside ? column : null);
    if (inside) place(left + column * cell, top + row * cell, cell, cell);
    canvas.title = inside
      ? `${matrix.rowLabels[row]} → ${matrix.columnLabels[column]}: ${says(row, column)}`
      : "";
  });
  canvas.addEventListener("click", (event) => {
    const row = Math.floor((event.offsetY - top) / cell), column = Math.floor((event.offsetX - left) / cell);
    if (row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns) pick(row, column);
  });
  const says = (row, column) => matrix.says?.(row, column) ?? percent(matrix.weights[row * matrix.columns + column]);
  canvas.addEventListener("pointerleave", () => point(null));
  function place(x, y, width, height) {
    frame.hidden = false;
    Object.assign(frame.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  }
  function mark(side, index) {
    frame.hidden = side === null;
    if (side === "row") place(left, top + index * cell, matrix.columns * cell, cell);
    if (side === "column") place(left + index * cell, top, cell, matrix.rows * cell);
  }
  function draw(given) {
    matrix = given;
    const context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const font = (size) => `${size}px ${style.getPropertyValue("--sans")}`;
    const room = scroll.clientWidth || 600;
    context.font = font(13);
    const longest = (labels) => Math.min(130, Math.max(...labels.map((label) => context.measureText(label).width)) + 10);
    left = Math.ceil(longest(matrix.rowLabels));
    top = Math.ceil(longest(matrix.columnLabels));
    cell = Math.max(12, Math.min(40, Math.floor((room - left - 2) / matrix.columns)));
    const width = left + cell * matrix.columns + 1, height = top + cell * matrix.rows + 1, ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    canvas.setAttribute("aria-label", `Attention map, ${matrix.rows} rows, ${matrix.columns} columns`);
    context.scale(ratio, ratio);
    context.font = font(Math.min(13, cell));
    context.fillStyle = style.getPropertyValue("--ink");
    context.textBaseline = "middle";
    context.textAlign = "right";
    matrix.rowLabels.forEach((label, i) => context.fillText(label, left - 6, top + (i + 0.5) * cell, left - 6));
    context.textAlign = "left";
    matrix.columnLabels.forEach((label, j) => {
      context.save();
      context.translate(left + (j + 0.5) * cell, top - 6);
      context.rotate(-Math.PI / 2);
      context.fillText(label, 0, 0, top - 6);
      context.restore();
    });
    paint(cells, matrix.rows, matrix.columns, matrix.indexOf ?? ((i) => shade(matrix.weights[i])), matrix.ramps ?? RAMPS);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells, left, top, cell * matrix.columns, cell * matrix.rows);
    context.strokeStyle = style.getPropertyValue("--line");
    context.strokeRect(left - 0.5, top - 0.5, cell * matrix.columns + 1, cell * matrix.rows + 1);
    if (matrix.hidden) hatch(context);
  }
  function hatch(context) {
    context.beginPath();
    for (let i = 0; i < matrix.rows * matrix.columns; i++) {
      if (!matrix.hidden(i)) continue;
      const x = left + (i % matrix.columns) * cell, y = top + Math.floor(i / matrix.columns) * cell;
      context.moveTo(x + cell - 2, y + 2);
      context.lineTo(x + 2, y + cell - 2);
    }
    context.stroke();
  }
  function markCell(row, column) {
    place(left + column * cell, top + row * cell, cell, cell);
  }
  return { draw, mark, markCell };
}
