"""Segments to their translations, in a few rounds.

First every sentence is translated whole, stand-ins in the place of placeholders. Where a code did
not come through, other stand-ins are tried. What is still left is translated piece by piece, the
text between two codes by itself: there nothing can be lost, because the codes never leave the file.

The rounds are a generator: it asks for sentences and is sent what a translator made of them. So the
command line, which waits, and the service, which does not, run the same code.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeAlias

from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.documents.document import Document
from dragoman.documents.inline import Plain, Said
from dragoman.documents.protect import gains, within
from dragoman.documents.segment import (
    Code,
    Kind,
    Segment,
    has_words,
    made,
    same_structure,
    texts,
    trimmed,
)
from dragoman.text.detect import detect
from dragoman.text.segments import edges, split_sentences
from dragoman.text.verbatim import STAND_INS

WINDOW = 500  # segments whose sentences are translated together
SAMPLED = 200  # segments that tell the language of a document
MOST_SAMPLED = 5000  # characters of them
MOST_CODES = 200  # in a segment; one with more is translated piece by piece


class Sentence(NamedTuple):
    """What a translator is asked for; `linked`: which words translate which is needed too."""

    text: str
    linked: bool = False


Rounds: TypeAlias = Generator[list[Sentence], list[Said], list[Segment]]


def translating(segments: Sequence[Segment]) -> Rounds:
    """The segments translated: yields sentences, is sent their translations."""
    sources = [within(segment) for segment in segments]
    parts = [_cut(source) for source in sources]
    flat = [part for of_one in parts for part in of_one]
    found: list[Segment | None] = [None if has_words(part) else part for part in flat]
    for stand_ins in STAND_INS:
        open_ = [
            i for i, part in enumerate(flat) if found[i] is None and len(part) <= 2 * MOST_CODES
        ]
        trims = [trimmed(flat[i]) for i in open_]
        plains = [Plain(inner, stand_ins) for _, inner, _ in trims]
        asked = [_sentences(plain) if not plain.too_deep else [] for plain in plains]
        flat_asked = [sentence for of_plain in asked for sentence in of_plain]
        said = iter((yield flat_asked) if flat_asked else [])
        for i, plain, (before, _, after), of_plain in zip(open_, plains, trims, asked, strict=True):
            if not of_plain:
                continue
            answers = _answers(plain, said)
            inner = plain.placed(answers)
            if inner is not None:
                whole = (*before, *inner, *after)
                found[i] = whole if same_structure(flat[i], whole) else None
    done: list[Segment | None] = []
    rest = iter(found)
    for source, of_one in zip(sources, parts, strict=True):
        joined = [part for part in islice(rest, len(of_one)) if part is not None]
        whole = made(item for part in joined for item in part)
        complete = len(joined) == len(of_one) and same_structure(source, whole)
        done.append(whole if complete else None)
    left = [i for i, segment in enumerate(done) if segment is None]
    pieced = yield from _piecewise([sources[i] for i in left])
    for i, segment in zip(left, pieced, strict=True):
        done[i] = segment
    return [segment for segment in done if segment is not None]


def _cut(segment: Segment) -> list[Segment]:
    """At breaks, which stand alone."""
    parts: list[list[str | Code]] = [[]]
    for item in segment:
        if isinstance(item, Code) and item.kind is Kind.BREAK:
            parts += [[item], []]
        else:
            parts[-1].append(item)
    return [made(part) for part in parts if part]


def _sentences(plain: Plain) -> list[Sentence]:
    return [Sentence(text, plain.has_tags) for text in plain.sentences if _speaks(text)]


def _answers(plain: Plain, said: Iterator[Said]) -> list[Said]:
    """For each of its sentences; what says nothing was not asked for and stays."""
    return [next(said) if _speaks(text) else Said(text) for text in plain.sentences]


def _speaks(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _piecewise(segments: Sequence[Segment]) -> Rounds:
    """Each text between two codes by itself, all codes where they are."""
    asked = [
        Sentence(sentence)
        for segment in segments
        for item in segment
        if isinstance(item, str)
        for sentence in split_sentences(edges(item)[1])[0]
        if _speaks(sentence)
    ]
    said = iter((yield asked) if asked else [])
    return [
        tuple(_piece(item, said) if isinstance(item, str) else item for item in segment)
        for segment in segments
    ]


def _piece(text: str, said: Iterator[Said]) -> str:
    before, core, after = edges(text)
    sentences, gaps = split_sentences(core)
    answers = [next(said).text if _speaks(sentence) else sentence for sentence in sentences]
    joined = "".join(a + gap for a, gap in zip(answers, [*gaps, ""], strict=True))
    # A placeholder that the source does not have would break a program: better no translation.
    return text if gains(core, joined) else before + joined + after


def translate_segments(
    translator: Translator,
    segments: Sequence[Segment],
    request: Request = Request(),
    on_done: Callable[[int], None] = lambda count: None,
) -> list[Segment]:
    """All segments, some hundreds at a time; `on_done` hears how many more are done."""
    translated: list[Segment] = []
    for start in range(0, len(segments), WINDOW):
        window = segments[start : start + WINDOW]
        rounds = translating(window)
        try:
            asked = next(rounds)
            while True:
                asked = rounds.send(_said(translator, asked, request))
        except StopIteration as end:
            translated += end.value
        on_done(len(window))
    return translated


def _said(translator: Translator, asked: Sequence[Sentence], request: Request) -> list[Said]:
    """Links cost time, and on a GPU the faster search: only sentences with tags get them."""
    answers: list[Said] = [Said("")] * len(asked)
    for linked in (False, True):
        rows = [row for row, sentence in enumerate(asked) if sentence.linked is linked]
        with_links = linked and translator.engine.has_attention
        found = translator.translate(
            [asked[row].text for row in rows], replace(request, alignments=with_links)
        )
        for row, translation in zip(rows, found, strict=True):
            answers[row] = as_said(translation)
    return answers


def as_said(translation: Translation) -> Said:
    return Said(translation.text, translation.candidates[0].alignment)


def sample(segments: Sequence[Segment]) -> str:
    """Enough text to tell a document's language."""
    whole = " ".join(text for segment in segments[:SAMPLED] for text in texts(segment))
    return whole[:MOST_SAMPLED]


def settled(translator: Translator, segments: Sequence[Segment], request: Request) -> Request:
    """The request with the target language, which a line alone may not tell."""
    languages, source = translator.codec.languages, request.source_language
    if request.to or not languages.tagged:
        return request
    if not source:
        source = detect(sample(segments), languages.sources)[0].language
    return replace(request, to=languages.default_target(source))


def translate_document(
    translator: Translator,
    document: Document,
    request: Request = Request(),
    on_done: Callable[[int], None] = lambda count: None,
) -> bytes:
    """The file with its text translated."""
    return document.write(translate_segments(translator, document.segments, request, on_done))
