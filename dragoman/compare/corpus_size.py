"""C9: how much each system asks of the corpus."""

from collections.abc import Mapping, Sequence

from dragoman.compare.figures import Finding, Lines, Series
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import ARCHITECTURES, Scale, System, architecture


def systems(scale: Scale) -> dict[str, list[System]]:
    """Each architecture on parts of the corpus, smallest first, then on all of it.

    Smaller parts get a smaller budget.
    """
    parts = sorted(scale.parts, reverse=True)
    return {
        name: [*(architecture(name, 1 / n**0.5, f"all-{n}") for n in parts), architecture(name)]
        for name in ARCHITECTURES
    }


def finding(pairs: Sequence[int], scores: Mapping[str, Sequence[float]]) -> Finding:
    """BLEU of each system by the number of pairs."""
    place = [
        1 + sum(other[i] > scores["transformer"][i] for other in scores.values())
        for i in range(len(pairs))
    ]
    first, last = (_best({name: values[i] for name, values in scores.items()}) for i in (0, -1))
    gain = {name: values[-1] - values[0] for name, values in scores.items()}
    most = _best(gain)
    seen = place[-1] < place[0] or (place[-1] == 1 and most == "transformer")
    curves = [Series(name, pairs, values) for name, values in scores.items()]
    attention = scores["transformer"]
    return Finding(
        [Lines("BLEU by size of the corpus", "pairs", "BLEU", curves, log_x=True)],
        (
            f"With {pairs[0]:,} pairs {first} leads with {scores[first][0]:.1f} BLEU and the "
            f"Transformer has place {place[0]} with {attention[0]:.1f}; with {pairs[-1]:,} pairs "
            f"{last} leads with {scores[last][-1]:.1f} and the Transformer has place {place[-1]} "
            f"with {attention[-1]:.1f}.",
            f"From the smallest corpus to the largest {most} gains the most, {gain[most]:+.1f} "
            f"BLEU, the Transformer {gain['transformer']:+.1f}: more data "
            f"{'helps' if seen else 'does not help'} it more than the systems with more built in.",
        ),
        "seen" if seen else "not seen",
        "",
    )


def _best(values: Mapping[str, float]) -> str:
    return max(values, key=lambda name: values[name])


def show(study: Study) -> Finding:
    results = {
        name: [study.result(system) for system in row] for name, row in systems(study.scale).items()
    }
    pairs = [
        len(study.texts.sentences(system.corpus).sources)
        for system in systems(study.scale)["transformer"]
    ]
    return finding(pairs, {name: [result.bleu for result in row] for name, row in results.items()})


CLAIM = Claim(
    "Less built in, more data wanted",
    "Recurrence and convolution build in that words follow or neighbour each other, which helps "
    "on small corpora; attention assumes little and lets the data speak, which pays when there is "
    "much of it.",
    "Does the Transformer's advantage grow with the corpus?",
    "The gap between the Transformer and the others would not change with the size of the corpus.",
    show,
    lambda scale: [system for row in systems(scale).values() for system in row],
)
