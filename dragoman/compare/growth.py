"""C3 and C4: what grows with the length of a sequence.

n words, k width of a convolution's kernel, L layers. Counted for an encoder:

                 in a row (cannot run in parallel)      longest path between two words
    recurrence   n + L - 1                              n - 1
    convolution  L                                      ceil(2 (n-1) / (k-1))   centred kernels
    attention    L                                      1
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.compare.figures import Finding, Lines, Series, named
from dragoman.compare.probe import seconds, wait
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import architecture
from dragoman.config import ModelConfig
from dragoman.engine.torch_engine import pick_device
from dragoman.model.attention import Attention
from dragoman.model.build import Model, build_model
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.loss import smoothed_cross_entropy

_KINDS = {"recurrence": "rnn-attention", "convolution": "convs2s", "attention": "transformer"}
_WORDS_SAID, _SENTENCES_SAID = 24, 16


def _in_a_row(kind: str, n: int, layers: int) -> int:
    """Operations of which each has to wait for the one before.

    >>> [_in_a_row(kind, 100, 6) for kind in _KINDS]
    [105, 6, 6]
    """
    return n + layers - 1 if kind == "recurrence" else layers


def _path(kind: str, n: int, kernel: int) -> int:
    """Layers or steps that lie between the first word and the last.

    >>> [_path(kind, 100, 3) for kind in _KINDS]
    [99, 99, 1]
    """
    return {
        "recurrence": n - 1,
        "convolution": math.ceil(2 * (n - 1) / (kernel - 1)),
        "attention": 1,
    }[kind]


def _fresh(study: Study, name: str, device: torch.device) -> Model:
    """Untrained, with learned positions (where there are any) for the longest."""
    config = study.config(architecture(name))
    far_enough = replace(config.model.positions, max_length=max(study.scale.lengths) + 1)
    pieces = Vocabulary(tuple(f"p{number}" for number in range(config.text.size)))
    return build_model(replace(config.model, positions=far_enough), pieces, pieces, shared=True).to(
        device
    )


def _training_step(model: Model, ids: Tensor) -> None:
    # as training does it
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.is_cuda):
        logits = model.logits(model(ids, ids))
    loss, _ = smoothed_cross_entropy(logits.flatten(0, 1), ids.flatten(), 0.1)
    loss.backward()  # type: ignore[no-untyped-call]


@torch.no_grad()
def _say(model: Model, ids: Tensor) -> None:
    state = model.start(ids)
    tokens = ids[:, 0]
    for _ in range(_WORDS_SAID):
        hidden, _ = model.step(state, tokens)
        tokens = model.logits(hidden).argmax(dim=-1)


def show_steps(study: Study) -> Finding:
    """C3: the same number of words in ever fewer, ever longer sentences."""
    device = pick_device(study.device)
    lengths = study.scale.lengths
    steps: dict[str, list[float]] = {}
    said: dict[str, float] = {}
    config = study.config(architecture("convs2s")).model
    for kind, name in _KINDS.items():
        model = _fresh(study, name, device).train()
        steps[kind] = []
        for n in lengths:
            ids = torch.randint(
                4, model.output.out_features, (study.scale.length_tokens // n, n), device=device
            )
            steps[kind].append(1e3 * seconds(partial(_training_step, model, ids), device, 2))
        ids = torch.randint(
            4, model.output.out_features, (_SENTENCES_SAID, _WORDS_SAID), device=device
        )
        said[kind] = 1e3 * seconds(partial(_say, model.eval(), ids), device, 2) / _WORDS_SAID
    return steps_finding(
        lengths, config.encoder_layers, config.kernel_width, study.scale.length_tokens, steps, said
    )


def steps_finding(
    lengths: Sequence[int],
    layers: int,
    kernel: int,
    tokens: int,
    steps: Mapping[str, Sequence[float]],
    said: Mapping[str, float],
) -> Finding:
    """`steps`: milliseconds of a training step by length.

    `said`: milliseconds for each word in translation.
    """
    counted = {kind: [_in_a_row(kind, n, layers) for n in lengths] for kind in _KINDS}
    paths = {kind: [_path(kind, n, kernel) for n in lengths] for kind in _KINDS}
    slower = {kind: values[-1] / values[0] for kind, values in steps.items()}
    seen = slower["recurrence"] > max(slower["attention"], slower["convolution"])

    def curves(values: Mapping[str, Sequence[float]]) -> list[Series]:
        return [Series(kind, lengths, of_kind) for kind, of_kind in values.items()]

    return Finding(
        [
            Lines(
                "Operations in a row, counted",
                "words n",
                "operations",
                curves(counted),
                log_x=True,
                log_y=True,
            ),
            Lines(
                "Path between the ends, counted",
                "words n",
                "steps",
                curves(paths),
                log_x=True,
                log_y=True,
            ),
            Lines(
                f"A training step of {tokens} words, timed",
                "words in a sentence",
                "milliseconds",
                curves(steps),
                log_x=True,
                log_y=True,
            ),
        ],
        (
            f"An encoder of {lengths[-1]} words has "
            f"{named({k: v[-1] for k, v in counted.items()}, 'd')} operations in a row and "
            f"{named({k: v[-1] for k, v in paths.items()}, 'd')} steps from the first word to the "
            f"last; a training step of {tokens} words takes {named(slower)} times as long in "
            f"sentences of {lengths[-1]} as of {lengths[0]}, so recurrence "
            f"{'pays' if seen else 'does not pay'} the most for length.",
            f"Translation stays sequential for all three: the next word of {_SENTENCES_SAID} "
            f"sentences takes {named(said)} milliseconds, one after the other.",
        ),
        "seen" if seen else "not seen",
        "",
    )


class _Layer(nn.Module):
    """One layer over a sequence (1, n, D).

    It is attention that writes its weights, attention that does not, or an LSTM.
    """

    def __init__(self, kind: str, config: ModelConfig):
        super().__init__()
        self.kind = kind
        self.inner: Any = (
            nn.LSTM(config.width, config.width, batch_first=True)
            if kind == "recurrence"
            else Attention(config)
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "recurrence":
            return self.inner(x)[0]  # type: ignore[no-any-return]
        return self.inner(x, record=[] if self.kind == "attention" else None)  # type: ignore[no-any-return]


LAYERS = ("attention", "fused attention", "recurrence")


def kept_for_backward(layer: nn.Module, x: Tensor) -> int:
    """Bytes that a forward pass keeps for its gradient, weights apart."""
    kept: dict[int, int] = {}
    own = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = layer(x)
    del y
    return sum(kept.values())


def show_cost(study: Study) -> Finding:
    """C4: one layer, one sequence, forward and backward."""
    device = pick_device(study.device)
    config = study.config(architecture("transformer")).model
    lengths = [8 * n for n in study.scale.lengths]
    times: dict[str, list[float]] = {kind: [] for kind in LAYERS}
    memory: dict[str, list[float]] = {kind: [] for kind in LAYERS}
    for kind in LAYERS:
        layer = _Layer(kind, config).to(device)
        for n in lengths:
            x = torch.randn(1, n, config.width, device=device, requires_grad=True)
            memory[kind].append(kept_for_backward(layer, x) / 2**20)
            times[kind].append(1e3 * seconds(partial(_forward_backward, layer, x), device, 2))
        wait(device)
    return cost_finding(lengths, config.width, times, memory)


def _forward_backward(layer: nn.Module, x: Tensor) -> None:
    layer(x).sum().backward()


def _exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """e in values ~ n^e over the longer half of the lengths.

    >>> round(_exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    middle = len(lengths) // 2
    return math.log(values[-1] / values[middle]) / math.log(lengths[-1] / lengths[middle])


def cost_finding(
    lengths: Sequence[int],
    width: int,
    times: Mapping[str, Sequence[float]],
    memory: Mapping[str, Sequence[float]],
) -> Finding:
    """Milliseconds and MiB of one layer, by length."""
    time_e, memory_e = (
        {k: _exponent(lengths, v) for k, v in values.items()} for values in (times, memory)
    )
    seen = (
        memory_e["attention"] > 1.5 > memory_e["recurrence"]
        and time_e["attention"] > time_e["recurrence"]
    )
    attention, recurrence = times["attention"][-1], times["recurrence"][-1]
    return Finding(
        [
            Lines(
                "Time of one layer, forward and backward",
                "words n",
                "milliseconds",
                [Series(kind, lengths, values) for kind, values in times.items()],
                log_x=True,
                log_y=True,
            ),
            Lines(
                "Memory kept for the gradient",
                "words n",
                "MiB",
                [Series(kind, lengths, values) for kind, values in memory.items()],
                log_x=True,
                log_y=True,
            ),
        ],
        (
            f"From {lengths[len(lengths) // 2]} to {lengths[-1]} words the time of a layer of "
            f"width {width} grows as n to the {named(time_e, '.2f')}, its memory as n to the "
            f"{named(memory_e, '.2f')}.",
            f"At {lengths[-1]} words attention takes {attention:.1f} ms and "
            f"{memory['attention'][-1]:.1f} MiB, the recurrent layer {recurrence:.1f} ms and "
            f"{memory['recurrence'][-1]:.1f} MiB: the quadratic cost is "
            f"{'there' if seen else 'not visible at these lengths'}, and attention is the "
            f"{'faster' if attention < recurrence else 'slower'} of the two here.",
        ),
        "seen" if seen else "not seen",
        "",
    )


STEPS = Claim(
    "What cannot run in parallel",
    "A recurrent network needs as many operations one after the other as there are words, and as "
    "many steps between distant words; convolution needs some layers, attention one look. In "
    "translation all go word by word.",
    "How many operations have to wait for each other, and what does that cost as sentences grow?",
    "A training step of the recurrent network would not slow down more than the others when the "
    "same words stand in longer sentences.",
    show_steps,
)
COST = Claim(
    "Attention costs n², recurrence n",
    "Attention compares every word with every other: its time and memory grow with the square of "
    "the length, a recurrent network's in a line.",
    "How do a layer's operations, time and memory grow with the length?",
    "Attention's operations and time would grow in proportion to the length, as recurrence's do.",
    show_cost,
)
