"""Markdown: markdown-it finds the blocks, patterns the inline markup.

Front matter, code, link targets and HTML tags stay; a paragraph that is wrapped over several lines
becomes one line.
"""

import re
from collections.abc import Iterator

from dragoman.documents import web
from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize
from dragoman.errors import needs_package

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)\r?\n.*?\r?\n\1[ \t]*(?:\r?\n|\Z)", re.S)
_LINE = re.compile(r".*?(?:\r\n|\n|\Z)", re.S)
# a character behind a backslash, code, math, images, the two ends of a link, HTML, emphasis, and a
# line's end; of code and of a comment the beginning alone, because their ends may be far or missing
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


# How a list, a heading or a quotation begins.
_BLOCK = re.compile(r"(?P<number>\d{1,9})[.)](?=\s|$)|[-+*](?=\s|$)|#{1,6}(?=\s|$)|>")


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    with needs_package("markdown_it", "documents"):
        from markdown_it import MarkdownIt

    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    lines = [match.span() for match in _LINE.finditer(text, start) if match[0]]
    if "\r" in text.replace("\r\n", ""):  # lines are counted in another way there
        return
    # Blocks alone: what it makes of inline markup is not looked at, and may take quadratic time.
    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    tokens = parser.parse(text[start:])
    at = start
    for token in tokens:
        if token.map is None:
            continue
        first, last = token.map
        if first >= len(lines):
            continue
        at = max(at, lines[first][0])
        end = lines[min(last, len(lines)) - 1][1]
        if token.type == "html_block":
            for span in web.find_spans(text[lines[first][0] : end]):
                move = lines[first][0]
                yield span._replace(start=span.start + move, end=span.end + move)
            at = end
        elif token.type == "inline" and token.content.strip():
            found = _inline_span(text, at, end, token.content)
            if found is not None:
                yield found
                at = found.end


def _inline_span(text: str, start: int, end: int, content: str) -> Span | None:
    """Where the content stands, line by line; between its lines stand the marks of a list or a
    quotation."""
    begin = at = -1
    for line in content.split("\n"):
        line = line.strip()
        place = text.find(line, at if at >= 0 else start, end)
        if place < 0:
            return None  # written in another way than it is meant: it is left alone
        begin = place if begin < 0 else begin
        at = place + len(line)
    # A line's end with two blanks before it, or a backslash, is a break; any other a blank.
    return Span(begin, at, segment_of(content), lambda said: _written(said, content))


def _written(segment: Segment, before: str) -> str:
    """A text that begins like a block, as "5. Mai" does, is escaped, unless it began so before."""
    said = serialize(segment)
    block = _BLOCK.match(said)
    if block is None or before.startswith(block[0]):
        return said
    return f"{block['number'] or ''}\\{said[len(block['number'] or '') :]}"


def segment_of(content: str) -> Segment:
    r"""
    >>> [getattr(item, "raw", item) for item in segment_of("see **the [site](x)**\nnow")]
    ['see ', '**', 'the ', '[', 'site', '](x)', '**', ' now']
    """
    items: list[str | Code] = []
    links: list[int] = []
    emphasis: list[str] = []
    start = 0
    for found, end in _inline_marks(content):
        raw = content[found.start() : end]
        items.append(_unwrapped(content[start : found.start()]))
        start = end
        match found.lastgroup:
            case "escape":
                items.append(Code(raw, Kind.MARK) if raw[1] not in ".-" else raw)
            case "open":
                links.append(len(items))
                items.append(raw)
            case "close":
                _close_link(items, links, raw)
            case "emphasis":
                items.append(_emphasis(raw, emphasis, content, found))
            case "html" | "comment":
                items.append(_html(raw))
            case "end":
                items.append(Code(raw, Kind.BREAK))
            case _:
                items.append(Code(raw, Kind.MARK if found.lastgroup == "note" else Kind.WORD))
    return normalize([*items, _unwrapped(content[start:])])


def _inline_marks(content: str) -> Iterator[tuple[re.Match[str], int]]:
    """Each mark, and where it ends. As many backticks end code as began it; a beginning without an
    end is text."""
    last: dict[str, list[int]] = {}  # where backticks stand, by their number, the next ones last
    for ticks in reversed([*re.finditer("`+", content)]):
        last.setdefault(ticks[0], []).append(ticks.start())
    last_comment = content.rfind("-->")
    at = 0
    while found := _INLINE.search(content, at):
        at = end = found.end()
        if found.lastgroup == "ticks":
            places = last.get(found[0], [])
            while places and places[-1] < at:
                places.pop()
            if not places:
                continue
            end = places[-1] + len(found[0])
        elif found.lastgroup == "comment":
            if last_comment < at:
                continue
            end = content.index("-->", at) + 3
        yield found, end
        at = end


def _unwrapped(text: str) -> str:
    return re.sub(r"(?:(?<![ \t])[ \t]++)?+\n[ \t]*+", " ", text)


def _close_link(items: list[str | Code], links: list[int], raw: str) -> None:
    """Brackets without a target may be a link by its name, or just brackets."""
    if not links:
        items.append(raw if raw == "]" else Code(raw, Kind.MARK))
        return
    place = links.pop()
    if raw != "]":
        items[place] = Code("[", Kind.OPEN, f"link {place}")
        items.append(Code(raw, Kind.CLOSE, f"link {place}"))
    else:
        items.append(raw)


def _emphasis(raw: str, opened: list[str], content: str, found: re.Match[str]) -> str | Code:
    before = content[found.start() - 1 : found.start()]
    after = content[found.end() : found.end() + 1]
    inside_word = before.isalnum() and after.isalnum()
    if raw.startswith("_") and inside_word:
        return raw
    if raw in opened and before and not before.isspace():
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
