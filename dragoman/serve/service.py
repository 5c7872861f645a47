"""What all routes share: limits, the way of a text to its model and back, attention."""

import asyncio
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fastapi import HTTPException

from dragoman.decode.glossary import NO_TERMS, Glossary
from dragoman.decode.hypotheses import OnStep
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, Translation, word_probabilities
from dragoman.decode.translator import Translator
from dragoman.documents.document import Document, Options
from dragoman.documents.formats import Format
from dragoman.documents.inline import Said
from dragoman.documents.segment import Segment
from dragoman.documents.translating import (
    WINDOW,
    Rounds,
    Sentence,
    as_said,
    sample,
    translating,
)
from dragoman.inspect.explain import explain
from dragoman.inspect.explain import payload as explanation_payload
from dragoman.inspect.page import payload
from dragoman.inspect.sentence import inspect_sentence
from dragoman.inspect.translator import InspectableTranslator
from dragoman.inspect.words import Axis
from dragoman.serve import schemas
from dragoman.serve.batcher import Batcher, BusyError, Line
from dragoman.serve.keys import Key, Keys
from dragoman.serve.metrics import Metrics
from dragoman.serve.models import Models, Route
from dragoman.text.segments import split_sentences

T = TypeVar("T")
_AT_ONCE = 64  # sentences of a document
_SUGGESTED_BYTES = 100 * 2**20  # of a pair of languages
_SHORT = 300  # characters: splitting them takes milliseconds, and so does handing them to a thread
_SHOWN_WEIGHTS = 8_000_000  # of attention: 16 MB as the page gets them
_SHOWN_NUMBERS = 16_000_000  # of vectors, a byte each


@dataclass(frozen=True)
class Limits:
    """`max_work` is in positions (`Searcher.work`).

    Sentences of 20 characters need 38,000 for 5,000 characters with the packaged model and its beam
    of 4, a list of 1,000 words 107,000. 5,000 digits need 195,000 with a beam of 16, 5,000 times
    U+FDFA 2,000,000.
    """

    queue_lines: int = 1024
    time_limit_s: float = 30.0
    max_characters: int = 5000
    max_body_bytes: int = 256 * 1024
    max_work: int = 150_000
    stuck_after_s: float = 10.0
    cache_texts: int = 0  # translations that are kept for whoever asks the same again
    max_file_bytes: int = 10 * 2**20
    max_file_characters: int = 300_000
    documents: int = 50  # kept at a time, waiting and done
    document_s: float = 3600.0  # for which one is kept


class _Text(NamedTuple):
    """A text on its way through its model."""

    route: Route
    sentences: list[str]
    gaps: list[str]
    lines: list[Line]


