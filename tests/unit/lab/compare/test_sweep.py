"""Hyperparameter search: a full grid, or successive halving."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import ConfigError, RunError
from dragoman.lab.compare import runs
from dragoman.lab.compare.corpora import CorpusFiles
from dragoman.lab.compare.sweep import grid, rounds, sweep
from tests.conftest import toy_pairs, write_corpus
from tests.unit.lab.compare.test_experiment import TINY

QUIET = Console(quiet=True)


@pytest.fixture
def base(tmp_path: Path) -> str:
    (tmp_path / "base.toml").write_text(TINY)
    return str(tmp_path / "base.toml")


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusFiles:
    source, target = write_corpus(tmp_path, "train", toy_pairs(200))
    return CorpusFiles((str(source), str(target)))


def swept(out: Path, base: str, corpus: CorpusFiles, tried: dict, **terms: object) -> str:
    return sweep(out, base, tried, corpus, device="cpu", jobs=1, console=QUIET, **terms)  # type: ignore[arg-type]


def test_every_combination_is_trained_at_the_same_cost_and_never_twice(
    tmp_path: Path, base: str, corpus: CorpusFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = {"training.learning_rate": ["1e-3", "1e-2"], "model.norm_position": ["pre", "post"]}
    text = swept(tmp_path / "out", base, corpus, tried, flops=1e8)
    results = [json.loads(p.read_text()) for p in (tmp_path / "out").glob("runs/*/result.json")]
    assert len(results) == 4
    assert len({result["flops"] for result in results}) == 1
    assert 0.4e8 < results[0]["flops"] < 1.2e8
    assert len(text.splitlines()) == 2 + 4
    assert "learning_rate" in (tmp_path / "out" / "report.html").read_text()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("done before")

    monkeypatch.setattr(runs, "train", never)
    assert swept(tmp_path / "out", base, corpus, tried, flops=1e8) == text
    with pytest.raises(RunError, match="other settings or texts"):
        swept(tmp_path / "out", base, corpus, tried, flops=2e8)


def test_the_better_third_advances_with_three_times_the_budget(
    tmp_path: Path, base: str, corpus: CorpusFiles
) -> None:
    tried = {"training.learning_rate": ["1e-4", "1e-3", "1e-2"]}
    swept(tmp_path / "out", base, corpus, tried, flops=1.2e7, halving=True)
    names = sorted(path.parent.name for path in (tmp_path / "out").glob("runs/*/result.json"))
    assert len([name for name in names if ".cost-0.333." in name]) == 3
    (last,) = [name for name in names if ".cost-1." in name]
    scores = {
        name: json.loads((tmp_path / "out/runs" / name / "result.json").read_text())["valid"]
        for name in names
        if ".cost-0.333." in name
    }
    assert scores[last.replace("cost-1.", "cost-0.333.")] == max(scores.values())


def test_rounds_end_with_one_setting_at_the_whole_cost() -> None:
    for count in range(1, 40):
        sizes, shares = zip(*rounds(count), strict=True)
        assert sizes[0] == count
        assert (sizes[-1], shares[-1]) == (1, 1.0)
        assert list(sizes) == sorted(sizes, reverse=True)


def test_sweep_rejects_invalid_settings_before_any_run_starts(
    tmp_path: Path, base: str, corpus: CorpusFiles
) -> None:
    with pytest.raises(ConfigError, match="nothing to try"):
        swept(tmp_path / "a", base, corpus, {}, flops=1e8)
    with pytest.raises(ConfigError, match="widht"):
        swept(tmp_path / "b", base, corpus, {"model.widht": ["8"]}, flops=1e8)
    assert grid({"a": ["1", "2"], "b": ["3", "4"]})[1] == {"a": "1", "b": "4"}
