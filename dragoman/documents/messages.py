"""Message files: JSON, Flutter's ARB, YAML, TOML, Java's properties and Fluent. Also notebooks,
whose Markdown stands in JSON."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dragoman.documents import markdown
from dragoman.documents.document import DocumentError, ReadOptions, Span
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize
from dragoman.errors import needs_package
from dragoman.storage.safe_read import parse_json

# JSON and notebooks

_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.?+)*+(?:"|\Z)|[{}\[\],:]', re.S)


class JsonPlace(NamedTuple):
    """A string or an object among the values, and the way to it. Quotation marks and braces stand
    outside of its start and end."""

    path: tuple[str | int, ...]
    start: int
    end: int
    value: str = ""
    is_object: bool = False


def _json_strings(text: str) -> Iterator[JsonPlace]:
    return (place for place in json_places(text) if not place.is_object)


def json_places(text: str) -> Iterator[JsonPlace]:
    """Every string and object that is a value; an object after what is in it. The text has been
    parsed before, so it is JSON."""
    path: list[str | int] = []
    starts: list[int] = []
    key = ""
    in_object: list[bool] = []
    expects_key = False
    for token in _JSON_TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                starts.append(token.end())
                in_object.append(token[0] == "{")
                path.append("" if in_object[-1] else 0)
                expects_key = in_object[-1]
            case "}" | "]":
                start = starts.pop()
                path.pop()
                if in_object.pop():
                    yield JsonPlace(tuple(path), start, token.start(), is_object=True)
                expects_key = False
            case ",":
                expects_key = in_object[-1]
                if not in_object[-1]:
                    path[-1] = int(path[-1]) + 1
            case ":":
                path[-1] = key
                expects_key = False
            case quoted:
                value = json.loads(quoted, strict=False)
                if expects_key:
                    key = value
                else:
                    yield JsonPlace(tuple(path), token.start() + 1, token.end() - 1, value)


def checked_json(text: str) -> Any:
    try:
        return parse_json(text.removeprefix("\ufeff").encode())
    except ValueError as error:
        raise DocumentError(f"it is not JSON ({error}).") from None


def json_writer(text: str) -> Callable[[str], str]:
    """Other characters than ASCII by number, if the file has them so."""
    by_number = text.isascii() and r"\u" in text
    return lambda value: json.dumps(value, ensure_ascii=by_number)[1:-1]


_LOCALE = re.compile(r'("@@locale"\s*:\s*")[^"\\]*')


def name_locale(text: str, language: str) -> str:
    return _LOCALE.sub(lambda found: found[1] + language.replace("-", "_"), text, count=1)


def json_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    checked_json(text)
    quoted = json_writer(text)
    for string in _json_strings(text):
        # "@key" describes another message in Flutter's files, "$schema" is an address
        if not any(isinstance(step, str) and step.startswith(("@", "$")) for step in string.path):
            yield Span(string.start, string.end, (string.value,), lambda s: quoted(serialize(s)))


def notebook_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """The Markdown cells of a Jupyter notebook."""
    if not isinstance(checked_json(text), dict):
        raise DocumentError("it is no notebook.")
    cells: dict[int, list[JsonPlace]] = {}
    kinds: dict[int, str] = {}
    for string in _json_strings(text):
        match string.path:
            case ("cells", int(number), "cell_type"):
                kinds[number] = string.value
            case ("cells", int(number), "source", *_):
                cells.setdefault(number, []).append(string)
    quoted = json_writer(text)
    for number, lines in cells.items():
        if kinds.get(number) != "markdown":
            continue
        between = text[lines[0].end : lines[1].start] if len(lines) > 1 else ""
        cell = "".join(line.value for line in lines)
        inner = tuple((cell, span) for span in markdown.find_spans(cell))
        yield Span(
            lines[0].start,
            lines[-1].end,
            (Code(cell, Kind.MARK),),
            _cell_writer(quoted, between),
            inner,
        )


def _cell_writer(quoted: Callable[[str], str], between: str) -> Callable[[Segment], str]:
    """As one string, or as one for each line."""

    def write(segment: Segment) -> str:
        cell = serialize(segment)
        if not between:
            return quoted(cell)
        return between.join(map(quoted, cell.splitlines(keepends=True)))

    return write


# YAML


_BRACKET = re.compile(r"[\[\]{}]")
_DEEPEST_YAML = 200
_YAML_PROPERTIES = re.compile(r"(?:[&!]\S*+\s++)*+")  # an anchor, a tag

# Words that are no texts, in YAML 1.1 or in 1.2.
_YAML_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


def yaml_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    with needs_package("yaml", "documents"):
        import yaml
    offset = len(text) - len(text.removeprefix("\ufeff"))
    # The parser's time for a bracket grows with those that are open.
    open_ = 0
    for bracket in _BRACKET.findall(text):
        open_ = open_ + 1 if bracket in "[{" else max(0, open_ - 1)
        if open_ > _DEEPEST_YAML:
            raise DocumentError("it is nested too deeply.")
    try:
        trees = list(yaml.compose_all(text[offset:], yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise DocumentError(f"it is not YAML ({getattr(error, 'problem', error)}{line}).") from None
    except RecursionError:
        raise DocumentError("it is nested too deeply.") from None
    seen: set[int] = set()  # what is written once and named again
    stack = [tree for tree in trees if tree is not None]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            stack += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            stack += node.value
        elif node.tag == "tag:yaml.org,2002:str":
            start, end = node.start_mark.index + offset, node.end_mark.index + offset
            properties = _YAML_PROPERTIES.match(text, start, end)
            start = properties.end() if properties else start
            yield _scalar(text[start:end], node.value, node.style, start, end)


def _scalar(raw: str, value: str, style: str | None, start: int, end: int) -> Span:
    def write(segment: Segment) -> str:
        said = serialize(segment)
        if style in ("|", ">"):
            return _block(raw, said, style)
        if style == "'" and "\n" not in said:
            return "'" + said.replace("'", "''") + "'"
        plain = style is None and re.fullmatch(r"[^\W\d_][^:#\n\\\"'{}\[\],&*!|>%@`]*", said)
        if plain and said.lower() not in _YAML_WORDS:
            return said
        return json.dumps(said, ensure_ascii=False)

    return Span(start, end, (value,), write)


def _block(raw: str, said: str, style: str) -> str:
    """A text in lines of its own; where it is folded, an empty line stands for a line's end."""
    head, _, rest = raw.partition("\n")
    body = rest.rstrip()
    blank = re.match(r"[\r\n]*([ \t]*)", body)
    indent = blank[1] if blank else "  "
    lines = said.rstrip("\n").split("\n")
    joined = ("\n\n" if style == ">" else "\n").join(
        indent + line if line else "" for line in lines
    )
    return f"{head}\n{joined}{rest[len(body) :]}"


