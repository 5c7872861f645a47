"""reStructuredText, as docutils and Sphinx read it.

Literal blocks, comments, targets, field names, options, and the content of directives that are not
known to hold prose stay. A paragraph becomes one line, a title gets an underline of its length, and
a table columns of the width that it needs.
"""

import re
from collections.abc import Callable, Generator, Iterator

from dragoman.documents.document import ReadOptions, Span
from dragoman.documents.line_markup import (
    Markup,
    Rule,
    block_end,
    deeper_end,
    split_lines,
    title_span,
)
from dragoman.documents.rst_tables import table_span
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

_LABEL = r"[^`<\s]++(?:\s++[^`<\s]++)*+"
_ROLE = r"[\w.+-]{1,50}+(?::[\w.+-]{1,50}+){0,3}+"
_RULES = (
    Rule(r"\\[\s\S]", Kind.MARK),
    Rule(r"``(?:[^`]|`(?!`))++``"),
    Rule(rf":(?!math|code|raw){_ROLE}:`", Kind.OPEN, _LABEL, r"\s*+(?<!\\)<[^`<>]++>`"),
    Rule(rf":{_ROLE}:`[^`]++`"),
    Rule(r"(?<![\w`])`", Kind.OPEN, _LABEL, r"\s++<[^`<>]++>`__?"),
    Rule(rf"(?<!\w)_?(?<![^\W_])`(?=\S)[^`]++`(?:__?|:{_ROLE}:)?"),
    Rule(r"(?<![\w*])\*\*(?=\S)", Kind.OPEN, r"[^*]++", r"(?<=\S)\*\*"),
    Rule(r"(?<![\w*])\*(?=[^\s*])", Kind.OPEN, r"[^*]++", r"(?<=\S)\*(?!\*)"),
    Rule(r"\|(?=\S)[^|]++(?<=\S)\|_{0,2}"),
    Rule(r"\[[^\[\]\s]++\]_"),
    Rule(r"(?<!\w)(?<![A-Za-z0-9][-.+:])[A-Za-z0-9]++(?:[-.+_:][A-Za-z0-9]++)*+__?(?!\w)"),
)
MARKUP = Markup(*_RULES)
_DIRECTIVE = re.compile(r"\.\.\s++(?:\|[^|]++\|\s*+)?([\w.+-]++(?::[\w.+-]++)*+)\s?::(?:\s++|$)")
_NOTE = re.compile(r"\.\.\s++\[[^\]]++\](?:\s++|$)")
_ITEM = re.compile(
    r"(?:[-*+\u2022\u2023\u2043]|\(?(?:\d++|[A-Za-z]|[ivxlcdmIVXLCDM]++|#)[.)])(?:\s++|$)"
)
_FIELD = re.compile(r":(?![\s:])(?:[^:\\]|\\.|:(?![\s`]|$))++(?<! ):(?:\s++|$)")
_OPTION = re.compile(r"(?:--?|[+/])\w")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1++$")
_SIMPLE_TABLE = re.compile(r"=++(?: ++=++)++$")
_NAMED = re.compile(
    r"`([^`<>]++)`_"
    r"|<([^`<>]+)_>`"
    r"|(?<!\w)(?<![A-Za-z0-9][-.+:])([A-Za-z0-9]++(?:[-.+_:][A-Za-z0-9]++)*+)_(?!\w)"
)

_TARGET = re.compile(
    r"^[ \t]*+\.\.[ \t]++_(?:`([^`\n]++)`|((?:[^:\\\n]|\\.|:(?!\s|$))++)):(?:\s|$)", re.M
)
_LINKED = re.compile(r"(?<![\w`])`([^`<>]++)<[^`<>]++>`_(?!_)")
_MOST_LABELS = 500  # each is looked for at every link
_QUOTES = re.compile(r"\\(.)|(?<!\s)\s*+<[^`<>]++>`_{0,2}|`++_{0,2}|\*++")

