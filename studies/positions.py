"""C6: positions beyond the length that was trained.

Three tasks, trained on short sequences and tested on sequences twice as long, all words before
being given. Copying by encoder and decoder needs cross-attention, from a place in the target to the
same place in the source; positions that act inside self-attention do not reach there, so vectors of
two kinds are compared. Tagging each word with the word at a fixed distance before it only needs
self-attention; ALiBi is not tested, because in an encoder it counts distances in both directions
alike. Copying by a decoder-only model, in the large form only, compares all of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman.lab.compare.figures import Figure, LineChart
from dragoman.lab.compare.runs import Study
from studies.finding import Claim, Finding, listed, named
from studies.judge import Judgement, all_of, at_least, judge, said
from studies.tasks import Trial, Tuned, curve, effort, tune, tuning_table

VECTORS = ("sinusoidal", "learned")
DISTANCES = ("rotary", "relative")
_SYMBOLS, _DISTANCE = 10, 2
_LEARNED, _LOST, _AHEAD = 0.95, 0.3, 0.2


@dataclass(frozen=True)
class Size:
    longest: int  # in training; half as long at least, twice as long in the test
    steps: int
    tagging_steps: int
    rates: tuple[float, ...]
    seeds: int
    width: int = 64
    alone: int = 0  # steps of a decoder alone

    @property
    def beyond(self) -> range:
        """Places of the last quarter of a test sequence."""
        return range(2 * self.longest - self.longest // 2 + 1, 2 * self.longest + 1)


SIZES = {
    "quick": Size(12, 300, 300, (3e-3, 1e-2), 3),
    "full": Size(12, 1000, 500, (1e-3, 3e-3, 1e-2), 5, alone=600),
}


def show(study: Study) -> Finding:
    size = SIZES[study.scale.name]
    folder = study.folder / "tasks"
    twice = {"shortest": 2 * size.longest, "longest": 2 * size.longest}

    def trial(task: str, lengths: Mapping[str, Any], kind: str, steps: int, **model: Any) -> Trial:
        settings = {"d_model": size.width, "positions.kind": kind, **model}
        return Trial(task, lengths, settings, effort(study, steps), tested=twice)

    base = {"symbols": _SYMBOLS, "shortest": 1, "longest": size.longest, "by": "place"}
    copying = {kind: trial("copy", base, kind, size.steps) for kind in VECTORS}
    near = {
        "symbols": _SYMBOLS,
        "shortest": 1 + _DISTANCE,
        "longest": size.longest,
        "distance": _DISTANCE,
    }
    tagging = {
        kind: trial("neighbour", near, kind, size.tagging_steps) for kind in (*VECTORS, *DISTANCES)
    }
    decoder = {"architecture": "decoder-only", "num_decoder_layers": 2}
    alone = {
        kind: trial("copy", base, kind, size.alone, **decoder)
        for kind in (*VECTORS, *DISTANCES, "alibi")
        if size.alone
    }
    return finding(
        size,
        tune(folder, copying, size.rates, size.seeds),
        tune(folder, tagging, size.rates, size.seeds),
        tune(folder, alone, size.rates, size.seeds),
    )


def finding(
    size: Size,
    copying: Mapping[str, Tuned],
    tagging: Mapping[str, Tuned],
    alone: Mapping[str, Tuned],
) -> Finding:
    """`alone`: copying by a decoder-only model, which is shown but not judged."""
    falls = {
        kind: judge(
            one.valids,
            one.over(*size.beyond),
            margin=_LOST,
            checks=[at_least(f"copying is learned ({kind})", one.valids, _LEARNED)],
        )
        for kind, one in copying.items()
    }
    beyond = {kind: one.over(*size.beyond) for kind, one in tagging.items()}
    ahead = judge(
        np.min([beyond[kind] for kind in DISTANCES], axis=0).tolist(),
        np.max([beyond[kind] for kind in VECTORS], axis=0).tolist(),
        margin=_AHEAD,
        checks=[
            at_least(f"tagging is learned ({kind})", one.valids, _LEARNED)
            for kind, one in tagging.items()
        ],
    )
    verdict = all_of([*falls.values(), ahead])
    last = {kind: float(np.mean(one.over(*size.beyond))) for kind, one in copying.items()}
    tagged = {kind: float(np.mean(values)) for kind, values in beyond.items()}
    places = f"places {size.beyond[0]} to {size.beyond[-1]}"
    return Finding(
        list(_figures(size, copying, tagging, alone)),
        (
            f"Trained on sequences of up to {size.longest} words, copying is right at "
            f"{places} in {named(last, '.0%')} of all cases: "
            + said(
                all_of(falls.values()),
                "neither kind of position vector works beyond the trained length.",
                "a kind of position vector works beyond the trained length.",
                f"not decided ({_reasons(falls.values())}).",
            ),
            f"Tagging each word with the one {_DISTANCE} before it is right there in "
            f"{named(tagged, '.0%')}: "
            + said(
                ahead.verdict,
                "positions that tell distances carry over, those that tell places do not.",
                "positions that tell distances carry over no better than those that tell places.",
                f"not decided ({ahead.why}).",
            )
            + _alone_sentence(size, alone),
        ),
        verdict,
        f"Width {size.width}, one layer on each side, {_SYMBOLS} symbols, {size.steps} training "
        f"steps of copying and {size.tagging_steps} of tagging on sequences of up to "
        f"{size.longest} words, {size.seeds} seeds, each kind with the best of {len(size.rates)} "
        f"learning rates; tested on {2 * size.longest} words, the words before given. Required: "
        f"{_LEARNED:.0%} right at trained lengths. Seen if copying with "
        f"{listed(list(VECTORS))} positions loses more than {_LOST:.0%} from there to {places} "
        f"(measured {listed([one.interval() for one in falls.values()])}), and if in tagging the "
        f"worse of {listed(list(DISTANCES))} is ahead of the better of {listed(list(VECTORS))} by "
        f"more than {_AHEAD:.0%} there ({ahead.interval()}).",
    )


def _alone_sentence(size: Size, alone: Mapping[str, Tuned]) -> str:
    if not alone:
        return ""
    shares = {kind: float(np.mean(one.over(*size.beyond))) for kind, one in alone.items()}
    return (
        " A decoder alone, which has to find its place in one long sequence, copies "
        f"{named(shares, '.0%')} there."
    )


def _reasons(judgements: Iterable[Judgement]) -> str:
    return "; ".join(dict.fromkeys(one.why for one in judgements if one.why))


def _figures(
    size: Size,
    copying: Mapping[str, Tuned],
    tagging: Mapping[str, Tuned],
    alone: Mapping[str, Tuned],
) -> Iterator[Figure]:
    tasks = {
        "Copying, by place": copying,
        f"Naming the word {_DISTANCE} before, by place": tagging,
        "Copying by a decoder alone, by place": alone,
    }
    for title, tuned in tasks.items():
        if not tuned:
            continue
        places = list(next(iter(tuned.values())).outcomes[0].right)
        yield LineChart(
            title,
            "place in the sequence",
            "share right",
            [curve(kind, places, [one.over(p) for p in places]) for kind, one in tuned.items()],
            top=1.0,
            x_mark=(size.longest + 0.5, "trained up to here"),
            y_mark=(1 / _SYMBOLS, "chance"),
        )
    for title, tuned in tasks.items():
        if tuned:
            yield tuning_table(tuned, f"{title.partition(',')[0]}, learning rates tried")


CLAIM = Claim(
    "Positions beyond what was trained",
    "Sinusoids reach any length, though beyond the trained one they do not really work; learned "
    "positions cannot reach there at all. And where a phrase stands matters less than what stands "
    "beside it.",
    "Does a model that was trained on short sequences work at places that it has never seen?",
    "Copying would go on working beyond the trained length with sinusoidal or with learned "
    "positions; or positions that tell distances would fail there like the others.",
    show,
)
