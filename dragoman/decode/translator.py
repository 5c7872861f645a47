"""Text to text: what everything that translates goes through.

Lines are taken in windows, sorted by length, translated in batches and put back in order. A text too long for the model
is split at sentence ends and its parts are joined again. An empty line stays empty.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, overload

import numpy as np

from dragoman.bundle import Bundle, read_bundle
from dragoman.config import Config, DecodingConfig
from dragoman.decode.ensemble import Ensemble
from dragoman.decode.hypotheses import Hypothesis
from dragoman.decode.parallel import batches_at_once, search_batches
from dragoman.decode.sampling import Sampling, sample
from dragoman.decode.search import Observer, beam_search, is_simple
from dragoman.decode.words import align_words, count_words
from dragoman.engine.interface import Engine, without_shortlist
from dragoman.errors import BundleError, ConfigError, TranslationError, needs_torch
from dragoman.text.codec import Codec
from dragoman.text.segments import split_to_fit

if TYPE_CHECKING:
    from dragoman.decode.device_search import DeviceSearch

WINDOW_LINES = 2048
ENGINES = ("auto", "onnx", "torch")


@dataclass(frozen=True)
class Candidate:
    """One translation of a text."""

    text: str
    score: float
    pieces: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()  # of each piece, and of the end
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word), counted from 0


@dataclass(frozen=True)
class Translation:
    """A text and its translations, best first."""

    source: str
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        return self.candidates[0].text

    @property
    def score(self) -> float:
        return self.candidates[0].score

    def __str__(self) -> str:
        return self.text


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
    observer: Observer | None = None


class Translator:
    def __init__(self, engine: Engine, codec: Codec, config: Config):
        self.engine, self.codec, self.config = engine, codec, config
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
        self, lines: Iterable[str], request: Request = Request(), window: int | None = None, first: int = 0
    ) -> Iterator[Translation]:
        """Translations in the order of the lines, `first` of which came before; memory holds one window of them."""
        self._check(request)
        lines = iter(lines)
        while taken := list(islice(lines, window or WINDOW_LINES)):
            yield from self._window(taken, first, request)
            first += len(taken)

    def score(self, sources: Sequence[str], targets: Sequence[str], to: str = "") -> list[np.ndarray]:
        """Log-probability of each piece of each target, its end included, given its source."""
        if len(sources) != len(targets):
            raise TranslationError(f"there are {len(sources)} sources and {len(targets)} targets to score.")
        left = self.codec.encode_source(sources, self._target_language(Request(to=to)))
        right = self.codec.encode_target(targets)
        limit = self.engine.max_length
        for text, ids in [*zip(sources, left, strict=True), *zip(targets, right, strict=True)]:
            if limit is not None and len(ids) >= limit:
                raise TranslationError(f"{text[:40]!r}… has {len(ids)} pieces, the model takes {limit - 1}.")
        scores: list[np.ndarray] = [np.zeros(0)] * len(left)
        lengths = [max(len(s), len(t)) for s, t in zip(left, right, strict=True)]
        for rows in _batches(lengths, self.config.decoding.batch_tokens or self.engine.batch_tokens):
            for row, found in zip(
                rows, self.engine.score([left[r] for r in rows], [right[r] for r in rows]), strict=True
            ):
                scores[row] = found
        return scores

    def attention(
        self, text: str, translation: str | Sequence[str] | None = None, request: Request = Request()
    ) -> dict[str, object]:
        """Every layer and head for a text and its translation: the model's own, or one given as text or as pieces.

        "source" and "target" are the pieces along the axes, "encoder" (L, H, S, S), "decoder" (L, H, T, T) and "cross"
        (L, H, T, S) the weights; row t of the last two is where the decoder looked to say target piece t.
        """
        weights_of: Callable[..., dict[str, np.ndarray]] | None = getattr(self.engine, "attention_weights", None)
        if weights_of is None:
            raise TranslationError("this engine does not show attention: load one model, with engine='torch'.")
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
        """Each text as a vector of length 1, the direction of the mean of the encoder's outputs over its pieces. (N, D)

        The product of two vectors tells how close their texts are. That of an empty text is 0.
        """
        mean_of: Callable[..., np.ndarray] | None = getattr(self.engine, "embed", None)
        if mean_of is None:
            raise TranslationError("this engine gives no vectors: load one model, with engine='torch'.")
        self._check(request)
        parts, vectors = self._parts(list(texts), request), np.zeros((len(texts), self.config.model.width))
        for rows in _batches([len(part.ids) for part in parts], self.engine.batch_tokens):
            for row, vector in zip(rows, mean_of([parts[row].ids for row in rows]), strict=True):
                vectors[parts[row].line] += len(parts[row].ids) * vector
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: np.ndarray = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
        return unit

    def encode_whole(self, text: str, request: Request = Request()) -> list[int]:
        """A text's ids, where the model can look at all of it at once."""
        ids, longest = self.codec.encode_source([text], self._target_language(request))[0], self._longest(request)
        if len(ids) > longest:
            raise TranslationError(f"the text has {len(ids)} pieces, the model looks at {longest} at once: shorten it.")
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
                f"this model does not translate from {request.source_language!r}; it can: {', '.join(known)}."
            )
        self._target_language(request)
        if self.codec.target.unk in self.codec.encode_target([request.prefix])[0]:
            raise TranslationError(f"the prefix {request.prefix!r} holds a word that this model does not know.")
        if request.nbest < 1:
            raise ConfigError(f"nbest is {request.nbest}: it must be at least 1.")

    def _target_language(self, request: Request) -> str:
        languages = self.codec.languages
        if request.to and languages.targets and request.to not in languages.targets:
            raise TranslationError(
                f"this model does not translate into {request.to!r}; it can: {', '.join(languages.targets)}."
            )
        return request.to or languages.default_target(request.source_language)

    def _window(self, lines: list[str], first: int, request: Request) -> list[Translation]:
        parts = self._parts(lines, request)
        found: list[tuple[Candidate, ...]] = [()] * len(parts)
        lengths = [len(part.ids) for part in parts]
        tokens = self._settings(request).batch_tokens or self.engine.batch_tokens
        if len(parts) >= (at_once := batches_at_once(self.engine)):  # work for every core
            tokens = min(tokens, max(1, sum(lengths) // at_once))
        batches = list(_batches(lengths, tokens))
        groups = [[parts[row] for row in rows] for rows in batches]
        searched = search_batches(
            self.engine, groups, lambda engine, group: self._search(engine, group, first, request),
            in_order=request.observer is not None,
        )  # fmt: skip
        for rows, outputs in zip(batches, searched, strict=True):
            for row, hypotheses in zip(rows, outputs, strict=True):
                found[row] = tuple(self._candidate(parts[row].ids, h, request) for h in hypotheses)
        of_line: list[list[tuple[Candidate, ...]]] = [[] for _ in lines]
        words_of_line: list[list[int]] = [[] for _ in lines]
        for part, candidates in zip(parts, found, strict=True):
            of_line[part.line].append(candidates)
            words_of_line[part.line].append(count_words([self.codec.source.pieces[i] for i in part.ids]))
        return [
            Translation(text, _join(candidates, words))
            for text, candidates, words in zip(lines, of_line, words_of_line, strict=True)
        ]

    def _parts(self, lines: list[str], request: Request) -> list["_Part"]:
        """The lines as ids, long ones in several parts, empty ones left out."""
        to, longest, encode = self._target_language(request), self._longest(request), self.codec.encode_source
        parts: list[_Part] = []
        for line, (text, ids) in enumerate(zip(lines, encode(lines, to), strict=True)):
            if not text.strip():
                continue
            if len(ids) <= longest:
                parts.append(_Part(line, 0, ids))
            else:
                pieces = split_to_fit(text, lambda part: len(encode([part], to)[0]) <= longest)
                parts += [_Part(line, number, part) for number, part in enumerate(encode(pieces, to))]
        return parts

    def _search(self, engine: Engine, parts: Sequence["_Part"], first: int, request: Request) -> list[list[Hypothesis]]:
        sources, settings = [part.ids for part in parts], self._settings(request)
        prefix = self.codec.encode_target([request.prefix])[0] if request.prefix else []
        prefixes = [prefix if part.number == 0 else [] for part in parts] if prefix else None
        if prefixes or not settings.shortlist:  # a forced piece may be on nobody's list
            engine = without_shortlist(engine)
        if request.sampling is not None:
            keys = [(first + part.line) * 2**16 + part.number for part in parts]
            return sample(
                engine, sources, settings, request.sampling,
                nbest=request.nbest, prefixes=prefixes, attention=request.alignments, keys=keys,
            )  # fmt: skip
        host_is_needed = prefixes or request.alignments or request.observer
        if self.engine.searches_on_device and not host_is_needed and is_simple(settings):
            return self._device_search(settings, request.nbest)(sources)
        return beam_search(
            engine, sources, settings,
            nbest=request.nbest, prefixes=prefixes, attention=request.alignments, observer=request.observer,
        )  # fmt: skip

    def _device_search(self, settings: DecodingConfig, nbest: int) -> "DeviceSearch":
        """Kept for these settings: what it has recorded is worth more the second time."""
        if (settings, nbest) not in self._device_searches:
            from dragoman.decode.device_search import DeviceSearch
            from dragoman.engine.torch_engine import TorchEngine

            self._device_searches.clear()
            self._device_searches[settings, nbest] = DeviceSearch(cast(TorchEngine, self.engine), settings, nbest)
        return self._device_searches[settings, nbest]

    def _candidate(self, source: list[int], hypothesis: Hypothesis, request: Request) -> Candidate:
        pieces = tuple(self.codec.target.pieces[i] for i in hypothesis.tokens)
        alignment: tuple[tuple[int, int], ...] = ()
        if request.alignments and hypothesis.attention is not None:
            alignment = align_words([self.codec.source.pieces[i] for i in source], pieces, hypothesis.attention)
        text = self.codec.decode_target(hypothesis.tokens)
        return Candidate(text, hypothesis.score, pieces, hypothesis.log_probs, alignment)


class _Part(NamedTuple):
    """A line, or a piece of one too long, on its way to the model."""

    line: int
    number: int
    ids: list[int]


def load(model: str | Path, device: str = "auto", engine: str = "auto", threads: int = 0) -> Translator:
    """A translator from a bundle's folder; several, joined by commas, make an ensemble.

    `engine` "auto" takes ONNX Runtime where the bundle has graphs for it and nobody asked for a GPU, else torch.
    `threads` are those of the process on a CPU; 0: one for each core.
    """
    if engine not in ENGINES:
        raise ConfigError(f"engine {engine!r} is unknown; it can be {', '.join(ENGINES)}.")
    folders = model_folders(model)
    bundles = [read_bundle(folder) for folder in folders]
    codec = bundles[0].codec
    for folder, bundle in zip(folders, bundles, strict=True):
        if bundle.codec.to_files() != codec.to_files():
            raise BundleError(f"{folder} and {folders[0]} have different vocabularies: they cannot vote together.")
    engines = [_engine(bundle, device, engine, threads) for bundle in bundles]
    return Translator(engines[0] if len(engines) == 1 else Ensemble(engines), codec, bundles[0].config)


def model_folders(model: str | Path) -> list[str]:
    """The folders that a comma joins."""
    folders = [part for part in str(model).split(",") if part]
    if not folders:
        raise BundleError("no model was named: give the folder of a trained one, --model runs/de-en.")
    return folders


def _engine(bundle: Bundle, device: str, engine: str, threads: int) -> Engine:
    """Imported on use: importing dragoman imports neither torch nor ONNX Runtime."""
    if engine == "onnx" or (engine == "auto" and bundle.graphs and device in ("auto", "cpu")):
        if device not in ("auto", "cpu"):
            raise ConfigError(f"the ONNX engine runs on the CPU, not on {device}: leave out --engine or --device.")
        from dragoman.engine.onnx_engine import OnnxEngine

        return OnnxEngine(bundle, threads)
    with needs_torch():
        import torch

        from dragoman.engine.torch_engine import TorchEngine
    if threads:
        torch.set_num_threads(threads)
    return TorchEngine.from_bundle(bundle, device)


def _batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Row numbers grouped by length under a budget of padded tokens, longest first (memory shows at once)."""
    group: list[int] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda r: (-lengths[r], r)):
        if group and (len(group) + 1) * max(longest, lengths[row]) > tokens:
            yield group
            group, longest = [], 0
        group.append(row)
        longest = max(longest, lengths[row])
    if group:
        yield group


def _join(parts: list[tuple[Candidate, ...]], source_words: list[int]) -> tuple[Candidate, ...]:
    """The candidates of a text from those of its parts: the best with the best, the second with the second, ..."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return (Candidate("", 0.0),)
    count = max(map(len, parts))
    return tuple(_concatenate([part[min(i, len(part) - 1)] for part in parts], source_words) for i in range(count))


def _concatenate(parts: list[Candidate], source_words: list[int]) -> Candidate:
    """One after the other, the word numbers of alignments shifted by the words before."""
    alignment: list[tuple[int, int]] = []
    source = target = 0
    for part, words in zip(parts, source_words, strict=True):
        alignment += [(s + source, t + target) for s, t in part.alignment]
        source, target = source + words, target + count_words(part.pieces)
    return Candidate(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        tuple(piece for part in parts for piece in part.pieces),
        (*(value for part in parts[:-1] for value in part.log_probs[: len(part.pieces)]), *parts[-1].log_probs),
        tuple(alignment),
    )