# Directives whose argument is prose, too; after the second ones' first word, a version.
_SPEAKING = frozenset(
    [
        *("admonition", "attention", "caution", "centered", "danger", "error", "hint", "important"),
        *("note", "replace", "rubric", "seealso", "sidebar", "tip", "todo", "topic", "warning"),
        *("list-table", "table"),
    ]
)
_VERSIONED = frozenset(["deprecated", "versionadded", "versionchanged", "versionremoved"])
# Directives whose content is prose.
_HOLDING_LISTED = (
    "class compound container cssclass epigraph figure footer glossary header highlights hlist "
    "only pull-quote rst-class tab tab-set attribute confval data decorator describe envvar "
    "event exception function macro member method classmethod staticmethod module object opcode "
    "option program property struct type var 2to3fixer cmdoption pdbcommand setting "
    "templatefilter templatetag fieldlookup"
)
_HOLDING = frozenset(_HOLDING_LISTED.split())


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    return _Reader(text).spans()


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.lines = split_lines(text)
        named = {_plain("".join(match)) for match in _NAMED.findall(text)}
        targets = {_plain("".join(match)) for match in _TARGET.findall(text)}
        # what is referred to by the words of a title, or of a link that has a target itself
        self._named = named - targets
        self._markup = _keeping([x for x in _LINKED.findall(text) if _plain(x) in self._named])
        self._before_text = True  # where fields tell of the document
        self._glossary = -1  # the indent of the glossary that we are in

    def spans(self) -> Iterator[Span]:
        at = block_end(self.lines, 0) if self.text.startswith("PEP: ") else 0  # has a header
        while at < len(self.lines):
            if self.lines[at].core:
                at = yield from self._block(at)
            else:
                at += 1

    def _block(self, at: int) -> Generator[Span, None, int]:
        """What begins in this line; returns where the next thing begins."""
        line = self.lines[at]
        core, indent = line.core, line.indent
        if indent <= self._glossary:
            self._glossary = -1
        if title := self._title(at):
            yield title[0]
            return title[1]
        if core == "..":
            following = self.lines[at + 1 : at + 2]
            return (
                deeper_end(self.lines, at + 1, indent)
                if following and following[0].core
                else at + 1
            )
        if core.startswith(".. "):
            return (yield from self._explicit(at))
        if core.startswith(("+--", "+==")) or _SIMPLE_TABLE.match(core):
            return (yield from self._table(at))
        if core == "__" or core.startswith("__ "):  # a target without a name
            return min(block_end(self.lines, at), deeper_end(self.lines, at + 1, indent))
        if _RULE.match(core) and len(core) > 3:
            return at + 1
        if core.startswith(">>> "):
            return block_end(self.lines, at)
        if core.startswith("| ") and not core.endswith("|"):
            yield self._markup.span(self.text, line.start + indent + 2, line.end, _write)
            return at + 1
        if item := _ITEM.match(core):
            self.lines[at] = line.behind(item.end())
            return at  # and again, with what follows
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
        if (
            over
            and len(rest) == 2
            and rest[0].core
            and rest[1].text == line.text
            and not line.indent
        ):
            before = self._target(rest[0].core)
            return title_span(self.text, rest[0], [line, rest[1]], self._markup, before), at + 3
        if over or not rest or line.indent or rest[0].indent or not _RULE.match(rest[0].core):
            return None
        if len(rest[0].core) < min(4, len(line.core)):
            return None
        return title_span(self.text, line, [rest[0]], self._markup, self._target(line.core)), at + 2

    def _target(self, title: str) -> str:
        """For references to a title: they go on to name it by its words before."""
        name = _QUOTES.sub(lambda quote: quote[1] or "", title)
        if _plain(name) not in self._named:
            return ""
        self._named.remove(_plain(name))
        newline = "\r\n" if "\r\n" in self.text else "\n"
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
            length += (
                len(argument) - len(argument.partition(" ")[2])
                if " " in argument
                else len(argument)
            )
        if not name or name not in _SPEAKING | _HOLDING | _VERSIONED:
            return deeper_end(self.lines, at + 1, indent)
        self._before_text = False
        if name == "glossary":
            self._glossary = indent
        if name in _HOLDING and argument:
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
        """A paragraph, or the term of a definition. It begins behind `length` characters of its
        first line; its other lines stand further in than `hanging`, where that is not negative."""
        first = self.lines[at].behind(length)
        end = at + 1
        if not first.core:
            return end  # what it says begins in the next line
        if hanging >= 0 and (_ITEM.match(first.core) or first.core.startswith(("| ", ".. "))):
            self.lines[at] = first
            return at  # and again, with what follows
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
        is_term = (
            end == at + 1
            and hanging < 0
            and end < len(self.lines)
            and bool(self.lines[end].core)
            and self.lines[end].indent > first.indent
        )
        literal = content.endswith("::")
        if literal:
            stop -= 2
        if is_term and " : " in content:
            stop = start + content.index(" : ")
        # A second line says how far in the rest stands, such as a literal block. A single line
        # before a deeper one would be a term.
        deeper = end < len(self.lines) and self.lines[end].indent > indent
        in_two = end > at + 1 and (hanging >= 0 or deeper)
        write = _hanging(content, indent) if in_two else _write
        if not (is_term and self._glossary >= 0) and start < stop:
            yield self._markup.span(self.text, start, stop, write)
        return (
            self._behind_literal(end, hanging if hanging >= 0 else first.indent) if literal else end
        )

    def _behind_literal(self, at: int, indent: int) -> int:
        end = deeper_end(self.lines, at, indent)
        quoted = self.lines[end : end + 1]
        if not any(line.core for line in self.lines[at:end]) and quoted and quoted[0].core:
            sample = quoted[0].core[0]
            if (
                not sample.isalnum() and quoted[0].indent == indent
            ):  # a literal block with quotation marks
                while end < len(self.lines) and self.lines[end].core.startswith(sample):
                    end += 1
        return end

    def _table(self, at: int) -> Generator[Span, None, int]:
        """To the empty line behind it; in a simple table, behind its last rule."""
        end = block_end(self.lines, at)
        if _SIMPLE_TABLE.match(self.lines[at].core):
            while end < len(self.lines) and not _SIMPLE_TABLE.match(self.lines[end - 1].core):
                end = block_end(self.lines, end + 1)
        yield from table_span(self.text, self.lines[at:end], self._markup, _escaped)
        return end


