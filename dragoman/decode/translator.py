"""Text to text: what everything that translates goes through.

Lines are taken in windows. Each window is split into parts that the model can take, the parts are
searched, what breaks a promise is repaired, and the parts of a line are joined again. An empty line
stays empty. What stands several times in a window is translated once.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack, overload

from dragoman.bundle import UNFINISHED, Bundle, read_bundle
from dragoman.config import MOST_HYPOTHESES, Config
from dragoman.decode.ensemble import Ensemble
from dragoman.decode.repairs import REPAIRS, repaired
from dragoman.decode.request import Options, Request
from dragoman.decode.searching import Found, Searcher
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate, Translation, count_words, joined, merged
from dragoman.engine.choose import make_engine
from dragoman.engine.interface import Engine
from dragoman.errors import BundleError, ConfigError, TranslationError
from dragoman.hub import model_folders
from dragoman.text.codec import Codec
from dragoman.text.languages import known_code, reason_to_keep
from dragoman.text.memory import EXACT

WINDOW_LINES = 2048
_WINDOW_CHARACTERS = 2**19  # a window ends with the line that reaches this


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
        self.splitter = Splitter(codec, config.decoding, engine.max_length)
        self.searcher = Searcher(engine, codec, config.decoding)
        self._repairs = [make(self.splitter, self.searcher) for make in REPAIRS.values()]

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
    ) -> Self:
        """A translator from a bundle's folder; several, joined by commas, make an ensemble.

        `engine` "auto" takes ONNX Runtime for a bundle made for it, or if torch is missing, unless
        a GPU is asked for. `threads` are those of the process on a CPU; 0: one for each core.
        Without a model, the languages choose one of the package's own; if there is no source
        language, it is detected from the text.
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
        engines = [make_engine(bundle, device, engine, threads) for bundle in bundles]
        if len(engines) > 1:
            return cls(Ensemble(engines), codec, bundles[0].config, notes=tuple(notes))
        return cls(engines[0], codec, bundles[0].config, bundles[0], tuple(notes))

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
        windows = _windows(lines, window or max(1, WINDOW_LINES // request.nbest))
        if processes != 1:
            # Only here, since that module is about this class.
            from dragoman.decode.processes import numbered, translate_windows

            given = numbered(windows, first)
            for found in translate_windows(self, given, request, lambda one: one, processes):
                yield from found
            return
        for taken in windows:
            yield from self._window(taken, first, request)
            first += len(taken)

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

        asked = self.request(request, options)
        async for line in lines:
            (found,) = await asyncio.to_thread(self.translate, [line], asked)
            yield found

    def request(self, request: Request, options: Options) -> Request:
        """A request with some of its fields given as keywords."""
        changes: dict[str, Any] = dict(options)
        if "source" in changes:
            changes["source_language"] = changes.pop("source")
        if "beam" in changes:
            changes["decoding"] = replace(self.searcher.settings(request), beam=changes.pop("beam"))
        return replace(request, **changes)

    def split(self, lines: Sequence[str], request: Request = Request()) -> list[Part]:
        """First stage: the lines as ids, long ones in several parts, empty ones left out."""
        return self.splitter(lines, self.check(request))

    def search(self, parts: list[Part], request: Request = Request(), first: int = 0) -> Found:
        """Second stage: the candidates of each part, best first, no two of which read the same."""
        found = self.searcher.all(parts, first, request)
        return found if request.sampling else [merged(candidates) for candidates in found]

    def repair(
        self,
        parts: list[Part],
        found: Sequence[tuple[Candidate, ...]],
        request: Request = Request(),
        first: int = 0,
    ) -> Found:
        """Third stage: other candidates for parts whose best one breaks a promise.

        It lacks a term of the glossary, for example, or its numbers are wrong.
        """
        found = list(found)
        if request.sampling or request.observer:
            return found
        for repair in self._repairs:
            found = repaired(repair, parts, found, first, request)
        return found

    def join(
        self, lines: Sequence[str], parts: list[Part], found: Sequence[tuple[Candidate, ...]]
    ) -> list[Translation]:
        """Last stage: a translation for each line from the candidates of its parts."""
        of_line: list[list[tuple[Part, tuple[Candidate, ...]]]] = [[] for _ in lines]
        for part, candidates in zip(parts, found, strict=True):
            of_line[part.line].append((part, candidates))
        translations = []
        for text, own in zip(lines, of_line, strict=True):
            # where one part is the whole line, nothing is shifted by the words before it
            several = own if len(own) > 1 else []
            pieces = self.codec.source.pieces
            words = [
                count_words([pieces[i] for i in part.ids]) + len(part.left_out)
                for part, _ in several
            ]
            adapted = any(self._is_adapted(part) for part, _ in own)
            candidates = joined([found for _, found in own], words)
            translations.append(Translation(text, candidates, adapted=adapted))
        return translations

    def _is_adapted(self, part: Part) -> bool:
        return self.engine.chosen(part.ids) is not self.engine.choices[0]

    def least_work(self, lines: Sequence[str], request: Request = Request()) -> int:
        """A lower bound of `searcher.work` for these lines, found without splitting them."""
        source = request.source_language or next(iter(self.codec.languages.sources), "")
        to = request.to or self.codec.languages.default_target(request.source_language)
        texts = [line for line in lines if line.strip()]
        pieces = sum(map(len, self.codec.encode_source(texts, to, source)))
        ratio = min(1.0, self.searcher.settings(request).max_length_ratio)
        return int(pieces * (1 + self.searcher.width(request) * ratio))

    def repair_work(
        self, part: Part, candidates: Sequence[Candidate], request: Request = Request()
    ) -> int:
        """Positions that a repair computes at most; 0 where there is nothing to repair."""
        if request.sampling or request.observer:
            return 0
        work = 0
        for repair in self._repairs:
            # What an earlier repair puts in its place may break this promise too.
            at_risk = work > 0 and repair.concerns(part)
            if at_risk or repair.broken(part, candidates[0].text, request):
                work += repair.work(part, request)
        return work

    def forced_pieces(self, text: str, request: Request = Request()) -> tuple[str, ...]:
        """What the translation of a text must begin with in this model; no candidate shows it."""
        ids = self.codec.forced_start(self.splitter.target(text, request))
        return tuple(self.codec.target.pieces[i] for i in ids)

    def encode_whole(self, text: str, request: Request = Request()) -> list[int]:
        """A text's ids, where the model can look at all of it at once."""
        return self.splitter.encode_whole(text, self.check(request))

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
        for name, asked in (
            ("nbest", request.nbest),
            ("beam", self.searcher.settings(request).beam),
        ):
            if not 1 <= asked <= MOST_HYPOTHESES:
                raise ConfigError(f"{name} is {asked}: it must be from 1 to {MOST_HYPOTHESES}.")
        return request

    def _window(self, lines: list[str], first: int, request: Request) -> list[Translation]:
        memory = request.memory
        matches = [memory.find(text) if memory and text.strip() else None for text in lines]
        kept = dict[int, Translation]()  # by line: what the model is not asked for
        for row, (text, match) in enumerate(zip(lines, matches, strict=True)):
            if match and match.similarity == EXACT:
                kept[row] = Translation(text, (Candidate(match.target, 0.0),), match=match)
            elif note := self._reason_to_keep(text, request):
                # A translation is one line, and so is what takes its place.
                same = " ".join(text.splitlines()).replace("\t", " ")
                kept[row] = Translation(text, (Candidate(same, 0.0),), note, match)
        # To the model, a line that stays as it is looks empty.
        read = ["" if row in kept else text for row, text in enumerate(lines)]
        parts = self.splitter(read, request)
        found = self._found_once(parts, first, request)
        translations = self.join(lines, parts, found)
        for row, match in enumerate(matches):
            if row in kept:
                translations[row] = kept[row]
            elif match:
                made = translations[row]
                translations[row] = Translation(
                    made.source, made.candidates, made.note, match, made.adapted
                )
        return translations

    def _reason_to_keep(self, text: str, request: Request) -> str:
        """Why a text is left as it is, if its language was to be detected and is not for us."""
        if request.source_language or request.observer or not text.strip():
            return ""
        languages = self.codec.languages
        return reason_to_keep(text, languages.sources, self.splitter.target(text, request))

    def _found_once(self, parts: list[Part], first: int, request: Request) -> Found:
        """The candidates of each part, best first; equal parts share theirs.

        Not where they are drawn, since equal parts get different draws, nor where somebody looks
        on.
        """
        if request.sampling or request.observer:
            return self.searcher.all(parts, first, request)
        keys = []
        for part in parts:
            must_begin = bool(request.prefix) and part.number == 0  # with the prefix
            # The text too: its digits are looked at, and two ways to write them may have the same
            # ids.
            keys.append((tuple(part.ids), part.to, part.text.strip(), must_begin, part.demands))
        unique = dict(zip(keys, parts, strict=True))
        different = list(unique.values())
        found = self.searcher.different(different, first, request)
        found = self.repair(different, found, request, first)
        of_key = dict(zip(unique, found, strict=True))
        return [of_key[key] for key in keys]


def _windows(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """So many lines at a time, fewer where they are long."""
    window: list[str] = []
    characters = 0
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise TypeError(f"text {number} is a {type(line).__name__}, not a str.")
        window.append(line)
        characters += len(line)
        if len(window) == most or characters >= _WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window
