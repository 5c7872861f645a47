import bz2
import gzip
import os
import threading
from itertools import islice, permutations
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from dragoman.config import make_config
from dragoman.data import prepare_workers
from dragoman.data.batches import DataPosition
from dragoman.data.prepare import prepare
from dragoman.errors import ConfigError, CorpusError
from dragoman.text.codec import Codec
from dragoman.text.doctor import examine
from dragoman.text.parallel import read_pairs
from dragoman.training.loader import Loader
from tests.conftest import toy_pairs, write_corpus


def config(*corpora: tuple[object, object], **settings: object):
    entries = [{"source": str(source), "target": str(target)} for source, target in corpora]
    return make_config(
        "tiny", settings={"data.corpora": entries, "text.vocab_size": 400, **settings}
    )


def test_training_contains_no_held_out_text(tmp_path) -> None:
    files = write_corpus(tmp_path, "t", toy_pairs(400))
    data = prepare(config(files), tmp_path / "data")
    held = set(data.valid.sources) | set(data.valid.targets)
    trained = {data.train.source_text(i) for i in range(len(data.train))}
    trained |= {*data.train.target_texts(np.arange(len(data.train)))}
    assert len(data.valid.sources) == 20
    assert not held & trained


def test_training_shares_no_sentence_with_excluded_text(tmp_path) -> None:
    """Case, punctuation and direction do not matter; the note counts the pairs."""
    pairs = toy_pairs(100)
    (first_source, _), (_, second_target) = pairs[3], pairs[50]
    files = write_corpus(tmp_path, "t", pairs)
    apart = [("ungesehen", f"{first_source.upper()}!"), (f"„{second_target}“", "unseen")]
    source, target = write_corpus(tmp_path, "apart", apart)
    excluded = [{"source": str(source), "target": str(target)}]
    data = prepare(
        config(files, **{"data.exclude": excluded, "data.valid_size": 0}), tmp_path / "data"
    )
    gone = [line for line, (s, t) in enumerate(pairs, 1) if s == first_source or t == second_target]
    assert sorted({*range(1, 101)} - {*data.train.lines}) == gone
    assert any(
        f"{len(gone)} pairs share a sentence with data.exclude" in note for note in data.notes
    )


def test_synthetic_sources_are_excluded_like_others(tmp_path) -> None:
    pairs = toy_pairs(100)
    (apart, _), *others = pairs
    files = write_corpus(tmp_path, "t", [(f"<BT> {source}", target) for source, target in pairs])
    source, target = write_corpus(tmp_path, "apart", [(apart, "unseen")])
    excluded = [{"source": str(source), "target": str(target)}]
    data = prepare(
        config(files, **{"data.exclude": excluded, "data.valid_size": 0}), tmp_path / "data"
    )
    assert [*data.train.lines] == [
        line for line, (source, _) in enumerate(others, 2) if source != apart
    ]


def test_unusable_pairs_are_skipped_and_reported(tmp_path) -> None:
    pairs = [*toy_pairs(100), ("leer", ""), ("lang " * 50, "long " * 50)]
    data = prepare(
        config(write_corpus(tmp_path, "t", pairs), **{"data.max_length": 30}), tmp_path / "data"
    )
    assert 101 not in data.train.lines
    assert 102 not in data.train.lines
    assert any("an empty side" in note and "101" in note for note in data.notes)
    assert any("longer than data.max_length=30" in note for note in data.notes)


def test_several_processes_write_the_same_store_as_one(tmp_path, monkeypatch) -> None:
    """Parts of a few sentences, two corpora with tags, pairs too long and pairs held out among
    them."""
    de_en = write_corpus(tmp_path, "t", [*toy_pairs(120), ("lang " * 50, "long " * 50)])
    settings = config(de_en, de_en[::-1], **{"data.max_length": 30})
    monkeypatch.setattr("dragoman.data.prepare_workers.SENTENCES_AT_ONCE", 17)
    prepare(settings, tmp_path / "alone")
    monkeypatch.setattr("dragoman.data.prepare_workers.BYTES_FOR_PROCESSES", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    prepare(settings, tmp_path / "together")
    files = sorted(
        path.relative_to(tmp_path / "alone")
        for path in (tmp_path / "alone").rglob("*")
        if path.is_file()
    )
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "alone" / file).read_bytes() == (
            tmp_path / "together" / file
        ).read_bytes(), file


