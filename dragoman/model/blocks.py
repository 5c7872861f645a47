"""Layers of the encoder and of the decoder: attention and feed-forward network, each with its surroundings.

B sentences, R rows (hypotheses), S source, T target, D features. Masks: True = may look.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import Attention, Mask, Record
from dragoman.model.heads import KeysValues
from dragoman.model.layers import PLACEMENTS, FeedForward


def unchanged(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True)
class Where:
    """Where the words of a pass stand: what some variants of the layers want to know."""

    at: int = 0  # the first one's position
    place: Callable[[Tensor], Tensor] = unchanged  # tells positions again, in every layer
    real: Tensor | None = None  # (B, T), False at padding; for norms that look at more than one word


class _Layer(nn.Module):
    """What encoder and decoder layers share."""

    attention: Attention
    feed_forward: FeedForward | None
    around_feed_forward: nn.Module | None

    def transform(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The feed-forward network with its surroundings, where there is one."""
        if self.feed_forward is None or self.around_feed_forward is None:
            return x
        y: Tensor = self.around_feed_forward(x, self.feed_forward, real)
        return y

    def multiplications(self, words: float, pairs: float) -> float:
        """Of attention to itself, in which so many pairs meet, and of the feed-forward network."""
        attention = self.attention.multiplications(words, words, pairs)
        return attention + (self.feed_forward.multiplications(words) if self.feed_forward is not None else 0.0)


class EncoderLayer(_Layer):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config) if config.feed_forward else None
        self.around_attention = PLACEMENTS[config.norm](config)
        self.around_feed_forward = PLACEMENTS[config.norm](config) if config.feed_forward else None

    def forward(self, x: Tensor, mask: Mask, record: Record | None = None, where: Where = Where()) -> Tensor:
        x = self.around_attention(
            x, lambda h: self.attention.to_itself(where.place(h), mask, record=record), where.real
        )
        return self.transform(x, where.real)


class DecoderLayer(_Layer):
    def __init__(self, config: ModelConfig):
        super().__init__()
        blind = replace(config, attention=replace(config.attention, span="local", window=0))
        self.attention = Attention(config if config.decoder_attention else blind)
        self.cross = Attention(config, cross=True)
        self.feed_forward = FeedForward(config) if config.feed_forward else None
        self.around_attention = PLACEMENTS[config.norm](config)
        self.around_cross = PLACEMENTS[config.norm](config)
        self.around_feed_forward = PLACEMENTS[config.norm](config) if config.feed_forward else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Mask,
        own_mask: Mask = None,
        self_record: Record | None = None,
        cross_record: Record | None = None,
        where: Where = Where(),
    ) -> Tensor:
        x = self.around_attention(
            x,
            lambda h: self.attention.to_itself(where.place(h), own_mask, causal=True, record=self_record),
            where.real,
        )
        x = self.around_cross(
            x, lambda h: self.cross.to_sequence(where.place(h), memory, mask, cross_record), where.real
        )
        return self.transform(x, where.real)

    def step(
        self,
        x: Tensor,
        past: KeysValues | None,
        memory: KeysValues,
        mask: Tensor | None,
        cross_record: Record | None = None,
        where: Where = Where(),
    ) -> tuple[Tensor, KeysValues]:
        """One position (R, 1, D) behind the past."""
        longer_past: list[KeysValues] = []

        def to_past(h: Tensor) -> Tensor:
            y, seen = self.attention.to_past(where.place(h), past)
            longer_past.append(seen)
            return y

        x = self.around_attention(x, to_past)
        x = self.around_cross(x, lambda h: self.cross.to_memory(where.place(h), memory, mask, cross_record, where.at))
        return self.transform(x), longer_past[0]
