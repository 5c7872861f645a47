"""C1: a sequence squeezed into one vector of fixed size, and what becomes of long ones.

Random words are to be copied, short and long sequences mixed. In the large form, what the systems
of C7 make of real sentences is looked at by the length of the source.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dragoman.data.dataset import Sentences
from dragoman.lab.compare.corpora import ALSO
from dragoman.lab.compare.figures import Figure, LineChart, Series
from dragoman.lab.compare.runs import Study
from dragoman.lab.compare.systems import Scale, System
from dragoman.text.metrics import bleu, gleu
from studies.finding import Claim, Finding, Verdict, listed, named
from studies.grid import cell, chosen_rate, to_be_tuned, tuning_budget
from studies.judge import Judgement, all_of, at_least, judge, said
from studies.tasks import Trial, Tuned, curve, effort, tune, tuning_table

SHARES = (0.2, 0.4, 0.6, 0.8)  # of the sentences, below each edge between groups
_ON_TEXT = {"RNN": "rnn", "RNN with attention": "rnn-attention", "Transformer": "transformer"}
_SYMBOLS = 10
_LEARNED, _LOST, _WIDER = 0.95, 0.2, 0.05
_TRANSLATES, _BEHIND = 0.1, 0.1


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
    "quick": Size(16, 7, (32, 64), 32, 400, (3e-3, 1e-2), 3),
    "full": Size(40, 8, (32, 64, 128, 256), 64, 1500, (1e-3, 3e-3, 1e-2), 5, gpu=True),
}


def systems(size: Size) -> dict[str, dict[str, Any]]:
    """One vector of several widths; attention in the narrowest."""
    by_width = {
        f"RNN, vector of {width}": {"architecture": "rnn", "d_model": width}
        for width in size.widths
    }
    return {
        **by_width,
        f"RNN with attention, {size.narrow}": {
            "architecture": "rnn-attention",
            "d_model": size.narrow,
        },
        f"Transformer, {size.narrow}": {"architecture": "transformer", "d_model": size.narrow},
    }


@dataclass(frozen=True)
class OnText:
    """The translations of a test set by several systems."""

    corpus: str
    words: Sequence[int]  # of each source
    gleu: Mapping[str, Sequence[float]]  # of each sentence
    bleu: Mapping[str, Sequence[float]]  # of each group of lengths


def groups_by_length(words: Sequence[int]) -> list[np.ndarray]:
    """Rows in groups from the shortest sources to the longest; one length is never parted."""
    lengths = np.asarray(words)
    edges = np.unique(np.quantile(lengths, SHARES))
    of_row = np.searchsorted(edges, lengths, side="left")
    return [np.flatnonzero(of_row == number) for number in np.unique(of_row)]


def bleu_by_length(
    outputs: Sequence[str], test: Sentences, rows: Sequence[np.ndarray]
) -> list[float]:
    """Score each group of rows; an empty group gets NaN."""
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
    return finding(size, tuned, _on_text(study))


def text_systems(study: Study, corpus: str) -> dict[str, System]:
    """C7's, with the rates that were chosen there; nothing before that."""
    scale = study.scale
    found = {}
    for label, name in _ON_TEXT.items():
        rate = chosen_rate(study, name) if text_candidates(scale) else None
        if rate is None:
            return {}
        # Real text adds to what copying shows, so the second corpus is not waited for.
        found[label] = cell(
            scale, name, rate, tuning_budget(scale), corpus=corpus, optional=corpus == ALSO
        )
    return found


def text_candidates(scale: Scale) -> list[System]:
    """Real text is for the large form only; first come the trainings that choose the rates."""
    return to_be_tuned(scale, list(_ON_TEXT.values())) if scale.name == "full" else []


def _on_text(study: Study) -> OnText | None:
    """Use the second corpus, whose sentences may be longer, if it was trained on."""
    for corpus in (ALSO, "all"):
        systems = text_systems(study, corpus)
        if systems and all(study.has_result(system) for system in systems.values()):
            break
    else:
        return None
    test = study.texts.test_of(corpus)
    words = [len(source.split()) for source in test.sources]
    rows = groups_by_length(words)
    scores, groups = {}, {}
    for label, system in systems.items():
        outputs = study.result(system).outputs
        scores[label] = [
            gleu(said.split(), wanted.split())
            for said, wanted in zip(outputs, test.targets, strict=True)
        ]
        groups[label] = bleu_by_length(outputs, test, rows)
    return OnText(study.texts.name_of(corpus), words, scores, groups)