def in_three_languages(folder: Path) -> list[dict[str, str]]:
    """Corpora in all six directions, and a table of text that a model made; with pairs that must
    not be kept."""
    numbers = [line for line, _ in toy_pairs(150)]
    sides = {
        "de": [f"{line} Straße {i}" for i, line in enumerate(numbers)],
        "en": [f"{line} street {i}" for i, line in enumerate(numbers)],
        "fr": [f"{line} ﬁn  rue\u00a0{i}" for i, line in enumerate(numbers)],
    }
    sides["fr"][7], sides["en"][30], sides["de"][40] = "", " \t", "lang " * 60
    for language, lines in sides.items():
        (folder / f"t.{language}").write_text("".join(f"{line}\n" for line in lines))
    made = "".join(
        f"<BT> {a}\t{b}\tignored\n" for a, b in zip(sides["de"][:50], sides["fr"][:50], strict=True)
    )
    with bz2.open(folder / "made.de-fr.tsv.bz2", "wt") as file:
        file.write(made)
    pairs = [
        {"source": str(folder / f"t.{a}"), "target": str(folder / f"t.{b}")}
        for a, b in permutations(sides, 2)
    ]
    return [*pairs, {"source": str(folder / "made.de-fr.tsv.bz2"), "target": ""}]


def read_plainly(corpus: dict[str, str]) -> list[tuple[str, str]]:
    if corpus["target"]:
        return list(
            zip(*(Path(corpus[side]).read_text().split("\n")[:-1] for side in corpus), strict=True)
        )
    with bz2.open(corpus["source"], "rt") as file:
        return [tuple(line.split("\t")[:2]) for line in file]


@pytest.mark.parametrize("shared", [True, False])
def test_every_pair_equals_the_result_of_plain_code(tmp_path, shared: bool) -> None:
    """The reference selects pairs line by line, and encodes them with SentencePiece itself."""
    corpora = in_three_languages(tmp_path)
    apart = write_corpus(tmp_path, "apart", [(toy_pairs(150)[3][0] + " STRASSE 3!", "unseen")])
    excluded = [{"source": str(apart[0]), "target": str(apart[1])}]
    settings = {
        "data.exclude": excluded,
        "data.valid_size": 0,
        "data.max_length": 40,
        "text.shared": shared,
    }
    settings |= {"text.vocab_size": 420, "training.batch_tokens": 200, "data.corpora": corpora}
    given = make_config("tiny", settings=settings)
    data = prepare(given, tmp_path / "data")
    files = [
        tmp_path / "data" / f"{name}.spm"
        for name in (("shared",) * 2 if shared else ("source", "target"))
    ]
    source_pieces, target_pieces = (
        sentencepiece.SentencePieceProcessor(model_file=str(file)) for file in files
    )
    expected, kept, long = [], [], 0
    for number, corpus in enumerate(corpora):
        to = "fr" if not corpus["target"] else Path(corpus["target"]).suffix[1:]
        for line, (source, target) in enumerate(read_plainly(corpus), start=1):
            mark = [source_pieces.bos_id()] if source.startswith("<BT>") else []
            ids = source_pieces.encode(source.removeprefix("<BT>"))
            left = [source_pieces.piece_to_id(f">>{to}<<"), *mark, *ids, source_pieces.eos_id()]
            right = target_pieces.encode(target)
            is_apart = any("straße" in side.lower() and line == 4 for side in (source, target))
            if source.strip() and target.strip() and not is_apart:
                long += max(len(left), len(right)) > 40
                if max(len(left), len(right)) <= 40:
                    expected.append((left, right))
                    kept.append((number, line))
    store = data.train
    assert (
        list(zip(store.corpora(np.arange(len(store))).tolist(), store.lines.tolist(), strict=True))
        == kept
    )
    assert long == data.too_long > 0
    loader = Loader(store, data.codec, given, 10_000)
    seen = []
    for _, batches in islice(loader.from_position(DataPosition()), loader.steps_in_epoch()):
        for batch in batches:
            for row, index in enumerate(batch.indices):
                left, right = expected[index]
                assert batch.source[row, : batch.source_lengths[row]].tolist() == left
                assert batch.target_out[row, : batch.target_lengths[row]].tolist() == [
                    *right,
                    target_pieces.eos_id(),
                ]
            seen += batch.indices.tolist()
    assert sorted(seen) == list(range(len(expected)))


