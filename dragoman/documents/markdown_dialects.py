r"""The blocks that dialects of Markdown add, in terms of CommonMark.

The parser only has to say where texts begin and end. So each line with a mark of a dialect gets a
stand-in: an admonition, a tab, a definition or a footnote becomes a list item, since its text is
indented like one; a title becomes a heading; what has no text becomes an empty line. Stand-ins are
never written.

    >>> [line.content for line in common_text('!!! note "Read *this*"\n    Now.').lines]
    ['-   # Read *this*', '    Now.']

Known are GitHub's alerts and Obsidian's callouts; admonitions, details and tabs of MkDocs;
containers of colons (Docusaurus, VitePress, Pandoc); MyST's directives;
definition lists, footnotes, abbreviations, attributes, shortcodes; MDX's imports and components.
"""

import re
from typing import NamedTuple

from dragoman.documents.segment import word_set

_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
# Quotation marks, list markers and the indent before a mark.
_BEFORE = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*+")
# An admonition, details or a tab. The text is indented; without, it is none.
_INDENTED = re.compile(
    r"(?:(?:!!!|\?\?\?\+?)[ \t]?(?:[\w-]++[ \t]*+)+|={3}[+!]{0,2}[ \t]*+(?=\"))"
    r"(?:\"(?P<title>[^\"]*+)\")?[ \t]*+"
)
_ALERT = re.compile(r"\[![\w-]++\][-+]?(?![(\[])[ \t]*+")
# A definition, a footnote or an abbreviation.
_ITEM = re.compile(r":[ \t]+(?=\S)|(?:\[\^[^\[\]\s]++\]|\*\[[^\[\]]++\]):[ \t]*+")
# A link's address, attributes, a shortcode, a snippet, a comment, the place of the contents.
_KEPT = re.compile(
    r"(?:\[(?!\^)(?:[^\[\]\\]|\\.)++\]:[ \t]*+(?:<[^<>]*+>|[^\s<]\S*+)"
    r"(?:[ \t]++(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?+"
    r"|\{[:#.][^{}]*+\}|\{\{[<%].*[>%]\}\}|\{%.*%\}|\{/\*.*\*/\}|\[\[?_?TOC_?\]?\]|-+8<-+.*)[ \t]*+"
)
# A line that begins an import or export, which ends where its brackets are closed.
_SCRIPT = re.compile(
    r"import\s++(?:[\"']|.*\bfrom\s++[\"']|(?:type\s++)?\{[^}]*+\Z)"
    r"|export\s+(?:default|const|let|var|async|function|class|type|interface)\s|export\s+[{*]"
)
_FENCE = re.compile(r"(?P<marks>:{3,}+|~{3,}+|`{3,}+(?!.*`))(?P<info>.*)")
# A directive in braces, or a container's name; then its title, perhaps in brackets.
_NAME = re.compile(
    r"[ \t]*+(?:\{(?P<directive>[\w:.-]++)\}|[\w-]++)[ \t]*+\[?(?P<title>[^={}\]]*+)[:\] \t]*+"
)
# Directives with text; the rest of their first line is text, too.
_PROSE = word_set(
    "admonition attention caution card danger dropdown epigraph error grid-item-card hint "
    "important margin note seealso sidebar tab-item tip todo topic warning"
)
_LITERAL = word_set(
    "code code-block code-cell csv-table doctest eval-rst graphviz image include literalinclude "
    "math mermaid parsed-literal plantuml plot raw sourcecode testcode toctree"
)
_OPTION = re.compile(r"[ \t]*+:[\w-]++:(?:[ \t].*)?")
# A tag of a component; braces hold JavaScript.
_COMPONENT = re.compile(
    r"</?(?:[A-Z][\w.]*+(?:\"[^\"]*+\"|'[^']*+'|[^<>\"'{}]"
    r"|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\})*+)?>(?=[ \t]*+(?:\r?\n|\Z))"
)


class CommonLine(NamedTuple):
    """A line for the parser, and where its text begins in the file at the earliest."""

    content: str
    start: int


class CommonText(NamedTuple):
    """The lines of a text, and the ranges of the components' tags among them."""

    lines: list[CommonLine]
    tags: list[tuple[int, int]]


