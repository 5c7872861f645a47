"""`pretraining/data.py` makes training pairs of others: what goes for one side goes for the other."""

import gzip
import random
import re

import data

PAIRS = [
    ("Tom ist da.", "Tom is here."),
    ("Er hat den Hund gesehen.", "He has seen the dog."),
    ("Der Hund schläft.", "The dog is asleep."),
    ("Ich weiß, dass er schläft.", "I know that he is asleep."),
    ("Warum schläft er?", "Why is he asleep?"),
    ("Nun weiß Tom, dass der Hund da ist.", "Now Tom knows that the dog is here, as he and I knew."),
]


def test_chained_sentences_have_as_many_clauses_and_the_same_joints_on_both_sides(monkeypatch) -> None:
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


def test_names_and_numbers_are_changed_alike_on_both_sides() -> None:
    lots = random.Random(1)
    for _ in range(50):
        a, b = data.renumbered(("Raum 12 hat 345 Stühle.", "Room 12 has 345 chairs."), lots)
        assert sorted(re.findall(r"\d+", a)) == sorted(re.findall(r"\d+", b)) != ["12", "345"]
        a, b = data.renamed(("Wo ist Tom?", "Where is Tom?"), ["Tom"], ["Anna", "Giovanni", "Karl"], lots)
        assert a.removeprefix("Wo ist ") == b.removeprefix("Where is ") != "Tom?"


def test_nothing_is_made_of_a_sentence_that_is_held_out(tmp_path, monkeypatch) -> None:
    """A pair of one folder whose English is tested in another is neither changed nor chained nor translated back."""
    for name, count in {"ODD_PAIRS": 4, "RENAMED_PAIRS": 50, "CHAINED_PAIRS": 50, "VALID_PAIRS": 2}.items():
        monkeypatch.setattr(data, name, count)
    train = [(f"Gestern aß Tom {n} Äpfel.", f"Yesterday Tom ate {n} apples.") for n in range(20)]
    secret = ("Gestern sah Tom 7 Zebras.", "Yesterday Tom saw 7 zebras.")
    for language in data.LANGUAGES:
        folder = tmp_path / "tatoeba" / f"{language}-en"
        folder.mkdir(parents=True)
        data.write(folder, "train", language, "en", [*train, secret] if language != "pt" else train)
        data.write(folder, "valid", language, "en", [("Wer kam?", "Who came?")] * 2)
        tested = [("Var det zebraer?", "yesterday, TOM saw 7 zebras!")] if language == "fr" else []
        data.write(folder, "test", language, "en", [("Ingen kom.", "Nobody came."), *tested])
    for language in ("de", "es"):
        folder = tmp_path / "extra" / f"bible.{language}-en"
        folder.mkdir(parents=True)
        data.write(folder, "train", language, "en", [("Am Anfang", "In the beginning")])
    data.main(tmp_path)
    for kind in ("odd", "long", "unpaired"):
        files = [*(tmp_path / "pretraining").glob(f"{kind}.*")]
        texts = " ".join(gzip.decompress(file.read_bytes()).decode() for file in files).lower()
        assert texts, kind
        assert "zebra" not in texts, kind
