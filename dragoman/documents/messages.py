"""Message files: JSON, Flutter's ARB, YAML, TOML, Java's properties and Fluent; also notebooks,
whose Markdown is stored in JSON.
"""

import codecs
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dragoman.documents import markdown
from dragoman.documents.codes import Value, without_codes
from dragoman.documents.document import (
    DocumentError,
    ReadOptions,
    Span,
    escape,
    newline_of,
    unescape,
)
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize
from dragoman.errors import needs_package
from dragoman.storage.safe_read import parse_json

# JSON and notebooks

# The first alternative also takes a string without an end, which keeps the search linear.
_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.?+)*+(?:"|\Z)|[{}\[\],:]', re.S)


class JsonPlace(NamedTuple):
    """A string or an object that is a value, the path to it, and its range inside its quotes or
    braces.
    """

    path: tuple[str | int, ...]
    start: int
    end: int
    value: str = ""
    is_object: bool = False


def _json_strings(text: str) -> Iterator[JsonPlace]:
    return (place for place in json_places(text) if not place.is_object)


def json_places(text: str) -> Iterator[JsonPlace]:
    """Yield every string and object that is a value; an object follows its content.

    The text must be valid JSON.
    """
    # A small parser of tokens: `path` holds the key or index of each open object or list.
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
            # A string is a key or a value, depending on the last token.
            case quoted:
                value = json.loads(quoted, strict=False)
                if expects_key:
                    key = value
                else:
                    yield JsonPlace(tuple(path), token.start() + 1, token.end() - 1, value)


def load_json(text: str) -> Any:
    try:
        return parse_json(text.removeprefix("\ufeff").encode())
    except ValueError as error:
        raise DocumentError(f"not JSON ({error}).") from None


def json_writer(text: str) -> Callable[[Segment], str]:
    """Return a function that writes the inside of a JSON string.

    Characters outside ASCII are written by number if the file does so.
    """
    by_number = text.isascii() and r"\u" in text
    return lambda segment: json.dumps(serialize(segment), ensure_ascii=by_number)[1:-1]


# The locale of an ARB file.
_LOCALE = re.compile(r'("@@locale"\s*:\s*")[^"\\]*')


def name_locale(text: str, language: str) -> str:
    return _LOCALE.sub(lambda found: found[1] + language.replace("-", "_"), text, count=1)


def json_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    load_json(text)
    write = json_writer(text)
    values = (
        Value(string.path, Span(string.start, string.end, (string.value,), write))
        for string in _json_strings(text)
        # "@key" describes another message in Flutter's files, "$schema" is an address.
        if not any(isinstance(step, str) and step.startswith(("@", "$")) for step in string.path)
    )
    return without_codes(values, options)


def notebook_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find the Markdown cells of a Jupyter notebook, and the headings of an older one."""
    notebook = load_json(text)
    # Before version 4, the cells were in worksheets.
    if not isinstance(notebook, dict) or not {"cells", "worksheets"} & notebook.keys():
        raise DocumentError("not a Jupyter notebook: it has no cells.")
    sources: dict[tuple[str | int, ...], list[JsonPlace]] = {}
    kinds: dict[tuple[str | int, ...], str] = {}
    for string in _json_strings(text):
        if "cells" not in string.path:
            continue
        size = string.path.index("cells") + 2  # of the path to a cell, with its number
        cell, key = string.path[:size], string.path[size : size + 1]
        if key == ("cell_type",):
            kinds[cell] = string.value
        elif key == ("source",):
            sources.setdefault(cell, []).append(string)
    for place, lines in sources.items():
        if kinds.get(place) not in ("markdown", "heading"):
            continue
        # The characters between two strings of a cell: quotes, a comma and an indent.
        between = text[lines[0].end : lines[1].start] if len(lines) > 1 else ""
        source = "".join(line.value for line in lines)
        inner = tuple((source, span) for span in markdown.find_spans(source))
        segment, write = (Code(source, Kind.MARK),), _cell_writer(json_writer(text), between)
        yield Span(lines[0].start, lines[-1].end, segment, write, inner)


def _cell_writer(write: Callable[[Segment], str], between: str) -> Callable[[Segment], str]:
    """Write a cell as one string, or as a list with a string for each line."""
    if not between:
        return write
    return lambda segment: between.join(
        write((line,)) for line in serialize(segment).splitlines(keepends=True)
    )


# YAML

_BRACKET = re.compile(r"[\[\]{}]")
_DEEPEST_YAML = 200
_YAML_PROPERTIES = re.compile(r"(?:[&!]\S*+\s++)*+")  # an anchor, a tag

# Plain words that YAML 1.1 or 1.2 reads as booleans or null.
_YAML_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


def yaml_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    return without_codes(_yaml_values(text), options)


def _yaml_values(text: str) -> Iterator[Value]:
    with needs_package("yaml", "documents"):
        import yaml
    offset = len(text) - len(text.removeprefix("\ufeff"))
    # The parser's time per bracket grows with the number of open ones.
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
        raise DocumentError(f"not YAML ({getattr(error, 'problem', error)}{line}).") from None
    except RecursionError:
        raise DocumentError("it is nested too deeply.") from None
    seen: set[int] = set()  # an anchored node is reached again through each alias
    stack: list[tuple[tuple[str | int, ...], Any]]
    stack = [((), tree) for tree in trees if tree is not None]
    while stack:
        path, node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            stack += [((*path, str(key.value)), value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            stack += [((*path, number), value) for number, value in enumerate(node.value)]
        # The tag is resolved: numbers, dates and booleans have others.
        elif node.tag == "tag:yaml.org,2002:str":
            start, end = node.start_mark.index + offset, node.end_mark.index + offset
            properties = _YAML_PROPERTIES.match(text, start, end)
            start = properties.end() if properties else start
            yield Value(path, _scalar(text[start:end], node.value, node.style, start, end))


def _scalar(raw: str, value: str, style: str | None, start: int, end: int) -> Span:
    """Keep the style of a scalar if it can express the translation; else use double quotes."""

    def write(segment: Segment) -> str:
        text = serialize(segment)
        if style in ("|", ">"):
            return _block(raw, text, style)
        if style == "'" and "\n" not in text:
            return "'" + text.replace("'", "''") + "'"
        plain = style is None and re.fullmatch(r"[^\W\d_][^:#\n\\\"'{}\[\],&*!|>%@`]*", text)
        if plain and text.lower() not in _YAML_WORDS:
            return text
        return json.dumps(text, ensure_ascii=False)

    return Span(start, end, (value,), write)


def _block(raw: str, text: str, style: str) -> str:
    """Write a block scalar; in a folded one (>), an empty line means a line break."""
    head, _, rest = raw.partition("\n")
    body = rest.rstrip()
    blank = re.match(r"[\r\n]*([ \t]*)", body)
    # The block keeps its indent, which its parent's indent determines.
    indent = blank[1] if blank else "  "
    lines = text.rstrip("\n").split("\n")
    joined = ("\n\n" if style == ">" else "\n").join(
        indent + line if line else "" for line in lines
    )
    return f"{head}\n{joined}{rest[len(body) :]}"


# TOML

_TOML_TOKEN = re.compile(
    # A string without an end goes up to the end of the text or line.
    r'"""(?:[^"\\]|\\.?+|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.?+)*+(?:"|(?=\n)|\Z)'
    r"|'[^'\n]*+'|#[^\n]*+|[\[\]{},=\n]",
    re.S,
)


def toml_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    return without_codes(_toml_values(text), options)


def _toml_values(text: str) -> Iterator[Value]:
    """Find every string that is a value: after an equals sign, by itself or in a list."""
    offset = len(text) - len(text.removeprefix("\ufeff"))
    try:
        tomllib.loads(text[offset:])
    except ValueError as error:  # Python also raises it for an integer of thousands of digits
        raise DocumentError(f"not TOML ({error}).") from None
    except RecursionError:
        raise DocumentError("it is nested too deeply.") from None
    is_value = False
    inside: list[str] = []  # open brackets and braces of values
    table = key = ""
    begin = offset  # of the key
    for token in _TOML_TOKEN.finditer(text, offset):
        match token[0]:
            case "=":
                is_value = True
                key = text[begin : token.start()].strip(" \t\"'")
            # Brackets outside of values are table headers.
            case "[" if not inside and not is_value:
                table = text[token.end() : text.find("]", token.end())].strip("[ ")
            case "[" | "{" if is_value:
                inside.append(token[0])
                is_value = token[0] == "["
                begin = token.end()
            case "]" | "}" if inside:
                inside.pop()
                is_value = inside[-1:] == ["["]
            case "," | "\n":
                is_value = inside[-1:] == ["["]
                begin = token.end()
            case raw if raw[0] in "\"'" and is_value:
                value = tomllib.loads(f"x = {raw}")["x"]
                span = Span(*token.span(), (value,), _toml_writer(raw))
                yield Value((*table.split("."), *key.split(".")), span)


def _toml_writer(raw: str) -> Callable[[Segment], str]:
    """Return a writer with the same quotation marks, or with double ones if they cannot hold the
    text.
    """
    quote = raw[:3] if raw[:3] in ('"""', "'''") else raw[0]
    lines = len(quote) == 3
    # A newline right after the opening quotes is not part of the value.
    first = re.match(r"\r?\n", raw[3:]) if lines else None
    begin = quote + (first[0] if first else "")

    def write(segment: Segment) -> str:
        text = serialize(segment)
        control = any(
            c != "\t" and (c < " " or c == "\x7f") for c in text.replace("\n", " " * lines)
        )
        if quote[0] == "'" and "'" not in text and not control:
            return begin + text + quote
        texts = text.split("\n") if lines else [text]
        escaped = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts]
        # JSON's escapes are valid TOML, except that DEL must be escaped, too.
        joined = newline_of(raw).join(escaped).replace("\x7f", "\\u007f")
        return begin.replace("'", '"') + joined + quote.replace("'", '"')

    return write


