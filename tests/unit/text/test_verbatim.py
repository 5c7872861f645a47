"""Finding what must not change in a text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.text import verbatim
from dragoman.text.verbatim import reason_for_doubt, verbatim_spans


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Call +44 20 7946 0958 or 030 1234567.", ["+44 20 7946 0958", "030 1234567"]),
        ("El teléfono es el 955 010 010.", ["955 010 010"]),
        ("955 010 010 people", []),
        ("on 14.02.2022, 05/11/2020 and 2024-03-18", []),
        ("3.450.000 Euro, 1.200 km", []),
        ("version 2.10.3 at 192.168.0.1:8080", ["2.10.3", "192.168.0.1:8080"]),
        ("(ISBN 0-306-40615-2), 978-3-16-148410-0", ["ISBN 0-306-40615-2", "978-3-16-148410-0"]),
        ("see https://x.org/a?b=1, www.x.org.", ["https://x.org/a?b=1", "www.x.org"]),
        ("jane_doe42@mail.example.co.uk.", ["jane_doe42@mail.example.co.uk"]),
        ("Open [X5X] and [X12X], not [X] or [5].", ["[X5X]", "[X12X]"]),
        ("Nothing here, really: 42 and 3.5.", []),
    ],
)
def test_finds_addresses_and_identifiers(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in verbatim_spans(text)] == found


_LITTLE = st.text(alphabet="abcdefghmtwvX.:-()+=~&*!? \u00a0\n", max_size=60)
_NUMBERS = st.lists(
    st.sampled_from(["0", "9", "978", "12", "a", "f", "v", "x", " ", "-", "+", "(", ")", "ISBN"])
    | st.sampled_from(["Tel. ", "Telefon", "\u00a0", ".", ",", "beta", "Jahr "]),
    max_size=24,
).map("".join)


@settings(max_examples=1000)
@given(_LITTLE | _NUMBERS)
@example("v2")
@example("9783161484100")
@example("ISBN 0306406152")
@example("030 1234567")
@example("+49301")
@example("deadbeef1")
@example("0xAB")
@example("Telefon 12 34 56")
def test_ordinary_text_has_no_verbatim_spans(text: str) -> None:
    """The signs are a short cut: what they rule out, the patterns do not find either."""
    if not verbatim._has_sign(text):
        assert not verbatim._any().search(text)
        assert not verbatim._CALLED.search(text)


@pytest.mark.parametrize(
    ("source", "translation", "why"),
    [
        ("Open the file.", "", "empty"),
        ("Open the file.", "Open the file!", "source again"),
        ("Open the file.", "Öffne die Datei.", ""),
        ("42", "", ""),
        ("", "", ""),
        ("Filter", "Filter", ""),
        ("Ada Lovelace and Charles", "Ada Lovelace and Charles", ""),
        ("see https://x.org/read/the/manual", "see https://x.org/read/the/manual", ""),
    ],
)
def test_doubts_empty_translations_and_copies(source: str, translation: str, why: str) -> None:
    reason = reason_for_doubt(source, translation)
    assert why in reason
    assert bool(reason) is bool(why)
