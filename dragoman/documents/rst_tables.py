"""Tables of reStructuredText that are drawn with rules: grid tables and simple tables.

A table is one segment, with breaks between its cells; it is drawn again around its translation.
Tables with cells that span others, or that contain more than a paragraph, stay unchanged.
"""

import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import Span, newline_of
from dragoman.documents.line_markup import Line, Markup, display_width
from dragoman.documents.segment import Code, Kind, Segment, normalize, serialize

_CELL = Code("\0", Kind.BREAK, "cell")
# The beginning of a list, directive or field, or the end of a paragraph before a literal block:
# such cells are more than a paragraph.
_BLOCK = re.compile(r"(?:[-*+|]|\d++[.)]|\.\.|:[\w ]++:)(?:\s|$)|.*+::$")
_RULE = re.compile(r"[-=+ ]++$")

Row = list[str] | str
"""The cells of a row, or the character of a rule between two rows."""


def table_span(
    text: str, lines: list[Line], markup: Markup, escaped: Callable[[Segment], Segment]
) -> Iterator[Span]:
    # A grid table is drawn with +, - and |, a simple one with rows of =.
    grid = lines[0].core.startswith("+")
    # Columns begin at each "+" of a grid's rule, or at each run of "=".
    edges = [m.start() for m in re.finditer(r"\+" if grid else r"(?<!=)=", lines[0].text)]
    rows = _rows(lines, edges, grid)
    if rows is None:
        return
    cells = [cell for row in rows if isinstance(row, list) for cell in row]
    items: list[str | Code] = []
    for cell in cells:
        items += [*markup.items(cell), _CELL]
    newline = newline_of(text) + " " * edges[0]

    def write(segment: Segment) -> str:
        pieces: list[list[str | Code]] = [[]]
        for item in segment:
            if item == _CELL:
                pieces.append([])
            else:
                pieces[-1].append(item)
        cell_texts = [serialize(escaped(normalize(piece))) for piece in pieces]
        return newline.join(_drawn(rows, cell_texts, len(edges) - grid, grid))

    yield Span(lines[0].start + edges[0], lines[-1].end, normalize(items), write)


def _rows(lines: list[Line], edges: list[int], grid: bool) -> list[Row] | None:
    """Return the rows with each cell as one line; None if a cell contains more than that."""
    rows: list[Row] = []
    ends = [*edges[1:], max(len(line.text) for line in lines) + 1]
    for line in lines:
        if _RULE.match(line.core) and line.core[0] in "+=-":
            marks = [m.start() for m in re.finditer(r"\+" if grid else r"(?<![=-])[=-]", line.text)]
            if marks != edges or (line.core[0] == "-" and not grid):
                return None
            rows.append("=" if "=" in line.core else "-")
            continue
        # Text across a column's edge is a cell that spans several columns.
        if any(line.text[edge - 1 : edge].strip() for edge in edges[1:] if not grid):
            return None
        if grid and any(line.text[edge : edge + 1] != "|" for edge in edges):
            return None
        cells = [
            line.text[start + grid : end].strip() for start, end in zip(edges, ends, strict=True)
        ][: len(edges) - grid]
        if any(_BLOCK.match(cell) for cell in cells):
            return None
        last = rows[-1] if rows else ""
        continues = isinstance(last, list) and (grid or not cells[0])
        if isinstance(last, list) and continues:
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(last, cells, strict=True)]
            if grid and not any(cells):  # an empty line starts a second paragraph
                return None
        else:
            rows.append(cells)
    return rows


def _drawn(rows: list[Row], cell_texts: list[str], columns: int, grid: bool) -> Iterator[str]:
    """Yield the lines of a table, its columns as wide as their widest cell."""
    texts = iter(cell_texts)
    after = [[next(texts) for _ in row] if isinstance(row, list) else row for row in rows]
    widths = [
        max(display_width(row[n]) for row in after if isinstance(row, list)) for n in range(columns)
    ]
    for row in after:
        if isinstance(row, str):
            cells = [row * (max(size, 2) + 2 * grid) for size in widths]
            yield f"+{'+'.join(cells)}+" if grid else "  ".join(cells)
        else:
            cells = [
                cell + " " * (max(size, 2) - display_width(cell))
                for cell, size in zip(row, widths, strict=True)
            ]
            yield f"| {' | '.join(cells)} |" if grid else "  ".join(cells).rstrip()
