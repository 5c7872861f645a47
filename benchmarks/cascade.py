"""Measure which lines a second translator should get: the gain of several orders of lines.

    python benchmarks/cascade.py FIRST SECOND CORPORA                 # Tatoeba, German to English
    python benchmarks/cascade.py FIRST SECOND CORPORA --text flores
    python benchmarks/cascade.py FIRST SECOND CORPORA --on-dev        # to choose by

FIRST is a model, SECOND a model, an ensemble (A,B), or a file of other translations, line by line,
with {part} in its name for the set: firefox.{part}.en. Orders that are learned are learned on the
first set of a text (`valid` or `dev`) and shown on the second (`test`, `devtest`); CORPORA has
`tatoeba` and `flores`. Translations are kept in --rows, a folder.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confidence import lines_of
from sacrebleu.metrics.bleu import BLEU

from dragoman.decode.confidence.curves import fit
from dragoman.decode.confidence.estimate import estimator
from dragoman.decode.confidence.features import features
from dragoman.inspect.translator import InspectableTranslator

SHARES = (0.1, 0.2, 0.3, 0.5)
COUNT = 1000  # sentences of each set, about
PARTS = {"tatoeba": ("valid", "test"), "flores": ("dev", "devtest")}
METRIC = BLEU()
Row = dict[str, Any]


def sides_of(corpora: Path, text: str, part: str) -> tuple[list[str], list[str]]:
    """Every n-th sentence of a set, in German and in English."""
    folder = corpora / text / ("de-en" if text == "tatoeba" else "")
    german, english = (lines_of(folder / f"{part}.{code}.gz") for code in ("de", "en"))
    step = max(1, len(german) // COUNT)
    most = COUNT if step > 1 else len(german)
    return german[::step][:most], english[::step][:most]


def translations(model: str, sources: list[str], text: str, part: str, out: Path) -> list[Row]:
    """Return a model's translations of these sentences, and its CPU time for each."""
    name = "+".join(Path(one).name for one in model.split(","))
    path = out / f"{name}.{text}.{part}.jsonl"
    if path.exists():
        return [json.loads(line) for line in lines_of(path)]
    translator = InspectableTranslator.load(model, threads=1)
    translator.translate(sources[:2], source="de", to="en")
    began = time.process_time()
    found = translator.translate(sources, source="de", to="en")
    seconds = (time.process_time() - began) / len(sources)
    rows: list[Row] = [
        {"text": str(one), "pieces": one.tokens, "log_probs": one.log_probs, "seconds": seconds}
        for one in found
    ]
    out.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


def collect(
    first: str, second: str, corpora: Path, text: str, out: Path
) -> tuple[list[Row], list[Row]]:
    """Both sets of a text, translated by both."""
    sets = []
    for part in PARTS[text]:
        sources, references = sides_of(corpora, text, part)
        one = translations(first, sources, text, part, out)
        if "{part}" in second:
            two: list[Row] = [{"text": line} for line in lines_of(Path(second.format(part=part)))]
        else:
            two = translations(second, sources, text, part, out)
        sets.append([
            a | {"source": source, "reference": reference, "second": b["text"],
                 "second_seconds": b.get("seconds")}
            for source, reference, a, b in zip(sources, references, one, two, strict=True)
        ])  # fmt: skip
    return sets[0], sets[1]


def counts(rows: Sequence[Row], who: str) -> np.ndarray:
    """What BLEU counts in each sentence: both lengths, then n-grams of four sizes that match, then
    all n-grams of these sizes. (N, 10)"""
    references = [[row["reference"] for row in rows]]
    return np.array(METRIC._extract_corpus_statistics([row[who] for row in rows], references))


def gains(rows: Sequence[Row]) -> np.ndarray:
    """Estimate, to first order, how the logarithm of the corpus' BLEU changes with each sentence
    that goes to the second translator by itself. BLEU is the mean of four logarithms of counts and
    a brevity penalty; each is expanded around the counts of the first translator."""
    first = counts(rows, "text")
    change, total = counts(rows, "second") - first, first.sum(0)
    gain = np.zeros(len(rows))
    for size in range(4):
        matches, all_of_them = 2 + size, 6 + size
        gain += change[:, matches] / total[matches] / 4
        gain -= change[:, all_of_them] / total[all_of_them] / 4
    if total[0] < total[1]:  # the penalty's logarithm is 1 - reference / length
        gain += change[:, 0] * total[1] / total[0] ** 2
    return gain


