"""A step over a shortlist agrees with a step over the whole vocabulary; lists are learned from
text; neighbors in a batch change nothing."""

import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import dragoman as package
from dragoman.bundle.folder import SHORTLIST, Bundle, read_bundle, write_bundle
from dragoman.config import DecodingConfig, TextConfig
from dragoman.convert.learn_shortlist import (
    Links,
    ShortlistCorpus,
    learn_shortlist,
    shortlist_of,
)
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.engine.adapter_routing import AdapterRouter
from dragoman.engine.ensemble import Ensemble
from dragoman.engine.onnx.kernels import Factors
from dragoman.engine.onnx_engine import ENCODER, OnnxEngine
from dragoman.errors import BundleError, ConversionError, CorpusError
from dragoman.model.build import get_weights
from dragoman.text.codec import Codec, Languages
from dragoman.text.parallel import Pair
from dragoman.text.shortlist import Shortlist
from dragoman.text.vocabulary import Vocabulary
from tests.agree.test_onnx import BareCodec, choose
from tests.conftest import NUMBERS, small_config, small_model, toy_pairs, write_corpus

SIZE = 61
SOURCES = [[5, 6, 7, 3], [9, 3], [11, 4, 8, 6, 12, 3], [30, 3]]


def lists() -> Shortlist:
    """Each piece brings three others, so that lists are of different lengths, and some longer than
    16."""
    candidates = (np.arange(SIZE)[:, None] * 3 + np.arange(4)) % (SIZE - 4) + 4
    return Shortlist(np.arange(3, 16), candidates.ravel(), 4 * np.arange(1, SIZE + 1))


def engine(int8: bool, **settings: object) -> OnnxEngine:
    weights = {
        name: tensor.numpy() for name, tensor in get_weights(small_model(SIZE, **settings)).items()
    }
    bundle = Bundle(small_config(**settings), BareCodec(SIZE), weights, {}, shortlist=lists())
    return OnnxEngine(to_onnx(bundle, int8))


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"model__output_bias": True}, {"model__share_embeddings": "none"}], ids=str
)
def test_a_listed_piece_has_its_share_of_what_the_list_has_in_the_whole_vocabulary(
    int8: bool, settings: dict
) -> None:
    listed = engine(int8, **settings)
    rows = np.arange(len(SOURCES))
    said = np.full(len(SOURCES), 2)
    ours = listed.step(listed.start(SOURCES), rows, said, None).log_probs
    whole = listed.without_shortlist.step(
        listed.without_shortlist.start(SOURCES), rows, said, None
    ).log_probs
    for row, source in enumerate(SOURCES):
        allowed = lists().of(source)
        wanted = whole[row, allowed] - np.logaddexp.reduce(whole[row, allowed])
        np.testing.assert_allclose(ours[row, allowed], wanted, atol=5e-5)
        assert np.isneginf(np.delete(ours[row], allowed)).all()


TAGS = {">>de<<": 4, ">>fr<<": 5}


class TaggedCodec(BareCodec):
    """A codec of ids, two of which are the tags of languages."""

    def __init__(self) -> None:
        plain = BareCodec(SIZE).source.pieces
        self._vocabulary = Vocabulary((*plain[:4], *TAGS, *plain[6:]))

    def tag(self, to: str) -> int | None:
        return TAGS[f">>{to}<<"]


def language_engine(int8: bool, **settings: object) -> OnnxEngine:
    weights = {
        name: tensor.numpy() for name, tensor in get_weights(small_model(SIZE, **settings)).items()
    }
    codec = TaggedCodec()
    eos, pieces = codec.target.eos, range(SIZE)
    entries = [(TAGS[">>de<<"], piece) for piece in pieces if piece % 3 and piece != eos]
    entries += [(TAGS[">>fr<<"], piece) for piece in pieces if piece % 2 and piece != eos]
    found = shortlist_of(codec.source, codec.target, np.array([eos]), np.array(entries))
    bundle = Bundle(small_config(**settings), TaggedCodec(), weights, {}, shortlist=found)
    return OnnxEngine(to_onnx(bundle, int8))


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("settings", [{}, {"model__output_bias": True}], ids=str)
def test_a_language_has_its_share_of_what_its_list_has_in_the_whole_vocabulary(
    int8: bool, settings: dict
) -> None:
    listed = language_engine(int8, **settings)
    sources = [[4, 9, 7, 3], [4, 3], [4, 30, 31, 32, 3]]
    rows = np.arange(len(sources))
    said = np.full(len(sources), 2)
    ours = listed.step(listed.start(sources), rows, said, None).log_probs
    plain = listed.without_shortlist
    whole = plain.step(plain.start(sources), rows, said, None).log_probs
    allowed = listed._bundle.shortlist.of([4])
    wanted = whole[:, allowed] - np.logaddexp.reduce(whole[:, allowed], axis=1, keepdims=True)
    np.testing.assert_allclose(ours[:, allowed], wanted, atol=5e-5)
    assert np.isneginf(np.delete(ours, allowed, axis=1)).all()


