"""A file that a translation would break is not written."""

import io
import re
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_formats import FILES as FIRST_FILES
from test_formats import members, upper
from test_more_formats import FILES as MORE_FILES

from dragoman.documents import converted
from dragoman.documents.converted import _page
from dragoman.documents.document import Document, DocumentError, ReadOptions
from dragoman.documents.formats import format_of, read

FILES = FIRST_FILES | {name: text.encode() for name, text in MORE_FILES.items()}


def damaged(raw: bytes, member: str, old: bytes, new: bytes) -> bytes:
    """Replace something in the file or in a member of it; `*` removes the member."""
    if not member:
        assert old in raw
        return raw.replace(old, new, 1)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members(raw).items():
            if name == member and old == b"*":
                continue
            assert name != member or old in content
            archive.writestr(name, content.replace(old, new, 1) if name == member else content)
    return out.getvalue()


DAMAGES = [
    ("a.docx", "word/document.xml", b"</w:r>", b"", "word/document.xml"),
    ("a.docx", "word/document.xml", b"<w:tbl>", b"<w:tbx>", "mismatched tag"),
    ("a.docx", "word/document.xml", b"<w:tblGrid>", b"<w:tblGrid><w:p/>", "<w:p> in w:tblGrid"),
    ("a.docx", "word/styles.xml", b"*", b"", "other files"),
    ("a.pptx", "ppt/slides/slide1.xml", b"</a:p>", b"", "ppt/slides/slide1.xml"),
    ("a.xlsx", "xl/worksheets/sheet1.xml", b"</t>", b"</t", "xl/worksheets/sheet1.xml"),
    ("a.odt", "content.xml", b"<text:span", b"<text:spin", "content.xml"),
    ("a.epub", "OEBPS/one.xhtml", b"<i>", b"", "OEBPS/one.xhtml"),
    ("a.html", "", b"</b>", b"", "</b>"),
    ("a.html", "", b'href="x"', b'href="y"', "href"),
    ("a.json", "", b'"kept": [', b'"lost": [', "kept"),
    ("a.json", "", b"}", b"", "JSON|delimiter|Extra|Expecting"),
    ("a.ipynb", "", b'"source"', b'"sauce"', "source"),
    ("a.yaml", "", b"'", b'"', "YAML"),
    ("a.po", "", b'msgid "one', b'msgod "one', "texts instead of"),
    ("a.xlf", "", b"</source>", b"</sauce>", "mismatched tag"),
    ("a.xml", "", b"<string ", b"<strung ", "mismatched tag"),
    ("a.csv", "", b"\n1,", b"\nb,", "texts instead of"),
    ("a.srt", "", b" --> ", b" - ", "without 00:00:01,000"),
    ("a.vtt", "", b" --> ", b" -->  ", "without 00:01.000"),
    ("a.md", "", b"](", b"] (", "without"),
    ("a.md", "", b"# ", b"", "heading"),
    ("a.rst", "", b"\n=========\n", b"\n", "without ="),
    ("a.rst", "", b"code-block::", b"code-black::", "code-block"),
    ("a.rst", "", b"``kept``", b"` `kept``", "kept"),
    ("a.tex", "", b"\\begin{itemize}", b"\\begin{itemise}", "itemize"),
    ("a.tex", "", b"\\cite{", b"\\cite", "brace|cite"),
    ("a.tex", "", b"\\emph", b"emph", "emph"),
    ("a.adoc", "", b"----\n", b"---\n", "without -"),
    ("a.adoc", "", b"|===", b"|==", r"\|=|place"),
    ("a.rtf", "", b"{\\b", b"\\b", "group without a beginning"),
    ("a.rtf", "", b"}}", b"}", "group without an end"),
    ("a.rtf", "", b"\\par", b"\\pur", "par"),
    ("a.eml", "", b"--kept--", b"--lost--", "Boundary"),
    ("a.eml", "", b"From: kept", b"From: lost", "From"),
    ("a.eml", "", b"boundary=kept", b"boundary=lost", "part"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "member", "old", "new", "why"), DAMAGES)