class Service:
    def __init__(
        self,
        folders: Sequence[str],
        limits: Limits = Limits(),
        api_key: str = "",
        device: str = "auto",
        engine: str = "auto",
        keys: Mapping[str, Key] | None = None,
        suggestions: Path | None = None,
    ):
        """`api_key` is a key without limits; `keys` are others by name, each with its own.

        `suggestions`: a folder for what clients suggest; None: suggestions are refused.
        """
        self.keys = Keys({**({"api_key": Key(api_key)} if api_key else {}), **(keys or {})})
        thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self.models = thread.submit(Models.load, folders, device, engine).result()
        self.limits = limits
        self.metrics = Metrics()
        self.batcher = Batcher(thread, limits.queue_lines)
        self.stopping = False
        self._splitting = ThreadPoolExecutor(1, thread_name_prefix="split")
        self._cache: OrderedDict[tuple[object, ...], schemas.Translated] = OrderedDict()
        self.suggestions = suggestions

    def suggest(self, text: str, better: str, source: str, target: str) -> None:
        """Keep a translation that a client likes better, as a pair that `dragoman train` takes."""
        if self.suggestions is None:
            raise HTTPException(403, "this service takes no suggestions.")
        self._check_size([text, better])
        # The codes of the models, not the client's way to write them: they name a file.
        route = self.models.route(text, source, target)
        file = self.suggestions / f"suggestions.{route.source}-{route.target}.tsv"
        if file.exists() and file.stat().st_size > _SUGGESTED_BYTES:
            raise HTTPException(403, "no more suggestions are taken.")
        pair = (" ".join(side.split()) for side in (text, better))
        with open(file, "a", encoding="utf-8", newline="\n") as kept:
            kept.write("\t".join(pair) + "\n")

    @property
    def unready(self) -> str:
        """Why no request should be sent here now; empty: nothing speaks against it."""
        if self.stopping:
            return "the service is stopping."
        if (seconds := self.batcher.stuck_for()) > self.limits.stuck_after_s:
            return f"the engine has made no progress for {seconds:.0f} s."
        return ""

    async def close(self) -> None:
        self.stopping = True
        await self.batcher.close()
        self._splitting.shutdown(wait=False, cancel_futures=True)

    async def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        beam: int | None = None,
        nbest: int = 1,
        alignments: bool = False,
        glossary: Glossary = NO_TERMS,
        client: str = "",
        max_characters: int = 0,
    ) -> list[schemas.Translated]:
        """Each text as it is in the cache, or translated; the size of all is checked first."""
        self._check_size(texts, max_characters)
        self.metrics.count(texts)
        asked = (source, target, beam, nbest, alignments, glossary)
        answers = {text: self._remembered((text, *asked)) for text in texts}
        missing = [text for text, answer in answers.items() if answer is None]
        if missing:
            made = await self._translate(missing, *asked, client)
            answers.update(zip(missing, made, strict=True))
        for text, answer in answers.items():
            self._remember((text, *asked), answer)
        return [answer for text in texts if (answer := answers[text]) is not None]

    def _remembered(self, asked: tuple[object, ...]) -> schemas.Translated | None:
        answer = self._cache.get(asked)
        if answer is not None:
            self.metrics.cached += 1
        return answer

    def _remember(self, asked: tuple[object, ...], answer: schemas.Translated | None) -> None:
        """Keep an answer as the last one used; the first ones go."""
        if answer is not None and self.limits.cache_texts:
            self._cache[asked] = answer
            self._cache.move_to_end(asked)
            while len(self._cache) > self.limits.cache_texts:
                self._cache.popitem(last=False)

    async def _translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        beam: int | None,
        nbest: int,
        alignments: bool,
        glossary: Glossary,
        client: str,
    ) -> list[schemas.Translated]:
        """Each text sentence by sentence, all sentences of all texts in one go."""
        asked = Request(nbest=nbest, alignments=alignments, glossary=glossary)
        planned = await self._aside(texts, partial(self._split, texts, source, target, beam, asked))
        lines = [line for text in planned for line in text.lines]
        spare = self.limits.max_work - sum(line.work for line in lines)
        found = iter(await self.batcher.translate(lines, client, spare))
        answers = []
        for text in planned:
            candidates = [next(found) for _ in text.lines]
            if text.route.note:
                (whole,) = text.sentences
                sentences = [Translation(whole, (Candidate(whole, 0.0),))]
            else:
                parts = [line.part for line in text.lines]
                sentences = text.route.model.translator.join(text.sentences, parts, candidates)
            answers.append(_translated(text.route, sentences, text.gaps, alignments))
        return answers

    async def translate_markup(
        self,
        texts: Sequence[str],
        format_: Format,
        source: str,
        target: str,
        *,
        glossary: Glossary = NO_TERMS,
        client: str = "",
        max_characters: int = 0,
    ) -> list[tuple[str, Route]]:
        """Each text as a document of a format, and how it was translated."""
        self._check_size(texts, max_characters)
        self.metrics.count(texts)
        answers = []
        for text in texts:
            read_text = partial(format_.read, text.encode(), Options(to=target))
            document = await self._aside([text], read_text)
            route = self.route_document(document, source, target)
            translated = await self.translate_document(document, route, glossary, client)
            answers.append((translated.decode(), route))
        return answers

    def route_document(self, document: Document, source: str, target: str) -> Route:
        return self.models.route(sample(document.segments), source, target)

    async def translate_document(
        self,
        document: Document,
        route: Route,
        glossary: Glossary = NO_TERMS,
        client: str = "",
        on_done: Callable[[int], None] = lambda count: None,
    ) -> bytes:
        """A document by its model. Others have their turns between its sentences."""
        run = asyncio.get_running_loop().run_in_executor
        if route.note:
            return await run(self._splitting, document.write, document.segments)
        request = _request(route, None, Request(glossary=glossary))
        translated: list[Segment] = []
        for start in range(0, len(document.segments), WINDOW):
            window = document.segments[start : start + WINDOW]
            rounds = translating(window)
            asked, done = await run(self._splitting, _advanced, rounds, None)
            while done is None:
                said = await self._say(route, request, asked, client)
                asked, done = await run(self._splitting, _advanced, rounds, said)
            translated += done
            on_done(len(window))
        return await run(self._splitting, document.write, translated)

    async def _say(
        self, route: Route, request: Request, asked: Sequence[Sentence], client: str
    ) -> list[Said]:
        """Sentences some at a time, so that a long document leaves room in the queue."""
        translator = route.model.translator
        answers: list[Said] = [Said("")] * len(asked)
        for linked in (False, True):
            rows = [row for row, sentence in enumerate(asked) if sentence.linked is linked]
            with_links = linked and translator.engine.has_attention
            wanted = replace(request, alignments=with_links)
            for start in range(0, len(rows), _AT_ONCE):
                chunk = rows[start : start + _AT_ONCE]
                texts = [asked[row].text for row in chunk]
                lines = await self._aside(texts, partial(_lines, translator, texts, wanted))
                found: list[tuple[Candidate, ...]] = []
                # One sentence may be the whole document: its parts take their turns too.
                for first in range(0, len(lines), _AT_ONCE):
                    found += await self._patiently(lines[first : first + _AT_ONCE], client)
                parts = [line.part for line in lines]
                joined = await self._aside(texts, partial(translator.join, texts, parts, found))
                for row, translation in zip(chunk, joined, strict=True):
                    answers[row] = as_said(translation)
        return answers

    async def _patiently(self, lines: list[Line], client: str) -> list[tuple[Candidate, ...]]:
        """A document waits where a sentence would be refused."""
        while True:
            try:
                return await self.batcher.translate(lines, client, self.limits.max_work)
            except BusyError as busy:
                await asyncio.sleep(busy.retry_after_s)

    async def attention(
        self, text: str, source: str, target: str, translation: str | None, client: str = ""
    ) -> dict[str, Any]:
        """What the page's viewer takes."""
        return await self._look_inside(_attention, text, source, target, translation, client)

    async def explain(
        self, text: str, source: str, target: str, translation: str | None, client: str = ""
    ) -> dict[str, Any]:
        """What the viewer's last tab takes."""
        return await self._look_inside(_explanation, text, source, target, translation, client)

    async def _look_inside(
        self,
        look: "_Look",
        text: str,
        source: str,
        target: str,
        translation: str | None,
        client: str,
    ) -> dict[str, Any]:
        self._check_size([text, translation or ""])
        self.metrics.count([text])
        check = partial(self._check_inside, look, text, source, target, translation)
        route, request, work = await self._aside([text, translation or ""], check)

        def looked(on_step: OnStep) -> dict[str, Any]:
            watched = replace(request, on_step=on_step)
            return look(route.model.translator, text, translation, watched)

        return await self.batcher.run(looked, work, client)

    async def _aside(self, texts: Sequence[str], function: Callable[[], T]) -> T:
        """Do what takes time for long texts beside the event loop.

        A short one may become 18 times as long.
        """
        whole = "".join(texts)
        if len(whole) <= _SHORT and len(unicodedata.normalize("NFKC", whole)) <= _SHORT:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._splitting, function)

    def _split(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        beam: int | None,
        asked: Request,
    ) -> list[_Text]:
        """Texts in the parts that the model takes.

        Those that would be too much work are refused.
        """
        planned: list[_Text] = []
        total = 0
        for text in texts:
            route = self.models.route(text, source, target)
            translator = route.model.translator
            request = _request(route, beam, asked)
            if route.note:
                planned.append(_Text(route, [text], [], []))
                continue
            sentences, gaps = split_sentences(text)
            # Splitting what does not fit takes seconds for hundreds of thousands of pieces, and
            # counting them does not.
            self._check_work(total + translator.least_work(sentences, request))
            lines = _lines(translator, sentences, request)
            total += sum(line.work for line in lines)
            self._check_work(total)
            planned.append(_Text(route, sentences, gaps, lines))
        return planned

    def _check_inside(
        self, look: "_Look", text: str, source: str, target: str, translation: str | None
    ) -> tuple[Route, Request, int]:
        """How to look inside, and the work of it. What would show too many numbers is refused."""
        route = self.models.route(text, source, target)
        translator = route.model.translator
        request = _request(route, None, Request())
        part = Part(0, 0, translator.encode_whole(text, request), route.target, text)
        read = len(part.ids)
        if translation is None:
            said = int(translator.searcher.longest_targets([part], request)[0])
        else:
            said = len(translator.codec.encode_target([translation])[0])
        model = translator.config.model
        weights = model.heads * (
            model.encoder_layers * read**2 + model.decoder_layers * said * (said + read)
        )
        # of each position in each layer up to twelve vectors and the hidden units
        vectors = (model.encoder_layers * read + model.decoder_layers * said) * (
            12 * model.width + model.feed_forward_width
        )
        if vectors > _SHOWN_NUMBERS and look is _explanation:
            raise HTTPException(
                413,
                f"this has up to {vectors:,} numbers in vectors, {_SHOWN_NUMBERS:,} can be shown: "
                f"send a shorter text.",
            )
        if weights > _SHOWN_WEIGHTS:
            raise HTTPException(
                413,
                f"this has up to {weights:,} attention weights, but only {_SHOWN_WEIGHTS:,} can "
                "be shown: send a shorter text.",
            )
        return route, request, translator.searcher.work([part], request)[0] + read + said

    def _check_size(self, texts: Sequence[str], allowed: int = 0) -> None:
        """`allowed`: the client's own limit of characters, if it has one."""
        characters = sum(map(len, texts))
        most = min(self.limits.max_characters, allowed or self.limits.max_characters)
        if characters > most:
            raise HTTPException(
                413,
                f"{characters:,} characters are too many: a request may have {most:,}.",
            )

    def _check_work(self, work: int) -> None:
        if work > (most := self.limits.max_work):
            raise HTTPException(
                413,
                f"this takes up to {work:,} positions of the model (pieces of the text, and of "
                f"the translation for each hypothesis), but only {most:,} are allowed: send less "
                "text, or ask for a smaller beam and nbest.",
            )


