"""Brackets and braces: what is markup, and what is text."""

import pytest

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import format_of
from dragoman.documents.segment import codes, plain_text


@pytest.mark.parametrize(
    ("text", "words", "marks"),
    [
        ("Say [that](b.html).", "Say that.", ["[", "](b.html)"]),
        ("Say [this] now.", "Say [this] now.", []),
        ("The end] of it.", "The end] of it.", []),
        ("The end](a.html) of it.", "The end of it.", ["](a.html)"]),
    ],
)
def test_links_and_references_are_codes_and_other_brackets_text(text, words, marks) -> None:
    (segment,) = format_of("a.md").read(text.encode() + b"\n", ReadOptions()).segments
    assert plain_text(segment) == words
    assert [code.raw for code in codes(segment)] == marks


def test_formatting_directly_after_a_brace_belongs_to_its_group() -> None:
    raw = rb"{\rtf1\ansi One {\b two} three.\par}"
    (segment,) = format_of("a.rtf").read(raw, ReadOptions()).segments
    assert plain_text(segment) == "One two three."
    assert [code.raw.strip() for code in codes(segment)] == [r"{\b", "}"]
