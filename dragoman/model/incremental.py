"""Decode one position at a time with all state at fixed addresses, for CUDA graphs.

    N sentences of W hypotheses each, R = N*W rows, S source, P positions, D features, V words.

The layers are those of `Transformer`; only the attention to the past and to the source differs. The
KV cache of `Transformer.decode` grows and is copied when hypotheses are reordered. Here it has room
for all steps from the start and never moves: `origin` records, for each hypothesis and position,
which hypothesis of its sentence wrote that position. So every step is the same computation at the
same addresses, which a GPU can record and replay. Each of our kernels has a plain PyTorch twin.
"""

import torch
from torch import Tensor

from dragoman.model.attention import PackedLayout, plain_attention
from dragoman.model.kernels import usable
from dragoman.model.transformer import Transformer


class IncrementalDecoder:
    def __init__(
        self, model: Transformer, sentences: int, hypotheses: int, sources: int, places: int
    ):
        self.model, self.hypotheses, self.places = model, hypotheses, places
        weight = model.output.weight
        width = model.config.d_model
        self.memory = [weight.new_zeros(sentences, sources, 2 * width) for _ in model.decoder]
        self.caches = [
            weight.new_zeros(sentences, hypotheses, places, 2 * width) for _ in model.decoder
        ]
        self.lengths = torch.zeros(sentences, dtype=torch.int32, device=weight.device)
        self.origin = torch.zeros(
            sentences, hypotheses, places, dtype=torch.int32, device=weight.device
        )
        self.steps = torch.zeros(1, dtype=torch.int32, device=weight.device)
        self._at = torch.arange(sources, dtype=torch.int32, device=weight.device)
        # Buffers are larger than their contents, and learned positions are limited.
        most = model.max_length or max(sources, places)
        model.source_embedding.positions.reach(min(sources, most))
        model.target_embedding.positions.reach(min(places, most))

    @property
    def tensors(self) -> list[Tensor]:
        """All state tensors; their first dimension is the sentence."""
        return [*self.memory, *self.caches, self.lengths, self.origin]

    def start(self, ids: Tensor, at: Tensor, starts: Tensor) -> None:
        """Encode packed sentences.

        Ids and their positions in their sentences (C,); start offsets of the sentences (N+1,). Ids
        after the last sentence are ignored.
        """
        self.lengths.copy_(starts.diff())
        hidden = self._encoded(ids, at, starts)  # (C, D)
        # Indices of each sentence's words. Attention masks what follows a sentence's end.
        words = (starts[:-1, None] + self._at).clamp(max=len(ids) - 1).flatten()  # (N*S,)
        for memory, layer in zip(self.memory, self.model.decoder, strict=True):
            keys_values = layer.cross.paper.joined_keys_values(hidden)
            torch.index_select(keys_values, 0, words, out=memory.view(-1, memory.shape[2]))
        self.steps.zero_()

    def _encoded(self, ids: Tensor, at: Tensor, starts: Tensor) -> Tensor:
        if usable(ids):
            return self.model.encoder_states_packed(
                ids, at, PackedLayout(starts, starts, len(self._at))
            )
        real = self._at[: self.lengths.max()] < self.lengths[:, None]  # (N, longest)
        source = torch.full(real.shape, self.model.pad, dtype=ids.dtype)
        source[real] = ids[: starts[-1]]
        hidden = torch.zeros(len(ids), self.model.config.d_model, dtype=self.memory[0].dtype)
        hidden[: starts[-1]] = self.model.encoder_states(source)[0][real]
        return hidden

    def step(self, tokens: Tensor) -> Tensor:
        """Feed each row's last token (R,); return its hidden state (R, D)."""
        x = self.model.target_embedding(tokens, self.steps)
        return self.model.through_decoder(x, self._to_past, self._to_memory)

    def _to_past(self, number: int, x: Tensor) -> Tensor:
        heads, attend = self.model.decoder[number].attention.paper, attend_to_past
        if usable(x):
            from dragoman.model.kernels.decoding import attend_to_past as attend
        seen = attend(heads.to_qkv(x), self.caches[number], self.origin, self.steps, heads.heads)
        joined: Tensor = heads.to_out(seen)
        return joined

    def _to_memory(self, number: int, x: Tensor) -> Tensor:
        heads, attend = self.model.decoder[number].cross.paper, attend_to_memory
        if usable(x):
            from dragoman.model.kernels.decoding import attend_to_memory as attend
        seen = attend(heads.joined_queries(x), self.memory[number], self.lengths, heads.heads)
        joined: Tensor = heads.to_out(seen)
        return joined


def attend_to_past(qkv: Tensor, cache: Tensor, origin: Tensor, steps: Tensor, heads: int) -> Tensor:
    """Attend to the past (R, D) and write the new position into the cache.

    qkv (R, 3D), cache (N, W, P, 2D), origin (N, W, P), steps (1,).
    """
    sentences, hypotheses = cache.shape[:2]
    now = int(steps)
    width = qkv.shape[1] // 3
    cache[:, :, now] = qkv[:, width:].view(sentences, hypotheses, -1)
    # Each hypothesis finds its past in the rows of the hypotheses that wrote it.
    ancestors = origin[:, :, : now + 1].clone()
    ancestors[:, :, now] = torch.arange(hypotheses, device=origin.device)
    at = ancestors.long()[..., None].expand(-1, -1, -1, 2 * width)
    past = cache[:, :, : now + 1].gather(1, at)  # (N, W, now+1, 2D)
    k, v = past.flatten(0, 1).chunk(2, dim=-1)  # (R, now+1, D)
    return _attend(qkv[:, None, :width], k, v, None, heads)[:, 0]


def attend_to_memory(q: Tensor, memory: Tensor, lengths: Tensor, heads: int) -> Tensor:
    """Attend to the source: q (R, D), memory (N, S, 2D), lengths (N,) to outputs (R, D)."""
    sentences, sources, _ = memory.shape
    k, v = memory.chunk(2, dim=-1)
    # (N, 1, 1, S)
    mask = (torch.arange(sources, device=q.device) < lengths[:, None])[:, None, None]
    return _attend(q.view(sentences, -1, q.shape[1]), k, v, mask, heads).flatten(0, 1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """Attend from (B, T, D) to (B, S, D); a row without visible keys gives zeros."""
    q, k, v = (x.view(*x.shape[:-1], heads, -1).transpose(1, 2) for x in (q, k, v))
    return plain_attention(q, k, v, mask)[0].nan_to_num().transpose(1, 2).flatten(2)
