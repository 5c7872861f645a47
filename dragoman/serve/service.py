"""What all doors share: limits, the way of a text to its model and back, attention."""

import hmac
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from fastapi import HTTPException

from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import Request
from dragoman.decode.words import word_probabilities
from dragoman.inspect.page import payload
from dragoman.inspect.sentence import inspect_sentence
from dragoman.inspect.words import Axis
from dragoman.serve import schemas
from dragoman.serve.batcher import Batcher, Line
from dragoman.serve.metrics import Metrics
from dragoman.serve.models import Models, Route
from dragoman.text.segments import split_sentences


@dataclass(frozen=True)
class Limits:
    queue_lines: int = 1024
    time_limit_s: float = 30.0
    max_characters: int = 5000
    max_body_bytes: int = 256 * 1024


class Service:
    def __init__(
        self,
        folders: Sequence[str],
        limits: Limits = Limits(),
        api_key: str = "",
        device: str = "auto",
        engine: str = "auto",
    ):
        thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self.models = thread.submit(Models.load, folders, device, engine).result()
        self.limits, self.metrics = limits, Metrics()
        self.batcher = Batcher(thread, limits.queue_lines)
        self._api_key = api_key.encode()

    def knows(self, key: str) -> bool:
        """Whether a client may come in; the comparison takes as long for any key."""
        return not self._api_key or hmac.compare_digest(key.encode("utf-8", "replace"), self._api_key)

    async def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        beam: int | None = None,
        nbest: int = 1,
        alignments: bool = False,
    ) -> list[schemas.Translated]:
        """Each text sentence by sentence, all sentences of all texts in one go."""
        self._check_size(texts)
        routes = [self.models.route(text, source, target) for text in texts]
        cut = [split_sentences(text) for text in texts]
        lines = [
            Line(route.model.translator, _request(route, beam, nbest, alignments), sentence)
            for route, (sentences, _) in zip(routes, cut, strict=True)
            for sentence in sentences
        ]
        found = iter(await self.batcher.translate(lines))
        return [
            _translated(route, [next(found) for _ in sentences], gaps, alignments)
            for route, (sentences, gaps) in zip(routes, cut, strict=True)
        ]

    async def attention(self, text: str, source: str, target: str, translation: str | None) -> dict[str, Any]:
        """What the page's viewer takes."""
        self._check_size([text, translation or ""])
        route = self.models.route(text, source, target)
        request = _request(route, None, 1, False)
        return await self.batcher.run(
            lambda: payload(inspect_sentence(route.model.translator, text, translation, request))
        )

    def _check_size(self, texts: Sequence[str]) -> None:
        characters, most = sum(map(len, texts)), self.limits.max_characters
        if characters > most:
            raise HTTPException(413, f"{characters:,} characters are more than the {most:,} taken at once: send less.")
        self.metrics.texts += len(texts)
        self.metrics.characters += characters


def _request(route: Route, beam: int | None, nbest: int, alignments: bool) -> Request:
    settings = route.model.translator.config.decoding
    return Request(
        to=route.target,
        source_language=route.source if route.model.sources else "",
        decoding=replace(settings, beam=beam) if beam is not None else settings,
        nbest=nbest,
        alignments=alignments,
    )


def _translated(route: Route, found: list[Translation], gaps: list[str], alignments: bool) -> schemas.Translated:
    """A text's translation from those of its sentences: the best of each, the second of each, ...

    Candidates of other pieces may read the same; the best of those is enough.
    """
    source_words = [_source_words(route, sentence.source) for sentence in found] if alignments else []
    count = max(len(sentence.candidates) for sentence in found)
    distinct: dict[str, schemas.Candidate] = {}
    for rank in range(count):
        parts = [s.candidates[min(rank, len(s.candidates) - 1)] for s in found]
        candidate = _candidate(parts, gaps, source_words)
        distinct.setdefault(candidate.text, candidate)
    candidates = [*distinct.values()]
    return schemas.Translated(
        text=candidates[0].text,
        source=route.source,
        target=route.target,
        model=route.model.name,
        detected=schemas.DetectedLanguage(**route.detected._asdict()) if route.detected else None,
        source_words=[word for words in source_words for word in words] if alignments else None,
        sentences=[schemas.Sentence(source=s.source, text=s.text) for s in found] if alignments else None,
        candidates=candidates,
    )


def _source_words(route: Route, sentence: str) -> tuple[str, ...]:
    """The words that the alignment counts: those of the pieces between the language tag and the end."""
    codec = route.model.translator.codec
    ids = codec.encode_source([sentence], route.target)[0][codec.languages.tagged : -1]
    return Axis.of([codec.source.pieces[i] for i in ids]).labels


def _candidate(parts: list[Candidate], gaps: list[str], source_words: list[tuple[str, ...]]) -> schemas.Candidate:
    """The candidates of a text's sentences as one; word numbers count through the text."""
    text = "".join(part.text + gap for part, gap in zip(parts, [*gaps, ""], strict=True))
    score = sum(part.score for part in parts)
    if not source_words:
        return schemas.Candidate(text=text, score=score, words=None, alignment=None)
    words: list[schemas.Word] = []
    links: list[tuple[int, int]] = []
    before = 0
    for part, sources in zip(parts, source_words, strict=True):
        links += [(s + before, t + len(words)) for s, t in part.alignment]
        labels = Axis.of(part.pieces).labels
        probabilities = word_probabilities(part.pieces, part.log_probs)
        words += [schemas.Word(text=w, probability=p) for w, p in zip(labels, probabilities, strict=True)]
        before += len(sources)
    return schemas.Candidate(text=text, score=score, words=words, alignment=links)
