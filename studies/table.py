"""C7: score against training cost, and ablations.

As tables 2 and 3 of "Attention Is All You Need", small. Every architecture gets the learning rate
that suits it; the best on the validation set, and the Transformer, are also trained at a higher
cost and on a second corpus.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from dragoman.lab.compare.corpora import ALSO
from dragoman.lab.compare.figures import LineChart, Series, Table
from dragoman.lab.compare.runs import Result, Study
from dragoman.lab.compare.seed_statistics import interval, spread
from dragoman.lab.compare.systems import Scale, System
from studies.finding import Claim, Finding, Verdict, listed
from studies.grid import (
    NEURAL,
    best,
    cell,
    chosen_rate,
    compared,
    finalists,
    marked,
    named_system,
    to_be_tuned,
    tuned_again,
    tuned_words,
    tuning_budget,
    tuning_tables,
)
from studies.judge import Check, Judgement, all_of, at_least, judge, said
from studies.scales import QUICK, architecture

_PEERS = ("rnn", "rnn-attention", "gnmt", "convs2s")
_LEXICAL = architecture("lexical")
_NEARLY = 0.9
MANY = 5  # seeds, of which every one has to agree
_LEARNED_TO_TRANSLATE = 15.0  # BLEU below which a comparison tells nothing
# differences of validation BLEU in the paper's table 3, from the base's 25.8
_PAPER = {
    "1 head": -0.9,
    "4 × the heads": -0.4,
    "1/3 of the layers": -2.1,
    "1/2 the width": -1.3,
    "1/2 the feed-forward width": -0.4,
    "2 × the feed-forward width": +0.4,
    "no dropout": -1.2,
    "no label smoothing": -0.5,
    "learned positions": -0.1,
}


def _ablations(scale: Scale) -> dict[str, dict[str, object]]:
    """One thing changed in the Transformer."""
    settings = scale.settings
    heads, layers = settings["model.num_heads"], settings["model.num_encoder_layers"]
    inner = settings["model.d_ff"]
    shallow = max(1, layers // 3)
    return {
        "1 head": {"model.num_heads": 1},
        "4 × the heads": {"model.num_heads": 4 * heads},
        "1/3 of the layers": {
            "model.num_encoder_layers": shallow,
            "model.num_decoder_layers": shallow,
        },
        "1/2 the width": {"model.d_model": settings["model.d_model"] // 2},
        "1/2 the feed-forward width": {"model.d_ff": inner // 2},
        "2 × the feed-forward width": {"model.d_ff": 2 * inner},
        "no dropout": {"model.dropout": 0.0},
        "no label smoothing": {"training.label_smoothing": 0.0},
        "learned positions": {"model.positions.kind": "learned"},
    }


def _ablated(study: Study) -> dict[str, list[System]]:
    """The systems with one thing changed, and the base; by seeds. None in a quick comparison.

    They are trained at the second highest cost.
    """
    scale, rate = study.scale, chosen_rate(study, "transformer")
    if scale.name == QUICK.name or rate is None:
        return {}
    share, seeds = scale.budgets[-2], range(1, scale.seeds + 1)
    found = {
        "nothing": [cell(scale, "transformer", rate, share, seed, optional=True) for seed in seeds]
    }
    for number, (name, settings) in enumerate(_ablations(scale).items()):
        found[name] = [
            named_system(
                f"ablation-{number}", settings, rate=rate, share=share, seed=seed, optional=True
            )
            for seed in seeds
        ]
    return found


def by_cost(study: Study, name: str) -> dict[float, list[System]]:
    """An architecture at every cost that it is trained at; by seeds.

    It needs the cost of the tuning and, for finalists, the costs above, with seed 1; and both
    members of the ensemble.
    """
    scale, rate = study.scale, chosen_rate(study, name)
    if rate is None:
        return {}
    tuned_at = tuning_budget(scale)
    found: dict[float, list[System]] = {}
    for share in scale.budgets:
        if share <= tuned_at:
            # The Transformers at the cost of the tuning are the members of the ensemble.
            needed = 0 if share < tuned_at else scale.seeds if name == "transformer" else 1
            found[share] = [
                cell(scale, name, rate, share, seed, optional=seed > needed)
                for seed in range(1, scale.seeds + 1)
            ]
        elif name in finalists(study):
            found[share] = _finalist(study, name, share, scale.seeds)
    return {share: systems for share, systems in found.items() if systems}


def _finalist(
    study: Study, name: str, share: float, seeds: int, corpus: str = "all"
) -> list[System]:
    """Return the systems at a higher cost, with the settings chosen for it, if they are chosen."""
    chosen = best(study, tuned_again(study, name))
    if chosen is None:
        return []
    rate, dropout = chosen
    return [
        cell(study.scale, name, rate, share, seed, corpus, dropout, optional=seed > 1)
        for seed in range(1, seeds + 1)
    ]


def _tables_of_finalists(study: Study) -> list[Table]:
    """Describe how the settings at the higher costs were chosen; empty if there was no choice."""
    scale = study.scale
    if len(scale.budgets) < 3:
        return []
    rows = []
    for name in finalists(study):
        tried = {what: study.result(system) for what, system in tuned_again(study, name).items()}
        for (rate, dropout), score in zip(tried, marked(tried), strict=True):
            rows.append([name, f"{rate:g}", f"{dropout:g}", score])
    return [
        Table(
            f"Tuned again at {scale.budgets[2] * scale.flops:.3g} FLOPs: validation BLEU "
            "(chosen: *)",
            ["system", "learning rate", "dropout", "BLEU"],
            rows,
            folded=True,
        )
    ]


def _on_second(study: Study) -> dict[str, dict[float, list[System]]]:
    """The Transformer and the best of the others on the second corpus, at the two highest costs."""
    if not study.texts.has_also:
        return {}
    found: dict[str, dict[float, list[System]]] = {}
    for name in finalists(study)[:2]:
        seeds = study.scale.seeds
        costs = {
            share: _finalist(study, name, share, seeds, ALSO) for share in study.scale.budgets[-2:]
        }
        if all(costs.values()):
            found[name] = costs
    return found


def ensemble(study: Study) -> System | None:
    """Build an ensemble of two Transformers at the cost of the tuning."""
    rate = chosen_rate(study, "transformer")
    if rate is None or study.scale.seeds < 2:
        return None
    share = tuning_budget(study.scale)
    members = tuple(cell(study.scale, "transformer", rate, share, seed) for seed in (1, 2))
    if not all(study.has_result(member) for member in members):
        return None
    name = f"ensemble-of-{members[0].name}"
    return System(name, members=members, share=2 * share)


def then(study: Study) -> list[System]:
    """After the tuning: other costs, the second corpus, more seeds, the ablations."""
    rows = [row for name in NEURAL for row in by_cost(study, name).values()]
    rows += [list(tuned_again(study, name).values()) for name in finalists(study)]
    rows += [row for costs in _on_second(study).values() for row in costs.values()]
    together = ensemble(study)
    rows += [[together]] if together is not None else []
    systems = [system for row in rows for system in row]
    if all(study.has_result(system) for system in systems):
        # last: they add to the picture, and the verdict does not rest on them
        systems += [system for row in _ablated(study).values() for system in row]
    return systems


Costs = Mapping[float, Sequence[Result]]
"""Results by cost, cheapest first, and by seeds."""


@dataclass(frozen=True)
class Field:
    """The measurements on one corpus."""

    corpus: str
    systems: Mapping[str, Costs]
    # the Transformer against systems before it, at each cost that both were trained at
    judged: Mapping[str, Mapping[float, Judgement]]
    others: Mapping[str, Result] = field(default_factory=dict)  # "lexical", "ensemble"
    together: Judgement | None = None  # the ensemble against its better member

    def regions(self) -> list[tuple[str, Verdict]]:
        """Judge at each cost if the system is ahead of all others."""
        found: list[tuple[str, Verdict]] = []
        for share, ours in self.systems["transformer"].items():
            here = [by_share[share] for by_share in self.judged.values() if share in by_share]
            if here:
                found.append((f"{self.corpus}, {ours[0].flops:.2g} FLOPs", all_of(here)))
        return found

    def crossings(self) -> dict[str, "Crossing"]:
        """Where the Transformer overtakes each of the others, if it does."""
        ours = self.systems["transformer"]
        found = {peer: crossing(ours, self.systems[peer]) for peer in self.judged}
        return {peer: one for peer, one in found.items() if one is not None}

    def leaders(self) -> list[tuple[float, str]]:
        """Who is ahead at each cost that the Transformer was trained at."""
        found = []
        for share, ours in self.systems["transformer"].items():
            there = {name: costs[share] for name, costs in self.systems.items() if share in costs}
            name = max(there, key=lambda name: _mean_bleu(there[name]))
            found.append((ours[0].flops, name))
        return found

    def lines(self) -> LineChart:
        series = []
        for name, costs in self.systems.items():
            ends = [interval([result.bleu for result in seeds]) for seeds in costs.values()]
            series.append(
                Series(
                    name,
                    [seeds[0].flops for seeds in costs.values()],
                    [_mean_bleu(seeds) for seeds in costs.values()],
                    [low for low, _ in ends],
                    [high for _, high in ends],
                )
            )
        if "ensemble" in self.others:
            together = self.others["ensemble"]
            series.append(Series("ensemble", [together.flops], [together.bleu]))
        title = f"Score by training cost: {self.corpus}"
        return LineChart(title, "training FLOPs", "test BLEU", series, log_x=True)

    def table(self) -> Table:
        rows = [
            _row(name, seeds) for name, costs in self.systems.items() for seeds in costs.values()
        ]
        rows += [_row(name, [result]) for name, result in self.others.items()]
        return Table(
            f"Every system at every cost: {self.corpus}",
            ["system", "FLOPs", "BLEU", "chrF", "seeds", "parameters", "steps", "seconds"],
            rows,
        )


@dataclass(frozen=True)
class Crossing:
    """The cost at which one curve of BLEU crosses another: its mean over seeds and an interval.

    With one seed there is no interval: the ends are the two costs around it.
    """

    flops: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        how = f"95% t-interval over {self.seeds} seeds" if self.seeds > 1 else "one seed: between"
        ends = f"{self.low:.2g}{', ' if self.seeds > 1 else ' and '}{self.high:.2g}"
        return f"{self.flops:.2g} FLOPs ({how} {ends})"


def crossing(ours: Costs, theirs: Costs) -> Crossing | None:
    """Where ours overtakes theirs: a line between the costs, in the logarithm of the cost."""
    shares = [share for share in ours if share in theirs]
    for before, behind in pairwise(shares):
        ends = [math.log10(_mean_of([r.flops for r in ours[s]])) for s in (before, behind)]
        seeds = min(len(rows[share]) for rows in (ours, theirs) for share in (before, behind))
        gaps = [
            [ours[s][seed].bleu - theirs[s][seed].bleu for s in (before, behind)]
            for seed in range(seeds)
        ]
        if _mean_of([first for first, _ in gaps]) >= 0 or _mean_of([last for _, last in gaps]) <= 0:
            continue
        places = [ends[0] + (ends[1] - ends[0]) * a / (a - b) for a, b in gaps if a < 0 < b]
        low, high = interval(places) if len(places) > 1 else ends
        return Crossing(10 ** _mean_of(places), 10**low, 10**high, len(places))
    return None


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _mean_bleu(seeds: Sequence[Result]) -> float:
    return sum(result.bleu for result in seeds) / len(seeds)


def _row(name: str, seeds: Sequence[Result]) -> list[str]:
    return [
        name,
        f"{seeds[0].flops:.3g}",
        spread([result.bleu for result in seeds], ".2f"),
        spread([result.chrf for result in seeds], ".2f"),
        str(len(seeds)),
        f"{seeds[0].parameters:,}",
        f"{seeds[0].steps:,}",
        f"{seeds[0].seconds:.0f}",
    ]


def finding(
    fields: Sequence[Field],
    ablated: Mapping[str, Sequence[Result]],
    tuning: Sequence[Table] = (),
    tuned: str = "the learning rate tuned for each system",
) -> Finding:
    """`fields`: the corpus, and perhaps a second one; `ablated`: the base is "nothing"."""
    verdicts = [
        judgement for one in fields for costs in one.judged.values() for judgement in costs.values()
    ]
    told = [_said(one) for one in fields]
    told += [_about_ensemble(fields[0])] if fields[0].together else []
    verdict = all_of(verdicts)
    whys = dict.fromkeys(judgement.why for judgement in verdicts if judgement.why)
    missing = f" Undecided: {'; '.join(whys)}."
    return Finding(
        [
            *[one.lines() for one in fields],
            *[one.table() for one in fields],
            *([_ablation_table(ablated)] if len(ablated) > 1 else []),
            *tuning,
        ],
        (" ".join(told), _about_ablations(ablated)),
        verdict,
        f"Adam; {tuned}; greedy search. At each cost the Transformer has to be ahead of each "
        "system before it, over the sentences of the test set and with every one of at least "
        f"{MANY} seeds; at the highest cost, who is behind has to have nearly converged. The claim "
        "says this of every cost, so one cost at which another system is ahead refutes it."
        + (missing if verdict == "undecided" and whys else ""),
        [region for one in fields for region in one.regions()],
    )


def _said(one: Field) -> str:
    """Describe the findings on one corpus."""
    last_of = {name: list(costs.values())[-1] for name, costs in one.judged.items()}
    gaps = [f"{judgement.interval('+.1f')} to {name}" for name, judgement in last_of.items()]
    crossed = [f"{name} at {where}" for name, where in one.crossings().items()]
    leading = [
        f"{name} at {listed([f'{flops:.2g}' for flops, _ in rows])} FLOPs"
        for name, rows in groupby(one.leaders(), key=lambda leader: leader[1])
    ]
    last = list(one.systems["transformer"].values())[-1]
    return (
        f"On {one.corpus} the lead is with {', then '.join(leading)}; at {last[0].flops:.2g} FLOPs "
        f"the Transformer has {_mean_bleu(last):.1f} BLEU. In points of GLEU, at the highest cost "
        f"that both reached, it differs by {listed(gaps)}."
        + (f" It overtakes {listed(crossed)}." if crossed else "")
    )


def _about_ensemble(one: Field) -> str:
    """Told, and no part of the verdict: its members cost little, and may be far from converged."""
    assert one.together is not None
    better = said(
        one.together.verdict,
        "it is better still",
        "it is no better than that one",
        "whether it is better is not decided",
    )
    result = one.others["ensemble"]
    return (
        f"An ensemble of two Transformers, {result.flops:.2g} FLOPs together, has "
        f"{result.bleu:.1f} BLEU; beside the better of the two it differs by "
        f"{one.together.interval('+.1f')} points of GLEU: {better}."
    )


def _ablation_table(ablated: Mapping[str, Sequence[Result]]) -> Table:
    base = [result.bleu for result in ablated["nothing"]]
    rows = []
    for name, results in ablated.items():
        bleu = [result.bleu for result in results]
        gained = judge(bleu, base)
        rows.append(
            [
                name,
                spread(bleu, ".2f"),
                gained.interval("+.2f") if name in _PAPER else "",
                f"{_PAPER[name]:+.1f}" if name in _PAPER else "",
                f"{results[0].parameters:,}",
            ]
        )
    return Table(
        f"One thing changed in the Transformer, at {ablated['nothing'][0].flops:.3g} FLOPs",
        ["changed", "BLEU", "difference", "in the paper's table 3", "parameters"],
        rows,
    )


def _about_ablations(ablated: Mapping[str, Sequence[Result]]) -> str:
    if len(ablated) < 2:
        return "Changes to the Transformer itself were not trained here."
    base = [result.bleu for result in ablated["nothing"]]
    mean = {
        name: sum(result.bleu for result in results) / len(results) - sum(base) / len(base)
        for name, results in ablated.items()
        if name in _PAPER
    }
    worst = min(mean, key=lambda name: mean[name])
    same = [name for name in mean if (mean[name] < 0) == (_PAPER[name] < 0)]
    return (
        f"Of the changes to the Transformer, {worst} costs the most ({mean[worst]:+.1f} BLEU); "
        f"{len(same)} of {len(mean)} go the same way as in the paper's table 3."
    )


def show(study: Study) -> Finding:
    fields = [_field(study, "all", {name: by_cost(study, name) for name in NEURAL})]
    second = _on_second(study)
    ours = [system for seeds in second.get("transformer", {}).values() for system in seeds]
    if any(study.has_result(system) for system in ours):
        fields.append(_field(study, ALSO, second))
    ablated = {
        name: [study.result(system) for system in systems]
        for name, systems in _ablated(study).items()
        if all(study.has_result(system) for system in systems)
    }
    chosen = _tables_of_finalists(study)
    tuned = tuned_words(study.scale)
    if chosen:
        tuned += ", and again at the higher costs, with its dropout"
    return finding(fields, ablated, [*tuning_tables(study, NEURAL), *chosen], tuned)


def _field(study: Study, corpus: str, systems: Mapping[str, Mapping[float, list[System]]]) -> Field:
    """Collect the measurements on a corpus, as far as there are results."""
    results: dict[str, dict[float, list[Result]]] = {}
    for name, costs in systems.items():
        trained = {
            share: [study.result(system) for system in seeds if study.has_result(system)]
            for share, seeds in costs.items()
        }
        if any(trained.values()):
            results[name] = {share: seeds for share, seeds in trained.items() if seeds}
    references = study.texts.test_of(corpus).targets
    called = study.texts.name_of(corpus)
    judged = {
        peer: judged_by_cost(called, peer, results["transformer"], results[peer], references)
        for peer in _PEERS
        if peer in results
    }
    others: dict[str, Result] = {}
    verdict = None
    if corpus == "all":
        others["lexical"] = study.result(_LEXICAL)
        together = ensemble(study)
        if together is not None and study.has_result(together):
            others["ensemble"] = study.result(together)
            members = [study.result(member) for member in together.members]
            better = max(members, key=lambda member: member.bleu)
            learned = _learned(called, members)
            verdict = compared([others["ensemble"]], [better], references, [learned])
    return Field(called, results, judged, others, verdict)


def judged_by_cost(
    corpus: str, peer: str, ours: Costs, theirs: Costs, references: Sequence[str]
) -> dict[float, Judgement]:
    """The Transformer against a peer, at every cost that both were trained at."""
    judged = {}
    for share in (share for share in ours if share in theirs):
        ahead = _mean_bleu(ours[share]) > _mean_bleu(theirs[share])
        checks = [_learned(corpus, ours[share] if ahead else theirs[share])]
        checks.append(
            Check(
                f"there are at least {MANY} seeds of each",
                min(len(ours[share]), len(theirs[share])) >= MANY,
            )
        )
        if share == max(ours):
            behind = peer if ahead else "the Transformer"
            checks.append(_converged(corpus, behind, theirs if ahead else ours))
        judged[share] = compared(ours[share], theirs[share], references, checks)
    return judged


def _converged(corpus: str, name: str, costs: Costs) -> Check:
    """Check that the system behind is not about to catch up, as a slow starter would."""
    *_, before, last = [0.0, *(_mean_bleu(seeds) for seeds in costs.values())]
    return Check(
        f"{name}, which is behind, has nearly converged on {corpus} ({_NEARLY:.0%} of its BLEU at "
        "the next lower cost)",
        before >= _NEARLY * last,
    )


def _learned(corpus: str, ahead: Sequence[Result]) -> Check:
    return at_least(
        f"who is ahead translates on {corpus} (BLEU {_LEARNED_TO_TRANSLATE:.0f})",
        [result.bleu for result in ahead],
        _LEARNED_TO_TRANSLATE,
    )


CLAIM = Claim(
    "Score against training cost",
    "At the same training cost the Transformer beats recurrent and convolutional systems.",
    "Which system translates best for the same training cost?",
    "A recurrent or convolutional system would reach a better score than the Transformer at the "
    "same cost.",
    show,
    lambda scale: [_LEXICAL, *to_be_tuned(scale, NEURAL)],
    then,
)
