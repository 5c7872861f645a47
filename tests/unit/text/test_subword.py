import io
import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TextConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from dragoman.text.subword import BytePairs
from tests.conftest import NUMBERS, toy_pairs

SENTENCES = [side for pair in toy_pairs(300) for side in pair]
LEARNED = BytePairs.learn(SENTENCES, TextConfig(vocab_size=330))
EXACT = BytePairs.learn(SENTENCES, TextConfig(vocab_size=330, normalization="identity"))


def test_a_small_corpus_gives_a_smaller_vocabulary() -> None:
    assert len(BytePairs.learn(["ab", "ab ba"], TextConfig(vocab_size=8000)).vocabulary) < 300


def test_rejects_a_vocabulary_too_small_for_the_characters() -> None:
    with pytest.raises(ConfigError, match=r"text\.vocab_size=50 is too small"):
        BytePairs.learn(SENTENCES, TextConfig(vocab_size=50))


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0▁"), max_size=40))
def test_no_text_is_unknown(text: str) -> None:
    ids = EXACT.encode([text])[0]
    assert EXACT.vocabulary.unk not in ids
    assert EXACT.decode(ids) == " ".join(part for part in text.split(" ") if part)


@given(st.lists(st.sampled_from([*NUMBERS, "eins.", "Ünï", "😀", "x9"]), max_size=8).map(" ".join))
def test_merging_without_dropout_equals_sentencepiece(text: str) -> None:
    assert LEARNED.encode_with_dropout([text], 0.0, seed=1).lists() == LEARNED.encode([text])


awkward = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)


@given(
    st.lists(
        st.one_of(awkward, st.lists(st.sampled_from([*NUMBERS, "▁", "ﬁ", " ", "½"])).map(" ".join)),
        max_size=6,
    )
)
def test_word_by_word_equals_sentencepiece_on_whole_texts(texts: list[str]) -> None:
    for learned in (LEARNED, EXACT):
        for _ in range(2):  # cut now, and remembered
            flat = learned.encode_flat(texts)
            assert flat.lists() == learned.encode(texts)
            assert flat.lengths.tolist() == [*map(len, learned.encode(texts))]


def test_a_full_cache_of_words_is_cleared(monkeypatch) -> None:
    monkeypatch.setattr("dragoman.text.subword.WORDS_REMEMBERED", 5)
    learned = BytePairs(LEARNED.to_bytes())
    for start in range(0, 60, 3):
        texts = SENTENCES[start : start + 3]
        assert learned.encode_flat(texts).lists() == learned.encode(texts)
        assert len(learned._whole._numbers) <= 5 + 3 * 6


def test_pieces_that_cross_spaces_are_not_segmented_word_by_word() -> None:
    """A model from elsewhere may hold such; ours never does."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["eins zwei drei"] * 20), model_writer=model, model_type="bpe",
        vocab_size=300,
        hard_vocab_limit=False, byte_fallback=True, split_by_whitespace=False, pad_id=3,
        minloglevel=2,
    )  # fmt: skip
    learned = BytePairs(model.getvalue())
    assert any("▁" in piece[1:] for piece in learned.vocabulary.pieces)
    assert learned.encode_flat(["eins zwei", "drei"]).lists() == learned.encode(
        ["eins zwei", "drei"]
    )


def test_learning_from_counts_equals_learning_from_sentences() -> None:
    """SentencePiece learns the same pieces from whole sentences."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, model_type="bpe", vocab_size=330,
        hard_vocab_limit=False,
        byte_fallback=True, pad_id=0, unk_id=1, bos_id=2, eos_id=3, minloglevel=2,
        character_coverage=TextConfig().character_coverage,
        normalization_rule_name=TextConfig().normalization,
    )  # fmt: skip
    assert BytePairs(model.getvalue()).vocabulary == LEARNED.vocabulary


def test_merges_are_dropped_at_the_given_rate() -> None:
    """A word's segmentations have the same frequencies as in the paper's algorithm."""

    def plainly(word: str, rate: float, draw: random.Random) -> list[str]:
        parts = list(word)
        pieces = LEARNED.vocabulary.ids
        while True:
            kept = [
                (pieces[a + b], i)
                for i, (a, b) in enumerate(pairwise(parts))
                if a + b in pieces and draw.random() >= rate
            ]
            if not kept:
                return parts
            _, place = min(kept)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]

    draw = random.Random(1)
    tries = 4000
    expected = Counter(" ".join(plainly("▁sieben", 0.3, draw)) for _ in range(tries))
    found = Counter(
        " ".join(LEARNED.merge("▁sieben", 0.3, iter(draw.random, None))) for _ in range(tries)
    )
    assert len(expected) > 5
    for cut, number in expected.items():
        assert found[cut] == pytest.approx(number, abs=5 * number**0.5 + 5)


