"""The service that all routes share: limits, translation of texts and documents, inspections."""

import asyncio
import gc
import json
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from fastapi import HTTPException

from dragoman.decode.query import Answer, BudgetError, Hypotheses, Query
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.searcher import Searcher
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, Translation
from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import Format
from dragoman.documents.inline import SentenceResult
from dragoman.documents.rounds import SentenceRequest
from dragoman.documents.sandbox import Reader, ReaderLimits
from dragoman.documents.translate import takes_marks, translate_sentences
from dragoman.serve import schemas
from dragoman.serve.answers import translated
from dragoman.serve.batcher import Batcher, BusyError, StoppingError
from dragoman.serve.inspection import Inspection, stay_on_one_core
from dragoman.serve.keys import Client, Key, Keys
from dragoman.serve.prometheus import Metrics
from dragoman.serve.readers import Readers
from dragoman.serve.served_models import Models, Route
from dragoman.serve.text_threads import Caller, TextThreads, Turns, until_cancelled
from dragoman.text.glossary import NO_TERMS, Glossary
from dragoman.text.segments import split_sentences

T = TypeVar("T")
_AT_ONCE = 64  # sentences of a document in the queue
_LONGEST_REMEMBERED = 1000  # characters of a text in the cache, which counts texts
_FEW_CHARACTERS = 1000  # shorter texts are split without counting their pieces first
_SUGGESTED_BYTES = 100 * 2**20  # for each pair of languages
# Processes for documents, and others for texts with markup, which therefore never wait for
# documents. A reader is held until its file is translated; mostly it waits for the engine.
_READERS, _MARKUP_READERS = 8, 8
_MARKUP = ReaderLimits(cpu_s=5, wall_s=20.0)
# Comparisons of words with terms that begin alike, in a request and in a document: half a second
# and 20 s.
_COMPARED, _COMPARED_IN_DOCUMENT = 50_000, 2_000_000


@dataclass(frozen=True)
class Limits:
    """Limits of a service. `max_work` is in positions (`Searcher.work`).

    With the bundled model and its beam of 4, 5,000 characters in sentences of 20 need 38,000
    positions, and a list of 1,000 words 107,000. With a beam of 16, 5,000 digits need 195,000, and
    5,000 times U+FDFA 2,000,000.
    """

    queue_lines: int = 1024
    time_limit_s: float = 30.0
    max_characters: int = 5000
    max_body_bytes: int = 256 * 1024
    max_work: int = 150_000
    stuck_after_s: float = 10.0
    cache_texts: int = 0  # translations kept for repeated requests
    max_file_bytes: int = 10 * 2**20
    max_file_characters: int = 300_000
    documents: int = 100  # kept at a time, waiting and done
    documents_of_client: int = 20
    document_bytes: int = 2**28  # of all documents; a client may have a quarter
    document_s: float = 3600.0  # for which a finished one is kept


class _Text(NamedTuple):
    """A text to translate, split into sentences."""

    route: Route
    sentences: list[str]
    gaps: list[str]


