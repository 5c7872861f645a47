"""Run the rounds of a document (`rounds.py`) through a translator's pipeline."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import Life, Steps, together
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.documents.inline import SentenceResult
from dragoman.documents.rounds import SentenceRequest
from dragoman.text.detect import detect

T = TypeVar("T")


def run_rounds(
    translator: Translator,
    rounds: Generator[list[SentenceRequest], list[SentenceResult], T],
    request: Request,
    on_round: Callable[[], None] = lambda: None,
) -> T:
    """Run rounds to their end with a translator, and return their result."""
    request = translator.check(request)
    return translator.run(in_pipeline(translator.pipeline, rounds, request, on_round))


def in_pipeline(
    pipeline: Pipeline,
    rounds: Generator[list[SentenceRequest], list[SentenceResult], T],
    request: Request,
    on_round: Callable[[], None] = lambda: None,
) -> Life[T]:
    """Run rounds as a coroutine of the pipeline, for callers that must not block."""
    steps = Steps(rounds)
    while not steps.is_done:
        on_round()
        steps.send((yield from _translate(pipeline, steps.wants, request)))
    return steps.result


def _translate(
    pipeline: Pipeline, sentences: Sequence[SentenceRequest], request: Request
) -> Life[list[SentenceResult]]:
    results: list[SentenceResult] = [SentenceResult("")] * len(sentences)
    # Word links cost time, and on a GPU the faster search: only sentences with tags get them.
    kinds = [
        [row for row, sentence in enumerate(sentences) if sentence.linked is linked]
        for linked in (False, True)
    ]
    plain, linked = yield from together(
        [
            pipeline.translate([sentences[row].text for row in rows], own_request)
            for rows, own_request in zip(kinds, (request, pipeline.linking(request)), strict=True)
        ]
    )
    for rows, translations in zip(kinds, (plain, linked), strict=True):
        for row, translation in zip(rows, translations, strict=True):
            results[row] = sentence_result(translation)
    return results


def sentence_result(translation: Translation) -> SentenceResult:
    return SentenceResult(translation.text, translation.alignment, translation.confidence)


def with_target_language(translator: Translator, text: str, request: Request) -> Request:
    """Return the request with a target language, chosen by the language of a sample of the text.

    The choice is made once for a document: single lines may be too short to detect.
    """
    languages, source = translator.codec.languages, request.source_language
    if request.to or not languages.tagged:
        return request
    if not source:
        source = detect(text, languages.sources)[0].language
    return replace(request, to=languages.default_target(source))
