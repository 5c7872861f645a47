"use strict";
// The pictures of the twelve panels. Each function builds its part of the page once and gives
// `view.onChange` a function that fills it for what is chosen.

const card = (title, ...children) =>
  element("div", { class: "card" }, element("h3", {}, title), ...children);
const readLine = () => element("p", { class: "sum" });

// New children for a box. Whoever was on one of the old ones is then on the one in its place.
function refill(box, children) {
  const at = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(...children);
  if (at >= 0) box.children[at]?.focus({ preventScroll: true });
}

function subwordsPanel(body, data, view) {
  const words = element("div", {
    class: "pieces wrap",
    role: "group",
    "aria-label": "Words of the source",
  });
  const steps = element("ol", { class: "merges" }),
    pieces = element("div", {
      class: "pieces wrap ids",
      role: "group",
      "aria-label": "Pieces of the source",
    });
  const labels = data.merges.map((way) => way.at(-1).join("").replace("▁", ""));
  const before =
    data.axes.source.words.length && /^(>>.*<<|<s>)$/.test(data.axes.source.pieces[0]) ? 1 : 0;
  if (data.merges.length)
    body.append(card("Words", words), card("Merges, in the order they are made", steps));
  body.append(card("Pieces and their rows in the table E", pieces));
  view.onChange(() => {
    const chosen = Math.max(
      0,
      Math.min(labels.length - 1, data.axes.source.words[view.source] - before),
    );
    refill(
      words,
      labels.map((label, i) =>
        element(
          "button",
          {
            type: "button",
            class: "piece",
            "aria-pressed": String(i === chosen),
            onclick: () =>
              view.change({ part: 0, source: data.axes.source.words.indexOf(i + before) }),
          },
          label,
        ),
      ),
    );
    const way = data.merges[chosen] ?? [];
    steps.replaceChildren(
      ...way.map((parts, number) => {
        // the first part that is not where it was is the new one
        const merged = number ? parts.findIndex((part, i) => part !== way[number - 1][i]) : -1;
        return element(
          "li",
          {},
          ...parts.map((part, i) =>
            element("span", { class: i === merged ? "part new" : "part" }, part),
          ),
        );
      }),
    );
    refill(
      pieces,
      data.axes.source.pieces.map((piece, i) =>
        element(
          "button",
          {
            type: "button",
            class: "piece",
            "aria-pressed": String(i === view.source),
            onclick: () => view.change({ part: 0, source: i }),
          },
          piece,
          element("small", {}, data.axes.source.ids[i]),
        ),
      ),
    );
  });
}

function embeddingPanel(body, data, view) {
  const vectors = strips("the word's vector"),
    title = element("h3"),
    table = data.embedding.positions;
  body.append(element("div", { class: "card" }, title, vectors.box));
  const added = data.model.join === "add" && table;
  view.onChange(() => {
    const side = data.embedding[view.rows()],
      words = vector(side.words, view.row()),
      x = vector(side.x, view.row());
    // the decoder has read the piece before the one that it is about to say
    title.textContent =
      view.rows() === "source"
        ? `“${view.rowLabels()[view.row()]}”, feature by feature`
        : `“${data.axes.said.pieces[view.target]}”, which is read when ` +
          `“${view.rowLabels()[view.row()]}” is said`;
    const rows = [{ name: "√D · E[w]", values: words }];
    if (added)
      rows.push({ sign: "+", name: "position", values: x.map((value, i) => value - words[i]) });
    if (added || data.model.join === "concat") rows.push({ sign: "=", name: "x", values: x });
    vectors.draw(rows);
  });
  if (table) body.append(positionCard(data, table, view));
}

