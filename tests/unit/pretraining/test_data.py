"""`pretraining/data.py` makes training pairs of others: what goes for one side goes for the
other."""

import bz2
import gzip
import random
import re
from itertools import permutations
from pathlib import Path

import back
import data
import pytest
from own_symbols import LEMMA, TERM, TERM_END

from dragoman.config import make_config


def test_names_and_numbers_are_changed_alike_on_both_sides() -> None:
    rng = random.Random(1)
    for _ in range(50):
        a, b = data.renumbered(("Raum 12 hat 345 Stühle.", "Room 12 has 345 chairs."), rng)
        assert sorted(re.findall(r"\d+", a)) == sorted(re.findall(r"\d+", b)) != ["12", "345"]
        a, b = data.renamed(
            ("Wo ist Tom?", "Where is Tom?"), ["Tom"], ["Anna", "Giovanni", "Karl"], rng
        )
        assert a.removeprefix("Wo ist ") == b.removeprefix("Where is ") != "Tom?"


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A little of everything; one sentence of Tatoeba's training pairs is tested in another
    language."""
    for name, count in {"ODD_PAIRS": 4, "RENAMED_PAIRS": 50, "VALID_PAIRS": 2}.items():
        monkeypatch.setattr(data, name, count)
    for folder in ("flores", "real", "extra"):
        (tmp_path / folder).mkdir()
    train = [(f"Gestern aß Tom {n} Äpfel.", f"Yesterday Tom ate {n} apples.") for n in range(20)]
    secret = ("Gestern sah Tom 7 Zebras.", "Yesterday Tom saw 7 zebras.")
    for language in data.OTHERS:
        folder = tmp_path / "tatoeba" / f"{language}-en"
        folder.mkdir(parents=True)
        data.write(folder, f"train.{language}-en", [*train, secret] if language != "pt" else train)
        data.write(folder, f"valid.{language}-en", [("Wer kam?", "Who came?")] * 2)
        tested = [("Var det zebraer?", "yesterday, TOM saw 7 zebras!")] if language == "fr" else []
        data.write(folder, f"test.{language}-en", [("Ingen kom.", "Nobody came."), *tested])
        for path in folder.iterdir():
            path.rename(folder / path.name.replace(f".{language}-en.", "."))
        for part in ("dev", "devtest"):
            for side in (language, "en"):
                text = "".join(f"{part} {number}.\n" for number in range(3))
                (tmp_path / "flores" / f"{part}.{side}.gz").write_bytes(
                    gzip.compress(text.encode())
                )
        docs = "Das ist ein Satz.\tThis is a sentence.\nx = f(y) als Code\tx = f(y) as code\n"
        (tmp_path / "real" / f"mdn.{language}-en.tsv.bz2").write_bytes(bz2.compress(docs.encode()))
    return tmp_path


def test_nothing_is_made_of_a_sentence_that_is_held_out(corpora) -> None:
    """A pair of one folder whose English is tested in another is not changed into others."""
    data.main(corpora)
    files = [*(corpora / "pretraining").glob("odd.*")]
    texts = " ".join(gzip.decompress(file.read_bytes()).decode() for file in files).lower()
    assert "apples" in texts
    assert "zebra" not in texts


def test_code_and_repetitions_are_no_prose(corpora) -> None:
    data.main(corpora)
    docs = gzip.decompress((corpora / "pretraining" / "docs.de-en.en.gz").read_bytes()).decode()
    assert docs == "This is a sentence.\n"
    assert not data.is_translation("Nicht übersetzt hier.", "Nicht übersetzt hier.")
    assert not data.is_translation("Ja.", "This is far too long to be the same sentence.")


def test_the_config_has_all_twenty_directions_and_keeps_every_held_out_set_out(corpora) -> None:
    data.main(corpora)
    config = make_config(file=corpora / "pretraining" / "second.toml")
    directions = {(c.source_language, c.target_language) for c in config.data.corpora}
    assert directions == set(permutations(data.LANGUAGES, 2))
    excluded = {Path(c.source).relative_to(corpora).parts[0] for c in config.data.exclude}
    assert excluded == {"tatoeba", "flores"}
    assert len(config.data.exclude) == 4 * 4
    for corpus in config.data.corpora:
        for side, language in (
            (corpus.source, corpus.source_language),
            (corpus.target, corpus.target_language),
        ):
            assert f".{language}." in side
            assert "europarl" in side or "back" in side or Path(side).exists()


def test_short_lines_of_two_languages_are_joined_where_most_agree() -> None:
    german = [("Bank", "bank"), ("Hund", "dog"), ("Köter", "dog"), ("Hund", "dog")]
    french = [("chien", "dog"), ("rive", "bank"), ("banque", "bank"), ("chat", "cat")]
    assert data.prevailing(german, french) == [("Hund", "chien")]


def test_only_the_fourth_stage_has_short_lines_without_english(corpora) -> None:
    data.main(corpora)
    for stage, expected in {"third": False, "fourth": True}.items():
        config = make_config(file=corpora / "pretraining" / f"{stage}.toml")
        assert any("short.de-fr" in corpus.source for corpus in config.data.corpora) is expected


def test_treebanks_are_text_of_one_language(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "commonvoice.es.txt.bz2").write_bytes(bz2.compress(b"Hace mucho sol.\n"))
    (tmp_path / "treebanks").mkdir()
    rows = "# sent_id = 1\n# text = Este es el texto.\n1\tEste\teste\tDET\n"
    (tmp_path / "treebanks" / "es_gsd-ud-dev.conllu").write_text(rows)
    assert back.sentences(tmp_path, "es", more=False) == ["Hace mucho sol."]
    assert sorted(back.sentences(tmp_path, "es", more=True)) == [
        "Este es el texto.",
        "Hace mucho sol.",
    ]


def test_phrases_are_pairs_of_all_languages(tmp_path) -> None:
    (tmp_path / "phrases").mkdir()
    row = "the kettle\tder Kessel\tla bouilloire\tel hervidor\ta chaleira\n"
    (tmp_path / "phrases" / "kitchen.tsv").write_text(row, encoding="utf-8")
    assert [*data.phrases(tmp_path, "pt", "fr")] == [("a chaleira", "la bouilloire")]


def test_a_rare_word_is_translated_back_as_the_dictionary_has_it(tmp_path) -> None:
    """The more frequent of two translations wins; the model handles frequent words itself."""
    lines = {
        "de": ["Der Kessel pfeift in der Küche."] + ["Wir sitzen in der Küche."] * 20_000,
        "en": ["The kettle is on the stove.", "The kettle of the boiler."],
    }
    (tmp_path / "pretraining").mkdir()
    for language, some in lines.items():
        unique = [f"{line} {number}" for number, line in enumerate(some)]
        with bz2.open(tmp_path / "pretraining" / f"a.{language}.txt.bz2", "wt") as file:
            file.write("\n".join(unique))
    entries = [("Kessel", "boiler"), ("Kessel", "kettle"), ("Küche", "kitchen")]
    data.write(tmp_path / "pretraining", "words.de-en", entries)
    prepared = back.prepared(tmp_path, "en", "de", more=True, terms=True)
    with_terms = [line for line in prepared if TERM in line]
    assert with_terms == [f"Der {TERM} Kessel{LEMMA} kettle{TERM_END} pfeift in der Küche. 0"]
