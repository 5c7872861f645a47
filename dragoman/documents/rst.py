"""reStructuredText, as docutils and Sphinx read it.

Literal blocks, comments, targets, field names and options stay unchanged, as does the content
of directives that are not known to contain prose. A paragraph becomes one line, a title's underline
gets its length, and a table's columns get the width that they need.
"""

import re
from collections.abc import Callable, Generator, Iterator
from typing import TypeGuard

from dragoman.documents.document import ReadOptions, Span, newline_of
from dragoman.documents.line_markup import (
    Markup,
    Rule,
    block_end,
    deeper_end,
    split_lines,
    title_span,
)
from dragoman.documents.rst_tables import table_span
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize, word_set

# The text of a link or role before its target in angle brackets.
_LABEL = r"[^`<\s]++(?:\s++[^`<\s]++)*+"
_ROLE = r"[\w.+-]{1,50}+(?::[\w.+-]{1,50}+){0,3}+"
_RULES = (
    Rule(r"\\[\s\S]", Kind.MARK),
    # A literal; a role with a title, whose text is translated; any other role.
    Rule(r"``(?:[^`]|`(?!`))++``"),
    Rule(rf":(?!math|code|raw){_ROLE}:`", Kind.OPEN, _LABEL, r"\s*+(?<!\\)<[^`<>]++>`"),
    Rule(rf":{_ROLE}:`[^`]++`"),
    # A link with its target; a reference, whose words are a name.
    Rule(r"(?<![\w`])`", Kind.OPEN, _LABEL, r"\s++<[^`<>]++>`__?"),
    Rule(rf"(?<!\w)_?(?<![^\W_])`(?=\S)[^`]++`(?:__?|:{_ROLE}:)?"),
    # Strong and emphasized text.
    Rule(r"(?<![\w*])\*\*(?=\S)", Kind.OPEN, r"[^*]++", r"(?<=\S)\*\*"),
    Rule(r"(?<![\w*])\*(?=[^\s*])", Kind.OPEN, r"[^*]++", r"(?<=\S)\*(?!\*)"),
    # A substitution, a footnote, and a reference of one word.
    Rule(r"\|(?=\S)[^|]++(?<=\S)\|_{0,2}"),
    Rule(r"\[[^\[\]\s]++\]_"),
    Rule(r"(?<!\w)(?<![A-Za-z0-9][-.+:])[A-Za-z0-9]++(?:[-.+_:][A-Za-z0-9]++)*+__?(?!\w)"),
)
MARKUP = Markup(*_RULES)
# The beginning of a directive, also of one that defines a substitution.
_DIRECTIVE = re.compile(r"\.\.\s++(?:\|[^|]++\|\s*+)?([\w.+-]++(?::[\w.+-]++)*+)\s?::(?:\s++|$)")
# A footnote or citation.
_NOTE = re.compile(r"\.\.\s++\[[^\]]++\](?:\s++|$)")
# The bullet or number of a list item.
_ITEM = re.compile(
    r"(?:[-*+\u2022\u2023\u2043]|\(?(?:\d++|[A-Za-z]|[ivxlcdmIVXLCDM]++|#)[.)])(?:\s++|$)"
)
# The name of a field, which may contain escaped colons and roles.
_FIELD = re.compile(r":(?![\s:])(?:[^:\\]|\\.|:(?![\s`]|$))++(?<! ):(?:\s++|$)")
_OPTION = re.compile(r"(?:--?|[+/])\w")
# A line of punctuation: an underline, an overline or a transition.
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1++$")
_SIMPLE_TABLE = re.compile(r"=++(?: ++=++)++$")
# References by name, in the three ways to write them.
_NAMED = re.compile(
    r"`([^`<>]++)`_"
    r"|<([^`<>]+)_>`"
    r"|(?<!\w)(?<![A-Za-z0-9][-.+:])([A-Za-z0-9]++(?:[-.+_:][A-Za-z0-9]++)*+)_(?!\w)"
)

