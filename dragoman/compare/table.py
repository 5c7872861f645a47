"""C7: score against training cost, and ablations.

As tables 2 and 3 of "Attention Is All You Need", small. Every architecture is trained in several
sizes at several costs, with the learning rate that suits it; the size that validates best stands
for it, and is trained with several seeds at the highest cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from dragoman.compare.figures import Finding, Lines, Series, Table, listed
from dragoman.compare.grid import (
    NEURAL,
    best,
    cell,
    chosen_rate,
    middle,
    named_system,
    spread,
    to_be_tuned,
    tuned_words,
    tuning_tables,
    widths_at,
)
from dragoman.compare.judge import Judgement, all_of, at_least, interval, judge
from dragoman.compare.runs import Claim, Result, Study
from dragoman.compare.systems import Scale, System, architecture
from dragoman.compare.texts import ALSO
from dragoman.evaluate.metrics import gleu

_PEERS = ("rnn", "rnn-attention", "gnmt", "convs2s")
_LEXICAL = architecture("lexical")
_LEARNED_TO_TRANSLATE = 15.0  # BLEU below which a comparison tells nothing
_SEEDS_OF_ABLATIONS = 2
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
    """One thing changed in the Transformer of the middle width."""
    settings = scale.settings
    heads, layers = settings["model.heads"], settings["model.encoder_layers"]
    inner = settings["model.feed_forward_width"]
    shallow = max(1, layers // 3)
    return {
        "1 head": {"model.heads": 1},
        "4 × the heads": {"model.heads": 4 * heads},
        "1/3 of the layers": {"model.encoder_layers": shallow, "model.decoder_layers": shallow},
        "1/2 the width": {"model.width": middle(scale) // 2},
        "1/2 the feed-forward width": {"model.feed_forward_width": inner // 2},
        "2 × the feed-forward width": {"model.feed_forward_width": 2 * inner},
        "no dropout": {"model.dropout": 0.0},
        "no label smoothing": {"training.label_smoothing": 0.0},
        "learned positions": {"model.positions.kind": "learned"},
    }


def _ablated(study: Study, rate: float) -> dict[str, list[System]]:
    """The systems with one thing changed, and the base; by seeds. None in a quick comparison."""
    scale = study.scale
    if len(scale.widths) == 1:
        return {}
    changes: dict[str, dict[str, object]] = {"nothing": {}, **_ablations(scale)}
    seeds = range(1, _SEEDS_OF_ABLATIONS + 1)
    found = {}
    for number, (name, settings) in enumerate(changes.items()):
        kind = f"transformer-{middle(scale)}-ablation-{number}"
        found[name] = [
            named_system(
                scale, kind, settings, rate=rate, share=scale.budgets[-1], seed=seed, optional=True
            )
            for seed in seeds
        ]
    found["nothing"] = [
        cell(scale, "transformer", middle(scale), rate, scale.budgets[-1], seed) for seed in seeds
    ]
    return found


def _finalists(study: Study, name: str) -> list[System]:
    """The size that validates best at the highest cost, with every seed."""
    scale = study.scale
    at_top = widths_at(study, name, scale.budgets[-1])
    width, rate = best(study, at_top) if at_top else None, chosen_rate(study, name)
    if width is None or rate is None:
        return []
    seeds = range(1, scale.seeds + 1)
    return [cell(scale, name, width, rate, scale.budgets[-1], seed) for seed in seeds]


def _elsewhere(study: Study, name: str) -> dict[float, list[System]]:
    """On the second corpus, in the middle size, with several seeds at the highest cost."""
    scale, rate = study.scale, chosen_rate(study, name)
    if rate is None or not study.texts.has_also:
        return {}
    seeds = dict.fromkeys(scale.budgets[1:-1], 1) | {scale.budgets[-1]: scale.seeds}
    return {
        share: [
            cell(scale, name, middle(scale), rate, share, seed, ALSO)
            for seed in range(1, count + 1)
        ]
        for share, count in seeds.items()
    }


def ensemble(study: Study) -> System | None:
    members = _finalists(study, "transformer")[:2]
    if len(members) < 2 or not all(study.has_result(member) for member in members):
        return None
    return System(f"ensemble-of-{members[0].name}", members=tuple(members), share=0.0)


def then(study: Study) -> list[System]:
    """After the tuning: the other sizes and costs, the ablations, the second corpus, more seeds."""
    systems: list[System] = []
    for name in NEURAL:
        for share in study.scale.budgets:
            systems += widths_at(study, name, share).values()
        systems += _finalists(study, name)
        for seeds in _elsewhere(study, name).values():
            systems += seeds
    rate = chosen_rate(study, "transformer")
    if rate is not None:
        for seeds in _ablated(study, rate).values():
            systems += seeds
    together = ensemble(study)
    return systems + ([together] if together is not None else [])


@dataclass(frozen=True)
class Field:
    """What was measured on one corpus."""

    corpus: str
    by_cost: Mapping[str, Sequence[Result]]  # of each system, the best size at each cost
    at_the_end: Mapping[str, Sequence[Result]]  # with every seed, at the highest cost
    others: Mapping[str, Result] = field(default_factory=dict)  # "lexical", "ensemble"
    widths: Mapping[str, int] = field(default_factory=dict)
    together: Judgement | None = None  # the ensemble against its better member

    def bleu(self, name: str) -> list[float]:
        return [result.bleu for result in self.at_the_end[name]]

    def judgements(self) -> dict[str, Judgement]:
        """The Transformer against each system before it, seed by seed."""
        learned = at_least(
            f"the Transformer translates on {self.corpus} (BLEU {_LEARNED_TO_TRANSLATE:.0f})",
            self.bleu("transformer"),
            _LEARNED_TO_TRANSLATE,
        )
        return {
            peer: judge(self.bleu("transformer"), self.bleu(peer), checks=[learned])
            for peer in _PEERS
        }

    def leaders(self) -> list[tuple[float, str]]:
        """Who is ahead at each cost."""
        costs = len(self.by_cost["transformer"])
        found = []
        for place in range(costs):
            name = max(self.by_cost, key=lambda n: self.by_cost[n][place].bleu)
            found.append((self.by_cost[name][place].flops, name))
        return found

    def lines(self) -> Lines:
        series = []
        for name, results in self.by_cost.items():
            ends = self.at_the_end[name]
            bleu = [result.bleu for result in results[:-1]]
            low, high = interval(self.bleu(name))
            series.append(
                Series(
                    name,
                    [result.flops for result in results[:-1]] + [ends[0].flops],
                    [*bleu, sum(self.bleu(name)) / len(ends)],
                    [*bleu, low],
                    [*bleu, high],
                )
            )
        series += [
            Series(name, [result.flops], [result.bleu])
            for name, result in self.others.items()
            if result.flops
        ]
        title = f"Score by training cost: {self.corpus}"
        return Lines(title, "training FLOPs", "test BLEU", series, log_x=True)

    def table(self) -> Table:
        rows = []
        for name, results in self.at_the_end.items():
            one = results[0]
            rows.append(
                [
                    name,
                    str(self.widths.get(name, "")),
                    spread(self.bleu(name), ".2f"),
                    spread([result.chrf for result in results], ".2f"),
                    f"{one.parameters:,}",
                    f"{one.flops:.3g}",
                    f"{one.steps:,}",
                    f"{one.seconds:.0f}",
                ]
            )
        for name, result in self.others.items():
            rows.append(
                [
                    name,
                    "",
                    f"{result.bleu:.2f}",
                    f"{result.chrf:.2f}",
                    f"{result.parameters:,}",
                    f"{result.flops:.3g}",
                    f"{result.steps:,}",
                    f"{result.seconds:.0f}",
                ]
            )
        return Table(
            f"At the highest cost: {self.corpus}",
            ["system", "width", "BLEU", "chrF", "parameters", "FLOPs", "steps", "seconds"],
            rows,
        )


def finding(
    fields: Sequence[Field],
    ablated: Mapping[str, Sequence[Result]],
    tuning: Sequence[Table] = (),
    tuned: str = "the learning rate tuned for each system",
) -> Finding:
    """`fields`: the corpus, and perhaps a second one; `ablated`: the base is "nothing"."""
    judged = {one.corpus: one.judgements() for one in fields}
    first = fields[0]
    ahead = first.bleu("transformer")
    joined = first.together
    verdicts = [judgement for peers in judged.values() for judgement in peers.values()]
    verdicts += [joined] if joined else []
    said = [_said(one, judged[one.corpus]) for one in fields]
    if joined:
        said.append(
            f"An ensemble of two Transformers, at the cost of both, has "
            f"{first.others['ensemble'].bleu:.1f} BLEU, and {joined.interval('+.3f')} GLEU a "
            "sentence more than the better of them."
        )
    why = next((judgement.why for judgement in verdicts if judgement.why), "")
    costs = [f"{flops:.3g}" for flops, _ in first.leaders()]
    return Finding(
        [
            *[one.lines() for one in fields],
            *[one.table() for one in fields],
            *([_ablation_table(ablated)] if len(ablated) > 1 else []),
            *tuning,
        ],
        (" ".join(said), _about_ablations(ablated)),
        all_of(verdicts),
        f"Costs of {listed(costs)} FLOPs; {tuned}, the size chosen by "
        f"validation, {len(ahead)} seeds at the highest cost; the Transformer has to be "
        f"ahead of {listed(_PEERS)} with confidence{', and the ensemble of it' if joined else ''}."
        + (f" Undecided because this does not hold: {why}." if why else ""),
    )


def _said(one: Field, judged: Mapping[str, Judgement]) -> str:
    """What is to be seen on one corpus."""
    gaps = [f"{judgement.interval('+.1f')} to {name}" for name, judgement in judged.items()]
    leading = [
        f"{name} at {listed([f'{flops:.2g}' for flops, _ in rows])} FLOPs"
        for name, rows in groupby(one.leaders(), key=lambda leader: leader[1])
    ]
    bleu = one.bleu("transformer")
    return (
        f"On {one.corpus} the lead is with {', then '.join(leading)}; at the highest cost the "
        f"Transformer has {sum(bleu) / len(bleu):.1f} BLEU, a difference of {listed(gaps)}."
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
        return "The full comparison also takes the Transformer apart."
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
    fields = [_field(study)]
    if study.texts.has_also:
        fields.append(_second_field(study))
    rate = chosen_rate(study, "transformer") or 0.0
    ablated = {
        name: [study.result(system) for system in systems]
        for name, systems in _ablated(study, rate).items()
        if all(study.has_result(system) for system in systems)
    }
    return finding(fields, ablated, tuning_tables(study, NEURAL), tuned_words(study.scale))


def _field(study: Study) -> Field:
    by_cost: dict[str, list[Result]] = {}
    at_the_end, widths = {}, {}
    for name in NEURAL:
        by_cost[name] = []
        for share in study.scale.budgets:
            sizes = widths_at(study, name, share)
            width = best(study, sizes) or middle(study.scale)
            by_cost[name].append(study.result(sizes[width]))
        finalists = _finalists(study, name)
        at_the_end[name] = [study.result(system) for system in finalists]
        widths[name] = int(finalists[0].settings["model.width"])
    others = {"lexical": study.result(_LEXICAL)}
    together, judged = ensemble(study), None
    if together is not None:
        others["ensemble"] = study.result(together)
        members = [study.result(member) for member in together.members]
        better = max(members, key=lambda member: member.bleu)
        references = study.texts.test_of("all").targets
        judged = judge(*(_gleu(one.outputs, references) for one in (others["ensemble"], better)))
    return Field(study.texts.name_of("all"), by_cost, at_the_end, others, widths, judged)


def _gleu(outputs: Sequence[str], references: Sequence[str]) -> list[float]:
    """Of each sentence."""
    return [
        gleu(output.split(), reference.split())
        for output, reference in zip(outputs, references, strict=True)
    ]


def _second_field(study: Study) -> Field:
    by_cost, at_the_end = {}, {}
    for name in NEURAL:
        systems = _elsewhere(study, name)
        results = [[study.result(system) for system in seeds] for seeds in systems.values()]
        by_cost[name] = [seeds[0] for seeds in results]
        at_the_end[name] = results[-1]
    widths = {name: middle(study.scale) for name in NEURAL}
    return Field(study.texts.name_of(ALSO), by_cost, at_the_end, {}, widths)


CLAIM = Claim(
    "Score against training cost",
    "At the same training cost the Transformer beats recurrent and convolutional systems, and an "
    "ensemble, at the cost of all its members, is better still.",
    "Which system translates best for the same training cost?",
    "A recurrent or convolutional system would reach a better score than the Transformer at the "
    "same cost.",
    show,
    lambda scale: [_LEXICAL, *to_be_tuned(scale, NEURAL)],
    then,
)