_Look = Callable[[InspectableTranslator, str, str | None, Request], dict[str, Any]]
"""From a text, and a translation if one is given, to what the page shows of them."""


def _attention(
    translator: InspectableTranslator, text: str, translation: str | None, request: Request
) -> dict[str, Any]:
    return payload(inspect_sentence(translator, text, translation, request))


def _explanation(
    translator: InspectableTranslator, text: str, translation: str | None, request: Request
) -> dict[str, Any]:
    return explanation_payload(explain(translator, text, translation, request))


def _advanced(
    rounds: Rounds, said: list[Said] | None
) -> tuple[list[Sentence], list[Segment] | None]:
    """The next sentences to translate, or all segments: a StopIteration cannot leave a thread."""
    try:
        return (next(rounds) if said is None else rounds.send(said)), None
    except StopIteration as end:
        return [], end.value


def _lines(translator: Translator, texts: Sequence[str], request: Request) -> list[Line]:
    """Texts in the parts that a model takes, each with its work."""
    parts = translator.split(texts, request)
    # A part knows its languages and its terms by now. Without them in the request, parts of all
    # languages share a search.
    plain = replace(request, to="", source_language="", glossary=NO_TERMS)
    work = translator.searcher.work(parts, plain)
    return [Line(translator, plain, part, cost) for part, cost in zip(parts, work, strict=True)]


