"""Score translations.

sacreBLEU's corpus scores, each with the signature that makes it comparable (Post 2018); paired
bootstrap resampling; GLEU of a sentence.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

METRICS = ("BLEU", "chrF2", "TER")
_CHRF = CHRF()
_LONGEST_NGRAM = 4  # tokens in the longest n-grams of GLEU


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}  ({self.signature})"


def _metrics(lowercase: bool) -> dict[str, BLEU | CHRF | TER]:
    return {
        "BLEU": BLEU(lowercase=lowercase),
        "chrF2": CHRF(lowercase=lowercase),
        # sacreBLEU's TER ignores case by default.
        "TER": TER(case_sensitive=not lowercase),
    }


def score(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
) -> list[Score]:
    """Score a system's output against one or several sets of references."""
    scorers = _metrics(lowercase)
    scores = []
    for name in metrics:
        result = scorers[name].corpus_score(list(hypotheses), [list(r) for r in references])
        scores.append(Score(name, float(result.score), str(scorers[name].get_signature())))
    return scores


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return score(hypotheses, [references], ["BLEU"])[0].value


def sentence_chrf(hypothesis: str, references: Sequence[str]) -> float:
    """Return chrF of a sentence against the best of its references."""
    return float(_CHRF.sentence_score(str(hypothesis), list(references)).score)


@dataclass(frozen=True)
class Comparison:
    """A system's scores, and by metric the p-value of its difference to the first system."""

    system: str
    scores: list[Score]
    p_values: dict[str, float | None]


def compare(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    lowercase: bool = False,
    samples: int = 1000,
) -> list[Comparison]:
    """Paired bootstrap resampling (Koehn 2004) of every system against the first."""
    from sacrebleu.significance import PairedTest

    scorers = {name: metric for name, metric in _metrics(lowercase).items() if name != "TER"}
    named: list[tuple[str, Sequence[str]]] = [(name, list(outputs)) for name, outputs in systems]
    test = PairedTest(
        named,
        scorers,
        references=[list(r) for r in references],
        test_type="bs",
        n_samples=samples,
        n_jobs=1,
    )
    signatures, table = test()
    comparisons = []
    for row, (name, _) in enumerate(named):
        entry: dict[str, Any] = {metric: table[metric][row] for metric in scorers}
        scores = [Score(m, float(entry[m].score), str(signatures[m])) for m in scorers]
        # For equal outputs, the test reports a significant difference of zero.
        same = row > 0 and named[row][1] == named[0][1]
        comparisons.append(
            Comparison(name, scores, {m: 1.0 if same else entry[m].p_value for m in scorers})
        )
    return comparisons


def gleu(output: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """Return GLEU of a sentence, from 0 (nothing in common) to 1 (equal).

    ("Google's Neural Machine Translation System", Wu et al. 2016, section 4.) BLEU is meant for
    whole sets; GLEU suits single sentences. It is the smaller of precision and recall of n-grams
    of one to four tokens.

    >>> gleu("the cat sat".split(), "the cat".split())  # 3 n-grams in common, of 6 and of 3
    0.5
    """
    ours, theirs = _ngrams(output), _ngrams(reference)
    # Dividing by the larger total gives the smaller of precision and recall.
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


def _ngrams(tokens: Sequence[Hashable]) -> Counter[tuple[Hashable, ...]]:
    ngrams: Counter[tuple[Hashable, ...]] = Counter()
    for length in range(1, _LONGEST_NGRAM + 1):
        ngrams.update(tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1))
    return ngrams
