"""Check a corpus: count problems, with line numbers, and write a cleaned copy.

The corpus is read as a stream, so memory does not grow with it. Problems of a line are found when
it is read. Repetitions are found at the end, as are problems that only a sample of many lines shows
(`alignment`), such as shifted lines.
"""

import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from dragoman.text.alignment import MARGIN, Alarm, Sample, TrigramClassifier, find_alarms
from dragoman.text.parallel import MADE, Pair, is_usable
from dragoman.text.repeats import Repeats, hash64, hash_all

FIRST_LINES_SHOWN = 3
# Largest ratio of the sides' lengths in characters; short sentences may exceed it
LARGEST_RATIO = 9.0
LONGEST = 2000  # characters
PAIRS_IN_CHUNK = 10_000  # the first chunk also trains the model of the two languages

_MOJIBAKE = re.compile("\ufffd|[ÃÂ][\u0080-\u00bf\u2013-\u203a\u20ac€‚ƒ„…†‡ˆ‰Š‹ŒŽ]|â€|ï»¿|ï¿½")
_MOJIBAKE_STARTS = ("\ufffd", "Ã", "Â", "â€", "ï»¿", "ï¿½")
_CONTROL = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u2060\ufeff]")
_MARKUP = re.compile(r"</?[a-zA-Z][^<>\n]{0,80}>|&(?:[a-z]{2,8}|#\d{1,5});|\{\w*\}|%[sd]\b")
_NOT_WORDS = re.compile(r"[\W_]+")
_NOT_ASCII_WORDS = bytes(byte for byte in range(256) if byte >= 128 or not chr(byte).isalnum())

EMPTY, ONE_SIDED = "empty", "one side empty"
REPEATED, NEARLY_REPEATED = "repeated", "nearly repeated"
CRLF = "CR LF"
MEANINGS = {
    EMPTY: "pairs with both sides empty",
    ONE_SIDED: "pairs with an empty side",
    REPEATED: "pairs that occurred before",
    NEARLY_REPEATED: "pairs that occurred before, except for case, space and punctuation",
    "source in held-out set": "pairs whose source occurs in a validation or test set",
    "target in held-out set": "pairs whose target occurs in a validation or test set",
    "pair in held-out set": "pairs that occur in a validation or test set",
    "too long": f"pairs with a side of over {LONGEST:,} characters",
    "lopsided": f"pairs with one side {LARGEST_RATIO:.0f} times the other",
    "same on both sides": "pairs with the same text on both sides",
    "source in the other language": "pairs whose source seems to be in the target language",
    "target in the other language": "pairs whose target seems to be in the source language",
    "broken encoding": "pairs with broken characters (mojibake, U+FFFD)",
    "control characters": "pairs with control characters or a byte-order mark inside",
    CRLF: "pairs whose lines end in CR LF (read as if they ended in LF)",
    "markup on one side": "pairs with tags, entities or placeholders on one side only",
    "not normalised": "pairs not in Unicode's composed form (NFC)",
}
# The result of `look` for a sentence: a hash of its text, `held_out_key`, its length, and a bit for
# each flaw
LOOK = np.dtype([("hash", "<u8"), ("key", "<u4"), ("characters", "<i4"), ("flaws", "u1")])
_BLANK, _BROKEN, _NOT_COMPOSED, _CONTROLS, _HAS_MARKUP, _CR = (1 << bit for bit in range(6))
# If most pairs have one of these problems, training on the corpus is pointless.
NOT_LEARNABLE = {
    EMPTY, ONE_SIDED, "lopsided", "same on both sides", "broken encoding",
    "source in the other language", "target in the other language",
}  # fmt: skip
# --fix repairs these problems, and removes pairs with any other
REPAIRED = {"control characters", CRLF, "not normalised"}


@dataclass
class CorpusProblem:
    """A kind of problem: how often it occurs, and the first lines."""

    kind: str
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, lines: np.ndarray) -> None:
        self.count += len(lines)
        # Only the first lines are kept: a bad corpus may have millions.
        self.lines = (self.lines + lines[:FIRST_LINES_SHOWN].tolist())[:FIRST_LINES_SHOWN]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines)) + (", …" if self.count > len(self.lines) else "")
        return f"{self.count:,} {MEANINGS[self.kind]} (line{'s' if self.count > 1 else ''} {shown})"


