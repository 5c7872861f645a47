"""A thousand made errors of each kind: how many are found, and how many right translations cause an
alarm.

    python benchmarks/made_errors.py CORPORA --learn   # two curves of estimate.json, on dev sets
    python benchmarks/made_errors.py CORPORA           # on test sets

Human translations of FLORES and Tatoeba, to and from English, are spoilt in one way each.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confidence import directions, lines_of, save

from dragoman.decode.confidence.curves import fit
from dragoman.decode.confidence.errors import KINDS, Reading, errors, read_features
from dragoman.inspect.error_kinds import readings
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.numbers import number_errors

COUNT = 1000
LEARNED = 250  # errors of a kind, and right translations
READ = ("omission", "addition", "name")  # the kinds that the model must read for


class Pair(NamedTuple):
    a: str
    b: str
    source: str
    target: str


Spoil = Callable[[Pair, list[Pair], random.Random], str]


def omission(pair: Pair, pairs: list[Pair], rng: random.Random) -> str:
    words = pair.target.split()
    size = rng.randint(3, 6)
    if len(words) < size + 4:
        return ""
    at = rng.randrange(len(words) - size)
    return " ".join(words[:at] + words[at + size :])


def addition(pair: Pair, pairs: list[Pair], rng: random.Random) -> str:
    words, other = pair.target.split(), rng.choice(pairs)
    more = other.target.split()
    size = rng.randint(3, 6)
    if other.b != pair.b or other.target == pair.target or len(more) < size or len(words) < 4:
        return ""
    start, at = rng.randrange(len(more) - size + 1), rng.randrange(1, len(words))
    return " ".join(words[:at] + more[start : start + size] + words[at:])


def number(pair: Pair, pairs: list[Pair], rng: random.Random) -> str:
    numbers = [*re.finditer(r"\d{2,}", pair.target)]
    if not numbers or number_errors(pair.source, pair.target):
        return ""
    found = rng.choice(numbers)
    at = rng.randrange(*found.span())
    other = rng.choice([digit for digit in "0123456789" if digit != pair.target[at]])
    return pair.target[:at] + other + pair.target[at + 1 :]


def names(pair: Pair) -> list[str]:
    """Capitalised words that both texts have, but for the first ones."""
    left, right = (re.findall(r"[^\W\d_]{4,}", text)[1:] for text in (pair.source, pair.target))
    return [word for word in right if word[0].isupper() and not word.isupper() and word in left]


def name(pair: Pair, pairs: list[Pair], rng: random.Random) -> str:
    own, others = names(pair), names(rng.choice(pairs))
    if not own or not others or others[0] in pair.target or others[0] in pair.source:
        return ""
    return re.sub(rf"\b{rng.choice(own)}\b", others[0], pair.target)


def untranslated(pair: Pair, pairs: list[Pair], rng: random.Random) -> str:
    left, right = pair.source.split(), pair.target.split()
    if len(left) < 6:
        return pair.source if len(left) > 2 else ""
    size = rng.randint(4, min(8, len(left)))
    at = rng.randrange(len(left) - size + 1)
    start = round(at * len(right) / len(left))
    end = round((at + size) * len(right) / len(left))
    return " ".join(right[:start] + left[at : at + size] + right[end:])


def repetition(pair: Pair, pairs: list[Pair], rng: random.Random) -> str:
    words = pair.target.split()
    size = rng.randint(2, 4)
    if len(words) < size + 1:
        return ""
    at = rng.randrange(len(words) - size)
    return " ".join(
        words[: at + size] + words[at : at + size] * rng.randint(1, 3) + words[at + size :]
    )


def spoilt(spoil: Spoil, pairs: list[Pair], count: int) -> list[Pair]:
    """So many pairs whose target has one error."""
    rng = random.Random(7)
    made = []
    for pair in pairs * 3:
        wrong = spoil(pair, pairs, rng)
        if wrong and wrong != pair.target:
            made.append(pair._replace(target=wrong))
    rng.shuffle(made)
    return made[:count]


def in_other_languages(corpora: Path, part: str) -> list[Pair]:
    """Make translations into a wrong language."""
    texts = {code: lines_of(corpora / "flores" / f"{part}.{code}.gz") for code in CODES}
    rng = random.Random(3)
    made = []
    for row in range(len(texts["en"])):
        a, b, wrong = rng.sample(CODES, 3)
        made.append(Pair(a, b, texts[a][row], texts[wrong][row]))
    return made[:COUNT]


CODES = ("de", "en", "es", "fr", "pt")


def read(translator: InspectableTranslator, pairs: list[Pair]) -> list[tuple[Reading, Reading]]:
    """Each pair, forward and backward."""
    found: list[tuple[Reading, Reading] | None] = [None] * len(pairs)
    for a, b in sorted({(pair.a, pair.b) for pair in pairs}):
        rows = [row for row, pair in enumerate(pairs) if (pair.a, pair.b) == (a, b)]
        sources, targets = [pairs[r].source for r in rows], [pairs[r].target for r in rows]
        forward = readings(translator, sources, targets, a, b)
        backward = readings(translator, targets, sources, b, a)
        for row, *both in zip(rows, forward, backward, strict=True):
            found[row] = (both[0], both[1])
    return [one for one in found if one is not None]


def all_pairs(corpora: Path, parts: dict[str, int]) -> list[Pair]:
    def made() -> Iterator[Pair]:
        for kind, count in parts.items():
            for a, b, pairs in directions(corpora, corpora, kind, count):
                yield from (Pair(a, b, source, target) for source, target in pairs)

    pairs = [*made()]
    random.Random(5).shuffle(pairs)
    return pairs


def learn(translator: InspectableTranslator, corpora: Path) -> None:
    pairs = all_pairs(corpora, {"flores.dev": 40, "tatoeba.valid": 160})
    clean = read(translator, pairs[:LEARNED])
    curves = {}
    for kind, spoil in (("omission", omission), ("addition", addition)):
        wrong = read(translator, spoilt(spoil, pairs, LEARNED))
        # of an omission it is the source that has more words
        way = -1 if kind == "omission" else 1
        seen = [read_features(*one[::way]) for one in clean + wrong]
        is_wrong = np.repeat([0.0, 1.0], [len(clean), len(wrong)])
        # An alarm about nothing costs more than an error that is missed.
        weights = np.repeat([4.0, 1.0], [len(clean), len(wrong)])
        curves[kind] = fit(np.array(seen), is_wrong, weights, is_probability=True)
    save(curves)


def report(translator: InspectableTranslator, corpora: Path, read_count: int) -> None:
    """`read_count`: errors of those kinds that the model must read for, which takes its time."""
    pairs = all_pairs(corpora, {"flores.devtest": 400, "tatoeba.test": 100})
    print("| kind | errors | found | right translations | false alarms |\n|---|---|---|---|---|")
    read_clean = read(translator, pairs[:read_count])
    for kind in KINDS:
        count = read_count if kind in READ else COUNT
        wrong = in_other_languages(corpora, "devtest")
        if kind != "language":
            wrong = spoilt(globals()[kind], pairs, count)
        clean = pairs[:count]
        both = read(translator, wrong) if kind in READ else [()] * len(wrong)
        found = _alarms(kind, wrong, both)
        false = _alarms(kind, clean, read_clean if kind in READ else [()] * len(clean))
        print(
            f"| {kind} | {len(wrong):,} | {found:.1%} | {len(clean):,} | {false:.1%} |", flush=True
        )


def _alarms(kind: str, pairs: list[Pair], readings: Sequence[tuple[Reading, ...]]) -> float:
    """Return the share of pairs that are flagged with an error of this kind."""
    told = [
        kind in errors(pair.source, pair.target, pair.a, pair.b, *both)
        for pair, both in zip(pairs, readings, strict=True)
    ]
    return float(np.mean(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--read", type=int, default=COUNT, help="errors that the model reads for")
    options = parser.parse_args()
    model = InspectableTranslator.load("pentaglot", threads=1)
    if options.learn:
        learn(model, options.corpora)
    else:
        report(model, options.corpora, options.read)
