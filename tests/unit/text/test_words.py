"""The tokenizers of whole words and of characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TextConfig, make_config
from dragoman.errors import BundleError, ConfigError
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from dragoman.text.subword import SPECIAL, Characters, Words
from tests.conftest import toy_pairs

TEXTS = [
    "Ich bin "
    "müde.", 'Er sagte: "Nein, danke!"', "Wie geht\'s (heute)?", "3,5 % – das ist viel …",
    "नमस्ते दुनिया।",
]  # fmt: skip
LEARNED = {
    "word": Words.learn(TEXTS, TextConfig()),
    "character": Characters.learn(TEXTS, TextConfig()),
}


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("text", TEXTS)
def test_known_text_round_trips(kind: str, text: str) -> None:
    """The dots of an ellipsis are three by normalisation, as in every vocabulary."""
    ids = LEARNED[kind].encode([text])[0]
    assert LEARNED[kind].decode(ids) == text.replace("…", "...")


def test_punctuation_does_not_hide_a_word() -> None:
    assert LEARNED["word"].encode(["müde"])[0] == LEARNED["word"].encode(["müde."])[0][:1]
    assert LEARNED["word"].vocabulary.unk not in LEARNED["word"].encode(["müde, bin. Ich!"])[0]


def test_an_unknown_word_is_one_piece_and_does_not_affect_its_neighbors() -> None:
    words = LEARNED["word"]
    known, unknown = words.encode(["Ich bin müde.", "Ich Kamel müde."])
    assert unknown == [known[0], words.vocabulary.unk, *known[2:]]
    assert words.decode(unknown) == "Ich <unk> müde."


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0▁"), max_size=40))
def test_no_character_is_unknown(text: str) -> None:
    exact = Characters.learn(TEXTS, TextConfig(normalization="identity"))
    ids = exact.encode([text])[0]
    assert exact.vocabulary.unk not in ids
    assert exact.decode(ids) == " ".join(part for part in text.split(" ") if part)


def test_every_piece_of_a_known_text_is_a_character() -> None:
    pieces = LEARNED["character"].vocabulary.pieces
    assert {len(pieces[i]) for i in LEARNED["character"].encode([TEXTS[0]])[0]} == {1}


def test_the_vocabulary_keeps_the_most_frequent_words() -> None:
    words = Words.learn(["a a a b b c"], TextConfig(vocab_size=len(SPECIAL) + 2))
    assert words.vocabulary.pieces == (*SPECIAL, "▁a", "▁b")


@pytest.mark.parametrize(("kind", "size"), [("word", 4), ("character", 100)])
def test_rejects_a_vocabulary_without_room(kind: str, size: int) -> None:
    with pytest.raises(ConfigError, match=rf"text\.vocab_size={size} is too small"):
        type(LEARNED[kind]).learn(TEXTS, TextConfig(tokenizer=kind, vocab_size=size))


@pytest.mark.parametrize("kind", ["word", "character", "marian"])
def test_rejects_dropout_without_merges(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"text\.bpe_dropout"):
        make_config(settings={"text.tokenizer": kind, "text.bpe_dropout": 0.1})


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", LEARNED)
def test_a_codec_round_trips_through_its_files(kind: str, shared: bool) -> None:
    left, right = zip(*toy_pairs(200), strict=True)
    settings = TextConfig(tokenizer=kind, shared=shared)
    codec = Codec.learn(left, right, settings, Languages(("de",), ("en", "fr")))
    again = Codec.from_files(codec.to_files(), kind)
    assert again.shared is shared
    assert again.encode_source(left, "fr") == codec.encode_source(left, "fr")
    assert again.encode_target(right) == codec.encode_target(right)
    assert (set(again.source.pieces) == set(again.target.pieces)) is shared


def test_a_text_cannot_forge_a_tag_or_a_special_piece() -> None:
    text = [">>fr<< <s> </s> <pad> <unk> eins"]
    codec = Codec.learn(text, text, TextConfig(tokenizer="word"), Languages(("en",), ("de", "fr")))
    ids = codec.encode_source(text, to="de")[0]
    assert not {*range(len(SPECIAL)), codec.source.ids[">>fr<<"]} & set(ids[1:-1])


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b'{"pieces": ["a"]}', b'{"normalisation": "nfkc", "pieces": ["a"]}']
)
def test_rejects_a_damaged_list_of_words(raw: bytes) -> None:
    with pytest.raises(BundleError, match="list of words"):
        Words(raw)