class _Fence(NamedTuple):
    """Marks that enclose text, or code if they are literal."""

    marks: str
    is_literal: bool
    indent: int

    def stand_in(self, line: str) -> str:
        # For the parser, marks that are indented this far continue a paragraph.
        is_seen = self.marks[0] != ":" and self.indent < 4
        return line if self.is_literal and is_seen else ""


def common_text(text: str, at: int = 0) -> CommonText:
    """Return each line of a text from an offset on, or its stand-in."""
    reader = _Lines()
    found = [(match.start(), match[0].rstrip("\r\n")) for match in _LINE.finditer(text, at)]
    after = [line for _, line in found[1:]] + ["", ""]
    lines = []
    tags = []
    for number, (start, line) in enumerate(found):
        begin = start + len(line) - len(line.lstrip())
        if start >= at and not reader.is_in_code and (tag := _COMPONENT.match(text, begin)):
            at = tag.end()
            tags.append((begin, at))
        if start < at:
            lines.append(CommonLine("", start))
            continue
        # An empty line may separate a title from its text.
        following = after[number] if after[number].strip() else after[number + 1]
        content, skipped = reader.stand_in(line, following)
        lines.append(CommonLine(content, start + skipped))
    return CommonText(lines, tags)


class _Lines:
    """What is open at a line."""

    def __init__(self) -> None:
        self._fences: list[_Fence] = []
        self._brackets = 0  # open ones of an import
        self._options = False  # options of a directive may follow

    @property
    def is_in_code(self) -> bool:
        return bool(self._fences) and self._fences[-1].is_literal

    def stand_in(self, line: str, following: str) -> tuple[str, int]:
        """Return the line for the parser, and the length of what comes before its text."""
        before = _BEFORE.match(line)[0]  # type: ignore[index]
        mark = line[len(before) :]
        if self._brackets or (not before and not self._fences and _SCRIPT.match(mark)):
            count = sum((sign in "([{") - (sign in ")]}") for sign in mark)
            self._brackets = max(0, self._brackets + count)
            return "", 0
        fenced = self._fenced(line, before, mark)
        if fenced:
            return fenced
        self._options = self._options and bool(_OPTION.fullmatch(mark))
        if self._options or _KEPT.fullmatch(mark):
            return before, 0
        titled = _INDENTED.fullmatch(mark)
        deeper = following[len(before) :].startswith(("    ", "\t"))
        if titled and (deeper or titled["title"]):
            start = titled.start("title") if titled["title"] else len(mark)
            return f"{before}-   # {titled['title'] or ''}", len(before) + start
        if ">" in before and (alert := _ALERT.match(mark)):
            return f"{before}# {mark[alert.end() :]}", len(before) + alert.end()
        if item := _ITEM.match(mark):
            return f"{before}-   {mark[item.end() :] or '#'}", len(before) + item.end()
        return line, 0

    def _fenced(self, line: str, before: str, mark: str) -> tuple[str, int] | None:
        """Return the stand-in of a fence, or of a line of code; None for others."""
        fence = _FENCE.fullmatch(mark)
        inside = self._fences[-1] if self._fences else None
        info = fence["info"].strip() if fence else ""
        if fence and inside and fence["marks"].startswith(inside.marks) and not info:
            self._fences.pop()
            return inside.stand_in(line) or before, 0
        if inside and inside.is_literal:
            if not mark or inside.indent < 4 or len(before) >= inside.indent:
                return inside.stand_in(line), 0
            self._fences.pop()  # its end is missing
        if not fence:
            return None
        marks = fence["marks"]
        name = _NAME.fullmatch(fence["info"])
        directive = name["directive"] if name else ""
        is_literal = directive in _LITERAL if marks[0] == ":" else directive not in _PROSE
        opened = _Fence(marks, is_literal, len(before))
        if info or marks[0] != ":":  # else it ends nothing, and begins nothing
            self._fences.append(opened)
        self._options = bool(directive)
        has_title = name and name["title"] and (not directive or directive in _PROSE)
        if is_literal or not name or not has_title:
            return opened.stand_in(line) or before, 0
        skipped = len(before) + len(marks) + name.start("title")
        return f"{before}# {name['title']}", skipped
