"""C3 and C4: what grows with the length of a sequence.

n words, d features, k width of a convolution's kernel, r words that restricted attention sees
on each side. Counted for one layer of an encoder ("Attention Is All You Need", table 1):

                        multiply-adds     in a row    layers or steps between the ends
recurrence              8 n d²            n           n - 1
convolution             2 k n d²          1           2 (n - 1) / (k - 1)      rounded up
convolution, dilated    2 k n d²          1           about log2 of that: 1, 2, 4 ... apart
attention               4 n d² + 2 n² d   1           1
restricted attention    4 n d² + 4 r n d  1           (n - 1) / r              rounded up

At the ends of a sequence restricted attention sees less; what it cannot see is not counted.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig, make_config
from dragoman.lab.architectures.recurrent import Recurrence
from dragoman.lab.compare.figures import Figure, LineChart, Series, Table
from dragoman.lab.compare.runs import Study
from dragoman.model.attention import Attention
from dragoman.model.build import Model, build_model, pick_device
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.loss import smoothed_cross_entropy
from studies.finding import Claim, Finding, named
from studies.judge import Judgement, all_of, judge, said
from studies.probe import longest_chain, timings
from studies.tasks import curve

_RESTRICTED = 16  # words on each side that restricted attention sees
_WORDS_SAID, _SENTENCES_SAID = 24, 16


@dataclass(frozen=True)
class Kind:
    """A way to let words meet: the architecture it is timed in (if any), and its formulas."""

    architecture: str = ""
    kernel: int = 0
    dilated: bool = False
    restricted: bool = False

    def multiplications(self, n: int, d: int) -> int:
        """Multiply-adds of one layer."""
        if self.kernel:
            return 2 * self.kernel * n * d * d
        if self.architecture == "rnn-attention":
            return 8 * n * d * d
        pairs = n * n
        if self.restricted:  # at the ends there is less to see
            pairs = sum(1 + min(i, _RESTRICTED) + min(n - 1 - i, _RESTRICTED) for i in range(n))
        return 4 * n * d * d + 2 * pairs * d

    def in_a_row(self, n: int) -> int:
        """Operations of one layer that have to wait for each other."""
        return n if self.architecture == "rnn-attention" else 1

    def path(self, n: int) -> int:
        """Count the layers or steps between the first word and the last.

        >>> [kind.path(100) for kind in KINDS.values()]
        [99, 99, 33, 7, 1, 7]
        """
        if self.kernel:
            reach = (self.kernel - 1) / 2
            layers = (n - 1) / reach
            return math.ceil(math.log2(layers + 1)) if self.dilated else math.ceil(layers)
        if self.architecture == "rnn-attention":
            return n - 1
        return math.ceil((n - 1) / _RESTRICTED) if self.restricted else 1


KINDS: dict[str, Kind] = {
    "recurrence": Kind("rnn-attention"),
    "convolution, kernel 3": Kind("convs2s", kernel=3),
    "convolution, kernel 7": Kind("convs2s", kernel=7),
    "convolution, kernel 3, dilated": Kind(kernel=3, dilated=True),
    "attention": Kind("transformer"),
    "restricted attention": Kind(restricted=True),
}
_TIMED = [name for name, kind in KINDS.items() if kind.architecture]


@dataclass(frozen=True)
class Steps:
    """Sizes of C3."""

    lengths: tuple[int, ...]
    words: int  # in a training step
    width: int
    layers: int
    repeats: int = 3


@dataclass(frozen=True)
class Cost:
    """Sizes of C4. Attention that writes its weights is measured up to `written` words only."""

    lengths: tuple[int, ...]
    written: int
    width: int
    heads: int
    repeats: int = 3


STEPS_SIZES = {
    "quick": Steps((16, 32, 64, 128, 256), 1024, 64, 2),
    "full": Steps((16, 32, 64, 128, 256, 512, 1024), 8192, 256, 3),
}
COST_SIZES = {
    "quick": Cost((512, 1024, 2048, 4096), 4096, 64, 4),
    # cuDNN's recurrence ends before 65,536 steps
    "full": Cost((960, 1920, 3840, 7680, 15360, 30720, 61440), 7680, 256, 8),
}


def _fresh(name: str, size: Steps, device: torch.device) -> Model:
    """Untrained, with learned positions (where there are any) for the longest."""
    kind = KINDS[name]
    settings: dict[str, Any] = {
        "model.architecture": kind.architecture, "model.d_model": size.width, "model.num_heads": 4,
        "model.d_ff": 4 * size.width, "model.num_encoder_layers": size.layers,
        "model.num_decoder_layers": size.layers, "model.dropout": 0.0,
        **({"model.kernel_width": kind.kernel} if kind.kernel else {}),
    }  # fmt: skip
    config = make_config("tiny", settings=settings).model
    far_enough = replace(config.positions, max_length=max(size.lengths) + 1)
    pieces = Vocabulary(tuple(f"p{number}" for number in range(1000)))
    return build_model(replace(config, positions=far_enough), pieces, pieces, True).to(device)


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
    """C3: chains of operations that wait for each other, and on a GPU the time they take.

    Timed are the same number of words in ever fewer, ever longer sentences. A CPU core computes one
    thing after the other in any case, so there the time would tell nothing.
    """
    device = pick_device(study.device)
    size = STEPS_SIZES[study.scale.name]
    chains = {name: [_chain(name, size, n) for n in size.lengths] for name in _TIMED}
    if device.type == "cpu":
        return steps_finding(size, chains, {}, {})
    steps: dict[str, list[list[float]]] = {}
    said_in: dict[str, float] = {}
    for name in _TIMED:
        model = _fresh(name, size, device).train()
        steps[name] = []
        for n in size.lengths:
            ids = torch.randint(4, model.output.out_features, (size.words // n, n), device=device)
            took = timings(partial(_training_step, model, ids), device, size.repeats)
            steps[name].append([1e3 * seconds for seconds in took])
        ids = ids.reshape(-1)[: _SENTENCES_SAID * _WORDS_SAID].view(_SENTENCES_SAID, _WORDS_SAID)
        took = timings(partial(_say, model.eval(), ids), device, size.repeats)
        said_in[name] = 1e3 * min(took) / _WORDS_SAID
    return steps_finding(size, chains, steps, said_in)


def _chain(name: str, size: Steps, n: int) -> int:
    model = _fresh(name, size, torch.device("cpu")).train()
    ids = torch.full((1, n), 5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TF32 acceleration")  # of Intel's GPUs
        with torch.backends.mkldnn.flags(enabled=False):
            return longest_chain(model.logits(model(ids, ids)))


def steps_finding(
    size: Steps,
    chains: Mapping[str, Sequence[int]],
    steps: Mapping[str, Sequence[Sequence[float]]],
    said_in: Mapping[str, float],
) -> Finding:
    """`chains`: operations in a row, by length.

    On a GPU, `steps` has milliseconds of a training step by length, all repetitions, and `said_in`
    milliseconds for each word in translation.
    """
    short, long = size.lengths[0], size.lengths[-1]
    times_longer = {name: values[-1] / values[0] for name, values in chains.items()}
    others = [name for name in _TIMED if name != "recurrence"]
    judgements = [
        # The chain of recurrence grows at least half as fast as the sentence, the others' hardly.
        judge([times_longer["recurrence"]], margin=0.5 * long / short, exact=True),
        judge([-max(times_longer[name] for name in others)], margin=-2.0, exact=True),
    ]
    if steps:
        # How many times as long a step takes, in doublings, repetition by repetition.
        slower = {name: np.log2(v[-1]) - np.log2(v[0]) for name, v in _arrays(steps).items()}
        most = np.max([slower[name] for name in others], axis=0)
        judgements.append(judge(slower["recurrence"].tolist(), most.tolist(), margin=1.0))
    verdict = all_of(judgements)
    paths = {name: kind.path(long) for name, kind in KINDS.items()}
    told = said(
        verdict,
        "recurrence waits, the others do not",
        "recurrence does not wait longer than the others",
        "the timings do not tell whether this costs time",
    )
    measured = (
        f"In sentences of {long} words instead of {short}, the longest chain of operations is "
        f"{named(times_longer)} times as long"
    )
    if steps:
        times = {name: float(2.0 ** values.mean()) for name, values in slower.items()}
        measured += f", and {size.words} words take {named(times)} times as long on the GPU"
    last = f"From the first of {long} words to the last it is {named(paths, 'd')} steps or layers."
    if said_in:
        last += (
            f" In translation all are sequential: the next word of {_SENTENCES_SAID} sentences "
            f"takes {named(said_in)} milliseconds, one word after the other."
        )
    return Finding(
        list(_steps_figures(size, chains, steps)),
        (f"{measured}: {told}.", last),
        verdict,
        _steps_conditions(size, judgements),
    )


def _arrays(values: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, np.ndarray]:
    return {name: np.asarray(of_one) for name, of_one in values.items()}


def _steps_figures(
    size: Steps,
    chains: Mapping[str, Sequence[int]],
    steps: Mapping[str, Sequence[Sequence[float]]],
) -> Iterator[Figure]:
    yield LineChart(
        "Operations that have to wait for each other",
        "words in a sentence",
        "operations in the longest chain",
        [Series(name, size.lengths, values) for name, values in chains.items()],
        log_x=True,
        log_y=True,
    )
    if steps:
        yield LineChart(
            f"A training step of {size.words} words, timed",
            "words in a sentence",
            "milliseconds",
            [curve(name, size.lengths, steps[name]) for name in _TIMED],
            log_x=True,
            log_y=True,
        )
    yield LineChart(
        "Layers or steps between the two ends, counted",
        "words n",
        "layers or steps",
        [
            Series(name, size.lengths, [kind.path(n) for n in size.lengths])
            for name, kind in KINDS.items()
        ],
        log_x=True,
        log_y=True,
    )
    yield _complexity(size)


def _steps_conditions(size: Steps, judgements: Sequence[Judgement]) -> str:
    said_of_time = (
        "Time is not judged: a CPU core computes one thing after the other in any case."
        if len(judgements) == 2
        else "On the GPU, recurrence has to slow down by more than one doubling beyond the others: "
        f"measured {judgements[2].interval()} doublings, {size.repeats} repetitions."
    )
    return (
        f"Untrained encoder-decoders of {size.layers} layers and width {size.width}, all target "
        "words at once, as in training. The chain is the longest way through the graph of "
        "operations that autograd recorded. Seen if recurrence's grows at least half as fast as "
        f"the sentence, and nobody else's doubles. {said_of_time} Path lengths are counted by "
        "formula, those of dilated convolution and restricted attention among them."
    )


def _complexity(size: Steps) -> Table:
    """The lectures' table, with numbers in it."""
    ends = (size.lengths[0], size.lengths[-1])
    columns = ["layer"]
    columns += [f"multiply-adds, n={n}" for n in ends]
    columns += [f"in a row, n={n}" for n in ends]
    columns += [f"path, n={n}" for n in ends]
    rows = []
    for name, kind in KINDS.items():
        products = [f"{kind.multiplications(n, size.width):,}" for n in ends]
        in_a_row = [f"{kind.in_a_row(n):,}" for n in ends]
        paths = [f"{kind.path(n):,}" for n in ends]
        rows.append([name, *products, *in_a_row, *paths])
    return Table(f"One layer of width {size.width}, counted", columns, rows)