def test_dropout_is_the_same_in_another_process() -> None:
    """A fresh interpreter has other hashes; it gets the learned pieces, and imports no torch."""
    program = (
        "import json, sys; from dragoman.text.subword import BytePairs; "
        "learned = BytePairs(sys.stdin.buffer.read()); "
        "print(json.dumps(learned.encode_with_dropout(['eins zwei sieben neun'] * 50, 0.5, "
        "7).lists()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=LEARNED.to_bytes(), capture_output=True, check=True
    )
    expected = LEARNED.encode_with_dropout(["eins zwei sieben neun"] * 50, 0.5, seed=7).lists()
    assert json.loads(done.stdout) == expected


def test_dropout_is_a_function_of_its_seed() -> None:
    first = LEARNED.encode_with_dropout(SENTENCES, 0.5, seed=7).lists()
    LEARNED.encode_with_dropout(SENTENCES[:5], 0.5, seed=1)
    assert LEARNED.encode_with_dropout(SENTENCES, 0.5, seed=7).lists() == first
    assert LEARNED.encode_with_dropout(SENTENCES, 0.5, seed=8).lists() != first


def test_dropout_changes_pieces_but_not_the_text() -> None:
    whole = LEARNED.encode(SENTENCES)
    dropped = LEARNED.encode_with_dropout(SENTENCES, 0.3, seed=3).lists()
    assert sum(map(len, dropped)) > sum(map(len, whole))
    assert [LEARNED.decode(ids) for ids in dropped] == SENTENCES


def test_a_text_cannot_forge_a_language_tag() -> None:
    codec = Codec.learn(
        SENTENCES, SENTENCES, TextConfig(vocab_size=400), Languages(("en",), ("de", "fr"))
    )
    tag = codec.source.ids[">>fr<<"]
    plain, forged = codec.encode_source(["one", ">>fr<< one"], to="de")
    assert plain[0] == codec.source.ids[">>de<<"]
    assert tag not in forged


def test_rejects_files_with_a_language_without_a_tag() -> None:
    settings = TextConfig(vocab_size=400)
    codec = Codec.learn(SENTENCES, SENTENCES, settings, Languages(("en",), ("de", "fr")))
    forged = replace(codec, languages=Languages(("en",), ("de", "fr", "es")))
    with pytest.raises(BundleError, match=">>es<<"):
        Codec.from_files(forged.to_files(), settings.tokenizer)


@pytest.mark.parametrize("shared", [True, False])
def test_a_codec_round_trips_through_its_files(shared: bool) -> None:
    left, right = zip(*toy_pairs(200), strict=True)
    codec = Codec.learn(
        left, right, TextConfig(vocab_size=320, shared=shared), Languages(("de",), ("en",))
    )
    again = Codec.from_files(codec.to_files())
    assert again.shared is shared
    assert again.languages == codec.languages
    assert again.encode_source(left) == codec.encode_source(left)
    assert again.encode_target(right) == codec.encode_target(right)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_mark_of_a_synthetic_source_is_a_piece_that_no_text_contains(rate: float) -> None:
    marked = [f"<BT> {sentence}" for sentence in SENTENCES]
    codec = Codec.learn(
        [*SENTENCES, *marked],
        SENTENCES,
        TextConfig(vocab_size=400),
        Languages(("en",), ("de", "fr")),
    )
    assert not any("BT" in piece for piece in codec.source.pieces)

    def encoded(texts: list[str]) -> list[list[int]]:
        if rate:
            return codec.encode_with_dropout(
                texts, texts, ["fr"] * len(texts), rate, seed=3, longest=256
            )[0]
        return codec.encode_source(texts, "fr")

    plain = encoded(SENTENCES)
    mark = codec.source.bos
    assert not any(mark in ids for ids in plain)
    assert encoded(marked) == [[ids[0], mark, *ids[1:]] for ids in plain]


def test_synthetic_targets_have_no_mark() -> None:
    left, right = zip(*toy_pairs(200), strict=True)
    for shared in (True, False):
        codec = Codec.learn(
            left, right, TextConfig(vocab_size=320, shared=shared), Languages(("de",), ("en",))
        )
        marked = [f"<BT> {text}" for text in right]
        assert codec.encode_target(marked) == codec.encode_target(right)
        assert codec.encode_sides(marked, target=True).lists() == codec.encode_target(right)
        assert codec.encode_with_dropout(marked, marked, [""] * 200, 0.0, 1, 99)[
            1
        ] == codec.encode_target(right)
