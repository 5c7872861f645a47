"""Markdown of every dialect keeps its blocks; only their texts change."""

import re

import pytest

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import BY_ENDING, read
from dragoman.documents.segment import plain_text

FILES = {
    "GitHub": """> [!NOTE]
> An alert
> on two lines.

- > [!tip]- Obsidian has titles
  > Text.
""",
    "MkDocs": """Before
!!! note inline end "note"
    The oven is hot.

        kept = 1

    ??? tip
        Hidden.

=== "Linux"

    Install it.

=== "Mac"
    Brew it.
""",
    "MyST": """:::{warning} Hot
:class: kept
The oven.
:::

```{note}
See {ref}`kept`.
```

:::{toctree}
kept
:::

````{tip}
```{code-block} kept
kept
```
Out.
````
""",
    "Docusaurus": """import {
  kept,
} from 'kept';

:::tip Take care
Do it.
:::
:::note[Read *this*]

- An item
  :::info
  Inside.
  :::

:::

# Head {#kept}

{/* kept */}

<Tabs
  items={[{ label: "kept", on: (kept) => <b>kept</b> }]}
>
  <TabItem value="kept" title="A tab">
    In a [tab](kept).

        More of it.
  </TabItem>
</Tabs>
""",
    "Pandoc": """::: {.kept #kept}
A box.
:::

Term
:   A definition
    goes on.
: Another one
""",
    "notes": """Text[^1] and [link][1].

[^1]: The note.
[1]: http://kept.example "kept"
[^b]: Other

    with a paragraph.

*[kept]: An abbreviation
""",
    "marks": """- [ ] A task
- [x] Done

{% kept %}
Text
{: .kept }

| a \\| b |
|---|
| c |
""",
}
FOUND = {
    "GitHub": "An alert on two lines. / Obsidian has titles / Text.",
    "MkDocs": "Before / note / The oven is hot. / Hidden. / Linux / Install it. / Mac / Brew it.",
    "MyST": "Hot / The oven. / See . / Out.",
    "Docusaurus": "Take care / Do it. / Read this / An item / Inside. / Head"
    " / A tab / In a tab. / More of it.",
    "Pandoc": "A box. / Term / A definition goes on. / Another one",
    "notes": "Text and link. / The note. / Other / with a paragraph. / An abbreviation",
    "marks": "A task / Done / Text / a  b / c",
}


def translated(text: str, ending: str = ".md") -> str:
    """Translate a file by writing each text in capitals, twice."""
    document = read("a", text.encode(), BY_ENDING[ending], ReadOptions())
    said = [
        tuple(f"{i} {i}".upper() if isinstance(i, str) and i.strip() else i for i in segment)
        for segment in document.segments
    ]
    return document.write(said).decode()


@pytest.mark.parametrize("dialect", FILES)
def test_each_text_of_a_dialect_is_found_alone(dialect: str) -> None:
    document = read("a", FILES[dialect].encode(), BY_ENDING[".md"], ReadOptions())
    found = (plain_text(segment).strip() for segment in document.segments)
    assert " / ".join(found) == FOUND[dialect]
    assert document.write(document.segments) == FILES[dialect].encode()


@pytest.mark.parametrize("dialect", FILES)
def test_the_marks_of_a_dialect_are_kept(dialect: str) -> None:
    before, after = FILES[dialect], translated(FILES[dialect])
    assert after.count("kept") == before.count("kept")
    for mark in re.findall(
        r"^\W*(?:[:!?=`>]{3}|\[\^?\w\]:|:::+\W*\w+|> \[!\w+\]|:  )", before, re.M
    ):
        assert after.count(mark) == before.count(mark), mark


@pytest.mark.parametrize("dialect", ["MkDocs", "Pandoc", "notes", "marks"])
def test_python_markdown_renders_the_same_blocks(dialect: str) -> None:
    markdown = pytest.importorskip("markdown")
    pytest.importorskip("pymdownx")
    known = ["admonition", "def_list", "footnotes", "abbr", "attr_list", "tables", "sane_lists"]
    known += ["pymdownx.details", "pymdownx.tabbed"]

    def tags(text: str) -> list[str]:
        page = markdown.markdown(text, extensions=known)
        return re.findall(r"</?(?!p\b|abbr)\w+", page)

    assert tags(translated(FILES[dialect])) == tags(FILES[dialect])


def test_code_that_is_indented_below_a_paragraph_is_kept() -> None:
    text = (
        "Example:\n    ```py\n    kept = 1\n\n      kept\n    ```\nText\n\n    ```\n    kept\nEnd\n"
    )
    document = read("a", text.encode(), BY_ENDING[".md"], ReadOptions())
    assert [*map(plain_text, document.segments)] == ["Example:", "Text", "End"]


def test_code_and_breaks_over_two_lines_stay_in_their_block() -> None:
    text = "> - a `b\n>   c` d\\\n>   e\n\n!!! note\n    one  \n    two\n\nNo heading\n"
    document = read("a", text.replace("\n", "\r\n").encode(), BY_ENDING[".md"], ReadOptions())
    after = document.write([("A ", *s[1:]) if len(s) > 1 else ("# B",) for s in document.segments])
    assert after.decode() == (
        "> - A `b\r\n>   c` d\\\r\n>   e\r\n\r\n!!! note\r\n    A   \r\n    two\r\n\r\n\\# B\r\n"
    )


def test_a_title_in_quotation_marks_gets_no_second_pair() -> None:
    document = read("a", b'!!! note "Read"\n    Text.\n', BY_ENDING[".md"], ReadOptions())
    after = document.write([('Lies "das"',), ("Text.",)])
    assert after == b"!!! note \"Lies 'das'\"\n    Text.\n"


def test_marks_in_code_or_without_indented_text_are_text() -> None:
    text = "```\n!!! note\n    kept\n[1]: kept\n```\n\n!!! Danger ahead\n\n=== open\n"
    document = read("a", text.encode(), BY_ENDING[".md"], ReadOptions())
    assert [*map(plain_text, document.segments)] == ["!!! Danger ahead", "=== open"]


def test_links_to_a_heading_find_it_under_its_old_name() -> None:
    text = "[One](#first-part) [two][2]\n\n# First *part*\n\n# Unlinked\n\n# Ada\n\n[2]: #ada\n"
    document = read("a", text.encode(), BY_ENDING[".md"], ReadOptions())
    after = translated(text)
    assert '# <a id="first-part"></a>FIRST' in after
    assert after.count("<a id=") == 2
    assert document.write(document.segments) == text.encode()
    assert "<a id=" not in translated(text.replace("#first-part", "#other").replace("#ada", "#x"))
