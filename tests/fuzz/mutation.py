"""Changes to a file that know its structure: numbers at their limits, tokens repeated and nested.

A binary file is a list of parts: bytes, and rows of little-endian numbers. Texts are cut into
tokens. Nothing here knows how a reader can fail.
"""

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}
LIMITS = sorted(
    {0, 1, 2, 3, 7, 10, 100}
    | {2**bits + near for bits in (7, 8, 15, 16, 31, 32, 62, 63, 64) for near in (-2, -1, 0)}
)
EDGES = [0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
# Longer repetitions would only take longer to find what these find.
LARGEST_TEXT = 200_000


@dataclass(frozen=True)
class Row:
    """Numbers of one kind, by the letter that `struct` has for it."""

    kind: str
    numbers: tuple[int, ...]


Parts: TypeAlias = list[Row | bytes]


def row(kind: str, raw: bytes, at: int, count: int) -> Row:
    return Row(kind, struct.unpack_from(f"<{count}{kind}", raw, at))


def joined(parts: Parts) -> bytes:
    return b"".join(part if isinstance(part, bytes) else _packed(part) for part in parts)


def _packed(part: Row) -> bytes:
    size = SIZES[part.kind]
    return b"".join((n % 2 ** (8 * size)).to_bytes(size, "little") for n in part.numbers)


def limit(draw: random.Random) -> int:
    return draw.choice([1, 1, -1]) * draw.choice(LIMITS)


def change_parts(draw: random.Random, parts: Parts) -> Parts:
    """One to three changes of numbers, seldom of other bytes."""
    parts = list(parts)
    rows = [place for place, part in enumerate(parts) if isinstance(part, Row) and part.numbers]
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.1 or not rows:
            place = draw.randrange(len(parts))
            if isinstance(part := parts[place], bytes):
                parts[place] = change_bytes(draw, part)
            continue
        # Rows that say much are short, so each row is as likely as any other.
        place = draw.choice(rows)
        part = parts[place]
        assert isinstance(part, Row)
        parts[place] = replace(part, numbers=change_numbers(draw, part.numbers))
    return parts


def change_numbers(draw: random.Random, numbers: Sequence[int]) -> tuple[int, ...]:
    changed = [*numbers]
    if not changed:
        return (limit(draw),)
    start = draw.randrange(len(changed))
    count = draw.choice([1, 1, 2, 3, 4, len(changed) - start])
    window = slice(start, start + count)
    before = changed[window]
    step = limit(draw)
    near = draw.choice(EDGES)
    changes: list[Callable[[], list[int]]] = [
        lambda: [limit(draw) for _ in before],
        lambda: [limit(draw)] * len(before),
        # as offsets go up, by a step that may pass all limits
        lambda: [before[0] + step * (1 + i) for i in range(len(before))],
        lambda: [number + draw.choice([-1, 1]) for number in before],
        lambda: [number + step for number in before],
        lambda: before[::-1],
        list,
        lambda: before * 2,
        # a count or an offset at an edge, and the next one so that both add up to little
        lambda: [near, *before[1:]],
        lambda: [near, *[draw.choice([-1, 1]) - near for _ in before[1:]]],
    ]
    changed[window] = draw.choice(changes)()
    return tuple(changed)


def change_bytes(draw: random.Random, raw: bytes, first: int = 0) -> bytes:
    changed = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(first, max(first + 1, len(changed)))
        length = draw.choice([0, 1, 1, 1, 4])
        changed[place : place + length] = draw.randbytes(draw.choice([length, length, 0, 3]))
    return bytes(changed)


def change_window(draw: random.Random, raw: bytes) -> bytes:
    """A number at a place where there may be one: a file whose layout is not written down here."""
    changed = bytearray(raw)
    for _ in range(draw.randint(1, 3)):
        kind = draw.choice("BHIQ")
        place = draw.randrange(max(1, len(changed)))
        changed[place : place + SIZES[kind]] = _packed(Row(kind, (limit(draw),)))
    return bytes(changed)


# Texts

_TOKEN = re.compile(r"<[^<>]*>|\\?[A-Za-z_]+|-?\d+|\s+|.", re.S)
_NUMBER = re.compile(r"-?\d+")


def change_text(draw: random.Random, text: str, pieces: Sequence[str] = ()) -> str:
    """One to three changes of tokens. `pieces`: further tokens of the format."""
    for _ in range(draw.randint(1, 3)):
        text = draw.choice(
            [_numbered, _numbered, _repeated, _nested, _lengthened, _shuffled, _inserted]
        )(draw, text, pieces)
        text = text[:LARGEST_TEXT]
    return text


def _times(draw: random.Random, size: int) -> int:
    return min(draw.choice([2, 10, 100, 1000, 10_000, 100_000]), LARGEST_TEXT // max(1, size))


def _numbered(draw: random.Random, text: str, pieces: Sequence[str]) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return _repeated(draw, text, pieces)
    match = draw.choice(found)
    number = draw.choice([str(limit(draw)), str(limit(draw)), "9" * 5000, "1e999", ""])
    return text[: match.start()] + number + text[match.end() :]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _window(draw: random.Random, tokens: Sequence[str]) -> slice:
    start = draw.randrange(max(1, len(tokens)))
    return slice(start, start + draw.choice([1, 1, 2, 3, 6]))


def _repeated(draw: random.Random, text: str, pieces: Sequence[str]) -> str:
    tokens = _tokens(text)
    window = _window(draw, tokens)
    run = "".join(tokens[window])
    tokens[window] = [run * _times(draw, len(run))]
    return "".join(tokens)


def _nested(draw: random.Random, text: str, pieces: Sequence[str]) -> str:
    """Repeat the tokens around a window: all opening tokens, then all closing ones."""
    tokens = _tokens(text)
    window = _window(draw, tokens)
    first, last = window.start, min(window.stop, len(tokens) - 1)
    if first >= last:
        return text
    times = _times(draw, len(tokens[first] + tokens[last]))
    tokens[first], tokens[last] = tokens[first] * times, tokens[last] * times
    return "".join(tokens)


def _lengthened(draw: random.Random, text: str, pieces: Sequence[str]) -> str:
    words = list(re.finditer(r"\w", text))
    if not words:
        return text
    match = draw.choice(words)
    return text[: match.start()] + match[0] * _times(draw, 1) + text[match.end() :]


def _shuffled(draw: random.Random, text: str, pieces: Sequence[str]) -> str:
    tokens = _tokens(text)
    first, second = _window(draw, tokens), _window(draw, tokens)
    moved = tokens[first]
    if draw.random() < 0.5:
        tokens[first] = []
    tokens[second.start : second.start] = moved
    return "".join(tokens)


def _inserted(draw: random.Random, text: str, pieces: Sequence[str]) -> str:
    tokens = _tokens(text)
    piece = draw.choice([*pieces, "\0", "\ufeff", "\r", "\u2028", "\ud800"])
    place = draw.randrange(len(tokens) + 1)
    tokens[place:place] = [piece * draw.choice([1, 1, _times(draw, len(piece))])]
    return "".join(tokens)


_DECLARATIONS = [
    '<!ENTITY e "v">', "<!ENTITY e SYSTEM 'file:///etc/hostname'>", '<!ENTITY % e "v">%e;',
    '<!ENTITY f "&e;&e;&e;&e;">', '<!ATTLIST TAG a CDATA "v">', "<!ELEMENT TAG ANY>",
    "<!NOTATION n SYSTEM 'v'>", "<!-- v -->", "<?p v?>",
]  # fmt: skip


def _defaulted(draw: random.Random, text: str) -> str:
    """A long default for an attribute of an element that occurs, and the element many times."""
    elements = list(re.finditer(r"<([A-Za-z][\w:.-]*)(?:[^<>]*/>|[^<>]*>[^<>]*</\1>)", text))
    if not elements:
        return text
    element = draw.choice(elements)
    value = "v" * draw.choice([1, 1000, 50_000, 100_000])
    subset = f'<!DOCTYPE a [<!ATTLIST {element[1]} a CDATA "{value}">]>'
    text = (
        text[: element.end()] + element[0] * _times(draw, len(element[0])) + text[element.end() :]
    )
    prolog = re.match(r"<\?xml[^>]*>", text)
    at = prolog.end() if prolog else 0
    return text[:at] + subset + text[at:]


def change_xml(draw: random.Random, text: str, pieces: Sequence[str] = ()) -> str:
    """Change the text like any other, or declare an internal subset of any length."""
    kind = draw.random()
    if kind < 0.1:
        return _defaulted(draw, text)
    if kind < 0.45:
        names = re.findall(r"<([A-Za-z][\w:.-]*)", text)
        declared = "".join(draw.choices(_DECLARATIONS, k=draw.choice([1, 1, 2, 20])))
        declared = declared.replace("TAG", draw.choice(names or ["a"]))
        long = "v" * draw.choice([1, 1000, 50_000])
        subset = f"<!DOCTYPE {draw.choice(names or ['a'])} [{declared.replace('v', long)}]>"
        prolog = re.match(r"<\?xml[^>]*>", text)
        at = prolog.end() if prolog else 0
        text = text[:at] + subset + text[at:]
        if names and draw.random() < 0.5:
            at = draw.choice([match.end() for match in re.finditer(r">", text)])
            text = text[:at] + "&e;" * draw.choice([1, 100]) + text[at:]
    return change_text(draw, text, pieces)


def change_json(draw: random.Random, raw: bytes) -> bytes:
    """A header in JSON: numbers at their limits, or any other change."""
    return change_text(draw, raw.decode(), ["[", "]", "{", "}", '"a":', "null", "1e999"]).encode(
        "utf-8", "replace"
    )


def change_header(draw: random.Random, raw: bytes) -> bytes:
    """A safetensors file."""
    (length,) = struct.unpack_from("<Q", raw)
    header, data = raw[8 : 8 + length], raw[8 + length :]
    if draw.random() < 0.6:
        tree = json.loads(header)
        facts = tree[draw.choice([name for name in tree if name != "__metadata__"])]
        key = draw.choice(["shape", "data_offsets"])
        facts[key] = [*change_numbers(draw, facts[key])]
        header = json.dumps(tree).encode()
    else:
        header = change_json(draw, header)
    size = len(header) if draw.random() < 0.8 else limit(draw) % 2**64
    return struct.pack("<Q", size) + header + data