def test_each_file_is_read_and_each_sentence_encoded_once(tmp_path, monkeypatch) -> None:
    corpora = in_three_languages(tmp_path)
    read, encoded = [], []
    read_blocks, encode_sides = prepare_workers.read_blocks, Codec.encode_sides

    def reading(file):
        read.append(file)
        return read_blocks(file)

    def encode(codec, texts, target):
        encoded.extend(texts)
        return encode_sides(codec, texts, target)

    monkeypatch.setattr(prepare_workers, "read_blocks", reading)
    monkeypatch.setattr(Codec, "encode_sides", encode)
    given = make_config(
        "tiny", settings={"data.corpora": corpora, "text.vocab_size": 420, "data.valid_size": 0}
    )
    data = prepare(given, tmp_path / "data")
    assert len(data.train) > 6 * 130
    assert sorted(read) == sorted({corpus["source"] for corpus in corpora})
    assert len(encoded) == 3 * 150 + 2 * 50
    assert sum(side.sentences for side in data.train.sides) == len(encoded)


def test_the_notes_equal_the_findings_of_check(tmp_path) -> None:
    pairs = [
        *toy_pairs(40, longest=12),
        ("<b>eins</b>", "one"),
        ("scho\u0308n", "nice"),
        ("a\x07", "a\x07"),
        ("", "x"),
    ]
    files = write_corpus(
        tmp_path, "t", [*pairs, pairs[3], ("zwei\r", "two"), ("Ã¶", "ö"), ("kurz", "long " * 30)]
    )
    data = prepare(config(files, **{"data.valid_size": 0}), tmp_path / "data")
    found = [
        finding
        for finding in examine(read_pairs(*files)).findings
        if "language" not in finding.kind
    ]
    kinds = {finding.kind for finding in found if finding.kind != "nearly repeated"}
    assert len(kinds) == 9
    assert data.notes == [f"{files[0]}: {finding}" for finding in found if finding.kind in kinds]


def test_rejects_files_of_different_length_and_names_the_unpaired_line(tmp_path) -> None:
    files = write_corpus(
        tmp_path, "t", [(f"{'Wort ' * (i * 7 % 5 + 1)}{i}.",) * 2 for i in range(20)]
    )
    files[1].write_text("".join(files[1].read_text().splitlines(keepends=True)[:7]) + "8\n")
    with pytest.raises(CorpusError, match=r"t\.de has 20 lines, .*t\.en 8"):
        prepare(config(files), tmp_path / "data")
    # no partial result remains
    assert {path.name for path in tmp_path.iterdir()} == {"t.de", "t.en"}


def test_shards_are_read_in_order_and_paired(tmp_path) -> None:
    pairs = toy_pairs(90)
    for number, pack in enumerate((lambda raw: raw, gzip.compress, bz2.compress)):
        suffix = ("", ".gz", ".bz2")[number]
        for language, side in zip(
            ("de", "en"), zip(*pairs[30 * number : 30 * number + 30], strict=True), strict=True
        ):
            (tmp_path / f"t.{number}.{language}{suffix}").write_bytes(
                pack("".join(f"{x}\n" for x in side).encode())
            )
    data = prepare(
        config((tmp_path / "t.*.de*", tmp_path / "t.*.en*"), **{"data.valid_size": 0}),
        tmp_path / "data",
    )
    assert (
        list(
            zip(
                data.train.source_texts(np.arange(90)),
                data.train.target_texts(np.arange(90)),
                strict=True,
            )
        )
        == pairs
    )
    (tmp_path / "t.1.en.gz").unlink()
    with pytest.raises(CorpusError, match=r"3 files and .* names 2: each file needs its partner"):
        prepare(config((tmp_path / "t.*.de*", tmp_path / "t.*.en*")), tmp_path / "data2")


