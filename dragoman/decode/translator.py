"""The public `Translator`, from text to text.

It cuts the input into windows of lines and runs each through the pipeline (`pipeline.py`) with the
engine's search.
"""

from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, Unpack, overload

from dragoman.bundle.folder import UNFINISHED, Bundle, read_bundle
from dragoman.config import MOST_HYPOTHESES, Config
from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import Hypotheses, Query, Search
from dragoman.decode.request import Options, Request
from dragoman.decode.searcher import Searcher
from dragoman.decode.translation import Translation
from dragoman.engine.factory import make_engine
from dragoman.engine.gpus import DeviceSlot, LazyEngine, plan_device_slots
from dragoman.engine.protocol import Engine, usable_cores
from dragoman.errors import BundleError, ConfigError, TranslationError
from dragoman.text.codec import Codec
from dragoman.text.languages import known_code

T = TypeVar("T")
WINDOW_LINES = 2048
AHEAD = 2  # windows in progress while the caller waits for the first of them
_WINDOW_CHARACTERS = 2**19  # a window also ends when it reaches this many characters
_CHARACTERS = 3  # a low estimate of the characters per piece, so that chunks stay within a batch
_TAG_AND_END = 2  # pieces
_LEAST_LINES = 32  # lines of a window per process below which forking does not pay
# Batches per chunk. A sentence or two of every batch is searched for a second time, and a process
# with several batches can batch these second searches.
_BATCHES = 8
_LEAST_ON_GPU = 512  # lines of a window below which forking does not pay on a GPU
_MOST_PROCESSES = 32  # by default, since each takes a few hundred megabytes
_MOST_ON_GPU = 128
_WAITING = 8  # processes per core on a GPU, since each mostly waits for the GPU


class Window(NamedTuple):
    """Consecutive lines of the input."""

    first: int  # number of lines before these
    lines: Sequence[str]


def numbered(windows: Iterable[Sequence[str]], first: int = 0) -> Iterator[Window]:
    """Number consecutive windows by their first line, starting from `first`."""
    for lines in windows:
        yield Window(first, lines)
        first += len(lines)


