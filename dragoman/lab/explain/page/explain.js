"use strict";
// A forward pass step by step: what all panels share. Arrays and their rows, the chosen word, layer
// and head, strips of features, the frame of a panel, the tour. Text only ever enters as text
// nodes; formulas are parsed as MathML.

// Every 16-bit float, decoded once.
let halves = null;
function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let i = 0; i < 65536; i++) {
    const sign = i >> 15 ? -1 : 1,
      exponent = (i >> 10) & 31,
      fraction = i & 1023;
    halves[i] =
      exponent === 31
        ? fraction
          ? NaN
          : sign * Infinity
        : exponent
          ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024)
          : sign * 2 ** -14 * (fraction / 1024);
  }
  return halves;
}

// The numbers of a packed array, decoded on first use.
function decoded(packed) {
  if (packed.values) return packed.values;
  if (packed.bits) packed.values = numbers(packed.bits, Uint8Array);
  else if (packed.halves)
    packed.values = Float32Array.from(numbers(packed.halves, Uint16Array), (i) => halfTable()[i]);
  else {
    const scales = numbers(packed.scales, Float32Array);
    packed.values = Float32Array.from(
      numbers(packed.bytes, Int8Array),
      (n, i) => n * scales[Math.floor(i / packed.block)],
    );
  }
  return packed.values;
}

// The last axis of an array at these indices of the others. Where all heads share their keys, any
// head's are those of the only one.
function vector(packed, ...index) {
  const width = packed.shape.at(-1);
  let at = 0;
  index.forEach((i, axis) => {
    at = at * packed.shape[axis] + Math.min(i, packed.shape[axis] - 1);
  });
  return decoded(packed).subarray(at * width, (at + 1) * width);
}

const plus = (a, b) => a.map((value, i) => value + b[i]);
const argmax = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

function moments(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return [
    mean,
    Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length),
  ];
}

// What a norm makes of a vector: by its own mean and spread, by those of training, or as it is.
function normed(x, norm) {
  if (!norm) return x;
  const weight = decoded(norm.weight),
    bias = norm.bias && decoded(norm.bias);
  if (!bias) {
    // RMSNorm: no mean is taken away, nothing is added
    const root = Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / x.length + norm.eps);
    return x.map((value, i) => (value / root) * weight[i]);
  }
  if (norm.mean) {
    const mean = decoded(norm.mean),
      variance = decoded(norm.variance);
    return x.map(
      (value, i) => ((value - mean[i]) / Math.sqrt(variance[i] + norm.eps)) * weight[i] + bias[i],
    );
  }
  const [mean, spread] = moments(x),
    scale = Math.sqrt(spread ** 2 + norm.eps);
  return x.map((value, i) => ((value - mean) / scale) * weight[i] + bias[i]);
}

// A number as a reader wants it: two decimals, a true minus.
function fixed(value, places = 2) {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const shown =
    Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : value.toFixed(places);
  return /^-0\.?0*$/.test(shown) ? shown.slice(1) : shown.replace("-", "−");
}

const counted = (count) => count.toLocaleString("en");
const extent = (values) => `${fixed(Math.min(...values))} to ${fixed(Math.max(...values))}`;

const signedIndex = (value, scale) =>
  Math.round(127.5 * (1 + Math.max(-1, Math.min(1, value / scale))));

// The size that colours saturate at: nearly all numbers stay below.
function scaleOf(rows) {
  const sizes = rows.flatMap((row) => Array.from(row, Math.abs)).sort((a, b) => a - b);
  return sizes[Math.floor(0.985 * (sizes.length - 1))] || 1;
}

