"use strict";
// Translation as you type. One question is under way at a time; a newer one calls the older off.

const $ = (id) => document.getElementById(id);
const state = { models: [], names: {}, asked: null, timer: 0, result: null, chosen: 0, picked: false, key: sessionStorage.getItem("key") ?? "" };

async function call(path, body, signal) {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", signal, body: body && JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...(state.key && { "X-API-Key": asBytes(state.key) }) },
  });
  if (answer.status === 401) {
    await askForKey();
    return call(path, body, signal);
  }
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error), { again: Number(answer.headers.get("Retry-After")) });
  return said;
}

// A header holds bytes, one for each character. The service takes keys in UTF-8.
function asBytes(key) {
  return String.fromCharCode(...new TextEncoder().encode(key));
}

function askForKey() {
  const dialog = $("ask");
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    state.key = $("key").value;
    sessionStorage.setItem("key", state.key);
    resolve();
  }, { once: true }));
}

function tell(wrong, ...parts) {
  $("status").classList.toggle("wrong", wrong);
  $("status").replaceChildren(...parts);
}

// What each language can be translated into.
function targetsOf(source) {
  const models = state.models.filter((model) => source === "auto" || model.sources.includes(source));
  return [...new Set(models.flatMap((model) => model.targets))].filter((code) => code !== source);
}

function option(code, name) {
  return element("option", { value: code }, name ?? state.names[code] ?? code);
}

function fillTargets(wanted) {
  const codes = targetsOf($("from").value);
  $("to").replaceChildren(...codes.map((code) => option(code)));
  $("to").value = codes.includes(wanted) ? wanted : codes[0] ?? "";
  $("swap").disabled = !targetsOf($("to").value).includes($("from").value) || $("from").value === "auto";
}

function soon(wait = 180) {
  clearTimeout(state.timer);
  state.timer = setTimeout(translate, wait);
}

async function translate() {
  clearTimeout(state.timer);
  state.asked?.abort();
  const text = $("source").value;
  if (!text.trim()) return show(null);
  if (!state.models.length) return; // not known yet: `begin` will ask
  const asked = (state.asked = new AbortController()), started = performance.now();
  $("output").classList.add("stale");
  try {
    const question = { text, source: $("from").value, nbest: 4, confidence: true, alignments: state.models.every((model) => model.alignments) };
    if ($("to").value) question.target = $("to").value;
    if (termsGiven().length) question.glossary = termsGiven();
    const { translations: [result] } = await call("v1/translate", question, asked.signal);
    const other = [...$("to").options].find(({ value }) => value !== result.source);
    if (!state.picked && other && result.detected && result.source === $("to").value) {
      $("to").value = other.value; // nobody chose to translate a language into itself
      return translate();
    }
    show(result);
    const time = `${Math.round(performance.now() - started)} ms`;
    const detected = result.detected ? `${state.names[result.source] ?? result.source} detected · ${time}` : time;
    const sure = result.confidence === undefined ? "" : ` · ${percent(result.confidence)} likely to be good`;
    tell(false, result.note ?? detected + sure);
  } catch (error) {
    if (error.name === "AbortError") return;
    tell(true, error.message);
    if (error.again) soon(1000 * error.again);
  } finally {
    if (state.asked === asked) $("output").classList.remove("stale");
  }
}

function show(result) {
  Object.assign(state, { result, chosen: 0 });
  if (!result) {
    $("output").replaceChildren();
    tell(false, "");
  }
  for (const id of ["others", "inside", "copy"]) $(id).hidden = !result;
  $("others").hidden = !(result?.candidates.length > 1);
  if (!state.models.find((model) => model.name === result?.model)?.attention) $("inside").hidden = true;
  fit();
  if (!result) return closeAttention();
  choose(0);
}

// Put one of the candidates into the right pane.
function choose(number) {
  state.chosen = number;
  const { candidates } = state.result, candidate = candidates[number];
  showWords($("output"), candidate, point, number ? [] : state.result.sentences);
  const best = new Set(wordsIn(candidates[0].text).map((word) => word.text));
  $("alternatives").replaceChildren(...candidates.map((other, i) => element("li", {}, element("button", {
    type: "button", "aria-pressed": String(i === number), onclick: () => choose(i),
  }, element("span", {}, ...wordsIn(other.text).flatMap((word) => [best.has(word.text) ? word.text : element("em", {}, word.text), " "])),
  element("small", { title: "log-probability, divided by the length penalty" }, other.score.toFixed(2))))));
  if (!$("viewer").hidden) openAttention();
}

