"""The ladder from 2017 to today: one change at a time, chosen by validation, tested once."""

import gzip
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from dragoman.data.batches import rng
from dragoman.errors import RunError
from dragoman.lab.compare import runs
from dragoman.lab.compare.runs import Result, Study
from dragoman.lab.compare.systems import System
from dragoman.model.build import build_model, parameter_count
from dragoman.text.vocabulary import Vocabulary
from studies import ladder
from studies.ladder import FIELDS, FULL, TINY, Ladder, climb, rungs
from studies.ladder_page import BEGIN, END, PAGE, as_page, steps, write_page
from tests.conftest import toy_pairs

QUIET = Console(quiet=True)
LITTLE = replace(TINY, flops=2e8)


@pytest.fixture
def corpora(tmp_path: Path) -> tuple[Path, Path]:
    """Stand-ins for Multi30k and Tatoeba."""
    pairs = toy_pairs(240)
    folders = (tmp_path / "multi30k", tmp_path / "tatoeba")
    for folder, field in zip(folders, FIELDS.values(), strict=True):
        folder.mkdir()
        for part, chosen in zip(
            field.files, (pairs[:200], pairs[200:220], pairs[220:]), strict=True
        ):
            for side, language in enumerate(("de", "en")):
                text = "".join(f"{pair[side]}\n" for pair in chosen)
                with gzip.open(folder / f"{part}.{language}.gz", "wt", encoding="utf-8") as file:
                    file.write(text)
    return folders


def climbed(out: Path, corpora: tuple[Path, Path], **terms: Any) -> dict[str, Any]:
    terms = {"flops": 2e8, "height": 2, "scale": LITTLE} | terms
    return climb(out, *corpora, device="cpu", jobs=1, console=QUIET, **terms)


def test_each_rung_changes_what_it_says_and_keeps_all_below(tmp_path: Path) -> None:
    study = Ladder(Study(tmp_path, FULL, "cpu"), 100)
    height = len(rungs(FULL))
    before: dict[str, Any] = {}
    for number in range(height):
        settings = dict(study.system("Tatoeba", number, 1.0, 1).settings)
        assert {k: v for k, v in settings.items() if before.get(k) != v} == (
            dict(rungs(FULL)[number].settings) if number else settings
        )
        before = settings


def test_a_rung_of_another_shape_has_as_many_parameters_as_the_one_below(tmp_path: Path) -> None:
    study = Study(tmp_path, FULL, "cpu")
    words = Vocabulary(tuple(f"w{n}" for n in range(100)))
    counts = {}
    for number, rung in enumerate(rungs(FULL)):
        config = study.config(Ladder(study, 100).system("Tatoeba", number, 1.0, 1))
        counts[rung.name] = parameter_count(build_model(config.model, words, words, True))
    for below, above in pairwise(counts):
        change = counts[above] / counts[below] - 1
        if above == "grouped queries":  # fewer keys and values are its point
            assert -0.15 < change < -0.05
        else:
            assert abs(change) < 0.01, above