// What is chosen. `change` sets some of it; every panel then draws itself again.
function makeView(data) {
  const view = {
    part: 0,
    layer: 0,
    head: 0,
    source: 0,
    target: 0,
    key: 0,
    place: null,
    draws: [],
    waiting: new Set(),
  };
  const clamp = (value, count) => Math.max(0, Math.min(value, count - 1));
  view.attention = () => data.parts[view.part];
  view.rows = () => view.attention()?.rows ?? "source";
  view.row = () => view[view.rows()];
  view.look = () => view.attention().layers[view.layer];
  view.rowLabels = () => data.axes[view.rows()].pieces;
  view.columnLabels = () => data.axes[view.attention().columns].pieces;
  view.heads = () => view.look().weights.shape[0];
  view.weights = (head = view.head) => vector(view.look().weights, head, view.row());
  // The chosen word's place among those that are looked at, where a sequence looks at itself.
  view.own = () =>
    view.attention().columns === "both" ? data.axes.source.pieces.length + view.target : view.row();
  view.change = (changes) => {
    Object.assign(view, changes);
    view.source = clamp(view.source, data.axes.source.pieces.length);
    view.target = clamp(view.target, data.axes.target.pieces.length);
    if (view.attention()) {
      view.part = clamp(view.part, data.parts.length);
      view.layer = clamp(view.layer, view.attention().layers.length);
      view.head = clamp(view.head, view.heads());
      if (!("key" in changes)) view.key = argmax(view.weights());
    }
    // What is in sight is drawn at once, the rest panel by panel: the next key need not wait.
    for (const entry of view.draws) {
      const box = entry.place?.getBoundingClientRect();
      if (!box || (box.bottom > -50 && box.top < innerHeight + 50)) entry.draw();
      else view.waiting.add(entry);
    }
    if (view.waiting.size) setTimeout(drawWaiting);
  };
  // A panel's way to fill itself, now and after every change.
  view.onChange = (draw) => view.draws.push({ place: view.place, draw });
  function drawWaiting() {
    const [next] = view.waiting;
    if (!next) return;
    view.waiting.delete(next);
    next.draw();
    if (view.waiting.size) setTimeout(drawWaiting);
  }
  return view;
}

// A sublayer's vectors for one word: its input, that normed, what it adds, the sum, what goes on.
function stream(data, x, f, norm) {
  const inner = data.model.norm === "pre" ? normed(x, norm) : x;
  const sum = data.model.residual ? plus(x, f) : f;
  return { x, inner, f, sum, after: data.model.norm === "pre" ? sum : normed(sum, norm) };
}

// The stream of an attention's sublayer, or of the feed-forward network behind it, for one word.
function attentionStream(data, part, layer, row) {
  const here = part.layers[layer];
  if (here.x) return stream(data, vector(here.x, row), vector(here.f, row), here.norm);
  const before = data.parts.find((other) => other !== part && other.rows === part.rows);
  if (!before || !("norm" in here)) return null;
  return stream(
    data,
    attentionStream(data, before, layer, row).after,
    vector(here.f, row),
    here.norm,
  );
}
function feedForwardStream(data, side, layer, row) {
  const here = data.feedForward[side]?.[layer],
    last = data.parts.filter((part) => part.rows === side).at(-1);
  const before = here && attentionStream(data, last, layer, row);
  return before && stream(data, before.after, vector(here.f, row), here.norm);
}

// What a head brings to a word: its values, each by its weight.
function weightedSum(look, head, row) {
  const weights = vector(look.weights, head, row),
    sum = new Float32Array(look.v.shape.at(-1));
  weights.forEach((weight, j) =>
    vector(look.v, head, j).forEach((value, d) => {
      sum[d] += weight * value;
    }),
  );
  return sum;
}

// Vectors as aligned strips, a colour for each feature. One feature is chosen, by pointer or
// slider; each line tells its number there.
function strips(label) {
  const lines = element("div", { class: "strip-lines" });
  const slider = element("input", {
    type: "range",
    min: 0,
    value: 0,
    "aria-label": `Feature of ${label}`,
  });
  const where = element("output", { class: "quiet" });
  const box = element(
    "div",
    { class: "strips", role: "group", "aria-label": label },
    lines,
    element(
      "label",
      { class: "strip-slider" },
      element("span", { class: "quiet" }, "feature"),
      slider,
      where,
    ),
  );
  let rows = [];
  function point(feature) {
    slider.value = feature;
    where.textContent = feature;
    const share = (feature + 0.5) / rows[0].values.length;
    lines.style.setProperty("--at", `${100 * share}%`);
    [...lines.children].forEach((line, i) => {
      line.querySelector(".strip-value").textContent = fixed(rows[i].values[feature]);
    });
    slider.setAttribute(
      "aria-valuetext",
      `feature ${feature}: ` +
        rows.map((row) => `${row.name} ${fixed(row.values[feature])}`).join(", "),
    );
  }
  function draw(given) {
    const width = rows[0]?.values.length;
    rows = given;
    slider.max = rows[0].values.length - 1;
    const scale = scaleOf(rows.map((row) => row.values));
    lines.replaceChildren(
      ...rows.map((row) => {
        const canvas = element("canvas", {
          role: "img",
          "aria-label": `${row.name}: ${row.values.length} numbers from ${extent(row.values)}`,
          onpointermove: (event) =>
            point(
              Math.max(
                0,
                Math.min(
                  row.values.length - 1,
                  Math.floor((event.offsetX / canvas.clientWidth) * row.values.length),
                ),
              ),
            ),
        });
        paint(
          canvas,
          1,
          row.values.length,
          (i) => signedIndex(row.values[i], row.scale ?? scale),
          SIGNED,
        );
        return element(
          "div",
          { class: "strip-line" },
          element(
            "span",
            { class: "strip-name" },
            row.sign ? element("b", {}, row.sign) : "",
            row.name,
          ),
          element("span", { class: "strip-canvas" }, canvas),
          element("span", { class: "strip-value" }),
          element("span", { class: "strip-note quiet" }, row.note ?? ""),
        );
      }),
    );
    point(
      width === rows[0].values.length
        ? Math.min(+slider.value, +slider.max)
        : argmax(Array.from(rows[0].values, Math.abs)),
    );
  }
  slider.addEventListener("input", () => point(+slider.value));
  return { box, draw };
}

