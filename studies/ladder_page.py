"""The page "What ten years changed", from the results of the ladder.

Rungs are compared seed by seed: the same seed sees the same batches in the same order. A rung is
called better or worse than the one below if Student's test of those differences says so, corrected
for the number of comparisons on a corpus (Holm 1979); the 95% t-intervals are not corrected.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dragoman.lab.compare.experiment import holm
from dragoman.lab.compare.figures import BarChart
from dragoman.lab.compare.html_report import draw
from dragoman.lab.compare.seed_statistics import interval, t_test
from dragoman.storage.files import write_atomically
from studies.finding import listed

PAGE = Path(__file__).parents[1] / "docs" / "ten-years.md"
BEGIN = "<!-- the ladder: python -m studies.ladder --report results.json -->\n"
END = "<!-- end of the ladder -->\n"
_SURE = 0.05

Rung = Mapping[str, Any]
"""As `studies.ladder` writes it."""


@dataclass(frozen=True)
class Step:
    """How a rung differs from another one, in test BLEU, by the seeds that both have."""

    name: str
    differences: Sequence[float]
    p_value: float  # corrected

    @property
    def mean(self) -> float:
        return sum(self.differences) / len(self.differences)

    @property
    def verdict(self) -> str:
        if self.p_value >= _SURE:
            return "undecided"
        return "better" if self.mean > 0 else "worse"

    def __str__(self) -> str:
        low, high = interval(self.differences)
        ends = f" [{low:+.2f}, {high:+.2f}]" if len(self.differences) > 1 else ""
        return f"{self.mean:+.2f}{ends}"


def steps(rungs: Sequence[Rung]) -> list[Step]:
    """Each rung against the one below; last, the highest against the lowest."""
    pairs = [(rungs[n - 1], rungs[n]) for n in range(1, len(rungs))] + [(rungs[0], rungs[-1])]
    names = [*(above["name"] for _, above in pairs[:-1]), "all together"]
    rows = [_differences(below, above) for below, above in pairs]
    corrected = holm([t_test(row) for row in rows])
    return [Step(*each) for each in zip(names, rows, corrected, strict=True)]


def _differences(below: Rung, above: Rung) -> list[float]:
    scores = {run["seed"]: run["bleu"] for run in below["seeds"]}
    return [run["bleu"] - scores[run["seed"]] for run in above["seeds"] if run["seed"] in scores]


def as_page(results: Mapping[str, Any]) -> str:
    """Render the part of the page between its two marks."""
    parts = [_conditions(results)]
    for name, corpus in results["corpora"].items():
        parts += [f"## {name}", *_corpus(name, corpus)]
    parts += ["## Speed", _speed(results), "## Learning rates tried", _rates(results)]
    return "\n\n".join(parts) + "\n"


def write_page(page: Path, results: Mapping[str, Any]) -> None:
    """Write the figures into the page and the pictures into its assets folder."""
    before, mark, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    if not mark:
        raise SystemExit(f"{page} has no line {BEGIN.strip()}")
    (page.parent / "assets").mkdir(exist_ok=True)
    for name, corpus in results["corpora"].items():
        picture = _standalone(draw(_bars(name, corpus["rungs"])))
        write_atomically(page.parent / _picture(name), picture.encode())
    write_atomically(page, (before + BEGIN + as_page(results) + END + after).encode())


def _conditions(results: Mapping[str, Any]) -> str:
    settings = results["settings"]
    return (
        f"Machine: {results['machine']}; {results['jobs']} trainings in parallel. Each training "
        f"spends {results['flops']:.2g} floating-point operations. "
        f"Width {settings['model.d_model']}, {settings['model.num_encoder_layers']}+"
        f"{settings['model.num_decoder_layers']} layers, {settings['model.num_heads']} heads, "
        f"{settings['text.vocab_size']:,} pieces, "
        f"{settings['training.batch_tokens']:,} target tokens a step."
    )


def _corpus(name: str, corpus: Mapping[str, Any]) -> list[str]:
    rungs = corpus["rungs"]
    if not all(rung["seeds"] for rung in rungs):
        return ["Not every rung is trained yet."]
    changes = steps(rungs)
    rows = []
    for rung, change in zip(rungs, [None, *changes[:-1]], strict=True):
        runs = rung["seeds"]
        low, high = interval([run["bleu"] for run in runs])
        failed = sum(bool(run["failure"]) for run in runs)
        rows.append(
            [
                rung["name"],
                f"{_mean(runs, 'bleu'):.2f} [{low:.2f}, {high:.2f}]",
                str(change) if change else "",
                _p(change.p_value) if change else "",
                change.verdict if change else "",
                f"{_mean(runs, 'loss'):.3f}" + (f" ({failed} failed)" if failed else ""),
                f"{runs[0]['parameters'] / 1e6:.2f} M",
                f"{_mean(runs, 'flops'):.3g}",
                f"{_mean(runs, 'steps'):,.0f}",
                f"{_mean(runs, 'seconds'):.0f}",
            ]
        )
    seeds = sorted({len(rung["seeds"]) for rung in rungs})
    counted = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    about = (
        f"{corpus['pairs']:,} pairs to train on, {corpus['test_pairs']:,} to test on, dropout "
        f"{corpus['settings']['model.dropout']:g}, {counted} seeds. {_found(changes)}"
    )
    header = ["rung", "test BLEU", "against the rung below", "p", "verdict", "validation loss",
              "parameters", "FLOPs", "steps", "seconds"]  # fmt: skip
    return [about, f"![Change of test BLEU at each rung, {name}]({_picture(name)})",
            _table(header, rows)]  # fmt: skip


def _found(changes: Sequence[Step]) -> str:
    """The verdicts in words."""
    *single, together = changes
    words = []
    for verdict in ("better", "worse", "undecided"):
        named = [f"{step.name} ({step.mean:+.2f})" for step in single if step.verdict == verdict]
        words.append(f"{verdict}: {listed(named) or 'none'}")
    return (
        f"Against the rung below, {'; '.join(words)}. All changes together: {together} BLEU "
        f"({together.verdict}, p {_p(together.p_value)})."
    )


def _p(value: float) -> str:
    """
    >>> _p(0.0213), _p(1e-6)
    ('0.021', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _speed(results: Mapping[str, Any]) -> str:
    if not results["speed"]:
        return "Not measured yet."
    first = next(iter(results["corpora"]))
    rows = [
        [name, f"{speed['training']:,.0f}", f"{speed['translation']:,.0f}"]
        for name, speed in results["speed"].items()
    ]
    about = (
        f"Measured on {first} with nothing else running: target tokens per second of training, "
        "the median of the second half of a short training, and sentences per second of the test "
        "set, greedy search."
    )
    return f"{about}\n\n{_table(['rung', 'training', 'translation'], rows)}"


def _rates(results: Mapping[str, Any]) -> str:
    """Validation losses of the first seed, the chosen rate marked."""
    rows = []
    for name, corpus in results["corpora"].items():
        for rung in corpus["rungs"]:
            chosen = f"{rung['rate']:g}" if rung["rate"] is not None else ""
            losses = {rate: f"{rate}: {loss:.3f}" for rate, loss in rung["tried"].items()}
            if chosen in losses:
                losses[chosen] = f"**{losses[chosen]}**"
            at_edge = "yes" if chosen in [*losses][:1] + [*losses][-1:] else ""
            rows.append([name, rung["name"], ", ".join(losses.values()), at_edge])
    about = "Rate and validation loss with the first seed. With the paper's schedule a rate is a "
    about += "factor on the paper's formula."
    return f"{about}\n\n{_table(['corpus', 'rung', 'tried', 'chosen at the edge'], rows)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mean(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(float(run[name]) for run in runs) / len(runs)


def _bars(name: str, rungs: Sequence[Rung]) -> BarChart:
    """Draw the gain of each change; undecided ones are pale."""
    changes = steps(rungs) if all(rung["seeds"] for rung in rungs) else []
    ends = [interval(step.differences) for step in changes]
    return BarChart(
        f"{name}: what each change gained",
        "test BLEU against the rung below, 95% t-interval over seeds",
        [step.name for step in changes],
        [step.mean for step in changes],
        [low for low, _ in ends],
        [high for _, high in ends],
        [step.verdict == "undecided" for step in changes],
    )


def _picture(name: str) -> str:
    return f"assets/ten-years-{name.lower()}.svg"


def _standalone(svg: str) -> str:
    """A drawing as a file: with the colours of a report, light or dark, and a ground."""
    css = (resources.files("dragoman.lab.compare") / "report.css").read_text(encoding="utf-8")
    colours = css[css.index(":root") : css.index("*, *::before")]
    rules = [line for line in css.splitlines() if line.startswith("svg")]
    style = "\n".join([colours, "svg { font-family: sans-serif; }", *rules])
    opening, _, inside = svg.partition(">")
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    ground = '<rect width="100%" height="100%" fill="var(--surface)"/>'
    return f"{opening}>\n<style>\n{html.escape(style, quote=False)}</style>\n{ground}{inside}"
