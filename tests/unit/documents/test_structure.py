"""Another program reads the same structure in a file of markup before and after its translation.

Each text has a fault that occurred in a real file.
"""

import re
import shutil
import subprocess

import docutils.core
import docutils.nodes
import pytest
from markdown_it import MarkdownIt

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import format_of, read
from dragoman.documents.protect import protect_texts
from dragoman.documents.segment import Segment


def loud(segment: Segment) -> Segment:
    return tuple(item.upper() if isinstance(item, str) else item for item in protect_texts(segment))


def longer(segment: Segment) -> Segment:
    """Return the texts with letters outside ASCII."""
    return tuple(
        re.sub(r"[A-Za-z]{3,}", r"\g<0>ßé", item) if isinstance(item, str) else item
        for item in protect_texts(segment)
    )


CHANGES = (loud, longer)


def changed(name: str, text: str, change) -> str:
    document = read(name, text.encode(), format_of(name), ReadOptions(to="de"))
    assert document.segments, "there is nothing in it to translate"
    return document.write([*map(change, document.segments)]).decode()


def doctree(text: str) -> list[str]:
    settings = {"report_level": 5, "halt_level": 6, "_disable_config": True}
    tree = docutils.core.publish_doctree(text, settings_overrides=settings)
    for complaint in [*tree.findall(docutils.nodes.system_message)]:
        complaint.parent.remove(complaint)
    return [type(node).__name__ for node in tree.findall(docutils.nodes.Element)
            if not isinstance(node, docutils.nodes.target)]  # fmt: skip


ADOC = {
    "symbols as terms": ":kept:: A word.\n:style:: Another\nin two lines.\n:role:: And more.\n",
}
RST = {
    "a title with the name of a target": "Some text about other_.\n\nOther\n=====\n\n"
    "A word.\n\n.. _other: http://example.org/\n",
    "a link whose words are referred to": "See `the tools`_ first.\n\n"
    "* `The tools <tools.html>`_ of others\n",
    "a link in a table whose words are referred to": "See `the long name`_ first.\n\n"
    "===  ===========================  =====\n"
    "#    Title                        State\n"
    "===  ===========================  =====\n"
    "001  `The long name <one.html>`_  Draft\n"
    "===  ===========================  =====\n",
    "a title with an overline that is referred to": "=====\nWords\n=====\n\nAbout words_ here.\n",
    "a title with markup that is referred to": "Some *words*\n============\n\nSee `some words`_.\n",
    "a name after other words": "Words\n=====\n\nIn `this part <words_>`__ here.\n",
    "options with a plus": "The fonts:\n\n+1  with math\n+1  and small letters\n\n-1  but ugly\n",
    "a literal block in a footnote": "A note [#]_.\n\n.. [#] Please use raw strings in\n"
    "   such texts::\n\n     kept = 1\n\nThen more.\n",
    "a literal block in a field": "Text.\n\n:field: Words in the first line\n"
    "  and in the second::\n\n    kept = 1\n",
    "lines in a field": "Text.\n\n:field: | One line;\n        | another line.\n",
    "a list in a note": "Text.\n\n.. note:: - One word\n          - and another.\n",
    "a name of several words": "Some words\n----------\n\nAs `here <Some words_>`__, so there.\n",
    "a reference in two lines of a note": ".. tip:: See after `some\n   words`_, and then\n"
    "   more of it.\n\nSome words\n==========\n\nText.\n",
    "a target without a name in two lines": "See `the words`__ there.\n\n"
    "__ http://example.org/page\n   #kept.kept\n\nText.\n",
    "a target without a name before another": "See `the words`__ there.\n\n__\n.. _other name:\n\n"
    "Text.\n",
    "deeper lines after a paragraph of two lines": "One line of it\nand another\n  deeper text\n",
    "a quote that touches a letter": "It was removed, :pr`1849`, and the`words` too `there`_.\n\n"
    ".. _there: http://example.org\n",
    "a name with angle brackets": "Like the `DocBook \\<note>`_ element.\n\n"
    ".. _DocBook <note>: http://example.org\n",
    "a title with an escape that is referred to": "Some\\* words\n============\n\n"
    "See `some\\* words`_.\n",
    "a role before a literal block": ":class:`dict` has text\nto store. ::\n\n  kept = 1\n",
    "a title of three letters": "AND\n===\n\nText.\n",
    "a directive in a field": "Text.\n\n:Start and end:\n  .. container:: kept\n\n     A word.\n",
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", RST)
def test_docutils_reads_the_same_elements(what: str, change) -> None:
    after = changed("a.rst", RST[what], change)
    assert doctree(after) == doctree(RST[what]), after
    assert after.count("kept") == RST[what].count("kept")


TEX = {
    "the end of input": "\\emph{One word}\n\\endinput\n\\emph{It is skipped}\n",
    "glue": "One word\n\\vskip0pt plus12pt\\penalty-200\\vskip 0pt plus-12pt\nTwo words.\n",
}


def test_a_backslash_at_the_end_of_a_line_ends_a_paragraph() -> None:
    raw = b"{\\rtf1\\ansi\n\\pard one word\\\ntwo words\\\n\\pard three}"
    segments = format_of("a.rtf").read(raw, ReadOptions()).segments
    assert segments == [("one word",), ("two words",), ("three",)]


@pytest.mark.skipif(not shutil.which("pandoc"), reason="pandoc is not installed")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", TEX)
def test_pandoc_reads_the_same_elements(what: str, change) -> None:
    def tags(text: str) -> list[str]:
        command = ["pandoc", "-f", "latex", "-t", "html", "--quiet"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return re.findall(r"<(p|em)\b", done.stdout)

    after = changed("a.tex", TEX[what], change)
    assert tags(after) == tags(TEX[what]), after
    assert after.count("plus") == TEX[what].count("plus")
    assert "\n\\endinput\n" in after or what != "the end of input"


@pytest.mark.skipif(not shutil.which("asciidoctor"), reason="asciidoctor is not installed")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", ADOC)
def test_asciidoctor_reads_the_same_elements(what: str, change) -> None:
    def tags(text: str) -> list[str]:
        command = ["asciidoctor", "-q", "-S", "secure", "-e", "-o", "-", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return re.findall(r"<(\w+)", done.stdout)

    after = changed("a.adoc", ADOC[what], change)
    assert tags(after) == tags(ADOC[what]), after
    assert after.count("kept") == ADOC[what].count("kept")


BEGINNINGS = ["5. Mai ist es so.", "- so ist es", "* so", "# so", "> so", "A. so", "NOTE: so"]


@pytest.mark.parametrize("said", BEGINNINGS)
def test_a_translation_that_begins_like_an_item_is_escaped(said: str) -> None:
    rst = format_of("a.rst").read(b"One word.\n", ReadOptions())
    assert doctree(rst.write([(said,)]).decode()) == ["document", "paragraph"]
    markdown = format_of("a.md").read(b"One word.\n", ReadOptions())
    tokens = MarkdownIt("commonmark").parse(markdown.write([(said,)]).decode())
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert tokens[1].children[0].content.startswith(said[0])
    heading = format_of("a.md").read(b"# 1. One\n", ReadOptions())
    assert heading.write([("1. Eins",)]) == b"# 1. Eins\n"
