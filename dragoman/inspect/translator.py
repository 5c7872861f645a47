"""A translator with access to the model: scores of given translations, attention, embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import numpy as np

from dragoman.bundle.folder import parameters_by_part
from dragoman.convert.hub import is_text_engine
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
    """The result of `dragoman.load`: translates, and shows how the model computes its output."""

    @classmethod
    def load(
        cls,
        model: str | Path = "",
        device: str = "auto",
        engine: str = "auto",
        threads: int = 0,
        *,
        engine_settings: Mapping[str, Any] = {},
        **more: Any,
    ) -> Self:
        """Load a model, or with the address of an engine that takes text, that engine.

        Either of `model` and `engine` may name it; a model beside it takes over where it fails.
        `engine_settings` are those of a text engine (`decode/text_engine/settings.py`).
        """
        if is_text_engine(str(model)) and not is_text_engine(engine):
            model, engine = "", str(model)
        if not is_text_engine(engine):
            return super().load(model, device, engine, threads, **more)
        # Imported late: the package's own model needs nothing of it.
        from dragoman.inspect.text_translator import TextTranslator

        return cast("Self", TextTranslator.of(engine, model, device, engine_settings))

    def score(
        self,
        sources: str | Sequence[str],
        targets: str | Sequence[str],
        to: str = "",
        source: str = "",
    ) -> list[np.ndarray]:
        """Return the log-probability of each piece of each target and of its end token.

        translator.score("Guten Tag!", "Good day!", to="en")[0].sum()
        """
        # A string is a sequence of strings, too: its characters.
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
        # A learned position table limits the length.
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
            batch = self.engine.score([left[r] for r in rows], [right[r] for r in rows])
            for row, log_probs in zip(rows, batch, strict=True):
                # Tags that search would force are not part of the translation.
                scores[row] = log_probs[len(start) :]
        return scores

    def attention(
        self,
        text: str,
        translation: str | Sequence[str] | None = None,
        request: Request = Request(),
        **options: Unpack[Options],
    ) -> dict[str, object]:
        """Return the attention weights of every layer and head for a text and its translation.

            translator.attention("Guten Tag!", to="en")["cross"].shape  # (L, H, T, S)

        The translation is given as text or as pieces; by default the model translates. "source" and
        "target" are the pieces along the axes. "encoder" (L, H, S, S), "decoder" (L, H, T, T) and
        "cross" (L, H, T, S) are the weights. Row t of the last two is the decoder's attention when
        it predicts target piece t.
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
        """Return the last hidden states of both sides, and the logits, for a text and a
        translation.

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
        """Return the subwords that the model reads, including language tag and end token.

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
            raise TranslationError("an ensemble is not a single model: load one.")
        module: Module = self.inspector.module
        return module

    def parameters_by_part(self) -> dict[str, int]:
        """Count the parameters of each part: embeddings, encoder, decoder, output."""
        if self.bundle is None:
            raise TranslationError("an ensemble is not a single model: load one.")
        return parameters_by_part(self.bundle.weights)

    def with_source(self, text: str, request: Request) -> Request:
        """Add the most likely source language to a request that has none."""
        # Otherwise a text that seems to be in another language would not be translated at all.
        sources = self.codec.languages.sources
        if request.source_language or not sources:
            return request
        return replace(request, source_language=detect(text, sources)[0].language)

    def encode_pair(
        self, text: str, translation: str | Sequence[str] | None, request: Request
    ) -> tuple[list[int], list[int]]:
        """Encode a text and its translation, including tags that search would force.

        By default the model translates.
        """
        source = self.encode_whole(text, request)
        if translation is None:
            translation = self.translate(text, self.with_source(text, request)).tokens
        # Models of other systems begin a target with a language tag.
        start = self.codec.forced_start(self.pipeline.splitter.target(text, request))
        if isinstance(translation, str):
            return source, [*start, *self.codec.encode_target([translation])[0]]
        return source, [*start, *(self.codec.target.ids[piece] for piece in translation)]

    def embed(
        self, texts: str | Sequence[str], request: Request = Request(), **options: Unpack[Options]
    ) -> np.ndarray:
        """Return a vector of length 1 for each text (N, D), or for a single text (D,).

            one, other = translator.embed(["Guten Tag!", "Good day!"])

        It is the normalized mean of the encoder's outputs over the text's pieces. The product of
        two vectors is the similarity of their texts. The vector of an empty text is 0.
        """
        if self.inspector is None:
            raise TranslationError("an ensemble gives no vectors: load one model.")
        if isinstance(texts, str):
            vector: np.ndarray = self.embed([texts], request, **options)[0]
            return vector
        # A text longer than the model's limit is embedded in parts.
        parts = self.pipeline.splitter(texts, self.check(self.request(request, options)))
        vectors = np.zeros((len(texts), self.config.model.d_model))
        lengths = [len(part.ids) for part in parts]
        for rows in batches_by_length(lengths, self.engine.batch_tokens):
            means = self.inspector.embed([parts[row].ids for row in rows])
            for row, mean in zip(rows, means, strict=True):
                # A long text is the mean of its parts, each weighted by its length.
                vectors[parts[row].line] += lengths[row] * mean
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        # The vector of an empty text has no direction and stays 0.
        unit: np.ndarray = (vectors / np.where(norms > 0, norms, 1.0)).astype(np.float32)
        return unit

    def position_vectors(self, length: int) -> np.ndarray | None:
        """Return the vectors that the model adds to words (length, D), or None."""
        return self.inspector.position_vectors(length) if self.inspector is not None else None

    @property
    def shows_attention(self) -> bool:
        # The ONNX engine cannot show attention, but the torch engine can load the same bundle.
        possible = self.engine.inspector is not None or (self.bundle and find_spec("torch"))
        return self.engine.has_attention and bool(possible)

    @property
    def inspector(self) -> Inspector | None:
        """The interface for looking inside the model; None for an ensemble."""
        return self._inspectable_engine.inspector

    def inspector_of(self, source: Sequence[int]) -> Inspector:
        """Return the interface to the model that translates this source: adapted or not."""
        inspector = self._inspectable_engine.route(source).inspector
        assert inspector is not None
        return inspector

    @cached_property
    def _inspectable_engine(self) -> Engine:
        """The torch engine, which is created on first use if another engine translates."""
        if self.engine.inspector is not None or self.bundle is None:
            return self.engine
        return make_engine(self.bundle, "cpu", "torch")