// A word of the translation: what it stands for, and how sure the model was.
function point(number) {
  const { result, chosen } = state, text = $("source").value, words = wordsIn(text);
  const fits = result && result.source_words?.length === words.length;
  const links = number === null || !fits ? [] : result.candidates[chosen].alignment.filter(([, t]) => t === number);
  markSource($("backdrop"), text, words, links.map(([s]) => s));
  const word = number === null ? null : result.candidates[chosen].words?.[number];
  if (!word) return tell(false, "");
  tell(false, element("b", {}, word.text), links.length ? ` ← ${links.map(([s]) => result.source_words[s]).join(" ")}` : "",
    ` · ${percent(word.probability)} probable here`);
}

// The caret stands in a word of the source: its translation lights up.
function pointFromSource() {
  const { result, chosen } = state, words = wordsIn($("source").value), caret = $("source").selectionStart;
  const number = words.findIndex((word) => word.start <= caret && caret <= word.end);
  const fits = document.activeElement === $("source") && result?.source_words?.length === words.length;
  const linked = new Set(fits ? result.candidates[chosen].alignment.filter(([s]) => s === number).map(([, t]) => t) : []);
  for (const word of $("output").querySelectorAll(".w")) word.classList.toggle("here", linked.has(+word.dataset.number));
}

// The sentence that the caret stands in, or the first that says something.
function sentenceAtCaret(sentences) {
  const { value, selectionStart } = $("source");
  let end = 0;
  const here = sentences.find(({ source }) => {
    end = value.indexOf(source, end) + source.length;
    return source.trim() && selectionStart <= end;
  });
  return (here ?? sentences.find(({ source }) => source.trim())).source;
}

async function openAttention() {
  const { sentences, source, target, candidates } = state.result;
  const question = { text: sentenceAtCaret(sentences), source, ...(target && { target }) };
  if (state.chosen && sentences.length === 1) question.translation = candidates[state.chosen].text;
  $("look").textContent = "Looking …";
  try {
    const data = await call("v1/attention", question);
    $("viewer").hidden = false;
    showViewer($("viewer"), data, (change) => call("v1/explain", { ...question, ...(change && { change, translation: undefined }) }));
    const several = sentences.filter(({ source }) => source.trim()).length > 1;
    $("inside-title").textContent = several ? `Inside the model: “${question.text}”, the sentence at the cursor` : "Inside the model";
    $("look").textContent = "Hide attention";
    $("look").setAttribute("aria-expanded", "true");
  } catch (error) {
    closeAttention();
    tell(true, error.message);
  }
}

function closeAttention() {
  $("viewer").hidden = true;
  $("look").textContent = "Show attention";
  $("look").setAttribute("aria-expanded", "false");
}

// The panes grow with their text.
function fit() {
  const source = $("source"), long = source.value.length > 240;
  for (const box of document.querySelectorAll(".text")) box.classList.toggle("long", long);
  source.style.height = "auto";
  source.style.height = `${source.scrollHeight}px`;
  $("count").textContent = source.value.length || "";
  $("clear").hidden = !source.value;
}

function listen() {
  $("source").addEventListener("input", () => { fit(); markSource($("backdrop"), $("source").value, [], []); soon(); });
  $("source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  document.addEventListener("selectionchange", pointFromSource);
  $("output").addEventListener("keydown", (event) => walkWords($("output"), event));
  $("from").addEventListener("change", () => { fillTargets($("to").value); translate(); });
  $("to").addEventListener("change", () => { state.picked = true; fillTargets($("to").value); translate(); });
  $("swap").addEventListener("click", () => {
    const [from, to, said] = [$("from").value, $("to").value, state.result?.candidates[state.chosen].text];
    $("from").value = to;
    fillTargets(from);
    if (said) $("source").value = said;
    translate();
  });
  $("clear").addEventListener("click", () => { $("source").value = ""; $("source").focus(); translate(); });
  $("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(state.result.candidates[state.chosen].text);
    tell(false, "Copied");
  });
  $("sure").addEventListener("change", () => $("output").classList.toggle("sure", $("sure").checked));
  $("look").addEventListener("click", () => ($("viewer").hidden ? openAttention() : closeAttention()));
  $("theme").addEventListener("click", () => {
    setTheme(isDark() ? "light" : "dark");
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  });
  addEventListener("resize", fit);
  listenForFiles();
  showTerms();
}

async function begin() {
  $("output").classList.add("sure");
  listen();
  try {
    Object.assign(state, await call("v1/models"));
  } catch (error) {
    return tell(true, error.message);
  }
  const sources = [...new Set(state.models.flatMap((model) => model.sources))];
  $("from").replaceChildren(option("auto", "Detect language"), ...sources.map((code) => option(code)));
  $("from").value = sources.length === 1 ? sources[0] : "auto";
  fillTargets("en");
  $("about").textContent = `Model: ${state.models.map((model) => model.name).join(", ")}`;
  fit();
  if ($("source").value) translate();
}

begin();
