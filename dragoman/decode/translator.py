"""Text to text: what everything that translates goes through.

Lines are taken in windows, sorted by length, translated in batches and put back in order. A text
too long for the model is split at sentence ends and its parts are joined again. An empty line stays
empty. What stands several times in a window is translated once.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict, Unpack, overload

import numpy as np

from dragoman.bundle import UNFINISHED, Bundle, read_bundle
from dragoman.config import MOST_HYPOTHESES, Config, DecodingConfig
from dragoman.decode.constraints import Phrase
from dragoman.decode.ensemble import Ensemble
from dragoman.decode.glossary import NO_TERMS, Demand, Glossary, lacking
from dragoman.decode.hypotheses import Hypothesis, Limits, OnStep
from dragoman.decode.numbers import digit_errors, put_back, stand_ins, with_others
from dragoman.decode.parallel import batches_at_once, search_batches
from dragoman.decode.sampling import Sampling
from dragoman.decode.search import Observer
from dragoman.decode.searches import SEARCHES, Task
from dragoman.decode.translation import (
    Candidate,
    Translation,
    align_words,
    count_words,
    joined,
    merged,
)
from dragoman.engine.choose import make_engine
from dragoman.engine.interface import Engine
from dragoman.errors import BundleError, ConfigError, TranslationError
from dragoman.hub import model_folders
from dragoman.text.codec import Codec
from dragoman.text.detect import WORDS as DETECTED
from dragoman.text.detect import detect
from dragoman.text.languages import known_code, reason_to_keep
from dragoman.text.memory import EXACT, Memory
from dragoman.text.segments import (
    is_in_capitals,
    sentence_case,
    split_sentences,
    split_to_fit,
)

WINDOW_LINES = 2048
_WINDOW_CHARACTERS = 2**19  # a window ends with the line that reaches this
_USUAL_BEAM = 4  # a batch holds fewer sentences where the beam is wider
LEAST_ROOM = 32  # positions that a hypothesis takes memory for, however short it is
_WIDER_FOR_TERMS = 2  # times the beam, which is shared by translations with more and fewer terms
_WIDER = 4  # times the beam, if the numbers of a translation are wrong
_WIDEST = 64  # hypotheses of a search for more translations that read differently
_STAND_INS = 3  # other sets of numbers that are tried where that does not help


@dataclass(frozen=True)
class Request:
    """How to translate.

    Attributes:
        to: Target language, for models with several.
        source_language: Source language; without it, the model guesses.
        decoding: Settings of the search; without them, those of the model.
        nbest: Number of translations of each text.
        prefix: What each translation must begin with.
        alignments: Whether to link the words of source and translation.
        sampling: Draw translations instead of searching for the best.
        glossary: Terms that must be translated as it says.
        demanding: Whether to search only for what has all terms that the glossary calls for.
        observer: Sees every step of the search.
        on_step: Called before every step of every search; what it raises ends the search.
    """

    to: str = ""
    source_language: str = ""
    decoding: DecodingConfig | None = None
    nbest: int = 1
    prefix: str = ""
    alignments: bool = False
    sampling: Sampling | None = None
    glossary: Glossary = NO_TERMS
    demanding: bool = False
    observer: Observer | None = None
    on_step: OnStep | None = field(default=None, compare=False)
    # what was translated before: exact matches are taken over, near ones are shown
    memory: Memory | None = field(default=None, compare=False)


class Options(TypedDict, total=False):
    """What can be said in keywords, as in `translator("Guten Tag!", to="en", nbest=3)`."""

    to: str  # the target language
    source: str  # the source language; detected if it is not given
    beam: int  # hypotheses that search keeps; 1 is greedy
    nbest: int  # translations of each text
    prefix: str  # what every translation must begin with
    alignments: bool  # link words
    sampling: Sampling  # draw instead of searching
    glossary: Glossary  # terms that must be translated as it says


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
        self._searches = [make() for make in SEARCHES.values()]

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
        return list(self.stream(texts, request, **options))

    __call__ = translate

    def stream(
        self,
        lines: Iterable[str],
        request: Request = Request(),
        window: int | None = None,
        first: int = 0,
        **options: Unpack[Options],
    ) -> Iterator[Translation]:
        """Translations in the order of the lines, as they come; memory holds one window of lines.

            for translation in translator.stream(open("book.de"), to="en"):
                print(translation)

        `window`: lines that are read before the first of them is translated; `first`: lines that
        came before these.
        """
        request = self.check(self.request(request, options))
        # A window's candidates are all in memory: the more of them a line has, the fewer lines.
        for taken in _windows(lines, window or max(1, WINDOW_LINES // request.nbest)):
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
            changes["decoding"] = replace(self._settings(request), beam=changes.pop("beam"))
        return replace(request, **changes)

    def split(self, lines: Sequence[str], request: Request = Request()) -> list["Part"]:
        """First stage: the lines as ids, long ones in several parts, empty ones left out."""
        request = self.check(request)
        return self._parts(list(lines), request)

    def search(
        self, parts: list["Part"], request: Request = Request(), first: int = 0
    ) -> list[tuple[Candidate, ...]]:
        """Second stage: the candidates of each part, best first, no two of which read the same."""
        found = self._found(parts, first, request)
        return found if request.sampling else [merged(candidates) for candidates in found]

    def repair(
        self,
        parts: list["Part"],
        found: list[tuple[Candidate, ...]],
        request: Request = Request(),
        first: int = 0,
    ) -> list[tuple[Candidate, ...]]:
        """Third stage: mend parts that lack a term of the glossary, or whose numbers are wrong.

        Their candidates come from constrained and from wider searches, and from texts with other
        numbers.
        """
        found = list(found)
        self._keep_terms(parts, found, first, request)
        if self._keeps_numbers(request):
            self._keep_numbers(parts, found, first, request)
        return found

    def join(
        self, lines: Sequence[str], parts: list["Part"], found: Sequence[tuple[Candidate, ...]]
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
            words = [count_words([pieces[i] for i in part.ids]) for part, _ in several]
            translations.append(Translation(text, joined([found for _, found in own], words)))
        return translations

    def longest_targets(self, parts: Sequence["Part"], request: Request = Request()) -> np.ndarray:
        """The most pieces that the translation of each part may have. (N,)"""
        return Limits(
            self.engine, [part.ids for part in parts], self._settings(request), None
        ).longest

    def search_work(self, parts: Sequence["Part"], request: Request = Request()) -> list[int]:
        """Positions that the model computes at most to search for each part.

        These are its source pieces, and for every hypothesis of the beam as many target pieces as
        it may have. A position of the target takes 2 x layers x width numbers in the KV cache.
        """
        longest = self.longest_targets(parts, request)
        width = max(self._settings(request).beam, request.nbest)
        return [
            len(part.ids) + width * int(length) for part, length in zip(parts, longest, strict=True)
        ]

    def least_work(self, lines: Sequence[str], request: Request = Request()) -> int:
        """A lower bound of `search_work` for these lines, found without splitting them."""
        settings = self._settings(request)
        source = request.source_language or next(iter(self.codec.languages.sources), "")
        to = request.to or self.codec.languages.default_target(request.source_language)
        texts = [line for line in lines if line.strip()]
        pieces = sum(map(len, self.codec.encode_source(texts, to, source)))
        return int(
            pieces * (1 + max(settings.beam, request.nbest) * min(1.0, settings.max_length_ratio))
        )

    def repair_work(
        self, part: "Part", candidates: Sequence[Candidate], request: Request = Request()
    ) -> int:
        """Positions that a repair computes at most; 0 where there is nothing to repair."""
        beam = self._settings(request).beam
        terms = numbers = 0
        if lacks_terms := lacking(part.demands, candidates[0].text) > 0:
            wide = replace(request, nbest=_WIDER_FOR_TERMS * max(beam, request.nbest))
            terms = self.search_work([part], wide)[0]
        # A translation with other terms may have other numbers.
        if self._keeps_numbers(request) and (
            lacks_terms or digit_errors(part.text, candidates[0].text)
        ):
            wider = replace(request, nbest=_WIDER * max(beam, request.nbest))
            once = replace(request, nbest=1)  # each stand-in, and the forced translation
            numbers = self.search_work([part], wider)[0]
            numbers += (_STAND_INS + 1) * self.search_work([part], once)[0]
        return terms + numbers

    def forced_pieces(self, text: str, request: Request = Request()) -> tuple[str, ...]:
        """What the translation of a text must begin with in this model; no candidate shows it."""
        ids = self.codec.forced_start(self._target(text, request))
        return tuple(self.codec.target.pieces[i] for i in ids)

    def encode_whole(self, text: str, request: Request = Request()) -> list[int]:
        """A text's ids, where the model can look at all of it at once."""
        request = self.check(request)
        to, source = self._target(text, request), self._source(text, request)
        ids = self.codec.encode_source([text], to, source)[0]
        longest = self._longest(request)
        if len(ids) > longest:
            raise TranslationError(
                f"the text has {len(ids)} pieces, the model looks at {longest} at once: shorten it."
            )
        return ids

    def _settings(self, request: Request) -> DecodingConfig:
        return request.decoding or self.config.decoding

    def _longest(self, request: Request) -> int:
        """The most source pieces taken at once, their end included."""
        limit = self._settings(request).max_source_length
        return min(limit, self.engine.max_length) if self.engine.max_length is not None else limit

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
        for name, asked in (("nbest", request.nbest), ("beam", self._settings(request).beam)):
            if not 1 <= asked <= MOST_HYPOTHESES:
                raise ConfigError(f"{name} is {asked}: it must be from 1 to {MOST_HYPOTHESES}.")
        return request

    def _target(self, text: str, request: Request) -> str:
        """The language to translate a text into.

        If nobody names one, it depends on that of the text.
        """
        languages, source = self.codec.languages, request.source_language
        if languages.tagged and not (request.to or source):
            source = detect(text, languages.sources)[0].language
        return request.to or languages.default_target(source)

    def _source(self, text: str, request: Request) -> str:
        """The language of a text, where the model must be told it."""
        if request.source_language or not self.codec.framing.names_source:
            return request.source_language
        known = [code for code in self.codec.languages.sources if code in DETECTED]
        return detect(text, known)[0].language if known else ""

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
        parts = self._parts(read, request)
        found = self._found_once(parts, first, request)
        translations = self.join(lines, parts, found)
        for row, match in enumerate(matches):
            if row in kept:
                translations[row] = kept[row]
            elif match:
                made = translations[row]
                translations[row] = Translation(made.source, made.candidates, made.note, match)
        return translations

    def _reason_to_keep(self, text: str, request: Request) -> str:
        """Why a text is left as it is, if its language was to be detected and is not for us."""
        if request.source_language or request.observer or not text.strip():
            return ""
        languages = self.codec.languages
        return reason_to_keep(text, languages.sources, self._target(text, request))

    def _keeps_numbers(self, request: Request) -> bool:
        return self._settings(request).keep_numbers and not (request.sampling or request.observer)

    def _found_once(
        self, parts: list["Part"], first: int, request: Request
    ) -> list[tuple[Candidate, ...]]:
        """The candidates of each part, best first; equal parts share theirs.

        Not where they are drawn, since equal parts get different draws, nor where somebody looks
        on.
        """
        if request.sampling or request.observer:
            return self._found(parts, first, request)
        keys = []
        for part in parts:
            must_begin = bool(request.prefix) and part.number == 0  # with the prefix
            # The text too: its digits are looked at, and two ways to write them may have the same
            # ids.
            keys.append((tuple(part.ids), part.to, part.text.strip(), must_begin, part.demands))
        unique = dict(zip(keys, parts, strict=True))
        different = list(unique.values())
        found = self._search_on(different, first, request)
        found = self.repair(different, found, request, first)
        of_key = dict(zip(unique, found, strict=True))
        return [of_key[key] for key in keys]

    def _search_on(
        self, parts: list["Part"], first: int, request: Request
    ) -> list[tuple[Candidate, ...]]:
        """The candidates of each part; where fewer than `nbest` read differently, those of wider
        searches, until there are enough or none are left."""
        found = self.search(parts, request, first)
        width = max(self._settings(request).beam, request.nbest)
        lacking = [row for row, some in enumerate(found) if len(some) < request.nbest]
        while lacking and width < _WIDEST:
            width = min(2 * width, _WIDEST)
            wider = replace(request, nbest=width)
            more = self._found([parts[row] for row in lacking], first, wider)
            for row, hypotheses in zip(lacking, more, strict=True):
                found[row] = merged(hypotheses)[: request.nbest]
            lacking = [
                row
                for row, hypotheses in zip(lacking, more, strict=True)
                if len(found[row]) < request.nbest and len(hypotheses) == width
            ]
        return found

    def _found(
        self, parts: list["Part"], first: int, request: Request
    ) -> list[tuple[Candidate, ...]]:
        """The candidates of each part, best first."""
        found: list[tuple[Candidate, ...]] = [()] * len(parts)
        lengths = [len(part.ids) for part in parts]
        settings = self._settings(request)
        tokens = settings.batch_tokens or self.engine.batch_tokens
        beam = request.nbest if request.sampling else max(settings.beam, request.nbest)
        room = 1 if self.engine.searches_on_device else LEAST_ROOM
        # A batch for the usual beam is limited by its tokens. A wider beam takes more memory for
        # each sentence, so it gets fewer sentences.
        limit = _Hypotheses(beam, _USUAL_BEAM * tokens, room)
        # Smaller batches, if there is work for every core: else some cores would wait.
        if len(parts) >= (at_once := batches_at_once(self.engine)):
            tokens = min(tokens, max(1, sum(lengths) // at_once))
        batches = list(batches_by_length(lengths, tokens, limit))
        groups = [[parts[row] for row in rows] for rows in batches]
        searched = search_batches(
            self.engine, groups, lambda engine, group: self._search(engine, group, first, request),
            in_order=request.observer is not None,
        )  # fmt: skip
        for rows, outputs in zip(batches, searched, strict=True):
            for row, hypotheses in zip(rows, outputs, strict=True):
                found[row] = tuple(self._candidate(parts[row], h, request) for h in hypotheses)
        return found

    def _keep_terms(
        self, parts: list["Part"], found: list[tuple[Candidate, ...]], first: int, request: Request
    ) -> None:
        """Where the best candidate lacks a term, only translations with all terms are searched."""
        rows = [row for row, part in enumerate(parts) if lacking(part.demands, found[row][0].text)]
        if not rows:
            return
        settings = self._settings(request)
        beam = min(_WIDER_FOR_TERMS * max(settings.beam, request.nbest), MOST_HYPOTHESES)
        strict = replace(request, decoding=replace(settings, beam=beam), demanding=True)
        better = self.search([parts[row] for row in rows], strict, first)
        for row, candidates in zip(rows, better, strict=True):
            found[row] = candidates

    def _keep_numbers(
        self, parts: list["Part"], found: list[tuple[Candidate, ...]], first: int, request: Request
    ) -> None:
        """Mend rows whose best candidate has other digits than its source.

        A wider search is tried first, then other numbers.
        """
        wrong = [
            row for row, part in enumerate(parts) if digit_errors(part.text, found[row][0].text)
        ]
        settings = self._settings(request)
        beam = min(_WIDER * max(settings.beam, request.nbest), MOST_HYPOTHESES)
        wider = replace(request, decoding=replace(settings, beam=beam), nbest=beam)
        for row, more in zip(
            wrong, self._found([parts[row] for row in wrong], first, wider), strict=True
        ):
            text, demands = parts[row].text, parts[row].demands
            known = {candidate.text: candidate for candidate in (*more, *found[row])}
            closest = sorted(
                known.values(),
                key=lambda c: (lacking(demands, c.text), digit_errors(text, c.text), -c.score),
            )
            found[row] = tuple(closest[: request.nbest])
        if not request.prefix:
            still_wrong = [
                row for row in wrong if digit_errors(parts[row].text, found[row][0].text)
            ]
            for row, right in self._with_stand_ins(
                parts, still_wrong, first, replace(request, nbest=1)
            ):
                found[row] = (right, *found[row])[: request.nbest]

    def _with_stand_ins(
        self, parts: list["Part"], rows: list[int], first: int, request: Request
    ) -> Iterator[tuple[int, Candidate]]:
        """Rows whose texts are translated well with other numbers.

        Each comes with that translation, the right numbers put back.
        """
        tries: list[tuple[int, dict[str, str], Part]] = []
        for row in rows:
            for others in [stand_ins(parts[row].text, seed) for seed in range(_STAND_INS)]:
                text = with_others(parts[row].text, others)
                ids = self.codec.encode_source([text], parts[row].to, parts[row].source)[0]
                if others and len(ids) <= self._longest(request):
                    tries.append((row, others, parts[row]._replace(ids=ids, text=text)))
        right: dict[int, str] = {}
        outputs = self._found([changed for _, _, changed in tries], first, request)
        for (row, others, changed), (best, *_) in zip(tries, outputs, strict=True):
            if not lacking(parts[row].demands, best.text):
                right[row] = right.get(row) or put_back(others, changed.text, best.text)
        for row, text in right.items():
            if text:
                ((forced, *_),) = self._found(
                    [parts[row]._replace(number=0)], first, replace(request, prefix=text)
                )
                if forced.text == text:
                    yield row, forced

    def _parts(self, lines: list[str], request: Request) -> list["Part"]:
        """The lines as ids, long ones in several parts, empty ones left out."""
        longest = self._longest(request)
        by_sentence = self._settings(request).by_sentence

        def encode(texts: Sequence[str], to: str, source: str) -> list[list[int]]:
            read = [self._quiet(text, request) for text in texts]
            return self.codec.encode_source(read, to, source)

        rows_of_pair: dict[tuple[str, str], list[int]] = {}
        for row, text in enumerate(lines):
            if text.strip():
                pair = self._target(text, request), self._source(text, request)
                rows_of_pair.setdefault(pair, []).append(row)
        parts: list[Part] = []
        for (to, source), rows in rows_of_pair.items():
            encoded = encode([lines[row] for row in rows], to, source)
            for row, ids in zip(rows, encoded, strict=True):
                texts = split_sentences(lines[row])[0] if by_sentence else [lines[row]]
                if len(texts) == 1 and len(ids) <= longest:
                    demands = request.glossary.demands(lines[row])
                    parts.append(Part(row, 0, ids, to, lines[row], demands, source))
                    continue
                fits = partial(self._fits, to=to, source=source, longest=longest)
                fitting = [
                    part for text in texts for part in split_to_fit(text, fits) if part.strip()
                ]
                parts += [
                    Part(row, number, part, to, text, request.glossary.demands(text), source)
                    for number, (part, text) in enumerate(
                        zip(encode(fitting, to, source), fitting, strict=True)
                    )
                ]
        return parts

    def _quiet(self, text: str, request: Request) -> str:
        """What the model reads of a text: few sentences that it learned from were in capitals."""
        keeps = self._settings(request).keep_capitals
        return sentence_case(text) if keeps and is_in_capitals(text) else text

    def _phrase(self, demand: Demand) -> Phrase:
        """A demand as ids. At the beginning of a sentence a term may be capitalised."""
        unk = self.codec.target.unk
        texts = [*demand.targets, *(text[:1].upper() + text[1:] for text in demand.targets)]
        ways = [tuple(ids) for ids in self.codec.encode_target([*dict.fromkeys(texts)])]
        known = tuple(way for way in ways if way and unk not in way)
        if not known:
            raise TranslationError(
                f"the glossary's {demand.targets[0]!r} holds a letter that this model cannot write."
            )
        return Phrase(known, demand.inflection)

    def _fits(self, text: str, to: str, source: str, longest: int) -> bool:
        return len(self.codec.encode_source([text], to, source)[0]) <= longest

    def _search(
        self, engine: Engine, parts: Sequence["Part"], first: int, request: Request
    ) -> list[list[Hypothesis]]:
        sources = [part.ids for part in parts]
        settings = self._settings(request)
        prefix = self.codec.encode_target([request.prefix])[0] if request.prefix else []
        forced = [
            self.codec.forced_start(part.to) + (prefix if part.number == 0 else [])
            for part in parts
        ]
        prefixes = forced if any(forced) else None
        # a forced piece may be on nobody's list
        if prefixes or request.demanding or not settings.shortlist:
            engine = engine.without_shortlist
        phrases = None
        if request.demanding:
            phrases = [tuple(map(self._phrase, part.demands)) for part in parts]
        task = Task(
            settings,
            request.nbest,
            prefixes,
            phrases,
            attention=request.alignments,
            sampling=request.sampling,
            keys=[(first + part.line) * 2**16 + part.number for part in parts],
            observer=request.observer,
            on_step=request.on_step,
        )
        search = next(search for search in self._searches if search.fits(engine, task))
        return search(engine, sources, task)

    def _candidate(self, part: "Part", hypothesis: Hypothesis, request: Request) -> Candidate:
        forced = len(self.codec.forced_start(part.to))
        tokens, log_probs = hypothesis.tokens[forced:], hypothesis.log_probs[forced:]
        pieces = tuple(self.codec.target.pieces[i] for i in tokens)
        alignment: tuple[tuple[int, int], ...] = ()
        if request.alignments and hypothesis.attention is not None:
            source = [self.codec.source.pieces[i] for i in part.ids]
            alignment = align_words(source, pieces, hypothesis.attention[forced:])
        text = self.codec.decode_target(tokens)
        if self._quiet(part.text, request) != part.text:
            text = text.upper()
        return Candidate(text, hypothesis.score, pieces, log_probs, alignment)


class Part(NamedTuple):
    """A line, or a piece of one too long, on its way to the model."""

    line: int
    number: int
    ids: list[int]
    to: str
    text: str
    demands: tuple[Demand, ...] = ()  # of the glossary
    source: str = ""  # its language, where the model must be told


def _windows(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """So many lines at a time, fewer where they are long."""
    window: list[str] = []
    characters = 0
    for line in lines:
        window.append(line)
        characters += len(line)
        if len(window) == most or characters >= _WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


class _Hypotheses(NamedTuple):
    """What the hypotheses of a batch take: keys and values for `positions` in all."""

    beam: int
    positions: int
    room: int  # positions of a hypothesis at least

    def most_sentences(self, longest: int) -> int:
        return max(1, self.positions // (self.beam * max(longest, self.room)))


def batches_by_length(
    lengths: Sequence[int], tokens: int, hypotheses: _Hypotheses | None = None
) -> Iterator[list[int]]:
    """Row numbers grouped by length, longest first (memory shows at once).

    A batch is limited by its padded tokens and, in a search, by what its hypotheses take.
    """
    group: list[int] = []
    most = 0
    for row in sorted(range(len(lengths)), key=lambda r: (-lengths[r], r)):
        if len(group) == most:
            if group:
                yield group
            group = []
            longest = max(1, lengths[row])
            most = max(1, tokens // longest)
            if hypotheses is not None:
                most = min(most, hypotheses.most_sentences(longest))
        group.append(row)
    if group:
        yield group
