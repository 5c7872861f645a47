"""Translate segments in a few rounds.

First every sentence is translated whole, with masks for placeholders. If a code did not come
through, other masks are tried. A translator that keeps tags gets whole segments with them before
that. The remaining segments are translated piece by piece, each text
between two codes by itself: nothing can be lost there, because the codes never leave the file.

The caller passes the function that translates sentences (`translate.py`), so the process that reads
a file (`sandbox.py`) imports nothing that translates.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from dragoman.documents.document import QualityWarning
from dragoman.documents.inline import MaskedSegment, SentenceResult
from dragoman.documents.marked import marked, restored
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

SAMPLED = 200  # segments from which the language of a document is detected
MOST_SAMPLED = 5000  # characters of them
_PUNCTUATION = re.compile(r"\s*+(?:[.,;:!?)\]…]++(?=\s|\Z))?+")
UNSURE = 0.5  # confidence below which a translation gets a warning
MOST_CODES = 200  # a segment with more codes is translated piece by piece


class SentenceRequest(NamedTuple):
    """A sentence to translate; `linked`: its word links are needed, too."""

    text: str
    linked: bool = False


TranslateSentences: TypeAlias = Callable[[list[SentenceRequest]], list[SentenceResult]]


def translate_segments(
    segments: Sequence[Segment],
    translate: TranslateSentences,
    warnings: dict[Segment, QualityWarning] | None = None,
    with_tags: bool = False,
) -> list[Segment]:
    """Translate segments, calling `translate` with the sentences of each round.

    `warnings` collects what is doubtful, by source segment. With `with_tags`, whole segments with
    their tags as marks come first.
    """
    warnings = {} if warnings is None else warnings
    sources = [protect_texts(segment) for segment in segments]
    # A break ends a sentence, so each side is translated separately.
    parts = [_split_at_breaks(source) for source in sources]
    flat = [(part, number) for number, own in enumerate(parts) for part in own]
    translated: list[Segment | None] = [None if has_words(part) else part for part, _ in flat]
    if with_tags:
        rows = [i for i, part in enumerate(translated) if part is None]
        for i, (found, result) in zip(
            rows, _with_tags([flat[i][0] for i in rows], translate), strict=True
        ):
            translated[i] = found
            if found is not None:
                _warn(warnings, segments[flat[i][1]], [result])
    for stand_ins in STAND_INS:
        # Only segments without a result, and with few enough codes to place.
        pending = [
            i
            for i, (part, _) in enumerate(flat)
            if translated[i] is None and len(part) <= 2 * MOST_CODES
        ]
        trims = [strip_edges(flat[i][0]) for i in pending]
        masked = [MaskedSegment(inner, stand_ins) for _, inner, _ in trims]
        requests = [_requests(one) if not one.too_deep else [] for one in masked]
        # One call a round, so that all sentences of all segments share batches.
        sentences = [request for own in requests for request in own]
        replies = iter(translate(sentences) if sentences else [])
        for i, one, (before, _, after), own in zip(pending, masked, trims, requests, strict=True):
            if not own:
                continue
            part, number = flat[i]
            results = _results(one, replies)
            _warn(warnings, segments[number], results)
            inner = one.restore(results)
            if inner is not None and same_structure(part, whole := (*before, *inner, *after)):
                translated[i] = whole
                if one.doubtful:
                    why = f"{' '.join(one.doubtful)} may enclose other words"
                    warnings.setdefault(segments[number], QualityWarning(why))
    done: list[Segment | None] = []
    # Put the parts of each segment together again.
    rest = iter(translated)
    for source, own_parts in zip(sources, parts, strict=True):
        joined = [part for part in islice(rest, len(own_parts)) if part is not None]
        whole = _join(source, (item for part in joined for item in part))
        complete = len(joined) == len(own_parts) and same_structure(source, whole)
        done.append(whole if complete else None)
    failed = [i for i, segment in enumerate(done) if segment is None]
    pieced = _piecewise([sources[i] for i in failed], translate)
    for i, segment in zip(failed, pieced, strict=True):
        done[i] = segment
        warnings[segments[i]] = QualityWarning("translated in pieces, between its codes")
    return [segment for segment in done if segment is not None]


def _warn(
    warnings: dict[Segment, QualityWarning], segment: Segment, results: Sequence[SentenceResult]
) -> None:
    """Note what is doubtful about the translations of a segment's sentences."""
    confidence = min(result.confidence for result in results)
    said = [result.why for result in results if result.why]
    if said:
        warnings[segment] = QualityWarning(" ".join(said), min(confidence, UNSURE))
    elif confidence < UNSURE:
        why = f"the model is unsure ({confidence:.0%})"
        warnings[segment] = QualityWarning(why, confidence)