// The table of positions as a map, and one feature of it as a wave.
function positionCard(data, table, view) {
  const [places, features] = table.shape,
    values = decoded(table),
    largest = Math.max(...Array.from(values, Math.abs)) || 1;
  const slider = (label, most) =>
    element("input", {
      type: "range",
      min: 0,
      max: most,
      value: 0,
      "aria-label": label,
      oninput: () => show(),
    });
  const feature = slider("Feature", features - 1),
    place = slider("Position", places - 1);
  feature.value = Math.min(8, features - 1);
  const said = readLine(),
    wave = drawing("svg", { viewBox: "0 0 640 150", class: "wave", role: "img" });
  const map = element("canvas", {
    class: "framed position-map",
    role: "img",
    "aria-label": `Table of positions: ${places} positions, ${features} features`,
  });
  const frame = element("div", { class: "position-mark" }),
    holder = element("div", { class: "position-holder" }, map, frame);
  const paintMap = () =>
    paint(map, places, features, (i) => signedIndex(values[i], largest), SIGNED);
  map.addEventListener("pointermove", (event) => {
    feature.value = Math.floor((event.offsetX / map.clientWidth) * features);
    place.value = Math.floor((event.offsetY / map.clientHeight) * places);
    show();
  });
  const y = (value) => 75 - (65 * value) / largest,
    x = (at) => 10 + (620 * at) / (places - 1);
  const curve = (d) =>
    Array.from(
      { length: places },
      (_, t) => `${t ? "L" : "M"}${x(t).toFixed(1)} ${y(values[t * features + d]).toFixed(1)}`,
    ).join("");
  function show() {
    const d = +feature.value,
      t = +place.value,
      value = values[t * features + d],
      partner = d ^ 1;
    wave.replaceChildren(
      drawing("line", { x1: 10, x2: 630, y1: 75, y2: 75, class: "axis" }),
      ...(partner < features ? [drawing("path", { d: curve(partner), class: "curve faint" })] : []),
      drawing("path", { d: curve(d), class: "curve" }),
      drawing("line", { x1: x(t), x2: x(t), y1: 8, y2: 142, class: "cursor" }),
      drawing("circle", { cx: x(t), cy: y(value), r: 5, class: "dot" }),
    );
    for (const moved of [feature, place])
      moved.setAttribute("aria-valuetext", `position ${t}, feature ${d}: ${fixed(value, 3)}`);
    wave.setAttribute(
      "aria-label",
      `Feature ${d} over ${places} positions; at position ${t} it is ${fixed(value, 3)}`,
    );
    const length = 2 * Math.PI * data.model.base ** ((d - (d % 2)) / features);
    const period =
      data.model.positions === "sinusoidal"
        ? ` · one turn takes ${fixed(length, 1)} positions`
        : "";
    said.replaceChildren(
      `position ${t}, feature ${d}: `,
      element("b", {}, fixed(value, 3)),
      period,
    );
    Object.assign(frame.style, {
      left: `${(100 * d) / features}%`,
      width: `${100 / features}%`,
      top: `${(100 * t) / places}%`,
      height: `${100 / places}%`,
    });
  }
  view.onChange(() => {
    paintMap();
    place.value =
      view.rows() === "target" && data.model.architecture === "decoder-only"
        ? data.axes.source.pieces.length + view.target
        : view.row();
    show();
  });
  return card(
    "Positions",
    wave,
    element(
      "div",
      { class: "sliders" },
      element("label", {}, "feature", feature),
      element("label", {}, "position", place),
    ),
    said,
    holder,
  );
}

function queriesPanel(body, data, view) {
  const input = strips("what enters attention"),
    three = strips("query, key and value");
  const first = card("What enters", input.box),
    title = element("h3");
  body.append(first, element("div", { class: "card" }, title, three.box));
  view.onChange(() => {
    const here = attentionStream(data, view.attention(), view.layer, view.row()),
      look = view.look();
    first.hidden = !here || data.model.everyLayer;
    if (here)
      input.draw([
        {
          name: data.model.norm === "pre" && view.look().norm ? "norm(x)" : "x",
          values: here.inner,
        },
      ]);
    const crossing = view.attention().columns === "source" && view.rows() === "target";
    const other = crossing ? view.key : view.own(),
      label = crossing ? ` of ${view.columnLabels()[other]}` : "";
    title.textContent = `Head ${view.head + 1}: ${look.q.shape.at(-1)} features`;
    const rows = [
      ["q", look.q, view.row(), ""],
      ["k", look.k, other, label],
      ["v", look.v, other, label],
    ];
    // in some similarities queries and keys have fewer features than values
    const width = look.v.shape.at(-1);
    three.draw(
      rows
        .filter(([, from]) => from.shape.at(-1) === width)
        .map(([name, from, at, of]) => ({ name: name + of, values: vector(from, view.head, at) })),
    );
  });
}

