"""Documents through a translator: the rounds of `rounds.py` in the pipeline."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import Life, Steps, together
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.documents.document import Document, QualityWarning
from dragoman.documents.inline import SentenceResult
from dragoman.documents.rounds import SentenceRequest, UniqueSegments, translation_rounds
from dragoman.documents.segment import Segment
from dragoman.text.detect import detect

T = TypeVar("T")
WINDOW = 500  # segments whose sentences are translated together


def translate_segments(
    translator: Translator,
    segments: Sequence[Segment],
    request: Request = Request(),
    on_done: Callable[[int], None] = lambda count: None,
    doubts: dict[Segment, QualityWarning] | None = None,
) -> list[Segment]:
    """All segments, some hundreds at a time; `on_done` hears how many more are done."""
    repeated = UniqueSegments(segments)
    for window in repeated.windows(WINDOW):
        translated = run_rounds(translator, translation_rounds(window, doubts), request)
        on_done(repeated.learn(window, translated))
    return repeated.translated()


def run_rounds(
    translator: Translator,
    rounds: Generator[list[SentenceRequest], list[SentenceResult], T],
    request: Request,
    on_round: Callable[[], None] = lambda: None,
) -> T:
    """What rounds come to, by a translator that is waited for."""
    request = translator.check(request)
    return translator.run(in_pipeline(translator.pipeline, rounds, request, on_round))


def in_pipeline(
    pipeline: Pipeline,
    rounds: Generator[list[SentenceRequest], list[SentenceResult], T],
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
    pipeline: Pipeline, sentences: Sequence[SentenceRequest], request: Request
) -> Life[list[SentenceResult]]:
    """Links cost time, and on a GPU the faster search: only sentences with tags get them."""
    answers: list[SentenceResult] = [SentenceResult("")] * len(sentences)
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
            answers[row] = sentence_result(translation)
    return answers


def sentence_result(translation: Translation) -> SentenceResult:
    return SentenceResult(translation.text, translation.alignment, translation.confidence)


def with_target_language(translator: Translator, text: str, request: Request) -> Request:
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
