"""Recurrent encoder-decoders, the systems before the Transformer.

    B sentences, S source, T target, D features. Every layer is torch's own LSTM or GRU. In training
    all target positions run in one call, because no layer waits for the attention of the step
    before. Lengths stay on the device, so that a GPU can record a whole training step.

- `Rnn` (Cho et al. 2014, Sutskever et al. 2014): the sentence becomes one vector, an input to the
  decoder at every step.
- `RnnAttention` (Bahdanau et al. 2015, Luong et al. 2015): a bidirectional encoder; the decoder's
  states attend to all of it. As in Luong et al., but without input feeding, which would make
  training sequential.
- `Gnmt` (Wu et al. 2016): deep and residual, with a bidirectional bottom layer in the encoder. The
  bottom layer of the decoder attends to the source, and every layer above gets the context vector
  at the same step. In the paper the context goes to the next step and to the bottom layer too,
  which would make training sequential.

Attention has one head, as in these papers; `model.attention.similarity` chooses its kind.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import Attention
from dragoman.model.base import AttentionRecorder, NeuralModel, attention_record
from dragoman.model.build import ARCHITECTURES
from dragoman.model.heads import KeysValues
from dragoman.text.vocabulary import Vocabulary

# Each direction of a bidirectional layer runs in its own call, so cuDNN copies its weights into one
# chunk each time. That is cheap.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class Recurrence(nn.Module):
    """One recurrent layer.

    The state is h and c of an LSTM, or h of a GRU, (B, D) each. The layer computes in the type of
    its weights: under autocast, cuDNN's recurrence would use float16, not bfloat16.
    """

    def __init__(self, cell: str, inputs: int, width: int, bidirectional: bool = False):
        super().__init__()
        self.rnn = CELLS[cell](
            inputs,
            width // 2 if bidirectional else width,
            batch_first=True,
            bidirectional=bidirectional,
        )
        self.carried = 2 if cell == "lstm" else 1
        if cell == "lstm":
            with torch.no_grad():  # start with open forget gates (Jozefowicz et al. 2015)
                for name, bias in self.rnn.named_parameters():
                    if name.startswith("bias_ih"):
                        # torch's gates: input, forget, cell, output
                        bias.chunk(4)[1].fill_(1.0)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.rnn.parameters()).dtype

    def forward(self, x: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Run positions (B, T, inputs) from a state; return outputs (B, T, D) and the new state."""
        with torch.autocast(x.device.type, enabled=False):
            before = [part.to(self.dtype).contiguous()[None] for part in state]
            y, after = self.rnn(x.to(self.dtype), tuple(before) if self.carried == 2 else before[0])
        return y, [part[0] for part in (after if self.carried == 2 else [after])]

    def read(self, x: Tensor, real: Tensor) -> Tensor:
        """Run whole sentences (B, S, inputs) from a zero state; `real` (B, S) is False at padding.

        Padding cannot influence a sentence: a forward recurrence meets it last, and a backward one
        gets each sentence reversed within its own length. Outputs at padding are zero.
        """
        if not self.rnn.bidirectional:
            # Zeros at the padding let RnnAttention compute a mean from a sum.
            y, _ = self.forward(x, self.zero_state(x))
            return y * real[..., None]
        # Reversed within each sentence: from the padding on, a backward layer would start in
        # another state.
        order = _reversed_positions(real)[..., None]  # (B, S, 1)
        forward, backward = _direction_weights(self.rnn)
        # Two calls instead of packed sequences, which need the lengths on the host.
        forward_states = self._run_direction(x, forward)
        backward_states = self._run_direction(x.gather(1, order.expand_as(x)), backward)
        # Reversing twice puts every position back in its place.
        backward_states = backward_states.gather(1, order.expand_as(backward_states))
        y = torch.cat([forward_states, backward_states], dim=-1)  # (B, S, D)
        return y * real[..., None]

    def _run_direction(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """Run one direction of a bidirectional layer from a zero state. (B, S, D/2)"""
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.dtype)
            before = [part.to(self.dtype)[None] for part in self.zero_state(x)]
            # torch's functions take: biases, layers, dropout, training, bidirectional, batch first
            flags = (True, 1, 0.0, self.training, False, True)
            y: Tensor
            if self.carried == 2:
                y, _, _ = torch.lstm(x, before, weights, *flags)
            else:
                y, _ = torch.gru(x, before[0], weights, *flags)
        return y

    def zero_state(self, like: Tensor) -> list[Tensor]:
        """Return the state before the first position, with as many rows as `like`."""
        return [like.new_zeros(len(like), self.rnn.hidden_size) for _ in range(self.carried)]

    def multiplications(self, positions: float) -> float:
        return positions * sum(
            p.numel() for name, p in self.rnn.named_parameters() if name.startswith("weight")
        )