function scoresPanel(body, data, view) {
  const pair = strips("query times key"),
    said = readLine(),
    holder = element("div", { class: "scroll" });
  const title = element("h3"),
    pairCard = element("div", { class: "card" }, title, pair.box, said);
  const map = largeMap(
    holder,
    () => mark(),
    (row, column) => view.change({ [view.rows()]: row, key: column }),
  );
  const mark = () => map.markCell(view.row(), view.key);
  const mapTitle = element("h3");
  body.append(pairCard, element("div", { class: "card" }, mapTitle, holder));
  view.onChange(() => {
    const look = view.look(),
      row = view.row(),
      key = view.key,
      score = vector(look.scores, view.head, row)[key];
    const dots = ["dot", "scaled-dot", "cosine", "plain-cosine", "general", "qk-norm"].includes(
      data.model.similarity,
    );
    const q = vector(look.q, view.head, row),
      k = vector(look.k, view.head, key);
    title.textContent = `“${view.rowLabels()[row]}” asks “${view.columnLabels()[key]}”`;
    mapTitle.textContent =
      "All scores of this head: rows ask, columns answer" +
      (view.rows() === "target" ? "; a row is named after what it is about to say" : "") +
      (look.mask ? "; hatched cells may not be seen" : "");
    pair.box.hidden = !dots;
    const scaled = ["scaled-dot", "qk-norm"].includes(data.model.similarity),
      root = Math.sqrt(q.length);
    if (dots) {
      const product = q.map((value, i) => value * k[i]),
        total = product.reduce((a, b) => a + b, 0);
      pair.draw([
        { name: "q", values: q },
        { sign: "×", name: "k", values: k },
        { sign: "=", name: "product", values: product, scale: scaleOf([product]) },
      ]);
      const rest = score - total / (scaled ? root : 1);
      said.replaceChildren(
        `added up: ${fixed(total)}`,
        scaled ? `, divided by √${q.length} = ${fixed(root)}` : "",
        Math.abs(rest) > 0.05 ? `, and ${fixed(rest)} for the distance` : "",
        ": score ",
        element("b", {}, fixed(score)),
      );
    } else said.replaceChildren("score ", element("b", {}, fixed(score)));
    const mask = look.mask && decoded(look.mask);
    if (mask && !mask[row * look.mask.shape[1] + key]) said.append(" — but masked: −∞");
    const scores = vector(look.scores, view.head).length && decoded(look.scores),
      [, height, width] = look.scores.shape;
    const start = view.head * height * width,
      seen = scores.subarray(start, start + height * width);
    const scale = scaleOf([seen]);
    map.draw({
      rows: height,
      columns: width,
      rowLabels: view.rowLabels(),
      columnLabels: view.columnLabels(),
      weights: seen,
      ramps: SIGNED,
      indexOf: (i) => (mask && !mask[i] ? 128 : signedIndex(seen[i], scale)),
      hidden: mask ? (i) => !mask[i] : null,
      says: (i, j) => (mask && !mask[i * width + j] ? "−∞" : fixed(seen[i * width + j])),
    });
    mark();
  });
}