def test_the_ladder_is_trained_tested_and_timed_and_never_twice(
    tmp_path: Path, corpora: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = climbed(tmp_path / "out", corpora)
    for corpus in results["corpora"].values():
        assert 100 < corpus["pairs"] <= 200  # fewer: pairs of the test set are dropped
        assert corpus["test_pairs"] == 20
        for rung in corpus["rungs"]:
            assert 3 <= len(rung["tried"]) <= 5
            assert [run["seed"] for run in rung["seeds"]] == [1, 2]
            lowest = min(rung["tried"], key=rung["tried"].__getitem__)
            assert f"{rung['rate']:g}" == lowest
            assert rung["seeds"][0]["loss"] == rung["tried"][lowest]
            for run in rung["seeds"]:
                assert 0.5 < run["flops"] / 2e8 < 1.5
                assert run["target_tokens"] > 0
    assert set(results["speed"]) == {rung.name for rung in rungs(LITTLE)[:2]}
    assert all(speed["training"] > 0 for speed in results["speed"].values())

    def never(*_: object, **__: object) -> None:
        raise AssertionError("done before")

    monkeypatch.setattr(runs, "train", never)
    monkeypatch.setattr(runs, "_score", never)
    again = climbed(tmp_path / "out", corpora)
    assert again == json.loads(json.dumps(results))
    with pytest.raises(RunError, match="FLOPs"):
        climbed(tmp_path / "out", corpora, flops=3e8)


def test_rates_are_chosen_without_a_look_at_the_test_set(
    tmp_path: Path, corpora: tuple[Path, Path]
) -> None:
    climbed(tmp_path / "out", corpora, height=1)
    for path in (tmp_path / "out" / "runs").glob("*/result.json"):
        outputs = json.loads(path.read_text())["outputs"]
        assert bool(outputs) == path.parent.name.endswith(".test"), path


def test_nothing_starts_after_the_limit_and_the_same_command_resumes(
    tmp_path: Path, corpora: tuple[Path, Path]
) -> None:
    results = climbed(tmp_path / "out", corpora, height=1, minutes=0)
    assert all(not corpus["rungs"][0]["seeds"] for corpus in results["corpora"].values())
    assert "Not every rung" in as_page(results)
    results = climbed(tmp_path / "out", corpora, height=1)
    assert all(len(corpus["rungs"][0]["seeds"]) == 2 for corpus in results["corpora"].values())


@pytest.mark.parametrize(
    ("number", "best", "tried", "chosen"),
    [
        (0, 0.31, [0.15, 0.3, 0.6], 0.3),
        (0, 1.0, [0.15, 0.3, 0.6, 1.2, 2.4], 1.2),
        (7, 1e-4, [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3], 2.5e-4),  # enough is enough
    ],
)
def test_a_best_rate_at_the_edge_is_not_believed(
    tmp_path: Path, monkeypatch, number: int, best: float, tried: list[float], chosen: float
) -> None:
    def result(self: Study, system: System) -> Result:
        return Result(loss=abs(system.settings["training.learning_rate"] - best))

    monkeypatch.setattr(Study, "has_result", lambda self, system: True)
    monkeypatch.setattr(Study, "result", result)
    whole = Ladder(Study(tmp_path, FULL, "cpu"), 10)
    assert [*whole.tried("Tatoeba", number)] == tried
    assert whole.rate("Tatoeba", number) == chosen


def test_the_cost_follows_from_how_fast_the_machine_is(
    tmp_path: Path, corpora: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "_tokens_per_s", lambda study, system: 1000.0)
    monkeypatch.setattr(ladder, "_duration", lambda study, system: 0.0)
    one = Ladder(Study(tmp_path / "out", LITTLE, "cpu"), 1)
    (tmp_path / "out").mkdir()
    ladder._write_texts(one.study, dict(zip(FIELDS, corpora, strict=True)))
    short, long = (ladder._affordable(one, 1, minutes, QUIET) for minutes in (60.0, 120.0))
    assert long == pytest.approx(2 * short, rel=0.1)


def made_up(gains: list[float], noise: float = 0.0) -> dict[str, Any]:
    """Results of a ladder whose rungs gain so much; `noise` differs by rung and seed."""
    names = [rung.name for rung in rungs(FULL)][: len(gains) + 1]
    scores = [30.0]
    for gain in gains:
        scores.append(scores[-1] + gain)
    rows = []
    for number, (name, score) in enumerate(zip(names, scores, strict=True)):
        seeds = []
        for seed in range(1, 6):
            wobble = noise * rng(number, seed).normal()
            seeds.append(
                {
                    "seed": seed, "bleu": score + seed + wobble, "chrf": 50.0, "valid": 30.0,
                    "loss": 2.0, "parameters": 7_000_000, "steps": 1000, "flops": 2e14,
                    "seconds": 40.0, "target_tokens": 4_000_000, "failure": "",
                }
            )  # fmt: skip
        tried = {"0.15": 2.1, "0.3": 2.0, "0.6": 2.2}
        rows.append(
            {"name": name, "source": "", "settings": {}, "tried": tried, "rate": 0.3,
             "seeds": seeds}
        )  # fmt: skip
    corpus = {"settings": {"model.dropout": 0.1}, "pairs": 29000, "test_pairs": 1000, "rungs": rows}
    speed = {name: {"training": 9e5, "translation": 700.0} for name in names}
    return {
        "machine": "a machine", "jobs": 10, "flops": 2e14, "settings": FULL.settings,
        "speed": speed, "corpora": {"Multi30k": corpus, "Tatoeba": corpus},
    }  # fmt: skip


def test_seeds_are_paired_and_verdicts_corrected() -> None:
    rows = made_up([2.0, 0.0, -2.0], noise=0.2)["corpora"]["Tatoeba"]["rungs"]
    changes = steps(rows)
    assert [step.verdict for step in changes] == ["better", "undecided", "worse", "undecided"]
    assert changes[0].mean == pytest.approx(2.0, abs=0.5)
    for run in rows[1]["seeds"]:
        run["bleu"] += 12 * (run["seed"] % 2) - 6  # the seeds disagree by more than the gain
    assert steps(rows)[0].verdict == "undecided"


def test_a_seed_that_one_rung_lacks_is_left_out() -> None:
    rows = made_up([1.0])["corpora"]["Tatoeba"]["rungs"]
    rows[1]["seeds"] = rows[1]["seeds"][1:4]
    assert steps(rows)[0].differences == pytest.approx([1.0, 1.0, 1.0])


def test_the_page_depends_only_on_the_results(tmp_path: Path, capsys) -> None:
    page = tmp_path / "ten-years.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    results = made_up([2.0, 0.0, -2.0], noise=0.2)
    (tmp_path / "results.json").write_text(json.dumps(results))
    ladder.main(["--report", str(tmp_path / "results.json"), "--page", str(page)])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "better: pre-norm" in text
    assert "| pre-norm | 900,000 | 700 |" in text
    assert as_page(results) in text
    assert as_page(results) in capsys.readouterr().out
    picture = ElementTree.parse(tmp_path / "assets" / "ten-years-multi30k.svg")
    assert len(picture.findall(".//{*}rect[@class]")) == 4
    write_page(page, results)
    assert page.read_text() == text


def test_the_site_has_a_place_for_the_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)


def test_the_ladder_explains_itself(capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        ladder.main(["--help"])
    assert exit_.value.code == 0
    assert "usage:" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        ladder.main(["--out", "x"])
