"""Every format writes the same file for an unchanged translation; any other changes only text."""

import csv
import io
import json
import zipfile
from collections.abc import Callable

import docx
import odf.opendocument
import odf.text
import openpyxl
import polib
import pptx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import BY_ENDING, BY_NAME, format_of
from dragoman.documents.segment import Kind, codes, serialize

HTML = """<!DOCTYPE html>
<html><head><title>A &amp; B</title><style>p { color: red }</style>
<meta name="description" content="About dogs"></head>
<body><p>One <b>two</b>,<br>three&nbsp;<a href="x" title="Go there">four</a>.</p>
<pre>kept as is</pre><p translate="no">kept too</p><script>var a = "kept";</script>
<ul><li>five<li>six <code>x = 1</code></ul><img src="a.png" alt="A picture">
<input placeholder="Your name"><input type=submit value="Send">loose < text</body></html>
"""
MARKDOWN = """---
title: kept
---
# One *two*

> three
> four `kept` [five](http://kept.example)

| six | seven |
|-----|-------|
| eight | `kept` |

```
kept
```

- nine **ten**
<div>eleven</div>
"""
SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>One two</i>\r\nthree.\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n- Four?\r\n- Five!\r\n"
)
VTT = "WEBVTT\n\nNOTE kept\n\n00:01.000 --> 00:02.000 align:start\n<v Ann>One two\n"
PO = """# kept
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

#, c-format
msgid "one %s"
msgstr ""

msgid "done"
msgstr "kept"

msgid "file"
msgid_plural "files"
msgstr[0] ""
msgstr[1] ""
"""
XLIFF = """<?xml version="1.0"?>
<xliff version="1.2"><file><body>
<trans-unit id="1"><source>One <g id="1">two</g> <x id="2"/></source></trans-unit>
<trans-unit id="2"><source>done</source><target>kept</target></trans-unit>
<trans-unit id="3"><source>three</source><target/></trans-unit>
</body></file></xliff>
"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0"><file id="f">
<unit id="1"><segment><source>One <pc id="1">two</pc><ph id="2"/></source></segment></unit>
</file></xliff>
"""
ANDROID = """<resources>
    <string name="a">It\\'s <b>one</b> %1$s</string>
    <string name="b" translatable="false">kept</string>
    <plurals name="c"><item quantity="one">%d day</item>
        <item quantity="other">%d days</item></plurals>
</resources>
"""
JSON = '{"a": "one", "b": {"kept": ["two", 3, null]}, "@a": {"description": "kept"}}\n'
YAML = """a: one two
b: 'it''s'
c: "x \\n y"
d: |
  line one
  line two
e: [three, 4, true]
kept: &x five
f: *x
"""
PROPERTIES = "# kept\na = one two\nb: three \\\n   four\nc=\\u00fcber\nkept=\n"
FLUENT = """a = One { $kept }
b =
    two
    three
    .title = four
c = { $n ->
    [one] five
   *[other] { $n } six
}
"""
CSV = 'kept,text\n1,one\n2,"two, ""three"""\n'
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": ["# One\n", "\n", "two **three**"]},
            {"cell_type": "code", "source": ["kept = 1"], "outputs": []},
            {"cell_type": "markdown", "source": "four"},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    },
    indent=1,
)
TEXT = "One two.\n\n  three\n\tfour\r\n\r\n" + "\n".join(["word " * 12 + "and", "so it goes on."])


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def docx_file() -> bytes:
    document = docx.Document()
    document.add_heading("One", 1)
    paragraph = document.add_paragraph("two ")
    paragraph.add_run("three").bold = True
    paragraph.add_run(" four")
    document.add_table(1, 1).cell(0, 0).text = "five"
    document.sections[0].header.paragraphs[0].text = "six"
    return saved(document.save)


def pptx_file() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "One"
    run = slide.placeholders[1].text_frame.paragraphs[0].add_run()
    run.text = "two"
    run.font.bold = True
    return saved(deck.save)


def xlsx_file() -> bytes:
    book = openpyxl.Workbook()
    book.active["A1"] = "one two"
    book.active["B1"] = 42
    book.active["C1"] = "=SUM(B1:B1)"
    return saved(book.save)