class Translator:
    """Translates texts with a model: `Translator.load` reads one from a bundle.

    `bundle` is the source of the engine, if it was created from a single one. `notes` are warnings
    about the model to show to the user.
    """

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        config: Config,
        bundle: Bundle | None = None,
        notes: tuple[str, ...] = (),
    ):
        self.engine, self.codec, self.config, self.bundle = engine, codec, config, bundle
        self.notes = notes
        self.pipeline = Pipeline(engine, codec, config.decoding)
        self.searcher = Searcher(engine)

    @classmethod
    def load(
        cls,
        model: str | Path = "",
        device: str = "auto",
        engine: str = "auto",
        threads: int = 0,
        *,
        source: str = "",
        target: str = "",
        text: str = "",
        later: bool = False,
    ) -> Self:
        """Load a translator from a bundle's folder; several, joined by commas, are an ensemble.

        The engine "auto" is ONNX Runtime for a bundle exported to it or if torch is missing, unless
        `device` is a GPU. `threads` is the number of CPU threads, 0 for one per core. Without
        `model`, the languages choose a bundled model, and a missing source language is detected
        from `text`. `later` allows an engine on a GPU to be created by the first search, which then
        raises any errors of loading it.
        """
        # Imported late: the hub brings the converters along, which translating does not need.
        from dragoman.convert.hub import model_folders

        folders = model_folders(model, source, target, text)
        bundles = [read_bundle(folder) for folder in folders]
        codec = bundles[0].codec
        notes: list[str] = []
        for folder, bundle in zip(folders, bundles, strict=True):
            if bundle.codec.to_files() != codec.to_files():
                raise BundleError(
                    f"{folder} and {folders[0]} have different vocabularies: they cannot vote "
                    "together."
                )
            if UNFINISHED in bundle.card:
                notes.append(
                    f"{folder}: its training has not ended; this is {bundle.card[UNFINISHED]}."
                )
        later = later and len(bundles) == 1  # an ensemble takes its steps in one process
        engines = [make_engine(bundle, device, engine, threads, later) for bundle in bundles]
        if len(engines) > 1:
            from dragoman.engine.ensemble import Ensemble

            return cls(Ensemble(engines), codec, bundles[0].config, notes=tuple(notes))
        return cls(engines[0], codec, bundles[0].config, bundles[0], tuple(notes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the engine, its weights and its threads; any later use raises TranslationError."""
        self.__dict__.clear()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise TranslationError for every attribute after `close`."""
            if not self.__dict__ and not name.startswith("__"):
                raise TranslationError("this translator is closed.")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, request: Request = ..., **options: Unpack[Options]
    ) -> Translation: ...
    @overload
    def translate(
        self, texts: Iterable[str], request: Request = ..., **options: Unpack[Options]
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> Translation | list[Translation]:
        """Translate one text or several. A translation is a `str` with additional attributes.

            translator.translate("Wo ist der Bahnhof?", to="en")
            translator.translate(["Guten Morgen.", "Danke!"], beam=8, nbest=3)

        Options override fields of the request. By default, the model's own settings apply.
        """
        if isinstance(texts, str):
            return next(self.stream([texts], request, **options))
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise TypeError(f"translate takes a str or several, not {type(texts).__name__}.")
        return list(self.stream(texts, request, **options))

    __call__ = translate

    def map(self, values: Iterable[Any], **options: Unpack[Options]) -> Any:
        """Translate a column of a table; a pandas or Polars Series keeps its index and name.

            frame["english"] = translator.map(frame["german"], to="en")

        Missing values are preserved, and a text that occurs several times is translated once.
        """
        from dragoman.decode.columns import map_column

        return map_column(lambda texts: self.translate(texts, **options), values)

    def stream(
        self,
        lines: Iterable[str],
        request: Request = Request(),
        window: int | None = None,
        first: int = 0,
        processes: int = 1,
        **options: Unpack[Options],
    ) -> Iterator[Translation]:
        """Yield translations in the order of the lines, holding one window of lines in memory.

            for translation in translator.stream(open("book.de"), to="en", processes=8):
                print(translation)

        `window` is the number of lines to read before translating them, and `first` the number of
        lines before these. `processes` is the number of processes (0 for one per core), which does
        not change the translations (`decode/processes.py`).
        """
        request = self.check(self.request(request, options))
        # All candidates of a window are in memory, so more candidates per line mean fewer lines.
        cut = _windows(lines, window or max(1, WINDOW_LINES // request.nbest))
        windows = numbered(cut, first)
        if processes != 1:
            for translations in self.windows(windows, request, lambda one: one, processes):
                yield from translations
            return
        for number, chunk in windows:
            yield from self.pipeline.translate(chunk, request, self.search(request), number)

    def windows(
        self,
        windows: Iterable[Window],
        request: Request,
        show: Callable[[Translation], T],
        processes: int = 0,
        ahead: int = AHEAD,
    ) -> Generator[list[T], None, None]:
        """Yield the results of `show` for the translations of each window, in order.

        `processes` is the most processes to use, 0 for a number that fits the machine. `ahead` is
        the number of windows in progress before the first result is awaited. If processes cannot
        be forked, or a window is too small for them to pay, this process translates it.
        """
        # Imported late, since importing multiprocessing takes longer than translating a text.
        from dragoman.decode.processes import Forks, WindowUnderWay, can_fork

        request = self.check(request)
        on_device = self.engine.searches_on_device
        # Processes that mostly wait for a GPU need to be several per core to keep it busy.
        usual = usable_cores() * _WAITING if on_device else self.engine.threads
        processes = processes or min(usual, _MOST_ON_GPU if on_device else _MOST_PROCESSES)
        # Samples depend on line numbers, which chunks do not preserve, and callbacks must run in
        # this process.
        watched = request.sampling or request.observer or request.on_step
        divided = not watched and processes > 1 and can_fork()
        one_core = self.engine.single_threaded if divided else None
        alone = self._with_engine(one_core) if one_core is not None else None
        # A GPU engine cannot be forked, so other processes handle text and send their queries here.
        divided = alone is not None or (divided and on_device)
        if alone is None:
            ahead = max(ahead, 2 * processes)  # each process takes a whole window

        def translate(lines: Sequence[str], search: Search) -> list[T]:
            if alone is None:
                return [*map(show, self.pipeline.translate(lines, request, search))]
            return [*map(show, alone.stream(lines, request, len(lines)))]

        with ExitStack() as stack:
            forks: Forks | None = None
            under_way: deque[WindowUnderWay] = deque()
            for first, lines in windows:
                least = _LEAST_ON_GPU if alone is None else _LEAST_LINES * processes
                large = len(lines) >= least
                if not divided or not (large or under_way):
                    translations = self.stream(lines, request, len(lines), first)
                    yield [show(translation) for translation in translations]
                    continue
                chunks = [[*range(len(lines))]]
                if alone is not None:
                    chunks = alone._chunks(lines, request, processes)
                texts = [[lines[row] for row in rows] for rows in chunks]
                if forks is None:
                    if alone is not None:
                        # An engine sets up its caches with its first sentence. Doing that before
                        # the fork lets all processes share them.
                        for engine in alone.engine.variants:
                            alone._with_engine(engine).translate(lines[:1], request)
                    count = min(processes, len(texts)) if alone is not None else processes
                    begun = texts[:count]
                    asked = self.searcher if alone is None else None
                    forks = stack.enter_context(
                        Forks.started(translate, count, begun, asked, self._places())
                    )
                    futures = [*forks.begun, *map(forks.submit, texts[len(forks.begun) :])]
                else:
                    futures = [*map(forks.submit, texts)]
                under_way.append(WindowUnderWay(len(lines), chunks, futures))
                if len(under_way) > ahead:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

    def _places(self) -> list[DeviceSlot]:
        """Return the devices for engine processes; empty if the engine already exists here."""
        engine = self.engine
        later = isinstance(engine, LazyEngine) and not engine.is_made
        return plan_device_slots(usable_cores()) if later else []

    def _chunks(self, lines: Sequence[str], request: Request, processes: int) -> list[list[int]]:
        """Divide lines into chunks of several batches each, estimating lengths from characters."""
        lengths = [_TAG_AND_END + len(line) // _CHARACTERS for line in lines]
        proposer = self.pipeline.proposer
        settings, width = proposer.settings(request), proposer.width(request)
        tokens = _BATCHES * self.engine.batch_tokens
        return self.searcher.batches(lengths, settings, width, processes, tokens)

    def _with_engine(self, engine: Engine) -> "Translator":
        return Translator(engine, self.codec, self.config, self.bundle)

    def search(self, request: Request) -> Search:
        """Return the engine's search, with the hooks of a request."""

        def search(queries: list[Query]) -> list[Hypotheses]:
            return self.searcher(queries, request.on_step, request.observer)

        return search

    async def stream_async(
        self,
        lines: AsyncIterable[str],
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> AsyncIterator[Translation]:
        """Translate lines as they arrive, each on its own.

            async for translation in translator.stream_async(chat, to="en"):
                await send(translation)

        The model runs in a thread, so that the event loop is not blocked.
        """
        import asyncio  # imported late, since it would slow down every start of the command line

        request = self.request(request, options)
        async for line in lines:
            (translation,) = await asyncio.to_thread(self.translate, [line], request)
            yield translation

    def request(self, request: Request, options: Options) -> Request:
        """Return the request with the keyword options applied."""
        changes: dict[str, Any] = dict(options)
        if "source" in changes:
            changes["source_language"] = changes.pop("source")
        if "beam" in changes:
            changes["decoding"] = replace(
                self.pipeline.proposer.settings(request), beam_size=changes.pop("beam")
            )
        return replace(request, **changes)

    def forced_pieces(self, text: str, request: Request = Request()) -> tuple[str, ...]:
        """Return the pieces that the model forces at the start; candidates do not include them."""
        ids = self.codec.forced_start(self.pipeline.splitter.target(text, request))
        return tuple(self.codec.target.pieces[i] for i in ids)

    def encode_whole(self, text: str, request: Request = Request()) -> list[int]:
        """Encode a text without splitting it; raises if it is too long for the model."""
        return self.pipeline.splitter.encode_whole(text, self.check(request))

    def check(self, request: Request) -> Request:
        """Raise if the model cannot fulfill a request; return it with its own language codes."""
        known = self.codec.languages.sources
        request = replace(
            request,
            to=known_code(request.to, self.codec.languages.targets),
            source_language=known_code(request.source_language, known),
        )
        if request.source_language and known and request.source_language not in known:
            raise TranslationError(
                f"this model does not translate from {request.source_language!r}; it can: "
                f"{', '.join(known)}."
            )
        if (
            request.to
            and self.codec.languages.targets
            and request.to not in self.codec.languages.targets
        ):
            raise TranslationError(
                f"this model does not translate into {request.to!r}; it can: "
                f"{', '.join(self.codec.languages.targets)}."
            )
        if self.codec.target.unk in self.codec.encode_target([request.prefix])[0]:
            raise TranslationError(
                f"the prefix {request.prefix!r} contains a word that this model does not know."
            )
        if request.glossary.terms and (request.sampling or request.prefix or request.observer):
            raise ConfigError("a glossary goes with a search, not with sampling or a prefix.")
        beam = self.pipeline.proposer.settings(request).beam_size
        for name, number in (("nbest", request.nbest), ("beam", beam)):
            if not 1 <= number <= MOST_HYPOTHESES:
                raise ConfigError(f"{name} is {number}: it must be from 1 to {MOST_HYPOTHESES}.")
        return request


def _windows(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """Yield windows of `most` lines, or fewer if the lines are long."""
    window: list[str] = []
    characters = 0
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise TypeError(
                f"text {number} is a {type(line).__name__}, not a str; `map` takes columns with "
                "missing values."
            )
        window.append(line)
        characters += len(line)
        if len(window) == most or characters >= _WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window
