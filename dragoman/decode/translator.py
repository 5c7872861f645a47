"""Text to text: what everything that translates goes through.

Lines are taken in windows, and each window goes through the pipeline (`pipeline.py`), whose queries
the engine answers here.
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
from dragoman.convert.hub import model_folders
from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import Answer, Life, Query, drive
from dragoman.decode.request import Options, Request
from dragoman.decode.searcher import Searcher
from dragoman.decode.translation import Translation
from dragoman.engine.factory import make_engine
from dragoman.engine.gpus import DeviceSlot, plan_device_slots
from dragoman.engine.lazy import LazyEngine
from dragoman.engine.protocol import Engine, usable_cores
from dragoman.errors import BundleError, ConfigError, TranslationError
from dragoman.text.codec import Codec
from dragoman.text.languages import known_code

T = TypeVar("T")
WINDOW_LINES = 2048
AHEAD = 2  # windows that are begun before the one in front of them is done
_WINDOW_CHARACTERS = 2**19  # a window ends with the line that reaches this
_CHARACTERS = 3  # of a piece, or a little more: a chunk should be no larger than a batch
_TAG_AND_END = 2  # pieces
# Lines of a window for each process: fewer are translated sooner without any.
_LEAST_LINES = 32
# That a process takes at once, where there are enough for all: of each, a sentence or two are
# searched for again, and together that takes less time.
_BATCHES = 8
_LEAST_ON_GPU = 512  # of a window, which one process takes
_MOST_PROCESSES = 32  # by default: each takes some hundred megabytes of its own
_MOST_ON_GPU = 128
_WAITING = 8  # for each core, where one of them waits for a GPU most of the time


class Window(NamedTuple):
    first: int  # lines that came before these
    lines: Sequence[str]


def numbered(windows: Iterable[Sequence[str]], first: int = 0) -> Iterator[Window]:
    """Windows that follow each other, behind so many lines."""
    for lines in windows:
        yield Window(first, lines)
        first += len(lines)


class Translator:
    """`bundle`: what the engine was made of, where another can be made of it to look inside.

    `notes`: what a user should know about the model, in lines to be shown.
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
        """A translator from a bundle's folder; several, joined by commas, make an ensemble.

        `engine` "auto" takes ONNX Runtime for a bundle made for it, or if torch is missing, unless
        a GPU is asked for. `threads` are those of the process on a CPU; 0: one for each core.
        Without a model, the languages choose one of the package's own; if there is no source
        language, it is detected from the text. `later`: on a GPU, the engine may be made with the
        first search, and what is wrong there is told then.
        """
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
        later = later and len(bundles) == 1  # those who vote take each step together
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
        """Free the engine, its weights and its threads. A closed translator translates no more."""
        self.__dict__.clear()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Asked for what is not there: nothing is, once it is closed."""
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
        """One text, or several, translated. A translation is a `str` that knows more about itself.

            translator.translate("Wo ist der Bahnhof?", to="en")
            translator.translate(["Guten Morgen.", "Danke!"], beam=8, nbest=3)

        Options change the request; without any, the model's own settings are used.
        """
        if isinstance(texts, str):
            return next(self.stream([texts], request, **options))
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise TypeError(f"translate takes a str or several, not {type(texts).__name__}.")
        return list(self.stream(texts, request, **options))

    __call__ = translate

    def map(self, values: Iterable[Any], **options: Unpack[Options]) -> Any:
        """A column of a table, translated: a pandas or Polars Series keeps its index and name.

            frame["english"] = translator.map(frame["german"], to="en")

        Missing values stay missing; a text that comes several times is translated once.
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
        """Translations in the order of the lines, as they come; memory holds one window of lines.

            for translation in translator.stream(open("book.de"), to="en", processes=8):
                print(translation)

        `window`: lines that are read before the first of them is translated; `first`: lines that
        came before these; `processes`: how many translate at once (0: one for each core), which
        makes no difference to what they say (`decode/processes.py`).
        """
        request = self.check(self.request(request, options))
        # A window's candidates are all in memory: the more of them a line has, the fewer lines.
        cut = _windows(lines, window or max(1, WINDOW_LINES // request.nbest))
        windows = numbered(cut, first)
        if processes != 1:
            for translations in self.windows(windows, request, lambda one: one, processes):
                yield from translations
            return
        for number, taken in windows:
            yield from self.run(self.pipeline.translate(taken, request, number), request)

    def windows(
        self,
        windows: Iterable[Window],
        request: Request,
        show: Callable[[Translation], T],
        processes: int = 0,
        ahead: int = AHEAD,
    ) -> Generator[list[T], None, None]:
        """What `show` makes of the translations of each window, in the order of the lines.

        `processes`: at most so many; 0: one for each core, within reason. `ahead`: windows that are
        begun before the one in front of them is done. Where processes cannot be forked, or a window
        is too small for them to pay, this process does all of it.
        """
        # Only here: a text is translated sooner than what several processes need is imported.
        from dragoman.decode.processes import Forks, Search, WindowUnderWay, can_fork

        request = self.check(request)
        on_device = self.engine.searches_on_device
        # Where they wait for a GPU most of the time, several for each keep the cores busy.
        usual = usable_cores() * _WAITING if on_device else self.engine.threads
        processes = processes or min(usual, _MOST_ON_GPU if on_device else _MOST_PROCESSES)
        # What is drawn depends on the numbers of the lines, and an observer wants to see all steps.
        watched = request.sampling or request.observer or request.on_step
        divided = not watched and processes > 1 and can_fork()
        one_core = self.engine.single_threaded if divided else None
        alone = self._with_engine(one_core) if one_core is not None else None
        # A GPU stays with this process: the others do the work with text.
        divided = alone is not None or (divided and on_device)
        if alone is None:
            ahead = max(ahead, 2 * processes)  # each takes a whole window

        def translate(lines: Sequence[str], ask: Search) -> list[T]:
            if alone is None:
                return [*map(show, drive(self.pipeline.translate(lines, request), ask))]
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
                        # What a search needs is made with its first sentence. Made here, it is
                        # made once.
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
        """Where processes of their own may run the model: one that is made stays where it is."""
        engine = self.engine
        later = isinstance(engine, LazyEngine) and not engine.is_made
        return plan_device_slots(usable_cores()) if later else []

    def _chunks(self, lines: Sequence[str], request: Request, processes: int) -> list[list[int]]:
        """Numbers of lines that one process takes at once: some batches, as far as can be told
        before the lines are cut into pieces."""
        lengths = [_TAG_AND_END + len(line) // _CHARACTERS for line in lines]
        proposer = self.pipeline.proposer
        settings, width = proposer.settings(request), proposer.width(request)
        tokens = _BATCHES * self.engine.batch_tokens
        return self.searcher.batches(lengths, settings, width, processes, tokens)

    def _with_engine(self, engine: Engine) -> "Translator":
        return Translator(engine, self.codec, self.config, self.bundle)

    def run(self, life: Life[T], request: Request = Request()) -> T:
        """The result of a life of the pipeline, whose queries the engine answers."""

        def search(queries: list[Query]) -> list[Answer]:
            return [*self.searcher(queries, request.on_step, request.observer)]

        return drive(life, search)

    async def stream_async(
        self,
        lines: AsyncIterable[str],
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> AsyncIterator[Translation]:
        """The same for lines that come one by one: each is translated when it is there.

            async for translation in translator.stream_async(chat, to="en"):
                await send(translation)

        The model works in a thread, and the event loop stays free.
        """
        import asyncio  # few need it, and every start of the command line would wait for it

        request = self.request(request, options)
        async for line in lines:
            (translation,) = await asyncio.to_thread(self.translate, [line], request)
            yield translation

    def request(self, request: Request, options: Options) -> Request:
        """A request with some of its fields given as keywords."""
        changes: dict[str, Any] = dict(options)
        if "source" in changes:
            changes["source_language"] = changes.pop("source")
        if "beam" in changes:
            changes["decoding"] = replace(
                self.pipeline.proposer.settings(request), beam_size=changes.pop("beam")
            )
        return replace(request, **changes)

    def forced_pieces(self, text: str, request: Request = Request()) -> tuple[str, ...]:
        """What the translation of a text must begin with in this model; no candidate shows it."""
        ids = self.codec.forced_start(self.pipeline.splitter.target(text, request))
        return tuple(self.codec.target.pieces[i] for i in ids)

    def encode_whole(self, text: str, request: Request = Request()) -> list[int]:
        """A text's ids, where the model can look at all of it at once."""
        return self.pipeline.splitter.encode_whole(text, self.check(request))

    def check(self, request: Request) -> Request:
        """Refuse what this model or search cannot do; the request with the model's own codes."""
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
    """So many lines at a time, fewer where they are long."""
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
