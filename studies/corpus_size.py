"""C9: how much each system asks of the corpus.

The Transformer and the convolutional system are trained on more and more pairs, each until
validation no longer improves, with its best learning rate and its best dropout for this size. The
claim is about how the gap between the two changes.
"""

from collections.abc import Mapping, Sequence

from dragoman.lab.compare.figures import LineChart, Series, Table
from dragoman.lab.compare.runs import Result, Study
from dragoman.lab.compare.seed_statistics import interval
from dragoman.lab.compare.systems import System
from studies.finding import Claim, Finding, listed
from studies.grid import (
    best,
    chosen_rate,
    judge_sentences,
    marked,
    named_system,
    sentence_scores,
    to_be_tuned,
    tuned_words,
    tuning_tables,
)
from studies.judge import Judgement, at_least, said

OURS, PEER = "transformer", "convs2s"
_LEARNED_TO_TRANSLATE = 5.0  # BLEU, on the largest corpus


def _corpora(study: Study) -> list[str]:
    return [*(f"pairs-{size}" for size in study.scale.corpora), "all"]


def _system(study: Study, name: str, corpus: str, rate: float, dropout: float, seed: int) -> System:
    """A third of the highest cost is enough for small corpora, where validation stops it before."""
    return named_system(
        f"size-{name}-dropout-{dropout:g}",
        {"model.architecture": name, "model.dropout": dropout},
        rate=rate, share=round(study.scale.budgets[-1] / 3, 3), seed=seed, corpus=corpus,
        converged=True, optional=seed > 1,
    )  # fmt: skip


def _dropouts(study: Study, name: str, corpus: str) -> dict[float, System]:
    rate = chosen_rate(study, name)
    if rate is None:
        return {}
    return {
        dropout: _system(study, name, corpus, rate, dropout, 1) for dropout in study.scale.dropouts
    }


def _seeds(study: Study, name: str, corpus: str) -> list[System]:
    """Return the systems with the dropout that validates best, one for each seed."""
    rate, tried = chosen_rate(study, name), _dropouts(study, name, corpus)
    dropout = best(study, tried) if tried else None
    if rate is None or dropout is None:
        return []
    seeds = range(1, study.scale.seeds + 1)
    return [_system(study, name, corpus, rate, dropout, seed) for seed in seeds]


def then(study: Study) -> list[System]:
    systems: list[System] = []
    for name in (OURS, PEER):
        for corpus in _corpora(study):
            systems += _dropouts(study, name, corpus).values()
            systems += _seeds(study, name, corpus)
    return systems


def finding(
    pairs: Sequence[int],
    scores: Mapping[str, Sequence[Sequence[float]]],
    grown: Judgement,
    tuning: Sequence[Table] = (),
    tuned: str = "the learning rate tuned for each system",
) -> Finding:
    """BLEU of both systems by the number of pairs and by seeds; how much the lead has grown."""
    gaps = [
        [ours - peer for ours, peer in zip(*both, strict=True)]
        for both in zip(scores[OURS], scores[PEER], strict=True)
    ]
    curves = [_series(name, pairs, by_size) for name, by_size in scores.items()]
    means = [f"{sum(gap) / len(gap):+.1f} with {n:,}" for n, gap in zip(pairs, gaps, strict=True)]
    verdict = said(
        grown.verdict,
        "the advantage of attention grows with the corpus",
        "the advantage of attention does not grow with the corpus",
        "these runs cannot tell whether the advantage of attention grows",
    )
    seeds = min(map(len, gaps))
    return Finding(
        [
            LineChart(
                "The Transformer's lead by size of the corpus",
                "pairs",
                f"BLEU of the Transformer less that of {PEER}",
                [_series("lead", pairs, gaps)],
                log_x=True,
            ),
            LineChart("BLEU by size of the corpus", "pairs", "test BLEU", curves, log_x=True),
            *tuning,
        ],
        (
            f"The Transformer's BLEU differs from that of {PEER} by {listed(means)} pairs.",
            f"From the smallest corpus to the largest the difference changes by "
            f"{grown.interval('+.1f')} points of GLEU: {verdict}.",
        ),
        grown.verdict,
        f"Trained until validation stops improving or the budget is spent, on "
        f"{listed([f'{n:,}' for n in pairs])} pairs; {tuned}, dropout for each system and size; "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}; judged over the sentences of the test set."
        + (f" Undecided: {grown.why}." if grown.why else ""),
    )


def _series(name: str, pairs: Sequence[int], by_size: Sequence[Sequence[float]]) -> Series:
    ends = [interval(values) for values in by_size]
    return Series(
        name,
        pairs,
        [sum(values) / len(values) for values in by_size],
        [low for low, _ in ends],
        [high for _, high in ends],
    )


def _dropout_table(study: Study) -> Table:
    rows = []
    for name in (OURS, PEER):
        for corpus in _corpora(study):
            tried = {
                dropout: study.result(system)
                for dropout, system in _dropouts(study, name, corpus).items()
            }
            rows.append([name, corpus, *marked(tried)])
    return Table(
        "Dropout tried: validation BLEU (chosen: *)",
        ["system", "corpus", *(f"{dropout:g}" for dropout in study.scale.dropouts)],
        rows,
        folded=True,
    )


def _results(study: Study, name: str, seeds: int) -> list[list[Result]]:
    return [
        [study.result(system) for system in _seeds(study, name, corpus)[:seeds]]
        for corpus in _corpora(study)
    ]


def show(study: Study) -> Finding:
    every = [_seeds(study, name, corpus) for name in (OURS, PEER) for corpus in _corpora(study)]
    seeds = min(sum(study.has_result(system) for system in row) for row in every)
    results = {name: _results(study, name, seeds) for name in (OURS, PEER)}
    pairs = [row[0].pairs for row in results[OURS]]
    scores = {
        name: [[result.bleu for result in row] for row in by_size]
        for name, by_size in results.items()
    }
    learned = at_least(
        f"both translate on the largest corpus (BLEU {_LEARNED_TO_TRANSLATE:.0f})",
        [*scores[OURS][-1], *scores[PEER][-1]],
        _LEARNED_TO_TRANSLATE,
    )
    references = study.texts.test_of("all").targets
    small, large = (
        sentence_scores(results[OURS][place], references)
        - sentence_scores(results[PEER][place], references)
        for place in (0, -1)
    )
    tables = [_dropout_table(study)] if len(study.scale.dropouts) > 1 else []
    tables += tuning_tables(study, (OURS, PEER))
    grown = judge_sentences(large - small, [learned])
    return finding(pairs, scores, grown, tables, tuned_words(study.scale))


CLAIM = Claim(
    "Less built in, more data wanted",
    "Recurrence and convolution build in that words follow or neighbour each other, which helps "
    "on small corpora; attention assumes little and lets the data speak, which pays when there is "
    "much of it.",
    "Does the Transformer's advantage grow with the corpus?",
    "The gap between the Transformer and the convolutional system would not change with the size "
    "of the corpus, or would shrink.",
    show,
    lambda scale: to_be_tuned(scale, (OURS, PEER)),
    then,
)
