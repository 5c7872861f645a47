"""Scores of translations.

sacreBLEU's scores of a corpus, each with the signature that makes it comparable (Post 2018); paired
bootstrap; GLEU of one sentence.
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
_LONGEST_RUN = 4  # tokens that GLEU counts together


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
        "TER": TER(case_sensitive=not lowercase),
    }


def score(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
) -> list[Score]:
    """Scores of a system's output against one or several references, each as long as the output."""
    made = _metrics(lowercase)
    scores = []
    for name in metrics:
        result = made[name].corpus_score(list(hypotheses), [list(r) for r in references])
        scores.append(Score(name, float(result.score), str(made[name].get_signature())))
    return scores


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return score(hypotheses, [references], ["BLEU"])[0].value


def sentence_chrf(hypothesis: str, references: Sequence[str]) -> float:
    """chrF of one sentence, the best of its references."""
    return float(_CHRF.sentence_score(str(hypothesis), list(references)).score)


@dataclass(frozen=True)
class Comparison:
    """A system beside the first one: its scores and, per metric, its p-value.

    That is the chance that the difference is luck.
    """

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

    made = {name: metric for name, metric in _metrics(lowercase).items() if name != "TER"}
    named: list[tuple[str, Sequence[str]]] = [(name, list(outputs)) for name, outputs in systems]
    test = PairedTest(
        named,
        made,
        references=[list(r) for r in references],
        test_type="bs",
        n_samples=samples,
        n_jobs=1,
    )
    signatures, table = test()
    comparisons = []
    for row, (name, _) in enumerate(named):
        entry: dict[str, Any] = {metric: table[metric][row] for metric in made}
        scores = [Score(m, float(entry[m].score), str(signatures[m])) for m in made]
        # the test would take no difference for a sure one
        same = row > 0 and named[row][1] == named[0][1]
        comparisons.append(
            Comparison(name, scores, {m: 1.0 if same else entry[m].p_value for m in made})
        )
    return comparisons


def gleu(output: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """GLEU of one sentence, from 0 (nothing in common) to 1 (the same).

    ("Google's Neural Machine Translation System", Wu et al. 2016, section 4.) BLEU is a score of
    whole sets. For single sentences this one is kinder: of all runs of one to four tokens, the
    share that output and reference have in common, of the output's or of the reference's,
    whichever is smaller.

    >>> gleu("the cat sat".split(), "the cat".split())  # 3 runs in common, of 6 and of 3
    0.5
    """
    ours, theirs = _runs(output), _runs(reference)
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


def _runs(tokens: Sequence[Hashable]) -> Counter[tuple[Hashable, ...]]:
    runs: Counter[tuple[Hashable, ...]] = Counter()
    for length in range(1, _LONGEST_RUN + 1):
        runs.update(tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1))
    return runs
