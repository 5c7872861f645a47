"""C7: score against training cost, and ablations.

As in tables 2 and 3 of "Attention Is All You Need", small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.compare.figures import Finding, Lines, Series, Table, listed
from dragoman.compare.probe import seconds
from dragoman.compare.runs import Claim, Result, Study
from dragoman.compare.systems import ARCHITECTURES, Scale, System, architecture, variant
from dragoman.decode.translator import Translator
from dragoman.engine.torch_engine import pick_device
from dragoman.evaluate.metrics import score

_MAIN = {name: architecture(name) for name in ARCHITECTURES}
_PEERS = ("rnn", "rnn-attention", "gnmt", "convs2s")
_SECOND = variant("transformer-seed-2", training__seed=2)
BASE = variant("base", 0.5)
_ABLATIONS = {
    "1 head": variant("heads-1", 0.5, model__heads=1),
    "16 heads": variant("heads-16", 0.5, model__heads=16),
    "no label smoothing": variant("no-smoothing", 0.5, training__label_smoothing=0.0),
    "learned positions": variant("learned-positions", 0.5, model__positions__kind="learned"),
}


def larger(scale: Scale) -> System:
    return System("larger", scale.larger, watched=True)


def _ablations(scale: Scale) -> dict[str, System]:
    """Those that depend on the base's own sizes too."""
    narrow = {"model.feed_forward_width": scale.settings["model.feed_forward_width"] // 2}
    rates = [rate for rate in (0.0, 0.1, 0.2) if rate != scale.settings["model.dropout"]]
    return (
        _ABLATIONS
        | {"half the feed-forward width": System("half-feed-forward", narrow, share=0.5)}
        | {
            f"dropout {rate}": variant(f"dropout-{rate}", 0.5, model__dropout=rate)
            for rate in rates
        }
    )


@dataclass(frozen=True)
class Row:
    """A line of the table; an ensemble's cost is that of its members together."""

    result: Result
    sentences_per_s: float

    def cells(self, name: str, target: float) -> list[str]:
        r = self.result
        reached = next((flops for flops, bleu in r.curve if bleu >= target), None)
        return [
            name,
            f"{r.bleu:.2f}",
            f"{r.chrf:.2f}",
            f"{r.parameters:,}",
            f"{r.flops:.3g}",
            f"{r.flops / r.steps:.3g}" if r.steps else "–",
            f"{reached:.3g}" if reached else "–",
            f"{r.seconds:.0f}",
            f"{self.sentences_per_s:.0f}",
        ]


def _table_of(rows: Mapping[str, Row], target: float) -> Table:
    reached = f"FLOPs to BLEU {target:.0f}"
    columns = [
        "system",
        "BLEU",
        "chrF",
        "parameters",
        "FLOPs",
        "FLOPs a step",
        reached,
        "seconds",
        "sentences/s",
    ]
    return Table(
        "Every system at the same cost",
        columns,
        [row.cells(name, target) for name, row in rows.items()],
    )


def _target_of(rows: Mapping[str, Row]) -> float:
    """A validation score that most can reach: half of the best."""
    best = max((bleu for row in rows.values() for _, bleu in row.result.curve), default=0.0)
    return float(int(best / 2))


def finding(rows: Mapping[str, Row], base: Result, ablated: Mapping[str, Result]) -> Finding:
    """`rows`: the architectures by name, then "ensemble" and "larger".

    `ablated`: the base with one thing changed.
    """
    bleu = {name: row.result.bleu for name, row in rows.items()}
    singles = {name: bleu[name] for name in ARCHITECTURES}
    best = max(singles, key=lambda name: singles[name])
    ahead = bleu["transformer"]
    beaten, unbeaten = (
        {name: bleu[name] for name in _PEERS if (ahead > bleu[name]) == wins}
        for wins in (True, False)
    )
    sides = {"ahead of": beaten, "not ahead of": unbeaten}
    places = [
        f"{where} {listed([f'{n} ({v:.1f})' for n, v in peers.items()])}"
        for where, peers in sides.items()
        if peers
    ]
    seen = not unbeaten and bleu["ensemble"] > ahead
    worst = min(ablated, key=lambda name: ablated[name].bleu)
    changes = Table(
        f"One thing changed (half the budget: {base.flops:.3g} FLOPs)",
        ["changed", "BLEU", "difference", "parameters"],
        [["nothing", f"{base.bleu:.2f}", "", f"{base.parameters:,}"]]
        + [
            [n, f"{r.bleu:.2f}", f"{r.bleu - base.bleu:+.2f}", f"{r.parameters:,}"]
            for n, r in ablated.items()
        ],
    )
    curves = [
        Series(n, *map(list, zip(*r.result.curve, strict=True)))
        for n, r in rows.items()
        if r.result.curve
    ]
    return Finding(
        [
            _table_of(rows, _target_of(rows)),
            Lines(
                "The course of training", "training FLOPs", "validation BLEU", curves, log_x=True
            ),
            changes,
        ],
        (
            f"At {rows['transformer'].result.flops:.3g} training FLOPs each, the Transformer "
            f"reaches {ahead:.1f} BLEU, {', '.join(places)}; the best architecture at this cost "
            f"is {best} with {singles[best]:.1f}, an ensemble of two Transformers at "
            f"{rows['ensemble'].result.flops:.3g} FLOPs has {bleu['ensemble']:.1f}, and a larger "
            f"one at the same cost {bleu['larger']:.1f}.",
            f"Of the changes to the Transformer, {worst} costs the most "
            f"({ablated[worst].bleu - base.bleu:+.1f} BLEU of {base.bleu:.1f}); in the table "
            "seconds were taken with other runs beside, sentences per second alone.",
        ),
        "seen" if seen else "not seen",
        "",
    )


def _speed(study: Study, translator: Translator) -> float:
    """Sentences translated in a second, alone on the machine."""
    some = study.texts.test_of("all").sources[: study.scale.timed_sentences]
    return len(some) / seconds(lambda: translator(some), pick_device(study.device), 1)


def show(study: Study) -> Finding:
    systems = {**_MAIN, "larger": larger(study.scale)}
    rows = {name: _row(study, system) for name, system in systems.items()}
    rows["ensemble"] = ensemble(study, [_MAIN["transformer"], _SECOND])
    ablated = {name: study.result(system) for name, system in _ablations(study.scale).items()}
    return finding(rows, study.result(BASE), ablated)


def _row(study: Study, system: System) -> Row:
    result = study.result(system)
    return Row(result, 0.0 if result.failure else _speed(study, study.translator(system)))


def ensemble(study: Study, members: Sequence[System]) -> Row:
    """Their probabilities averaged, their costs summed."""
    test = study.texts.test_of("all")
    results = [study.result(member) for member in members]
    together = Translator.load(
        ",".join(str(study.run_of(member)) for member in members), study.device, "torch"
    )
    outputs = together(test.sources)
    bleu, chrf = (s.value for s in score(outputs, [test.targets], ["BLEU", "chrF2"]))
    total = Result(
        parameters=sum(r.parameters for r in results),
        steps=sum(r.steps for r in results),
        flops=sum(r.flops for r in results),
        seconds=sum(r.seconds for r in results),
        bleu=bleu,
        chrf=chrf,
    )
    return Row(total, _speed(study, together))


CLAIM = Claim(
    "Score against training cost",
    "At the same training cost the Transformer beats recurrent and convolutional systems, and an "
    "ensemble, at the cost of all its members, is better still.",
    "Which system translates best for the same training cost?",
    "A recurrent or convolutional system would reach a better score than the Transformer at the "
    "same cost.",
    show,
    lambda scale: [*_MAIN.values(), _SECOND, larger(scale), BASE, *_ablations(scale).values()],
)
