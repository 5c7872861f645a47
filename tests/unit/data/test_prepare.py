import pytest

from dragoman.config import make_config
from dragoman.data.prepare import prepare
from dragoman.errors import ConfigError, CorpusError
from tests.conftest import toy_pairs, write_corpus


def config(*corpora: tuple[object, object], **settings: object):
    entries = [{"source": str(source), "target": str(target)} for source, target in corpora]
    return make_config("tiny", settings={"data.corpora": entries, "text.size": 400, **settings})


def test_held_out_text_is_not_trained_on(tmp_path) -> None:
    files = write_corpus(tmp_path, "t", toy_pairs(400))
    data = prepare(config(files), tmp_path / "data")
    held = set(data.valid.sources) | set(data.valid.targets)
    trained = {data.train.source_text(i) for i in range(len(data.train))}
    trained |= {data.train.target_text(i) for i in range(len(data.train))}
    assert len(data.valid.sources) == 20
    assert not held & trained


def test_no_pair_is_trained_on_that_shares_a_sentence_with_what_is_excluded(tmp_path) -> None:
    """In either direction, whatever the case and the punctuation; the note counts them."""
    pairs = toy_pairs(100)
    (first_source, _), (_, second_target) = pairs[3], pairs[50]
    files = write_corpus(tmp_path, "t", pairs)
    apart = [("ungesehen", f"{first_source.upper()}!"), (f"„{second_target}“", "unseen")]
    source, target = write_corpus(tmp_path, "apart", apart)
    excluded = [{"source": str(source), "target": str(target)}]
    data = prepare(config(files, **{"data.exclude": excluded, "data.valid_size": 0}), tmp_path / "data")
    gone = [line for line, (s, t) in enumerate(pairs, 1) if s == first_source or t == second_target]
    assert sorted({*range(1, 101)} - {*data.train.lines}) == gone
    assert any(f"{len(gone)} pairs share a sentence with data.exclude" in note for note in data.notes)


def test_a_source_that_a_model_made_is_excluded_as_any_other(tmp_path) -> None:
    pairs = toy_pairs(100)
    (apart, _), *others = pairs
    files = write_corpus(tmp_path, "t", [(f"<BT> {source}", target) for source, target in pairs])
    source, target = write_corpus(tmp_path, "apart", [(apart, "unseen")])
    excluded = [{"source": str(source), "target": str(target)}]
    data = prepare(config(files, **{"data.exclude": excluded, "data.valid_size": 0}), tmp_path / "data")
    assert [*data.train.lines] == [line for line, (source, _) in enumerate(others, 2) if source != apart]


def test_pairs_that_cannot_be_used_are_left_out_and_named(tmp_path) -> None:
    pairs = [*toy_pairs(100), ("leer", ""), ("lang " * 50, "long " * 50)]
    data = prepare(config(write_corpus(tmp_path, "t", pairs), **{"data.max_length": 30}), tmp_path / "data")
    assert 101 not in data.train.lines
    assert 102 not in data.train.lines
    assert any("an empty side" in note and "101" in note for note in data.notes)
    assert any("longer than data.max_length=30" in note for note in data.notes)


def test_processes_write_what_one_process_writes(tmp_path, monkeypatch) -> None:
    """Chunks of a few pairs, two corpora with tags, pairs too long and pairs held out among them."""
    de_en = write_corpus(tmp_path, "t", [*toy_pairs(120), ("lang " * 50, "long " * 50)])
    settings = config(de_en, de_en[::-1], **{"data.max_length": 30})
    monkeypatch.setattr("dragoman.data.encoding.PAIRS_IN_CHUNK", 17)
    prepare(settings, tmp_path / "alone")
    monkeypatch.setattr("dragoman.data.encoding.CHUNKS_FOR_PROCESSES", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    prepare(settings, tmp_path / "together")
    files = sorted(path.relative_to(tmp_path / "alone") for path in (tmp_path / "alone").rglob("*") if path.is_file())
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "alone" / file).read_bytes() == (tmp_path / "together" / file).read_bytes(), file


def test_pieces_are_learned_from_one_pair_in_so_many(tmp_path, monkeypatch) -> None:
    learned = []
    monkeypatch.setattr("dragoman.data.prepare.PAIRS_TO_LEARN_FROM", 40)
    monkeypatch.setattr("dragoman.data.prepare.Codec.learn", lambda *sides: learned.extend(map(list, sides[:2])))
    with pytest.raises(AttributeError):  # there is no codec
        prepare(config(write_corpus(tmp_path, "t", toy_pairs(400))), tmp_path / "data")
    assert len(learned[0]) == len(learned[1]) == pytest.approx(40, abs=5)
    assert set(zip(*learned, strict=True)) <= set(toy_pairs(400))


def test_nothing_to_train_on_is_refused(tmp_path) -> None:
    with pytest.raises(CorpusError, match="no pair to train on"):
        prepare(config(write_corpus(tmp_path, "t", [("", ""), (" ", "x")])), tmp_path / "data")
    with pytest.raises(CorpusError, match="longer than"):
        prepare(config(write_corpus(tmp_path, "u", toy_pairs(9)), **{"data.max_length": 1}), tmp_path / "data2")


def test_several_target_languages_are_tagged(tmp_path) -> None:
    de_en = write_corpus(tmp_path, "t", toy_pairs(50))
    data = prepare(config(de_en, de_en[::-1]), tmp_path / "data")
    tags = {data.codec.source.pieces[int(data.train.sources([i], 0)[0, 0])] for i in range(len(data.train))}
    assert tags == {">>en<<", ">>de<<"}
    nameless = tmp_path / "plain.txt"
    nameless.write_text((tmp_path / "t.en").read_text())
    with pytest.raises(ConfigError, match="needs `to`"):
        prepare(config(de_en, (de_en[0], nameless)), tmp_path / "data2")
