"""The commands of docs/recipes.md run unchanged."""

import re
from pathlib import Path
from typing import Any

import pytest

import dragoman

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
GERMAN = ["Guten Morgen.", "Danke!"]


def run(title: str) -> dict[str, Any]:
    """The names that a recipe leaves."""
    found = re.search(rf"^## {title}\n.*?^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    # Classes are pickled by Ray and described by spaCy: they need a module.
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(found[1], f"recipe of {title}", "exec"), names)
    return names


@pytest.fixture(scope="module")
def english() -> list[str]:
    return [str(text) for text in dragoman.load()(GERMAN, source="de", to="en")]


@pytest.mark.slow
def test_ray_data_translates_a_column(english: list[str]) -> None:
    pytest.importorskip("ray.data")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        rows = run("Ray Data")["english"]
    finally:
        ray.shutdown()
    assert sorted(row["english"] for row in rows) == sorted(english)


def test_a_spacy_pipe_adds_translations_to_documents(english: list[str]) -> None:
    pytest.importorskip("spacy")
    recipe = run("spaCy")
    assert [doc._.english for doc in recipe["docs"]] == english
    assert recipe["nlp"](GERMAN[0])._.english == english[0]


def test_a_translator_is_a_langchain_runnable(english: list[str]) -> None:
    pytest.importorskip("langchain_core")
    recipe = run("LangChain")
    assert recipe["answer"] == english[0].upper()
    assert recipe["answers"] == [text.upper() for text in english]
