"""AsciiDoc, as asciidoctor reads it.

Attributes, macros, the document's header and listings stay unchanged. A paragraph becomes one
line, and a title's underline gets its length.
"""

import re
from collections.abc import Generator, Iterator

from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.line_markup import Line, Markup, Rule, block_end, split_lines, title_span
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

MARKUP = Markup(
    Rule(r" \+\r?\n", Kind.BREAK),
    # Escapes, then passthroughs and monospace.
    Rule(r"\\[*_`#^~<{:\[\\'\"+]++", Kind.MARK),
    Rule(r"\+\+\+[^+]++\+\+\+|\$\$[^$]++\$\$|``[^`]++``|`[^`\n]++`(?!\w)|\+[^+\s][^+]*+\+(?!\w)"),
    # Cross references with a text and without one, callouts, attributes, index terms, anchors.
    Rule(r"<<[^<>,]++,", Kind.OPEN, r"[^<>]++", r">>"),
    Rule(r"<<[^<>]++>>|<\d++>|\{[\w!@#$%:-]++\}|\(\(\([^()]*+\)\)\)|\[\[[^\[\]]++\]\]"),
    # Links and footnotes, whose text is translated; other macros.
    Rule(
        r"(?:(?:link|xref|mailto):[^\s\[\]]*+|(?:https?|ftp|irc)://[^\s\[\]<>]*+|footnote:\w*+)\[",
        Kind.OPEN, r"[^\[\]=^]++", r"(?:,[^\[\]]*+|\^)?\]",
    ),
    Rule(r"(?<!\w)[a-zA-Z][\w+-]{0,60}+:{1,2}[^\s\[\]:]*+\[[^\[\]]*+\]"),
    # Doubled marks may touch letters; single ones may not. Each may have a role in brackets.
    Rule(r"(?:\[[^\[\]\s]*+\])?\*\*(?=\S)", Kind.OPEN, r"[^*]++", r"\*\*"),
    Rule(r"(?:\[[^\[\]\s]*+\])?__(?=\S)", Kind.OPEN, r"[^_]++", r"__"),
    Rule(r"(?:\[[^\[\]\s]*+\])?##(?=\S)", Kind.OPEN, r"[^#]++", r"##"),
    Rule(r"(?<![\w*])(?:\[[^\[\]\s]*+\])?\*(?=[^\s*])", Kind.OPEN, r"[^*]++", r"(?<=\S)\*(?!\w)"),
    Rule(r"(?<![\w_])(?:\[[^\[\]\s]*+\])?_(?=[^\s_])", Kind.OPEN, r"[^_]++", r"(?<=\S)_(?!\w)"),
    Rule(r"(?<![\w#&])(?:\[[^\[\]\s]*+\])?#(?=[^\s#])", Kind.OPEN, r"[^#]++", r"(?<=\S)#(?!\w)"),
    Rule(r"\^[^\s^]++\^|~[^\s~]++~|\(\([^()]++\)\)"),
)  # fmt: skip
# The fence of a block whose content is not translated.
_VERBATIM = re.compile(r"(?:-{4,}+|\.{4,}+|\+{4,}+|/{4,}+|`{3,}+\w*+|```[\w,+-]++)$")
# The fence of a block with ordinary content, a list continuation, a rule or a page break.
_FENCE = re.compile(r"(?:={4,}+|\*{4,}+|_{4,}+|--|\+|'''|<<<)$")
_TABLE = re.compile(r"[|,:!]={3,}+$")
# Lines that stay unchanged: comments, attributes, block macros, anchors.
_KEPT = re.compile(r"//|:!?[\w-]++!?:(?:\s|$)|\w++::[^\[\]\s]*+\[|\[\[.++\]\]$")
_ATTRIBUTES = re.compile(r"\[[^\]\n]*+\]$|\[\[[^\]\n]*+\]\]$")
# Attributes that make the next block or paragraph verbatim.
_LISTING = re.compile(
    r"\[(?:source|listing|literal|stem|latexmath|asciimath|pass|verse|ditaa|plantuml)\b"
)
_SECTION = re.compile(r"(?:={1,6}|#{1,6})\s++")
# The beginning of a list item, an admonition, or the title of a block.
_ITEM = re.compile(
    r"(?:[*-]{1,5}|\.{1,5}|\d++\.|[A-Za-z]\.|<(?:\d++|\.)>)\s++(?:\[[ x*]\]\s++)?"
    r"|(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s++|\.(?=[^\s.])"
)
# A term of a description list.
_TERM = re.compile(r"(?P<term>(?:[^\s:;]|:(?=\w))(?:[^:;]|[:;](?![:;]))*+)(?:::+|;;)(?:\s++|$)")
_RULE = re.compile(r"([=~^+-])\1++$")
# The bar before a table cell, with the cell's span, alignment and style.
_CELL = re.compile(r"(?:(?<![\d.*+<>^])[\d.*+]++[<>^.]*+|(?<![<>^.])[<>^.]++)?[aehlmsdv]?(?<!\\)\|")
_CONSTRAINED = frozenset(["*", "_", "#"])
_MONOSPACE = re.compile(r"`[^`]++`")


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    lines = split_lines(text)
    at = 0
    in_table = False
    # The last line of attributes applies to the next block.
    attributes = ""
    while at < len(lines):
        line = lines[at]
        core = line.text.rstrip()
        at += 1
        is_listing, attributes = _LISTING.match(attributes), attributes if not core else ""
        if not core or _FENCE.match(core) or _KEPT.match(core):
            if core == "--" and is_listing:
                at = _after_fence(lines, at, core)
        elif core == "|===" or _TABLE.match(core):
            if not core.startswith("|"):
                at = _after_fence(lines, at, core)
            in_table = core.startswith("|") and not in_table
        elif _VERBATIM.match(core):
            at = _after_fence(lines, at, "```" if core.startswith("```") else core)
        elif _ATTRIBUTES.match(core):
            attributes = core
        elif is_listing or (line.indent and not in_table and not _is_list(core)):
            at = block_end(lines, at)
        elif in_table:
            yield from _cells(text, line)
        # The title of the document, followed by its header.
        elif at == 1 and core.startswith("= "):
            yield MARKUP.span(text, line.start + 2, line.end, _write)
            at = block_end(lines, at)  # the author, the version and attributes
        elif section := _SECTION.match(core):
            yield MARKUP.span(text, line.start + section.end(), line.end, _write)
        elif _is_underlined(lines, at):
            yield title_span(text, line, [lines[at]], MARKUP)
            at += 1
        else:
            at = yield from _paragraph(text, lines, at - 1)