# The names of explicit targets, and of links, which are targets themselves.
_TARGET = re.compile(
    r"^[ \t]*+\.\.[ \t]++_(?:`([^`\n]++)`|((?:[^:\\\n]|\\.|:(?!\s|$))++)):(?:\s|$)", re.M
)
_LINKED = re.compile(r"(?<![\w`])`([^`<>]++)<[^`<>]++>`_(?!_)")
_MOST_LABELS = 500  # each is tried at every link
# Markup in a title, which is not part of its name.
_QUOTES = re.compile(r"\\(.)|(?<!\s)\s*+<[^`<>]++>`_{0,2}|`++_{0,2}|\*++")

# Directives whose argument and content are prose.
_WITH_PROSE = word_set(
    "admonition attention caution centered danger error hint important note replace rubric seealso "
    "sidebar tip todo topic warning list-table table"
)
# Directives whose argument is a version, then prose.
_VERSIONED = word_set("deprecated versionadded versionchanged versionremoved")
# Directives with prose as content only.
_CONTAINERS = word_set(
    "class compound container cssclass epigraph figure footer glossary header highlights hlist "
    "only pull-quote rst-class tab tab-set attribute confval data decorator describe envvar "
    "event exception function macro member method classmethod staticmethod module object opcode "
    "option program property struct type var 2to3fixer cmdoption pdbcommand setting "
    "templatefilter templatetag fieldlookup"
)


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    return _RstReader(text).spans()


