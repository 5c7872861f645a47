"""Which lines a second translator should get: what it gains, by the order in which lines are sent.

    python benchmarks/cascade.py FIRST SECOND CORPORA          # German to English

FIRST and SECOND are models. Orders that are learned are learned on Tatoeba's validation set and
shown on its test set; CORPORA has `tatoeba`. Translations are kept in --rows, a folder.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confidence import lines_of

from dragoman.confidence.curves import fit
from dragoman.confidence.estimate import estimator
from dragoman.confidence.features import features
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.metrics import bleu, sentence_chrf

SHARES = (0.1, 0.2, 0.3, 0.5)
COUNT = 1000  # sentences of each set
Row = dict[str, Any]


def collect(first: str, second: str, corpora: Path, part: str, out: Path) -> list[Row]:
    """Every n-th sentence of a set, translated by both."""
    path = out / f"{Path(first).name}.{Path(second).name}.{part}.jsonl"
    if path.exists():
        return [json.loads(line) for line in lines_of(path)]
    sides = [lines_of(corpora / "tatoeba" / "de-en" / f"{part}.{code}.gz") for code in ("de", "en")]
    step = len(sides[0]) // COUNT
    sources, references = (side[::step][:COUNT] for side in sides)
    rows: list[Row] = [
        {"source": s, "reference": r} for s, r in zip(sources, references, strict=True)
    ]
    one, two = (InspectableTranslator.load(name, threads=1) for name in (first, second))
    for row, said in zip(rows, one.translate(sources, source="de", to="en"), strict=True):
        row |= {"first": str(said), "pieces": said.tokens, "log_probs": said.log_probs}
    for row, said in zip(rows, two.translate(sources, source="de", to="en"), strict=True):
        row["second"] = str(said)
    # What the second one thinks of the first one's translation: dearer, and not to be had of all.
    read = two.score(sources, [row["first"] for row in rows], "en", "de")
    for row, log_probs in zip(rows, read, strict=True):
        row["read"] = float(np.mean(log_probs))
    out.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


def table(rows: Sequence[Row]) -> np.ndarray:
    fields = ("source", "first", "pieces", "log_probs")
    return np.array([features(*(row[field] for field in fields)) for row in rows])


def gains(rows: Sequence[Row]) -> np.ndarray:
    """chrF of the second one less that of the first."""
    return np.array([
        sentence_chrf(row["second"], [row["reference"]])
        - sentence_chrf(row["first"], [row["reference"]])
        for row in rows
    ])  # fmt: skip


def orders(dev: Sequence[Row], test: Sequence[Row]) -> dict[str, np.ndarray]:
    """What each order goes by, for the lines of the test: the largest first."""
    judge = estimator()
    fields = ("source", "first", "pieces", "log_probs")
    found = [judge(*(row[field] for field in fields)) for row in test]
    lengths = np.array([len(row["source"]) for row in test], float)
    gain, true_gain = gains(dev), gains(test)

    def learned(dev_seen: np.ndarray, seen: np.ndarray) -> np.ndarray:
        curves = fit(dev_seen, gain, np.ones(len(gain)))
        return np.array([curves(row) for row in seen])

    dev_seen, seen = table(dev), table(test)
    dev_read, read = (np.array([[row["read"]] for row in rows]) for rows in (dev, test))
    expected = learned(dev_seen, seen)
    with_read = learned(np.hstack([dev_seen, dev_read]), np.hstack([seen, read]))
    return {
        "doubt (1 - confidence)": np.array([-one.good for one in found]),
        "what the expected chrF lacks": np.array([-one.chrf for one in found]),
        "expected gain": expected,
        "expected gain, where the second one has read the first one's translation": with_read,
        "characters": lengths,
        "expected gain times characters": expected * lengths,
        "true gain": true_gain,
        "true gain times characters": true_gain * lengths,
    }


def report(dev: Sequence[Row], test: Sequence[Row]) -> None:
    first, second = [row["first"] for row in test], [row["second"] for row in test]
    references = [row["reference"] for row in test]
    lengths = np.array([len(row["source"]) for row in test], float)
    lowest, highest = bleu(first, references), bleu(second, references)
    print(f"{len(test):,} lines, BLEU {lowest:.1f} and {highest:.1f}")
    heads = " | ".join(f"{share:.0%} of lines" for share in SHARES)
    print(f"| first come the largest | {heads} | characters then | 30% of characters |")
    print("|---|" + "---|" * (len(SHARES) + 2))
    for name, worth in orders(dev, test).items():
        order = np.argsort(-worth, kind="stable")
        sent = np.cumsum(lengths[order]) / lengths.sum()

        def share_of_gain(count: int, order: np.ndarray = order) -> float:
            deferred = set(map(int, order[:count]))
            mixed = [second[i] if i in deferred else first[i] for i in range(len(first))]
            return (bleu(mixed, references) - lowest) / (highest - lowest)

        cells = [f"{share_of_gain(round(share * len(first))):.0%}" for share in SHARES]
        cells.append(f"{sent[round(0.3 * len(first)) - 1]:.0%}")
        cells.append(f"{share_of_gain(int(np.searchsorted(sent, 0.3))):.0%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--rows", type=Path, default=Path("rows"))
    parser.add_argument("--on-dev", action="store_true", help="show the dev set, half by half")
    options = parser.parse_args()
    valid, test_rows = (
        collect(options.first, options.second, options.corpora, part, options.rows)
        for part in ("valid", "test")
    )
    if options.on_dev:  # to choose by
        report(valid[::2], valid[1::2])
        report(valid[1::2], valid[::2])
    else:
        report(valid, test_rows)