# TOML

_TOML_TOKEN = re.compile(
    # What has no end goes up to the end of the text or line.
    r'"""(?:[^"\\]|\\.?+|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.?+)*+(?:"|(?=\n)|\Z)'
    r"|'[^'\n]*+'|#[^\n]*+|[\[\]{},=\n]",
    re.S,
)


def toml_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Every string that is a value: behind an equals sign, or in a list behind one."""
    offset = len(text) - len(text.removeprefix("\ufeff"))
    try:
        tomllib.loads(text[offset:])
    except ValueError as error:  # also of Python itself, for an integer of thousands of digits
        raise DocumentError(f"it is not TOML ({error}).") from None
    except RecursionError:
        raise DocumentError("it is nested too deeply.") from None
    is_value = False
    inside: list[str] = []  # brackets and braces of values
    for token in _TOML_TOKEN.finditer(text, offset):
        match token[0]:
            case "=":
                is_value = True
            case "[" | "{" if is_value:
                inside.append(token[0])
                is_value = token[0] == "["
            case "]" | "}" if inside:
                inside.pop()
                is_value = inside[-1:] == ["["]
            case "," | "\n":
                is_value = inside[-1:] == ["["]
            case raw if raw[0] in "\"'" and is_value:
                value = tomllib.loads(f"x = {raw}")["x"]
                yield Span(*token.span(), (value,), _toml_writer(raw))


def _toml_writer(raw: str) -> Callable[[Segment], str]:
    """With the same quotation marks, if the text can stand between them."""
    quote = raw[:3] if raw[:3] in ('"""', "'''") else raw[0]
    lines = len(quote) == 3
    first = re.match(r"\r?\n", raw[3:]) if lines else None  # which is no part of the value
    begin = quote + (first[0] if first else "")

    def write(segment: Segment) -> str:
        said = serialize(segment)
        odd = any(c != "\t" and (c < " " or c == "\x7f") for c in said.replace("\n", " " * lines))
        if quote[0] == "'" and "'" not in said and not odd:
            return begin + said + quote
        texts = said.split("\n") if lines else [said]
        escaped = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts]
        newline = "\r\n" if "\r\n" in raw else "\n"
        joined = newline.join(escaped).replace("\x7f", "\\u007f")
        return begin.replace("'", '"') + joined + quote.replace("'", '"')

    return write


