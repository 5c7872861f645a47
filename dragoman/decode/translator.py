"""Text to text: what everything that translates goes through.

Lines are taken in windows, sorted by length, translated in batches and put back in order. A text
too long for the model is split at sentence ends and its parts are joined again. An empty line stays
empty. What stands several times in a window is translated once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, overload

import numpy as np

from dragoman.bundle import UNFINISHED, Bundle, model_folders, read_bundle
from dragoman.config import MOST_HYPOTHESES, Config, DecodingConfig
from dragoman.decode.constraints import Phrase, constrained_search
from dragoman.decode.ensemble import Ensemble
from dragoman.decode.glossary import NO_TERMS, Demand, Glossary, lacking
from dragoman.decode.hypotheses import Hypothesis, Limits, OnStep
from dragoman.decode.numbers import digits_astray, put_back, stand_ins, with_others
from dragoman.decode.parallel import batches_at_once, search_batches
from dragoman.decode.sampling import Sampling, sample
from dragoman.decode.search import Observer, beam_search, is_simple
from dragoman.decode.translation import Candidate, Translation, joined
from dragoman.decode.words import align_words, count_words
from dragoman.engine.choose import make_engine
from dragoman.engine.interface import Engine, without_shortlist
from dragoman.errors import BundleError, ConfigError, TranslationError
from dragoman.text.codec import Codec
from dragoman.text.detect import detect
from dragoman.text.segments import split_sentences, split_to_fit

if TYPE_CHECKING:
    from dragoman.decode.device_search import DeviceSearch

WINDOW_LINES = 2048
WINDOW_CHARACTERS = 2**19  # a window ends with the line that reaches this
USUAL_BEAM = 4  # a batch holds fewer sentences where the beam is wider
LEAST_ROOM = 32  # positions that a hypothesis takes memory for, however short it is
WIDER_FOR_TERMS = 2  # times the beam, which is shared by translations with more and fewer terms
WIDER = 4  # times the beam, where numbers went astray
STAND_INS = 3  # other sets of numbers that are tried where that does not help


@dataclass(frozen=True)
class Request:
    """How to translate; the settings of search come from the model where none are given."""

    to: str = ""
    source_language: str = ""
    decoding: DecodingConfig | None = None
    nbest: int = 1
    prefix: str = ""
    alignments: bool = False
    sampling: Sampling | None = None
    glossary: Glossary = NO_TERMS
    demanding: bool = False  # search only for what meets the glossary's demands
    observer: Observer | None = None
    # called before every step of every search
    on_step: OnStep | None = field(default=None, compare=False)


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
        self.engine, self.codec, self.config, self._bundle = engine, codec, config, bundle
        self.notes = notes
        self._device_searches: dict[tuple[DecodingConfig, int], DeviceSearch] = {}

    @overload
    def __call__(self, text: str, request: Request = ...) -> str: ...
    @overload
    def __call__(self, text: list[str], request: Request = ...) -> list[str]: ...
    def __call__(self, text: str | list[str], request: Request = Request()) -> str | list[str]:
        """One text, or a list of texts, translated."""
        if isinstance(text, str):
            return self.translate([text], request)[0].text
        return [translation.text for translation in self.translate(text, request)]

    def translate(self, texts: Iterable[str], request: Request = Request()) -> list[Translation]:
        return list(self.stream(texts, request))

    def stream(
        self,
        lines: Iterable[str],
        request: Request = Request(),
        window: int | None = None,
        first: int = 0,
    ) -> Iterator[Translation]:
        """Translations in the order of the lines, `first` of which came before; memory holds one
        window of them."""
        self._check(request)
        # A window's candidates are all in memory: the more of them a line has, the fewer lines.
        for taken in _windows(lines, window or max(1, WINDOW_LINES // request.nbest)):
            yield from self._window(taken, first, request)
            first += len(taken)

    def split(self, lines: Sequence[str], request: Request = Request()) -> list["Part"]:
        """First stage: the lines as ids, long ones in several parts, empty ones left out."""
        self._check(request)
        return self._parts(list(lines), request)

    def search(
        self, parts: list["Part"], request: Request = Request(), first: int = 0
    ) -> list[tuple[Candidate, ...]]:
        """Second stage: the candidates of each part, best first."""
        return self._found(parts, first, request)

    def repair(
        self,
        parts: list["Part"],
        found: list[tuple[Candidate, ...]],
        request: Request = Request(),
        first: int = 0,
    ) -> list[tuple[Candidate, ...]]:
        """Third stage, for parts that lack a term or whose numbers went astray: the candidates of
        constrained searches, of wider ones, and of stand-ins."""
        found = list(found)
        self._keep_terms(parts, found, first, request)
        if self._keeps_numbers(request):
            self._keep_numbers(parts, found, first, request)
        return found

    def join(
        self, lines: Sequence[str], parts: list["Part"], found: Sequence[tuple[Candidate, ...]]
    ) -> list[Translation]:
        """Last stage: a translation for each line from the candidates of its parts."""
        of_line: list[list[tuple[Candidate, ...]]] = [[] for _ in lines]
        words_of_line: list[list[int]] = [[] for _ in lines]
        for part, candidates in zip(parts, found, strict=True):
            of_line[part.line].append(candidates)
            words_of_line[part.line].append(
                count_words([self.codec.source.pieces[i] for i in part.ids])
            )
        return [
            Translation(text, joined(candidates, words))
            for text, candidates, words in zip(lines, of_line, words_of_line, strict=True)
        ]

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
        """Some of the `search_work` for the parts of these lines, counted without splitting
        them."""
        settings = self._settings(request)
        to = request.to or self.codec.languages.default_target(request.source_language)
        pieces = sum(
            map(len, self.codec.encode_source([line for line in lines if line.strip()], to))
        )
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
            wide = replace(request, nbest=WIDER_FOR_TERMS * max(beam, request.nbest))
            terms = self.search_work([part], wide)[0]
        # A translation with other terms may have other numbers.
        if self._keeps_numbers(request) and (
            lacks_terms or digits_astray(part.text, candidates[0].text)
        ):
            wider = replace(request, nbest=WIDER * max(beam, request.nbest))
            once = replace(request, nbest=1)  # each stand-in, and the forced translation
            numbers = self.search_work([part], wider)[0]
            numbers += (STAND_INS + 1) * self.search_work([part], once)[0]
        return terms + numbers

    def score(
        self, sources: Sequence[str], targets: Sequence[str], to: str = ""
    ) -> list[np.ndarray]:
        """Log-probability of each piece of each target, its end included, given its source."""
        if len(sources) != len(targets):
            raise TranslationError(
                f"there are {len(sources)} sources and {len(targets)} targets to score."
            )
        self._check(Request(to=to))
        left = self.codec.encode_source(sources, to or self.codec.languages.default_target())
        right = self.codec.encode_target(targets)
        limit = self.engine.max_length
        for text, ids in [*zip(sources, left, strict=True), *zip(targets, right, strict=True)]:
            if limit is not None and len(ids) >= limit:
                raise TranslationError(
                    f"{text[:40]!r}… has {len(ids)} pieces, the model takes {limit - 1}."
                )
        scores: list[np.ndarray] = [np.zeros(0)] * len(left)
        lengths = [max(len(s), len(t)) for s, t in zip(left, right, strict=True)]
        for rows in _batches(
            lengths, self.config.decoding.batch_tokens or self.engine.batch_tokens
        ):
            for row, found in zip(
                rows,
                self.engine.score([left[r] for r in rows], [right[r] for r in rows]),
                strict=True,
            ):
                scores[row] = found
        return scores

    def attention(
        self,
        text: str,
        translation: str | Sequence[str] | None = None,
        request: Request = Request(),
    ) -> dict[str, object]:
        """Every layer and head for a text and its translation: the model's own, or one given as
        text or as pieces.

        "source" and "target" are the pieces along the axes, "encoder" (L, H, S, S), "decoder" (L,
        H, T, T) and "cross" (L, H, T, S) the weights; row t of the last two is where the decoder
        looked to say target piece t.
        """
        weights_of: Callable[..., dict[str, np.ndarray]] | None = getattr(
            self.inside, "attention_weights", None
        )
        if weights_of is None:
            raise TranslationError("an ensemble does not show attention: load one model.")
        source = self.encode_whole(text, request)
        if translation is None:
            translation = self.translate([text], request)[0].candidates[0].pieces
        vocabulary = self.codec.target
        target = (
            self.codec.encode_target([translation])[0]
            if isinstance(translation, str)
            else [vocabulary.ids[piece] for piece in translation]
        )
        return {
            "source": [self.codec.source.pieces[i] for i in source],
            "target": [*(vocabulary.pieces[i] for i in target), vocabulary.pieces[vocabulary.eos]],
            **weights_of(source, target),
        }

    def embed(self, texts: Sequence[str], request: Request = Request()) -> np.ndarray:
        """Each text as a vector of length 1, the direction of the mean of the encoder's outputs
        over its pieces. (N, D)

        The product of two vectors tells how close their texts are. That of an empty text is 0.
        """
        mean_of: Callable[..., np.ndarray] | None = getattr(self.inside, "embed", None)
        if mean_of is None:
            raise TranslationError("an ensemble gives no vectors: load one model.")
        self._check(request)
        parts = self._parts(list(texts), request)
        vectors = np.zeros((len(texts), self.config.model.width))
        for rows in _batches([len(part.ids) for part in parts], self.engine.batch_tokens):
            for row, vector in zip(rows, mean_of([parts[row].ids for row in rows]), strict=True):
                vectors[parts[row].line] += len(parts[row].ids) * vector
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: np.ndarray = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
        return unit

    @property
    def shows_attention(self) -> bool:
        there = hasattr(self.engine, "attention_weights") or (self._bundle and find_spec("torch"))
        return self.engine.has_attention and bool(there)

    @cached_property
    def inside(self) -> Engine:
        """The engine that shows what goes on inside: torch's, made on first use where another one
        translates."""
        if self._bundle is None or hasattr(self.engine, "attention_weights"):
            return self.engine
        return make_engine(self._bundle, "cpu", "torch")

    def encode_whole(self, text: str, request: Request = Request()) -> list[int]:
        """A text's ids, where the model can look at all of it at once."""
        self._check(request)
        ids = self.codec.encode_source([text], self._target(text, request))[0]
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

    def _check(self, request: Request) -> None:
        known = self.codec.languages.sources
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
                f"the prefix {request.prefix!r} holds a word that this model does not know."
            )
        if request.glossary.terms and (request.sampling or request.prefix or request.observer):
            raise ConfigError("a glossary goes with a search, not with sampling or a prefix.")
        for name, asked in (("nbest", request.nbest), ("beam", self._settings(request).beam)):
            if not 1 <= asked <= MOST_HYPOTHESES:
                raise ConfigError(f"{name} is {asked}: it must be from 1 to {MOST_HYPOTHESES}.")

    def _target(self, text: str, request: Request) -> str:
        """The language to translate a text into; where nobody says, it depends on that of the
        text."""
        languages, source = self.codec.languages, request.source_language
        if languages.tagged and not (request.to or source):
            source = detect(text, languages.sources)[0].language
        return request.to or languages.default_target(source)

    def _window(self, lines: list[str], first: int, request: Request) -> list[Translation]:
        parts = self._parts(lines, request)
        found = self._found_once(parts, first, request)
        return self.join(lines, parts, found)

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
        found = self._found(different, first, request)
        found = self.repair(different, found, request, first)
        of_key = dict(zip(unique, found, strict=True))
        return [of_key[key] for key in keys]

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
        limit = _Hypotheses(beam, USUAL_BEAM * tokens, room)
        if len(parts) >= (at_once := batches_at_once(self.engine)):  # work for every core
            tokens = min(tokens, max(1, sum(lengths) // at_once))
        batches = list(_batches(lengths, tokens, limit))
        groups = [[parts[row] for row in rows] for rows in batches]
        searched = search_batches(
            self.engine, groups, lambda engine, group: self._search(engine, group, first, request),
            in_order=request.observer is not None,
        )  # fmt: skip
        for rows, outputs in zip(batches, searched, strict=True):
            for row, hypotheses in zip(rows, outputs, strict=True):
                found[row] = tuple(self._candidate(parts[row].ids, h, request) for h in hypotheses)
        return found

    def _keep_terms(
        self, parts: list["Part"], found: list[tuple[Candidate, ...]], first: int, request: Request
    ) -> None:
        """Where the best candidate lacks a term, only translations with all terms are searched."""
        rows = [row for row, part in enumerate(parts) if lacking(part.demands, found[row][0].text)]
        if not rows:
            return
        settings = self._settings(request)
        beam = min(WIDER_FOR_TERMS * max(settings.beam, request.nbest), MOST_HYPOTHESES)
        strict = replace(request, decoding=replace(settings, beam=beam), demanding=True)
        for row, better in zip(
            rows, self._found([parts[row] for row in rows], first, strict), strict=True
        ):
            found[row] = better

    def _keep_numbers(
        self, parts: list["Part"], found: list[tuple[Candidate, ...]], first: int, request: Request
    ) -> None:
        """Where the best candidate's digits are not those of its source, a wider search is asked,
        then stand-ins."""
        wrong = [
            row for row, part in enumerate(parts) if digits_astray(part.text, found[row][0].text)
        ]
        settings = self._settings(request)
        beam = min(WIDER * max(settings.beam, request.nbest), MOST_HYPOTHESES)
        wider = replace(request, decoding=replace(settings, beam=beam), nbest=beam)
        for row, more in zip(
            wrong, self._found([parts[row] for row in wrong], first, wider), strict=True
        ):
            text, demands = parts[row].text, parts[row].demands
            known = {candidate.text: candidate for candidate in (*more, *found[row])}
            closest = sorted(
                known.values(),
                key=lambda c: (lacking(demands, c.text), digits_astray(text, c.text), -c.score),
            )
            found[row] = tuple(closest[: request.nbest])
        if not request.prefix:
            still_wrong = [
                row for row in wrong if digits_astray(parts[row].text, found[row][0].text)
            ]
            for row, right in self._with_stand_ins(
                parts, still_wrong, first, replace(request, nbest=1)
            ):
                found[row] = (right, *found[row])[: request.nbest]

    def _with_stand_ins(
        self, parts: list["Part"], rows: list[int], first: int, request: Request
    ) -> Iterator[tuple[int, Candidate]]:
        """Rows whose texts are translated well with other numbers; these translations, the right
        numbers put back."""
        tries: list[tuple[int, dict[str, str], Part]] = []
        for row in rows:
            for others in [stand_ins(parts[row].text, seed) for seed in range(STAND_INS)]:
                text = with_others(parts[row].text, others)
                ids = self.codec.encode_source([text], parts[row].to)[0]
                if others and len(ids) <= self._longest(request):
                    tries.append((row, others, parts[row]._replace(ids=ids, text=text)))
        right: dict[int, str] = {}
        said = self._found([changed for _, _, changed in tries], first, request)
        for (row, others, changed), (best, *_) in zip(tries, said, strict=True):
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
        encode = self.codec.encode_source
        by_sentence = self._settings(request).by_sentence
        rows_into: dict[str, list[int]] = {}
        for row, text in enumerate(lines):
            if text.strip():
                rows_into.setdefault(self._target(text, request), []).append(row)
        parts: list[Part] = []
        for to, rows in rows_into.items():
            for row, ids in zip(rows, encode([lines[row] for row in rows], to), strict=True):
                texts = split_sentences(lines[row])[0] if by_sentence else [lines[row]]
                if len(texts) == 1 and len(ids) <= longest:
                    demands = request.glossary.demands(lines[row])
                    parts.append(Part(row, 0, ids, to, lines[row], demands))
                    continue
                fits = partial(self._fits, to=to, longest=longest)
                fitting = [
                    part for text in texts for part in split_to_fit(text, fits) if part.strip()
                ]
                parts += [
                    Part(row, number, part, to, text, request.glossary.demands(text))
                    for number, (part, text) in enumerate(
                        zip(encode(fitting, to), fitting, strict=True)
                    )
                ]
        return parts

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

    def _fits(self, text: str, to: str, longest: int) -> bool:
        return len(self.codec.encode_source([text], to)[0]) <= longest

    def _search(
        self, engine: Engine, parts: Sequence["Part"], first: int, request: Request
    ) -> list[list[Hypothesis]]:
        sources = [part.ids for part in parts]
        settings = self._settings(request)
        prefix = self.codec.encode_target([request.prefix])[0] if request.prefix else []
        prefixes = [prefix if part.number == 0 else [] for part in parts] if prefix else None
        if prefixes or not settings.shortlist:  # a forced piece may be on nobody's list
            engine = without_shortlist(engine)
        if request.sampling is not None:
            keys = [(first + part.line) * 2**16 + part.number for part in parts]
            return sample(
                engine, sources, settings, request.sampling,
                nbest=request.nbest, prefixes=prefixes, attention=request.alignments, keys=keys,
                on_step=request.on_step,
            )  # fmt: skip
        if request.demanding:
            phrases = [tuple(map(self._phrase, part.demands)) for part in parts]
            return constrained_search(
                without_shortlist(engine), sources, phrases, settings,
                nbest=request.nbest, attention=request.alignments, on_step=request.on_step,
            )  # fmt: skip
        host_is_needed = prefixes or request.alignments or request.observer
        if self.engine.searches_on_device and not host_is_needed and is_simple(settings):
            return self._device_search(settings, request.nbest)(sources, request.on_step)
        return beam_search(
            engine, sources, settings,
            nbest=request.nbest, prefixes=prefixes, attention=request.alignments,
            observer=request.observer,
            on_step=request.on_step,
        )  # fmt: skip

    def _device_search(self, settings: DecodingConfig, nbest: int) -> "DeviceSearch":
        """Kept for the last settings, and the last but one: what it has recorded is worth more the
        second time."""
        if (settings, nbest) not in self._device_searches:
            from dragoman.decode.device_search import DeviceSearch
            from dragoman.engine.torch_engine import TorchEngine

            while len(self._device_searches) > 1:
                del self._device_searches[next(iter(self._device_searches))]
            self._device_searches[settings, nbest] = DeviceSearch(
                cast(TorchEngine, self.engine), settings, nbest
            )
        return self._device_searches[settings, nbest]

    def _candidate(self, source: list[int], hypothesis: Hypothesis, request: Request) -> Candidate:
        pieces = tuple(self.codec.target.pieces[i] for i in hypothesis.tokens)
        alignment: tuple[tuple[int, int], ...] = ()
        if request.alignments and hypothesis.attention is not None:
            alignment = align_words(
                [self.codec.source.pieces[i] for i in source], pieces, hypothesis.attention
            )
        text = self.codec.decode_target(hypothesis.tokens)
        return Candidate(text, hypothesis.score, pieces, hypothesis.log_probs, alignment)


class Part(NamedTuple):
    """A line, or a piece of one too long, on its way to the model."""

    line: int
    number: int
    ids: list[int]
    to: str
    text: str
    demands: tuple[Demand, ...] = ()  # of the glossary


def load(
    model: str | Path, device: str = "auto", engine: str = "auto", threads: int = 0
) -> Translator:
    """A translator from a bundle's folder; several, joined by commas, make an ensemble.

    `engine` "auto" takes ONNX Runtime for a bundle made for it, or where torch is missing, unless a
    GPU is asked for. `threads` are those of the process on a CPU; 0: one for each core.
    """
    folders = model_folders(model)
    bundles = [read_bundle(folder) for folder in folders]
    codec = bundles[0].codec
    for folder, bundle in zip(folders, bundles, strict=True):
        if bundle.codec.to_files() != codec.to_files():
            raise BundleError(
                f"{folder} and {folders[0]} have different vocabularies: they cannot vote together."
            )
    notes = tuple(
        f"{folder}: its training has not ended; this is {bundle.card[UNFINISHED]}."
        for folder, bundle in zip(folders, bundles, strict=True)
        if UNFINISHED in bundle.card
    )
    engines = [make_engine(bundle, device, engine, threads) for bundle in bundles]
    if len(engines) > 1:
        return Translator(Ensemble(engines), codec, bundles[0].config, notes=notes)
    return Translator(engines[0], codec, bundles[0].config, bundles[0], notes)


def _windows(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """So many lines at a time, fewer where they are long."""
    window: list[str] = []
    characters = 0
    for line in lines:
        window.append(line)
        characters += len(line)
        if len(window) == most or characters >= WINDOW_CHARACTERS:
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


def _batches(
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