def _request(route: Route, beam: int | None, asked: Request) -> Request:
    settings = route.model.translator.config.decoding
    return replace(
        asked,
        to=route.target,
        source_language=route.source if route.model.sources else "",
        decoding=replace(settings, beam=beam) if beam is not None else settings,
    )


def _translated(
    route: Route, found: list[Translation], gaps: list[str], alignments: bool
) -> schemas.Translated:
    """A text's translation from those of its sentences: the best of each, the second of each, ...

    Candidates of other pieces may read the same; the best of those is enough.
    """
    source_words = (
        [_source_words(route, sentence.source) for sentence in found] if alignments else []
    )
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
        sentences=[schemas.Sentence(source=s.source, text=s.text) for s in found]
        if alignments
        else None,
        note=route.note or None,
        candidates=candidates,
    )


def _source_words(route: Route, sentence: str) -> tuple[str, ...]:
    """The words that the alignment counts, between the language tag and the end."""
    codec = route.model.translator.codec
    ids = codec.encode_sides([sentence]).lists()[0]
    return Axis.of([codec.source.pieces[i] for i in ids]).labels


def _candidate(
    parts: list[Candidate], gaps: list[str], source_words: list[tuple[str, ...]]
) -> schemas.Candidate:
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
        words += [
            schemas.Word(text=w, probability=p) for w, p in zip(labels, probabilities, strict=True)
        ]
        before += len(sources)
    return schemas.Candidate(text=text, score=score, words=words, alignment=links)
