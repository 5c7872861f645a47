"""Files of every format, built from pieces of its own syntax: each is read and can be written, or
is refused in words. So is every file of the corpus (`tests/found.py`), by every reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import FORMATS, TAGGED, Format
from tests.attacks import archived
from tests.found import FILES

_RUNS = ["<w:p>", "</w:p>", "<w:r>", "</w:r>", "<w:t>", "</w:t>", "<w:ins>", "<w:tab/>"]
_SLIDE = ["<a:p>", "</a:p>", "<a:r>", "</a:r>", "<a:t>", "</a:t>", "<a:br/>", "<p:txBody>"]
_OPEN = ["<text:p>", "</text:p>", "<text:span>", "</text:span>", "<text:s/>", "<table:table-cell>"]
_WEB = ["<p>", "</p>", "<b title='", "<!--", "-->", "&amp;", '<a href="', "<code>", "</", "<"]
_JSON = ["{", "}", "[", "]", '"a"', ":", ",", "1", "null", '"\\u00e9', "\\"]
PIECES = {
    "html": _WEB,
    "markdown": ["# ", "`", "```\n", "[", "](", ")", "[^1]", "<!--", "|", "---\n", "> ", "    "],
    "srt": ["1\n", "00:00:01,000 --> 00:00:02,000\n", "<i>", "</i>", "\n\n"],
    "vtt": ["WEBVTT\n\n", "00:01.000 --> 00:02.000\n", "NOTE ", "<v ", "\n\n"],
    "po": ['msgid "', '"\n', 'msgstr "', "#, fuzzy\n", "#~ ", "msgid_plural", "\n\n", '"'],
    "xliff": [
        *("<xliff>", "<trans-unit>", "<source>", "</source>", "</trans-unit>", "</xliff>", "<g>"),
        *("<target>", "</target>", "<unit>", "<segment>", "<ph/>"),
    ],
    "android": [
        *("<resources>", '<string name="a">', "</string>", "</resources>", "<![CDATA[", "]]>")
    ],
    "json": _JSON,
    "arb": [*_JSON, '"@a"', '"{n, plural, one{a} other{b}}"'],
    "yaml": ["a: ", "- ", "|\n  ", "'", '"', "&x ", "*x", "!!int ", "#", "{", "}", "2020-99-99"],
    "properties": ["a", "=", ":", "\\", "\\u00e9", "#", "!", "\r\n", " "],
    "fluent": ["a = ", "{ $x }", "->", "*[one] ", "    .b = ", "}", "\n    "],
    "csv": [",", '"', '""', "\r\n", ";"],
    "tsv": ["\t", '"', "\n"],
    "notebook": ['{"cells": [', '{"cell_type": "markdown", "source": ["', '"]}', "]}", ","],
    "rst": [
        "====\n",
        "* ",
        "``",
        "`a <b>`_",
        ".. note:: ",
        "::\n\n",
        "+--+\n",
        "|",
        "    ",
        "[1]_",
    ],
    "asciidoc": [
        "= ",
        "== ",
        "----\n",
        "|===\n",
        "|",
        "* ",
        "link:a[",
        "]",
        "`",
        "[source]\n",
        "+",
    ],
    "latex": ["\\section{", "}", "$", "$$", "\\begin{a}", "\\end{a}", "%", "\\", "{", "\\verb|"],
    "resx": ["<root>", "</root>", '<data name="a">', "</data>", "<value>", "</value>", "<!--"],
    "linguist": [
        *("<TS>", "</TS>", "<context>", "</context>", "<message>", "</message>", "<source>"),
        *("</source>", "<translation type='unfinished'>", "</translation>", "<numerusform>"),
    ],
    "svg": ["<svg>", "</svg>", "<text>", "</text>", "<tspan>", "</tspan>", "<title>", "<style>"],
    "strings": ['"a"', " = ", ";", "/*", "*/", "//", '"', "\\U00e9", "\\"],
    "xcstrings": [*_JSON, '{"sourceLanguage":"en","strings":{', '"localizations"', '"stringUnit"'],
    "toml": ["a = ", '"', "'", '"""', "[a]", "[[a]]", "1979-99-99", "{", "}", ",", "\n", "#"],
    "ass": ["[Events]\n", "Format: Text\n", "Dialogue: ", ",", "{\\i1}", "\\N", "[Script Info]\n"],
    "rtf": ["{\\rtf1", "}", "{", "\\par ", "\\'e9", "\\u233?", "\\b ", "\\bin99999 ", "\\*", "\\"],
    "eml": [
        *("Subject: ", "\n", "\n\n", "Content-Type: text/html; charset=x", "--b\n", "--b--\n"),
        *("Content-Type: multipart/mixed; boundary=b\n", "=?utf-8?q?=e9?=", "=?x?b?!?="),
        "Content-Transfer-Encoding: base64\n",
    ],
    "pdf": ["%PDF-1.4\n", "1 0 obj\n", "<<", ">>", "endobj\n", "stream\n", "xref\n", "/Type /Page"],
    "doc": ["\ud7ce", "{\\rtf1", "<html>", "\0"],
    "text": [],
}
ARCHIVES = {
    "docx": ("word/document.xml", _RUNS),
    "pptx": ("ppt/slides/slide1.xml", _SLIDE),
    "xlsx": ("xl/sharedStrings.xml", ["<sst>", "</sst>", "<si>", "</si>", "<t>", "</t>", "<r>"]),
    "odt": ("content.xml", _OPEN),
    "ods": ("content.xml", _OPEN),
    "odp": ("content.xml", _OPEN),
    "epub": ("a.xhtml", _WEB),
}
ROOTS = {
    "docx": '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">',
    "pptx": '<p:sld xmlns:p="p" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">',
    "odt": '<o xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="t">',
}
WORDS = ["Hund", " ", "\n", "é", "%s", "a@b.c", "{0}", "\ufeff", "1,000"]