# Java's properties

# An entry of a properties file. Its value may continue after a backslash at the end of a line.
_PROPERTY = re.compile(
    r"^[ \t\f]*+(?![#!])(?P<key>(?:[^\s:=\\]|\\.)++)[ \t\f]*+[:=]?+[ \t\f]*+"
    r"(?P<value>(?:[^\\\r\n]++|\\\r\n|\\[\s\S])*+)(?=\r?$)",
    re.M,
)
_CONTINUATION = re.compile(r"\\(?:\r\n|\r|\n)[ \t]*")


# The error handler that writes characters as Java's \uXXXX.
BY_JAVA_NUMBER = "dragoman-java"


def _java_numbers(error: UnicodeError) -> tuple[str, int]:
    """Replace the characters that cannot be encoded by UTF-16 units.

    >>> "für 😀".encode("ascii", BY_JAVA_NUMBER).decode()
    'f\\\\u00fcr \\\\ud83d\\\\ude00'
    """
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)), error.end


codecs.register_error(BY_JAVA_NUMBER, _java_numbers)


def property_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    by_number = text.isascii()  # a file for versions of Java before 9 must stay ASCII

    def quoted(value: str) -> str:
        value = escape(value, quotes="")
        return value.encode("ascii", BY_JAVA_NUMBER).decode() if by_number else value

    def values() -> Iterator[Value]:
        for entry in _PROPERTY.finditer(text):
            value = unescape(_CONTINUATION.sub("", entry["value"]))
            span = Span(*entry.span("value"), (value,), lambda s: serialize(s, quoted))
            yield Value(tuple(entry["key"].split(".")), span)

    return without_codes(values(), options)