function weightsPanel(body, data, view) {
  const rows = element("tbody"),
    title = element("h3");
  const heads = [
    ["word", ""],
    ["score e", "number"],
    ["exp(e − max)", "number exp"],
    ["weight α", ""],
    ["value v", ""],
  ];
  const table = element(
    "table",
    { class: "weights" },
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...heads.map(([name, kind]) => element("th", { scope: "col", class: kind || null }, name)),
      ),
    ),
    rows,
  );
  body.append(
    element(
      "div",
      { class: "card" },
      title,
      element(
        "div",
        {
          class: "scroll tall",
          tabindex: 0,
          role: "group",
          "aria-label": "Scores, weights and values of all words",
        },
        table,
      ),
    ),
  );
  view.onChange(() => {
    const look = view.look(),
      row = view.row(),
      weights = view.weights(),
      scores = vector(look.scores, view.head, row);
    const mask = look.mask && vector(look.mask, row),
      seen = (j) => !mask || mask[j];
    const most = Math.max(...Array.from(scores).filter((_, j) => seen(j))),
      sum = weightedSum(look, view.head, row);
    const scale = scaleOf(Array.from(weights, (_, j) => vector(look.v, view.head, j)));
    const where = {
      source: "the source",
      said: "what was said",
      both: "the source and what was said",
    }[view.attention().columns];
    title.textContent = `“${view.rowLabels()[row]}” looks at ${where}`;
    rows.replaceChildren(
      ...Array.from(weights, (weight, j) =>
        element(
          "tr",
          {
            class: [j === view.key ? "here" : "", seen(j) ? "" : "masked"].join(" ").trim() || null,
            onclick: () => view.change({ key: j }),
          },
          element("th", { scope: "row" }, view.columnLabels()[j]),
          element("td", { class: "number" }, seen(j) ? fixed(scores[j]) : "−∞"),
          element(
            "td",
            { class: "number exp" },
            seen(j) ? Math.exp(scores[j] - most).toFixed(3) : "0",
          ),
          element("td", { class: "bar" }, bar(weight, 1), element("span", {}, percent(weight))),
          element(
            "td",
            { class: "strip-cell" },
            thinStrip(vector(look.v, view.head, j), scale, `value of ${view.columnLabels()[j]}`),
          ),
        ),
      ),
      element(
        "tr",
        { class: "total" },
        element("th", { scope: "row" }, "sum"),
        element("td", { class: "number" }),
        element("td", { class: "number exp" }),
        element(
          "td",
          { class: "bar" },
          element("span", {}, percent(weights.reduce((a, b) => a + b, 0))),
        ),
        element("td", { class: "strip-cell" }, thinStrip(sum, scale, "the weighted sum y")),
      ),
    );
  });
}

function bar(share, most) {
  const full = element("i", { class: "bar-full", "aria-hidden": "true" });
  full.style.setProperty("--share", Math.max(0, Math.min(1, share / most)).toFixed(4));
  return full;
}

function headsPanel(body, data, view) {
  const list = element("div", { class: "heads", role: "group", "aria-label": "Heads" }),
    joined = strips("the heads joined");
  body.append(
    card("Where each head looks most, and what it brings", list),
    card("All heads, mixed by one matrix", joined.box),
  );
  view.onChange(() => {
    const look = view.look(),
      row = view.row(),
      outputs = Array.from({ length: view.heads() }, (_, h) => weightedSum(look, h, row));
    const scale = scaleOf(outputs);
    refill(
      list,
      outputs.map((y, h) => {
        const weights = view.weights(h),
          best = argmax(weights);
        return element(
          "button",
          {
            type: "button",
            "aria-pressed": String(h === view.head),
            onclick: () => view.change({ head: h }),
          },
          element("span", { class: "head-name" }, `head ${h + 1}`),
          element(
            "span",
            { class: "head-best" },
            `${view.columnLabels()[best]} ${percent(weights[best])}`,
          ),
          thinStrip(y, scale, `output of head ${h + 1}`),
        );
      }),
    );
    joined.draw([{ name: "f", values: vector(look.f, row) }]);
  });
}

