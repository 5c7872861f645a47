"""Office files with each element of the format at each position of a run."""

import io
import re
import zipfile
from collections import Counter
from xml.etree import ElementTree

import pytest
from test_document_segments import drive, scrambler
from test_formats import members

from dragoman.documents.document import Document, ReadOptions
from dragoman.documents.formats import format_of
from dragoman.documents.inline import SentenceResult
from dragoman.documents.office import opendocument_spans
from dragoman.documents.rounds import SentenceRequest

KEPT = ("kept", "=x")
PLACES = ["start", "middle", "end", "alone"]
NAMESPACES = (
    " ".join(
        f'xmlns:{prefix}="urn:{prefix}"'
        for prefix in (
            "w",
            "a",
            "p",
            "r",
            "wp",
            "mc",
            "wps",
            "v",
            "m",
            "a14",
            "draw",
            "svg",
            "xlink",
        )
    )
    + ' xmlns:text="urn:text" xmlns:office="urn:office" xmlns:table="urn:table"'
)


def boxed(text: str) -> str:
    return f"<w:txbxContent><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:txbxContent>"


# Elements inside a run.
IN_WORD_RUNS = {
    "page break of the last printing": "<w:lastRenderedPageBreak/>",
    "soft hyphen": "<w:softHyphen/>",
    "two that say nothing": "<w:lastRenderedPageBreak/><w:softHyphen/>",
    "hyphen that does not break": "<w:noBreakHyphen/>",
    "line break": "<w:br/>",
    "page break": '<w:br w:type="page"/>',
    "return": "<w:cr/>",
    "tab": "<w:tab/>",
    "tab at a place": '<w:ptab w:relativeTo="margin" w:alignment="right" w:leader="none"/>',
    "symbol": '<w:sym w:font="Wingdings" w:char="F0E0"/>',
    "footnote": '<w:footnoteReference w:id="2"/>',
    "endnote": '<w:endnoteReference w:id="2"/>',
    "comment": '<w:commentReference w:id="0"/>',
    "own number of a note": "<w:footnoteRef/>",
    "separator": "<w:separator/>",
    "page number": "<w:pgNum/>",
    "date": "<w:dayLong/>",
    "field's beginning": '<w:fldChar w:fldCharType="begin"/>',
    "field's code": '<w:instrText xml:space="preserve"> PAGE </w:instrText>',
    "picture": '<w:drawing><wp:inline><wp:docPr id="1" name="x"/></wp:inline></w:drawing>',
    "text box": f"<w:pict><v:shape>{boxed('inner one')}</v:shape></w:pict>",
    "text box twice": (
        '<mc:AlternateContent><mc:Choice Requires="wps">'
        f"<w:drawing>{boxed('inner one')}</w:drawing>"
        f"</mc:Choice><mc:Fallback><w:pict>{boxed('inner one')}</w:pict></mc:Fallback>"
        "</mc:AlternateContent>"
    ),
    "ruby": (
        "<w:ruby><w:rubyPr/><w:rt><w:r><w:t>kept</w:t></w:r></w:rt>"
        "<w:rubyBase><w:r><w:t>kept</w:t></w:r></w:rubyBase></w:ruby>"
    ),
    "deleted text": "<w:delText>kept</w:delText>",
    "text without characters": "<w:t/>",
    "object": '<w:object w:dxaOrig="1"><v:shape id="s"/></w:object>',
}
RUN = "<w:r><w:t>{}</w:t></w:r>"
# Elements between runs.
BETWEEN_WORD_RUNS = {
    "spelling mark": '<w:proofErr w:type="spellStart"/>',
    "bookmark": '<w:bookmarkStart w:id="0" w:name="x"/><w:bookmarkEnd w:id="0"/>',
    "comment's range": '<w:commentRangeStart w:id="0"/>',
    "insertion": f'<w:ins w:id="1">{RUN.format("new text")}</w:ins>',
    "deletion": '<w:del w:id="1"><w:r><w:delText>kept</w:delText></w:r></w:del>',
    "moved here": f'<w:moveTo w:id="1">{RUN.format("new text")}</w:moveTo>',
    "moved away": f'<w:moveFrom w:id="1">{RUN.format("kept")}</w:moveFrom>',
    "link": f'<w:hyperlink r:id="rId1">{RUN.format("linked text")}</w:hyperlink>',
    "link that begins with a break": (
        '<w:hyperlink r:id="rId1"><w:r><w:lastRenderedPageBreak/><w:t>linked text</w:t>'
        "<w:softHyphen/></w:r></w:hyperlink>"
    ),
    "link around nothing": '<w:hyperlink r:id="rId1"/>',
    "link around a break": '<w:hyperlink r:id="rId1"><w:r><w:softHyphen/></w:r></w:hyperlink>',
    "smart tag": f"<w:smartTag><w:smartTagPr/>{RUN.format('a place')}</w:smartTag>",
    "content control": (
        '<w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtEndPr/>'
        f"<w:sdtContent>{RUN.format('chosen text')}</w:sdtContent></w:sdt>"
    ),
    "simple field": f'<w:fldSimple w:instr="TITLE">{RUN.format("field text")}</w:fldSimple>',
    "custom element": f"<w:customXml><w:customXmlPr/>{RUN.format('own text')}</w:customXml>",
    "direction": f'<w:dir w:val="rtl">{RUN.format("turned text")}</w:dir>',
    "formula": "<m:oMath><m:r><m:t>=x</m:t></m:r></m:oMath>",
    "whole field": (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        "<w:r><w:instrText>HYPERLINK</w:instrText></w:r>"
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{RUN.format("field text")}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    ),
    "empty run": "<w:r/>",
    "run of formatting": "<w:r><w:rPr><w:i/></w:rPr></w:r>",
    "run of a break": "<w:r><w:rPr><w:i/></w:rPr><w:lastRenderedPageBreak/></w:r>",
    "italic run": (
        "<w:r><w:rPr><w:i/></w:rPr><w:lastRenderedPageBreak/><w:t>slanted text</w:t></w:r>"
    ),
}
# Runs are cut and joined as the translation needs it; these say nothing.
FREE = {
    "r",
    "t",
    "rPr",
    "b",
    "i",
    "lastRenderedPageBreak",
    "softHyphen",
    "proofErr",
    "noBreakHyphen",
}


