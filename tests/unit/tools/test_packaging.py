"""Facts about the package that several files state agree in all of them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for() -> None:
    recipe = (ROOT / "deploy/conda/meta.yaml").read_text()
    needed = recipe[recipe.index("  run:") : recipe.index("\ntest:")]
    listed = re.findall(r"^ +- ([\w-]+) (>=[\d.]+)$", needed, re.MULTILINE)
    required = [("python", PROJECT["requires-python"])]
    required += [
        re.fullmatch(r"([\w-]+)(>=[\d.]+)", one).groups() for one in PROJECT["dependencies"]
    ]
    assert listed == required


def test_every_python_that_is_promised_is_tried_before_a_release() -> None:
    promised = {
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if classifier.startswith("Programming Language :: Python ::")
    }
    for workflow in ("test", "release"):
        text = (ROOT / f".github/workflows/{workflow}.yml").read_text()
        assert set(re.findall(r"\b3\.\d\d\b", text)) == promised