def test_a_broken_file_is_not_written_and_the_error_names_the_place(
    name: str, member: str, old: bytes, new: bytes, why: str
) -> None:
    format_ = format_of(name)

    def read_badly(raw: bytes, options: ReadOptions) -> Document:
        document = format_.read(raw, options)
        return replace(document, write=lambda said: damaged(document.write(said), member, old, new))

    document = read(name, FILES[name], replace(format_, read=read_badly), ReadOptions())
    with pytest.raises(DocumentError, match=why) as caught:
        upper(document)
    assert str(caught.value).startswith(f"{name}: translated, ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_an_intact_file_is_written(name: str) -> None:
    for to in ("", "de") if name != "a.xcstrings" else ("de",):
        document = read(name, FILES[name], format_of(name), ReadOptions(to=to))
        assert upper(document) != FILES[name]


@pytest.mark.parametrize("name", ["a.srt", "a.csv", "a.html", "a.json", "a.yaml", "a.po", "a.rst"])
def test_a_file_in_another_encoding_is_written_in_it(name: str) -> None:
    text = re.sub("(?i)one", "café", FILES[name].decode()).encode("latin-1", "ignore")
    document = read(name, text, format_of(name), ReadOptions(encoding="latin-1"))
    assert "CAFÉ".encode("latin-1") in upper(document)


def pdf(*lines: str, size: int = 10) -> bytes:
    """Return a page with lines of text, the first one larger, and no blanks between words."""
    shown = ""
    for number, line in enumerate(lines):
        at, height = 50.0, size if number else 24
        for word in line.split():
            shown += f"BT /F1 {height} Tf {at} {700 - 40 * number} Td ({word}) Tj ET\n"
            at += (sum(WIDTHS.get(letter, 556) for letter in word) + 278) * height / 1000
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(shown)} >>\nstream\n{shown}endstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    raw, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(raw))
        raw += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(raw)}\n%%EOF\n"
    return (raw + f"xref\n0 6\n0000000000 65535 f \n{table}{end}").encode()


# Of Helvetica's letters, in thousandths of their size; most have 556.
WIDTHS = dict.fromkeys("ijl", 222) | dict.fromkeys("ft", 278)
WIDTHS |= dict.fromkeys("ckvxyzs", 500) | {"r": 333, "O": 778, "A": 667, "m": 833, "w": 722}


def test_words_of_a_pdf_in_small_print_are_separated() -> None:
    pytest.importorskip("pdfplumber")
    raw = pdf("A heading", "One line of text in small letters", "Another line", "A third", size=5)
    document = read("a.pdf", raw, format_of("a.pdf"))
    assert ("One line of text in small letters",) in document.segments


def test_a_pdf_is_written_as_a_page() -> None:
    pytest.importorskip("pdfplumber")
    raw = pdf("A heading", "One line of text", "Another line", "A third line")
    after = upper(read("a.pdf", raw, format_of("a.pdf"), ReadOptions(to="de"))).decode()
    assert "<h1>A HEADING</h1>" in after
    assert "ANOTHER LINE" in after
    assert 'lang="de"' in after


def test_an_old_word_file_is_written_as_a_new_one(monkeypatch) -> None:
    monkeypatch.setattr(converted, "_by_libreoffice", lambda raw: FILES["a.docx"])
    document = read("a.doc", converted.OLE, format_of("a.doc"), ReadOptions(to="de"))
    assert members(upper(document)).keys() == members(FILES["a.docx"]).keys()


def test_descriptions_and_titles_in_markdown_may_change() -> None:
    text = b'One <img alt="two" src="kept.png"> ![three](kept.png) [four](kept.html "five").\n'
    after = upper(read("a.md", text, format_of("a.md")))
    assert after.count(b"kept") == 3
    assert b"FOUR" in after


def test_a_word_that_yaml_would_read_as_a_boolean_is_quoted() -> None:
    document = read("a.yaml", b"a: Not\nb: Nothing\n", format_of("a.yaml"))
    assert document.write([("No",), ("null",)]) == b'a: "No"\nb: "null"\n'


def test_a_picture_without_a_description_is_accepted() -> None:
    document = read("a.html", b'<p>one <img alt="" src="x"/></p>', format_of("a.html"))
    assert upper(document) == b'<p>ONE <img alt="" src="x"/></p>'


def test_a_text_full_of_angle_brackets_is_only_text() -> None:
    raw = b"<one>\n\n</topics> two\n"
    document = read("a.txt", raw, format_of("a.txt"))
    assert document.write([("a <b> c",) for _ in document.segments]).count(b"<b>") == 2