class _PaidSearch:
    """The `Search` of a request, within the work that the request may cause.

    First searches are refused as a whole if they are too much. Searches of repairs that exceed what
    is left get an error instead of an answer. `open_group` announces further first searches.
    """

    def __init__(self, service: "Service", caller: Caller, client: str):
        self._service, self._caller, self._client = service, caller, client
        self._first = 0  # work of first searches
        self._left = service.limits.max_work
        self._is_first = True
        self.searcher: Searcher

    def open_group(self, searcher: Searcher) -> None:
        """Expect the first queries of texts that share a model."""
        self.searcher, self._is_first = searcher, True

    def __call__(self, queries: list[Query]) -> list[Answer]:
        work = [*map(self.searcher.work, queries)]
        batcher = self._service.batcher
        if self._is_first:
            self._is_first = False
            self._first += sum(work)
            self._left -= sum(work)
            self._service.check_work(self._first)
            first = batcher.search(self.searcher, queries, self._client)
            return [*self._caller.wait(first)]
        answers: list[Answer] = [BudgetError("the request may cause no more work.")] * len(queries)
        rows = []
        for row, own in enumerate(work):
            # A repair must fit into a slice, too.
            if own <= min(self._left, batcher.slice_work):
                self._left -= own
                rows.append(row)
        if rows:
            paid = [queries[row] for row in rows]
            later = batcher.search(self.searcher, paid, self._client, admitted=True)
            for row, hypotheses in zip(rows, self._caller.wait(later), strict=True):
                answers[row] = hypotheses
        return answers


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
        key_files: Sequence[str] = (),
    ):
        """Load the models.

        `api_key` is a key without limits; `keys` are others by name, each with limits of its own,
        and `key_files` contain more of them. `suggestions` is a folder for clients' suggestions;
        with None they are refused.
        """
        self._fixed_keys = {**({"api_key": Key(api_key)} if api_key else {}), **(keys or {})}
        self._key_files = key_files
        self.keys = self._read_keys()
        # A search on every core, and as many paused ones.
        self._engine = ThreadPoolExecutor(2 * (os.cpu_count() or 1), thread_name_prefix="engine")
        self._load = partial(Models.load, folders, device, engine)
        self.models = self._engine.submit(self._load).result()
        self._reloads = 0
        self.limits = limits
        self.metrics = Metrics()
        # All models share the workers, so the one with the fewest batches at a time decides.
        workers = min(model.translator.searcher.at_once for model in self.models.models)
        self.batcher = Batcher(self._engine, limits.queue_lines, workers=workers)
        self.stopping = False
        self._streams: set[asyncio.Timeout] = set()
        # Every request has a line in the queue, so the queue's limit is one for threads, too.
        self._text_threads = TextThreads(limits.queue_lines)
        # Not those of texts: a paragraph of a document may take seconds without a pause.
        self._document_turns = Turns()
        self.readers = Readers(_READERS)
        self.markup_readers = Readers(_MARKUP_READERS, _MARKUP)
        self._cache: OrderedDict[tuple[object, ...], schemas.Translated] = OrderedDict()
        self.suggestions = suggestions

    def suggest(
        self, text: str, better: str, source: str, target: str, client: Client = Client()
    ) -> None:
        """Append a client's better translation to a file of pairs for `dragoman train`.

        If there are keys, each has a folder of its own.
        """
        if self.suggestions is None:
            raise HTTPException(403, "this service takes no suggestions.")
        self.charge([text + better], client)
        # The models' codes rather than the client's spelling, because they name a file.
        route = self.models.route(text, source, target)
        folder = self.suggestions / quote(client.key, safe="") if client.key else self.suggestions
        folder.mkdir(exist_ok=True)
        file = folder / f"suggestions.{route.source}-{route.target}.tsv"
        size = file.stat().st_size if file.exists() else 0
        if size > _SUGGESTED_BYTES:
            raise HTTPException(403, "no more suggestions are taken.")
        pair = (" ".join(side.split()) for side in (text, better))
        try:
            with open(file, "a", encoding="utf-8", newline="\n") as kept:
                kept.write("\t".join(pair) + "\n")
        except OSError as error:
            os.truncate(file, size)  # half a line would damage the next one
            raise HTTPException(507, f"no room for the suggestion ({error.strerror}).") from None

    @property
    def unready(self) -> str:
        """Return why no request should be sent here now, or an empty text."""
        if self.stopping:
            return "the service is stopping."
        if (seconds := self.batcher.stuck_for()) > self.limits.stuck_after_s:
            return f"the engine has made no progress for {seconds:.0f} s."
        return ""

    async def reload(self) -> None:
        """Read models and key files again: all of them, or none if one has a mistake.

        Requests under way end with the models that they began with.
        """
        keys = self._read_keys()
        self.models = await asyncio.get_running_loop().run_in_executor(self._engine, self._load)
        self.keys = keys
        self._reloads += 1
        self._cache.clear()
        # The old models are frozen since the start; unfreeze them, so that they are freed.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def _read_keys(self) -> Keys:
        return Keys({**self._fixed_keys, **Keys.read(self._key_files)})

    def stop(self) -> None:
        """Report that the service stops, and end streams, which have sent part of their answers."""
        self.stopping = True
        for limit in self._streams:
            if not limit.expired():
                limit.reschedule(0)

    @asynccontextmanager
    async def until_stopping(self) -> AsyncIterator[None]:
        """Raise `StoppingError` in the body of this context when the service stops."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._streams.add(limit)
                if self.stopping:
                    limit.reschedule(0)
                yield
        except TimeoutError:
            raise StoppingError from None
        finally:
            self._streams.discard(limit)

    async def close(self) -> None:
        self.stop()
        await self.batcher.close()
        self.readers.close()
        self.markup_readers.close()
        self._text_threads.close()

    async def work(self, client: Client, function: Callable[..., T], *arguments: object) -> T:
        """Run a function of texts in its turn, so that it delays neither the event loop nor other
        clients."""
        return await self._text_threads.run(lambda caller: function(*arguments), client.name)

    async def run_text_work(self, client: Client, function: Callable[[OnStep], T]) -> T:
        """Run a function of texts in its turn. It gets a hook to call often: the hook lets others
        have their turns, and raises if the client has left."""
        return await self._text_threads.run(lambda caller: function(caller.pause), client.name)

    async def glossary(self, client: Client, terms: list[tuple[str, str]]) -> Glossary:
        if not terms:
            return NO_TERMS
        return await self.run_text_work(client, lambda pause: Glossary.of(terms).prepare(pause))

    async def parsed_glossary(self, client: Client, text: str) -> Glossary:
        """Parse a glossary's lines; others have their turns meanwhile."""
        return await self.run_text_work(
            client, lambda pause: Glossary.parse(text, pause=pause).prepare(pause)
        )

    async def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        beam: int | None = None,
        nbest: int = 1,
        alignments: bool = False,
        confidence: bool = False,
        glossary: Glossary = NO_TERMS,
        client: Client = Client(),
    ) -> list[schemas.Translated]:
        """Translate texts, or take them from the cache, after checking their size."""
        self.charge(texts, client)
        options = (source, target, beam, nbest, alignments, confidence, glossary)
        # Not the glossary itself: it may take megabytes.
        key = (source, target, beam, confidence, glossary.digest)
        is_small = nbest == 1 and not alignments
        # Each key has a cache of its own: otherwise the time of an answer would tell it what
        # another key has asked.
        asker = (client.key, self._reloads)
        answers = {
            text: self._remembered((text, asker, *key)) if is_small else None for text in texts
        }
        missing = [text for text, answer in answers.items() if answer is None]
        if missing:
            translations = await self._translate(missing, *options, client.name)
            answers.update(zip(missing, translations, strict=True))
        for text, answer in answers.items():
            if is_small and len(text) <= _LONGEST_REMEMBERED:
                self._remember((text, asker, *key), answer)
        return [answer for text in texts if (answer := answers[text]) is not None]

    def _remembered(self, key: tuple[object, ...]) -> schemas.Translated | None:
        answer = self._cache.get(key) if self._cache else None
        if answer is not None:
            self.metrics.cached += 1
        return answer

    def _remember(self, key: tuple[object, ...], answer: schemas.Translated | None) -> None:
        """Put an answer at the end of the cache, and drop those used longest ago."""
        if answer is not None and self.limits.cache_texts:
            self._cache[key] = answer
            self._cache.move_to_end(key)
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
        confidence: bool,
        glossary: Glossary,
        client: str,
    ) -> list[schemas.Translated]:
        """Translate all sentences of all texts, those of one model together."""
        # Every text has at least one sentence. A request that the queue has no room for is refused
        # before it is split.
        self.batcher.admit(client, len(texts))

        def work(caller: Caller) -> list[schemas.Translated]:
            options = Request(
                nbest=nbest,
                alignments=alignments,
                glossary=glossary,
                on_text=caller.pause,
                outside=caller.outside,
            )
            split = self._split(texts, source, target, beam, options)
            search = _PaidSearch(self, caller, client)
            groups: dict[tuple[int, str, str, str], list[_Text]] = {}
            for text in split:
                route = text.route
                key = id(route.model), route.source, route.target, route.note
                groups.setdefault(key, []).append(text)
            found: dict[int, list[Translation]] = {}
            for group in groups.values():
                every = iter(_translate_group(group, beam, options, search))
                found.update((id(text), [*islice(every, len(text.sentences))]) for text in group)
            return [
                translated(text.route, found[id(text)], text.gaps, alignments, confidence)
                for text in split
            ]

        return await self._text_threads.run(work, client)

    async def _patiently(
        self, searcher: Searcher, queries: Sequence[Query], client: str
    ) -> list[Hypotheses]:
        """Search for a document: a few queries at a time, waiting where a text would be refused."""
        answers: list[Hypotheses] = []
        while len(answers) < len(queries):
            some = queries[len(answers) : len(answers) + _AT_ONCE]
            try:
                answers += await self.batcher.search(searcher, some, client)
            except BusyError as busy:
                await asyncio.sleep(busy.retry_after_s)
        return answers

    async def translate_markup(
        self,
        texts: Sequence[str],
        format_: Format,
        source: str,
        target: str,
        *,
        glossary: Glossary = NO_TERMS,
        client: Client = Client(),
        ignored: tuple[str, ...] = (),
    ) -> list[tuple[str, Route]]:
        """Translate each text as a document of a format, and return it with its route."""
        self.charge(texts, client)
        answers = []
        readers = self.markup_readers
        options = ReadOptions(to=target, ignored=ignored)
        async with readers.reader(client.name) as reader:
            for text in texts:
                name, raw = format_.name, text.encode()
                outline = await readers.run(
                    reader.open, "the text", raw, name, options, readers.limits
                )
                route = self.models.route(outline.sample, source, target)
                translated = await self.translate_document(
                    reader, route, glossary, client.name, readers=readers
                )
                answers.append((translated.decode(), route))
        return answers

    async def translate_document(
        self,
        reader: Reader,
        route: Route,
        glossary: Glossary = NO_TERMS,
        client: str = "",
        on_done: Callable[[int], None] = lambda count: None,
        readers: Readers | None = None,
    ) -> bytes:
        """Translate the document that a reader has opened. Others have turns between its sentences.

        `on_done` gets the number of finished segments.
        """
        readers = readers or self.readers
        if route.note:
            return await readers.run(reader.unchanged)
        translator = route.model.translator
        request = translator.check(_request(route, None, Request(glossary=glossary)))
        comparisons = _COMPARED if readers is self.markup_readers else _COMPARED_IN_DOCUMENT
        turns = self._text_threads.turns if readers is self.markup_readers else self._document_turns
        caller = Caller(asyncio.get_running_loop(), turns, client)
        request = replace(request, on_text=caller.pause, outside=caller.outside)

        def search(queries: list[Query]) -> list[Hypotheses]:
            return caller.wait(self._patiently(translator.searcher, queries, client))

        def translate(sentences: list[SentenceRequest]) -> list[SentenceResult]:
            nonlocal comparisons
            on_done(reader.done)
            comparisons -= sum(glossary.comparisons(sentence.text) for sentence in sentences)
            if comparisons < 0:
                raise DocumentError(_ALIKE)
            return caller.run(
                lambda _: translate_sentences(translator.pipeline, sentences, request, search)
            )

        written = asyncio.ensure_future(
            readers.run(reader.translate, translate, takes_marks(translator))
        )
        return await until_cancelled(written, caller)

    async def inspect(
        self,
        inspection: Inspection,
        text: str,
        source: str,
        target: str,
        translation: str | None,
        client: Client = Client(),
    ) -> bytes:
        """Inspect the model on a text, with its own translation or with a given one, and return
        JSON."""
        self.charge([text + (translation or "")], client)
        self.batcher.admit(client.name, 1)
        route, request, work = await self._text_threads.run(
            lambda _: self._check_inspection(inspection, text, source, target, translation),
            client.name,
        )
        passes = inspection.passes(route.model.translator.config.model)
        if passes > 1:
            work *= passes
            self.check_work(work)
            self._check_time(work)

        # With several workers, PyTorch must not take the cores of the others.
        alone = self.batcher.workers == 1

        def run(on_step: OnStep) -> bytes:
            if not alone:
                stay_on_one_core()
            observed = replace(request, on_step=on_step)
            found = inspection.run(route.model.translator, text, translation, observed)
            on_step()
            # In this thread: megabytes of JSON would block the event loop.
            return json.dumps(found, separators=(",", ":")).encode()

        return await self.batcher.run(run, work, client.name)

    def _split(
        self, texts: Sequence[str], source: str, target: str, beam: int | None, options: Request
    ) -> list[_Text]:
        """Choose the model of each text and split it into sentences, or refuse the texts."""
        # The cost of finding terms is known before they are looked for.
        if sum(map(options.glossary.comparisons, texts)) > _COMPARED:
            raise HTTPException(413, _ALIKE)
        split: list[_Text] = []
        least = 0
        for text in texts:
            route = self.models.route(text, source, target)
            if route.note:
                split.append(_Text(route, [text], []))
                continue
            translator = route.model.translator
            request = translator.check(_request(route, beam, options))
            sentences, gaps = split_sentences(text, request.source_language)
            # Splitting hundreds of thousands of pieces takes seconds; counting them does not.
            if len(text) > _FEW_CHARACTERS:
                least += translator.pipeline.least_work(sentences, request)
                self.check_work(least)
            split.append(_Text(route, sentences, gaps))
        return split

    def _check_inspection(
        self, inspection: Inspection, text: str, source: str, target: str, translation: str | None
    ) -> tuple[Route, Request, int]:
        """Return the model, the request and the work of an inspection, or refuse it."""
        route = self.models.route(text, source, target)
        translator = route.model.translator
        request = _request(route, None, Request())
        part = Part(0, 0, translator.encode_whole(text, request), route.target, text)
        query = translator.pipeline.proposer.query(part, request)
        # Lengths in subwords. Without a translation, the longest one that a search may return.
        read = len(part.ids)
        if translation is None:
            written = translator.searcher.longest_target(query)
        else:
            written = len(translator.codec.encode_target([translation])[0])
        inspection.check(translator.config.model, read, written)
        return route, request, translator.searcher.work(query) + read + written

    def charge(self, texts: Sequence[str], client: Client) -> None:
        """Check the size of a request, and count its characters."""
        self.check_size(texts, client)
        self.metrics.count(texts, client.key)

    def check_size(self, texts: Sequence[str], client: Client) -> None:
        characters = sum(map(len, texts))
        most = self.limits.max_characters
        most = min(most, client.max_characters or most)
        if characters > most:
            raise HTTPException(
                413, f"{characters:,} characters are too many: a request may have {most:,}."
            )

    def _check_time(self, work: int) -> None:
        """Refuse a look that is not likely to end in time."""
        # Half of the time limit is for the queue and for the turns of others.
        seconds, most = self.batcher.look_seconds(work), self.limits.time_limit_s
        if seconds > most / 2:
            raise HTTPException(
                413,
                f"this takes about {seconds:.0f} s of processor time, too much for requests of "
                f"at most {most:g} s: send a shorter text, or leave out `study`.",
            )

    def check_work(self, work: int) -> None:
        if work > (most := self.limits.max_work):
            raise HTTPException(
                413,
                f"this takes up to {work:,} positions of the model (pieces of the text, and of "
                f"the translation for each hypothesis), but only {most:,} are allowed: send less "
                "text, or ask for a smaller beam and nbest.",
            )


_ALIKE = (
    "too many terms of the glossary begin like words of the text: send less text or fewer terms."
)


def _translate_group(
    texts: Sequence[_Text], beam: int | None, options: Request, search: _PaidSearch
) -> list[Translation]:
    """Translate the sentences of texts that share a route."""
    route = texts[0].route
    sentences = [sentence for text in texts for sentence in text.sentences]
    if route.note:
        return [Translation(sentence, (Candidate(sentence, 0.0),)) for sentence in sentences]
    translator = route.model.translator
    search.open_group(translator.searcher)
    request = translator.check(_request(route, beam, options))
    return translator.pipeline.translate(sentences, request, search)


def _request(route: Route, beam: int | None, options: Request) -> Request:
    settings = route.model.translator.config.decoding
    return replace(
        options,
        to=route.target,
        source_language=route.source if route.model.sources else "",
        decoding=replace(settings, beam_size=beam) if beam is not None else settings,
    )
