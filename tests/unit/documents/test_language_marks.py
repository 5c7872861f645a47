"""A translated file names its language, and its title and picture descriptions are translated."""

import io
import zipfile

import pytest
from test_formats import members, upper

from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import format_of, read, translated_name


def packed(**content: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    return out.getvalue()


def loud(name: str, raw: bytes) -> dict[str, str]:
    after = upper(read(name, raw, format_of(name), ReadOptions(to="de")))
    if not raw.startswith(b"PK"):
        return {"": after.decode()}
    return {member: content.decode() for member, content in members(after).items()}


CORE = (
    '<cp:coreProperties xmlns:cp="urn:cp" xmlns:dc="urn:dc"><dc:title>A report</dc:title>'
    "<dc:creator>Ada</dc:creator><dc:language>en-US</dc:language></cp:coreProperties>"
)
CORE_AFTER = CORE.replace("A report", "A REPORT").replace("en-US", "de")


def test_a_book_states_its_language_and_its_title_is_translated() -> None:
    package = (
        '<package xmlns:dc="urn:dc"><metadata><dc:title>A book</dc:title>'
        '<dc:creator>Ada</dc:creator><dc:language id="l">en</dc:language></metadata></package>'
    )
    contents = "<ncx><navMap><navLabel><text>Chapter</text></navLabel></navMap></ncx>"
    after = loud(
        "a.epub",
        packed(
            **{"b.opf": package, "toc.ncx": contents, "a.xhtml": "<html lang='en'><p>x</p></html>"}
        ),
    )
    assert after["b.opf"] == package.replace("A book", "A BOOK").replace(">en<", ">de<")
    assert after["toc.ncx"] == contents.replace("Chapter", "CHAPTER")
    assert after["a.xhtml"] == "<html lang='de'><p>X</p></html>"


def test_a_word_file_names_the_language_of_the_translation() -> None:
    def lang(code: str) -> str:
        return f'<w:rPr><w:lang w:val="{code}" w:eastAsia="ja-JP"/></w:rPr>'

    runs = f"<w:r>{lang('en-US')}<w:t>one </w:t></w:r><w:r><w:t>two</w:t></w:r>"
    document = f'<w:document xmlns:w="urn:w"><w:p>{runs}</w:p></w:document>'
    styles = f'<w:styles xmlns:w="urn:w">{lang("en-US")}{lang("en-GB")}{lang("fr-FR")}</w:styles>'
    raw = packed(
        **{"word/document.xml": document, "word/styles.xml": styles, "docProps/core.xml": CORE}
    )
    after = loud("a.docx", raw)
    assert after["word/styles.xml"] == styles.replace("en-US", "de-DE").replace("en-GB", "de-DE")
    assert "ONE TWO" in after["word/document.xml"], "what was checked cuts no sentence"
    assert "en-US" not in after["word/document.xml"]
    assert after["docProps/core.xml"] == CORE_AFTER


def test_powerpoint_states_the_language_and_runs_of_two_checks_are_one_text() -> None:
    slide = (
        '<p:sld xmlns:p="urn:p" xmlns:a="urn:a">'
        '<p:cNvPr id="4" name="Picture" descr="A &quot;dog&quot;"/>'
        '<a:p><a:r><a:rPr lang="en-US" dirty="0"/><a:t>and some </a:t></a:r>'
        '<a:r><a:rPr lang="en-GB" dirty="0" err="1"/><a:t>text</a:t></a:r></a:p></p:sld>'
    )
    name = "ppt/slides/slide1.xml"
    after = loud("a.pptx", packed(**{name: slide, "[Content_Types].xml": "<T/>"}))
    assert 'descr="A &quot;DOG&quot;"' in after[name]
    assert '<a:r><a:rPr lang="de-DE"/><a:t>AND SOME TEXT</a:t></a:r>' in after[name]


def test_opendocument_states_language_and_country() -> None:
    style = '<style:text-properties fo:language="{}" fo:country="{}"/>'
    before = style.format("en", "US") * 2 + style.format("fr", "FR")
    content = (
        '<office:document-content xmlns:office="urn:o" xmlns:style="urn:s" xmlns:fo="urn:f" '
        'xmlns:text="urn:t" xmlns:draw="urn:d" xmlns:svg="urn:v">'
        f"{before}<text:p>one <draw:frame><svg:title>A dog</svg:title></draw:frame></text:p>"
        "</office:document-content>"
    )
    meta = CORE.replace("cp:coreProperties", "office:meta").replace("xmlns:cp", "xmlns:office")
    after = loud("a.odt", packed(**{"content.xml": content, "meta.xml": meta}))
    named = style.format("de", "DE") * 2 + style.format("fr", "FR")
    assert named in after["content.xml"]
    assert "<svg:title>A DOG</svg:title>" in after["content.xml"]
    assert "<dc:language>de<" in after["meta.xml"]


@pytest.mark.parametrize("stated", ["", " ", " en", " en_US"])
def test_the_header_of_a_po_file_names_the_language(stated: str) -> None:
    raw = f'msgid ""\nmsgstr ""\n"Language:{stated}\\n"\n"MIME: 1\\n"\n\nmsgid "one"\nmsgstr ""\n'
    assert '\n"Language: de\\n"\n"MIME: 1\\n"\n' in loud("a.po", raw.encode())[""]


def test_the_language_in_a_file_name_is_replaced() -> None:
    assert translated_name("a/film.en.srt", "de") == "a/film.de.srt"
    assert translated_name("film.pt-BR.srt", "de") == "film.de.srt"
    assert translated_name("film.en.srt", "en") == "film.en.en.srt"
    assert translated_name("jquery.min.md", "de") == "jquery.min.de.md"


def test_a_language_with_a_slash_is_refused_since_it_would_name_a_folder() -> None:
    with pytest.raises(DocumentError, match="not the code of a language"):
        translated_name("a.md", "../../x")


def test_table_columns_keep_their_names_in_a_workbook() -> None:
    strings = "<sst><si><t>Price</t></si><si><t>A dog</t></si></sst>"
    table = '<table><tableColumns><tableColumn id="1" name="Price"/></tableColumns></table>'
    after = loud(
        "a.xlsx", packed(**{"xl/sharedStrings.xml": strings, "xl/tables/table1.xml": table})
    )
    assert after["xl/sharedStrings.xml"] == (
        '<sst><si><t>Price</t></si><si><t xml:space="preserve">A DOG</t></si></sst>'
    )