// Mean and spread, beside a strip.
function spread(values) {
  const [mean, deviation] = moments(values);
  return `μ ${fixed(mean)} · σ ${fixed(deviation)}`;
}

// The lines of a sublayer in the order it computes them.
function streamRows(data, here, norm, name) {
  const line = (sign, label, values) => ({ sign, name: label, values, note: spread(values) });
  const added = data.model.residual ? "+" : "";
  const rows = [line("", "x", here.x)];
  const apart = (row) => ({ ...row, scale: scaleOf([row.values]) });
  if (data.model.norm === "pre" && norm) rows.push(apart(line("", "norm(x)", here.inner)));
  rows.push(line(added, name, here.f), line("=", "sum", here.sum));
  if (data.model.norm !== "pre" && norm) rows.push(apart(line("", "norm(sum)", here.after)));
  return rows;
}

function normPanel(body, data, view) {
  const lines = strips("the vector before and after"),
    title = element("h3");
  body.append(element("div", { class: "card" }, title, lines.box));
  view.onChange(() => {
    const here = attentionStream(data, view.attention(), view.layer, view.row());
    const word = view.rowLabels()[view.row()],
      kind = view.attention().title.toLowerCase();
    title.textContent = `“${word}” in layer ${view.layer + 1}, around ${kind} attention`;
    lines.draw(streamRows(data, here, view.look().norm, "attention"));
  });
}

function feedForwardPanel(body, data, view) {
  const canvas = element("canvas", { class: "framed units", role: "img" }),
    frame = element("div", { class: "position-mark" });
  const best = element("div", {
    class: "pieces wrap",
    role: "group",
    "aria-label": "Units that fire most",
  });
  const title = element("h3"),
    unitTitle = element("h3"),
    fires = element("div", { class: "unit-words" }),
    lines = strips("the vector around the network");
  let chosen = -1,
    follow = true;
  const choose = (unit) => {
    chosen = unit;
    follow = false;
    fill();
  };
  const layers = () => data.feedForward[view.rows()],
    layer = () => layers()[Math.min(view.layer, layers().length - 1)];
  body.append(
    element(
      "div",
      { class: "card" },
      title,
      element("div", { class: "position-holder" }, canvas, frame),
      best,
    ),
    element("div", { class: "card" }, unitTitle, fires),
    card("Added to what was there", lines.box),
  );
  canvas.addEventListener("click", (event) => {
    const units = layer().hidden.shape[1],
      columns = canvas.width,
      rows = canvas.height;
    const unit =
      Math.floor((event.offsetY / canvas.clientHeight) * rows) * columns +
      Math.floor((event.offsetX / canvas.clientWidth) * columns);
    if (unit < units) choose(unit);
  });
  function fill() {
    const hidden = vector(layer().hidden, view.row()),
      columns = Math.min(hidden.length, 64),
      rows = Math.ceil(hidden.length / columns);
    const order = Array.from(hidden, (_, i) => i)
      .sort((a, b) => hidden[b] - hidden[a])
      .slice(0, 8);
    if (follow || chosen >= hidden.length) chosen = order[0];
    const largest = Math.max(...hidden) || 1,
      firing = hidden.reduce((sum, value) => sum + (value > 0), 0);
    paint(canvas, rows, columns, (i) => shade(Math.max(0, hidden[i] ?? 0) / largest), RAMPS);
    canvas.setAttribute(
      "aria-label",
      `${hidden.length} hidden units, ${firing} of them above zero`,
    );
    const share = percent(firing / hidden.length);
    title.textContent = `${counted(firing)} of ${counted(hidden.length)} units fire (${share})`;
    Object.assign(frame.style, {
      left: `${(100 * (chosen % columns)) / columns}%`,
      top: `${(100 * Math.floor(chosen / columns)) / rows}%`,
      width: `${100 / columns}%`,
      height: `${100 / rows}%`,
    });
    refill(
      best,
      order.map((unit) =>
        element(
          "button",
          {
            type: "button",
            class: "piece",
            "aria-pressed": String(unit === chosen),
            onclick: () => choose(unit),
          },
          `unit ${unit}`,
          element("small", {}, fixed(hidden[unit])),
        ),
      ),
    );
    const all = view.rowLabels().map((_, i) => vector(layer().hidden, i)[chosen]),
      most = Math.max(...all, 1e-9);
    unitTitle.textContent = `Unit ${chosen} for every word`;
    refill(
      fires,
      all.map((value, i) =>
        element(
          "button",
          {
            type: "button",
            class: i === view.row() ? "here" : null,
            onclick: () => view.change({ [view.rows()]: i }),
          },
          element("span", {}, view.rowLabels()[i]),
          bar(value, most),
          element("small", {}, fixed(value)),
        ),
      ),
    );
  }
  view.onChange(() => {
    follow = true;
    fill();
    const here = feedForwardStream(
      data,
      view.rows(),
      Math.min(view.layer, layers().length - 1),
      view.row(),
    );
    lines.draw(streamRows(data, here, layer().norm, "network"));
  });
}

