import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TextConfig
from dragoman.errors import ConfigError
from dragoman.text.codec import Codec, Languages
from dragoman.text.subword import BytePairs
from tests.conftest import NUMBERS, toy_pairs

SENTENCES = [side for pair in toy_pairs(300) for side in pair]
LEARNED = BytePairs.learn(SENTENCES, TextConfig(size=330))
EXACT = BytePairs.learn(SENTENCES, TextConfig(size=330, normalisation="identity"))


def test_the_vocabulary_shrinks_to_what_a_small_corpus_gives() -> None:
    assert len(BytePairs.learn(["ab", "ab ba"], TextConfig(size=8000)).vocabulary) < 300


def test_a_vocabulary_too_small_for_the_characters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"text\.size=50 is too small"):
        BytePairs.learn(SENTENCES, TextConfig(size=50))


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0▁"), max_size=40))
def test_no_text_is_unknown(text: str) -> None:
    ids = EXACT.encode([text])[0]
    assert EXACT.vocabulary.unk not in ids
    assert EXACT.decode(ids) == " ".join(part for part in text.split(" ") if part)


@given(st.lists(st.sampled_from([*NUMBERS, "eins.", "Ünï", "😀", "x9"]), max_size=8).map(" ".join))
def test_our_merging_without_dropout_is_sentencepieces(text: str) -> None:
    assert LEARNED.encode_with_dropout([text], 0.0, seed=1).lists() == LEARNED.encode([text])


def test_dropout_is_the_same_in_another_process() -> None:
    program = (
        "from dragoman.config import TextConfig; from dragoman.text.subword import BytePairs; "
        "from tests.conftest import NUMBERS, toy_pairs; import zlib; "
        "learned = BytePairs.learn([s for p in toy_pairs(300) for s in p], TextConfig(size=330)); "
        "print(zlib.crc32(repr(learned.encode_with_dropout(['eins zwei sieben neun'] * 50, 0.5, 7).lists()).encode()))"
    )
    printed = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)
    }
    expected = LEARNED.encode_with_dropout(["eins zwei sieben neun"] * 50, 0.5, seed=7).lists()
    assert {int(text) for text in printed} == {zlib.crc32(repr(expected).encode())}


def test_dropout_is_a_function_of_its_seed() -> None:
    first = LEARNED.encode_with_dropout(SENTENCES, 0.5, seed=7).lists()
    LEARNED.encode_with_dropout(SENTENCES[:5], 0.5, seed=1)
    assert LEARNED.encode_with_dropout(SENTENCES, 0.5, seed=7).lists() == first
    assert LEARNED.encode_with_dropout(SENTENCES, 0.5, seed=8).lists() != first


def test_dropout_changes_pieces_but_not_the_text() -> None:
    whole, dropped = LEARNED.encode(SENTENCES), LEARNED.encode_with_dropout(SENTENCES, 0.3, seed=3).lists()
    assert sum(map(len, dropped)) > sum(map(len, whole))
    assert [LEARNED.decode(ids) for ids in dropped] == SENTENCES


def test_a_text_cannot_forge_a_language_tag() -> None:
    codec = Codec.learn(SENTENCES, SENTENCES, TextConfig(size=400), Languages(("en",), ("de", "fr")))
    tag = codec.source.ids[">>fr<<"]
    plain, forged = codec.encode_source(["one", ">>fr<< one"], to="de")
    assert plain[0] == codec.source.ids[">>de<<"]
    assert tag not in forged


@pytest.mark.parametrize("shared", [True, False])
def test_a_codec_survives_its_files(shared: bool) -> None:
    left, right = zip(*toy_pairs(200), strict=True)
    codec = Codec.learn(left, right, TextConfig(size=320, shared=shared), Languages(("de",), ("en",)))
    again = Codec.from_files(codec.to_files())
    assert again.shared is shared
    assert again.languages == codec.languages
    assert again.encode_source(left) == codec.encode_source(left)
    assert again.encode_target(right) == codec.encode_target(right)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_mark_of_a_made_source_is_one_piece_that_no_text_gives(rate: float) -> None:
    marked = [f"<BT> {sentence}" for sentence in SENTENCES]
    codec = Codec.learn([*SENTENCES, *marked], SENTENCES, TextConfig(size=400), Languages(("en",), ("de", "fr")))
    assert not any("BT" in piece for piece in codec.source.pieces)

    def encoded(texts: list[str]) -> list[list[int]]:
        if rate:
            return codec.encode_with_dropout(texts, texts, ["fr"] * len(texts), rate, seed=3, longest=256)[0]
        return codec.encode_source(texts, "fr")

    plain, mark = encoded(SENTENCES), codec.source.bos
    assert not any(mark in ids for ids in plain)
    assert encoded(marked) == [[ids[0], mark, *ids[1:]] for ids in plain]
