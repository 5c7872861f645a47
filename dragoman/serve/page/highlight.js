"use strict";
// Words that are linked light up on both sides. A text area cannot colour its words, so a copy of the text lies behind it.

const WORDS = /\S+/g;

function wordsIn(text) {
  return [...text.matchAll(WORDS)].map((match) => ({ start: match.index, end: match.index + match[0].length, text: match[0] }));
}

// Mark some words of the source by their numbers.
function markSource(backdrop, text, words, chosen) {
  const parts = [];
  let at = 0;
  for (const number of [...chosen].sort((a, b) => a - b)) {
    const word = words[number];
    if (!word) continue;
    parts.push(text.slice(at, word.start), element("mark", {}, text.slice(word.start, word.end)));
    at = word.end;
  }
  backdrop.replaceChildren(...parts, text.slice(at));
}

// Where the sentences that are probably not good stand in a translation, as [start, end].
function weakSpans(text, sentences) {
  let end = 0;
  return (sentences ?? []).flatMap((sentence) => {
    const start = text.indexOf(sentence.text, end);
    if (start < 0) return [];
    end = start + sentence.text.length;
    return sentence.confidence < 0.5 ? [[start, end]] : [];
  });
}

// A candidate as words that can be pointed at; `point` hears the number of a word, or null.
function showWords(output, candidate, point, sentences) {
  const weak = weakSpans(candidate.text, sentences);
  const words = wordsIn(candidate.text), known = candidate.words?.length === words.length ? candidate.words : null;
  const parts = [];
  let at = 0;
  words.forEach((word, number) => {
    const probability = known?.[number].confidence ?? known?.[number].probability ?? 1;
    const faint = weak.some(([start, end]) => start <= word.start && word.end <= end) ? " weak" : "";
    const doubt = (probability < 0.3 ? " doubtful" : probability < 0.6 ? " unsure" : "") + faint;
    parts.push(candidate.text.slice(at, word.start), element("span", {
      class: "w" + doubt, tabindex: number ? -1 : 0, "data-number": number,
      onmouseenter: () => point(number), onmouseleave: () => point(null),
      onfocus: () => point(number), onblur: () => point(null),
    }, word.text));
    at = word.end;
  });
  output.replaceChildren(...parts, candidate.text.slice(at));
}

// Left and right go from word to word.
function walkWords(output, event) {
  const words = [...output.querySelectorAll(".w")], at = words.indexOf(document.activeElement);
  const next = words[at + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN)];
  if (!next) return;
  words[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  event.preventDefault();
}