function crossPanel(body, data, view) {
  const number = data.parts.findIndex(
      (part) => part.rows === "target" && part.columns === "source",
    ),
    part = data.parts[number];
  const title = element("h3"),
    holder = element("div", {
      class: "scroll tall",
      tabindex: 0,
      role: "group",
      "aria-label": "Links between the translation and the source",
    });
  const three = strips("memory, key and value"),
    small = strips("key and value"),
    from = element("h3");
  const memoryCard = element("div", { class: "card" }, from, three.box, small.box);
  body.append(element("div", { class: "card" }, title, holder), memoryCard);
  view.onChange(() => {
    const here = view.part === number,
      layer = here ? view.layer : Math.max(0, part.layers.length - 1);
    const look = part.layers[layer],
      head = Math.min(view.head, look.weights.shape[0] - 1);
    const weights = vector(look.weights, head, view.target),
      key = here ? view.key : argmax(weights);
    const word = data.axes.target.pieces[view.target];
    title.textContent = `Layer ${layer + 1}, head ${head + 1}: “${word}” looks at the source`;
    holder.replaceChildren(
      links(
        data,
        look,
        head,
        view.target,
        (t) => view.change({ part: number, layer, head, target: t }),
        (s) => view.change({ part: number, layer, head, key: s }),
      ),
    );
    const memory = data.memory[Math.min(layer, data.memory.length - 1)];
    from.textContent = `From the encoder: “${data.axes.source.pieces[key]}”`;
    three.box.hidden = !memory;
    if (memory)
      three.draw([{ name: "m", values: vector(memory, key), note: spread(vector(memory, key)) }]);
    const rows = [
      ["k", look.k],
      ["v", look.v],
    ].filter(([, packed]) => packed.shape.at(-1) === look.v.shape.at(-1));
    small.draw(rows.map(([name, packed]) => ({ name, values: vector(packed, head, key) })));
  });
}

