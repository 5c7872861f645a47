"""Markdown: markdown-it finds the blocks, patterns the inline markup.

Front matter, code, link targets and HTML tags stay unchanged. A paragraph that is wrapped over
several lines becomes one line.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from dragoman.documents import web
from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.line_markup import unwrap
from dragoman.documents.markdown_dialects import common_text
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize
from dragoman.errors import needs_package

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)\r?\n.*?\r?\n\1[ \t]*(?:\r?\n|\Z)", re.S)
# Inline markup. Of code and comments it has only the beginning: their ends may be far away or
# missing, and searching for each of them would take quadratic time.
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<ticks>(?:\{[\w:+.-]+\})?(?<!`)`++)"  # perhaps with a role of MyST
    r"|(?P<attributes>[ \t]?\{[:#.][^{}\n]*\})|(?P<task>\A(?:\[[ xX]\](?=\s)|#{1,6}\s++))"
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
# A link to a heading of the same page, and what a heading's name does not have.
_LINK_TO_HEADING = re.compile(r"(?:\]\(|\]:[ \t]*|href=[\"'])#([^()\s\"'<>]++)")
_NOT_IN_NAME = re.compile(r"\]\([^()]*\)|<[^<>]*>|[^\w\- ]")
# The beginning of a list item, a heading or a quotation.
_BLOCK = re.compile(r"(?P<number>\d{1,9})[.)](?=[ \t]|$)|[-+*](?=[ \t]|$)|#{1,6}(?=[ \t]|$)|>")


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    with needs_package("markdown_it", "documents"):
        from markdown_it import MarkdownIt

    if "\r" in text.replace("\r\n", ""):  # the parser counts lines differently then
        return
    front = _FRONT_MATTER.match(text)
    at = front.end() if front else 0
    lines, tags = common_text(text, at)
    for begin, end in tags:
        for span in web.attribute_spans(text[begin:end]):
            yield span.moved(begin)
    starts = [*(line.start for line in lines), len(text)]
    # Only blocks: the parser's own inline rules are not needed, and may take quadratic time.
    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    if tags:  # in MDX, indented text is no code
        parser.disable("code")
    linked = frozenset(_LINK_TO_HEADING.findall(text))
    before = ""
    for token in parser.parse("\n".join(line.content for line in lines)):
        # Closing tokens have no lines.
        if token.map is None:
            continue
        first, last = token.map
        if first >= len(lines):
            continue
        at = max(at, starts[first])
        end = starts[min(last, len(lines))]
        if token.type == "html_block":
            block = text[starts[first] : end]
            for span in web.find_spans(block):
                yield span.moved(starts[first])
            at = end
        elif token.type == "inline" and token.content.strip():
            content = _inline_span(text, at, starts[first : last + 1], token.content)
            name = heading_name(token.content)
            if content and before == "heading_open" and name in linked:
                content = content._replace(write=partial(_named, name=name, write=content.write))
            if content is not None:
                yield content
                at = content.end
        before = token.type


def heading_name(content: str) -> str:
    """Return the name that pages give to a heading, by which links find it.

    >>> heading_name("What's *new*?")
    'whats-new'
    """
    return _NOT_IN_NAME.sub("", content.lower()).replace(" ", "-")


def _named(segment: Segment, name: str, write: Callable[[Segment], str]) -> str:
    """Write a heading that links point to; under its new name they would not find it."""
    text = write(segment)
    return text if heading_name(text) == name else f'<a id="{name}"></a>{text}'


def _inline_span(text: str, at: int, starts: list[int], content: str) -> Span | None:
    """Return the span of a block's content; None if the file writes it differently. `starts`: of
    its lines, and of the line after it.

    The content is found line by line, since marks of a list or a quotation may come between lines.
    """
    begin = at_end = -1
    joint = "\n"
    for number, line in enumerate(content.split("\n")):
        line = line.strip()
        at = max(at, starts[min(number, len(starts) - 1)])
        offset = text.find(line, at, starts[-1])
        if offset < 0:  # the parser has removed the escapes of a table's cell
            line = content = line.replace("|", "\\|")
            offset = text.find(line, at, starts[-1])
        if offset < 0:
            return None
        if number == 1:  # the end of a line, and the marks before the next one
            joint = text[at_end:offset].lstrip(" \t\\")
        begin = offset if begin < 0 else begin
        at = at_end = offset + len(line)
    is_quoted = text[begin - 1 : begin] == text[at : at + 1] == '"'
    segment = segment_of(content)
    write = partial(_written, before=content, joint=joint, is_quoted=is_quoted)
    return Span(begin, at, segment, write, line_break="<br/>")


def _written(segment: Segment, before: str, joint: str, is_quoted: bool) -> str:
    """Write a segment, with the file's joint of lines inside its codes and breaks; escape a text
    that begins like a block, as "5. Mai" does, unless its source began the same way. A title in
    quotation marks cannot contain them.
    """
    text = serialize(segment).replace("\n", joint)
    if is_quoted:
        return text.replace('"', "'")
    block = _BLOCK.match(text)
    own = _BLOCK.match(before)
    if block is None or (own and own[0] == block[0]):
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
                is_word = mark.lastgroup not in ("note", "attributes", "task")
                items.append(Code(raw, Kind.WORD if is_word else Kind.MARK))
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
            run = mark[0][mark[0].index("`") :]
            offsets = ticks_left.get(run, [])
            while offsets and offsets[-1] < at:
                offsets.pop()
            if not offsets:
                continue
            end = offsets[-1] + len(run)
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
