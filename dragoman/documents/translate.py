"""Translate the sentences of a document (`rounds.py`) with a translator's pipeline."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import Search
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.documents.inline import SentenceResult
from dragoman.documents.rounds import SentenceRequest, TranslateSentences
from dragoman.text.detect import detect


def sentence_translator(
    translator: Translator, request: Request, on_round: Callable[[], None] = lambda: None
) -> TranslateSentences:
    """Return a function that translates sentences; it calls `on_round` before each round."""
    request = translator.check(request)
    search = translator.search(request)

    def translate(sentences: list[SentenceRequest]) -> list[SentenceResult]:
        on_round()
        return translate_sentences(translator.pipeline, sentences, request, search)

    return translate


def translate_sentences(
    pipeline: Pipeline, sentences: Sequence[SentenceRequest], request: Request, search: Search
) -> list[SentenceResult]:
    results: list[SentenceResult] = [SentenceResult("")] * len(sentences)
    # Word links cost time, and on a GPU the faster search: only sentences with tags get them.
    for linked, own_request in ((False, request), (True, pipeline.linking(request))):
        rows = [row for row, sentence in enumerate(sentences) if sentence.linked is linked]
        texts = [sentences[row].text for row in rows]
        translations = pipeline.translate(texts, own_request, search)
        for row, translation in zip(rows, translations, strict=True):
            results[row] = sentence_result(translation)
    return results


def sentence_result(translation: Translation) -> SentenceResult:
    # A text engine says why a translation is marked.
    why = getattr(translation, "broken", "") or translation.note or translation.warning
    return SentenceResult(translation.text, translation.alignment, translation.confidence, why)


def takes_marks(translator: Translator) -> bool:
    """Tell whether a translator keeps tags inside a sentence, as some text engines do."""
    return getattr(translator.pipeline, "takes_marks", False)


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