def odt_file() -> bytes:
    document = odf.opendocument.OpenDocumentText()
    paragraph = odf.text.P(text="one ")
    paragraph.addElement(odf.text.Span(text="two"))
    paragraph.addText(" three")
    document.text.addElement(odf.text.H(outlinelevel=1, text="four"))
    document.text.addElement(paragraph)
    return saved(document.write)


def epub_file() -> bytes:
    page = """<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">
<body><p>One <i>two</i>&#160;three</p></body></html>"""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr("OEBPS/one.xhtml", page)
        book.writestr("OEBPS/kept.css", "p {}")
    return out.getvalue()


FILES: dict[str, bytes] = {
    "a.html": HTML.encode(), "a.md": MARKDOWN.encode(), "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.po": PO.encode(), "a.xlf": XLIFF.encode(), "b.xlf": XLIFF2.encode(),
    "a.xml": ANDROID.encode(), "a.json": JSON.encode(), "a.yaml": YAML.encode(),
    "a.properties": PROPERTIES.encode(), "a.ftl": FLUENT.encode(), "a.csv": CSV.encode(),
    "a.tsv": CSV.replace(",", "\t").encode(), "a.ipynb": NOTEBOOK.encode(), "a.txt": TEXT.encode(),
    "a.docx": docx_file(), "a.pptx": pptx_file(), "a.xlsx": xlsx_file(), "a.odt": odt_file(),
    "a.epub": epub_file(),
}  # fmt: skip


def read(name: str, raw: bytes | None = None, **options):
    return format_of(name).read(FILES[name] if raw is None else raw, ReadOptions(**options))


def upper(document) -> bytes:
    """Write the document with all texts in capital letters."""
    return document.write(
        [
            tuple(item.upper() if isinstance(item, str) else item for item in segment)
            for segment in document.segments
        ]
    )


