"""Read parallel text from files.

Files may be plain, `.gz`, `.bz2`, `.tsv`, `.tmx`, `.xliff` or `.po` (`exchange.py`); `-` is
standard input.

Lines end only at "\\n" (a trailing "\\r" is dropped), so other line separators inside a sentence
never shift one side against the other. Line numbers count from 1. Both sides must have the same
number of lines; nothing is dropped silently.
"""

import bz2
import codecs
import gzip
import re
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from dragoman.config.settings import environment_number
from dragoman.errors import CorpusError

MADE = "<BT>"  # prefix of a source that a model back-translated from its target
_LONGEST_LINE = 2**20  # bytes
# Limits against decompression bombs. Text is compressed to a fifth, seldom to a twentieth.
LARGEST_SWELLING = 200
ALWAYS_UNPACKED = 2**26  # bytes that are read at any ratio
_LONGEST_LINE_VARIABLE = "DRAGOMAN_LONGEST_LINE"
BLOCK = 2**20  # bytes to read in one call
_PACKED = {".gz": gzip.open, ".bz2": bz2.open}
_BOM = b"\xef\xbb\xbf"
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[_-][A-Za-z]{2,4})?")


class Pair(NamedTuple):
    line: int
    source: str
    target: str
    crlf: bool = False  # True if either line ended in CR LF


def is_usable(pair: Pair) -> bool:
    """True if neither side is blank."""
    return bool(pair.source.strip()) and bool(pair.target.strip())


def read_lines(path: str | Path, keep_cr: bool = False) -> Iterator[str]:
    """Yield the decoded lines of a text file; raise a CorpusError that locates invalid UTF-8."""
    with open_bytes(path) as file:
        try:
            for number, raw in enumerate(raw_lines(file, path), start=1):
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                raw = raw.removesuffix(b"\n")
                yield _decode(raw if keep_cr else raw.removesuffix(b"\r"), path, number)
        except (OSError, EOFError, zlib.error) as error:
            raise CorpusError(f"{path}: cannot be read ({error}).") from None


def read_blocks(path: str | Path) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield blocks of whole lines, and the end of each line in its block.

    This is faster than `read_lines`, with the same checks. Blocks end with a newline, and keep
    every "\\r".
    """
    limits = _Limits(path)
    rest = b""
    lines = 0
    with open_bytes(path) as file:
        try:
            while raw := file.read(BLOCK):
                limits.check_swelling(len(raw))
                # The last line of a block is incomplete: it continues in the next one.
                whole, newline, rest = (rest + raw).rpartition(b"\n")
                if newline:
                    block, ends = _checked_block(whole + newline, path, lines, limits)
                    yield block, ends
                    lines += len(ends)
                limits.check_line(lines + 1, len(rest))
            # The last line of a file may lack its newline.
            if rest:
                yield _checked_block(rest + b"\n", path, lines, limits, added=1)
        except (OSError, EOFError, zlib.error) as error:
            raise CorpusError(f"{path}: cannot be read ({error}).") from None


def _checked_block(
    block: bytes, path: str | Path, before: int, limits: "_Limits", added: int = 0
) -> tuple[bytes, np.ndarray]:
    """Check that a block is text; return it and the ends of its lines.

    `before`: number of lines before the block. `added`: bytes that are not in the file.
    """
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    # All lines of a block with a few array operations; only a bad block is looked at line by line.
    sizes = np.diff(ends, prepend=0)
    if sizes.max() - added > limits.longest:
        limits.check_line(before + int(np.argmax(sizes > limits.longest)) + 1, int(sizes.max()))
    if not before and block.startswith(_BOM):
        block = block.removeprefix(_BOM)
        ends = ends - len(_BOM)
    # Check the whole block first. Only if it looks wrong, find the line to report.
    try:
        block.decode("utf-8")
        suspicious = b"\0" in block
    except UnicodeDecodeError:
        suspicious = True
    if suspicious:
        for number, line in enumerate(block.split(b"\n")[:-1], start=before + 1):
            _decode(line, path, number)
    return block, ends


def read_pairs(
    source: str | Path, target: str | Path = "", languages: tuple[str, str] = ("", "")
) -> Iterator[Pair]:
    """Yield pairs from two files, or from one file with both sides: `.tsv`, `.tmx`, `.xliff`,
    `.po`, or standard input.

    `languages` selects the languages of a `.tmx`. A name with a * matches many files, which are
    read in the order of their names; line numbers continue from file to file.
    """
    before = 0
    for left, right in (
        paired_shards(source, target) if target else [(name, "") for name in shards(source)]
    ):
        if right:
            before += yield from _read_two(left, right, before)
        elif holds_segments(left):
            before += yield from _read_segments(left, before, languages)
        else:
            before += yield from _read_tsv(left, before)


def holds_segments(name: str | Path) -> bool:
    """True if a file is in a translators' exchange format."""
    from dragoman.text.exchange import READERS  # imports an XML parser, which few files need

    return Path(unpacked_name(name)).suffix.lower() in READERS


