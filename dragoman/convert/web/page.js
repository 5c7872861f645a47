"use strict";
// The page: what is typed is translated, one piece after the other, by the model in the page.

(async () => {
  const $ = (id) => document.getElementById(id);
  const began = performance.now();
  try {
    window.translator = await WebTranslator.load(MODEL);
  } catch (error) {
    $("status").textContent = `The model cannot be loaded: ${error.message}`;
    throw error;
  }
  const { translator } = window,
    names = new Intl.DisplayNames(["en"], { type: "language" });
  const languages = Object.keys(translator.model.tags);
  $("to").replaceChildren(...languages.map((code) => new Option(names.of(code), code)));
  $("to").hidden = $("to-label").hidden = !languages.length;
  $("status").textContent =
    `Loaded in ${((performance.now() - began) / 1000).toFixed(1)} s. Nothing you type leaves this page.`;
  let latest = 0,
    waiting = null,
    last = Promise.resolve();
  async function translate(number) {
    const text = $("text").value,
      to = $("to").value;
    await last;
    if (number !== latest) return;
    const pieces = text.trim() ? translator.sourceIds(text, to) : [];
    $("pieces").replaceChildren(
      ...pieces.map((id) => {
        const piece = document.createElement("span");
        piece.textContent = translator.source.pieces[id].replaceAll("\u2581", "␣");
        return piece;
      }),
    );
    const from = performance.now();
    let count = 0;
    last = translator.translate(text, to, (said) => {
      count += 1;
      if (number === latest) $("said").textContent = said;
    });
    const said = await last;
    if (number !== latest) return;
    $("said").textContent = said;
    const seconds = (performance.now() - from) / 1000;
    $("status").textContent = count
      ? `${count} pieces in ${seconds.toFixed(2)} s, ${(count / seconds).toFixed(0)} a second.`
      : "";
  }
  function changed() {
    latest += 1;
    clearTimeout(waiting);
    waiting = setTimeout(translate, 250, latest);
  }
  $("text").addEventListener("input", changed);
  $("to").addEventListener("change", changed);
  document.documentElement.dataset.ready = "yes";
})();
