"""The service that all routes share: limits, translation of texts and documents, inspections."""

import asyncio
import gc
import json
import os
import unicodedata
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from fastapi import HTTPException

from dragoman.decode.promises.glossary import NO_TERMS, Glossary
from dragoman.decode.query import (
    Answer,
    BudgetError,
    Hypotheses,
    Life,
    Query,
    Steps,
    begun_together,
)
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.searcher import Searcher
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, Translation
from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import Format
from dragoman.documents.sandbox import Reader, ReaderLimits, Rounds
from dragoman.documents.translate import in_pipeline
from dragoman.serve import schemas
from dragoman.serve.answers import translated
from dragoman.serve.batcher import Batcher, BusyError, StoppingError
from dragoman.serve.inspection import Inspection, stay_on_one_core
from dragoman.serve.keys import Client, Key, Keys
from dragoman.serve.prometheus import Metrics
from dragoman.serve.readers import Readers
from dragoman.serve.served_models import Models, Route
from dragoman.text.segments import split_sentences

T = TypeVar("T")
_AT_ONCE = 64  # sentences of a document in the queue
_FEW_CHARACTERS = 1000  # shorter texts are split without counting their pieces first
_SUGGESTED_BYTES = 100 * 2**20  # for each pair of languages
# Processes for documents, and others for texts with markup, which therefore never wait for
# documents. A reader is held until its file is translated; mostly it waits for the engine.
_READERS, _MARKUP_READERS = 8, 8
_MARKUP = ReaderLimits(cpu_s=5, wall_s=20.0)
# Texts of so many characters, with so many terms, are split in a millisecond. Passing them to a
# thread would take as long.
_SHORT, _FEW_TERMS = 300, 50
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
    """A text that is being translated; `steps` is the pipeline's progress on its sentences."""

    route: Route
    sentences: list[str]
    gaps: list[str]
    steps: Steps[list[Query], list[Answer], list[Translation]]


