"""Documents through a translator: the rounds of `translating.py` in the pipeline."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import Life, Steps, together
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.documents.document import Document, Doubt
from dragoman.documents.inline import Said
from dragoman.documents.segment import Segment
from dragoman.documents.translating import Repeated, Sentence, translating
from dragoman.text.detect import detect

T = TypeVar("T")
WINDOW = 500  # segments whose sentences are translated together


def translate_segments(
    translator: Translator,
    segments: Sequence[Segment],
    request: Request = Request(),
    on_done: Callable[[int], None] = lambda count: None,
    doubts: dict[Segment, Doubt] | None = None,
) -> list[Segment]:
    """All segments, some hundreds at a time; `on_done` hears how many more are done."""
    repeated = Repeated(segments)
    for window in repeated.windows(WINDOW):
        translated = driven(translator, translating(window, doubts), request)
        on_done(repeated.learn(window, translated))
    return repeated.translated()


def driven(
    translator: Translator,
    rounds: Generator[list[Sentence], list[Said], T],
    request: Request,
    on_round: Callable[[], None] = lambda: None,
) -> T:
    """What rounds come to, by a translator that is waited for."""
    request = translator.check(request)
    return translator.run(in_pipeline(translator.pipeline, rounds, request, on_round))


def in_pipeline(
    pipeline: Pipeline,
    rounds: Generator[list[Sentence], list[Said], T],
    request: Request,
    on_round: Callable[[], None] = lambda: None,
) -> Life[T]:
    """What rounds come to, as a life: their sentences go through the pipeline."""
    steps = Steps(rounds)
    while not steps.is_done:
        on_round()
        steps.send((yield from _translations(pipeline, steps.wants, request)))
    return steps.result


def _translations(
    pipeline: Pipeline, sentences: Sequence[Sentence], request: Request
) -> Life[list[Said]]:
    """Links cost time, and on a GPU the faster search: only sentences with tags get them."""
    answers: list[Said] = [Said("")] * len(sentences)
    kinds = [
        [row for row, sentence in enumerate(sentences) if sentence.linked is linked]
        for linked in (False, True)
    ]
    plain, linked = yield from together(
        [
            pipeline.translate([sentences[row].text for row in rows], wanted)
            for rows, wanted in zip(kinds, (request, pipeline.linking(request)), strict=True)
        ]
    )
    for rows, translations in zip(kinds, (plain, linked), strict=True):
        for row, translation in zip(rows, translations, strict=True):
            answers[row] = as_said(translation)
    return answers


def as_said(translation: Translation) -> Said:
    return Said(translation.text, translation.alignment, translation.confidence)


def settled(translator: Translator, text: str, request: Request) -> Request:
    """The request with the target language, which a line alone may not tell; `text`: a sample."""
    languages, source = translator.codec.languages, request.source_language
    if request.to or not languages.tagged:
        return request
    if not source:
        source = detect(text, languages.sources)[0].language
    return replace(request, to=languages.default_target(source))


def translate_document(
    translator: Translator,
    document: Document,
    request: Request = Request(),
    on_done: Callable[[int], None] = lambda count: None,
) -> bytes:
    """The file with its text translated."""
    translated = translate_segments(
        translator, document.segments, request, on_done, document.doubts
    )
    return document.write(translated)