class _RstReader:
    def __init__(self, text: str):
        self.text = text
        self.lines = split_lines(text)
        named = {_plain("".join(match)) for match in _NAMED.findall(text)}
        targets = {_plain("".join(match)) for match in _TARGET.findall(text)}
        # Names without an explicit target are the words of a title, or of a link with a target.
        self._named = named - targets
        labels = [label for label in _LINKED.findall(text) if _plain(label) in self._named]
        self._markup = _markup_with_names(labels)
        self._before_text = True  # fields before any text are metadata
        self._glossary = -1  # indent of the current glossary, -1 outside

    def spans(self) -> Iterator[Span]:
        # A Python Enhancement Proposal begins with mail headers.
        at = block_end(self.lines, 0) if self.text.startswith("PEP: ") else 0
        while at < len(self.lines):
            if self.lines[at].core:
                at = yield from self._block(at)
            else:
                at += 1

    def _block(self, at: int) -> Generator[Span, None, int]:
        """Find the spans of the block that begins in a line; return the line after it."""
        line = self.lines[at]
        core, indent = line.core, line.indent
        if indent <= self._glossary:
            self._glossary = -1
        if title := self._title(at):
            yield title[0]
            return title[1]
        if core == "..":  # a comment, or an empty one
            following = self.lines[at + 1 : at + 2]
            if following and following[0].core:
                return deeper_end(self.lines, at + 1, indent)
            return at + 1
        if core.startswith(".. "):
            return (yield from self._explicit(at))
        if core.startswith(("+--", "+==")) or _SIMPLE_TABLE.match(core):
            return (yield from self._table(at))
        if core == "__" or core.startswith("__ "):  # an anonymous target
            return min(block_end(self.lines, at), deeper_end(self.lines, at + 1, indent))
        if _RULE.match(core) and len(core) > 3:
            return at + 1
        # A doctest block.
        if core.startswith(">>> "):
            return block_end(self.lines, at)
        # A line block keeps its lines.
        if core.startswith("| ") and not core.endswith("|"):
            yield self._markup.span(self.text, line.start + indent + 2, line.end, _write)
            return at + 1
        if item := _ITEM.match(core):
            self.lines[at] = line.after(item.end())
            return at  # read the rest of the line as a block
        if field := _FIELD.match(core):
            if self._before_text:
                return deeper_end(self.lines, at + 1, indent)
            return (yield from self._paragraph(at, field.end(), indent))
        if _OPTION.match(core) and self._is_option(at):
            gap = core.find("  ")
            if gap < 0:
                return at + 1
            return (yield from self._paragraph(at, gap + 2, indent))
        return (yield from self._paragraph(at))

    def _is_option(self, at: int) -> bool:
        following = self.lines[at + 1 : at + 2]
        deeper = bool(following) and following[0].indent > self.lines[at].indent
        return "  " in self.lines[at].core or deeper

    def _title(self, at: int) -> tuple[Span, int] | None:
        line, *rest = self.lines[at : at + 3]
        over = _RULE.match(line.core)
        framed = len(rest) == 2 and rest[0].core and rest[1].text == line.text
        if over and framed and not line.indent:
            before = self._target(rest[0].core)
            return title_span(self.text, rest[0], [line, rest[1]], self._markup, before), at + 3
        if over or not rest or line.indent or rest[0].indent or not _RULE.match(rest[0].core):
            return None
        # docutils takes a shorter rule for text, unless the title is as short.
        if len(rest[0].core) < min(4, len(line.core)):
            return None
        return title_span(self.text, line, [rest[0]], self._markup, self._target(line.core)), at + 2

    def _target(self, title: str) -> str:
        """Return an explicit target for a title that is referred to by its words, so that
        references keep working.
        """
        name = _QUOTES.sub(lambda quote: quote[1] or "", title)
        if _plain(name) not in self._named:
            return ""
        self._named.remove(_plain(name))
        newline = newline_of(self.text)
        return f".. _`{name}`:{newline}{newline}"

    def _explicit(self, at: int) -> Generator[Span, None, int]:
        line = self.lines[at]
        core, indent = line.core, line.indent
        if note := _NOTE.match(core):
            return (yield from self._paragraph(at, note.end(), indent))
        directive = _DIRECTIVE.match(core)
        name = directive[1].rpartition(":")[2] if directive else ""
        length = directive.end() if directive else 0
        argument = core[length:]
        if name in _VERSIONED:
            version, blank, _ = argument.partition(" ")
            length += len(version + blank)
        if not name or name not in _WITH_PROSE | _CONTAINERS | _VERSIONED:
            return deeper_end(self.lines, at + 1, indent)
        self._before_text = False
        if name == "glossary":
            self._glossary = indent
        if name in _CONTAINERS and argument:
            return block_end(self.lines, at)
        if core[length:].strip():
            return (yield from self._paragraph(at, length, indent))
        at += 1
        while (
            at < len(self.lines)
            and _FIELD.match(self.lines[at].core)
            and self.lines[at].indent > indent
        ):
            at += 1
        return at

    def _paragraph(self, at: int, length: int = 0, hanging: int = -1) -> Generator[Span, None, int]:
        """Find a paragraph, or the term of a definition.

        It begins after `length` characters of its first line. If `hanging` is not negative, its
        other lines are indented more than that.
        """
        first = self.lines[at].after(length)
        end = at + 1
        if not first.core:
            return end  # the text begins in the next line
        if hanging >= 0 and (_ITEM.match(first.core) or first.core.startswith(("| ", ".. "))):
            self.lines[at] = first
            return at  # read the rest of the line as a block
        indent = first.indent
        if hanging >= 0 and end < len(self.lines) and self.lines[end].indent > hanging:
            indent = self.lines[end].indent
        while end < len(self.lines) and self.lines[end].core and self.lines[end].indent == indent:
            if hanging >= 0 and _FIELD.match(self.lines[end].core):
                break
            end += 1
        last = self.lines[end - 1]
        self._before_text = False
        stop = last.end if end > at + 1 else first.end
        start = first.start + first.indent
        content = self.text[start:stop]
        # A line followed by a deeper one is the term of a definition.
        is_term = (
            end == at + 1
            and hanging < 0
            and end < len(self.lines)
            and bool(self.lines[end].core)
            and self.lines[end].indent > first.indent
        )
        # A double colon announces a literal block, and stays.
        literal = content.endswith("::")
        if literal:
            stop -= 2
        # The classifier of a term is a type, not prose.
        if is_term and " : " in content:
            stop = start + content.index(" : ")
        # The second line of a paragraph sets the indent of what follows, such as a literal block,
        # and a single line before a deeper one would be a term. So two lines stay two lines.
        deeper = end < len(self.lines) and self.lines[end].indent > indent
        in_two = end > at + 1 and (hanging >= 0 or deeper)
        write = _hanging(content, indent) if in_two else _write
        if not (is_term and self._glossary >= 0) and start < stop:
            yield self._markup.span(self.text, start, stop, write)
        if not literal:
            return end
        return self._literal_end(end, hanging if hanging >= 0 else first.indent)

    def _literal_end(self, at: int, indent: int) -> int:
        """Return the line after a literal block."""
        end = deeper_end(self.lines, at, indent)
        quoted = self.lines[end : end + 1]
        if not any(line.core for line in self.lines[at:end]) and quoted and quoted[0].core:
            # A quoted literal block is not indented: each line begins with the same character.
            mark = quoted[0].core[0]
            if not mark.isalnum() and quoted[0].indent == indent:
                while end < len(self.lines) and self.lines[end].core.startswith(mark):
                    end += 1
        return end

    def _table(self, at: int) -> Generator[Span, None, int]:
        """Find a table: up to the next empty line, or the last rule of a simple table."""
        end = block_end(self.lines, at)
        if _SIMPLE_TABLE.match(self.lines[at].core):
            while end < len(self.lines) and not _SIMPLE_TABLE.match(self.lines[end - 1].core):
                end = block_end(self.lines, end + 1)
        yield from table_span(self.text, self.lines[at:end], self._markup, _escaped)
        return end