// Two columns of words and curves between them, the chosen one's strong.
function links(data, look, head, chosen, pickTarget, pickSource) {
  const source = data.axes.source.pieces,
    target = data.axes.target.pieces,
    weights = vector(look.weights, head, chosen),
    most = argmax(weights),
    step = Math.max(source.length, target.length) > 24 ? 20 : 26;
  const height = step * Math.max(source.length, target.length) + 8,
    width = 440,
    left = 140,
    right = 300;
  const svg = drawing("svg", {
    class: "links",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `“${target[chosen]}” looks at ${best(weights, source)}`,
  });
  const y = (i) => 4 + step * (i + 0.5),
    curves = drawing("g");
  target.forEach((_, t) =>
    vector(look.weights, head, t).forEach((weight, s) => {
      if (weight < 0.02 && t !== chosen) return;
      const curve = drawing("path", {
        class: t === chosen ? "link chosen" : "link",
        d: `M${left + 6} ${y(s)}C${left + 70} ${y(s)} ${right - 70} ${y(t)} ${right - 6} ${y(t)}`,
      });
      curve.style.opacity =
        t === chosen ? Math.sqrt(weight).toFixed(3) : (0.35 * weight).toFixed(3);
      curve.style.strokeWidth = (t === chosen ? 1 + 5 * weight : 1 + 2 * weight).toFixed(2);
      curves.append(curve);
    }),
  );
  const word = (text, x, at, anchor, name, pick) => {
    const made = drawing("text", { x, y: at, "text-anchor": anchor, class: name }, text);
    made.addEventListener("click", pick);
    return made;
  };
  svg.append(
    curves,
    ...source.map((text, s) =>
      word(text, left, y(s) + 4, "end", s === most ? "strong" : "", () => pickSource(s)),
    ),
    ...target.map((text, t) =>
      word(text, right, y(t) + 4, "start", t === chosen ? "chosen" : "", () => pickTarget(t)),
    ),
  );
  return svg;
}

const best = (weights, labels) =>
  Array.from(weights, (w, i) => [w, i])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 3)
    .map(([w, i]) => `${labels[i]} ${percent(w)}`)
    .join(", ");

function nextWordPanel(body, data, view) {
  const { steps, temperatures } = data.output,
    words = pieceRow("The translation, piece by piece", (i) => view.change({ target: i }));
  const slider = element("input", {
    type: "range",
    min: 0,
    max: temperatures.length - 1,
    value: temperatures.indexOf(1),
    "aria-label": "Temperature",
    oninput: () => fill(),
  });
  const said = element("output"),
    list = element("tbody"),
    rest = readLine();
  body.append(
    element(
      "div",
      { class: "card" },
      element("h3", {}, "The next piece"),
      words.box,
      element("label", { class: "temperature" }, "temperature τ", slider, said),
      element(
        "table",
        { class: "logits" },
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            ...["piece", "logit z", "probability"].map((name) =>
              element("th", { scope: "col" }, name),
            ),
          ),
        ),
        list,
      ),
      rest,
    ),
  );
  function fill() {
    const step = steps[view.target],
      at = +slider.value,
      temperature = temperatures[at];
    const shares = step.logits.map((logit) => Math.exp(logit / temperature - step.normalisers[at]));
    said.textContent = temperature.toFixed(1);
    slider.setAttribute("aria-valuetext", `temperature ${temperature.toFixed(1)}`);
    list.replaceChildren(
      ...step.pieces.map((piece, i) =>
        element(
          "tr",
          { class: i === step.chosen ? "here" : null },
          element("th", { scope: "row" }, piece === "</s>" ? "</s> (the end)" : piece),
          element("td", { class: "number" }, fixed(step.logits[i])),
          element(
            "td",
            { class: "bar" },
            bar(shares[i], 1),
            element("span", {}, percent(shares[i])),
          ),
        ),
      ),
    );
    const others = Math.max(0, 1 - shares.reduce((a, b) => a + b, 0));
    rest.textContent =
      `The other ${counted(data.model.vocabulary - step.pieces.length)} pieces share ` +
      `${percent(others)}. ` +
      (step.rank === 1
        ? "The piece that was said is the likeliest here."
        : `The piece that was said is number ${counted(step.rank)} here: ` +
          (data.translation === data.searched
            ? "search compares sentences, not pieces."
            : "this translation was given, not searched for."));
  }
  view.onChange(() => {
    words.draw(data.axes.target.pieces, view.target);
    fill();
  });
}

