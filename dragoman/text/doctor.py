"""What is wrong with a corpus, named and counted with line numbers; and a cleaned copy.

One pass, streaming: memory does not grow with the corpus. Troubles of a line are found as it passes; repetitions come
out at the end. `train` runs the quick part by itself, which leaves out languages and near repetitions.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from dragoman.text.likeness import MARGIN, Likeness
from dragoman.text.parallel import MADE, Pair
from dragoman.text.repeats import Repeats, hash64

FIRST_LINES_SHOWN = 3
LARGEST_RATIO = 9.0  # characters of the longer side per character of the shorter, beyond short sentences
LONGEST = 2000  # characters
PAIRS_TO_LEARN_LANGUAGES = 10_000

_MOJIBAKE = re.compile("[ÃÂ][\u0080-\u00bf\u2013-\u203a\u20ac€‚ƒ„…†‡ˆ‰Š‹ŒŽ]|â€|ï»¿|ï¿½")
_CONTROL = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u2060]")
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,80}>|&(?:[a-z]{2,8}|#\d{1,5});|\{\w*\}|%[sd]\b")
_NOT_WORDS = re.compile(r"[\W_]+")

EMPTY, ONE_SIDED = "empty", "one side empty"
REPEATED, NEARLY_REPEATED = "repeated", "nearly repeated"
CRLF = "CR LF"
MEANINGS = {
    EMPTY: "pairs with both sides empty",
    ONE_SIDED: "pairs with an empty side",
    REPEATED: "pairs that stood there before",
    NEARLY_REPEATED: "pairs that stood there before but for case, space and punctuation",
    "source in held-out set": "pairs whose source stands in a validation or test set",
    "target in held-out set": "pairs whose target stands in a validation or test set",
    "pair in held-out set": "pairs that stand in a validation or test set, both sides",
    "too long": f"pairs with a side of over {LONGEST:,} characters",
    "lopsided": f"pairs with one side {LARGEST_RATIO:.0f} times the other",
    "same on both sides": "pairs with the same text on both sides",
    "source in the other language": "pairs whose source seems to be in the target language",
    "target in the other language": "pairs whose target seems to be in the source language",
    "broken encoding": "pairs with broken characters (mojibake, U+FFFD)",
    "control characters": "pairs with control characters or a BOM within",
    CRLF: "pairs whose lines end in CR LF (read as if they ended in LF)",
    "markup on one side": "pairs with tags, entities or placeholders on one side only",
    "not normalised": "pairs not in Unicode's composed form (NFC)",
}
REPAIRED = {"control characters", CRLF, "not normalised"}  # --fix mends these; pairs with any other trouble are removed


@dataclass
class Finding:
    """One kind of trouble: how often, and the first lines where it stands."""

    kind: str
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < FIRST_LINES_SHOWN:
            self.lines.append(line)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines)) + (", …" if self.count > len(self.lines) else "")
        return f"{self.count:,} {MEANINGS[self.kind]} (line{'s' if self.count > 1 else ''} {shown})"


@dataclass
class Report:
    """A corpus at a glance. `repeats` are the lines (N,) that repeat an earlier one, sorted."""

    pairs: int = 0
    usable: int = 0
    by_kind: dict[str, Finding] = field(default_factory=dict)
    repeats: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, kind: str, line: int) -> None:
        self.by_kind.setdefault(kind, Finding(kind)).add(line)

    @property
    def findings(self) -> list[Finding]:
        """The kinds of trouble that occur, in the order of their list."""
        return [self.by_kind[kind] for kind in MEANINGS if kind in self.by_kind]


@dataclass(frozen=True)
class HeldOut:
    """Texts that must not be trained on, as hashes of their normalised form."""

    sources: frozenset[int] = frozenset()
    targets: frozenset[int] = frozenset()

    @classmethod
    def of(cls, corpora: Iterable[Iterable[Pair]]) -> "HeldOut":
        sources, targets = set(), set()
        for pair in chain.from_iterable(corpora):
            sources.add(hash64(normalised(pair.source)))
            targets.add(hash64(normalised(pair.target)))
        return cls(frozenset(sources), frozenset(targets))


def is_usable(pair: Pair) -> bool:
    """Both sides hold something to learn from."""
    return bool(pair.source.strip()) and bool(pair.target.strip())


def normalised(text: str) -> str:
    """Text without what does not make another sentence: case, spaces, punctuation, Unicode forms, a model's mark.

    >>> normalised("Guten  Tag!") == normalised("guten tag") == normalised("<BT> Guten Tag.")
    True
    """
    text = text.removeprefix(MADE).strip()
    return _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() or text


def mended(text: str) -> str:
    """What --fix makes of a text that needs no more than that."""
    return unicodedata.normalize("NFC", _CONTROL.sub("", text.replace("\ufeff", "").replace("\t", " "))).strip()


def examine(pairs: Iterable[Pair], held_out: HeldOut | None = None, quick: bool = False) -> Report:
    """Read a corpus once and report.

    >>> [str(f) for f in examine([Pair(1, "Ja.", "Yes."), Pair(2, "Ja.", "Yes."), Pair(3, "Nein.", "")]).findings]
    ['1 pairs with an empty side (line 3)', '1 pairs that stood there before (line 2)']
    """
    report = Report()
    pairs = iter(pairs)
    first = [] if quick else list(islice(pairs, PAIRS_TO_LEARN_LANGUAGES))
    troubles = _finder(first, held_out, quick)
    with Repeats() as exact, Repeats() as near:
        for pair in chain(first, pairs):
            report.pairs += 1
            if not is_usable(pair):
                report.add(EMPTY if not (pair.source.strip() or pair.target.strip()) else ONE_SIDED, pair.line)
                continue
            report.usable += 1
            for kind in troubles(pair):
                report.add(kind, pair.line)
            exact.add(f"{pair.source}\t{pair.target}", pair.line)
            if not quick:
                near.add(f"{normalised(pair.source)}\t{normalised(pair.target)}", pair.line)
        _add_repeats(report, exact, near)
    return report


def fix(
    pairs: Iterable[Pair], report: Report, held_out: HeldOut | None = None
) -> Iterator[tuple[Pair, str, Pair | None]]:
    """Each pair again, with the reason why it is changed or removed ("" if it is not) and what becomes of it."""
    pairs = iter(pairs)
    first = list(islice(pairs, PAIRS_TO_LEARN_LANGUAGES))
    troubles = _finder(first, held_out, quick=False)
    for pair in chain(first, pairs):
        reasons = [ONE_SIDED] if not is_usable(pair) else list(troubles(pair))
        reasons += [kind for kind, lines in report.repeats.items() if _holds(lines, pair.line)]
        fatal = [reason for reason in reasons if reason not in REPAIRED]
        kept = pair._replace(source=mended(pair.source), target=mended(pair.target))
        if fatal or not is_usable(kept):
            yield pair, ", ".join(fatal or [ONE_SIDED]), None
        else:
            yield pair, ", ".join(reasons), kept


def _finder(first: list[Pair], held_out: HeldOut | None, quick: bool) -> Callable[[Pair], Iterator[str]]:
    """What is wrong with a single pair, as a function of it."""
    likeness = None
    if not quick:
        likeness = Likeness((p.source for p in first if is_usable(p)), (p.target for p in first if is_usable(p)))

    def troubles(pair: Pair) -> Iterator[str]:
        source, target = pair.source, pair.target
        both = f"{source}\n{target}"
        if held_out is not None:
            yield from _in_held_out(pair, held_out)
        shorter, longer = sorted((len(source), len(target)))
        if longer > LONGEST:
            yield "too long"
        if longer > 30 and longer > LARGEST_RATIO * shorter:
            yield "lopsided"
        same = source.strip() == target.strip()
        if same:
            yield "same on both sides"
        if likeness is not None and not same:
            if likeness.leans_to_source(source) < -MARGIN:
                yield "source in the other language"
            if likeness.leans_to_source(target) > MARGIN:
                yield "target in the other language"
        if not both.isascii():
            if "\ufffd" in both or _MOJIBAKE.search(both):
                yield "broken encoding"
            if not unicodedata.is_normalized("NFC", both):
                yield "not normalised"
        if "\ufeff" in both or "\r" in both or _CONTROL.search(both.replace("\n", "")):
            yield "control characters"
        if pair.crlf:
            yield CRLF
        if ("<" in both or "&" in both or "{" in both or "%" in both) and (
            bool(_MARKUP.search(source)) != bool(_MARKUP.search(target))
        ):
            yield "markup on one side"

    return troubles


def _in_held_out(pair: Pair, held_out: HeldOut) -> Iterator[str]:
    source = hash64(normalised(pair.source)) in held_out.sources
    target = hash64(normalised(pair.target)) in held_out.targets
    if source and target:
        yield "pair in held-out set"
    elif source:
        yield "source in held-out set"
    elif target:
        yield "target in held-out set"


def _add_repeats(report: Report, exact: Repeats, near: Repeats) -> None:
    exactly = np.sort(np.concatenate([*(found[:, 0] for found in exact.lines()), np.zeros(0, dtype=np.int64)]))
    nearly = np.sort(np.concatenate([*(found[:, 0] for found in near.lines()), np.zeros(0, dtype=np.int64)]))
    nearly = nearly[~np.isin(nearly, exactly)]
    for kind, lines in ((REPEATED, exactly), (NEARLY_REPEATED, nearly)):
        report.repeats[kind] = lines
        if len(lines):
            report.by_kind[kind] = Finding(kind, len(lines), lines[:FIRST_LINES_SHOWN].tolist())


def _holds(lines: np.ndarray, line: int) -> bool:
    place = int(np.searchsorted(lines, line))
    return place < len(lines) and int(lines[place]) == line
