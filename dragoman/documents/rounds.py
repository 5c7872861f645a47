"""Segments to their translations, in a few rounds.

First every sentence is translated whole, stand-ins in the place of placeholders. Where a code did
not come through, other stand-ins are tried. What is still left is translated piece by piece, the
text between two codes by itself: there nothing can be lost, because the codes never leave the file.

The rounds are a generator: it asks for sentences and is sent what a translator made of them
(`translate.py`). So the command line, which waits, and the service, which does not, run the same
code, and a process that reads a file (`sandbox.py`) imports nothing that translates.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from dragoman.documents.document import QualityWarning
from dragoman.documents.inline import MaskedSegment, SentenceResult
from dragoman.documents.protect import adds_protected, protect_texts
from dragoman.documents.segment import (
    Code,
    Kind,
    Segment,
    codes,
    has_words,
    normalize,
    same_structure,
    strip_edges,
    texts,
)
from dragoman.text.segments import edges, split_sentences
from dragoman.text.verbatim import STAND_INS

SAMPLED = 200  # segments that tell the language of a document
MOST_SAMPLED = 5000  # characters of them
_PUNCTUATION = re.compile(r"\s*+(?:[.,;:!?)\]…]++(?=\s|\Z))?+")
UNSURE = 0.5  # that a translation is good: below, somebody should look at it
MOST_CODES = 200  # in a segment; one with more is translated piece by piece


class SentenceRequest(NamedTuple):
    """What a translator is asked for; `linked`: which words translate which is needed too."""

    text: str
    linked: bool = False


Rounds: TypeAlias = Generator[list[SentenceRequest], list[SentenceResult], list[Segment]]


def translation_rounds(
    segments: Sequence[Segment], doubts: dict[Segment, QualityWarning] | None = None
) -> Rounds:
    """The segments translated: yields sentences, is sent their translations. `doubts` learns which
    of the translations somebody should look at."""
    doubts = {} if doubts is None else doubts
    sources = [protect_texts(segment) for segment in segments]
    parts = [_cut(source) for source in sources]
    flat = [part for of_one in parts for part in of_one]
    owners = [number for number, of_one in enumerate(parts) for _ in of_one]
    found: list[Segment | None] = [None if has_words(part) else part for part in flat]
    for stand_ins in STAND_INS:
        open_ = [
            i for i, part in enumerate(flat) if found[i] is None and len(part) <= 2 * MOST_CODES
        ]
        trims = [strip_edges(flat[i]) for i in open_]
        plains = [MaskedSegment(inner, stand_ins) for _, inner, _ in trims]
        asked = [_sentences(plain) if not plain.too_deep else [] for plain in plains]
        flat_asked = [sentence for of_plain in asked for sentence in of_plain]
        said = iter((yield flat_asked) if flat_asked else [])
        for i, plain, (before, _, after), of_plain in zip(open_, plains, trims, asked, strict=True):
            if not of_plain:
                continue
            answers = _answers(plain, said)
            least = min(answer.confidence for answer in answers)
            if least < UNSURE:
                doubts[segments[owners[i]]] = QualityWarning(
                    f"the model is unsure ({least:.0%})", least
                )
            inner = plain.placed(answers)
            if inner is not None:
                whole = (*before, *inner, *after)
                found[i] = whole if same_structure(flat[i], whole) else None
    done: list[Segment | None] = []
    rest = iter(found)
    for source, of_one in zip(sources, parts, strict=True):
        joined = [part for part in islice(rest, len(of_one)) if part is not None]
        whole = _with_kinds(source, (item for part in joined for item in part))
        complete = len(joined) == len(of_one) and same_structure(source, whole)
        done.append(whole if complete else None)
    left = [i for i, segment in enumerate(done) if segment is None]
    pieced = yield from _piecewise([sources[i] for i in left])
    for i, segment in zip(left, pieced, strict=True):
        done[i] = segment
        doubts[segments[i]] = QualityWarning("translated in pieces, between its codes")
    return [segment for segment in done if segment is not None]


def _cut(segment: Segment) -> list[Segment]:
    """At breaks, which stand alone."""
    parts: list[list[str | Code]] = [[]]
    for item in segment:
        if isinstance(item, Code) and item.kind is Kind.BREAK:
            parts += [[item], []]
        else:
            parts[-1].append(item)
    return [normalize(part) for part in parts if part]


def _with_kinds(source: Segment, items: Iterable[str | Code]) -> Segment:
    """Parts joined again: what enclosed a break was a mark in each part, and is an element now."""
    kinds = {code.as_mark(): code for code in codes(source)}
    return normalize(
        kinds.get(item, item) if isinstance(item, Code) and item.kind is Kind.MARK else item
        for item in items
    )


def _sentences(plain: MaskedSegment) -> list[SentenceRequest]:
    return [SentenceRequest(text, plain.has_tags) for text in plain.sentences if _speaks(text)]


def _answers(plain: MaskedSegment, said: Iterator[SentenceResult]) -> list[SentenceResult]:
    """For each of its sentences; what says nothing was not asked for and stays."""
    answers = [next(said) if _speaks(text) else SentenceResult(text) for text in plain.sentences]
    if plain.text.endswith(":") and not answers[-1].text.endswith(":"):
        core = answers[-1].text.rstrip(" .!?;,")
        answers[-1] = answers[-1]._replace(text=f"{core}:")
    return answers


def _speaks(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _piecewise(segments: Sequence[Segment]) -> Rounds:
    """Each text between two codes by itself, all codes where they are."""
    asked = [
        SentenceRequest(sentence)
        for segment in segments
        for item in segment
        if isinstance(item, str)
        for sentence in split_sentences(_core(item)[1])[0]
        if _speaks(sentence)
    ]
    said = iter((yield asked) if asked else [])
    return [
        tuple(_piece(item, said) if isinstance(item, str) else item for item in segment)
        for segment in segments
    ]


def _core(text: str) -> tuple[str, str, str]:
    """A text between two codes, and what stays around it: white space, and the punctuation of what
    stands before, which a translator takes for nothing."""
    end = _PUNCTUATION.match(text).end()  # type: ignore[union-attr]
    before, core, after = edges(text[end:])
    return text[:end] + before, core, after


def _piece(text: str, said: Iterator[SentenceResult]) -> str:
    before, core, after = _core(text)
    sentences, gaps = split_sentences(core)
    answers = [next(said).text if _speaks(sentence) else sentence for sentence in sentences]
    joined = "".join(a + gap for a, gap in zip(answers, [*gaps, ""], strict=True))
    # A placeholder that the source does not have would break a program: better no translation.
    return text if adds_protected(core, joined) else before + joined + after


class UniqueSegments:
    """The segments of a document. What stands in it several times is translated once, and alike
    everywhere."""

    def __init__(self, segments: Sequence[Segment]):
        self._segments = segments
        self._count = Counter(segments)
        self._known: dict[Segment, Segment] = {}

    def windows(self, size: int) -> Iterator[list[Segment]]:
        different = list(self._count)
        return (different[start : start + size] for start in range(0, len(different), size))

    def learn(self, window: Sequence[Segment], translated: Sequence[Segment]) -> int:
        """Takes the translations of a window; says how many segments of the document they are."""
        self._known.update(zip(window, translated, strict=True))
        return sum(self._count[segment] for segment in window)

    def translated(self) -> list[Segment]:
        return [self._known[segment] for segment in self._segments]


def language_sample(segments: Sequence[Segment]) -> str:
    """Enough text to tell a document's language."""
    whole = " ".join(text for segment in segments[:SAMPLED] for text in texts(segment))
    return whole[:MOST_SAMPLED]