def members(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


@pytest.mark.parametrize("name", FILES)
def test_an_unchanged_translation_writes_the_same_file(name: str) -> None:
    for everything in (False, True):
        document = read(name, everything=everything)
        assert document.segments
        after = document.write(document.segments)
        if zipfile.is_zipfile(io.BytesIO(FILES[name])):
            assert members(after) == members(FILES[name])
            assert list(members(after)) == list(members(FILES[name]))
        else:
            assert after == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_protected_parts_are_kept_and_the_file_can_be_read_again(name: str) -> None:
    after = upper(read(name))
    assert after != FILES[name]
    if not zipfile.is_zipfile(io.BytesIO(after)):
        assert b"KEPT" not in after
        assert after.count(b"kept") == FILES[name].count(b"kept")
    read(name, after)


def test_every_ending_has_one_format_and_every_format_a_test() -> None:
    tested = {format_of(name).name for name in FILES}
    # read as odt is, or in tests of their own
    other = {"rst", "asciidoc", "latex", "resx", "linguist", "svg", "strings", "xcstrings", "toml"}
    other |= {"ass", "rtf", "eml", "doc", "pdf", "arb"}
    assert {"ods", "odp"} | other == set(BY_NAME) - tested
    assert len(BY_ENDING) == sum(len(format_.endings) for format_ in BY_NAME.values())
    with pytest.raises(DocumentError, match=r"a\.exe has no supported format.* \.docx"):
        format_of("a.exe")


def test_html_text_and_visible_attributes_are_translated() -> None:
    after = upper(read("a.html")).decode()
    assert '<p>ONE <b>TWO</b>,<br>THREE\xa0<a href="x" title="GO THERE">FOUR</a>.</p>' in after
    assert 'content="ABOUT DOGS"' in after
    assert 'alt="A PICTURE"' in after
    assert 'placeholder="YOUR NAME"' in after
    assert 'value="SEND"' in after
    assert "<li>SIX <code>x = 1</code>" in after
    assert "LOOSE &lt; TEXT" in after


def test_only_meta_contents_shown_by_search_engines_are_translated() -> None:
    page = b'<meta name="viewport" content="width"><meta property="og:title" content="A dog">'
    assert upper(read("a.html", page)) == page.replace(b"A dog", b"A DOG")


def test_a_comment_of_a_page_is_kept_if_it_has_an_end() -> None:
    page = b"<p>one <!-- kept --> two</p><!-- <p>kept</p> --><p>three</p>"
    after = b"<p>ONE <!-- kept --> TWO</p><!-- <p>kept</p> --><p>THREE</p>"
    assert upper(read("a.html", page)) == after
    assert b"ONE" in upper(read("a.html", b"<p>two</p><!-- <p>one</p>"))


def test_a_link_end_without_a_beginning_keeps_its_address() -> None:
    document = read("a.md", b"one](http://kept.example) two] three\n")
    assert upper(document) == b"ONE](http://kept.example) TWO] THREE\n"
    (segment,) = document.segments
    assert [item for item in segment if isinstance(item, str)] == ["one", " two] three"]


def test_text_that_looks_like_markup_stays_text() -> None:
    document = read("a.html", b"<p>write &lt;script&gt; here</p>")
    assert upper(document) == b"<p>WRITE &lt;SCRIPT&gt; HERE</p>"
    from dragoman.documents.protect import protect_texts

    segments = [protect_texts(segment) for segment in document.segments]
    assert document.write([("new ", *segments[0][1:])]) == b"<p>new &lt;script&gt; here</p>"


def test_runs_of_a_paragraph_keep_their_formatting() -> None:
    after = docx.Document(io.BytesIO(upper(read("a.docx"))))
    runs = [(run.text, bool(run.bold)) for run in after.paragraphs[1].runs]
    assert runs == [("TWO ", False), ("THREE", True), (" FOUR", False)]
    assert after.tables[0].cell(0, 0).text == "FIVE"
    assert after.sections[0].header.paragraphs[0].text == "SIX"


def test_a_run_that_moves_takes_its_formatting_along() -> None:
    document = read("a.docx")
    place = next(i for i, segment in enumerate(document.segments) if len(segment) > 1)
    two, opening, three, closing, four = document.segments[place]
    segments = list(document.segments)
    segments[place] = (opening, three, closing, four, two.strip())
    after = docx.Document(io.BytesIO(document.write(segments)))
    runs = [(run.text, bool(run.bold)) for run in after.paragraphs[1].runs]
    assert runs == [("three", True), (" fourtwo", False)]


def test_other_libraries_read_what_was_written() -> None:
    assert pptx.Presentation(io.BytesIO(upper(read("a.pptx")))).slides[0].shapes.title.text == "ONE"
    sheet = openpyxl.load_workbook(io.BytesIO(upper(read("a.xlsx")))).active
    assert [cell.value for cell in sheet[1]] == ["ONE TWO", 42, "=SUM(B1:B1)"]
    text = odf.opendocument.load(io.BytesIO(upper(read("a.odt")))).text
    assert str(text) == "FOURONE TWO THREE"
    assert yaml.safe_load(upper(read("a.yaml"))) == {
        "a": "ONE TWO", "b": "IT'S", "c": "X \n Y", "d": "LINE ONE\nLINE TWO\n",
        "e": ["THREE", 4, True], "kept": "FIVE", "f": "FIVE",
    }  # fmt: skip
    assert json.loads(upper(read("a.json")))["b"] == {"kept": ["TWO", 3, None]}
    rows = list(csv.reader(io.StringIO(upper(read("a.csv")).decode())))
    assert rows == [["kept", "text"], ["1", "ONE"], ["2", 'TWO, "THREE"']]
    cells = json.loads(upper(read("a.ipynb")))["cells"]
    assert [cell["source"] for cell in cells] == [
        ["# ONE\n", "\n", "TWO **THREE**"], ["kept = 1"], "FOUR",
    ]  # fmt: skip


def test_an_older_notebook_is_translated_with_its_headings() -> None:
    cells = [
        {"cell_type": "heading", "level": 1, "source": ["A dog"]},
        {"cell_type": "markdown", "source": ["It *sleeps*.\n", "\n", "All day."]},
        {"cell_type": "code", "input": ["kept = 1"], "outputs": []},
    ]
    raw = json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}, indent=1).encode()
    ((sheet),) = json.loads(upper(BY_NAME["notebook"].read(raw, ReadOptions())))["worksheets"]
    heading, text, code = sheet["cells"]
    assert heading["source"] == ["A DOG"]
    assert text["source"] == ["IT *SLEEPS*.\n", "\n", "ALL DAY."]
    assert code == cells[2]