class Layer(nn.Module):
    """One layer over sequences (B, n, D).

    It is attention that writes its weights, attention that does not, or an LSTM.
    """

    def __init__(self, kind: str, config: ModelConfig):
        super().__init__()
        self.kind = kind
        self.recurrence: Recurrence | None = None
        self.attention: Attention | None = None
        if kind == "recurrence":
            self.recurrence = Recurrence("lstm", config.d_model, config.d_model)
        else:
            self.attention = Attention(config)

    def forward(self, x: Tensor) -> Tensor:
        if self.recurrence is not None:
            y: Tensor = self.recurrence(x, self.recurrence.zero_state(x[:, 0]))[0]
            return y
        assert self.attention is not None
        record: list[Any] | None = [] if self.kind == "attention" else None
        return self.attention(x, record=record)  # type: ignore[no-any-return]

    def multiplications(self, n: int) -> float:
        if self.recurrence is not None:
            return self.recurrence.multiplications(n)
        assert self.attention is not None
        return self.attention.multiplications(n, n, float(n) * n)


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


@dataclass(frozen=True)
class Grown:
    """The cost of a layer at each length: multiply-adds, milliseconds of all repetitions, MiB."""

    lengths: Sequence[int]
    products: Sequence[float]
    times: Sequence[Sequence[float]]
    memory: Sequence[float]


