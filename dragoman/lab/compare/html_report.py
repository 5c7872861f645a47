"""Write figures and tables as one HTML file, which needs no network and no script."""

import html
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from dragoman.lab.compare.figures import BarChart, Figure, HeatMap, LineChart, Table
from dragoman.lab.compare.svg_plot import draw_bars, draw_lines, draw_map


def page(title: str, body: str) -> str:
    """Return a complete HTML document with this body."""
    style = (resources.files("dragoman.lab.compare") / "report.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>{html.escape(title)}</h1>
{body}
</main>
</body>
</html>
"""


def definition_list(facts: Mapping[str, str]) -> str:
    entries = "".join(
        f"<dt>{html.escape(name)}</dt><dd><code>{html.escape(value)}</code></dd>"
        for name, value in facts.items()
    )
    return f"<dl>{entries}</dl>"


def draw(figure: Figure, titled: bool = True) -> str:
    match figure:
        case LineChart():
            return draw_lines(figure)
        case BarChart():
            return draw_bars(figure)
        case HeatMap():
            return draw_map(figure)
        case Table():
            return _table(figure, titled)


def _table(table: Table, titled: bool) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    def lines() -> Iterator[str]:
        # `tabindex` lets the keyboard scroll a table that is wider than the screen.
        yield '<div class="table" tabindex="0" role="group">'
        if titled:
            yield f"<h4>{html.escape(table.title)}</h4>"
        yield f"<table><thead>{cells('th', table.columns)}</thead><tbody>"
        yield from (cells("td", row) for row in table.rows)
        yield "</tbody></table></div>"

    return "\n".join(lines())


def as_text(table: Table) -> str:
    """Format the table for a terminal."""
    rows = [list(table.columns), *map(list, table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    lines = []
    # Names to the left, numbers to the right.
    for name, *numbers in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *cells]))
    return "\n".join(lines)
