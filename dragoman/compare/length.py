"""C1: a sequence squeezed into one vector of fixed size, and what becomes of long ones.

Random words are to be copied, short and long sequences mixed. On real text, if there is any, the
loss of each reference word is looked at by the length of the source.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dragoman.compare.figures import Figure, Finding, Lines, named
from dragoman.compare.judge import Judgement, all_of, at_least, judge, said
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import Scale, System, architecture
from dragoman.compare.tasks import Trial, Tuned, curve, effort, tune, tuning_table
from dragoman.data.prepare import Sentences
from dragoman.evaluate.metrics import bleu

SHARES = (0.2, 0.4, 0.6, 0.8)  # of the sentences, below each edge between groups
PEERS = {
    "RNN": architecture("rnn"),
    "RNN with attention": architecture("rnn-attention"),
    "Transformer": architecture("transformer"),
}
_SYMBOLS = 10
_LEARNED, _LOST, _EXCESS = 0.95, 0.2, 0.05


@dataclass(frozen=True)
class Size:
    longest: int
    groups: int  # of lengths
    widths: tuple[int, ...]  # of the one vector
    narrow: int  # width of the systems with attention
    steps: int
    rates: tuple[float, ...]
    seeds: int
    gpu: bool = False

    @property
    def edges(self) -> list[tuple[int, int]]:
        """First and last length of each group."""
        ends = np.linspace(1, self.longest, self.groups + 1).round().astype(int).tolist()
        return [(low + 1, high) for low, high in pairwise(ends)]


SIZES = {
    "quick": Size(16, 5, (32, 64), 32, 400, (3e-3, 1e-2), 2),
    "full": Size(40, 8, (32, 64, 128, 256), 64, 2000, (1e-3, 3e-3, 1e-2), 3, gpu=True),
}


def systems(size: Size) -> dict[str, dict[str, Any]]:
    """One vector of several widths; attention in the narrowest."""
    by_width = {
        f"RNN, vector of {width}": {"architecture": "rnn", "width": width} for width in size.widths
    }
    return {
        **by_width,
        f"RNN with attention, {size.narrow}": {
            "architecture": "rnn-attention",
            "width": size.narrow,
        },
        f"Transformer, {size.narrow}": {"architecture": "transformer", "width": size.narrow},
    }


@dataclass(frozen=True)
class OnText:
    """Systems on real text: words of the sources, loss per token and BLEU by group of lengths."""

    words: Sequence[int]  # of each test source
    losses: Mapping[str, Sequence[float]]  # per token, of each test sentence
    bleu: Mapping[str, Sequence[float]]  # of each group


def groups_by_length(words: Sequence[int]) -> list[np.ndarray]:
    """Rows in groups from the shortest sources to the longest; one length is never parted."""
    lengths = np.asarray(words)
    edges = np.unique(np.quantile(lengths, SHARES))
    of_row = np.searchsorted(edges, lengths, side="left")
    return [np.flatnonzero(of_row == number) for number in np.unique(of_row)]


def bleu_by_length(
    outputs: Sequence[str], test: Sentences, rows: Sequence[np.ndarray]
) -> list[float]:
    """Of each group of rows; not a number for a group of none."""
    return [
        bleu([outputs[r] for r in g], [test.targets[r] for r in g]) if len(g) else math.nan
        for g in rows
    ]


def show(study: Study) -> Finding:
    size = SIZES[study.scale.name]
    tuned = tune(
        study.folder / "tasks",
        {
            name: Trial(
                "copy",
                {"symbols": _SYMBOLS, "shortest": 2, "longest": size.longest},
                settings,
                effort(study, size.steps),
                gpu=size.gpu,
            )
            for name, settings in systems(size).items()
        },
        size.rates,
        size.seeds,
    )
    has_text = bool(text_systems(study.scale)) and all(map(study.has_result, PEERS.values()))
    return finding(size, tuned, _on_text(study) if has_text else None)


def _on_text(study: Study) -> OnText:
    test = study.texts.test_of("all")
    words = [len(source.split()) for source in test.sources]
    rows = groups_by_length(words)
    losses, scores = {}, {}
    for name, system in PEERS.items():
        pieces = study.translator(system).score(test.sources, test.targets)
        losses[name] = [float(-of_one.mean()) for of_one in pieces]
        scores[name] = bleu_by_length(study.result(system).outputs, test, rows)
    return OnText(words, losses, scores)


def finding(size: Size, tuned: Mapping[str, Tuned], text: OnText | None) -> Finding:
    right = {
        name: [one.over(*range(low, high + 1)) for low, high in size.edges]
        for name, one in tuned.items()
    }
    vectors = [name for name in right if name.startswith("RNN, ")]
    others = [name for name in right if name not in vectors]
    narrowest, widest = vectors[0], vectors[-1]
    least = np.min([right[name][-1] for name in others], axis=0).tolist()
    short = [share for name in right for share in right[name][0]]
    learned = at_least("every system copies the shortest", short, _LEARNED)
    judgements = [
        judge(least, right[widest][-1], margin=_LOST, checks=[learned]),
        judge(right[widest][-1], right[narrowest][-1], margin=0.05, checks=[learned]),
    ]
    if text is not None:
        judgements.append(_judge_text(text))
    verdict = all_of(judgements)
    longest = size.edges[-1]
    last = {name: float(np.mean(values[-1])) for name, values in right.items()}
    return Finding(
        list(_figures(size, tuned, right, text)),
        (
            f"Of the words of sequences of {longest[0]} to {longest[1]} words, "
            f"{named(last, '.0%')} are right: "
            + said(
                all_of(judgements[:2]),
                "one vector loses long sequences, a wider one fewer of them, and attention none "
                "to speak of.",
                "one vector does not lose long sequences more than attention does, or its width "
                "does not matter.",
                f"not decided ({'; '.join(one.why for one in judgements[:2] if one.why)}).",
            ),
            _text_sentence(text, judgements[2]) if text is not None else
            "Every system copies sequences of "
            f"{size.edges[0][0]} to {size.edges[0][1]} words ({min(short):.0%} or more right).",
        ),
        verdict,
        f"One layer, {_SYMBOLS} symbols, sequences of 2 to {size.longest} words, {size.steps} "
        f"training steps, {size.seeds} seeds, each system with the best of {len(size.rates)} "
        f"learning rates. Required: every system gets {_LEARNED:.0%} of the shortest right. Seen "
        f"if on the longest attention is ahead of the widest vector by more than {_LOST:.0%} "
        f"(measured {judgements[0].interval()}) and the widest vector ahead of the narrowest by "
        f"more than 5% ({judgements[1].interval()})."
        + (
            " On text: if the RNN's loss per token, beyond that of the RNN with attention, is "
            f"larger by more than {_EXCESS} nats in the longest fifth of the sentences than in "
            f"the shortest (measured {judgements[2].interval('.3f')}, resampled by sentence)."
            if text is not None
            else ""
        ),
    )  # fmt: skip


def _judge_text(text: OnText) -> Judgement:
    """Does what the vector costs grow from the shortest to the longest sentences?"""
    rows = groups_by_length(text.words)
    costs = np.subtract(text.losses["RNN"], text.losses["RNN with attention"])
    return judge((costs[rows[-1]] - costs[rows[0]].mean()).tolist(), margin=_EXCESS)


def _text_sentence(text: OnText, judgement: Judgement) -> str:
    rows = groups_by_length(text.words)
    ends = {
        name: (np.mean(np.asarray(losses)[rows[0]]), np.mean(np.asarray(losses)[rows[-1]]))
        for name, losses in text.losses.items()
    }
    told = said(
        judgement.verdict,
        "the vector costs more where sentences are long",
        "the vector costs no more where sentences are long",
        "whether the vector costs more where sentences are long is not decided",
    )
    return (
        "On text, from the shortest fifth of the sentences to the longest, the loss per token is "
        f"{named({name: first for name, (first, _) in ends.items()}, '.2f')} and "
        f"{named({name: last for name, (_, last) in ends.items()}, '.2f')}: {told}."
    )


def _figures(
    size: Size,
    tuned: Mapping[str, Tuned],
    right: Mapping[str, Sequence[Sequence[float]]],
    text: OnText | None,
) -> Iterator[Figure]:
    middles = [(low + high) / 2 for low, high in size.edges]
    yield Lines(
        "Copying sequences of different lengths",
        "words in the sequence (middle of the group)",
        "share of words right",
        [curve(name, middles, values) for name, values in right.items()],
        top=1.0,
        y_mark=(1 / _SYMBOLS, "chance"),
    )
    if text is not None:
        rows = groups_by_length(text.words)
        words = [float(np.asarray(text.words)[group].mean()) for group in rows]
        by_group = {
            name: [np.asarray(losses)[group].tolist() for group in rows]
            for name, losses in text.losses.items()
        }
        yield Lines(
            "Real text: loss by length",
            "words in the source (mean of the group)",
            "loss per token (nats)",
            [curve(name, words, values) for name, values in by_group.items()],
        )
        yield Lines(
            "Real text: BLEU by length",
            "words in the source (mean of the group)",
            "BLEU",
            [curve(name, words, [[v] for v in values]) for name, values in text.bleu.items()],
        )
    yield tuning_table(tuned)


def text_systems(scale: Scale) -> list[System]:
    """Real text is for the large form only."""
    return [*PEERS.values()] if scale.name == "full" else []


CLAIM = Claim(
    "The bottleneck of a fixed vector",
    "A recurrent encoder hands over one vector, however long the sentence is: long sentences "
    "suffer, and attention, which may look at every word, mends that.",
    "Does a recurrent encoder that hands over one vector lose long sequences, and does attention "
    "keep them?",
    "The network with one vector would copy long sequences as well as attention does, or a wider "
    "vector would hold no more than a narrow one.",
    show,
    text_systems,
)