def _markup_with_names(labels: list[str]) -> Markup:
    """Return the markup with links whose words are the name of a target, which must not change."""
    if not labels:
        return MARKUP
    each = [r"\s++".join(map(re.escape, label.split())) for label in labels[:_MOST_LABELS]]
    words = "|".join(each)
    return Markup(Rule(rf"(?<![\w`])`(?:{words})\s++<[^`<>]++>`_(?!_)"), *_RULES)


def _plain(name: str) -> str:
    return " ".join(re.sub(r"\\(.)", r"\1", name).split()).lower()


def _escaped(segment: Segment) -> Segment:
    """Insert an escaped blank where markup would touch a letter and not be recognized."""
    items: list[str | Code] = []
    for before, item in zip((" ", *segment), segment, strict=False):
        left = before if isinstance(before, str) else before.raw
        right = item if isinstance(item, str) else item.raw
        starts = _is_markup(item) and item.kind in (Kind.OPEN, Kind.WORD)
        ends = _is_markup(before) and before.kind in (Kind.CLOSE, Kind.WORD)
        if (starts and left[-1:].isalnum()) or (ends and right[:1].isalnum()):
            items.append("\\ ")
        items.append(item)
    return normalize(items)


def _is_markup(item: str | Code) -> TypeGuard[Code]:
    return isinstance(item, Code) and not item.in_text


def _write(segment: Segment) -> str:
    text = serialize(_escaped(segment))
    # A text that begins like a list item would become one.
    return "\\" + text if _ITEM.match(text) else text


def _hanging(before: str, indent: int) -> Callable[[Segment], str]:
    """Return a writer of two lines, the first as long as before."""
    newline = newline_of(before) + " " * indent
    blanks = re.compile(r"(?<!\\) ")

    def write(segment: Segment) -> str:
        text = _write(segment)
        length = len(before.splitlines()[0])
        if "\n" in text:
            return text  # a code spans two lines
        blank = blanks.search(text, length) or blanks.search(text)
        return text[: blank.start()] + newline + text[blank.end() :] if blank else text

    return write
