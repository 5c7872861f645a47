"use strict";
// The third tab: the vector that each position adds to its word, and how alike positions are.

function positionsPanel(panel, data) {
  const table = data.positions;
  if (!table) {
    panel.append(element("p", { class: "card" }, "This model adds no vectors for positions."));
    return;
  }
  const { rows, columns } = table, values = numbers(table.values, Int16Array);
  const readout = element("p", { class: "readout quiet", "aria-live": "polite" });
  const alike = new Float32Array(rows * rows);
  const norm = Array.from({ length: rows }, (_, i) => Math.hypot(...values.subarray(i * columns, (i + 1) * columns)) || 1);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < rows; j++) {
      let product = 0;
      for (let d = 0; d < columns; d++) product += values[i * columns + d] * values[j * columns + d];
      alike[i * rows + j] = product / (norm[i] * norm[j]);
    }
  }
  const rest = () => { readout.textContent = "Point at a map: rows are positions, from 0."; };
  const signed = (value) => Math.round(127.5 * (1 + Math.max(-1, Math.min(1, value))));
  const vectors = flatMap("Vectors of positions", rows, columns, (i) => signed(values[i] / 32767), (row, column) => {
    const value = (values[row * columns + column] / 32767) * table.largest;
    readout.textContent = `Position ${row}, feature ${column}: ${value.toFixed(3)}`;
  }, rest);
  const likeness = flatMap("Likeness of positions", rows, rows, (i) => signed(alike[i]), (row, column) => {
    readout.textContent = `Positions ${row} and ${column}: cosine ${alike[row * rows + column].toFixed(3)}`;
  }, rest);
  panel.append(
    element("div", { class: "viewer-controls" },
      legend(SIGNED, `−${table.largest.toFixed(2)}`, `+${table.largest.toFixed(2)}`)),
    readout,
    element("div", { class: "card" },
      element("h3", {}, "What each position adds ", element("span", {}, "· to the vector of its word")),
      data.base ? element("p", { class: "quiet" },
        `Position p, features 2i and 2i+1: sin(p / ${data.base}^(2i/D)) and cos(p / ${data.base}^(2i/D)), D = ${columns}.`) : "",
      axes(vectors.box, "feature", columns, "position", rows)),
    element("div", { class: "card" },
      element("h3", {}, "How alike two positions are ", element("span", {}, "· cosine, from −1 to 1")),
      axes(likeness.box, "position", rows, "position", rows)),
  );
  vectors.fit(26);
  likeness.fit(18);
  rest();
}

// A map with what its columns and rows count, from 0.
function axes(box, across, columns, down, rows) {
  return element("figure", { class: "axes" },
    element("figcaption", {}, `→ ${across} 0 to ${columns - 1}`), element("figcaption", {}, `↓ ${down} 0 to ${rows - 1}`), box);
}

// A map without words along its edges, as wide as its place allows.
function flatMap(label, rows, columns, indexOf, point, leave) {
  const canvas = element("canvas", { class: "framed", role: "img", "aria-label": `${label}: ${rows} rows, ${columns} columns` });
  canvas.style.imageRendering = "pixelated";
  const draw = () => paint(canvas, rows, columns, indexOf, SIGNED);
  draw();
  onTheme(draw);
  canvas.addEventListener("pointermove", (event) => {
    const row = Math.floor((event.offsetY / canvas.clientHeight) * rows);
    const column = Math.floor((event.offsetX / canvas.clientWidth) * columns);
    if (row >= 0 && column >= 0 && row < rows && column < columns) point(row, column);
  });
  canvas.addEventListener("pointerleave", leave);
  const box = element("div", { class: "scroll" }, element("div", { class: "map" }, canvas));
  function fit(tallest) {
    // On a narrow screen a cell is less than a pixel wide: the whole map is shown, and none of it cut off.
    const cell = Math.min(tallest, box.clientWidth / columns);
    canvas.style.width = `${Math.floor(cell * columns)}px`;
    canvas.style.height = `${Math.round(Math.max(5, Math.min(tallest, 420 / rows)) * rows)}px`;
  }
  return { box, fit };
}