def in_a_run(element: str, place: str, formatting: str) -> str:
    one, two = "<w:t xml:space='preserve'>first words </w:t>", "<w:t>last words</w:t>"
    inside = {
        "start": element + one + two,
        "middle": one + element + two,
        "end": one + two + element,
        "alone": element,
    }[place]
    return f"<w:r>{formatting}{inside}</w:r>"


def between_runs(element: str, place: str, formatting: str) -> str:
    run = f"<w:r>{formatting}<w:t xml:space='preserve'>first words </w:t></w:r>"
    return {
        "start": element + run,
        "middle": run + element + RUN.format("last words"),
        "end": run + element,
        "alone": element,
    }[place]


WORD = {
    name: [
        build(element, place, formatting)
        for place in PLACES
        for formatting in ("", "<w:rPr><w:b/></w:rPr>")
    ]
    for elements, build in ((IN_WORD_RUNS, in_a_run), (BETWEEN_WORD_RUNS, between_runs))
    for name, element in elements.items()
}


def word_file(paragraph: str) -> bytes:
    body = (
        f"<w:p><w:pPr><w:jc w:val='left'/></w:pPr>{paragraph}</w:p>"
        f"<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc><w:p>{paragraph}</w:p></w:tc></w:tr></w:tbl>"
        f"<w:p>{RUN.format('more')}{paragraph}</w:p></w:tc></w:tr></w:tbl>"
    )
    return packed(
        "word/document.xml", f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
    )


