"use strict";
// What comes of a change: what each layer would say, what each head is worth, one step of learning.
// Where somebody can be asked (the service), the model itself can be changed here: `ask` takes a
// change and gives what the model then computes.

const touchTable = (head, rows, caption) =>
  element(
    "div",
    { class: "table-box", tabindex: "0", role: "group", "aria-label": caption },
    element(
      "table",
      { class: "touch-table" },
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows),
    ),
  );

// A cell as blue as its share, from 0 to 1.
function shareCell(share, ...words) {
  const cell = element("td", { class: "share" }, ...words);
  cell.style.setProperty("--share", Math.round(100 * Math.min(1, Math.max(0, share))) + "%");
  return cell;
}

function lensTable(touch, said) {
  const rows = touch.lens.map((layer, number) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, `layer ${number + 1}`),
      ...said.map((_, step) =>
        shareCell(
          layer.said[step],
          element("b", {}, layer.pieces[step][0]),
          element("small", {}, percent(layer.said[step])),
        ),
      ),
    ),
  );
  return element(
    "section",
    { class: "card", "aria-label": "Logit lens" },
    element("h3", {}, "What each layer would say"),
    element(
      "p",
      { class: "quiet" },
      "Each decoder layer's vector goes through the last norm and the output, as if it were the last " +
        "layer. Its best piece stands above; below, the chance of the piece that was said in the end.",
    ),
    touchTable(["", ...said], rows, "Best piece of each layer at each step"),
  );
}

function worthTables(worth) {
  const tables = Object.entries(worth).map(([kind, layers]) => {
    const most = Math.max(...Object.values(worth).flat(2).map(Math.abs), 1e-9);
    const rows = layers.map((row, layer) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, `layer ${layer + 1}`),
        ...row.map((value) => {
          const cell = element("td", { class: value >= 0 ? "signed above" : "signed below" }, fixed(value));
          cell.style.setProperty("--share", Math.round((100 * Math.abs(value)) / most) + "%");
          return cell;
        }),
      ),
    );
    return touchTable(["", ...layers[0].map((_, head) => `head ${head + 1}`)], rows, kind);
  });
  return element(
    "section",
    { class: "card", "aria-label": "What heads are worth" },
    element("h3", {}, "What each head is worth"),
    element(
      "p",
      { class: "quiet" },
      "The log-probability of this translation that is lost when one head adds nothing. Blue is a " +
        "loss; orange means that the translation becomes likelier without the head.",
    ),
    ...tables,
  );
}

function learningTables(learning) {
  const most = Math.max(...Object.values(learning.norms), 1e-9);
  const norms = Object.entries(learning.norms).map(([name, norm]) =>
    element("tr", {}, element("th", { scope: "row" }, name), shareCell(norm / most, fixed(norm, 4))),
  );
  const words = learning.pieces.map((piece, i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, piece),
      shareCell(Math.exp(learning.before[i]), percent(Math.exp(learning.before[i]))),
      shareCell(Math.exp(learning.after[i]), percent(Math.exp(learning.after[i]))),
    ),
  );
  const [before, after] = learning.loss;
  return element(
    "section",
    { class: "card", "aria-label": "One step of learning" },
    element("h3", {}, "One step of learning"),
    element(
      "p",
      { class: "quiet" },
      `A copy of the model takes one step down the gradient of this translation, at rate ${learning.rate}. ` +
        `Its loss goes from ${fixed(before, 4)} to ${fixed(after, 4)}.`,
    ),
    element(
      "div",
      { class: "touch-pair" },
      touchTable(["piece", "before", "after"], words, "Chance of each piece"),
      touchTable(["part", "norm"], norms, "Norm of the gradient, by part"),
    ),
  );
}

const described = (change) =>
  [
    ...change.off.map((name) => `${name} off`),
    ...(change.swap ? [`words ${change.swap[0] + 1} and ${change.swap[1] + 1} swapped`] : []),
    ...Object.entries(change.places).map(([piece, place]) => `piece ${+piece + 1} at position ${place}`),
    ...(change.say.length ? [`begins with “${change.say.join("")}”`] : []),
    ...(change.temperature ? [`temperature ${change.temperature}`] : []),
    ...(change.top_k ? [`best ${change.top_k} pieces`] : []),
  ].join(", ") || "nothing";

