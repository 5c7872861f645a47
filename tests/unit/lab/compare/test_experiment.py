"""Compare systems: which one is better, and which comparisons are refused."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dragoman.errors import ConfigError, RunError
from dragoman.lab.compare.corpora import CorpusFiles
from dragoman.lab.compare.experiment import compare_systems, figures_of, holm, verdict
from dragoman.lab.compare.figures import LineChart, Table
from dragoman.lab.compare.runs import Result
from tests.conftest import toy_pairs, write_corpus

QUIET = Console(quiet=True)
TINY = """
[text]
vocab_size = 300
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
[training]
batch_tokens = 200
max_steps = 6
validate_every = 3
patience = 1
average_checkpoints = 1
[decoding]
beam_size = 1
max_length_ratio = 1.0
max_length_extra = 5
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, more in (("plain", ""), ("gated", "[model.attention]\nsimilarity = 'dot'\n")):
        (tmp_path / f"{name}.toml").write_text(TINY + more)
    return [str(tmp_path / "plain.toml"), str(tmp_path / "gated.toml")]


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusFiles:
    source, target = write_corpus(tmp_path, "train", toy_pairs(200))
    return CorpusFiles((str(source), str(target)))


def compared(out: Path, files: list[str], corpus: CorpusFiles, **terms: object) -> str:
    return compare_systems(out, files, corpus, device="cpu", jobs=1, console=QUIET, **terms)  # type: ignore[arg-type]


@pytest.mark.parametrize("flops", [2e7, None])
def test_systems_are_trained_on_equal_terms_and_never_twice(
    tmp_path: Path, files: list[str], corpus: CorpusFiles, monkeypatch, flops: float | None
) -> None:
    out = tmp_path / "out"
    text = compared(out, files, corpus, seeds=2, flops=flops)
    assert "gated against plain" in text
    page = (out / "report.html").read_text()
    assert "Learning curves" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert (out / "report.txt").read_text() == f"{text}\n"

    def never(*_: object, **__: object) -> None:
        raise AssertionError("done before")

    monkeypatch.setattr("dragoman.lab.compare.runs.train", never)
    assert compared(out, files, corpus, seeds=2, flops=flops) == text
    with pytest.raises(RunError, match="other systems, texts or terms"):
        compared(out, files, corpus, seeds=2, flops=3e7)


def test_comparison_names_the_system_that_it_rejects(
    tmp_path: Path, files: list[str], corpus: CorpusFiles
) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match="two settings files"):
        compared(out, files[:1], corpus)
    with pytest.raises(ConfigError, match="needs a corpus"):
        compared(out, files, CorpusFiles())
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / "plain.toml"
    twin.write_text(TINY)
    with pytest.raises(ConfigError, match="both called plain"):
        compared(out, [files[0], str(twin)], corpus)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[model]\nwidht = 3\n")
    with pytest.raises(ConfigError, match=r"wrong\.toml.*widht"):
        compared(tmp_path / "a", [files[0], str(wrong)], corpus)
    wrong.write_text(TINY + "[data]\nprepared = 'somewhere'\n")
    with pytest.raises(ConfigError, match=r"wrong\.toml sets data\.prepared"):
        compared(tmp_path / "b", [files[0], str(wrong)], corpus)
    with pytest.raises(RunError, match="not empty"):
        compared(tmp_path, files, corpus)


def test_one_system_is_better_only_if_every_seed_says_so_with_confidence() -> None:
    assert verdict("a", "b", [1.0, 0.5], 0.04) == "b is better"
    assert verdict("a", "b", [-1.0, -0.5], 0.04) == "a is better"
    assert verdict("a", "b", [1.0, -0.5], 0.04) == "undecided"
    assert verdict("a", "b", [1.0, 0.5], 0.06) == "undecided"


def test_no_system_wins_below_the_floor() -> None:
    references = [f"this is sentence number {n} of the test" for n in range(60)]
    little = Result(bleu=0.06, outputs=["this is" for _ in references])
    nothing = Result(bleu=0.0, outputs=["" for _ in references])
    (_, pairs, _) = figures_of({"little": [little] * 2, "nothing": [nothing] * 2}, references)
    assert isinstance(pairs, Table)
    assert pairs.rows[0][3] == pairs.rows[0][6] == "neither translates"


def test_p_values_are_corrected_for_the_number_of_pairs() -> None:
    assert holm([0.04]) == [0.04]
    corrected = holm([0.04, *([0.5] * 9)])
    assert corrected[0] == pytest.approx(0.4)
    assert max(corrected) == 1.0
    draw = np.random.default_rng(1)
    lucky = [min(holm(draw.uniform(size=6).tolist())) < 0.05 for _ in range(2000)]
    assert 0.03 < np.mean(lucky) < 0.07  # the rate of a single pair


def test_a_system_that_outputs_the_references_is_better_than_one_that_does_not() -> None:
    references = [f"this is sentence number {n} of the test" for n in range(60)]
    wrong = ["that was another one entirely , I fear" for _ in references]
    good = Result(bleu=100.0, outputs=references, curve=[(1e9, 10.0), (2e9, 20.0)])
    bad = Result(bleu=0.1, outputs=wrong, curve=[(1e9, 1.0)])
    table, pairs, curves = figures_of({"good": [good, good], "bad": [bad, bad]}, references)
    assert isinstance(table, Table)
    assert isinstance(pairs, Table)
    assert isinstance(curves, LineChart)
    assert pairs.rows[0][3] == pairs.rows[0][6] == "good is better"
    assert table.rows[0][2] == "100.00 ± 0.00"
    assert curves.series[0].y == [10.0, 20.0]
    # equal outputs do not differ
    (_, same, _) = figures_of({"one": [good], "two": [good]}, references)
    assert isinstance(same, Table)
    assert same.rows[0][3] == "undecided"
