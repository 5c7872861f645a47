"""Which of several models a text goes to."""

import shutil

import pytest

from dragoman.bundle import folder as bundle
from dragoman.decode.translator import Translator
from dragoman.errors import BundleError, TranslationError
from dragoman.text.detect import surely_none_of
from dragoman.text.languages import AUTO, Languages, choose_model, known_code, reason_to_keep
from dragoman.text.parallel import read_pairs

MODELS = [Languages(("de",), ("en",)), Languages(("en", "fr"), ("de", "fr"))]


def test_the_first_model_that_knows_both_languages_is_chosen() -> None:
    assert choose_model(MODELS, "", "de", "en").number == 0
    assert choose_model(MODELS, "", "", "fr").number == 1
    assert choose_model(MODELS, "", "", "").number == 0
    nothing = choose_model(MODELS, " ", AUTO, "").detected
    assert nothing is not None
    assert nothing.confidence == 0  # there is nothing to tell a language by
    with pytest.raises(TranslationError, match=r"'fr' to 'en'; available: de to en; en to de, fr"):
        choose_model(MODELS, "", "fr", "en")


def test_a_model_without_named_languages_takes_everything() -> None:
    assert choose_model([Languages()], "", "xx", "yy").number == 0
    assert choose_model([Languages()], "", "xx", "xx").number == 0
    assert not MODELS[1].takes("fr", "fr")


def test_the_source_is_the_most_likely_language_that_a_model_translates() -> None:
    chosen = choose_model(MODELS, "Where is the dog?", AUTO, "fr")
    assert (chosen.number, chosen.source, chosen.target) == (1, "en", "fr")
    # Nothing here translates English into English: the second guess counts, with a note.
    chosen = choose_model(MODELS, "Where is the dog?", AUTO, "en")
    assert chosen.source == "de"
    assert chosen.note == "this text is already in 'en' and is not translated"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("DE", "de"), ("en_US", "en"), ("pt-BR", "pt"), ("PT_br", "pt"), ("zh-hant", "zh_Hant")],
)
def test_understands_other_spellings_of_a_code(written: str, meant: str) -> None:
    codes = ["de", "en", "pt", "zh_Hans", "zh_Hant"]
    assert known_code(written, codes) == meant
    assert known_code("xx-YY", codes) == "xx-YY"
    assert known_code("", codes) == ""


def test_a_model_gets_its_own_codes() -> None:
    chosen = choose_model(MODELS, "", "EN-gb", "FR")
    assert (chosen.source, chosen.target) == ("en", "fr")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Где находится вокзал?", "ru"),
        ("駅はどこですか。", "ja"),
        ("Dove si trova la stazione?", "it"),
        ("Waar is het station?", "nl"),
        ("სად არის სადგური?", "ka"),
        ("Where is the station, please?", "en"),
    ],
)
def test_recognizes_text_in_other_languages(text: str, language: str) -> None:
    assert surely_none_of(text, ["de", "es", "fr", "pt"]) == language


@pytest.mark.parametrize("text", ["OK", "Tom", "123", "?!", "", "zwei drei zwei zwei drei", "α"])
def test_inconclusive_text_is_translated(text: str) -> None:
    assert surely_none_of(text, ["de", "fr"]) == ""


def test_text_for_a_model_of_unknown_languages_is_translated() -> None:
    """Galician is not covered, and looks like Portuguese."""
    assert reason_to_keep("Onde está a estación de tren?", ["gl"], "en") == ""
    assert reason_to_keep("Где находится вокзал?", [], "en") == ""


def test_sentences_in_the_models_languages_are_almost_always_translated() -> None:
    pairs = list(read_pairs("examples/tatoeba.de.gz", "examples/tatoeba.en.gz"))[::10]
    kept = sum(bool(reason_to_keep(pair.source, ["de", "fr", "es", "en"], "en")) for pair in pairs)
    assert kept <= len(pairs) / 1000
    kept = sum(bool(reason_to_keep(pair.target, ["de", "fr", "es", "en"], "en")) for pair in pairs)
    assert kept >= 0.8 * len(pairs)


def test_the_default_target_is_the_models_first_other_language() -> None:
    assert choose_model(MODELS, "", "fr", "").target == "de"
    assert Languages(("de",), ("fr", "en")).default_target("de") == "fr"
    assert Languages(("fr",), ("fr", "en")).default_target("fr") == "en"
    assert Languages(("fr",), ("fr",)).default_target("fr") == "fr"
    assert Languages().default_target("fr") == ""


@pytest.fixture
def two_bundled(trained, tmp_path, monkeypatch):
    """The package with a second model: a folder, and nothing else. It reads Finnish."""
    shutil.copytree(bundle.PRETRAINED, tmp_path / "pretrained")
    first = bundle.read_bundle(trained)
    object.__setattr__(first.codec, "languages", Languages(("fi",), ("sv",)))
    bundle.write_bundle(tmp_path / "pretrained" / "zzz", first)
    monkeypatch.setattr(bundle, "PRETRAINED", tmp_path / "pretrained")


def languages_of(**asked: str) -> tuple[str, ...]:
    return Translator.load(device="cpu", **asked).codec.languages.sources


def test_a_second_bundled_model_needs_only_a_folder(two_bundled, dragoman) -> None:
    assert languages_of(source="fi") == languages_of(target="sv") == ("fi",)
    assert languages_of(text="Minä en tiedä missä hän on.") == ("fi",)
    assert "de" in languages_of(text="Wo ist der Bahnhof?")
    assert "de" in languages_of()
    assert (
        len(dragoman("translate", "yksi", "--from", "fi", "--device", "cpu").out.split("\n")) == 2
    )
    assert "model: zzz" in dragoman("info").out
    assert (
        "no model here translates 'fi' to 'en'"
        in dragoman("translate", "yksi", "--from", "fi", "--to", "en").err
    )


def test_a_package_without_a_model_is_an_error(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bundle, "PRETRAINED", tmp_path)
    with pytest.raises(BundleError, match="has no model"):
        Translator.load()


def test_the_detected_language_agrees_with_the_note() -> None:
    english = "Where is the dog that my brother has bought in the town?"
    chosen = choose_model(MODELS, english, AUTO, "en")
    assert "already in 'en'" in chosen.note
    assert chosen.detected is not None
    assert chosen.detected.language == "en"
    chosen = choose_model(MODELS, "Где находится вокзал?", AUTO, "en")
    assert "seems to be in 'ru'" in chosen.note
    assert chosen.detected is not None
    assert chosen.detected.language == "ru"
