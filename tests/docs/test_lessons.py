"""The lessons run from top to bottom, say what they show, and end with two questions."""

import json
import re
import sys
from pathlib import Path

import lessons
import numpy as np
import pictures
import pytest
import site_hooks

from dragoman.config import variants
from dragoman.model.positions import DISTANCES
from dragoman.training import run as training

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))
TRAIN = [path for path in NOTEBOOKS if "training.max_steps" in path.read_text(encoding="utf-8")]
BUDGET = "BATCH, LENGTH, BUDGET = 32, 6, 2e9"


@pytest.fixture
def tables_as_they_were():
    """A lesson may add variants of its own."""
    positions, distances = dict(variants.POSITIONS), dict(DISTANCES)
    yield
    for table, before in ((variants.POSITIONS, positions), (DISTANCES, distances)):
        for name in set(table) - set(before):
            del table[name]


@pytest.fixture
def few_steps(monkeypatch):
    """A lesson that trains makes a few steps."""
    real = training.train

    def train(*arguments, settings, **options):
        return real(*arguments, settings={**settings, "training.max_steps": 15}, **options)

    monkeypatch.setattr(training, "train", train)
    run_cell = lessons._run_cell
    cheap = BUDGET.replace("2e9", "2e8")  # of the lesson that has a loop of its own
    monkeypatch.setattr(
        lessons, "_run_cell", lambda cell, names: run_cell(cell.replace(BUDGET, cheap), names)
    )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_runs(notebook: Path, tables_as_they_were, few_steps) -> None:
    assert_shows_what_is_committed(notebook)


def test_the_lesson_with_a_loop_of_its_own_has_this_budget() -> None:
    assert any(BUDGET in path.read_text(encoding="utf-8") for path in TRAIN)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", TRAIN, ids=lambda path: path.stem)
def test_a_lesson_that_trains_runs_with_all_its_steps(notebook: Path, tables_as_they_were) -> None:
    assert_shows_what_is_committed(notebook)


def assert_shows_what_is_committed(notebook: Path) -> None:
    outputs = lessons.run(notebook)
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    for cell, found in zip(cells, outputs, strict=True):
        # what is committed was shown by this cell: as many outputs of the same kinds
        kinds = [output["output_type"] for output in cell["outputs"]]
        assert kinds == [output["output_type"] for output in found], "".join(cell["source"])
    assert any(outputs)


def test_there_are_eleven_and_each_ends_with_two_questions_and_folded_answers() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{n:02}" for n in range(1, 12)]
    for path in NOTEBOOKS:
        last = json.loads(path.read_text())["cells"][-1]
        questions = "".join(last["source"]).partition("## Questions")[2]
        assert re.findall(r"^(\d)\. .*", questions, re.M) == ["1", "2"], path.name
        asked, *answers = questions.split('<details markdown="1">')
        assert asked.count("?") >= 2, path.name
        for number, answer in enumerate(answers, 1):
            assert answer.startswith(f"<summary>Answer {number}</summary>\n\n"), path.name
            assert answer.rstrip().endswith("\n\n</details>"), path.name
        assert len(answers) == 2, path.name
    index = (ROOT / "docs" / "lessons" / "index.md").read_text()
    assert all(path.name in index for path in NOTEBOOKS)


def test_a_cell_that_fails_is_not_passed_over(tmp_path) -> None:
    notebook = tmp_path / "wrong.ipynb"
    cells = [{"cell_type": "code", "source": ["assert 1 == 2"], "outputs": []}]
    notebook.write_text(json.dumps({"cells": cells}))
    with pytest.raises(AssertionError):
        lessons.run(notebook)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_site_shows_a_lesson_with_its_code_and_what_it_showed(notebook: Path) -> None:
    content = json.loads(notebook.read_text())
    page = site_hooks.with_links_of_the_site(site_hooks.as_page(notebook.name, content))
    assert page.startswith("# ")
    assert f'href="{notebook.name}"' in page
    for cell in content["cells"]:
        assert "".join(cell["source"]) in page
        for output in cell.get("outputs", []):
            shown = output.get("text") or next(iter(output["data"].values()))
            assert "".join(shown).strip("\n") in page


def test_pictures_have_one_colour_for_each_sign_and_no_background(monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "lessons")
    import lesson

    matrix = np.array([[1.0, -1.0, 0.5]])
    for svg in (lesson.heatmap(matrix).svg, pictures.heatmaps({"": matrix})):
        cells = re.findall(r'<rect [^>]*fill="(#\w+)" fill-opacity="([\d.]+)"', svg)
        assert cells == [
            (pictures.BLUE, "1.00"), (pictures.ORANGE, "1.00"), (pictures.BLUE, "0.50"),
        ]  # fmt: skip
        assert "white" not in svg
        assert "100%" not in svg
    del sys.modules["lesson"]