def _after_fence(lines: list[Line], at: int, fence: str) -> int:
    """Return the line after the closing fence."""
    while at < len(lines) and lines[at].text.rstrip() != fence:
        at += 1
    return at + 1


def _is_list(core: str) -> bool:
    return bool(_ITEM.match(core.lstrip()) or _TERM.match(core.lstrip()))


def _is_underlined(lines: list[Line], at: int) -> bool:
    if at >= len(lines) or not _RULE.match(lines[at].core) or lines[at].indent:
        return False
    # asciidoctor accepts an underline that is up to two characters off.
    return abs(len(lines[at].core) - len(lines[at - 1].core)) <= 2 < len(lines[at].core)


def _paragraph(text: str, lines: list[Line], at: int) -> Generator[Span, None, int]:
    """Find a paragraph, up to an empty line or another kind of block; return the line after it."""
    line = lines[at]
    while item := _ITEM.match(line.core):
        line = line.after(item.end())
        if item[0] == ".":  # the title of a block
            yield MARKUP.span(text, line.start + line.indent, line.end, _write)
            return at + 1
    if term := _TERM.match(line.core):
        start = line.start + line.indent
        if not term["term"].startswith(":"):  # a symbol of Ruby, for example, is code
            yield MARKUP.span(text, start, start + term.end("term"), _write)
        line = line.after(term.end())
        if not line.core:
            return at + 1
    end = at + 1
    while end < len(lines) and lines[end].core and not _ends_paragraph(lines[end]):
        end += 1
    stop = lines[end - 1].end if end > at + 1 else line.end
    if line.core:
        yield MARKUP.span(text, line.start + line.indent, stop, _write)
    return end


def _ends_paragraph(line: Line) -> bool:
    core = line.text.rstrip()
    patterns = (_FENCE, _KEPT, _VERBATIM, _TABLE, _ATTRIBUTES)
    return any(pattern.match(core) for pattern in patterns) or _is_list(core)


def _cells(text: str, line: Line) -> Iterator[Span]:
    """Find the cells in a line of a table; text before the first bar continues a cell."""
    marks = [match.span() for match in _CELL.finditer(line.text)]
    starts = [0, *(end for _, end in marks)]
    ends = [*(start for start, _ in marks), len(line.text)]
    for start, end in zip(starts, ends, strict=True):
        cell = line.text[start:end]
        if cell.strip():
            begin = line.start + start + len(cell) - len(cell.lstrip())
            yield MARKUP.span(text, begin, begin + len(cell.strip()), _write)


def _write(segment: Segment) -> str:
    """Write a segment; marks that touch a letter are doubled, since single ones would not count."""
    items = list(segment)
    opened: list[int] = []
    for index, item in enumerate(segment):
        if not isinstance(item, Code):
            continue
        if item.kind is Kind.OPEN:
            opened.append(index)
        elif _MONOSPACE.fullmatch(item.raw) and _touches(segment, index, index):
            items[index] = item._replace(raw=f"`{item.raw}`")
        elif item.kind is Kind.CLOSE and opened:
            first = opened.pop()
            if item.raw in _CONSTRAINED and _touches(segment, first, index):
                items[first] = item._replace(raw=segment[first].raw + item.raw)  # type: ignore[union-attr]
                items[index] = item._replace(raw=item.raw * 2)
    text = serialize(normalize(items))
    # A text that begins like a list item would become one.
    return "{empty}" + text if _ITEM.match(text) else text


def _touches(segment: Segment, first: int, last: int) -> bool:
    """True if there is a letter directly before the first of these items, or after the last."""
    before, after = segment[first - 1] if first else "", (*segment, "")[last + 1]
    return (isinstance(before, str) and before[-1:].isalnum()) or (
        isinstance(after, str) and after[:1].isalnum()
    )
