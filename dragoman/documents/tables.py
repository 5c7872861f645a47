"""Tables: csv with any delimiter, and tsv."""

import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import DocumentError, ReadOptions, Span
from dragoman.documents.segment import Segment, serialize


def tsv_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    return _cells(text, "\t", options.columns)


def csv_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    # The delimiter is the candidate that occurs most often in the first row.
    first = text.partition("\n")[0]
    return _cells(text, max(",;\t|", key=first.count), options.columns)


def _cell(delimiter: str) -> re.Pattern[str]:
    # A quoted cell may contain delimiters, line ends and doubled quotation marks.
    return re.compile(
        rf'(?P<quoted>"[^"]*+(?:""[^"]*+)*")|(?P<bare>[^{re.escape(delimiter)}\r\n]*+)', re.S
    )


def _cells(text: str, delimiter: str, columns: tuple[str, ...]) -> Iterator[Span]:
    """Find the cells below the first row, in the chosen columns or in all."""
    cell = _cell(delimiter)
    selected: set[int] = set()
    names: list[str] = []
    row = column = 0
    # Skip a byte order mark.
    at = len(text) - len(text.removeprefix("\ufeff"))
    while at < len(text):
        match = cell.match(text, at)
        assert match is not None, "a cell may be empty"
        raw = match[0]
        value = raw[1:-1].replace('""', '"') if match["quoted"] else raw
        at = match.end()
        if row == 0:
            # The first row has the names of columns, which are not translated.
            names.append(value)
        elif not columns or column in selected:
            inner = (match.start() + 1, at - 1) if match["quoted"] else (match.start(), at)
            yield Span(*inner, (value,), _cell_quoted(bool(match["quoted"]), delimiter))
        if text.startswith(delimiter, at):
            column += 1
            at += 1
            continue
        line_end = re.compile(r"\r\n|\r|\n").match(text, at)
        if line_end is None and at < len(text):
            raise DocumentError(f"row {row + 1} has text after a closing quotation mark.")
        if row == 0:
            selected = _numbers_of(columns, names)
        at = line_end.end() if line_end else at
        row, column = row + 1, 0


def _numbers_of(columns: tuple[str, ...], names: list[str]) -> set[int]:
    numbers = set()
    for name in columns:
        if name in names:
            numbers.add(names.index(name))
        elif name.isdigit() and 1 <= int(name) <= len(names):
            numbers.add(int(name) - 1)
        else:
            raise DocumentError(f"it has no column {name!r}; there are {', '.join(names)}.")
    return numbers


def _cell_quoted(quoted: bool, delimiter: str) -> Callable[[Segment], str]:
    def write(segment: Segment) -> str:
        text = serialize(segment)
        inner = text.replace('"', '""')
        if quoted:
            return inner
        # A bare cell gets quotes if its translation needs them.
        return f'"{inner}"' if any(c in text for c in f'{delimiter}"\r\n') else text

    return write