def _stack(layers: Iterable[Recurrence]) -> list[Recurrence]:
    return cast(list[Recurrence], nn.ModuleList(layers))


def _direction_weights(rnn: nn.LSTM | nn.GRU) -> tuple[list[Tensor], list[Tensor]]:
    """Return the weights of each direction of a bidirectional layer."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    forward, backward = ([getattr(rnn, name + end) for name in names] for end in ("", "_reverse"))
    return forward, backward


def _reversed_positions(real: Tensor) -> Tensor:
    """Return positions (B, S) that reverse each sentence and leave its padding in place.

    >>> _reversed_positions(torch.tensor([[True, True, True, False]])).tolist()
    [[2, 1, 0, 3]]
    """
    positions = torch.arange(real.shape[1], device=real.device)
    from_the_end = real.sum(dim=1, keepdim=True) - 1 - positions
    return torch.where(real, from_the_end, positions)


class _Recurrent(NeuralModel):
    """A model whose cache is the states of the decoder's layers, one after the other."""

    encoder: list[Recurrence]
    decoder: list[Recurrence]

    def encoder_states(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.mask(source)
        x = self.source_embedding(source)
        real = mask[:, 0, 0]  # (B, S)
        for layer in self.encoder:
            x = self.drop(layer.read(x, real))
        return x, mask

    def through_decoder(self, x: Tensor, cache: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Run the decoder's layers; return the outputs of the last one and the new cache."""
        after: list[Tensor] = []
        for layer, state in zip(self.decoder, self.states(cache), strict=True):
            x, state = layer(x, state)
            x = self.drop(x)
            after = [*after, *state]
        return x, after

    def states(self, cache: list[Tensor]) -> list[list[Tensor]]:
        """Split the cache into the states of each layer."""
        # All layers have the same cell, so the same number of tensors each.
        carried = self.decoder[0].carried
        return [cache[i : i + carried] for i in range(0, len(cache), carried)]

    @property
    def can_use_padding_buckets(self) -> bool:
        return True

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        sources, targets = float(source_lengths.sum()), float(target_lengths.sum())
        recurrence = sum(layer.multiplications(sources) for layer in self.encoder)
        recurrence += sum(layer.multiplications(targets) for layer in self.decoder)
        return recurrence + targets * self.output.in_features * self.output.out_features


class Rnn(_Recurrent):
    """An RNN without attention: the encoder's last state is all it knows of the sentence."""

    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__(config, source, target)
        width, cell = config.d_model, config.cell
        self.encoder = _stack(
            Recurrence(cell, width, width) for _ in range(config.num_encoder_layers)
        )
        # The bottom layer reads the word and the sentence's vector.
        inputs = [2 * width] + [width] * (config.num_decoder_layers - 1)
        self.decoder = _stack(Recurrence(cell, size, width) for size in inputs)

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        memory, mask = self.encoder_states(source)
        # The position of each sentence's last word.
        last = mask.sum(dim=(1, 2, 3)) - 1
        # A bidirectional encoder would need the first state as well; this one runs forward only.
        vector = memory[torch.arange(len(source), device=source.device), last]  # (B, D)
        return [part for layer in self.decoder for part in layer.zero_state(vector)], [vector]

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        x = self.target_embedding(target_in)
        # (B, T, 2D)
        return self.through_decoder(
            torch.cat([x, encoder_state[0][:, None].expand_as(x)], dim=-1), cache
        )


class _Attending(_Recurrent):
    """A recurrent model with attention to the encoder's outputs."""

    attention: Attention

    def encoder_state(self, memory: Tensor, mask: Tensor) -> list[Tensor]:
        return [*self.attention.keys_values(memory), mask]

    def attend(
        self, x: Tensor, encoder_state: list[Tensor], recorder: AttentionRecorder | None
    ) -> Tensor:
        k, v, mask = encoder_state
        y: Tensor = self.attention(
            x, KeysValues(k, v), mask=mask, record=attention_record(recorder, "cross")
        )
        return y  # (B, T, D)

    @property
    def attention_layers(self) -> int:
        return 1

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        sources, targets = float(source_lengths.sum()), float(target_lengths.sum())
        attending = self.attention.multiplications(
            targets, sources, float((source_lengths * target_lengths).sum())
        )
        return super().multiplications(source_lengths, target_lengths) + attending


class RnnAttention(_Attending):
    """h = RNN(y), c = attention(h, memory), hidden = tanh(W [h; c]).

    The decoder starts from the memory's mean.
    """

    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__(config, source, target)
        width, cell = config.d_model, config.cell
        self.encoder = _stack(
            Recurrence(cell, width, width, bidirectional=True)
            for _ in range(config.num_encoder_layers)
        )
        self.decoder = _stack(
            Recurrence(cell, width, width) for _ in range(config.num_decoder_layers)
        )
        self.attention = Attention(replace(config, num_heads=1), cross=True)
        # One initial state for each decoder layer, from the mean of the encoder's outputs.
        self.bridge = nn.Linear(width, config.num_decoder_layers * width)
        self.join = nn.Linear(2 * width, width)

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        memory, mask = self.encoder_states(source)
        mean = memory.sum(dim=1) / mask.sum(dim=(1, 3))  # padding is zero
        first = torch.tanh(self.bridge(mean)).chunk(len(self.decoder), dim=-1)
        # An LSTM's cell starts at zero; only h comes from the memory.
        cache = [
            part
            for h, layer in zip(first, self.decoder, strict=True)
            for part in [h, *layer.zero_state(h)[1:]]
        ]
        return cache, self.encoder_state(memory, mask)

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        x, after = self.through_decoder(self.target_embedding(target_in), cache)
        context = self.attend(x, encoder_state, recorder)
        return self.drop(torch.tanh(self.join(torch.cat([x, context], dim=-1)))), after

    def multiplications(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> float:
        total = super().multiplications(source_lengths, target_lengths)
        total += self.bridge.weight.numel() * len(source_lengths)  # once for each sentence
        return total + self.join.weight.numel() * float(target_lengths.sum())


class Gnmt(_Attending):
    """x1 = LSTM(y), c = attention(x1, memory), x(i+1) = x(i) + LSTM([x(i); c]).

    The encoder is the same without c.
    """

    def __init__(self, config: ModelConfig, source: Vocabulary, target: Vocabulary):
        super().__init__(config, source, target)
        width = config.d_model
        self.encoder = _stack(
            [
                Recurrence("lstm", width, width, bidirectional=True),
                *(Recurrence("lstm", width, width) for _ in range(1, config.num_encoder_layers)),
            ]
        )
        self.decoder = _stack(
            [
                Recurrence("lstm", width, width),
                *(
                    Recurrence("lstm", 2 * width, width)
                    for _ in range(1, config.num_decoder_layers)
                ),
            ]
        )
        self.attention = Attention(replace(config, num_heads=1), cross=True)

    def encoder_states(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.mask(source)
        bottom, *above = self.encoder
        real = mask[:, 0, 0]  # (B, S)
        x = self.drop(bottom.read(self.source_embedding(source), real))
        for layer in above:
            # Residual: each layer adds to its input, so that many of them can be trained.
            x = x + self.drop(layer.read(x, real))
        return x, mask

    def encode(
        self, source: Tensor, recorder: AttentionRecorder | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        memory, mask = self.encoder_states(source)
        cache = [part for layer in self.decoder for part in layer.zero_state(memory)]
        return cache, self.encoder_state(memory, mask)

    def decode(
        self,
        target_in: Tensor,
        at: int,
        cache: list[Tensor],
        encoder_state: list[Tensor],
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        bottom, *above = self.decoder
        first, *upper_states = self.states(cache)
        y, after = bottom(self.target_embedding(target_in), first)
        x = self.drop(y)
        context = self.attend(x, encoder_state, recorder)
        for layer, state in zip(above, upper_states, strict=True):
            # Every layer sees the source again, not just the one that attends to it.
            y, state = layer(torch.cat([x, context.to(x.dtype)], dim=-1), state)
            x = x + self.drop(y)
            after = [*after, *state]
        return x, after


ARCHITECTURES["rnn"] = Rnn
ARCHITECTURES["rnn-attention"] = RnnAttention
ARCHITECTURES["gnmt"] = Gnmt