def holds_both_sides(name: str | Path) -> bool:
    """True if a file contains sources and targets."""
    return unpacked_name(name).endswith(".tsv") or holds_segments(name)


def _read_segments(
    path: str, before: int, languages: tuple[str, str]
) -> Generator[Pair, None, int]:
    from dragoman.storage.limited import limited_rows
    from dragoman.text.exchange import read_segments

    number = 0
    size = Path(path).stat().st_size if Path(path).is_file() else 0
    rows = limited_rows(read_segments, path, size, path, *languages)
    for number, (source, target) in enumerate(rows, start=1):
        yield Pair(before + number, source, target)
    return number


def paired_shards(source: str | Path, target: str | Path) -> list[tuple[str, str]]:
    """Return the files of both sides as pairs."""
    sources, targets = shards(source), shards(target)
    if len(sources) != len(targets):
        raise CorpusError(
            f"{source} names {len(sources)} files and {target} names {len(targets)}: each file "
            "needs its partner."
        )
    return list(zip(sources, targets, strict=True))


def shards(name: str | Path) -> list[str]:
    """Return the files that a name with a * matches, sorted; any other name matches itself."""
    path = Path(name)
    # A file may have a * in its name.
    if "*" not in path.name or path.exists():
        return [str(name)]
    if paths := sorted(map(str, path.parent.glob(path.name))):
        return paths
    raise CorpusError(f"{name}: no file matches.")


def language_of(path: str | Path) -> str:
    """Return the language that a file name ends in, or an empty string.

    >>> language_of("corpus/train.de.gz"), language_of("notes.txt")
    ('de', '')
    """
    suffix = Path(unpacked_name(path)).suffix.removeprefix(".")
    is_language = suffix not in {"txt", "tsv", "csv", "tok"} and _LANGUAGE.fullmatch(suffix)
    return suffix if is_language else ""


def languages_of_tsv(path: str | Path) -> tuple[str, str]:
    """Return the two languages in the name of a `.tsv` file, or empty strings.

    >>> languages_of_tsv("tatoeba.de-en.tsv.gz")
    ('de', 'en')
    """
    # tatoeba.de-en.tsv, train_de-en.tsv, de-en.tsv
    stem = Path(unpacked_name(path)).stem
    match = re.search(r"(?:^|[._-])([a-z]{2,3})-([a-z]{2,3})$", stem)
    return (match[1], match[2]) if match else ("", "")


def _read_two(source: str, target: str, before: int) -> Generator[Pair, None, int]:
    """Yield pairs numbered from `before` + 1; return their number."""
    if source == target == "-":
        raise CorpusError(
            "standard input can be only one side: send one .tsv, or name the other side's file."
        )
    # The longest, so that a missing line is noticed.
    sides = zip_longest(read_lines(source, keep_cr=True), read_lines(target, keep_cr=True))
    number = 0
    for number, (left, right) in enumerate(sides, start=1):
        if left is None or right is None:
            raise CorpusError(where_the_sides_part(source, target))
        crlf = left.endswith("\r") or right.endswith("\r")
        yield Pair(before + number, left.removesuffix("\r"), right.removesuffix("\r"), crlf)
    return number


def _read_tsv(path: str, before: int) -> Generator[Pair, None, int]:
    number = 0
    for number, line in enumerate(read_lines(path, keep_cr=True), start=1):
        columns = line.removesuffix("\r").split("\t")
        if len(columns) < 2:
            raise no_tab(path, number, line)
        yield Pair(before + number, columns[0], columns[1], line.endswith("\r"))
    return number


def no_tab(path: str, number: int, line: str) -> CorpusError:
    if number == 1 and path != "-" and not holds_both_sides(path):
        return CorpusError(f"{path} has only one side: name the file with its translations, too.")
    return CorpusError(
        f"{path} line {number} has no tab: {_shorten(line)!r}. Expected source TAB target."
    )


class _Limits:
    """Raises errors for input that is not text: endless lines, and decompression bombs."""

    def __init__(self, path: str | Path):
        self.longest = environment_number(
            _LONGEST_LINE_VARIABLE, _LONGEST_LINE, at_least=1, at_most=2**40
        )
        self._path, self._total = path, 0
        # The size of a compressed pipe is unknown, so its expansion is not limited.
        self._packed = (
            Path(path).stat().st_size if is_packed(path) and Path(path).is_file() else None
        )

    def check_line(self, number: int, size: int) -> None:
        if size > self.longest:
            raise CorpusError(
                f"{self._path} line {number} has over {self.longest:,} bytes: is it text? Set "
                f"{_LONGEST_LINE_VARIABLE} to allow it."
            )

    def check_swelling(self, size: int) -> None:
        # A longer limit for lines shows that the user expects unusual files.
        self._total += size
        if self._packed is None or self.longest != _LONGEST_LINE:
            return
        if self._total > LARGEST_SWELLING * self._packed + ALWAYS_UNPACKED:
            raise CorpusError(
                f"{self._path} unpacks to over {LARGEST_SWELLING} times its size: is it text? Set "
                f"{_LONGEST_LINE_VARIABLE}={2 * _LONGEST_LINE} to read it anyway."
            )


