"""`pretraining/data.py` makes training pairs of others: what goes for one side goes for the other."""

import importlib.util
import random
import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def data():
    path = Path(__file__).parents[3] / "pretraining" / "data.py"
    spec = importlib.util.spec_from_file_location("pretraining_data", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAIRS = [
    ("Tom ist da.", "Tom is here."),
    ("Er hat den Hund gesehen.", "He has seen the dog."),
    ("Der Hund schläft.", "The dog is asleep."),
    ("Ich weiß, dass er schläft.", "I know that he is asleep."),
    ("Warum schläft er?", "Why is he asleep?"),
    ("Nun weiß Tom, dass der Hund da ist.", "Now Tom knows that the dog is here, as he and I knew."),
]


def test_chained_sentences_have_as_many_clauses_and_the_same_joints_on_both_sides(data, monkeypatch) -> None:
    monkeypatch.setattr(data, "CHAINED_PAIRS", 200)
    real, *chained = data.long(PAIRS, "de", random.Random(0))
    assert real == PAIRS[-1]  # the only one of twelve words
    for german, english in chained:
        assert "?" not in german + english
        assert german.count(".") == english.count(".") == 1
        for there, here in zip(data.JOINTS["de"], data.JOINTS["en"], strict=True):
            assert german.count(there) == english.count(here)
    texts = " ".join(german + english for german, english in chained)
    for written_as_inside in (", aber der Hund", ", but I know", "; Tom", "und er"):
        assert written_as_inside in texts


def test_names_and_numbers_are_changed_alike_on_both_sides(data) -> None:
    lots = random.Random(1)
    for _ in range(50):
        a, b = data.renumbered(("Raum 12 hat 345 Stühle.", "Room 12 has 345 chairs."), lots)
        assert sorted(re.findall(r"\d+", a)) == sorted(re.findall(r"\d+", b)) != ["12", "345"]
        a, b = data.renamed(("Wo ist Tom?", "Where is Tom?"), ["Tom"], ["Anna", "Giovanni", "Karl"], lots)
        assert a.removeprefix("Wo ist ") == b.removeprefix("Where is ") != "Tom?"
