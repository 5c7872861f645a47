"""A translator that can be looked into: scores of given translations, attention, embeddings."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Unpack

import numpy as np

from dragoman.bundle.folder import parameters_by_part
from dragoman.decode.request import Options, Request
from dragoman.decode.searcher import batches_by_length
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from dragoman.engine.protocol import Engine, Inspector
from dragoman.errors import TranslationError
from dragoman.text.detect import detect

if TYPE_CHECKING:
    from torch.nn import Module


class InspectableTranslator(Translator):
    """What `dragoman.load` gives: translates, and shows how the model comes to its output."""

    def score(
        self,
        sources: str | Sequence[str],
        targets: str | Sequence[str],
        to: str = "",
        source: str = "",
    ) -> list[np.ndarray]:
        """Log-probability of each piece of each target, its end included, given its source.

        translator.score("Guten Tag!", "Good day!", to="en")[0].sum()
        """
        sources = [sources] if isinstance(sources, str) else sources
        targets = [targets] if isinstance(targets, str) else targets
        if len(sources) != len(targets):
            raise TranslationError(
                f"there are {len(sources)} sources and {len(targets)} targets to score."
            )
        request = self.check(Request(to=to, source_language=source))
        source = request.source_language
        to = request.to or self.codec.languages.default_target(source)
        left = self.codec.encode_source(sources, to, source)
        start = self.codec.forced_start(to)
        right = [[*start, *ids] for ids in self.codec.encode_target(targets)]
        limit = self.engine.max_length
        for text, ids in [*zip(sources, left, strict=True), *zip(targets, right, strict=True)]:
            if limit is not None and len(ids) >= limit:
                raise TranslationError(
                    f"{text[:40]!r}… has {len(ids)} pieces, the model takes {limit - 1}."
                )
        scores: list[np.ndarray] = [np.zeros(0)] * len(left)
        lengths = [max(len(s), len(t)) for s, t in zip(left, right, strict=True)]
        tokens = self.config.decoding.batch_tokens or self.engine.batch_tokens
        for rows in batches_by_length(lengths, tokens):
            found = self.engine.score([left[r] for r in rows], [right[r] for r in rows])
            for row, log_probs in zip(rows, found, strict=True):
                scores[row] = log_probs[len(start) :]
        return scores

    def attention(
        self,
        text: str,
        translation: str | Sequence[str] | None = None,
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> dict[str, object]:
        """Every layer and head for a text and its translation.

            translator.attention("Guten Tag!", to="en")["cross"].shape  # (L, H, T, S)

        The translation is the model's own, or one given as text or as pieces. "source" and "target"
        are the pieces along the axes, "encoder" (L, H, S, S), "decoder" (L, H, T, T) and "cross"
        (L, H, T, S) the weights. Row t of the last two is where the decoder looks to predict target
        piece t.
        """
        if self.inspector is None:
            raise TranslationError("an ensemble does not show attention: load one model.")
        source, target = self.encode_pair(text, translation, self.request(request, options))
        vocabulary = self.codec.target
        return {
            "source": [self.codec.source.pieces[i] for i in source],
            "target": [*(vocabulary.pieces[i] for i in target), vocabulary.pieces[vocabulary.eos]],
            **self.inspector_of(source).attention_weights(source, target),
        }

    def outputs(
        self,
        text: str,
        translation: str | Sequence[str] | None = None,
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> dict[str, np.ndarray]:
        """The last hidden states of both sides, and the logits, for a text and its translation.

            translator.outputs("Guten Tag!", to="en")["logits"]  # (T, V)

        "encoder" (S, D), "decoder" (T, D), "logits" (T, V); row t of the last two predicts target
        piece t, the end included. For the states between the layers, register a hook on
        `translator.model`.
        """
        if self.inspector is None:
            raise TranslationError("an ensemble has no hidden states of its own: load one model.")
        source, target = self.encode_pair(text, translation, self.request(request, options))
        return self.inspector_of(source).outputs(source, target)

    def tokenize(self, text: str, to: str = "") -> list[str]:
        """The subwords that the model reads: language tag and end included.

        translator.tokenize("Guten Tag!", to="en")
        """
        request = self.check(Request(to=to))
        into = request.to or self.codec.languages.default_target()
        (ids,) = self.codec.encode_source(
            [text], into, self.pipeline.splitter.source(text, request)
        )
        return [self.codec.source.pieces[i] for i in ids]

    @property
    def model(self) -> "Module":
        """The model as a PyTorch module, in float32 on the CPU if another engine translates."""
        if self.inspector is None:
            raise TranslationError("an ensemble is no single model: load one.")
        module: Module = self.inspector.module
        return module

    def parameters_by_part(self) -> dict[str, int]:
        """How many parameters each part has: embeddings, encoder, decoder, output."""
        if self.bundle is None:
            raise TranslationError("an ensemble is no single model: load one.")
        return parameters_by_part(self.bundle.weights)

    def with_source(self, text: str, request: Request) -> Request:
        """The request with a source language, the likeliest one: a text whose language is named is
        translated in any case, and so can be looked at."""
        sources = self.codec.languages.sources
        if request.source_language or not sources:
            return request
        return replace(request, source_language=detect(text, sources)[0].language)

    def encode_pair(
        self, text: str, translation: str | Sequence[str] | None, request: Request
    ) -> tuple[list[int], list[int]]:
        """Both sides as ids; the translation is the model's own if none is given.

        It begins with what the model is forced to say first, such as a language.
        """
        source = self.encode_whole(text, request)
        if translation is None:
            translation = self.translate(text, self.with_source(text, request)).tokens
        start = self.codec.forced_start(self.pipeline.splitter.target(text, request))
        if isinstance(translation, str):
            return source, [*start, *self.codec.encode_target([translation])[0]]
        return source, [*start, *(self.codec.target.ids[piece] for piece in translation)]

    def embed(
        self,
        texts: str | Sequence[str],
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> np.ndarray:
        """Each text as a vector of length 1, (N, D); of a single text (D,).

            one, other = translator.embed(["Guten Tag!", "Good day!"])

        Its direction is that of the mean of the encoder's outputs over the text's pieces. The
        product of two vectors says how close their texts are. The vector of an empty text is 0.
        """
        if self.inspector is None:
            raise TranslationError("an ensemble gives no vectors: load one model.")
        if isinstance(texts, str):
            alone: np.ndarray = self.embed([texts], request, **options)[0]
            return alone
        parts = self.pipeline.splitter(texts, self.check(self.request(request, options)))
        vectors = np.zeros((len(texts), self.config.model.d_model))
        lengths = [len(part.ids) for part in parts]
        for rows in batches_by_length(lengths, self.engine.batch_tokens):
            means = self.inspector.embed([parts[row].ids for row in rows])
            for row, mean in zip(rows, means, strict=True):
                # A long text is the mean of its parts, each weighted by its length.
                vectors[parts[row].line] += lengths[row] * mean
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: np.ndarray = (vectors / np.where(norms > 0, norms, 1.0)).astype(np.float32)
        return unit

    def position_vectors(self, length: int) -> np.ndarray | None:
        """What the model adds to the words at so many positions (length, D); None: nothing."""
        return self.inspector.position_vectors(length) if self.inspector is not None else None

    @property
    def shows_attention(self) -> bool:
        possible = self.engine.inspector is not None or (self.bundle and find_spec("torch"))
        return self.engine.has_attention and bool(possible)

    @property
    def inspector(self) -> Inspector | None:
        """What shows the inside of the model; None for an ensemble."""
        return self._looked_into.inspector

    def inspector_of(self, source: Sequence[int]) -> Inspector:
        """What shows how a source, as ids, is translated: an adapter is for some sentences only."""
        found = self._looked_into.route(source).inspector
        assert found is not None
        return found

    @cached_property
    def _looked_into(self) -> Engine:
        """Torch's engine, made on first use if another engine translates."""
        if self.engine.inspector is not None or self.bundle is None:
            return self.engine
        return make_engine(self.bundle, "cpu", "torch")
