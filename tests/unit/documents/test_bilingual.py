"""A file with both languages: each text, and then its translation."""

import io

import docx
import pytest
from test_formats import FILES, upper

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import BY_ENDING, read

EXPECTED = {
    "a.txt": ("  One dog.\n\nTwo\n", "  One dog.\n  ONE DOG.\n\nTwo\nTWO\n"),
    "a.md": (
        "# One *two*\n\n- three[^1]\n",
        "# One *two*<br/>ONE *TWO*\n\n- three[^1]<br/>THREE\n",
    ),
    "a.html": (
        '<title>One</title><p>Two <b>dogs</b> <img alt="three"></p>\n',
        "<title>One / ONE</title>"
        '<p>Two <b>dogs</b><br/>TWO <b>DOGS</b> <img alt="three / THREE"></p>\n',
    ),
    "a.srt": (
        "1\n00:00:01,000 --> 00:00:02,000\nOne two\n\n"
        "2\n00:00:02,500 --> 00:00:04,000\nthree four.\n",
        "1\n00:00:01,000 --> 00:00:02,000\nOne two\nONE TWO\n\n"
        "2\n00:00:02,500 --> 00:00:04,000\nthree four.\nTHREE FOUR.\n",
    ),
    "a.json": ('{"a": "one"}', '{"a": "one / ONE"}'),
}


def both(name: str, raw: bytes) -> bytes:
    ending = "." + name.rpartition(".")[2]
    document = read(name, raw, BY_ENDING[ending], ReadOptions(bilingual=True, everything=True))
    return upper(document)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_translation_follows_its_text(name: str) -> None:
    before, after = EXPECTED[name]
    assert both(name, before.encode()).decode() == after


def test_wrapped_lines_are_wrapped_in_both_languages() -> None:
    lines = ["word " * 12 + "and", "so it goes on."]
    after = both("a.txt", "\n".join(lines).encode()).decode()
    assert after.split("\n") == [*lines, *(line.upper() for line in lines)]


def test_word_breaks_the_line_between_the_languages() -> None:
    document, file = docx.Document(), io.BytesIO()
    document.add_paragraph("One ").add_run("two").bold = True
    document.save(file)
    after = docx.Document(io.BytesIO(both("a.docx", file.getvalue())))
    assert [paragraph.text for paragraph in after.paragraphs] == ["One two\nONE TWO"]
    assert [run.text for run in after.paragraphs[0].runs if run.bold] == ["two", "TWO"]


@pytest.mark.parametrize("name", FILES)
def test_every_format_can_hold_both_languages(name: str) -> None:
    after = both(name, FILES[name])
    again = read(name, after, BY_ENDING["." + name.rpartition(".")[2]], ReadOptions())
    assert again.write(again.segments) == after