def packed(member: str, text: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(member, text)
    return out.getvalue()


def root_of(raw: bytes, member: str) -> ElementTree.Element:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return ElementTree.fromstring(archive.read(member))


def local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def skeleton(root: ElementTree.Element, free: set[str]) -> Counter[tuple[str, str, str]]:
    """Every element with its parent, its attributes and, unless it is text, what it says."""
    found: Counter[tuple[str, str, str]] = Counter()
    for parent in root.iter():
        for child in parent:
            if local(child) not in free:
                found[local(parent), local(child), str(sorted(child.attrib.items()))] += 1
    return found


def shown(root: ElementTree.Element, text: str) -> str:
    return "".join(e.text or "" for e in root.iter() if local(e) == text)


def loud(document: Document) -> bytes:
    """The document through a translator that says everything loudly."""

    def say(sentence: SentenceRequest) -> SentenceResult:
        words = sentence.text.split()
        return SentenceResult(sentence.text.upper(), tuple((i, i) for i in range(len(words))))

    return document.write(drive(document.segments, say))


def is_loud(before: str, after: str) -> bool:
    """Whether all letters came back as capitals, but for what is kept."""
    for kept in KEPT:
        if before.count(kept) != after.count(kept):
            return False
        before, after = before.replace(kept, ""), after.replace(kept, "")
    letters = Counter(filter(str.isalpha, before.upper()))
    return letters == Counter(filter(str.isalpha, after))


def turned(sentence: SentenceRequest) -> SentenceResult:
    """The words from last to first."""
    words = sentence.text.split()
    links = tuple((i, len(words) - 1 - i) for i in range(len(words)))
    return SentenceResult(" ".join(reversed(words)), links)


@pytest.mark.parametrize("name", WORD)
def test_a_word_file_is_whole_for_any_position_of_an_element(name: str) -> None:
    for paragraph in WORD[name]:
        raw = word_file(paragraph)
        document = format_of("a.docx").read(raw, ReadOptions())
        before = root_of(raw, "word/document.xml")
        after = root_of(loud(document), "word/document.xml")
        assert skeleton(after, FREE) == skeleton(before, FREE), paragraph
        assert is_loud(shown(before, "t"), shown(after, "t")), paragraph


@pytest.mark.parametrize("name", WORD)
def test_no_translator_can_break_a_word_file(name: str) -> None:
    for seed, paragraph in enumerate(WORD[name] * 2):
        raw = word_file(paragraph)
        document = format_of("a.docx").read(raw, ReadOptions())
        after = document.write(drive(document.segments, scrambler(seed)))
        found = skeleton(root_of(after, "word/document.xml"), FREE)
        assert found == skeleton(root_of(raw, "word/document.xml"), FREE), paragraph


def test_a_run_that_begins_with_an_element_is_closed() -> None:
    """The file that Word writes whenever a text is longer than a page."""
    for first in ("<w:lastRenderedPageBreak/>", "<w:softHyphen/>"):
        raw = word_file(f"<w:r>{first}<w:t>some text</w:t></w:r>")
        after = loud(format_of("a.docx").read(raw, ReadOptions()))
        assert shown(root_of(after, "word/document.xml"), "t").count("SOME TEXT") == 3


def test_a_tag_in_the_text_does_not_cut_a_link_in_two() -> None:
    """Escaped, `<b>` is text; it may begin outside of a link and end inside."""
    link = '<w:hyperlink r:id="rId1"><w:r><w:t>linked &lt;/b&gt; text</w:t></w:r></w:hyperlink>'
    raw = word_file(f"<w:r><w:t>A &lt;b&gt; tag </w:t></w:r>{link}<w:r><w:t> and more</w:t></w:r>")
    document = format_of("a.docx").read(raw, ReadOptions())
    before = skeleton(root_of(raw, "word/document.xml"), FREE)
    after = document.write(drive(document.segments, turned))
    assert skeleton(root_of(after, "word/document.xml"), FREE) == before


def test_properties_stay_at_the_beginning_of_their_element() -> None:
    for name in ("content control", "smart tag", "custom element"):
        raw = word_file(BETWEEN_WORD_RUNS[name] + RUN.format(" first words"))
        document = format_of("a.docx").read(raw, ReadOptions())
        for seed in range(20):
            after = document.write(drive(document.segments, scrambler(seed)))
            for element in root_of(after, "word/document.xml").iter():
                if local(element) in ("sdt", "smartTag", "customXml"):
                    assert local(element[0]) in ("sdtPr", "smartTagPr", "customXmlPr")


def test_the_result_of_a_field_stays_in_the_field() -> None:
    field = BETWEEN_WORD_RUNS["whole field"]
    raw = word_file(RUN.format("first words ") + field + RUN.format(" last words"))
    document = format_of("a.docx").read(raw, ReadOptions())

    after = root_of(document.write(drive(document.segments, turned)), "word/document.xml")
    paragraph = next(element for element in after.iter() if local(element) == "p")
    inside, seen = "", False
    for run in paragraph:
        kinds = [value for child in run for value in child.attrib.values()]
        seen = "end" not in kinds and (seen or "separate" in kinds)
        inside += "".join(child.text or "" for child in run if seen and local(child) == "t")
    assert inside == "text field"


POWERPOINT = {
    "line break": "<a:br><a:rPr/></a:br>",
    "field": '<a:fld id="{1}" type="slidenum"><a:rPr/><a:t>=x</a:t></a:fld>',
    "empty run": "<a:r><a:rPr/><a:t/></a:r>",
    "formula": "<mc:AlternateContent><a14:m><m:t>=x</m:t></a14:m></mc:AlternateContent>",
    "italic run": '<a:r><a:rPr i="1"/><a:t>slanted text</a:t></a:r>',
}
OPENDOCUMENT = {
    "line break": "<text:line-break/>",
    "tab": "<text:tab/>",
    "blanks": '<text:s text:c="2"/>',
    "page break of the last printing": "<text:soft-page-break/>",
    "note": (
        '<text:note text:id="n"><text:note-citation>1</text:note-citation><text:note-body>'
        "<text:p>inner one</text:p></text:note-body></text:note>"
    ),
    "bookmark": '<text:bookmark text:name="b"/>',
    "change": '<text:change-start text:change-id="c"/>',
    "page number": "<text:page-number>=x</text:page-number>",
    "text box": "<draw:frame><draw:text-box><text:p>inner</text:p></draw:text-box></draw:frame>",
    "link": '<text:a xlink:href="u">linked <text:span>text</text:span></text:a>',
    "ruby": (
        "<text:ruby><text:ruby-base>base text</text:ruby-base>"
        "<text:ruby-text>=x</text:ruby-text></text:ruby>"
    ),
    "comment": "<office:annotation><text:p>inner one</text:p></office:annotation>",
}


def around(element: str, first: str, last: str) -> list[str]:
    return [element + first + last, first + element + last, first + last + element, element]


def powerpoint_file(paragraph: str) -> bytes:
    body = f"<a:p><a:pPr/>{paragraph}<a:endParaRPr/></a:p>" * 2
    return packed("ppt/slides/slide1.xml", f"<p:sld {NAMESPACES}>{body}</p:sld>")


def opendocument_file(paragraph: str) -> bytes:
    body = f"<text:p>{paragraph}</text:p><text:h><text:span>{paragraph}</text:span></text:h>"
    return packed("content.xml", f"<office:text {NAMESPACES}>{body}</office:text>")


def prefixed(sheet: str) -> str:
    """Return a sheet with the prefixes that Microsoft's Open XML SDK writes."""
    return re.sub(r"<(/?)(\w)", r"<\1x:\2", sheet).replace("<x:sst>", '<x:sst xmlns:x="urn:x">')


RUNS = "<a:r><a:t>first words </a:t></a:r>", "<a:r><a:rPr b='1'/><a:t>last words</a:t></a:r>"
OTHERS = [
    *(
        ("a.pptx", "ppt/slides/slide1.xml", powerpoint_file(paragraph), FREE)
        for element in POWERPOINT.values()
        for paragraph in around(element, *RUNS)
    ),
    *(
        ("a.odt", "content.xml", opendocument_file(paragraph), set())
        for element in OPENDOCUMENT.values()
        for paragraph in around(element, "first words ", "<text:span>last words</text:span>")
    ),
    *(
        ("a.xlsx", "xl/sharedStrings.xml", packed("xl/sharedStrings.xml", sst), FREE)
        for si in (
            "<si><t/></si><si><t>first words</t><rPh><t>kept</t></rPh><phoneticPr/></si>",
            "<si><r><t>first </t></r><r><rPr><b/></rPr><t>words</t></r><phoneticPr/></si>",
            "<si><r><rPr><b/></rPr><t>first</t></r><r><t> words</t></r><rPh><t>kept</t></rPh></si>",
        )
        for sst in (f"<sst>{si}</sst>", prefixed(f"<sst>{si}</sst>"))
    ),
]


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_slides_sheets_and_opendocument_are_whole_too(number: int) -> None:
    name, member, raw, free = OTHERS[number]
    document = format_of(name).read(raw, ReadOptions())
    before = root_of(raw, member)
    after = root_of(loud(document), member)
    assert skeleton(after, free) == skeleton(before, free)
    assert is_loud("".join(before.itertext()), "".join(after.itertext()))
    for seed in range(5):
        scrambled = document.write(drive(document.segments, scrambler(seed)))
        assert skeleton(root_of(scrambled, member), free) == skeleton(before, free)


CHART = """<c:chartSpace xmlns:c="urn:c" xmlns:a="urn:a"><c:chart><c:title><c:tx><c:rich><a:p>
<a:r><a:rPr lang="en-US" b="1"/><a:t>A bold</a:t></a:r><a:r><a:rPr lang="en-US"/><a:t> title</a:t>
</a:r></a:p></c:rich></c:tx></c:title><c:ser><c:tx><c:strRef><c:f>Sheet1!$B$1</c:f><c:strCache>
<c:ptCount val="1"/><c:pt idx="0"><c:v>one series</c:v></c:pt></c:strCache></c:strRef></c:tx>
<c:cat><c:multiLvlStrRef><c:multiLvlStrCache><c:lvl><c:pt idx="0"><c:v>a category</c:v></c:pt>
</c:lvl></c:multiLvlStrCache></c:multiLvlStrRef></c:cat><c:val><c:numCache>
<c:formatCode>General</c:formatCode>
<c:pt idx="0"><c:v>not a number</c:v></c:pt></c:numCache></c:val>
</c:ser></c:chart></c:chartSpace>"""
DRAWN = [
    ("a.docx", "word/charts/chart1.xml"),
    ("a.pptx", "ppt/charts/chart12.xml"),
    ("a.xlsx", "xl/charts/chart1.xml"),
]


@pytest.mark.parametrize(("name", "member"), DRAWN)
def test_the_texts_of_a_chart_are_translated(name: str, member: str) -> None:
    """Its title and its copies of texts, not its formulas, formats and numbers."""
    raw = packed(member, CHART)
    document = format_of(name).read(raw, ReadOptions(to="de"))
    assert document.write(document.segments) == raw
    before, after = root_of(raw, member), root_of(loud(document), member)
    assert skeleton(after, {"r", "t", "rPr"}) == skeleton(before, {"r", "t", "rPr"})
    assert "".join(shown(after, "t").split()) == "ABOLDTITLE"
    values = [element.text for element in after.iter() if local(element) in ("f", "v")]
    assert values == ["Sheet1!$B$1", "ONE SERIES", "A CATEGORY", "not a number"]
    assert {e.get("lang") for e in after.iter() if local(e) == "rPr"} == {"de-DE"}


def test_text_boxes_and_picture_descriptions_on_a_sheet_are_translated() -> None:
    drawing = (
        '<xdr:wsDr xmlns:xdr="urn:xdr" xmlns:a="urn:a"><xdr:cNvPr id="2" name="Box" descr="a box"/>'
        "<xdr:txBody><a:p><a:r><a:t>some text</a:t></a:r></a:p></xdr:txBody></xdr:wsDr>"
    )
    for name, folder in (("a.xlsx", "xl"), ("a.docx", "word"), ("a.pptx", "ppt")):
        member = f"{folder}/drawings/drawing1.xml"
        raw = packed(member, drawing)
        after = root_of(loud(format_of(name).read(raw, ReadOptions())), member)
        assert shown(after, "t") == "SOME TEXT"
        assert after[0].attrib == {"id": "2", "name": "Box", "descr": "A BOX"}


def test_table_columns_keep_their_names_in_a_chart() -> None:
    """Excel takes a column by its name, so a chart shows the name that the table has."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/tables/table1.xml", '<table><tableColumn name="one series"/></table>')
        archive.writestr("xl/charts/chart1.xml", CHART)
    after = loud(format_of("a.xlsx").read(out.getvalue(), ReadOptions()))
    values = [e.text for e in root_of(after, "xl/charts/chart1.xml").iter() if local(e) == "v"]
    assert values == ["one series", "A CATEGORY", "not a number"]


def test_a_field_of_opendocument_is_a_word_of_its_sentence() -> None:
    text = (
        '<a xmlns:text="t"><text:p><text:span>dead </text:span><text:span>'
        '<text:user-field-get text:name="x">item.val</text:user-field-get></text:span></text:p></a>'
    )
    (span,) = opendocument_spans(text)

    def say(sentence: SentenceRequest) -> SentenceResult:
        words = [w.upper() if w == "dead" else w for w in sentence.text.split()]
        return SentenceResult(" ".join(words), tuple((n, n) for n in range(len(words))))

    (after,) = drive([span.segment], say)
    shown = re.sub("<[^<>]*>", "", span.write(after))
    assert shown == "DEAD item.val"


LIST = (
    "<w:sdt><w:sdtPr><w:dropDownList>"
    '<w:listItem w:displayText="Open" w:value="o"/><w:listItem w:displayText="Closed" w:value="c"/>'
    '<w:listItem w:value="Unknown"/></w:dropDownList></w:sdtPr>'
    "<w:sdtContent>{}</w:sdtContent></w:sdt>"
)


@pytest.mark.parametrize(
    "around", ["{}", "<w:p>{}</w:p>", "<w:p><w:r><w:t>The state is</w:t></w:r>{}</w:p>"]
)
@pytest.mark.parametrize("chosen", ["Open", "Unknown"])
def test_the_chosen_value_of_a_dropdown_stays_one_of_its_items(around: str, chosen: str) -> None:
    run = f"<w:r><w:t>{chosen}</w:t></w:r>"
    body = around.format(LIST.format(f"<w:p>{run}</w:p>" if around == "{}" else run))
    text = f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
    written = loud(format_of("a.docx").read(packed("word/document.xml", text), ReadOptions()))
    after = members(written)["word/document.xml"].decode()
    assert re.findall('displayText="(.*?)"', after) == ["OPEN", "CLOSED"]
    assert re.findall('w:value="(.*?)"', after) == ["o", "c", "Unknown"]
    expected = {"Open": "OPEN", "Unknown": "Unknown"}[chosen]
    assert re.findall("<w:t[^>]*>(.*?)</w:t>", after)[-1] == expected
    assert ("THE STATE IS" in after) == ("state" in around)
