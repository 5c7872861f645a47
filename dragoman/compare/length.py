"""C1: a sentence squeezed into one vector of fixed size, and what becomes of long ones."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dragoman.compare.figures import Finding, Lines, Series, listed
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import architecture
from dragoman.data.prepare import Sentences
from dragoman.evaluate.metrics import bleu

SHARES = (0.25, 0.5, 0.75, 0.9)  # of the sentences, below each edge between groups
_PEERS = {
    "RNN": architecture("rnn"),
    "RNN with attention": architecture("rnn-attention"),
    "Transformer": architecture("transformer"),
}


def groups_by_length(sources: Sequence[str]) -> list[np.ndarray]:
    """Rows in groups from the shortest sources to the longest tenth; one length is never parted."""
    lengths = np.array([len(source.split()) for source in sources])
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


def mean_words(sources: Sequence[str], rows: Sequence[np.ndarray]) -> list[float]:
    return [float(np.mean([len(sources[r].split()) for r in group])) for group in rows]


def finding(words: Sequence[float], scores: Mapping[str, Sequence[float]]) -> Finding:
    """`scores`: BLEU for each system and each group of sentences of so many words on average."""
    kept = {name: values[-1] / max(values[0], 1e-9) for name, values in scores.items()}
    fixed = kept["RNN"]
    others = [share for name, share in kept.items() if name != "RNN"]
    falls = [
        f"from {values[0]:.1f} to {values[-1]:.1f} for the {name}"
        for name, values in scores.items()
    ]
    seen = fixed < min(others)
    return Finding(
        [
            Lines(
                "BLEU by length of the source",
                "source words (mean of the group)",
                "BLEU",
                [Series(name, words, values) for name, values in scores.items()],
            )
        ],
        (
            f"From sentences of {words[0]:.1f} words to those of {words[-1]:.1f}, BLEU goes "
            f"{listed(falls)}.",
            f"The longest keep {fixed:.0%} of the shortest ones' score in the RNN without "
            f"attention and {listed([f'{share:.0%}' for share in others])} in the others: the "
            f"fixed vector {'loses most' if seen else 'does not lose most'} on long sentences "
            "here.",
        ),
        "seen" if seen else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    test = study.texts.test_of("all")
    rows = groups_by_length(test.sources)
    scores = {
        name: bleu_by_length(study.result(s).outputs, test, rows) for name, s in _PEERS.items()
    }
    return finding(mean_words(test.sources, rows), scores)


CLAIM = Claim(
    "The bottleneck of a fixed vector",
    "A recurrent encoder hands over one vector, however long the sentence is: long sentences "
    "suffer, and attention, which may look at every word, mends that.",
    "Does a recurrent encoder that hands over one vector lose long sequences, and does "
    "attention keep them?",
    "The network with one vector would copy long sequences as well as short ones, or the one "
    "with attention would lose as much.",
    show,
    lambda scale: [*_PEERS.values()],
)
