"""C2: what a recurrent network still knows of words that stood far back.

The task is to copy a sequence.

The gradient is that of the first step of training, when all words are equally unknown; later it is
large where a word is not learned yet, and tells less about the way back.
"""

from collections.abc import Mapping, Sequence

from dragoman.compare.figures import Finding, Lines, Series, named
from dragoman.compare.language import LONGEST_COPY, copy_pairs
from dragoman.compare.probe import gradient_by_position, model_of, right_by_position, teacher_forced
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import WORDS_AS_PIECES, System, architecture
from dragoman.model.build import build_model

_PROBES = 64


def _copier(name: str) -> System:
    copier = architecture(name, 0.5, "copy")
    return System(copier.name, {**copier.settings, **WORDS_AS_PIECES}, "copy", 0.5)


_PEERS = {name: _copier(name) for name in ("rnn", "rnn-attention", "transformer")}


def finding(
    gradients: Mapping[str, Sequence[float]], accuracies: Mapping[str, Sequence[float]]
) -> Finding:
    """For each system, by position in the source: gradient norm and share of correct words."""
    words = range(1, LONGEST_COPY + 1)
    far = {name: values[0] / values[-1] for name, values in gradients.items()}
    third = LONGEST_COPY // 3
    thirds = {
        name: (sum(v[:third]) / third, sum(v[-third:]) / third) for name, v in accuracies.items()
    }
    fades, forgets = far["rnn"] < far["transformer"], thirds["rnn"][0] < thirds["rnn"][1]
    from_the_end = [LONGEST_COPY - n for n in words]
    reached = []
    for name, norms in gradients.items():
        reached.append(Series(name, from_the_end, [norm / norms[-1] for norm in norms]))
    return Finding(
        [
            Lines(
                "Gradient that reaches a word at first",
                "words from the end",
                "norm, the last word's = 1",
                reached,
                log_y=True,
            ),
            Lines(
                "Words said rightly",
                "position in the source",
                "share right",
                [Series(name, list(words), values) for name, values in accuracies.items()],
            ),
        ],
        (
            f"When training to copy {LONGEST_COPY} words begins, the gradient at the first is "
            f"{named(far, '.2f')} times that at the last: in the recurrent network it "
            f"{'fades' if fades else 'does not fade'} beside the Transformer.",
            f"Of the first {third} words {named({n: v[0] for n, v in thirds.items()}, '.0%')} are "
            f"right, of the last {third} {named({n: v[1] for n, v in thirds.items()}, '.0%')}: "
            "without attention the words far back are "
            f"{'the harder ones' if forgets else 'not the harder ones here'}.",
        ),
        "seen" if fades and forgets else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    sources, targets = zip(*copy_pairs(_PROBES, 9, shortest=LONGEST_COPY), strict=True)
    gradients, accuracies = {}, {}
    for name, system in _PEERS.items():
        translator = study.translator(system)
        (model, device) = model_of(translator)
        codec = translator.codec
        fresh = (
            build_model(model.config, codec.source, codec.target, codec.shared).to(device).eval()
        )
        pieces = teacher_forced(translator, sources, targets)
        gradients[name] = gradient_by_position(fresh, *pieces).mean(dim=0)[:LONGEST_COPY].tolist()
        accuracies[name] = (
            right_by_position(model, *pieces).float().mean(dim=0)[:LONGEST_COPY].tolist()
        )
    return finding(gradients, accuracies)


CLAIM = Claim(
    "Recency and vanishing gradients",
    "A recurrent network's gradient vanishes on its way back, and its last state mostly stands "
    "for the last words: what was said first is the hardest to say again.",
    "Can a recurrent network still say the first word after many others, and does a gradient "
    "reach it?",
    "The gradient would reach the first word undiminished, and accuracy would not fall with the "
    "number of words in between.",
    show,
    lambda scale: [*_PEERS.values()],
)