@dataclass
class _Budget:
    """The work that a request may still cause."""

    left: int

    def pays(self, work: int) -> bool:
        if work > self.left:
            return False
        self.left -= work
        return True


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
        # One thread: text work holds the interpreter lock, so more would only slow the event loop.
        self._splitting = ThreadPoolExecutor(1, thread_name_prefix="split")
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
        confidence: bool = False,
        glossary: Glossary = NO_TERMS,
        client: Client = Client(),
    ) -> list[schemas.Translated]:
        """Translate texts, or take them from the cache, after checking their size."""
        self.charge(texts, client)
        options = (source, target, beam, nbest, alignments, confidence, glossary)
        # Each key has a cache of its own: otherwise the time of an answer would tell it what
        # another key has asked.
        asker = (client.key, self._reloads)
        answers = {text: self._remembered((text, asker, *options)) for text in texts}
        missing = [text for text, answer in answers.items() if answer is None]
        if missing:
            translations = await self._translate(missing, *options, client.name)
            answers.update(zip(missing, translations, strict=True))
        for text, answer in answers.items():
            self._remember((text, asker, *options), answer)
        return [answer for text in texts if (answer := answers[text]) is not None]

    def _remembered(self, key: tuple[object, ...]) -> schemas.Translated | None:
        answer = self._cache.get(key)
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
        """Translate all sentences of all texts together."""
        # Every text has at least one sentence. A request that the queue has no room for is refused
        # before it is split.
        self.batcher.admit(client, len(texts))
        options = Request(nbest=nbest, alignments=alignments, glossary=glossary)
        plan = partial(self._plan, texts, source, target, beam, options)
        planned, work = await self._aside(texts, plan, glossary)
        # Repairs may use what the first searches leave of the request's work.
        budget = _Budget(self.limits.max_work - work)
        # Texts of one model share searches; different models work side by side.
        of_model: dict[int, list[_Text]] = {}
        for text in planned:
            of_model.setdefault(id(text.route.model), []).append(text)
        models = of_model.values()
        await asyncio.gather(*(self._finish(some, budget, client, glossary) for some in models))
        return [
            translated(text.route, text.steps.result, text.gaps, alignments, confidence)
            for text in planned
        ]

    async def _finish(
        self, texts: Sequence[_Text], budget: _Budget, client: str, glossary: Glossary
    ) -> None:
        """Finish the texts of one model together."""
        steps = Steps(begun_together([text.steps for text in texts]))
        sentences = [sentence for text in texts for sentence in text.sentences]

        def aside(function: Callable[[], None]) -> Awaitable[None]:
            return self._aside(sentences, function, glossary)

        await self._drive(steps, texts[0].route, budget, client, aside)

    async def _drive(
        self,
        steps: Steps[list[Query], list[Answer], T],
        route: Route,
        budget: _Budget | None,
        client: str,
        aside: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> T:
        """Answer the queries of a pipeline until it has a result. `aside` does its text work.

        The first queries are paid for already; later ones are charged to the budget. A document
        has no budget: it submits some queries at a time, so that it leaves room in the queue, and
        waits where a text would be refused.
        """
        searcher = route.model.translator.searcher
        is_first = True
        while not steps.is_done:
            # `wants` are all queries that do not depend on each other.
            size = len(steps.wants) if budget else _AT_ONCE
            answers: list[Answer] = []
            for start in range(0, len(steps.wants), size):
                some = steps.wants[start : start + size]
                if budget is None:
                    answers += await self._patiently(searcher, some, client)
                elif is_first:
                    answers += await self.batcher.search(searcher, some, client)
                else:
                    answers += await self._affordable(searcher, some, budget, client)
            is_first = False
            await aside(partial(steps.send, answers))
        return steps.result

    async def _patiently(
        self, searcher: Searcher, queries: Sequence[Query], client: str
    ) -> list[Hypotheses]:
        while True:
            try:
                return await self.batcher.search(searcher, queries, client)
            except BusyError as busy:
                await asyncio.sleep(busy.retry_after_s)

    async def _affordable(
        self, searcher: Searcher, queries: Sequence[Query], budget: _Budget, client: str
    ) -> list[Answer]:
        """Answer queries; a query that exceeds the budget gets an error instead."""
        answers: list[Answer] = [BudgetError("the request may cause no more work.")] * len(queries)
        # A repair must fit into a slice, and into what the request may use.
        rows = [
            row
            for row, work in enumerate(map(searcher.work, queries))
            if work <= self.batcher.slice_work and budget.pays(work)
        ]
        some = [queries[row] for row in rows]
        hypotheses = await self.batcher.search(searcher, some, client, admitted=True)
        for row, of_row in zip(rows, hypotheses, strict=True):
            answers[row] = of_row
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
        request = _request(route, None, Request(glossary=glossary))
        translator = route.model.translator
        request = translator.check(request)
        most = _COMPARED if readers is self.markup_readers else _COMPARED_IN_DOCUMENT
        compared = _compared(reader.rounds(), glossary, most)
        rounds = in_pipeline(translator.pipeline, compared, request, lambda: on_done(reader.done))
        steps = await readers.run(Steps, rounds)
        return await self._drive(steps, route, None, client, readers.run)

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
        check = partial(self._check_inspection, inspection, text, source, target, translation)
        route, request, work = await self._aside([text, translation or ""], check)
        passes = inspection.passes(route.model.translator.config.model)
        if passes > 1:
            work *= passes
            self._check_work(work)
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

    async def _aside(
        self, texts: Sequence[str], function: Callable[[], T], glossary: Glossary = NO_TERMS
    ) -> T:
        """Run a function in a thread if the texts are long or the terms many."""
        whole = "".join(texts)
        # Normalisation may make a text 18 times as long, so its result counts too.
        is_short = len(whole) <= _SHORT and len(unicodedata.normalize("NFKC", whole)) <= _SHORT
        if is_short and len(glossary.terms) <= _FEW_TERMS:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._splitting, function)

    def _plan(
        self, texts: Sequence[str], source: str, target: str, beam: int | None, options: Request
    ) -> tuple[list[_Text], int]:
        """Advance texts to their first queries, and return the work of these.

        Texts that would be too much work are refused.
        """
        planned: list[_Text] = []
        total = 0
        # The cost of finding terms is known before they are looked for.
        if sum(map(options.glossary.comparisons, texts)) > _COMPARED:
            raise HTTPException(413, _ALIKE)
        for text in texts:
            route = self.models.route(text, source, target)
            if route.note:
                planned.append(_Text(route, [text], [], Steps(_unchanged(text))))
                continue
            translator = route.model.translator
            request = translator.check(_request(route, beam, options))
            sentences, gaps = split_sentences(text, request.source_language)
            # Splitting hundreds of thousands of pieces takes seconds; counting them does not.
            if len(text) > _FEW_CHARACTERS:
                self._check_work(total + translator.pipeline.least_work(sentences, request))
            steps = Steps(translator.pipeline.translate(sentences, request))
            if not steps.is_done:
                total += sum(map(translator.searcher.work, steps.wants))
            self._check_work(total)
            planned.append(_Text(route, sentences, gaps, steps))
        return planned, total

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

    def _check_work(self, work: int) -> None:
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


def _compared(rounds: Rounds, glossary: Glossary, most: int) -> Rounds:
    """Pass on the rounds of a document, and raise an error if its terms would take too long."""
    steps = Steps(rounds)
    while not steps.is_done:
        most -= sum(glossary.comparisons(sentence.text) for sentence in steps.wants)
        if most < 0:
            raise DocumentError(_ALIKE)
        steps.send((yield steps.wants))
    return steps.result


def _unchanged(text: str) -> Life[list[Translation]]:
    """Return the text itself without a query."""
    yield from ()
    return [Translation(text, (Candidate(text, 0.0),))]


def _request(route: Route, beam: int | None, options: Request) -> Request:
    settings = route.model.translator.config.decoding
    return replace(
        options,
        to=route.target,
        source_language=route.source if route.model.sources else "",
        decoding=replace(settings, beam_size=beam) if beam is not None else settings,
    )