def texts_of(pieces: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*pieces, *WORDS]) | st.text(max_size=3), max_size=30).map(
        "".join
    )


def files_of(name: str) -> st.SearchStrategy[bytes]:
    if name not in ARCHIVES:
        text = texts_of(PIECES["html" if name == TAGGED.name else name])
        return text.map(lambda t: t.encode("utf-8", "replace")) | st.binary(max_size=100)
    member, pieces = ARCHIVES[name]
    root = ROOTS.get(name, "<x>")
    text = texts_of(pieces)
    whole = text.map(lambda body: f"{root}{body}</{root[1:].split(' ')[0].rstrip('>')}>")
    others = {"[Content_Types].xml": b"<Types/>", "mimetype": b"application/epub+zip"}
    packed = (text | whole).map(
        lambda body: archived({member: body.encode("utf-8", "replace"), **others})
    )
    cut = packed.flatmap(lambda raw: st.integers(0, len(raw)).map(lambda size: raw[:size]))
    return packed | cut | st.binary(max_size=100)


def is_read_or_refused(format_: Format, raw: bytes) -> None:
    if format_ is TAGGED:  # which gets a text, not a file
        raw = raw.decode("utf-8", "replace").encode()
    try:
        document = format_.read(raw, ReadOptions(to="de"))
    except DocumentError:
        return
    document.write(document.segments)


@pytest.mark.parametrize("format_", [*FORMATS, TAGGED], ids=lambda format_: format_.name)
def test_a_file_is_read_or_refused_in_words(format_):
    @given(raw=files_of(format_.name))
    def attempt(raw: bytes) -> None:
        is_read_or_refused(format_, raw)

    attempt()


@pytest.mark.parametrize("format_", [*FORMATS, TAGGED], ids=lambda format_: format_.name)
def test_every_file_that_was_found_is_read_or_refused_in_words(format_):
    for name, make in FILES.items():
        try:
            is_read_or_refused(format_, make())
        except Exception as error:
            raise AssertionError(name) from error
