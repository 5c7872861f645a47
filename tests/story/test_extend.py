"""`dragoman extend`: a model of the toy language learns the French names of numbers."""

from pathlib import Path

import numpy as np

from dragoman.bundle.folder import read_bundle
from dragoman.decode.translator import Translator
from dragoman.text.metrics import bleu
from dragoman.training.extend import extend
from tests.conftest import toy_pairs, write_corpus

FRENCH = {
    "zero": "zéro", "one": "un", "two": "deux", "three": "trois", "four": "quatre",
    "five": "cinq", "six": "six", "seven": "sept", "eight": "huit", "nine": "neuf",
}  # fmt: skip


def french(count: int, seed: int) -> list[tuple[str, str]]:
    return [
        (" ".join(FRENCH[word] for word in english.split()), english)
        for _, english in toy_pairs(count, seed)
    ]


def test_old_sentences_are_cut_and_translated_as_before(trained: Path) -> None:
    bundle = read_bundle(trained)
    pairs = french(300, seed=3)
    old = [source for source, _ in toy_pairs(300, seed=4)]
    found = extend(bundle, ([s for s, _ in pairs], [t for _, t in pairs]), "fr", "en", old)
    assert found.pieces > 5
    assert found.tags == (), "there is one target still"
    before, after = bundle.codec, found.bundle.codec
    assert after.languages.sources == (*before.languages.sources, "fr")
    assert after.encode_source(old) == before.encode_source(old)
    texts = [s for s, _ in pairs]
    assert sum(map(len, after.encode_source(texts))) < sum(map(len, before.encode_source(texts)))
    assert [
        after.source_segmenter.decode(ids) for ids in after.encode_sides(texts).lists()
    ] == texts
    first = len(before.source)
    words = found.bundle.weights["source_embedding.words.weight"]
    assert len(words) == len(after.source)
    np.testing.assert_allclose(words[:first], bundle.weights["source_embedding.words.weight"])


def test_a_second_target_brings_tags(trained: Path) -> None:
    pairs = [(english, other) for other, english in french(100, seed=3)]
    sides = [s for s, _ in pairs], [t for _, t in pairs]
    found = extend(read_bundle(trained), sides, "en", "fr", [])
    assert found.tags == (">>en<<", ">>fr<<")
    ids = found.bundle.codec.encode_source(["one"], "fr")[0]
    assert found.bundle.codec.source.pieces[ids[0]] == ">>fr<<"


def test_a_language_is_added_and_the_old_one_stays(dragoman, trained, tmp_path: Path) -> None:
    de = [source for source, _ in toy_pairs(300, seed=8)]
    (tmp_path / "old.de").write_text("\n".join(de) + "\n")
    files = []
    for side, code in enumerate(("fr", "en")):
        files.append(tmp_path / f"new.{code}")
        files[-1].write_text("\n".join(pair[side] for pair in french(600, seed=9)) + "\n")
    steps = {
        "max_steps": 60, "validate_every": 0, "batch_tokens": 1000, "warmup_steps": 10,
        "learning_rate": 1e-2, "optimizer": "muon", "schedule": "linear", "average_checkpoints": 1,
    }  # fmt: skip
    quick = [f"--set=training.{name}={value}" for name, value in steps.items()]
    answer = dragoman(
        "extend", *files, "--general", tmp_path / "old.de", "--model", trained,
        "--out", tmp_path / "out", "--device", "cpu", *quick,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    german, english = zip(*toy_pairs(60, seed=31), strict=True)
    both = [Translator.load(folder, "cpu", "torch") for folder in (trained, tmp_path / "out")]
    old, kept = (bleu(translator(list(german)), list(english)) for translator in both)
    assert kept > old - 5
    test = french(60, seed=32)
    sources, references = [s for s, _ in test], [t for _, t in test]
    unknown, learned = (bleu(translator(sources), references) for translator in both)
    assert learned > unknown + 30


def test_mistakes_are_reported(dragoman, trained: Path, tmp_path: Path) -> None:
    files = write_corpus(tmp_path, "a", toy_pairs(30))
    common = ["--model", trained, "--out", tmp_path / "out"]
    assert "--general" in dragoman("extend", *files, *common).err
    answer = dragoman("extend", *files, *common, "--general", files[0])
    assert "knows de and en already" in answer.err
    assert not (tmp_path / "out").exists()