# Fluent

# A message or attribute. Its value may continue in indented lines; a line that begins with a dot
# is an attribute.
_FLUENT = re.compile(
    r"^(?:-?[A-Za-z][\w-]*+|[ \t]++\.[A-Za-z][\w-]*+)[ \t]*+=[ \t]*+(?P<value>[^\r\n]*+"
    r"(?:\r?\n(?:[ \t]++(?![.\s])[^\r\n]*+|[ \t]*+\}[ \t]*+|[ \t]*+(?=\r?\n[ \t])))*+)",
    re.M,
)
# A variant of a select expression, such as "*[other] ...".
_VARIANT = re.compile(r"^[ \t]*\*?\[[^\]\r\n]+\][ \t]*(?P<value>[^\r\n]*)", re.M)
# An expression in braces, which may contain a string with braces.
_PLACEABLE = re.compile(r'(\{(?:[^{}"]++|"(?:[^"\\\r\n]++|\\.)*+")*+\}|\{[^{}]*+\})')


def fluent_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find messages, attributes, and the variants of select expressions."""
    for message in _FLUENT.finditer(text):
        if "->" not in message["value"]:
            yield _fluent_span(message.start("value"), message["value"])
            continue
        for variant in _VARIANT.finditer(message["value"]):
            start = message.start("value") + variant.start("value")
            yield _fluent_span(start, variant["value"])


def _fluent_span(start: int, raw: str) -> Span:
    """Return the span of a value, its lines joined and the white space at its ends left out."""
    core = raw.strip()
    start += raw.index(core)
    parts = _PLACEABLE.split(re.sub(r"(?:(?<![ \t])[ \t]++)?+\r?\n\s*+", " ", core))
    items = [Code(part) if _PLACEABLE.fullmatch(part) else part for part in parts]
    return Span(start, start + len(core), normalize(items))
