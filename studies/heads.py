"""C8: several lookups by one head and by several, and what the heads of a trained model do.

The task: tag every word with the words at k distances from it, in one layer of self-attention. One
wide head can do that, too (it may spread its weights and distinguish the words by their features),
so the question is not who can, but who learns it faster.

The bundled model shows which roles heads take: each head is compared with some roles, such as
looking at the previous word.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from dragoman.inspect.translator import InspectableTranslator
from dragoman.inspect.words import piece_label
from dragoman.lab.compare.figures import Figure, HeatMap, LineChart, Table
from dragoman.lab.compare.runs import Study
from studies.finding import Claim, Finding, listed, named
from studies.judge import Judgement, all_of, at_least, judge, said
from studies.tasks import Trial, Tuned, course, effort, tune, tuning_table

_SYMBOLS, _LENGTH, _DISTANCES = 8, 12, (1, 3, 5, 8)
_LEARNED, _SOONER = 0.9, 0.05


@dataclass(frozen=True)
class Size:
    lookups: tuple[int, ...]
    heads: tuple[int, ...]
    steps: int
    rates: tuple[float, ...]
    seeds: int
    width: int = 32
    looks: int = 10


SIZES = {
    "quick": Size((1, 2), (1, 2), 300, (3e-3, 1e-2), 3),
    "full": Size((1, 2, 4), (1, 2, 4, 8), 800, (1e-3, 3e-3, 1e-2), 5),
}
SENTENCES = (
    "Gestern, als es regnete, blieb ich zu Hause.",
    "Wenn du Zeit hast, komm bitte heute Abend vorbei.",
    "Meine Schwester, die in Berlin wohnt, arbeitet als Ärztin.",
    "Ich glaube, dass der Zug heute später kommt.",
    "Der Hund schläft auf dem Sofa und die Katze schläft auf dem Stuhl.",
    "Er wollte anrufen, aber er hatte die Nummer vergessen.",
    "Nachdem sie gegessen hatten, gingen sie im Park spazieren.",
    "Das Buch, das du mir gegeben hast, gefällt mir sehr.",
    "Je mehr man liest, desto mehr lernt man.",
    "Die Kinder spielen im Garten, obwohl es schon dunkel ist.",
    "Weißt du, wo ich meine Schlüssel gelassen habe?",
    "Wir fahren im Sommer ans Meer, nicht in die Berge.",
)


@dataclass(frozen=True)
class Role:
    """A head of the package's model, and how much of its weight goes where the role says."""

    name: str
    head: str
    weight: float  # of the head that does it most
    even: float  # what a head that spreads its weight evenly would give
    median: float  # of all heads


Pieces = Sequence[str]
_Place = Callable[[Pieces, int, int], bool]  # whether row i's role is to look at column j
ROLES: dict[str, _Place] = {
    "the piece before": lambda pieces, i, j: j == i - 1,
    "the piece after": lambda pieces, i, j: j == i + 1,
    "itself": lambda pieces, i, j: j == i,
    "the same piece elsewhere": lambda pieces, i, j: j != i and pieces[j] == pieces[i],
    "a comma": lambda pieces, i, j: piece_label(pieces[j]).strip() == ",",
    "the last punctuation mark": lambda pieces, i, j: j == len(pieces) - 2,
    "the end": lambda pieces, i, j: j == len(pieces) - 1,
    "the tag of the target language": lambda pieces, i, j: j == 0,
}


def role_weights(weights: np.ndarray, pieces: Pieces, place: _Place) -> tuple[np.ndarray, float]:
    """Return the mean weight of each head (L, H) at the role's places, and the weight of chance.

    The mean is over the words of the sentence that have such a place, without tag and end.
    """
    size = len(pieces)
    wanted = np.array([[place(pieces, i, j) for j in range(size)] for i in range(size)])
    rows = [i for i in range(1, size - 1) if wanted[i].any()]
    if not rows:
        return np.zeros(weights.shape[:2]), 0.0
    given = (weights * wanted)[:, :, rows].sum(axis=-1).mean(axis=-1)  # (L, H)
    return given, float(wanted[rows].mean())


def roles_of(translator: InspectableTranslator) -> tuple[list[Role], list[HeatMap]]:
    """The encoder's heads on all sentences, and pictures of some of them on the first."""
    seen = [translator.attention(sentence, to="en") for sentence in SENTENCES]
    sums: dict[str, list[np.ndarray]] = {name: [] for name in ROLES}
    evens: dict[str, list[float]] = {name: [] for name in ROLES}
    for one in seen:
        pieces, weights = cast(list[str], one["source"]), np.asarray(one["encoder"])
        for name, place in ROLES.items():
            given, even = role_weights(weights, pieces, place)
            if even:
                sums[name].append(given)
                evens[name].append(even)
    roles, pictures = [], []
    for name, of_sentences in sums.items():
        mean = np.mean(of_sentences, axis=0)
        layer, head = np.unravel_index(mean.argmax(), mean.shape)
        called = f"layer {layer + 1}, head {head + 1}"
        roles.append(
            Role(
                name, called, float(mean.max()), float(np.mean(evens[name])), float(np.median(mean))
            )
        )
        words = [piece_label(piece) for piece in cast(list[str], seen[0]["source"])]
        weights = np.round(np.asarray(seen[0]["encoder"])[layer, head], 3)
        pictures.append(HeatMap(f"{name}: {called}", words, words, weights.tolist()))
    return roles, pictures[:4]