def test_machine_translations_are_fuzzy_and_others_are_kept() -> None:
    after = polib.pofile(upper(read("a.po")).decode())
    by_id = {entry.msgid: entry for entry in after}
    assert by_id["one %s"].msgstr == "ONE %S"
    assert by_id["one %s"].fuzzy
    assert (by_id["done"].msgstr, by_id["done"].fuzzy) == ("kept", False)
    assert by_id["file"].msgstr_plural == {0: "FILE", 1: "FILES"}
    again = polib.pofile(upper(read("a.po", everything=True)).decode())
    assert again.find("done").msgstr == "DONE"


def test_xliff_gets_missing_targets() -> None:
    after = upper(read("a.xlf")).decode()
    review = ' state="needs-review-translation"'
    assert f'<target{review}>ONE <g id="1">TWO</g> <x id="2"/></target>' in after
    assert "<target>kept</target>" in after
    assert f"<target{review}>THREE</target>" in after
    assert '<target>ONE <pc id="1">TWO</pc><ph id="2"/></target>' in upper(read("b.xlf")).decode()


def test_xliff_names_the_language_that_it_was_translated_into() -> None:
    for name in ("a.xlf", "b.xlf"):
        document = read(name, to="de")
        assert document.write(document.segments) == read(name).write(document.segments)
    assert '<file target-language="de">' in upper(read("a.xlf", to="de")).decode()
    assert '<xliff trgLang="de" xmlns=' in upper(read("b.xlf", to="de")).decode()
    other = XLIFF.replace("<file>", "<file source-language='en' target-language='fr' original='x'>")
    after = upper(read("a.xlf", other.encode(), to="pt-BR")).decode()
    assert """<file target-language="pt-BR" source-language='en' original='x'>""" in after
    assert "language" not in upper(read("a.xlf")).decode()


def test_columns_are_chosen_by_name_or_number() -> None:
    raw = b"id,name,text\nx,one,two\n"
    assert upper(read("a.csv", raw, columns=("text",))) == b"id,name,text\nx,one,TWO\n"
    assert upper(read("a.csv", raw, columns=("2",))) == b"id,name,text\nx,ONE,two\n"
    with pytest.raises(DocumentError, match="no column 'title'; there are id, name, text"):
        read("a.csv", raw, columns=("title",))


def test_wrapped_paragraphs_are_one_text_and_wrapped_again() -> None:
    lines = [" ".join(["word"] * 12), " ".join(["word"] * 12), "end."]
    document = read("a.txt", "\n".join(lines).encode())
    (segment,) = document.segments
    assert serialize(segment).count("\n") == 0
    after = document.write([(" ".join(["longer"] * 25),)]).decode().split("\n")
    assert max(map(len, after)) <= len(lines[0])
    assert " ".join(after).split() == ["longer"] * 25


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_the_encoding_stays(encoding: str) -> None:
    raw = "grüße\n".encode(encoding)
    after = upper(read("a.txt", raw, encoding="latin-1"))
    assert after.decode(encoding) == "GRÜSSE\n"


def test_undecodable_bytes_are_refused_with_their_line() -> None:
    with pytest.raises(DocumentError, match="not UTF-8: line 2 has the byte 0xff"):
        read("a.txt", b"one\ntwo \xff\n")
    with pytest.raises(DocumentError, match="cannot be decoded as 'shift_jis'"):
        read("a.txt", b"one\ntwo \xff\n", encoding="shift_jis")
    assert upper(read("a.properties", b"a=gr\xfc\n")) == b"a=GR\xdc\n"


def test_a_translated_page_names_its_language() -> None:
    page = b'<html class="x" lang="en-US"><p lang="fr">one</p></html>'
    assert b'<html class="x" lang="de"><p lang="fr">ONE' in upper(read("a.html", page, to="de"))
    unchanged = read("a.html", page, to="de")
    assert unchanged.write(unchanged.segments) == page
    book = io.BytesIO()
    with zipfile.ZipFile(book, "w") as archive:
        archive.writestr("a.xhtml", '<html xml:lang="en"><p>one</p></html>')
    after = upper(read("a.epub", book.getvalue(), to="de"))
    with zipfile.ZipFile(io.BytesIO(after)) as archive:
        assert archive.read("a.xhtml") == b'<html xml:lang="de"><p>ONE</p></html>'


def test_a_letter_that_the_encoding_lacks_is_written_by_number_or_refused() -> None:
    html = '<meta charset="iso-8859-1"><p>übung</p>'.encode("latin-1")
    document = read("a.html", html)
    assert b"&#322;" in document.write([("ł",)])
    with pytest.raises(DocumentError, match="latin-1, lacks 'ł'"):
        read("a.txt", "übung".encode("latin-1"), encoding="latin-1").write([("ł",)])


