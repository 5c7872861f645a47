"""The engine for every architecture, on CPU and GPU.

It wraps a bundle's weights, or a module that is being trained.
"""

import copy
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from dragoman.bundle.folder import Bundle
from dragoman.data.batches import collate, pad
from dragoman.engine.protocol import BannedTokens, Engine, Inspector, Step, alignment_layer
from dragoman.errors import BundleError, TranslationError
from dragoman.model.attention import PackedLayout
from dragoman.model.build import (
    Model,
    build_model,
    check_weights,
    get_weights,
    pick_device,
    set_weights,
)
from dragoman.model.kernels import usable
from dragoman.model.transformer import Transformer
from dragoman.text.subword import Flat
from dragoman.text.vocabulary import Vocabulary

_LOGITS = 2**28  # logits to compute at a time when scoring given translations


def _parts(flat: Flat) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return flat.ids, flat.at, flat.starts


class _SkipInit(TorchFunctionMode):
    """Skips the random initialization of weights that are loaded afterwards.

    It would take a second. On the device "meta", torch would even import its compiler for it.
    """

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        if function in (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_):
            return options["tensor"]
        if function in (torch.Tensor.normal_, torch.Tensor.uniform_):
            return arguments[0]
        return function(*arguments, **(options or {}))


class TorchEngine(Engine, Inspector):
    def __init__(self, model: Model, source: Vocabulary, target: Vocabulary, device: torch.device):
        self.model, self.source, self.target, self.device = model, source, target, device
        self._never = torch.tensor(target.never, device=device)

    @classmethod
    def from_bundle(cls, bundle: Bundle, device: str = "auto") -> "TorchEngine":
        codec = bundle.codec
        where = pick_device(device)
        weights = {name: torch.from_numpy(array) for name, array in bundle.float_weights().items()}
        # Check the shapes on the meta device, before any memory is allocated.
        with torch.device("meta"), _SkipInit():
            check_weights(
                build_model(bundle.config.model, codec.source, codec.target, codec.shared), weights
            )
        with _SkipInit():
            model = build_model(bundle.config.model, codec.source, codec.target, codec.shared)
        for parameter in model.parameters():
            # Allocate on the device directly: copying uninitialized weights would waste time.
            parameter.data = torch.empty_like(parameter, device=where)
        set_weights(model, weights)
        for name, tensor in get_weights(model).items():
            if tensor.is_floating_point():
                continue
            # Integers are ids of target pieces, as in the lexical model. They are used as indices,
            # so those of a stranger's file must be in range.
            if not ((tensor >= 0) & (tensor < len(codec.target))).all():
                raise BundleError(f"weight {name} names a piece that is not in the vocabulary.")
        return cls(model.to(where).eval().requires_grad_(False), codec.source, codec.target, where)

    @property
    def has_attention(self) -> bool:
        return self.model.attention_layers > 0

    @property
    def max_length(self) -> int | None:
        return self.model.max_length

    @property
    def searches_on_device(self) -> bool:
        return self._by_our_kernels

    @cached_property
    def _by_our_kernels(self) -> bool:
        return usable(self.model.output.weight) and self.model.can_be_packed

    def halves(self, precision: str) -> bool:
        """True if a search at this precision (`decoding.precision`) computes in bf16 here."""
        bf16_here = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        return precision == "bf16" or (precision == "auto" and bf16_here)

    def at_precision(self, precision: str) -> "TorchEngine":
        if not (self.searches_on_device and self.halves(precision)):
            return self
        # A model in training is not copied: the copy would keep old weights.
        in_training = any(parameter.requires_grad for parameter in self.model.parameters())
        return self if in_training else self._halved

    @cached_property
    def _halved(self) -> "TorchEngine":
        model = copy.deepcopy(self.model).bfloat16()
        return TorchEngine(model, self.source, self.target, self.device)

    @property
    def inspector(self) -> Inspector:
        return self

    @property
    def batch_tokens(self) -> int:
        return 4096 if self.device.type == "cpu" else 16_384

    @property
    def attention_layer(self) -> int:
        return alignment_layer(self.model.attention_layers)

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> Any:
        return self.model.start(self._tensor(pad(sources, self.source.pad)))

    @torch.inference_mode()
    def step(
        self,
        state: Any,
        parents: np.ndarray,
        tokens: np.ndarray,
        k: int | None,
        *,
        attention: bool = False,
        banned: BannedTokens | None = None,
        extra_tokens: np.ndarray | None = None,
    ) -> Step:
        state = state.select(parents)
        hidden, weights = self.model.step(
            state, self._tensor(tokens), self.attention_layer if attention else None
        )
        log_probs = torch.log_softmax(self.model.logits(hidden).float(), dim=-1)  # (R, V)
        # After the softmax: banned pieces keep their share, so that scores stay comparable.
        log_probs[:, self._never] = -torch.inf
        if banned is not None:
            log_probs[self._tensor(banned[0]), self._tensor(banned[1])] = -torch.inf
        attended = weights.float().cpu().numpy() if weights is not None else None
        if k is None:
            return Step(state, None, log_probs.cpu().numpy(), attended)
        best = log_probs.topk(min(k, log_probs.shape[1]), dim=-1)
        extra = None
        if extra_tokens is not None:
            extra = log_probs.gather(1, self._tensor(extra_tokens)).cpu().numpy()
        return Step(state, best.indices.cpu().numpy(), best.values.cpu().numpy(), attended, extra)

    @torch.inference_mode()
    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        if self._by_our_kernels:
            return self.score_packed(sources, targets)
        batch = collate(sources, targets, self.source, self.target)
        hidden = self.model(self._tensor(batch.source), self._tensor(batch.target_in))
        log_probs = torch.log_softmax(self.model.logits(hidden).float(), dim=-1)  # (B, T, V)
        target_out = self._tensor(batch.target_out)[..., None]
        scores = log_probs.gather(2, target_out)[..., 0].cpu().numpy()  # (B, T)
        return [row[:length] for row, length in zip(scores, batch.target_lengths, strict=True)]

    @torch.inference_mode()
    def score_packed(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        """Score without padding, with our kernels: a score does not depend on its neighbors."""
        model = cast(Transformer, self.model)
        source = Flat.of(sources)
        before = Flat.of([[self.target.bos, *target] for target in targets])
        after = Flat.of([[*target, self.target.eos] for target in targets])
        longest = int(max(source.lengths.max(), after.lengths.max()))
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.positions.reach(longest)
        ids, at, starts, ids_before, at_before, starts_before, right = (
            self._tensor(array.astype(np.int32))
            for array in (*_parts(source), *_parts(before), after.ids)
        )
        hidden = model.forward_packed(
            ids,
            at,
            ids_before,
            at_before,
            PackedLayout(starts, starts, longest),
            PackedLayout(starts_before, starts, longest),
        )
        # The logits of a large batch would not fit into memory.
        rows = max(1, _LOGITS // len(self.target))
        parts = [
            torch.log_softmax(model.logits(states).float(), dim=-1).gather(1, ids.long()[:, None])
            for states, ids in zip(torch.split(hidden, rows), torch.split(right, rows), strict=True)
        ]
        scores: np.ndarray = torch.cat(parts)[:, 0].cpu().numpy()
        return np.split(scores, after.starts[1:-1])

    @torch.inference_mode()
    def attention_weights(
        self, source: Sequence[int], target: Sequence[int]
    ) -> dict[str, np.ndarray]:
        if not self.has_attention:
            raise TranslationError(
                f"model.architecture={self.model.config.architecture} has no attention to show."
            )
        batch = collate([source], [target], self.source, self.target)
        records = self.model.attention_weights(
            self._tensor(batch.source), self._tensor(batch.target_in)
        )
        return {name: torch.cat(layers).float().cpu().numpy() for name, layers in records.items()}

    @property
    def module(self) -> torch.nn.Module:
        return self.model

    @torch.inference_mode()
    def outputs(self, source: Sequence[int], target: Sequence[int]) -> dict[str, np.ndarray]:
        batch = collate([source], [target], self.source, self.target)
        ids = self._tensor(batch.source)
        hidden = self.model(ids, self._tensor(batch.target_in))
        states = {"decoder": hidden, "logits": self.model.logits(hidden)}
        with suppress(TranslationError):  # some architectures have no encoder
            states = {"encoder": self.model.encoder_states(ids)[0], **states}
        return {name: values[0].float().cpu().numpy() for name, values in states.items()}

    @torch.inference_mode()
    def embed(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        memory, mask = self.model.encoder_states(self._tensor(pad(sources, self.source.pad)))
        # The mean over real positions only.
        real = mask[:, 0, 0, :, None]  # (B, S, 1)
        vectors: np.ndarray = ((memory * real).sum(dim=1) / real.sum(dim=1)).float().cpu().numpy()
        return vectors

    @torch.inference_mode()
    def position_vectors(self, length: int) -> np.ndarray | None:
        vectors = self.model.position_vectors(length)
        return vectors.float().cpu().numpy() if vectors is not None else None

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