def test_a_pipe_is_read_once(tmp_path) -> None:
    pairs = toy_pairs(60)
    pipe = tmp_path / "t.de-en.tsv"
    os.mkfifo(pipe)
    text = "".join(f"{source}\t{target}\r\n" for source, target in pairs)
    writer = threading.Thread(target=lambda: pipe.write_bytes(text.encode()))
    writer.start()
    data = prepare(config((pipe, ""), **{"data.valid_size": 0}), tmp_path / "data")
    writer.join()
    assert data.train.target_texts(np.arange(60)) == [target for _, target in pairs]
    assert any("end in CR LF" in note and note.startswith(f"{pipe}: 60 ") for note in data.notes)


def test_pieces_are_learned_from_equally_many_sentences_per_language(tmp_path, monkeypatch) -> None:
    """No sentence counts twice, even in several corpora, and no held-out sentence counts."""
    sentences = {"de": 100, "en": 100, "fr": 40}
    for language, count in sentences.items():
        text = "".join(f"{language}{i} {language}wort\n" for i in range(count))
        (tmp_path / f"t.{language}").write_text(text)
        (tmp_path / f"u.{language}").write_text("".join(text.splitlines(keepends=True)[:40]))
    pairs = [("t.de", "t.en"), ("t.en", "t.de"), ("u.fr", "u.de"), ("u.de", "u.fr")]
    learned: list[dict[str, int]] = []
    monkeypatch.setattr("dragoman.data.prepare.SENTENCES_TO_LEARN_FROM", 120)
    monkeypatch.setattr(Codec, "learn_from_words", lambda source, *_: learned.append(source))
    given = config(*((tmp_path / a, tmp_path / b) for a, b in pairs), **{"data.valid_size": 5})
    with pytest.raises(AttributeError):  # there is no codec
        prepare(given, tmp_path / "data")
    counts = {language: learned[0][f"{language}wort"] for language in sentences}
    assert counts["fr"] == pytest.approx(40, abs=5)
    # one in four: every third would be more than its share
    assert counts["de"] == pytest.approx(140 / 4, abs=5)
    assert counts["en"] == pytest.approx(100 / 3, abs=5)
    # t.de and u.de
    assert max(count for word, count in learned[0].items() if not word.endswith("wort")) <= 2


def test_rejects_a_corpus_without_usable_pairs(tmp_path) -> None:
    with pytest.raises(CorpusError, match="no pairs to train on"):
        prepare(config(write_corpus(tmp_path, "t", [("", ""), (" ", "x")])), tmp_path / "data")
    with pytest.raises(CorpusError, match="longer than"):
        prepare(
            config(write_corpus(tmp_path, "u", toy_pairs(9)), **{"data.max_length": 1}),
            tmp_path / "data2",
        )


def test_rejects_a_corpus_that_is_held_out_entirely(tmp_path) -> None:
    files = write_corpus(tmp_path, "t", toy_pairs(20))
    excluded = [{"source": str(files[0]), "target": str(files[1])}]
    with pytest.raises(CorpusError, match="all share a sentence with held-out pairs"):
        prepare(config(files, **{"data.exclude": excluded}), tmp_path / "data")


def test_several_target_languages_are_tagged(tmp_path) -> None:
    de_en = write_corpus(tmp_path, "t", toy_pairs(50))
    data = prepare(config(de_en, de_en[::-1]), tmp_path / "data")
    tags = {
        data.codec.source.pieces[int(data.train.sources([i], 0)[0, 0])]
        for i in range(len(data.train))
    }
    assert tags == {">>en<<", ">>de<<"}
    nameless = tmp_path / "plain.txt"
    nameless.write_text((tmp_path / "t.en").read_text())
    with pytest.raises(ConfigError, match="needs `to`"):
        prepare(config(de_en, (de_en[0], nameless)), tmp_path / "data2")