def _with_tags(
    parts: Sequence[Segment], translate: TranslateSentences
) -> list[tuple[Segment | None, SentenceResult]]:
    """Translate segments whole, with a mark for each code; None where a code was lost."""
    trims = [strip_edges(part) for part in parts]
    texts = [marked(inner) for _, inner, _ in trims]
    results = translate([SentenceRequest(text) for text, _ in texts]) if texts else []
    found: list[tuple[Segment | None, SentenceResult]] = []
    for (before, inner, after), (_, code_of), result in zip(trims, texts, results, strict=True):
        whole = restored(inner, result.text, code_of)
        if whole is not None:
            whole = normalize((*before, *whole, *after))
        found.append((whole, result))
    return found


def _split_at_breaks(segment: Segment) -> list[Segment]:
    """Split a segment at its breaks; each break is a part of its own."""
    parts: list[list[str | Code]] = [[]]
    for item in segment:
        if isinstance(item, Code) and item.kind is Kind.BREAK:
            parts += [[item], []]
        else:
            parts[-1].append(item)
    return [normalize(part) for part in parts if part]


def _join(source: Segment, items: Iterable[str | Code]) -> Segment:
    """Join the translated parts of a segment.

    A tag whose element contains a break has no partner in its part and became a mark there; here
    it gets its own kind back.
    """
    kinds = {code.as_mark(): code for code in codes(source)}
    return normalize(
        kinds.get(item, item) if isinstance(item, Code) and item.kind is Kind.MARK else item
        for item in items
    )


def _requests(masked: MaskedSegment) -> list[SentenceRequest]:
    return [SentenceRequest(s, masked.has_tags) for s in masked.sentences if _has_letters(s)]


def _results(masked: MaskedSegment, replies: Iterator[SentenceResult]) -> list[SentenceResult]:
    """Return a result for each sentence; one without letters was not requested and is kept."""
    results = [next(replies) if _has_letters(s) else SentenceResult(s) for s in masked.sentences]
    # Models like to end "as follows:" with a full stop.
    if masked.text.endswith(":") and not results[-1].text.endswith(":"):
        core = results[-1].text.rstrip(" .!?;,")
        results[-1] = results[-1]._replace(text=f"{core}:")
    return results


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _piecewise(segments: Sequence[Segment], translate: TranslateSentences) -> list[Segment]:
    """Translate each text between two codes by itself; all codes stay in place."""
    requests = [
        SentenceRequest(sentence)
        for segment in segments
        for item in segment
        if isinstance(item, str)
        for sentence in split_sentences(_core(item)[1])[0]
        if _has_letters(sentence)
    ]
    replies = iter(translate(requests) if requests else [])
    return [
        tuple(_piece(item, replies) if isinstance(item, str) else item for item in segment)
        for segment in segments
    ]


def _core(text: str) -> tuple[str, str, str]:
    """Split a text between two codes into an edge, the part to translate, and an edge.

    Punctuation at the beginning belongs to the words before the code: by itself, it would confuse
    the translator.
    """
    end = _PUNCTUATION.match(text).end()  # type: ignore[union-attr]
    before, core, after = edges(text[end:])
    return text[:end] + before, core, after


def _piece(text: str, replies: Iterator[SentenceResult]) -> str:
    before, core, after = _core(text)
    sentences, gaps = split_sentences(core)
    translated = [next(replies).text if _has_letters(s) else s for s in sentences]
    joined = "".join(s + gap for s, gap in zip(translated, [*gaps, ""], strict=True))
    # A placeholder that the source lacks would break a program: better no translation.
    return text if adds_protected(core, joined) else before + joined + after


class UniqueSegments:
    """The distinct segments of a document: each is translated once, and alike everywhere."""

    def __init__(self, segments: Sequence[Segment]):
        self._segments = segments
        self._count = Counter(segments)
        self._translations: dict[Segment, Segment] = {}

    def windows(self, size: int) -> Iterator[list[Segment]]:
        distinct = list(self._count)
        return (distinct[start : start + size] for start in range(0, len(distinct), size))

    def add(self, window: Sequence[Segment], translated: Sequence[Segment]) -> int:
        """Store the translations of a window; return how many segments of the document they are."""
        self._translations.update(zip(window, translated, strict=True))
        return sum(self._count[segment] for segment in window)

    def translated(self) -> list[Segment]:
        return [self._translations[segment] for segment in self._segments]


def language_sample(segments: Sequence[Segment]) -> str:
    """Return enough text to detect a document's language."""
    whole = " ".join(text for segment in segments[:SAMPLED] for text in texts(segment))
    return whole[:MOST_SAMPLED]