def finding(size: Size, tuned: Mapping[str, Tuned], text: OnText | None) -> Finding:
    right = {
        name: [one.over(*range(low, high + 1)) for low, high in size.edges]
        for name, one in tuned.items()
    }
    vectors = [name for name in right if name.startswith("RNN, ")]
    others = [name for name in right if name not in vectors]
    # A vector that cannot hold the shortest tells nothing about length. It takes two to compare.
    able = [name for name in vectors if min(right[name][0]) >= _LEARNED]
    judged = able if len(able) > 1 else vectors
    narrowest, widest = judged[0], judged[-1]
    least = np.min([right[name][-1] for name in others], axis=0).tolist()
    short = [share for name in (*judged, *others) for share in right[name][0]]
    learned = at_least("two vectors and attention copy the shortest", short, _LEARNED)
    judgements = [
        judge(least, right[widest][-1], margin=_LOST, checks=[learned]),
        judge(right[widest][-1], right[narrowest][-1], margin=_WIDER, checks=[learned]),
    ]
    copying = all_of(judgements)
    if text is not None:
        judgements.append(_judge_text(text))
    verdict = all_of(judgements)
    parts: list[tuple[str, Verdict]] = [("copying", copying)]
    if text is not None:
        parts.append((text.corpus, judgements[2].verdict))
    longest = size.edges[-1]
    last = {name: float(np.mean(values[-1])) for name, values in right.items()}
    return Finding(
        list(_figures(size, tuned, right, text)),
        (
            f"Of the words of sequences of {longest[0]} to {longest[1]} words, "
            f"{named(last, '.0%')} are right: "
            + said(
                copying,
                "one vector loses long sequences, a wider one fewer of them, and attention none "
                "to speak of.",
                "one vector does not lose long sequences more than attention does, or its width "
                "does not matter.",
                f"not decided ({'; '.join(one.why for one in judgements[:2] if one.why)}).",
            ),
            _text_sentence(text, judgements[2]) if text is not None else
            "All that is judged copies sequences of "
            f"{size.edges[0][0]} to {size.edges[0][1]} words ({min(short):.0%} or more right).",
        ),
        verdict,
        f"One layer, {_SYMBOLS} symbols, sequences of 2 to {size.longest} words, {size.steps} "
        f"training steps, {size.seeds} seeds, each system with the best of {len(size.rates)} "
        f"learning rates. Judged: systems that get {_LEARNED:.0%} of the shortest right, with "
        "attention and without"
        + (f" (not {listed(left_out)})" if (left_out := sorted({*vectors} - {*judged})) else "")
        + f". Seen if on the longest attention is ahead of the widest vector by more than "
        f"{_LOST:.0%} (measured {judgements[0].interval()}) and the widest vector ahead of the "
        f"narrowest by more than {_WIDER:.0%} ({judgements[1].interval()})."
        + (_text_conditions(text, judgements[2]) if text is not None else ""),
        parts,
    )  # fmt: skip


def _judge_text(text: OnText) -> Judgement:
    """Does the RNN fall further behind attention from the shortest to the longest sentences?

    In the shortest, it reaches a share of attention's score. The result is how much of that share
    it loses in the longest, in parts of attention's score there.
    """
    rows = groups_by_length(text.words)
    rnn, attention = (np.asarray(text.gleu[name]) for name in ("RNN", "RNN with attention"))
    short, long = rows[0], rows[-1]
    share = rnn[short].mean() / attention[short].mean()
    lacking = (share * attention[long] - rnn[long]) / attention[long].mean()
    floor = at_least("the RNN translates short sentences", [rnn[short].mean()], _TRANSLATES)
    return judge(lacking.tolist(), margin=_BEHIND, checks=[floor])


def _text_conditions(text: OnText, judgement: Judgement) -> str:
    return (
        f" On {text.corpus}: systems of C7 as tuned there. Required: the RNN reaches GLEU "
        f"{_TRANSLATES} on the shortest fifth. Seen if in the longest the RNN lacks more than "
        f"{_BEHIND:.0%} of the score of the RNN with attention, beyond what it lacks in the "
        f"shortest: {judgement.verdict}, measured {judgement.interval()}, over sentences."
    )


def _text_sentence(text: OnText, judgement: Judgement) -> str:
    first = {name: values[0] for name, values in text.bleu.items()}
    last = {name: values[-1] for name, values in text.bleu.items()}
    told = said(
        judgement.verdict,
        "there too the vector loses most where sentences are long",
        "there the vector loses no more where sentences are long",
        f"whether the vector loses most where sentences are long is not decided ({judgement.why})",
    )
    return (
        f"On {text.corpus}, from the shortest fifth of the sentences to the longest, BLEU goes "
        f"from {named(first)} to {named(last)}: {told}."
    )


def _figures(
    size: Size,
    tuned: Mapping[str, Tuned],
    right: Mapping[str, Sequence[Sequence[float]]],
    text: OnText | None,
) -> Iterator[Figure]:
    middles = [(low + high) / 2 for low, high in size.edges]
    yield LineChart(
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
            name: [np.asarray(scores)[group].tolist() for group in rows]
            for name, scores in text.gleu.items()
        }
        yield LineChart(
            f"{text.corpus}: score of a sentence",
            "words in the source (mean of the group)",
            "GLEU",
            [curve(name, words, values) for name, values in by_group.items()],
        )
        yield LineChart(
            f"{text.corpus}: score of the group",
            "words in the source (mean of the group)",
            "BLEU",
            [Series(name, words, values) for name, values in text.bleu.items()],
        )
    yield tuning_table(tuned)


CLAIM = Claim(
    "The bottleneck of a fixed vector",
    "A recurrent encoder hands over one vector, however long the sentence is: long sentences "
    "suffer, and attention, which may look at every word, mends that.",
    "Does a recurrent encoder that hands over one vector lose long sequences, and does attention "
    "keep them?",
    "The network with one vector would copy long sequences as well as attention does, or a wider "
    "vector would hold no more than a narrow one.",
    show,
    text_candidates,
    lambda study: [
        *text_systems(study, "all").values(),
        *(text_systems(study, ALSO).values() if study.texts.has_also else ()),
    ],
)
