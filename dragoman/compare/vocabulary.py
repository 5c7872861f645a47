"""C10: words, pieces and characters, and what unknown words cost."""

from collections.abc import Mapping

import numpy as np

from dragoman.compare.figures import Bars, Finding, Lines, Series, named
from dragoman.compare.length import bleu_by_length
from dragoman.compare.runs import Claim, Study
from dragoman.compare.systems import WORDS_AS_PIECES, System, architecture

_CUTS = {
    "words": System("words", WORDS_AS_PIECES),
    "BPE": architecture("transformer"),
    "characters": System("characters", {"text.vocabulary": "character"}),
}


def finding(
    scores: Mapping[str, float], apart: Mapping[str, tuple[float, float]], unknown: float
) -> Finding:
    """BLEU over all sources, and over those without and with an unknown word.

    `unknown` is the share of sources with a word that the word vocabulary lacks.
    """
    lost = {name: without - with_ for name, (without, with_) in apart.items()}
    seen = scores["BPE"] > scores["words"] and lost["words"] > lost["BPE"]
    return Finding(
        [
            Bars("BLEU by what text is cut into", "BLEU", list(scores), list(scores.values())),
            Lines(
                "Sentences without and with an unknown word",
                "0: without, 1: with",
                "BLEU",
                [Series(name, [0, 1], values) for name, values in apart.items()],
            ),
        ],
        (
            f"With {unknown:.0%} of the test sentences holding a word that the word vocabulary "
            f"lacks, BLEU is {named(scores)} at the same cost.",
            f"From sentences without such a word to those with one, BLEU drops by {named(lost)}: "
            f"unknown words {'hurt' if seen else 'do not hurt'} the word vocabulary more than "
            "pieces.",
        ),
        "seen" if seen else "not seen",
        "",
    )


def show(study: Study) -> Finding:
    test = study.texts.test_of("all")
    codec = study.translator(_CUTS["words"]).codec
    lacks = np.array([codec.source.unk in ids for ids in codec.encode_source(test.sources)])
    rows = [np.flatnonzero(~lacks), np.flatnonzero(lacks)]
    results = {name: study.result(system) for name, system in _CUTS.items()}
    apart = {name: bleu_by_length(result.outputs, test, rows) for name, result in results.items()}
    return finding(
        {name: result.bleu for name, result in results.items()},
        {name: (without, with_) for name, (without, with_) in apart.items()},
        float(lacks.mean()),
    )


CLAIM = Claim(
    "Unknown words hurt",
    "A vocabulary of words has no answer to a word that it does not hold; byte-pair encoding, "
    "between words and characters, leaves none unknown.",
    "What do words that were hardly seen in training cost, by what text is cut into?",
    "The word vocabulary would translate rare words as well as pieces do.",
    show,
    lambda scale: [*_CUTS.values()],
)