def test_a_pdf_without_text_is_refused() -> None:
    pytest.importorskip("pdfplumber")
    with pytest.raises(DocumentError, match="no text can be read in it"):
        read("a.pdf", pdf(), format_of("a.pdf"))


def test_asciidoc_text_that_begins_like_an_item_is_escaped() -> None:
    document = read("a.adoc", b"|===\n|see <2>\n|===\n", format_of("a.adoc"))
    ((_, number),) = document.segments
    after = document.write([(number, " siehe")])
    assert after == b"|===\n|{empty}<2> siehe\n|===\n"


def test_asciidoc_code_that_touches_a_letter_stays_code() -> None:
    document = read("a.adoc", b"See `x` and `y`.\n", format_of("a.adoc"))
    ((_, first, _, second, _),) = document.segments
    after = document.write([("Siehe", first, " und ", second, "e.")])
    assert after == b"Siehe``x`` und ``y``e.\n"
    with pytest.raises(DocumentError, match="without `y`"):
        document.write([("Siehe ", first, " und ", first, ".")])


def test_a_message_file_may_get_tags_with_its_translations() -> None:
    raw = b'msgid ""\nmsgstr "Language: \\n"\n\nmsgid "See <a href=\\"x\\">this</a>"\nmsgstr ""\n'
    assert upper(read("a.po", raw, format_of("a.po"))).count(b"</") == 2


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_an_encrypted_office_file_is_refused_as_such(name: str) -> None:
    """It is no archive any more, but a file of the older kind with one in it."""
    raw = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512)
    with pytest.raises(DocumentError, match="encrypted"):
        read(name, raw, format_of(name))


def test_an_encrypted_opendocument_file_is_refused_as_such() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("content.xml", b"\x00\x01")
        archive.writestr("META-INF/manifest.xml", "<m:file-entry><m:encryption-data/>")
    with pytest.raises(DocumentError, match="encrypted"):
        read("a.ods", out.getvalue(), format_of("a.ods"))


def test_lines_next_to_a_pdf_table_are_paragraphs_and_its_own_are_not() -> None:
    def line(text: str, x0: float, top: float) -> dict:
        ends = {"x0": x0, "x1": x0 + 50, "top": top, "bottom": top + 10}
        return {"text": text, "chars": [{"size": 10.0}], **ends}

    table = SimpleNamespace(bbox=(0, 100, 200, 140), extract=lambda **_: [["one", "two"]])
    lines = [line("above", 0, 20), line("one two", 10, 115), line("beside", 300, 115)]
    page = SimpleNamespace(find_tables=lambda: [table], extract_text_lines=lambda **_: lines)
    above, shown, beside = _page(page)
    assert (above, beside) == ("<p>above</p>", "<p>beside</p>")
    assert shown.startswith("<table>")
    assert "two" in shown


def test_a_translation_that_the_written_file_does_not_have_is_named() -> None:
    format_ = format_of("a.json")

    def read_badly(raw: bytes, options: ReadOptions) -> Document:
        document = format_.read(raw, options)
        return replace(document, write=lambda said: document.write(said).replace(b"Hund", b"Hnd"))

    raw = b'{"a": "A dog", "b": "A cat", "c": "A dog and a cat"}'
    document = read("a.json", raw, replace(format_, read=read_badly))
    document.write([("Ein Hund",), ("Eine Katze",), ("Ein Hund, eine Katze",)])
    assert document.warnings.keys() == {("A dog",), ("A dog and a cat",)}
    fine = read("a.json", raw, format_)
    fine.write([("Ein Hund",), ("Eine Katze",), ("Ein Hund, eine Katze",)])
    assert not fine.warnings


def test_a_translation_may_look_like_a_code_or_equal_a_text_that_is_left() -> None:
    raw = b'{"type": "A dog", "status": "low", "b": "One", "c": "Two", "d": ""}'
    document = read("a.json", raw, format_of("a.json"))
    assert len(document.segments) == 3
    after = document.write([("low",), ("fa-leaf",), ("isOpen",)])
    assert after == b'{"type": "low", "status": "low", "b": "fa-leaf", "c": "isOpen", "d": ""}'
    assert not document.warnings