@dataclass
class CorpusReport:
    """The results of all checks.

    `repeats`: the sorted lines (N,) that repeat an earlier one. `alarms`: problems of whole parts.
    """

    pairs: int = 0
    usable: int = 0
    by_kind: dict[str, CorpusProblem] = field(default_factory=dict)
    repeats: dict[str, np.ndarray] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)

    def add(self, kind: str, lines: np.ndarray) -> None:
        if len(lines):
            self.by_kind.setdefault(kind, CorpusProblem(kind)).add(lines)

    @property
    def findings(self) -> list[CorpusProblem]:
        """The problems of the corpus, in the order of MEANINGS."""
        return [self.by_kind[kind] for kind in MEANINGS if kind in self.by_kind]

    @property
    def is_pointless(self) -> bool:
        """True if training on this corpus is pointless."""
        counts = (self.by_kind[kind].count for kind in NOT_LEARNABLE if kind in self.by_kind)
        return bool(self.alarms) or not self.usable or 2 * max(counts, default=0) > self.pairs


@dataclass(frozen=True)
class HeldOut:
    """Texts that training must not see, as hashes of their normalized form."""

    sources: frozenset[int] = frozenset()
    targets: frozenset[int] = frozenset()

    @classmethod
    def of(cls, corpora: Iterable[Iterable[Pair]]) -> "HeldOut":
        sources, targets = set(), set()
        for pair in chain.from_iterable(corpora):
            sources.add(hash64(normalised(pair.source)))
            targets.add(hash64(normalised(pair.target)))
        return cls(frozenset(sources), frozenset(targets))


def normalised(text: str) -> str:
    """Normalize a text, so that equal results mean the same sentence.

    Case, spaces, punctuation, Unicode forms and the mark of synthetic text are ignored.

    >>> normalised("Guten  Tag!") == normalised("guten tag") == normalised("<BT> Guten Tag.")
    True
    """
    text = text.removeprefix(MADE).strip()
    # A text that is only punctuation is kept, or all such texts would be equal.
    return _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() or text


def held_out_key(text: str) -> int:
    """Return a number that is equal for texts with equal `normalised` forms, and seldom otherwise.

    It is five times faster to compute.
    """
    # Hash only ASCII letters and digits: finding punctuation among other characters takes longer.
    folded = unicodedata.normalize("NFKC", text.removeprefix(MADE)).casefold()
    return zlib.crc32(folded.encode("utf-8", "surrogatepass").translate(None, _NOT_ASCII_WORDS))


def mended(text: str) -> str:
    """Repair a text: remove control characters, and compose Unicode."""
    return unicodedata.normalize("NFC", _CONTROL.sub("", text.replace("\t", " "))).strip()


# Most checks look at each sentence separately (`look`) and then compare the results of both sides
# of a pair (`observe`). `prepare` uses only these, and looks at each file once, even if it is part
# of several corpora. Checks of languages and near repetitions need both texts; only `check` does
# these.
def look(texts: Sequence[str], crlf: Sequence[bool] = ()) -> np.ndarray:
    """Check sentences one by one; return an array of LOOK."""
    looks = np.zeros(len(texts), dtype=LOOK)
    looks["characters"] = np.fromiter(map(len, texts), np.int32, len(texts))
    stripped = [text.strip() for text in texts]
    looks["hash"] = hash_all(stripped)
    looks["key"] = np.fromiter(map(held_out_key, texts), np.uint32, len(texts))
    flaws = looks["flaws"]
    flaws[[row for row, text in enumerate(stripped) if not text]] |= _BLANK
    # Flaws are rare, so search all texts together: that is much faster than one by one.
    together = "\n".join(texts)
    starts = np.cumsum(looks["characters"] + 1) - looks["characters"] - 1

    def mark(flaw: int, pattern: re.Pattern[str]) -> None:
        places = np.fromiter((match.start() for match in pattern.finditer(together)), np.int64)
        flaws[np.searchsorted(starts, places, side="right") - 1] |= flaw

    if any(start in together for start in _MOJIBAKE_STARTS):
        mark(_BROKEN, _MOJIBAKE)
    if not unicodedata.is_normalized("NFC", together):
        flaws[
            [row for row, text in enumerate(texts) if not unicodedata.is_normalized("NFC", text)]
        ] |= _NOT_COMPOSED
    mark(_CONTROLS, _CONTROL)
    mark(_HAS_MARKUP, _MARKUP)
    if any(crlf):
        flaws[np.flatnonzero(crlf)] |= _CR
    return looks


