"""Markup, messages, mail and RTF: only prose is translated."""

import email
import email.policy
import json
import tomllib
import xml.etree.ElementTree as ElementTree

import docutils.core
import pytest

from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import format_of

RST = """.. _kept:

One *two*
=========

:kept: kept

Three ``kept`` :ref:`four <kept>` and `five
<http://kept.example>`_::

    kept

.. note:: six
   seven

.. code-block:: python

   kept = 1

* eight
* nine |kept|

ten
    eleven

===== ======
a     b
===== ======
one   two
===== ======

.. kept as a comment
"""
ADOC = """= One
Kept Kept <kept@example.org>
:kept: kept

Two *three* `kept` <<kept,four>> https://kept.example[five].

.Six
[source,kept]
----
kept
----

* seven
NOTE: eight

|===
|nine |ten
|===
// kept
"""
TEX = r"""\documentclass{article} % kept
\title{One}
\begin{document}
\section{Two}\label{kept}
Three \emph{four} $kept$ caf\'e 5\% \cite{kept}.\footnote{six} % kept
\begin{verbatim}
kept
\end{verbatim}
\begin{itemize}
\item seven \verb|kept|
\end{itemize}
\end{document}
"""
RESX = """<root><data name="a" xml:space="preserve"><value>One &amp; two</value></data>
<data name="b" type="System.Drawing.Size"><value>kept</value></data>
<data name="&gt;&gt;c.Name"><value>kept</value></data></root>
"""
LINGUIST = """<!DOCTYPE TS><TS version="2.1" language="kept"><context><name>kept</name>
<message><source>One</source><translation type="unfinished"></translation></message>
<message><source>done</source><translation>kept</translation></message>
<message numerus="yes"><source>%n two</source><translation type="unfinished">
<numerusform></numerusform><numerusform></numerusform></translation></message></context></TS>
"""
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg"><style>kept</style><title>One</title>
<text><tspan x="1" y="2">two <tspan class="kept">three</tspan></tspan
><tspan x="1" y="3">four</tspan></text>
</svg>
"""
STRINGS = '/* kept = "kept"; */\n"kept" = "One \\"two\\"";\nkept = "three";\n// "kept" = "kept";\n'
CATALOG = """{"sourceLanguage" : "en", "strings" : {
 "One" : {}, "kept" : {"shouldTranslate" : false},
 "two" : {"localizations" : {"en" : {"stringUnit" : {"state" : "translated", "value" : "three"}},
                             "de" : {"stringUnit" : {"state" : "translated", "value" : "kept"}}}},
 "four" : {"localizations" : {"en" : {"stringUnit" : {"state" : "translated", "value" : "five"}}}}
}, "version" : "1.0"}
"""
TOML = """[kept]
"kept" = "One" # kept
a = 'two\\'
b = [\"\"\"
three
four\"\"\", {kept = 'five'}]
n = 1
"""
ASS = """[Script Info]
Title: kept
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:02.00,kept,,0,0,0,,{\\fnkept kept}One, two\\Nthree four
Dialogue: 0,0:00:01.00,0:00:02.00,kept,,0,0,0,,{\\p1}m 0 0 l 1 1{\\p0}
Comment: 0,0:00:01.00,0:00:02.00,kept,,0,0,0,,kept
"""
RTF = (
    r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 kept;}}{\info{\title kept}}"
    "\n"
    r"\pard One {\b two} caf\'e9\u8364 ?.\par"
    "\n"
    r"{\field{\*\fldinst kept}{\fldrslt three}}\par}"
)
EML = (
    "From: kept@example.org\r\nSubject: One\r\nContent-Type: multipart/mixed; boundary=kept\r\n\r\n"
    "--kept\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\ntwo three\r\n"
    "--kept\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    "PHA+Zm91cjwvcD4=\r\n"
    "--kept\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\n"
    "kept\r\n--kept--\r\n"
)
ARB = '{"@@locale": "en", "kept": "One {kept}", "@kept": {"description": "kept"}}'
FILES = {
    "a.rst": RST, "a.adoc": ADOC, "a.tex": TEX, "a.resx": RESX, "a.ts": LINGUIST, "a.svg": SVG,
    "a.strings": STRINGS, "a.xcstrings": CATALOG, "a.toml": TOML, "a.ass": ASS, "a.rtf": RTF,
    "a.eml": EML,
}  # fmt: skip


def read(name: str, text: str | None = None, **options):
    raw = FILES[name].encode() if text is None else text.encode()
    return format_of(name).read(raw, ReadOptions(**{"to": "de", **options}))


def changed(document, change=str.upper) -> str:
    return document.write(
        [
            tuple(change(item) if isinstance(item, str) else item for item in segment)
            for segment in document.segments
        ]
    ).decode()


@pytest.mark.parametrize("name", FILES)
def test_an_unchanged_translation_writes_the_same_bytes(name: str) -> None:
    for text in (FILES[name], FILES[name].replace("\r\n", "\n").replace("\n", "\r\n")):
        document = read(name, text)
        assert document.segments
        assert document.write(document.segments) == text.encode()


@pytest.mark.parametrize("name", FILES)
def test_only_prose_is_translated(name: str) -> None:
    after = changed(read(name))
    assert "KEPT" not in after
    before = FILES[name]
    if name != "a.ts":  # which names its new language
        assert after.count("kept") == before.count("kept")
    if name not in ("a.eml", "a.xcstrings"):
        for word in ("one", "two", "three"):
            assert word.upper() in after or word not in before.lower()


def test_a_title_gets_a_longer_underline_and_a_table_wider_columns() -> None:
    after = changed(
        read("a.rst"), lambda text: text.replace("One", "Longer").replace("two", "wider cell")
    )
    assert "Longer *wider cell*\n===================\n" in after
    assert "===  ==========\na    b\n===  ==========\none  wider cell" in after
    docutils.core.publish_doctree(
        after.replace(":ref:", ":emphasis:").replace("|kept|", ""),
        settings_overrides={"halt_level": 2, "report_level": 2},
    )


def test_markup_that_touches_a_letter_stays_markup() -> None:
    document = read("a.rst", "one *two* three\n")
    (segment,) = document.segments
    opening, closing = segment[1], segment[3]
    assert document.write([("eins", opening, "zwei", closing, "drei")]) == b"eins\\ *zwei*\\ drei\n"
    document = read("a.adoc", "one *two* three\n")
    (segment,) = document.segments
    assert (
        document.write([("eins", segment[1], "zwei", segment[3], "drei")]) == b"eins**zwei**drei\n"
    )


def test_references_to_a_title_keep_working() -> None:
    after = changed(read("a.rst", "One\n===\n\nSee `One`_.\n"))
    assert after.startswith(".. _`One`:\n\nONE\n===")


def test_a_term_keeps_its_classifier_and_in_a_glossary_its_name() -> None:
    assert changed(read("a.rst", "one : kept\n  two\n")) == "ONE : kept\n  TWO\n"
    glossary = ".. glossary::\n\n   kept\n     {}\n"
    assert changed(read("a.rst", glossary.format("three"))) == glossary.format("THREE")
    prose = "one line\nand : another\n  deeper\n"  # two lines are no term
    assert changed(read("a.rst", prose)) == prose.upper()


def test_latex_writes_letters_as_the_file_does() -> None:
    after = changed(read("a.tex"), lambda text: text.replace("Three", "fünf & „ß“"))
    assert r"f\"{u}nf \& ,,{\ss}`` \emph{four} $kept$ caf\'{e} 5\% \cite{kept}." in after
    assert r"\footnote{SIX}" in changed(read("a.tex"))


def test_messages_in_xml_get_their_translation() -> None:
    root = ElementTree.fromstring(changed(read("a.ts")))
    assert root.get("language") == "de"
    forms = [form.text for form in root.iter("numerusform")]
    assert forms == ["%N TWO", "%N TWO"]
    assert "<value>ONE &amp; TWO</value>" in changed(read("a.resx"))
    assert (
        'y="2">TWO <tspan class="kept">THREE</tspan></tspan\n><tspan x="1" y="3">FOUR<'
        in changed(read("a.svg"))
    )
    with pytest.raises(DocumentError, match="TypeScript"):
        read("a.ts", "export const a = 1;")


def test_a_catalog_gets_the_target_language_for_review() -> None:
    strings = json.loads(changed(read("a.xcstrings")))["strings"]
    unit = {"state": "needs_review", "value": "FIVE"}
    assert strings["four"]["localizations"]["de"] == {"stringUnit": unit}
    assert strings["One"]["localizations"]["de"]["stringUnit"]["value"] == "ONE"
    assert strings["two"]["localizations"]["de"]["stringUnit"]["value"] == "kept"
    with pytest.raises(DocumentError, match="name the target"):
        read("a.xcstrings", to="")


def test_toml_and_arb_read_again() -> None:
    values = tomllib.loads(changed(read("a.toml"), lambda text: text.upper() + "'"))["kept"]
    assert values["kept"] == "ONE'"
    assert values["a"] == "TWO\\'"
    assert values["b"] == ["THREE\nFOUR'", {"kept": "FIVE'"}]
    after = json.loads(changed(read("a.arb", ARB)))
    assert (after["@@locale"], after["@kept"]["description"]) == ("de", "kept")


def test_subtitles_keep_their_lines_and_drawings() -> None:
    after = changed(read("a.ass"))
    (said,) = [line for line in after.splitlines() if "ONE" in line]
    assert r"{\fnkept kept}ONE," in said
    assert said.count(r"\N") == 1
    assert said.endswith("FOUR")
    assert r"{\p1}m 0 0 l 1 1{\p0}" in after


def test_a_cue_ends_where_the_next_one_begins() -> None:
    """Also without an empty line between the two, or without a text."""
    times = [f"00:00:0{number},000 --> 00:00:0{number},900\n" for number in range(4)]
    text = f"{times[0]}{times[1]}one\ntwo\n3\n{times[2]}three\n4\n\n5\n{times[3]}four"
    after = changed(read("a.srt", text))
    assert after == f"{times[0]}{times[1]}ONE\nTWO\n3\n{times[2]}THREE\n4\n\n5\n{times[3]}FOUR"


def test_rtf_letters_are_written_by_number() -> None:
    after = changed(read("a.rtf"))
    assert r"ONE {\b TWO} CAF\u201?\u8364?.\par" in after
    assert r"{\*\fldinst kept}{\fldrslt THREE}" in after


def test_formatting_at_the_beginning_of_a_group_moves_with_it() -> None:
    document = read("a.rtf", r"{\rtf1\ansi one {\b two}}")
    ((first, opening, second, closing),) = document.segments
    assert (first, second) == ("one ", "two")
    assert document.write([(opening, "zwei", closing, " eins")]) == rb"{\rtf1\ansi {\b zwei} eins}"


def test_a_mail_becomes_utf8_if_its_charset_lacks_a_letter() -> None:
    raw = changed(read("a.eml"), lambda text: text.upper() + " ü").encode()
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert message["subject"] == "ONE ü"
    plain, html, attached = message.iter_parts()
    assert plain.get_content() == "TWO THREE ü"
    assert html.get_content() == "<p>FOUR ü</p>"
    assert attached.get_content() == "kept"
    with pytest.raises(DocumentError, match="signed"):
        read("a.eml", "From: a\nContent-Type: multipart/signed; boundary=x\n\n--x--\n")


def test_the_first_line_of_a_mailbox_stays_first() -> None:
    raw = changed(read("a.eml", "From a@kept.example Fri Sep  6\nFrom: a\n\nOne.\n"), lambda _: "ü")
    message = email.message_from_bytes(raw.encode(), policy=email.policy.default)
    assert message.get_unixfrom() == "From a@kept.example Fri Sep  6"
    assert not message.defects
    assert message.get_content() == "ü\n"


def test_braces_in_a_string_of_fluent_are_kept() -> None:
    text = 'one = The field { "{kept} kept" } is { $kept }.\n'
    assert changed(read("a.ftl", text)) == 'one = THE FIELD { "{kept} kept" } IS { $kept }.\n'


def test_a_pdf_becomes_a_page_with_headings_and_paragraphs(tmp_path) -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    pytest.importorskip("pdfplumber")
    figure = matplotlib.Figure()
    figure.text(0.1, 0.9, "A heading", fontsize=24)
    for line in range(5):
        figure.text(0.1, 0.7 - line / 10, f"Line {line} of a text", fontsize=10)
    figure.savefig(tmp_path / "a.pdf")
    document = format_of("a.pdf").read((tmp_path / "a.pdf").read_bytes(), ReadOptions())
    assert "<h1>A HEADING</h1>" in changed(document)
    with pytest.raises(DocumentError, match="no PDF"):
        format_of("a.pdf").read(b"%PDF no", ReadOptions())


def test_rtf_writes_few_replacement_characters() -> None:
    document = format_of("a.rtf").read(b"{\\rtf1\\uc9999999999 Hund\\par}", ReadOptions())
    written = document.write([[item.upper() + "é"] for (item,) in document.segments])
    assert b"HUND\\u233" in written
    assert len(written) < 300


def test_an_old_word_file_needs_libreoffice(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DocumentError, match="needs LibreOffice"):
        format_of("a.doc").read(b"\xd0\xcf\x11\xe0", ReadOptions())
    with pytest.raises(DocumentError, match="Word 97"):
        format_of("a.doc").read(b"{\\rtf1}", ReadOptions())


def tex(body: str) -> str:
    """The body of a LaTeX document in capitals."""
    head, foot = "\\begin{document}\n", "\n\\end{document}\n"
    document = read("a.tex", head + body + foot)
    shouted = [
        tuple(item.upper() if isinstance(item, str) else item for item in segment)
        for segment in document.segments
    ]
    return document.write(shouted).decode()[len(head) : -len(foot)]


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("``early warnings'' of `new' -- a---b", "``EARLY WARNINGS'' OF `NEW' -- A---B"),
        ("It is 50\\,\\% (cf.\\ \\url{kept}).", "IT IS 50\\,\\% (CF. \\url{kept})."),
        ("$x \\text{ for all } y_{\\text{is kept}}$", "$x \\text{ FOR ALL } y_{\\text{is kept}}$"),
        ("A\n\\[x \\text{if } \\text{kept}\\] b", "A \\[x \\text{IF } \\text{kept}\\] B"),
        ("\\begin{align}x \\mbox{or so}\\end{align}", "\\begin{align}x \\mbox{OR SO}\\end{align}"),
        ("Use \\LaTeX\\ now or \\kept, one.", "USE \\LaTeX{} NOW OR \\kept, ONE."),
        ("\\item[One] two", "\\item[ONE] TWO"),
        ("\\section[One]{Two}", "\\section[ONE]{TWO}"),
        ("\\begin{theorem}[One] two\\end{theorem}", "\\begin{theorem}[ONE] TWO\\end{theorem}"),
        ("\\begin{frame}<kept>[kept]{One}", "\\begin{frame}<kept>[kept]{ONE}"),
        ("\\begin{tabular}[kept]{kept} one", "\\begin{tabular}[kept]{kept} ONE"),
    ],
)
def test_latex_has_text_in_formulas_and_brackets(body: str, after: str) -> None:
    assert tex(body) == after


def test_a_title_of_latex_may_have_a_short_form() -> None:
    document = read("a.tex", "\\title[One]{Two}\n\\begin{document}\n\\end{document}\n")
    assert document.write([("ONE",), ("TWO",)]).startswith(b"\\title[ONE]{TWO}")