// A single strip without a slider, for tables.
function thinStrip(values, scale, label) {
  const canvas = element("canvas", { class: "thin", role: "img", "aria-label": label });
  paint(canvas, 1, values.length, (i) => signedIndex(values[i], scale), SIGNED);
  return canvas;
}

// Pieces of a sentence, of which one is chosen; arrow keys move between them.
function pieceRow(label, pick) {
  const box = element("div", { class: "pieces", role: "group", "aria-label": label });
  function draw(labels, chosen) {
    const had = box.contains(document.activeElement);
    box.replaceChildren(
      ...labels.map((text, i) =>
        element(
          "button",
          {
            type: "button",
            class: /^(<\/?s>|>>.*<<)$/.test(text) ? "piece special" : "piece",
            tabindex: i === chosen ? 0 : -1,
            "aria-pressed": String(i === chosen),
            onclick: () => pick(i),
          },
          text,
        ),
      ),
    );
    const here = box.children[chosen];
    if (had) here?.focus({ preventScroll: true });
    if (here) box.scrollLeft = here.offsetLeft - box.clientWidth / 2 + here.clientWidth / 2;
  }
  box.addEventListener("keydown", (event) => {
    const at = [...box.children].indexOf(document.activeElement),
      step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (box.children[at + step]) pick(at + step);
  });
  return { box, draw };
}

function stepper(name, pick) {
  const said = element("span");
  let at = 0,
    count = 1;
  const button = (sign, step, label) =>
    element(
      "button",
      { type: "button", "aria-label": label, onclick: () => pick((at + step + count) % count) },
      sign,
    );
  const box = element(
    "div",
    { class: "stepper", role: "group", "aria-label": name },
    button("‹", -1, `Previous ${name}`),
    said,
    button("›", 1, `Next ${name}`),
  );
  return {
    box,
    draw: (index, of) => {
      at = index;
      count = of;
      said.textContent = `${name} ${index + 1}/${of}`;
      box.hidden = of < 2;
    },
  };
}

function mathOf(formula) {
  const parsed = new DOMParser().parseFromString(formula.math, "application/xml").documentElement;
  return element(
    "div",
    { class: "formula", role: "math", "aria-label": formula.spoken },
    document.importNode(parsed, true),
  );
}

// The frame of a panel: what it is about, its formula and code; beside them, its picture.
function chapter(panel, number) {
  const id = `panel-${panel.name}`,
    body = element("div", { class: "chapter-body" });
  const text = element(
    "div",
    { class: "chapter-text" },
    element(
      "h2",
      { id: `${id}-title` },
      element("span", { class: "chapter-number", "aria-hidden": "true" }, number + 1),
      panel.title,
    ),
    element("p", { class: "lead" }, panel.leftOut || panel.lead),
    ...panel.formulas.map(mathOf),
    panel.code.length
      ? element(
          "figure",
          { class: "code" },
          ...panel.code.map(({ text: code, where }) =>
            element(
              "div",
              {},
              element(
                "pre",
                { tabindex: 0, "aria-label": `Code, ${where}` },
                element("code", {}, code),
              ),
              element("figcaption", {}, where),
            ),
          ),
        )
      : "",
  );
  const section = element(
    "section",
    {
      class: panel.leftOut ? "chapter left-out" : "chapter",
      id,
      tabindex: -1,
      "aria-labelledby": `${id}-title`,
    },
    text,
  );
  if (!panel.leftOut) section.append(body);
  return { section, body };
}