def raw_lines(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    """Yield raw lines within the limits."""
    limits = _Limits(path)
    number = 0
    # A limit for readline: an endless line would fill the memory before it could be rejected.
    while raw := file.readline(limits.longest + 1):
        number += 1
        limits.check_line(number, len(raw))
        limits.check_swelling(len(raw))
        yield raw


def raw_blocks(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    """Yield a file's content; limit its expansion, but not the length of lines."""
    limits = _Limits(path)
    while raw := file.read(BLOCK):
        limits.check_swelling(len(raw))
        yield raw


def is_packed(name: str | Path) -> bool:
    return Path(name).suffix in _PACKED


def unpacked_name(name: str | Path) -> str:
    """Return a name without the suffix of a compressed file.

    >>> unpacked_name("a.tsv.gz"), unpacked_name("a.de")
    ('a.tsv', 'a.de')
    """
    return str(name).removesuffix(Path(name).suffix) if is_packed(name) else str(name)


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file, and decompress it according to its suffix; "-" is standard input."""
    if str(path) == "-":
        # The caller closes the file, but others may still need standard input.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return _PACKED.get(Path(path).suffix, open)(path, "rb")  # type: ignore[operator, no-any-return]
    except FileNotFoundError:
        raise CorpusError(f"{path}: no such file.") from None
    except OSError as error:
        raise CorpusError(f"{path}: cannot be opened ({error.strerror}).") from None


def _decode(raw: bytes, path: str | Path, number: int) -> str:
    # Every second byte of Western text in UTF-16 is 0, which is valid UTF-8 too.
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or 4 * raw.count(0) > len(raw):
        raise CorpusError(
            f"{path} line {number} is not UTF-8: it looks like UTF-16. Convert the file, for "
            "example with iconv -f UTF-16 -t UTF-8."
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path} line {number} is not UTF-8: byte {error.start + 1} of the line is "
            f"0x{raw[error.start]:02x}. Convert the file, for example with iconv -f WINDOWS-1252 "
            "-t UTF-8."
        ) from None


def where_the_sides_part(source: str | Path, target: str | Path) -> str:
    """Describe two files of different length, with the line that seems to have no partner.

    Assume that the surplus lines of the longer side are consecutive. For each possible position,
    add up the misfit of all lines before it, paired without a shift, and of all lines after it,
    paired with the shift. The position with the smallest sum wins.
    """
    # Pipes cannot be read again to look for the line.
    if not (Path(source).is_file() and Path(target).is_file()):
        return f"{source} and {target} have different numbers of lines."
    left, right = _features(read_lines(source)), _features(read_lines(target))
    swapped = len(left) < len(right)
    longer, shorter = (right, left) if swapped else (left, right)
    name, other = (target, source) if swapped else (source, target)
    # Two prefix sums cover every position: the cost of the lines before it, and of those after it.
    surplus = len(longer) - len(shorter)
    before = _misfit(longer[: len(shorter)], shorter)  # cost of pairing line i with line i
    after = _misfit(longer[surplus:], shorter)  # cost of pairing line i + surplus with line i
    costs = np.concatenate([[0.0], np.cumsum(before)])
    costs += np.concatenate([np.cumsum(after[::-1])[::-1], [0.0]])
    place = int(np.argmin(costs))
    text = next(line for number, line in enumerate(read_lines(name)) if number == place)
    return (
        f"{name} has {len(longer)} lines, {other} {len(shorter)}: line {place + 1} of {name} "
        f"({_shorten(text)!r}) seems to have no partner."
    )


def _features(lines: Iterable[str]) -> np.ndarray:
    """Return features that survive translation: log length, sum of digits, final punctuation.

    (lines, 3)
    """
    rows = [
        # Numbers and the final punctuation are mostly the same in both languages.
        (np.log1p(len(line)), sum(map(ord, re.findall(r"\d", line))), ord(line[-1]) if line else 0)
        for line in lines
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _misfit(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    differ = left != right
    misfit: np.ndarray = np.abs(left[:, 0] - right[:, 0]) + 2.0 * differ[:, 1] + 0.5 * differ[:, 2]
    return misfit


def _shorten(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