const anOption = (value, label = value) => element("option", { value }, label);

function labelled(label, control) {
  return element("label", { class: "field" }, element("span", {}, label), control);
}

// A form whose fields are one change.
function changeForm(data, ask) {
  const { model } = data,
    parts = [];
  for (const [kind, layers] of [
    ["encoder", model.encoderLayers],
    ["decoder", model.decoderLayers],
    ["cross", model.decoderLayers],
  ])
    for (let layer = 0; layer < layers; layer++) {
      if (kind !== "cross") parts.push(`${kind}.${layer}`, `${kind}.${layer}.network`);
      for (let head = 0; head < model.heads; head++) parts.push(`${kind}.${layer}.head.${head}`);
    }
  const off = element("select", { multiple: true, size: 5 }, ...parts.map((name) => anOption(name)));
  const words = [...new Set(data.axes.source.words)].map((word) =>
    data.axes.source.pieces.filter((_, i) => data.axes.source.words[i] === word).join(""),
  );
  const pick = () => element("select", {}, anOption("", "–"), ...words.map((word, i) => anOption(i, word)));
  const [first, second] = [pick(), pick()];
  const step = element(
    "select",
    {},
    anOption("", "–"),
    ...data.output.steps.map((one, i) => anOption(i, `${i + 1}: ${one.pieces[one.chosen]}`)),
  );
  const instead = element("select", { disabled: true });
  step.addEventListener("change", () => {
    const chosen = data.output.steps[step.value];
    instead.disabled = !chosen;
    instead.replaceChildren(...(chosen ? chosen.raw.map((piece, i) => anOption(piece, chosen.pieces[i])) : []));
  });
  const temperature = element("input", { type: "number", min: 0, max: 5, step: 0.1, value: 0 }),
    topK = element("input", { type: "number", min: 0, max: 1000, step: 1, value: 0 });
  const status = element("p", { class: "quiet", role: "status" });
  async function send(event) {
    event.preventDefault();
    const change = { study: true, off: [...off.selectedOptions].map((one) => one.value) };
    if (first.value !== "" && second.value !== "") change.swap = [+first.value, +second.value];
    if (step.value !== "") {
      const said = data.output.steps.slice(0, +step.value).map((one) => one.raw[one.chosen]);
      change.say = [...said, instead.value];
    }
    change.temperature = +temperature.value;
    change.top_k = +topK.value;
    status.textContent = "Translating anew …";
    try {
      await ask(change);
    } catch (error) {
      status.textContent = error.message;
    }
  }
  return element(
    "form",
    { class: "card touch-form", onsubmit: send, "aria-label": "Change the model" },
    element("h3", {}, "Change something"),
    labelled("Switch off", off),
    labelled("Swap this word …", first),
    labelled("… with this one", second),
    labelled("At step …", step),
    labelled("… say instead", instead),
    labelled("Temperature (0: the likeliest)", temperature),
    labelled("Best k pieces (0: all)", topK),
    element("button", { class: "button primary" }, "Translate anew"),
    status,
  );
}

// What the section holds depends on what was computed; nothing where no Transformer is.
function touchSection(data, ask = null) {
  const touch = data.touch;
  if (!touch || !touch.lens) return "";
  const said = data.axes.target.pieces;
  return element(
    "section",
    { class: "touch", id: "panel-touch", "aria-label": "Change the model" },
    element("h2", {}, "Change the model"),
    element(
      "p",
      {},
      `Changed here: ${described(touch.change)}. The model says: “${data.translation}”; unchanged, its search found: “${data.searched}”.`,
    ),
    ask ? changeForm(data, ask) : "",
    lensTable(touch, said),
    touch.worth ? worthTables(touch.worth) : "",
    touch.learning ? learningTables(touch.learning) : "",
  );
}