// The tour goes through the panels and says two sentences at each.
function makeTour(panels, sections) {
  const shown = panels.map((panel, i) => i).filter((i) => !panels[i].leftOut);
  const count = element("p", { class: "quiet" }),
    said = element("p", { "aria-live": "polite" });
  const back = element(
    "button",
    { type: "button", class: "button", onclick: () => go(at - 1) },
    "Back",
  );
  const next = element(
    "button",
    { type: "button", class: "button primary", onclick: () => go(at + 1) },
    "Next",
  );
  const close = element(
    "button",
    { type: "button", class: "button", onclick: () => end() },
    "End tour",
  );
  const box = element(
    "aside",
    { class: "tour", "aria-label": "Guided tour", hidden: true },
    count,
    said,
    element("div", { class: "tour-buttons" }, close, back, next),
  );
  let at = -1;
  function go(step) {
    if (step >= shown.length) return end();
    const starts = at < 0;
    at = Math.max(0, step);
    box.hidden = false;
    if (starts) next.focus({ preventScroll: true });
    count.textContent = `Step ${at + 1} of ${shown.length}`;
    said.textContent = panels[shown[at]].tour;
    back.disabled = at === 0;
    next.textContent = at === shown.length - 1 ? "Finish" : "Next";
    move(sections[shown[at]]);
    sections.forEach((section, i) => section.classList.toggle("toured", i === shown[at]));
  }
  // Whoever ends it goes on in the panel where it stood.
  function end() {
    if (at >= 0) sections[shown[at]].focus({ preventScroll: true });
    box.hidden = true;
    at = -1;
    sections.forEach((section) => section.classList.remove("toured"));
  }
  function move(section) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    section.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
  }
  // Outside the tour the keys only turn to the next panel.
  function turn(step) {
    if (at >= 0) return go(at + step);
    const here = sections.findIndex(
      (section) => section.getBoundingClientRect().bottom > innerHeight / 3,
    );
    const to = sections[Math.max(0, Math.min(sections.length - 1, here + step))];
    move(to);
    to.focus({ preventScroll: true });
  }
  return { box, start: () => go(0), turn, end, open: () => at >= 0 };
}

const KEYS = [
  ["← →", "word"],
  ["L", "layer"],
  ["H", "head"],
  ["A", "attention"],
  ["K", "word asked"],
  ["N P", "next, previous panel"],
  ["T", "tour"],
];

// The chosen word, layer and head, above all panels.
function controlBar(data, view) {
  const pieces = pieceRow("Words", (i) => view.change({ [view.rows()]: i }));
  const layer = stepper("layer", (i) => view.change({ layer: i })),
    head = stepper("head", (i) => view.change({ head: i }));
  const asks = element("span", { class: "quiet asks" });
  // All that a screen reader says after a step: one sentence, not one of every panel.
  const said = element("p", { class: "hidden-label", "aria-live": "polite" });
  let kinds = "";
  if (data.parts.length > 1) {
    kinds = choice(
      "Attention",
      data.parts.map((part) => part.title),
      0,
      (i) => {
        if (i !== view.part) view.change({ part: i });
      },
    );
  }
  view.onChange(() => {
    pieces.draw(view.rowLabels(), view.row());
    asks.textContent = view.rows() === "source" ? "the word" : "about to say";
    said.textContent = `${asks.textContent} ${view.rowLabels()[view.row()]}`;
    if (!view.attention()) return;
    layer.draw(view.layer, view.attention().layers.length);
    head.draw(view.head, view.heads());
    const weight = percent(view.weights()[view.key]);
    said.textContent +=
      `, ${view.attention().title} layer ${view.layer + 1}, head ${view.head + 1}: ` +
      `${weight} on ${view.columnLabels()[view.key]}`;
    if (kinds)
      [...kinds.children].forEach((button, i) => {
        button.setAttribute("aria-pressed", String(i === view.part));
        button.tabIndex = i === view.part ? 0 : -1;
      });
  });
  const steppers = view.attention() ? [layer.box, head.box] : [];
  return element(
    "div",
    { class: "control", role: "region", "aria-label": "What is shown" },
    element("div", { class: "control-row" }, kinds, ...steppers),
    element("div", { class: "control-row words-row" }, asks, pieces.box),
    said,
  );
}

