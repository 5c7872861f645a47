"""C8: what heads look at, and one head against several.

The task needs two words to be looked up at once.

The task: of nine digits, each target word names one digit together with those three places before
and behind it. From the middle one's place, one head would have to look both ways and still tell the
two apart.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from dragoman.compare.figures import Bars, Finding, Map, named
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import WORDS_AS_PIECES, System, architecture
from dragoman.data.prepare import Sentences
from dragoman.inspect.words import piece_label

HEADS = (1, 4)
_SMALL = {
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.dropout": 0.0,
    **WORDS_AS_PIECES,
}
_LOOKUPS = {
    n: System(f"lookup-heads-{n}", {**_SMALL, "model.heads": n}, "lookup", 0.5) for n in HEADS
}
_PICTURED = architecture("transformer")
_SENTENCES, _PICTURES = 30, 4


def words_right(outputs: Sequence[str], test: Sentences) -> float:
    """The share of target words that stand at their place."""
    right = total = 0
    for said, wanted in zip(outputs, test.targets, strict=True):
        total += len(wanted.split())
        right += sum(a == b for a, b in zip(said.split(), wanted.split(), strict=False))
    return right / max(total, 1)


def finding(
    pictures: Sequence[Map], sharpness: Sequence[float], right: Mapping[int, float]
) -> Finding:
    """`sharpness`: for each cross-attention head the weight of its first choice, on average."""
    one, several = right[HEADS[0]], right[HEADS[1]]
    names = [f"{n} head{'s' if n > 1 else ''}" for n in right]
    bars = Bars("Two lookups at once", "share of words right", names, list(right.values()))
    return Finding(
        [*pictures, bars],
        (
            f"Of the Transformer's {len(sharpness)} cross-attention heads the sharpest gives its "
            f"first choice {max(sharpness):.0%} of its weight on average, the most even-handed "
            f"{min(sharpness):.0%}.",
            "On the task of two lookups "
            f"{named(dict(zip(names, right.values(), strict=True)), '.0%')} of the words are "
            "right at the same cost: several heads are "
            f"{'ahead of' if several > one else 'not ahead of'} one.",
        ),
        "seen" if several > one else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    translator = study.translator(_PICTURED)
    test = study.texts.test_of("all")
    order = sorted(test.sources, key=lambda source: (abs(len(source.split()) - 7), source))[
        :_SENTENCES
    ]
    first_choices = []
    for source in order:
        cross = np.asarray(translator.attention(source)["cross"])  # (L, H, T, S)
        first_choices.append(cross.max(axis=-1).mean(axis=-1).ravel())
    right = {
        n: words_right(study.result(s).outputs, study.texts.test_of("lookup"))
        for n, s in _LOOKUPS.items()
    }
    return finding(
        _pictures(translator.attention(order[0])), np.mean(first_choices, axis=0).tolist(), right
    )


def _pictures(seen: Mapping[str, object]) -> list[Map]:
    """The first heads of the last layer but one, which aligns best."""
    cross = np.asarray(seen["cross"])
    layer = max(0, len(cross) - 2)
    rows, columns = (
        [piece_label(piece) for piece in cast(list[str], seen[side])]
        for side in ("target", "source")
    )
    return [
        Map(
            f"Layer {layer + 1}, head {head + 1}",
            rows,
            columns,
            np.round(cross[layer, head], 3).tolist(),
        )
        for head in range(min(_PICTURES, cross.shape[1]))
    ]


CLAIM = Claim(
    "Several heads look at several things",
    "One query cannot fasten on two words at once, a verb and a noun, say; several heads can, "
    "each with queries, keys and values of its own.",
    "Do several heads learn several lookups faster than one head?",
    "One head would learn as fast as several, however many lookups there are.",
    show,
    lambda scale: [_PICTURED, *_LOOKUPS.values()],
)
