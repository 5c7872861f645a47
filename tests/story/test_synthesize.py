"""A model writes a synthetic corpus, and another model trains on it."""

import gzip
from pathlib import Path

from dragoman.bundle.folder import read_bundle
from tests.conftest import NUMBERS, QUICK_RUN, toy_pairs, write_corpus


def rows(path: Path) -> list[list[str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [line.split("\t") for line in text.splitlines()]


def test_a_model_trains_on_the_output_of_another_one(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    """The teacher goes from German to English, so the sources it makes are for a model from English
    to German."""
    real = [source for source, _ in toy_pairs(60, seed=12)]
    text = tmp_path / "text.de"
    text.write_text("".join(f"{line}\n" for line in [*real, "", "\t"]))
    made = tmp_path / "made.en-de.tsv.gz"
    answer = dragoman(
        "synthesize", "--model", trained, "--input", text, "--output", made, "--device", "cpu"
    )
    assert answer.code == 0, answer.err
    assert f"60 pairs in {made}; skipped 2 lines" in " ".join(answer.err.split())
    assert [target for _, target in rows(made)] == real
    right = [
        source == f"<BT> {' '.join(NUMBERS[word] for word in target.split())}"
        for source, target in rows(made)
    ]
    assert sum(right) > 0.9 * len(real)

    source, target = write_corpus(tmp_path, "real", [(b, a) for a, b in toy_pairs(100)])
    config = tmp_path / "joined.toml"
    config.write_text(
        f'[[data.corpora]]\nsource = "{target}"\ntarget = "{source}"\nfrom = "en"\nto = "de"\n'
        f'[[data.corpora]]\nsource = "{made}"\nweight = 0.5\n'
    )
    answer = dragoman("train", "--config", config, "--out", tmp_path / "run", *QUICK_RUN)
    assert answer.code == 0, answer.err
    codec = read_bundle(tmp_path / "run").codec
    (plain,), (marked,) = codec.encode_source(["one two"]), codec.encode_source(["<BT> one two"])
    assert len(marked) == len(plain) + 1
    assert dragoman("translate", "one two", "--model", tmp_path / "run").code == 0


def test_a_teacher_gives_new_targets_to_real_sources(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    text, made = tmp_path / "text.de", tmp_path / "made.de-en.tsv"
    text.write_text("eins zwei\nneun\n")
    files = ("--input", text, "--output", made)
    answer = dragoman(
        "synthesize", "--kind", "distil", "--model", trained, *files, "--sample", "--top-k", 1
    )
    assert answer.code == 0, answer.err
    assert rows(made) == [["eins zwei", "one two"], ["neun", "nine"]]


def test_a_mistake_in_what_to_make_gets_one_clear_line(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    for arguments, words in (
        (("--kind", "fronk", "--input", "a", "--output", "b"), "it can be back, distil"),
        (("--input", "a"), "--output F"),
        (("--input", tmp_path / "nope", "--output", tmp_path / "b"), "no such file"),
    ):
        answer = dragoman("synthesize", "--model", trained, *arguments)
        assert answer.code == 1
        assert words in answer.err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
