"""The Transformer's decoder, a position at a time, with everything at a fixed place.

    N sentences of W hypotheses each, R = N*W rows, S source, P places, D features, V words.

The layers are those of `Transformer`; only the look at the past and at the source is another one.
The KV cache of `Transformer.advance` grows, and is copied when hypotheses change places. Here it
has room for all steps from the beginning and never moves: `origin` says for each hypothesis and
place which hypothesis of its sentence wrote that place. So a step is always the same computation at
the same addresses, which a GPU can record and replay. Beside each of our kernels stands its plain
twin.
"""

import torch
from torch import Tensor

from dragoman.model.attention import Packed, plain_attention
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
        # Rooms are larger than what goes into them, and learned positions end somewhere.
        most = model.max_length or max(sources, places)
        model.source_embedding.positions.reach(min(sources, most))
        model.target_embedding.positions.reach(min(places, most))

    @property
    def tensors(self) -> list[Tensor]:
        """All that belongs to sentences, which are their first dimension."""
        return [*self.memory, *self.caches, self.lengths, self.origin]

    def start(self, ids: Tensor, at: Tensor, starts: Tensor) -> None:
        """Take in sentences that lie end to end.

        Ids, and their positions in their sentence (C,); where sentences start (N+1,). Ids behind
        the last sentence are of no account.
        """
        self.lengths.copy_(starts.diff())
        hidden = self._encoded(ids, at, starts)  # (C, D)
        # Where the words of each sentence are; what stands behind them is never looked at.
        words = (starts[:-1, None] + self._at).clamp(max=len(ids) - 1).flatten()  # (N*S,)
        for memory, layer in zip(self.memory, self.model.decoder, strict=True):
            keys_values = layer.cross.paper.joined_keys_values(hidden)
            torch.index_select(keys_values, 0, words, out=memory.view(-1, memory.shape[2]))
        self.steps.zero_()

    def _encoded(self, ids: Tensor, at: Tensor, starts: Tensor) -> Tensor:
        if usable(ids):
            return self.model.encode_packed(ids, at, Packed(starts, starts, len(self._at)))
        real = self._at[: self.lengths.max()] < self.lengths[:, None]  # (N, longest)
        source = torch.full(real.shape, self.model.pad, dtype=ids.dtype)
        source[real] = ids[: starts[-1]]
        hidden = torch.zeros(len(ids), self.model.config.d_model, dtype=self.memory[0].dtype)
        hidden[: starts[-1]] = self.model.encode(source)[0][real]
        return hidden

    def step(self, tokens: Tensor) -> Tensor:
        """Each row's last token (R,) in, its hidden state (R, D) out."""
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
    """Outputs (R, D) of attention to the past; the cache gets its new place.

    qkv (R, 3D), cache (N, W, P, 2D), origin (N, W, P), steps (1,).
    """
    sentences, hypotheses = cache.shape[:2]
    now = int(steps)
    width = qkv.shape[1] // 3
    cache[:, :, now] = qkv[:, width:].view(sentences, hypotheses, -1)
    ancestors = origin[:, :, : now + 1].clone()
    ancestors[:, :, now] = torch.arange(hypotheses, device=origin.device)
    at = ancestors.long()[..., None].expand(-1, -1, -1, 2 * width)
    past = cache[:, :, : now + 1].gather(1, at)  # (N, W, now+1, 2D)
    k, v = past.flatten(0, 1).chunk(2, dim=-1)  # (R, now+1, D)
    return _attend(qkv[:, None, :width], k, v, None, heads)[:, 0]


def attend_to_memory(q: Tensor, memory: Tensor, lengths: Tensor, heads: int) -> Tensor:
    """q (R, D), memory (N, S, 2D), lengths (N,): outputs (R, D)."""
    sentences, sources, _ = memory.shape
    k, v = memory.chunk(2, dim=-1)
    # (N, 1, 1, S)
    mask = (torch.arange(sources, device=q.device) < lengths[:, None])[:, None, None]
    return _attend(q.view(sentences, -1, q.shape[1]), k, v, mask, heads).flatten(0, 1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """Of (B, T, D) to (B, S, D); where nothing may be seen, nothing comes out."""
    q, k, v = (x.view(*x.shape[:-1], heads, -1).transpose(1, 2) for x in (q, k, v))
    return plain_attention(q, k, v, mask)[0].nan_to_num().transpose(1, 2).flatten(2)