function listenToKeys(root, data, view, tour) {
  const cycle = (value, count, step) => (value + step + count) % count;
  document.addEventListener(
    "keydown",
    (event) => {
      if (
        event.defaultPrevented ||
        event.altKey ||
        event.ctrlKey ||
        event.metaKey ||
        !root.getClientRects().length
      )
        return;
      if (event.target.closest?.("input:not([type=range]), textarea, select, dialog")) return;
      const arrows = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (arrows && !event.target.closest?.("input, [role=tablist], .segmented, pre")) {
        event.preventDefault();
        return view.change({ [view.rows()]: view.row() + arrows });
      }
      const step = event.shiftKey ? -1 : 1,
        key = event.key.toLowerCase();
      if (key === "n") tour.turn(1);
      else if (key === "p") tour.turn(-1);
      else if (key === "t") (tour.open() ? tour.end : tour.start)();
      else if (event.key === "Escape" && tour.open()) tour.end();
      else if (!view.attention()) return;
      else if (key === "l")
        view.change({ layer: cycle(view.layer, view.attention().layers.length, step) });
      else if (key === "h") view.change({ head: cycle(view.head, view.heads(), step) });
      else if (key === "a") view.change({ part: cycle(view.part, data.parts.length, step) });
      else if (key === "k")
        view.change({ key: cycle(view.key, view.columnLabels().length, step) });
    },
    { signal: viewerLife.signal },
  );
}

// All panels in `root`. A panel that fails would say so in the console and leave the others alone.
function showExplanation(root, data, ask = null) {
  const view = makeView(data),
    frames = data.panels.map(chapter),
    sections = frames.map(({ section }) => section);
  const tour = makeTour(data.panels, sections);
  const index = element(
    "nav",
    { class: "index", "aria-label": "Panels" },
    element(
      "ol",
      {},
      ...data.panels.map((panel) =>
        element(
          "li",
          { class: panel.leftOut ? "left-out" : null },
          element("a", { href: `#panel-${panel.name}` }, panel.title),
        ),
      ),
      data.touch?.lens ? element("li", {}, element("a", { href: "#panel-touch" }, "Change the model")) : "",
    ),
  );
  const bar = controlBar(data, view);
  data.panels.forEach((panel, i) => {
    view.place = sections[i];
    if (!panel.leftOut) EXPLAIN_PANELS[panel.name](frames[i].body, data, view);
  });
  const keys = element(
    "p",
    { class: "keys quiet" },
    ...KEYS.filter(([key]) => view.attention() || !"LHAK".includes(key)).flatMap(([key, what]) => [
      element("kbd", {}, key),
      ` ${what}  `,
    ]),
  );
  const legend = element(
    "p",
    { class: "quiet marks" },
    "In strips and score maps, blue is above zero and orange below; the stronger the colour, the " +
      "larger the number. A hyphen before a piece says that it continues a word. <s> and </s> are " +
      "the start and the end of a sentence",
    /^>>/.test(data.axes.source.pieces[0])
      ? `; ${data.axes.source.pieces[0]} names the language to translate into.`
      : ".",
  );
  root.classList.add("explanation");
  root.replaceChildren(
    element(
      "div",
      { class: "start" },
      element(
        "button",
        { type: "button", class: "button primary", onclick: tour.start },
        "Take the tour",
      ),
      keys,
      legend,
    ),
    bar,
    index,
    element("div", { class: "chapters" }, ...sections, touchSection(data, ask)),
    tour.box,
  );
  listenToKeys(root, data, view, tour);
  const words = data.axes.source.pieces;
  view.change({
    source: Math.min(words.length - 1, /^>>/.test(words[0]) ? 2 : 1),
    target: Math.min(1, data.axes.target.pieces.length - 1),
  });
  onTheme(() => view.change({ key: view.key }));
  return view;
}

function openExplanation(main, data) {
  const { model } = data,
    depth = model.encoderLayers
      ? `${model.encoderLayers} + ${model.decoderLayers}`
      : model.decoderLayers,
    heads = model.heads === 1 ? "1 head" : `${model.heads} heads`,
    layers = data.parts.length ? `, ${depth} layers, width ${model.width}, ${heads}` : "";
  const theme = element(
    "button",
    {
      type: "button",
      class: "button",
      "aria-label": "Switch between light and dark",
      onclick: () => setTheme(isDark() ? "light" : "dark"),
    },
    "◐",
  );
  const body = element("div");
  main.append(
    element(
      "header",
      { class: data.text.length > 160 ? "long" : null },
      element("h1", { class: "hidden-label" }, "A sentence on its way through the model"),
      element("p", {}, data.text),
      element("p", {}, data.translation),
      element(
        "p",
        { class: "quiet facts" },
        `${model.architecture}${layers}, ${counted(model.parameters)} parameters. ` +
          "Every number on this page is that model's own.",
      ),
      theme,
    ),
    body,
  );
  main.classList.add("wide");
  window.explanation = showExplanation(body, data);
}