def test_a_page_of_a_book_is_utf8_unless_xml_says_otherwise() -> None:
    """Readers of books do not look at `meta`."""
    page = '<html><head><meta charset="iso-8859-1"/></head><body><p>one {}</p></body></html>'
    declared = '<?xml version="1.0" encoding="iso-8859-1"?>' + page
    for text, encoding in (
        (page.format("two"), "utf-8"),
        (page.format("ü"), "utf-8"),
        (page.format("ü"), "iso-8859-1"),  # it is no XML, but this is what it must be
        (declared.format("ü"), "iso-8859-1"),
        ("\ufeff" + page.format("ü"), "utf-8"),
    ):
        document = read("a.epub", packed({"a.xhtml": text.encode(encoding)}))
        after = members(document.write([("é",)]))["a.xhtml"]
        assert "<p>é</p>" in after.decode(encoding)


def test_marks_in_a_table_of_contents_stay() -> None:
    ncx = "<ncx><text>one <tt>two</tt><br/></text></ncx>"
    document = read("a.epub", packed({"a.ncx": ncx.encode()}))
    assert document.write(document.segments) == packed({"a.ncx": ncx.encode()})
    assert members(upper(document))["a.ncx"] == b"<ncx><text>ONE <tt>TWO</tt><br/></text></ncx>"


@given(st.text(max_size=200))
def test_any_text_round_trips(text: str) -> None:
    raw = text.encode("utf-8", "ignore")
    for name in ("a.txt", "a.html", "a.md", "a.srt", "a.po", "a.properties", "a.ftl", "a.tsv"):
        try:
            document = read(name, raw)
        except DocumentError:
            continue
        assert document.write(document.segments) == raw


def packed(content: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in content.items():
            archive.writestr(name, raw)
    return out.getvalue()


def test_hostile_archives_are_refused_in_one_line(monkeypatch) -> None:
    from dragoman.documents import archive

    monkeypatch.setattr(archive, "MOST_BYTES", 2**20)
    bomb = packed({"word/document.xml": b"<a>" + b" " * 2**21})
    entity = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><w:p><w:r><w:t>&x;</w:t></w:r></w:p>'
    for raw, why in (
        (bomb, "unpacks to more than"),
        (b"PK\3\4 no zip", "damaged"),
        (packed({"other.xml": b"<a/>"}), "lacks the files"),
        (packed({"word/document.xml": entity}), "declares a DTD"),
        (packed({"word/document.xml": b"<a>" * 1000}), "nested more than"),
        (packed({"word/document.xml": b"<a><b></a>"}), "not well-formed"),
    ):
        with pytest.raises(DocumentError, match=why):
            read("a.docx", raw)


def test_macros_are_copied() -> None:
    content = members(FILES["a.docx"]) | {"word/vbaProject.bin": b"\0macro\0"}
    assert members(upper(read("a.docx", packed(content))))["word/vbaProject.bin"] == b"\0macro\0"


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[" * 10_000, "nested too deeply|not JSON"),
        ("a.yaml", b"a: [", "not YAML"),
        ("a.yaml", b"[" * 10_000, "nested too deeply"),
        ("a.xlf", b"<html/>", "not XLIFF"),
        ("a.xml", b"<html/>", "not a file of Android strings"),
        ("a.txt", b"\0\xff\xff", "zero bytes"),
        ("a.csv", b'a\n"b"c\n', "row 2"),
        ("a.ipynb", b"[]", "not a Jupyter notebook"),
        ("a.ipynb", b'{"nbformat": 1}', "it has no cells"),
    ],
)
def test_damaged_files_are_refused_in_one_line(name: str, raw: bytes, why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        read(name, raw)


def test_html_tags_around_words_are_pairs_and_unclosed_ones_are_marks() -> None:
    page = b"<p>One <b>two</b> three <img src='a.png'> four</p>"
    (segment,) = BY_NAME["html"].read(page, ReadOptions()).segments
    assert [(code.raw, code.kind) for code in codes(segment)] == [
        ("<b>", Kind.OPEN),
        ("</b>", Kind.CLOSE),
        ("<img src='a.png'>", Kind.MARK),
    ]