def show_cost(study: Study) -> Finding:
    """C4: one layer, one sequence, forward and backward."""
    device = pick_device(study.device)
    size = COST_SIZES[study.scale.name]
    settings = {"model.d_model": size.width, "model.num_heads": size.heads}
    config = make_config("tiny", settings=settings).model
    grown = {}
    for kind in LAYERS:
        layer = Layer(kind, config).to(device)
        lengths = [n for n in size.lengths if kind != "attention" or n <= size.written]
        times, memory = [], []
        for n in lengths:
            x = torch.randn(1, n, config.d_model, device=device, requires_grad=True)
            memory.append(kept_for_backward(layer, x) / 2**20)
            took = timings(partial(_forward_backward, layer, x), device, size.repeats)
            times.append([1e3 * seconds for seconds in took])
        grown[kind] = Grown(lengths, [layer.multiplications(n) for n in lengths], times, memory)
    return cost_finding(size, grown)


def _forward_backward(layer: nn.Module, x: Tensor) -> None:
    layer(x).sum().backward()


def exponents(lengths: Sequence[int], values: Sequence[Sequence[float]]) -> list[float]:
    """e in values ~ n^e over the last two doublings, for each repetition.

    >>> exponents([1, 2, 4, 8], [[3], [12], [48], [192]])
    [2.0]
    """
    ratio = np.log(values[-1]) - np.log(values[-3])
    return [float(e) for e in ratio / math.log(lengths[-1] / lengths[-3])]