# Java's properties

_PROPERTY = re.compile(
    r"^[ \t\f]*+(?![#!])(?:[^\s:=\\]|\\.)++[ \t\f]*+[:=]?+[ \t\f]*+"
    r"(?P<value>(?:[^\\\r\n]++|\\\r\n|\\[\s\S])*+)(?=\r?$)",
    re.M,
)
_JAVA_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|\r\n[ \t]*|\n[ \t]*|.)", re.S)
_JAVA_MEANINGS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def java_number(character: str) -> str:
    """
    >>> java_number("ü")
    '\\\\u00fc'
    """
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def property_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    by_number = text.isascii()  # older versions of Java read nothing else

    def quoted(value: str) -> str:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        value = value.replace("\r", "\\r")
        if not by_number:
            return value
        return "".join(c if c.isascii() else java_number(c) for c in value)

    for found in _PROPERTY.finditer(text):
        value = _JAVA_ESCAPE.sub(_java_meaning, found["value"])
        yield Span(*found.span("value"), (value,), lambda s: serialize(s, quoted))


def _java_meaning(found: re.Match[str]) -> str:
    what = found[1]
    if what[0] in "\r\n":
        return ""
    if len(what) > 1:
        return chr(int(what[1:], 16))
    return _JAVA_MEANINGS.get(what, what)


# Fluent

_FLUENT = re.compile(
    r"^(?:-?[A-Za-z][\w-]*+|[ \t]++\.[A-Za-z][\w-]*+)[ \t]*+=[ \t]*+(?P<value>[^\r\n]*+"
    r"(?:\r?\n(?:[ \t]++(?![.\s])[^\r\n]*+|[ \t]*+\}[ \t]*+|[ \t]*+(?=\r?\n[ \t])))*+)",
    re.M,
)
_VARIANT = re.compile(r"^[ \t]*\*?\[[^\]\r\n]+\][ \t]*(?P<value>[^\r\n]*)", re.M)
_PLACEABLE = re.compile(r'(\{(?:[^{}"]++|"(?:[^"\\\r\n]++|\\.)*+")*+\}|\{[^{}]*+\})')


def fluent_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Messages, attributes, and the variants of those that choose."""
    for found in _FLUENT.finditer(text):
        if "->" not in found["value"]:
            yield _fluent_span(*found.span("value"), found["value"])
            continue
        move = found.start("value")
        for variant in _VARIANT.finditer(found["value"]):
            start, end = variant.span("value")
            yield _fluent_span(start + move, end + move, variant["value"])


def _fluent_span(start: int, end: int, raw: str) -> Span:
    """Without white space at its ends; lines of one text are one."""
    core = raw.strip()
    start += raw.index(core)
    parts = _PLACEABLE.split(re.sub(r"(?:(?<![ \t])[ \t]++)?+\r?\n\s*+", " ", core))
    items = [Code(part) if _PLACEABLE.fullmatch(part) else part for part in parts]
    return Span(start, start + len(core), normalize(items))