def seen_of(rows: Sequence[Row]) -> np.ndarray:
    fields = ("source", "text", "pieces", "log_probs")
    return np.array([features(*(row[field] for field in fields)) for row in rows])


def orders(dev: Sequence[Row], test: Sequence[Row]) -> dict[str, np.ndarray]:
    """Return the key of each order for the lines of the test; the largest come first."""
    judge = estimator()
    fields = ("source", "text", "pieces", "log_probs")
    found = [judge(*(row[field] for field in fields)) for row in test]
    doubt = np.array([1 - one.good for one in found])
    lacks = np.array([100 - one.chrf for one in found])
    lengths = np.array([len(row["source"]) for row in test], float)
    dev_lengths = np.array([len(row["source"]) for row in dev], float)
    # The gain per character, weighted by length, since long lines are better evidence.
    curves = fit(seen_of(dev), gains(dev) / dev_lengths * 1e5, dev_lengths)
    expected = np.array([curves(row) for row in seen_of(test)])
    true_gain = gains(test)
    return {
        "doubt (1 - confidence)": doubt,
        "100 minus expected chrF": lacks,
        "characters": lengths,
        "doubt times characters": doubt * lengths,
        "100 minus expected chrF, times characters": lacks * lengths,
        "expected wrong words": np.array([sum(1 - p for p in one.words) for one in found]),
        "surprise (the log-probability, negative)": np.array([
            -sum(row["log_probs"]) for row in test]),
        "expected gain for a character": expected,
        "expected gain": expected * lengths,
        "true gain for a character": true_gain / lengths,
        "true gain": true_gain,
    }  # fmt: skip


def report(dev: Sequence[Row], test: Sequence[Row]) -> None:
    first, second = counts(test, "text"), counts(test, "second")
    lengths = np.array([len(row["source"]) for row in test], float)
    lowest, highest = bleu_of(first), bleu_of(second)
    print(f"{len(test):,} lines, BLEU {lowest:.1f} and {highest:.1f}")
    for who, key in (("first", "seconds"), ("second", "second_seconds")):
        if test[0].get(key):
            print(f"{who}: {1000 * test[0][key]:.1f} ms of CPU time for a line")
    heads = " | ".join(f"{share:.0%} of lines" for share in SHARES)
    print(f"| first come the largest | {heads} | characters then | 30% of characters |")
    print("|---|" + "---|" * (len(SHARES) + 2))
    for name, worth in orders(dev, test).items():
        order = np.argsort(-worth, kind="stable")
        sent = np.cumsum(lengths[order]) / lengths.sum()
        numbers = [round(share * len(test)) for share in SHARES]
        numbers.append(int(np.searchsorted(sent, 0.3)))
        cells = []
        for number in numbers:
            mixed = np.vstack([second[order[:number]], first[order[number:]]])
            cells.append(f"{(bleu_of(mixed) - lowest) / (highest - lowest):.0%}")
        cells.insert(-1, f"{sent[round(0.3 * len(test)) - 1]:.0%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def bleu_of(counts: np.ndarray) -> float:
    return float(METRIC._compute_score_from_stats(counts.sum(0).tolist()).score)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--text", choices=PARTS, default="tatoeba")
    parser.add_argument("--rows", type=Path, default=Path("rows"))
    parser.add_argument("--on-dev", action="store_true", help="show the dev set, half by half")
    options = parser.parse_args()
    dev_rows, test_rows = collect(
        options.first, options.second, options.corpora, options.text, options.rows
    )
    if options.on_dev:  # to choose by
        report(dev_rows[::2], dev_rows[1::2])
        report(dev_rows[1::2], dev_rows[::2])
    else:
        report(dev_rows, test_rows)