def show(study: Study) -> Finding:
    size = SIZES[study.scale.name]
    tuned = tune(
        study.folder / "tasks",
        {
            _called(lookups, heads): Trial(
                "lookups",
                {"symbols": _SYMBOLS, "length": _LENGTH, "distances": _DISTANCES[:lookups]},
                {"d_model": size.width, "num_heads": heads, "d_ff": 2 * size.width},
                effort(study, size.steps),
                looks=size.looks,
            )
            for lookups in size.lookups
            for heads in size.heads
        },
        size.rates,
        size.seeds,
    )
    translator = InspectableTranslator.load(device="cpu", engine="torch", source="de", target="en")
    return finding(size, tuned, *roles_of(translator))


def _called(lookups: int, heads: int) -> str:
    return f"{lookups} lookup{'s' if lookups > 1 else ''}, {heads} head{'s' if heads > 1 else ''}"


def finding(
    size: Size, tuned: Mapping[str, Tuned], roles: Sequence[Role], pictures: Sequence[HeatMap]
) -> Finding:
    most = max(size.lookups)
    several = [heads for heads in size.heads if heads > 1]
    one, others = tuned[_called(most, 1)], [tuned[_called(most, heads)] for heads in several]
    best = np.max([other.heights for other in others], axis=0).tolist()
    finished = np.max([other.means for other in others], axis=0).tolist()
    learned = at_least("several heads learn the task in the end", finished, _LEARNED)
    sooner = judge(best, one.heights, margin=_SOONER, checks=[learned])
    fewest = min(size.lookups)
    control = judge(
        np.subtract(best, one.heights).tolist(),
        np.subtract(
            np.max([tuned[_called(fewest, heads)].heights for heads in several], axis=0),
            tuned[_called(fewest, 1)].heights,
        ).tolist(),
        checks=[learned],
    )
    verdict = all_of([sooner, control])
    ends = {_called(most, heads): float(np.mean(tuned[_called(most, heads)].means))
            for heads in size.heads}  # fmt: skip
    strongest = sorted(roles, key=lambda role: role.even - role.weight)[:3]
    told = [f"{r.head} gives {r.weight:.0%} of its weight to {r.name}" for r in strongest]
    return Finding(
        list(_figures(size, tuned, roles, pictures)),
        (
            f"Learning {most} lookups at once, the mean height of the learning curve is "
            f"{np.mean(one.heights):.2f} with one head and {np.mean(best):.2f} with the best "
            f"number of heads; in the end {named(ends, '.0%')} are right: "
            + said(
                verdict,
                "several heads learn it sooner, and with one lookup they gain less.",
                "several heads do not learn it sooner.",
                f"not decided ({sooner.why or control.why}).",
            ),
            f"In the model of the package, {listed(told)}.",
        ),
        verdict,
        _conditions(size, sooner, control),
    )


def _conditions(size: Size, sooner: Judgement, control: Judgement) -> str:
    return (
        f"One layer of self-attention of width {size.width}, whatever the number of heads; "
        f"{_LENGTH} words of {_SYMBOLS} symbols, {size.steps} training steps, {size.seeds} seeds, "
        f"each system with the best of {len(size.rates)} learning rates. Required: several heads "
        f"get {_LEARNED:.0%} right in the end. Seen if they raise the mean of the learning curve "
        f"by more than {_SOONER} (measured {sooner.interval()}), and by more than they do with "
        f"{min(size.lookups)} lookup (difference {control.interval()}). What the heads of the "
        f"package's model do is measured on {len(SENTENCES)} German sentences and not judged."
    )


def _figures(
    size: Size, tuned: Mapping[str, Tuned], roles: Sequence[Role], pictures: Sequence[HeatMap]
) -> Iterator[Figure]:
    for lookups in sorted(size.lookups, reverse=True):
        series = [
            course(f"{heads} head{'s' if heads > 1 else ''}", tuned[_called(lookups, heads)])
            for heads in size.heads
        ]
        yield LineChart(
            f"Learning {lookups} lookup{'s' if lookups > 1 else ''} at once",
            "training steps",
            "share right",
            series,
            top=1.0,
            y_mark=(1 / _SYMBOLS, "chance"),
        )
    yield Table(
        "What heads of the package's encoder look at",
        ["role", "head that does it most", "its weight", "median head", "evenly spread"],
        [[r.name, r.head, f"{r.weight:.0%}", f"{r.median:.0%}", f"{r.even:.0%}"] for r in roles],
    )
    yield from pictures
    yield tuning_table(tuned)


CLAIM = Claim(
    "Several heads look at several things",
    "One query cannot fasten on two words at once, a verb and a noun, say; several heads can, "
    "each with queries, keys and values of its own.",
    "Do several heads learn several lookups sooner than one head of the same total width?",
    "One head would learn as fast as several, however many lookups there are; or several heads "
    "would help just as much where there is only one thing to look up.",
    show,
)