def cost_finding(size: Cost, grown: Mapping[str, Grown]) -> Finding:
    fused, written, recurrence = (
        grown[kind] for kind in ("fused attention", "attention", "recurrence")
    )
    time_e = {kind: exponents(one.lengths, one.times) for kind, one in grown.items()}
    memory_e = {
        kind: exponents(one.lengths, [[value] for value in one.memory])[0]
        for kind, one in grown.items()
    }
    products_e = {
        kind: exponents(one.lengths, [[value] for value in one.products])[0]
        for kind, one in grown.items()
        if kind != "attention"
    }
    judgements: list[Judgement] = [
        # Half way between in proportion to n and to its square.
        judge(time_e["fused attention"], margin=1.5),
        judge([-e for e in time_e["recurrence"]], margin=-1.5),
        judge([memory_e["attention"]], margin=1.5, exact=True),
        judge([-memory_e["recurrence"]], margin=-1.5, exact=True),
    ]
    verdict = all_of(judgements)
    attention_ms, recurrence_ms = np.mean(fused.times[-1]), np.mean(recurrence.times[-1])
    longest = size.lengths[-1]
    told = said(
        verdict,
        "attention's cost is that of a square, recurrence's that of a line",
        "the square is not to be seen at these lengths",
        "these timings do not tell",
    )
    return Finding(
        [
            LineChart(
                "Time of one layer, forward and backward",
                "words n",
                "milliseconds",
                [curve(kind, one.lengths, one.times) for kind, one in grown.items()],
                log_x=True,
                log_y=True,
            ),
            LineChart(
                "Multiply-adds, counted",
                "words n",
                "multiply-adds",
                [
                    Series("attention", fused.lengths, fused.products),
                    Series("recurrence", recurrence.lengths, recurrence.products),
                ],
                log_x=True,
                log_y=True,
            ),
            LineChart(
                "Memory kept for the gradient",
                "words n",
                "MiB",
                [Series(kind, one.lengths, one.memory) for kind, one in grown.items()],
                log_x=True,
                log_y=True,
            ),
        ],
        (
            f"Over the last two doublings the time of a layer of width {size.width} grows as n to "
            f"the {named({k: float(np.mean(e)) for k, e in time_e.items()}, '.2f')}, counted "
            f"multiply-adds as n to the {named(products_e, '.2f')}, and memory as n to the "
            f"{named(memory_e, '.2f')}: {told}.",
            f"At {longest:,} words fused attention takes {attention_ms:.1f} ms and the recurrent "
            f"layer {recurrence_ms:.1f} ms, so attention is the "
            f"{'faster' if attention_ms < recurrence_ms else 'slower'} one there; attention that "
            f"writes its weights keeps {written.memory[-1]:,.0f} MiB at {written.lengths[-1]:,} "
            f"words, the recurrent layer {_at(recurrence, written.lengths[-1]):,.0f} MiB.",
        ),
        verdict,
        f"One layer of width {size.width} with {size.heads} heads, one sequence, "
        f"{size.repeats} repetitions after one to warm up. Seen if the exponent of fused "
        f"attention's time over the last two doublings is above 1.5 "
        f"(measured {judgements[0].interval()}), that of recurrence below it "
        f"({Judgement('seen', *_turned(judgements[1])).interval()}), and the same holds for the "
        "memory of attention that writes its weights.",
    )


def _at(grown: Grown, n: int) -> float:
    return grown.memory[list(grown.lengths).index(n)]


def _turned(judgement: Judgement) -> tuple[float, float, float]:
    """Mean and interval of what was judged with its sign changed."""
    return -judgement.mean, -judgement.high, -judgement.low


STEPS = Claim(
    "What cannot run in parallel",
    "A recurrent network needs as many operations one after the other as there are words, and as "
    "many steps between distant words; convolution needs some layers, attention one look. In "
    "translation all go word by word.",
    "How many operations have to wait for each other, and what does that cost as sentences grow?",
    "A training step of the recurrent network would slow down no more than the others' when the "
    "same words stand in longer sentences.",
    show_steps,
)
COST = Claim(
    "Attention costs n², recurrence n",
    "Attention compares every word with every other: its time and memory grow with the square of "
    "the length, a recurrent network's in a line.",
    "How do a layer's operations, time and memory grow with the length?",
    "The exponent of attention's time and memory would be as near to 1 as recurrence's.",
    show_cost,
)