def are_blank(looks: np.ndarray) -> np.ndarray:
    """Return which sentences are blank. (N,)"""
    blank: np.ndarray = (looks["flaws"] & _BLANK) > 0
    return blank


def are_usable(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return which pairs have text on both sides. (N,)"""
    usable: np.ndarray = ~(are_blank(sources) | are_blank(targets))
    return usable


def observe(
    report: CorpusReport,
    repeats: Repeats,
    sources: np.ndarray,
    targets: np.ndarray,
    lines: np.ndarray,
) -> None:
    """Add the looks (N,) at both sides of some pairs to a report, and their hashes to `repeats`."""
    usable = are_usable(sources, targets)
    blank = are_blank(sources) & are_blank(targets)
    report.pairs += len(lines)
    report.usable += int(usable.sum())
    report.add(EMPTY, lines[blank])
    report.add(ONE_SIDED, lines[~usable & ~blank])
    for kind, rows in _problems(sources, targets).items():
        report.add(kind, lines[rows & usable])
    # An odd factor distinguishes (a, b) from (b, a), and loses no bit of either hash.
    repeats.add(
        (sources["hash"] * np.uint64(0x9E3779B97F4A7C15) + targets["hash"])[usable], lines[usable]
    )


def _problems(sources: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """Return which pairs have each kind of problem, as far as looks show it."""
    shorter = np.minimum(sources["characters"], targets["characters"])
    longer = np.maximum(sources["characters"], targets["characters"])
    either, one = sources["flaws"] | targets["flaws"], sources["flaws"] ^ targets["flaws"]
    return {
        "too long": longer > LONGEST,
        # Short sentences may have very different lengths: "Ja." and "Of course I do."
        "lopsided": (longer > 30) & (longer > LARGEST_RATIO * shorter),
        "same on both sides": sources["hash"] == targets["hash"],
        "broken encoding": (either & _BROKEN) > 0,
        "not normalised": (either & _NOT_COMPOSED) > 0,
        "control characters": (either & _CONTROLS) > 0,
        CRLF: (either & _CR) > 0,
        "markup on one side": (one & _HAS_MARKUP) > 0,
    }


def examine(
    pairs: Iterable[Pair],
    held_out: HeldOut | None = None,
    source_language: str = "",
    target_language: str = "",
) -> CorpusReport:
    """Read a corpus once and check it. The languages are checked if they are given.

    >>> pairs = [Pair(1, "Ja.", "Yes."), Pair(2, "Ja.", "Yes."), Pair(3, "Nein.", "")]
    >>> [str(finding) for finding in examine(pairs).findings]
    ['1 pairs with an empty side (line 3)', '1 pairs that occurred before (line 2)']
    """
    report = CorpusReport()
    sample = Sample()
    differences = None
    with Repeats() as exact, Repeats() as near:
        for chunk in _chunks(pairs):
            sample.add(chunk)
            lines = np.array([pair.line for pair in chunk])
            observe(report, exact, *_looks(chunk), lines)
            # The first chunk trains the model of the two languages.
            differences = differences or _difference_finder(chunk, held_out)
            usable = [pair for pair in chunk if is_usable(pair)]
            for pair in usable:
                for kind in differences(pair):
                    report.add(kind, np.array([pair.line]))
            keys = hash_all(
                f"{normalised(pair.source)}\t{normalised(pair.target)}" for pair in usable
            )
            near.add(keys, np.array([pair.line for pair in usable], dtype=np.int64))
        add_repeats(report, exact, near)
    report.alarms = find_alarms(sample.blocks, source_language, target_language)
    return report


def fix(
    pairs: Iterable[Pair], report: CorpusReport, held_out: HeldOut | None = None
) -> Iterator[tuple[Pair, str, Pair | None]]:
    """Yield each pair, the reason why it is changed or removed, and the repaired pair.

    The reason is empty if nothing changes; a removed pair comes with None.
    """
    differences = None
    for chunk in _chunks(pairs):
        differences = differences or _difference_finder(chunk, held_out)
        problems = _problems(*_looks(chunk))
        for row, pair in enumerate(chunk):
            reasons = [ONE_SIDED]
            if is_usable(pair):
                reasons = [
                    *differences(pair),
                    *(kind for kind, rows in problems.items() if rows[row]),
                ]
            reasons += [
                kind for kind, lines in report.repeats.items() if _contains(lines, pair.line)
            ]
            fatal = [reason for reason in reasons if reason not in REPAIRED]
            repaired = pair._replace(source=mended(pair.source), target=mended(pair.target))
            # A side may consist of control characters, and is empty without them.
            if fatal or not is_usable(repaired):
                yield pair, ", ".join(fatal or [ONE_SIDED]), None
            else:
                yield pair, ", ".join(reasons), repaired


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(pairs)
    while chunk := list(islice(pairs, PAIRS_IN_CHUNK)):
        yield chunk


def _looks(chunk: list[Pair]) -> tuple[np.ndarray, np.ndarray]:
    sources = look([pair.source for pair in chunk], [pair.crlf for pair in chunk])
    return sources, look([pair.target for pair in chunk])


def _difference_finder(
    first: list[Pair], held_out: HeldOut | None
) -> Callable[[Pair], Iterator[str]]:
    """Return a function that yields problems of a pair that need its texts: held-out text, swapped
    languages. The languages are learned from the `first` pairs.
    """
    classifier = TrigramClassifier(
        (p.source for p in first if is_usable(p)), (p.target for p in first if is_usable(p))
    )

    def differences(pair: Pair) -> Iterator[str]:
        if held_out is not None:
            yield from _in_held_out(pair, held_out)
        if pair.source.strip() != pair.target.strip():
            if classifier.leans_to_source(pair.source) < -MARGIN:
                yield "source in the other language"
            if classifier.leans_to_source(pair.target) > MARGIN:
                yield "target in the other language"

    return differences


def _in_held_out(pair: Pair, held_out: HeldOut) -> Iterator[str]:
    source = hash64(normalised(pair.source)) in held_out.sources
    target = hash64(normalised(pair.target)) in held_out.targets
    if source and target:
        yield "pair in held-out set"
    elif source:
        yield "source in held-out set"
    elif target:
        yield "target in held-out set"


def add_repeats(report: CorpusReport, exact: Repeats, near: Repeats | None = None) -> None:
    """Add repetitions to a report, at the end of a corpus."""
    exactly = _repeated(exact)
    nearly = _repeated(near) if near else np.zeros(0, dtype=np.int64)
    # An exact repetition is also a near one, and is reported once.
    nearly = nearly[~np.isin(nearly, exactly)]
    for kind, lines in ((REPEATED, exactly), (NEARLY_REPEATED, nearly)):
        report.repeats[kind] = lines
        if len(lines):
            first_lines = lines[:FIRST_LINES_SHOWN].tolist()
            report.by_kind[kind] = CorpusProblem(kind, len(lines), first_lines)


def _repeated(repeats: Repeats) -> np.ndarray:
    """Return all lines that repeat an earlier one, sorted."""
    parts = [lines[:, 0] for lines in repeats.lines()]
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))


def _contains(lines: np.ndarray, line: int) -> bool:
    place = int(np.searchsorted(lines, line))
    return place < len(lines) and int(lines[place]) == line