function cachePanel(body, data, view) {
  const number = data.parts.findIndex(
      (part) => part.rows === "target" && part.columns !== "source",
    ),
    part = data.parts[number];
  const step = element("input", {
    type: "range",
    min: 0,
    max: data.axes.target.pieces.length - 1,
    "aria-label": "Step",
    oninput: () => view.change({ target: +step.value }),
  });
  const title = element("h3"),
    said = readLine(),
    rows = element("tbody");
  const table = element(
    "table",
    { class: "cache" },
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...["read", "key", "value"].map((name) => element("th", { scope: "col" }, name)),
      ),
    ),
    rows,
  );
  body.append(
    element(
      "div",
      { class: "card" },
      title,
      element("label", { class: "temperature" }, "step", step),
      element(
        "div",
        { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "Keys and values kept" },
        table,
      ),
      said,
    ),
  );
  view.onChange(() => {
    const layer = view.part === number ? view.layer : 0,
      look = part.layers[layer],
      head = Math.min(view.head, look.k.shape[0] - 1);
    const labels = data.axes[part.columns].pieces,
      before = labels.length - data.axes.said.pieces.length,
      now = before + view.target;
    const keys = labels.map((_, i) => vector(look.k, head, i)),
      values = labels.map((_, i) => vector(look.v, head, i));
    const scales = [scaleOf(keys), scaleOf(values)];
    step.value = view.target;
    step.setAttribute("aria-valuetext", `step ${view.target + 1}: reads ${labels[now]}`);
    title.textContent =
      `Layer ${layer + 1}, head ${head + 1}, step ${view.target + 1}: ` +
      `reads “${labels[now]}”, says “${data.axes.target.pieces[view.target]}”`;
    rows.replaceChildren(
      ...labels.map((label, i) =>
        element(
          "tr",
          { class: i === now ? "here" : i > now ? "later" : null },
          element("th", { scope: "row" }, label),
          ...[keys, values].map((vectors, which) =>
            element(
              "td",
              { class: "strip-cell" },
              i <= now
                ? thinStrip(vectors[i], scales[which], `${which ? "value" : "key"} of ${label}`)
                : "",
            ),
          ),
        ),
      ),
    );
    if (rows.children[now].offsetParent)
      rows.closest(".scroll").scrollTop = rows.children[now].offsetTop - 160;
    const each = look.k.shape[0] * (look.k.shape[2] + look.v.shape[2]) * part.layers.length,
      count = each * (now + 1),
      again = ((now + 1) * (now + 2)) / 2;
    said.textContent =
      `${now + 1} × ${counted(each)} = ${counted(count)} numbers are kept, ` +
      `over all layers and heads. Without them, ${counted(again)} positions would have been ` +
      `computed by now in place of ${now + 1}.`;
  });
}

function beamSearchPanel(body, data) {
  const tree = element("div", { class: "viewer-panel" });
  beamPanel(tree, data, 40);
  const rows = data.finished.map(({ node, length, divisor, score }) =>
    element(
      "tr",
      { class: data.beam[node].best ? "here" : null },
      element("th", { scope: "row" }, hypothesis(data.beam, data.beam[node].parent) || "(nothing)"),
      ...[data.beam[node].total, length, divisor, score].map((value, i) =>
        element("td", { class: "number" }, i === 1 ? value : fixed(value)),
      ),
    ),
  );
  const names = ["finished", "log p", "n", "lp(n)", "score"];
  body.append(
    tree,
    card(
      "Finished sentences, best score first",
      element(
        "div",
        { class: "scroll", tabindex: 0, role: "group", "aria-label": "Finished sentences" },
        element(
          "table",
          { class: "finished" },
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              ...names.map((name, i) =>
                element("th", { scope: "col", class: i ? "number" : null }, name),
              ),
            ),
          ),
          element("tbody", {}, ...rows),
        ),
      ),
    ),
  );
}

const EXPLAIN_PANELS = {
  subwords: subwordsPanel,
  embedding: embeddingPanel,
  queries: queriesPanel,
  scores: scoresPanel,
  weights: weightsPanel,
  heads: headsPanel,
  norm: normPanel,
  "feed-forward": feedForwardPanel,
  cross: crossPanel,
  "next-word": nextWordPanel,
  cache: cachePanel,
  beam: beamSearchPanel,
};