def _keeping(labels: list[str]) -> Markup:
    """The markup, with links whose words are the name of a target that others refer to."""
    if not labels:
        return MARKUP
    each = [r"\s++".join(map(re.escape, label.split())) for label in labels[:_MOST_LABELS]]
    words = "|".join(each)
    return Markup(Rule(rf"(?<![\w`])`(?:{words})\s++<[^`<>]++>`_(?!_)"), *_RULES)


def _plain(name: str) -> str:
    return " ".join(re.sub(r"\\(.)", r"\1", name).split()).lower()


def _escaped(segment: Segment) -> Segment:
    """With an escaped blank where markup would touch a letter, and be none therefore."""
    items: list[str | Code] = []
    for before, item in zip((" ", *segment), segment, strict=False):
        left = before if isinstance(before, str) else before.raw
        right = item if isinstance(item, str) else item.raw
        starts = isinstance(item, Code) and not item.in_text and item.kind in (Kind.OPEN, Kind.WORD)
        ends = (
            isinstance(before, Code)
            and not before.in_text
            and before.kind in (Kind.CLOSE, Kind.WORD)
        )
        if (starts and left[-1:].isalnum()) or (ends and right[:1].isalnum()):
            items.append("\\ ")
        items.append(item)
    return normalize(items)


def _write(segment: Segment) -> str:
    said = serialize(_escaped(segment))
    # a text that begins like an item would be one
    return "\\" + said if _ITEM.match(said) else said


def _hanging(before: str, indent: int) -> Callable[[Segment], str]:
    """In two lines, the first as long as it was."""
    newline = ("\r\n" if "\r\n" in before else "\n") + " " * indent
    blanks = re.compile(r"(?<!\\) ")

    def write(segment: Segment) -> str:
        said = _write(segment)
        length = len(before.splitlines()[0])
        if "\n" in said:
            return said  # a code of two lines
        blank = blanks.search(said, length) or blanks.search(said)
        return said[: blank.start()] + newline + said[blank.end() :] if blank else said

    return write
