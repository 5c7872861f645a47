"""Values of message files that a program reads stay what they are."""

import json

import pytest

from dragoman.documents.codes import BY_LOOK, BY_NAME, BY_REFERENCE, BY_REPETITION, is_code
from dragoman.documents.document import Document, ReadOptions
from dragoman.documents.formats import format_of, read
from dragoman.documents.segment import plain_text


def document(text: str, name: str = "a.json", **options: tuple[str, ...]) -> Document:
    return read(name, text.encode(), format_of(name), ReadOptions(**options))


def texts(text: str, name: str = "a.json", **options: tuple[str, ...]) -> set[str]:
    return {plain_text(segment) for segment in document(text, name, **options).segments}


def left(text: str, name: str = "a.json") -> dict[str, str]:
    return {one.text: one.why for one in document(text, name).left if one.why}


@pytest.mark.parametrize(
    "code",
    ["fa-leaf", "btn btn-primary", "fas fa-home", "#ffcc00", "1px solid #ccc", "2em auto",
     "rgba(0, 0, 0, .5)",
     "text/html", "img/logo.png", "/usr/share/dict", "../icons/star.svg", "en-US",
     "zh_Hant", "utf-8",
     "isOpen", "user_name", "API_KEY", "app.title", "example.com", "YYYY-MM-DD", "dd/MM/yyyy HH:mm",
     "@scope/name", "$primary", "npm:left", "std::string", "col-12", "var(--x)", "^[a-z]+$",
     "17d58bdd.2ab8c4", "T201", "true", "SexCode", "ada@example.org",
     "click >=8.2, <9", "python =3.7",
     "License :: OSI Approved :: MIT License"],
)  # fmt: skip
def test_codes_are_known_by_their_shape(code: str) -> None:
    assert is_code(code)


@pytest.mark.parametrize(
    "text",
    ["Open", "open", "sign-in", "Yes/No", "and/or", "file(s)", "Hello, world", "OK", "Size: 2px",
     "Use #hashtags", "note:", "...more", "Easy", "daddy", "E-mail",
     "5 of 10", "a well-known dog",
     "1st", "24h", "20th", "Top 10", "see example.com", "Price in €",
     "New York", "Go to /home now", ""],
)  # fmt: skip
def test_words_and_sentences_are_no_codes(text: str) -> None:
    assert not is_code(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [("class", "btn primary"), ("icon", "leaf"), ("align", "left"), ("text-align", "left"),
     ("fontFamily", "Times New Roman"), ("backgroundColor", "dark blue"), ("theme", "dark"),
     ("types", "error"), ("license", "MIT"),
     ("run", "make all the small things"), ("mode", "production")],
)  # fmt: skip
def test_values_are_left_by_the_name_of_their_key_and_named(key: str, value: str) -> None:
    source = {key: value, "title": "A dog"}
    assert texts(json.dumps(source)) == {"A dog"}
    assert left(json.dumps(source)) == {value: BY_NAME}
    assert left(f'{key}: "{value}"\ntitle: A dog\n', "a.yaml") == {value: BY_NAME}
    assert left(f'[x]\n"{key}" = "{value}"\n', "a.toml") == {value: BY_NAME}
    assert left(f"x.{key} = {value}\n", "a.properties") == {value: BY_NAME}


@pytest.mark.parametrize(
    ("key", "value"),
    [("color", "Color"), ("type", "type of file"), ("status", "Open"), ("file", "File"),
     ("theme", "Choose a look."), ("state", "we could not find this page"), ("title", "left"),
     ("mode", "are you sure?"), ("fontSize", "Font size")],
)  # fmt: skip
def test_messages_are_translated_whatever_their_keys_are(key: str, value: str) -> None:
    assert texts(json.dumps({key: value})) == {value}


def test_options_that_recur_across_entries_are_left() -> None:
    plants = [
        {"name": name, "glyph": glyph, "effort": effort}
        for name, glyph, effort in [
            ("Rose", "fa-rose", "low"), ("Oak", "fa-tree", "high"), ("Fern", "leaf", "low"),
            ("Moss", "leaf", "low"),
        ]
    ]  # fmt: skip
    assert texts(json.dumps(plants)) == {"Rose", "Oak", "Fern", "Moss"}
    expected = {"leaf": BY_REPETITION, "low": BY_REPETITION, "high": BY_REPETITION}
    assert left(json.dumps(plants)) == expected


def test_everything_under_a_key_for_codes_is_left() -> None:
    source = '{"scripts": {"build": "tsc"}, "icons": {"home": "house"}, "menu": {"home": "home"}}'
    assert texts(source) == {"home"}
    assert set(left(source)) == {"tsc", "house"}


def test_paths_and_commands_are_left_and_named() -> None:
    values = ["src/hatch", "coverage html --skip-covered", "km per hour", "A day - a night"]
    expected = {"src/hatch": BY_LOOK, "coverage html --skip-covered": BY_LOOK}
    assert left(json.dumps({f"x{i}y": value for i, value in enumerate(values)})) == expected


def test_the_name_of_another_key_is_left() -> None:
    source = "jobs:\n  build: {title: One}\n  deploy: {needs: build, title: title}\n"
    assert texts(source, "a.yaml") == {"One", "title"}
    assert left(source, "a.yaml") == {"build": BY_REFERENCE}


def test_names_of_scripts_and_languages_are_texts() -> None:
    assert texts('{"names": {"scripts": {"Arab": "árabe", "Latn": "latin"}}}') == {"árabe", "latin"}
    assert texts('{"types": {"calendar": "calendário gregoriano", "x": "año"}}') == {
        "calendário gregoriano", "año",
    }  # fmt: skip


def test_keys_are_chosen_or_skipped_on_request() -> None:
    source = '{"a": {"title": "One", "icon": "two"}, "b": {"title": "Three", "note": "four"}}'
    assert texts(source) == {"One", "Three", "four"}
    assert texts(source, only_keys=("icon",)) == {"two"}
    assert texts(source, only_keys=("b.*", "icon")) == {"two", "Three", "four"}
    assert texts(source, skip_keys=("title", "ic*")) == {"four"}
    assert not document(source, skip_keys=("icon",)).left
    assert texts('[t]\na = "One"\nb = {c = "two"}\n', "a.toml", only_keys=("t.b.c", "c")) == {"two"}
    assert texts('[[t]]\na = "One"\n[u]\na = "two"\n', "a.toml", skip_keys=("u",)) == {"One"}
    assert texts("a:\n- b: One\n  c: two\n", "a.yaml", skip_keys=("a.c",)) == {"One"}


def test_a_value_that_is_left_names_its_line() -> None:
    ((text, _, place),) = document('{\n "title": "A dog",\n "icon": "leaf"\n}').left
    assert (text, place) == ("leaf", "line 3")
