"""Markdown: markdown-it finds the blocks, patterns the inline markup.

Front matter, code, link targets and HTML tags stay unchanged. A paragraph that is wrapped over
several lines becomes one line.
"""

import re
from collections.abc import Iterator

from dragoman.documents import web
from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.line_markup import unwrap
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize
from dragoman.errors import needs_package

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)\r?\n.*?\r?\n\1[ \t]*(?:\r?\n|\Z)", re.S)
_LINE = re.compile(r".*?(?:\r\n|\n|\Z)", re.S)
# Inline markup. Of code and comments it has only the beginning: their ends may be far away or
# missing, and searching for each of them would take quadratic time.
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<ticks>(?<!`)`++)"
    r"|(?P<math>\$[^$\s][^$\n]*+\$|\$\$[^$]++\$\$)"
    r"|(?P<image>!\[(?:[^\]!]|!(?!\[))*+\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+\"[^\"]*\")?\)|\[[^\]]*\]))"
    r"|(?P<auto><[A-Za-z][A-Za-z0-9+.-]*:[^<>\s]*>|<[^<>\s@]+@[^<>\s]+>)"
    r"|(?P<html></?[A-Za-z][^<>]*>)|(?P<comment><!--)"
    r"|(?P<note>\[\^[^\[\]\s]++\]:?)"
    r"|(?P<open>\[)|(?P<close>\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+[\"'][^\"']*[\"'])?\)"
    r"|\[[^\]]*\])?)"
    r"|(?P<emphasis>\*\*\*|\*\*|\*|~~|___|__|_)"
    r"|(?P<end>(?:(?<! ) {2,}+|\\)\r?\n[ \t]*+)",
    re.S,
)
# The beginning of a list item, a heading or a quotation.
_BLOCK = re.compile(r"(?P<number>\d{1,9})[.)](?=\s|$)|[-+*](?=\s|$)|#{1,6}(?=\s|$)|>")


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    with needs_package("markdown_it", "documents"):
        from markdown_it import MarkdownIt

    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    lines = [match.span() for match in _LINE.finditer(text, start) if match[0]]
    if "\r" in text.replace("\r\n", ""):  # the parser counts lines differently then
        return
    # Only blocks: the parser's own inline rules are not needed, and may take quadratic time.
    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    tokens = parser.parse(text[start:])
    at = start
    for token in tokens:
        # Closing tokens have no lines.
        if token.map is None:
            continue
        first, last = token.map
        if first >= len(lines):
            continue
        at = max(at, lines[first][0])
        end = lines[min(last, len(lines)) - 1][1]
        if token.type == "html_block":
            start_of_block = lines[first][0]
            for span in web.find_spans(text[start_of_block:end]):
                yield span.moved(start_of_block)
            at = end
        elif token.type == "inline" and token.content.strip():
            content = _inline_span(text, at, end, token.content)
            if content is not None:
                yield content
                at = content.end


def _inline_span(text: str, start: int, end: int, content: str) -> Span | None:
    """Return the span of a block's content; None if the file writes it differently, as with
    escapes.

    The content is found line by line, since marks of a list or a quotation may come between lines.
    """
    begin = at = -1
    for line in content.split("\n"):
        line = line.strip()
        offset = text.find(line, at if at >= 0 else start, end)
        if offset < 0:
            return None
        begin = offset if begin < 0 else begin
        at = offset + len(line)
    return Span(begin, at, segment_of(content), lambda s: _written(s, content))


def _written(segment: Segment, before: str) -> str:
    """Write a segment; escape a text that begins like a block, as "5. Mai" does, unless its source
    began the same way.
    """
    text = serialize(segment)
    block = _BLOCK.match(text)
    if block is None or before.startswith(block[0]):
        return text
    return f"{block['number'] or ''}\\{text[len(block['number'] or '') :]}"


def segment_of(content: str) -> Segment:
    r"""Return the content of a block as a segment.

    >>> [getattr(item, "raw", item) for item in segment_of("see **the [site](x)**\nnow")]
    ['see ', '**', 'the ', '[', 'site', '](x)', '**', ' now']
    """
    items: list[str | Code] = []
    links: list[int] = []
    emphasis: list[str] = []
    start = 0
    for mark, end in _inline_marks(content):
        raw = content[mark.start() : end]
        items.append(unwrap(content[start : mark.start()]))
        start = end
        match mark.lastgroup:
            case "escape":  # an escaped number's full stop is text
                items.append(Code(raw, Kind.MARK) if raw[1] not in ".-" else raw)
            case "open":
                links.append(len(items))
                items.append(raw)
            case "close":
                _close_link(items, links, raw)
            case "emphasis":
                items.append(_emphasis(raw, emphasis, content, mark))
            case "html" | "comment":
                items.append(_html(raw))
            case "end":
                items.append(Code(raw, Kind.BREAK))
            case _:
                items.append(Code(raw, Kind.MARK if mark.lastgroup == "note" else Kind.WORD))
    return normalize([*items, unwrap(content[start:])])


def _inline_marks(content: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each mark and its end.

    Code ends at as many backticks as it began with; a beginning without an end is text.
    """
    ticks_left: dict[str, list[int]] = {}  # offsets of runs of backticks, by run, in reverse
    for ticks in reversed([*re.finditer("`+", content)]):
        ticks_left.setdefault(ticks[0], []).append(ticks.start())
    last_comment = content.rfind("-->")
    at = 0
    while mark := _INLINE.search(content, at):
        at = end = mark.end()
        if mark.lastgroup == "ticks":
            offsets = ticks_left.get(mark[0], [])
            while offsets and offsets[-1] < at:
                offsets.pop()
            if not offsets:
                continue
            end = offsets[-1] + len(mark[0])
        elif mark.lastgroup == "comment":
            if last_comment < at:
                continue
            end = content.index("-->", at) + 3
        yield mark, end
        at = end


def _close_link(items: list[str | Code], links: list[int], raw: str) -> None:
    """Add a closing bracket. Brackets without a target may be a link by name, or just brackets."""
    if not links:
        items.append(raw if raw == "]" else Code(raw, Kind.MARK))
        return
    index = links.pop()
    if raw != "]":
        items[index] = Code("[", Kind.OPEN, f"link {index}")
        items.append(Code(raw, Kind.CLOSE, f"link {index}"))
    else:
        items.append(raw)


def _emphasis(raw: str, opened: list[str], content: str, mark: re.Match[str]) -> str | Code:
    """Return a mark of emphasis as a start tag, an end tag or text, by its neighbors."""
    before = content[mark.start() - 1 : mark.start()]
    after = content[mark.end() : mark.end() + 1]
    # snake_case has no emphasis.
    inside_word = before.isalnum() and after.isalnum()
    if raw.startswith("_") and inside_word:
        return raw
    if raw in opened and before and not before.isspace():
        # Emphasis opened inside and never closed is dropped.
        while opened.pop() != raw:
            pass
        return Code(raw, Kind.CLOSE, raw)
    if after and not after.isspace():
        opened.append(raw)
        return Code(raw, Kind.OPEN, raw)
    return raw


def _html(raw: str) -> Code:
    name = re.sub(r"^</?([A-Za-z][\w-]*).*", r"\1", raw, flags=re.S).lower()
    if name == "br":
        return Code(raw, Kind.BREAK)
    if raw.startswith("</"):
        return Code(raw, Kind.CLOSE, name)
    return Code(raw, Kind.MARK if raw.endswith(("/>", "-->")) else Kind.OPEN, name)