def test_greedy_searches_with_lists_and_without_have_one_encoder() -> None:
    """A session takes a quarter of a second to create, and as much memory as all its weights."""
    listed = engine(int8=True)
    greedy, whole = listed.for_greedy_search, listed.without_shortlist.for_greedy_search
    assert whole is greedy.without_shortlist
    for one in (greedy, whole):
        one.start(SOURCES)
    assert whole._session(ENCODER) is greedy._session(ENCODER)


@pytest.mark.parametrize("make", [engine, language_engine])
def test_an_engine_reports_what_its_lists_allow(make) -> None:
    listed = make(int8=False)
    source = [4, 9, 7, 3]
    first = listed.step(listed.start([source]), np.arange(1), np.full(1, 2), None).log_probs[0]
    allowed = set(np.flatnonzero(np.isfinite(first)).tolist())
    assert allowed
    assert listed.allowed_tokens(source) == allowed
    assert listed.without_shortlist.allowed_tokens(source) is None
    assert Ensemble([listed.without_shortlist, listed]).allowed_tokens(source) == allowed
    assert AdapterRouter(listed, listed.without_shortlist, lambda source: True).allowed_tokens(
        source
    ) == (allowed)


@pytest.mark.parametrize("with_ranges", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_language_among_others_is_searched_as_by_itself_to_the_last_bit(
    beam: int, with_ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One graph has the list of one language, another the lists of a mixed batch."""
    choose(Factors.SMALL_PAIRS, monkeypatch)
    listed = language_engine(int8=True, model__norm_position="pre")
    if with_ranges:
        bundle = listed._bundle
        ranges = {f"decoder.{i}.around_attention.norm": 3.0 for i in range(2)}
        listed = OnnxEngine(replace(bundle, ranges={"decoder_norm": 3.0} | ranges))
    draw = np.random.default_rng(4)
    sources = [[4 + i % 2, *draw.integers(6, SIZE, size=1 + i % 9).tolist(), 3] for i in range(12)]
    settings = DecodingConfig(beam_size=beam)
    mixed = beam_search(listed, sources, Task(settings))
    for tag in (4, 5):
        mine = [i for i, source in enumerate(sources) if source[0] == tag]
        alone = beam_search(listed, [sources[i] for i in mine], Task(settings))
        for i, (found, *_) in zip(mine, alone, strict=True):
            assert (found.tokens, found.score) == (mixed[i][0].tokens, mixed[i][0].score)
            assert set(found.tokens) <= set(listed._bundle.shortlist.of([tag]).tolist())


@pytest.mark.parametrize("int8", [False, True])
def test_the_best_are_the_best_of_the_list_and_forbidden_ones_are_passed_over(int8: bool) -> None:
    listed = engine(int8)
    parents = np.array([0, 0, 1, 3, 3])
    said = np.full(5, 2)
    everything = listed.step(listed.start(SOURCES), parents, said, None)
    forbid = np.array([0, 1, 4]), everything.log_probs.argmax(axis=1)[[0, 1, 4]]
    everything.log_probs[forbid] = -np.inf
    best = listed.step(listed.start(SOURCES), parents, said, 3, banned=forbid)
    order = np.argsort(-everything.log_probs, axis=1, kind="stable")[:, :3]
    assert best.tokens.tolist() == order.tolist()
    np.testing.assert_array_equal(
        best.log_probs, np.take_along_axis(everything.log_probs, order, axis=1)
    )


@pytest.mark.parametrize("beam", [1, 4, 60])
def test_search_stays_on_the_lists_and_neighbours_change_no_bit_in_int8(beam: int) -> None:
    listed = engine(int8=True)
    draw = np.random.default_rng(4)
    sources = [[*draw.integers(4, SIZE, size=1 + i % 9).tolist(), 3] for i in range(24)]
    settings = DecodingConfig(beam_size=beam)
    together = beam_search(listed, sources, Task(settings))
    for source, (found, *_) in zip(sources, together, strict=True):
        assert set(found.tokens) <= set(lists().of(source).tolist())
        ((alone, *_),) = beam_search(listed, [source], Task(settings))
        assert (alone.tokens, alone.score) == (found.tokens, found.score)


def test_given_translations_are_scored_among_all_pieces() -> None:
    listed = engine(int8=True)
    targets = [[40, 41], [42], [43, 44, 45], [46]]
    for ours, wanted in zip(
        listed.score(SOURCES, targets),
        listed.without_shortlist.score(SOURCES, targets),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, wanted)


@pytest.fixture(scope="module")
def converted(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    bundle = read_bundle(trained)
    folder = tmp_path_factory.mktemp("listed")
    pairs = [Pair(i, *pair) for i, pair in enumerate(toy_pairs(500, seed=3))]
    learned = learn_shortlist(bundle.codec, [ShortlistCorpus(pairs)], likeliest=5, frequent=5)
    write_bundle(folder / "int8", to_onnx(replace(bundle, shortlist=learned), int8=True))
    return folder / "int8"


def test_commas_join_pairs_of_files_and_their_names_tell_the_languages() -> None:
    from dragoman.cli.convert import _corpora

    named = [(corpus.source, corpus.to) for corpus in _corpora("a.de,b.fr.gz", "a.en,b.en.gz")]
    assert named == [("de", "en"), ("fr", "en")]
    with pytest.raises(ConversionError, match="2 source files and 1 target files"):
        list(_corpora("a.de,b.de", "a.en"))


def test_links_go_through_a_third_language_as_chances_multiply() -> None:
    there = Links(np.array([1, 1, 2]), np.array([5, 6, 6]), np.array([3.0, 1.0, 4.0]))
    onward = Links(np.array([5, 6, 6]), np.array([8, 8, 9]), np.array([7.0, 1.0, 3.0]))
    found = there.via(onward)
    assert list(zip(found.x.tolist(), found.y.tolist(), found.count.tolist(), strict=True)) == [
        (1, 8, 3 * 1 + 1 * 0.25),
        (1, 9, 1 * 0.75),
        (2, 8, 4 * 0.25),
        (2, 9, 4 * 0.75),
    ]
    best = found.most_probable(1)
    assert list(zip(best.x.tolist(), best.y.tolist(), strict=True)) == [(1, 8), (2, 9)]


def test_one_direction_of_two_pairs_of_languages_teaches_all_six() -> None:
    """German and "French" (German words in capitals) are each paired only with English."""
    german, english = map(list, zip(*toy_pairs(500, seed=3), strict=True))
    french = [text.upper() for text in german]
    all_three = Languages(("de", "en", "fr"), ("de", "en", "fr"))
    codec = Codec.learn(german + french, english * 2, TextConfig(vocab_size=400), all_three)
    corpora = []
    for to, other in (("de", german), ("fr", french)):
        pairs = [Pair(i, *pair) for i, pair in enumerate(zip(english, other, strict=True))]
        corpora.append(ShortlistCorpus(pairs, "en", to))
    found = learn_shortlist(codec, corpora, likeliest=3, frequent=0)
    for number, translated in NUMBERS.items():
        said = {"de": number, "fr": number.upper(), "en": translated}
        for source, to in permutations(said, 2):
            (ids,) = codec.encode_source([said[source]], to)
            (target,) = codec.encode_target([said[to]])
            assert set(target) <= set(found.of(ids).tolist()), (source, to, number)


def test_what_is_learned_holds_translations_and_copies_and_little_else(converted: Path) -> None:
    bundle = read_bundle(converted)
    codec, found = bundle.codec, bundle.shortlist
    assert found is not None
    for german, english in NUMBERS.items():
        (source,) = codec.encode_source([german])
        (target,) = codec.encode_target([english])
        assert {*target, codec.target.eos, *source} <= set(found.of(source).tolist())
        assert len(found.of(source)) <= 6 + 6 * len(source) < len(codec.target) / 2


def test_the_tag_of_a_language_brings_its_frequent_pieces_and_no_other_language_does() -> None:
    german, english = map(list, zip(*toy_pairs(500, seed=3), strict=True))
    both = Languages(("de", "en"), ("en", "de"))
    codec = Codec.learn(german, english, TextConfig(vocab_size=300), both)
    pairs = [Pair(i, *pair) for i, pair in enumerate(zip(german, english, strict=True))]
    found = learn_shortlist(codec, [ShortlistCorpus(pairs, "de", "en")], likeliest=3, frequent=6)
    assert found.always.tolist() == [codec.target.eos]
    into = {}
    for to, texts in {"en": english, "de": german}.items():
        (tag, _) = codec.encode_source([""], to)[0]
        said = np.bincount([piece for ids in codec.encode_target(texts) for piece in ids])
        into[to] = set(found.of([tag]).tolist())
        assert set(np.argsort(-said, kind="stable")[:6].tolist()) <= into[to]
        assert len(into[to]) <= 1 + 6
    assert into["en"] != into["de"]
    again = Shortlist.from_tensors(
        safetensors.numpy.load(found.to_bytes()), codec.source, codec.target
    )
    for to in ("en", "de"):
        for source in codec.encode_source(german[:20], to):
            assert again.of(source).tolist() == found.of(source).tolist()


def test_a_large_corpus_leaves_its_likeliest_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    german, english = map(list, zip(*toy_pairs(300, seed=3), strict=True))
    codec = Codec.learn(german, english, TextConfig(vocab_size=300), Languages(("de",), ("en",)))
    pairs = [Pair(i, *pair) for i, pair in enumerate(zip(german, english, strict=True))]
    whole = learn_shortlist(codec, [ShortlistCorpus(pairs)], likeliest=5, frequent=0)
    monkeypatch.setattr("dragoman.convert.learn_shortlist._MOST", 10)
    few = learn_shortlist(codec, [ShortlistCorpus(pairs)], likeliest=5, frequent=0)
    (source,) = codec.encode_source(["eins"])
    copies = len(codec.target) - len(codec.target.never)
    assert len(few.candidates) <= copies + 10 < len(whole.candidates)
    assert set(few.of(source).tolist()) <= set(whole.of(source).tolist())


def test_a_shortlist_hardly_changes_translations_and_neighbors_change_nothing(
    converted: Path,
) -> None:
    translator = package.load(converted)
    lines = [source for source, _ in toy_pairs(200, seed=8, longest=9)]
    together = translator.translate(lines, Request(decoding=DecodingConfig(batch_tokens=300)))
    alone = translator.translate(lines, Request(decoding=DecodingConfig(batch_tokens=1)))
    whole = translator.translate(lines, Request(decoding=DecodingConfig(shortlist=False)))
    assert [(t.text, t.score) for t in together] == [(t.text, t.score) for t in alone]
    assert sum(a.text == b.text for a, b in zip(together, whole, strict=True)) > 0.9 * len(lines)
    # of the list's share, not of the vocabulary's
    assert [t.score for t in together] != [t.score for t in whole]


def test_a_prefix_may_be_on_no_list(converted: Path) -> None:
    translator = package.load(converted)
    assert translator("eins", Request(prefix="seven")).startswith("seven")


def test_an_ensemble_of_equal_listed_models_translates_like_one_of_them(converted: Path) -> None:
    one = package.load(converted).engine
    assert isinstance(one, OnnxEngine)
    sources = read_bundle(converted).codec.encode_source(["eins zwei", "drei"])
    alone, together = (
        beam_search(e, sources, Task(DecodingConfig(beam_size=2)))
        for e in (one, Ensemble([one, one]))
    )
    assert [h[0].tokens for h in together] == [h[0].tokens for h in alone]
    assert Ensemble([one, one]).without_shortlist.members == [
        one.without_shortlist,
        one.without_shortlist,
    ]


def test_a_damaged_or_forged_file_is_one_clear_line(converted: Path, tmp_path: Path) -> None:
    shutil.copytree(converted, tmp_path / "damaged")
    raw = (tmp_path / "damaged" / SHORTLIST).read_bytes()
    (tmp_path / "damaged" / SHORTLIST).write_bytes(raw[:-1] + b"\xff")
    with pytest.raises(BundleError, match="does not match its SHA-256"):
        read_bundle(tmp_path / "damaged")
    bundle = read_bundle(converted)
    assert bundle.shortlist is not None
    forged = replace(bundle.shortlist, always=np.array([3, len(bundle.codec.target)]))
    write_bundle(tmp_path / "forged", replace(bundle, shortlist=forged))
    with pytest.raises(BundleError, match="the shortlist names piece"):
        read_bundle(tmp_path / "forged")


def test_the_command_learns_and_writes_a_shortlist_and_an_option_disables_it(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path, "more", toy_pairs(300))
    out = tmp_path / "listed"
    assert dragoman("convert", "to-onnx", trained, out, "--int8", "--shortlist", *corpus).code == 0
    for more in ((), ("--set", "decoding.shortlist=false")):
        assert dragoman("translate", "eins zwei", "--model", out, *more).out == "one two\n"
    for file in corpus:
        file.write_text("\n")
    answer = dragoman("convert", "to-onnx", trained, tmp_path / "none", "--shortlist", *corpus)
    assert answer.code == 1
    assert "no pair" in answer.err


def test_a_large_corpus_is_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.convert import learn_shortlist

    monkeypatch.setattr(learn_shortlist, "PAIRS", 100)
    kept = learn_shortlist._drawn(Pair(i, "a", "b") for i in range(10_000))
    assert len({pair.line for pair in kept}) == 100
    assert 3500 < np.mean([pair.line for pair in kept]) < 6500
    with pytest.raises(CorpusError, match="no pair"):
        learn_shortlist._drawn([Pair(1, " ", "b")])
