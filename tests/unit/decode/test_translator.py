import pytest

import dragoman
from dragoman.config import TextConfig, replace
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.decode.translator import Translator
from dragoman.errors import TranslationError
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages


@pytest.fixture(scope="module")
def translator(trained) -> Translator:
    return dragoman.load(trained, device="cpu")


def test_translations_come_in_the_order_of_the_lines(translator) -> None:
    assert translator("eins zwei drei") == "one two three"
    texts = ["acht", "", "neun neun eins sechs", "   ", "vier"]
    assert translator(texts) == ["eight", "", "nine nine one six", "", "four"]


def test_a_long_text_is_split_and_joined(translator) -> None:
    narrow = Translator(
        translator.engine,
        translator.codec,
        replace(translator.config, {"decoding.max_source_length": 6}),
    )
    text = "eins zwei drei vier fünf sechs sieben acht neun"
    assert len(translator.codec.encode_source([text])[0]) > 6
    assert narrow(text) == "one two three four five six seven eight nine"
    found = narrow.translate([text], Request(alignments=True))[0].candidates[0]
    # the words of later parts are counted on
    assert {there for _, there in found.alignment} == set(range(9))
    assert all(abs(here - there) <= 1 for here, there in found.alignment)
    assert narrow(text, Request(prefix="zero")).split().count("zero") == 1
    assert translator(text, Request(decoding=narrow.config.decoding)) == narrow(text)


def test_sentences_are_translated_separately(translator) -> None:
    """The toy language has no sentences, so this checks the sources that the engine receives."""
    one_by_one = replace(translator.config, {"decoding.split_sentences": True}).decoding
    texts = ["eins zwei. Drei!", "vier", "", "eins. Zwei. Drei."]
    together, apart = (
        translator.pipeline.splitter(texts, Request(decoding=d)) for d in (None, one_by_one)
    )
    assert [part.line for part in together] == [0, 1, 3]
    encode = translator.codec.encode_source
    assert [(part.line, part.ids) for part in apart] == [
        *zip([0, 0], encode(["eins zwei.", "Drei!"]), strict=True),
        (1, encode(["vier"])[0]),
        *zip([3, 3, 3], encode(["eins.", "Zwei.", "Drei."]), strict=True),
    ]
    found = translator(texts, Request(decoding=one_by_one))
    assert found[0] == " ".join(translator(["eins zwei.", "Drei!"]))


def test_the_default_target_is_the_first_that_is_not_the_source(translator) -> None:
    """The first source piece is the tag of the target language."""
    several = Codec.learn(
        ["eins zwei drei"] * 9,
        ["one two three"] * 9,
        TextConfig(vocab_size=300),
        Languages(("de", "en"), ("de", "en")),
    )
    many = Translator(translator.engine, several, translator.config)

    def tags(request: Request) -> list[str]:
        parts = many.pipeline.splitter(
            ["Wo ist der Bahnhof?", "Where is the station?", "Ich habe keine Zeit."], request
        )
        return [several.source.pieces[part.ids[0]] for part in sorted(parts)]

    assert tags(Request()) == [">>en<<", ">>de<<", ">>en<<"]
    assert tags(Request(to="de")) == [">>de<<"] * 3
    assert tags(Request(source_language="en")) == [">>de<<"] * 3


def test_no_translation_breaks_its_line(translator) -> None:
    drawn = translator.translate(["eins"] * 300, Request(sampling=Sampling(temperature=5.0)))
    assert not any(set(t.text) & set("\n\r\t") for t in drawn)


def test_any_text_is_translated(translator) -> None:
    for text in ("\ud800", "\0", "😀" * 50, "�", "\u2028", ">>en<<", "<s> </s> <pad>"):
        assert isinstance(translator(text), str)


def test_nbest_prefix_and_alignments(translator) -> None:
    found = translator.translate(["eins zwei"], Request(nbest=3, alignments=True))[0]
    assert len({candidate.text for candidate in found.candidates}) == 3
    assert found.candidates[0].alignment == ((0, 0), (1, 1))
    assert translator("eins zwei", Request(prefix="nine")).startswith("nine")


def test_sampling_does_not_depend_on_the_batch(translator) -> None:
    lines = ["eins zwei drei vier", "acht", "neun neun", "sechs sieben"]
    request = Request(sampling=Sampling(temperature=2.0, seed=5))
    together = [t.text for t in translator.stream(lines, request)]
    assert together == [t.text for t in translator.stream(lines, request, window=1)]


def test_unknown_languages_are_rejected(translator) -> None:
    with pytest.raises(TranslationError, match=r"into 'fr'; it can: en"):
        translator("eins", Request(to="fr"))
    with pytest.raises(TranslationError, match=r"from 'fr'; it can: de"):
        translator("eins", Request(source_language="fr"))


@pytest.mark.parametrize("texts", [None, 5, b"abc", ["eins", None]])
def test_a_value_that_is_not_text_is_rejected_by_its_type(trained, texts) -> None:
    with pytest.raises(TypeError, match="a str"):
        dragoman.load(trained, device="cpu").translate(texts)
