"""One HTML file with every claim: its words, its figures, what was found.

It asks nothing of any network.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from dragoman.compare.figures import Bars, Figure, Finding, Lines, Map, Table
from dragoman.compare.plot import draw_bars, draw_lines, draw_map


@dataclass(frozen=True)
class Chapter:
    """A claim and what came out."""

    id: str
    title: str
    claim: str
    finding: Finding


def write_report(chapters: Sequence[Chapter], facts: Mapping[str, str]) -> str:
    """`facts`: what the whole comparison was run on, by name."""
    style = (resources.files("dragoman.compare") / "report.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{c.id}">{c.id} {html.escape(c.title)}</a>' for c in chapters)
    decided = sum(chapter.finding.verdict != "undecided" for chapter in chapters)
    facts_shown = "".join(
        f"<br>{html.escape(name)}: <code>{html.escape(value)}</code>"
        for name, value in facts.items()
    )
    body = "\n".join(map(_section, chapters))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the lectures claim, run and drawn</title>
<style>
{style}</style>
</head>
<body>
<h1>What the lectures claim, run and drawn</h1>
<p>Every figure and every number below was computed by this run;
{decided} of {len(chapters)} claims are decided by it.</p>
<p class="quiet">Made by dragoman compare.{facts_shown}</p>
<nav aria-label="Claims">{links}</nav>
{body}
</body>
</html>
"""


def _section(chapter: Chapter) -> str:
    finding = chapter.finding
    figures = "\n".join(map(_draw, finding.figures))
    return f"""<section id="{chapter.id}">
<header class="claim"><span class="id">{chapter.id}</span><h2>{html.escape(chapter.title)}</h2>
<span class="{finding.verdict.replace(" ", "-")}">{finding.verdict}</span></header>
<blockquote>{html.escape(chapter.claim)}</blockquote>
<div class="figures">
{figures}
</div>
<p>{html.escape(" ".join(finding.sentences))}</p>
</section>"""


def _draw(figure: Figure) -> str:
    match figure:
        case Lines():
            return draw_lines(figure)
        case Bars():
            return draw_bars(figure)
        case Map():
            return draw_map(figure)
        case Table():
            return _table(figure)


def _table(table: Table) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    def lines() -> Iterator[str]:
        yield f'<div class="table"><h3>{html.escape(table.title)}</h3><table>'
        yield f"<thead>{cells('th', table.columns)}</thead><tbody>"
        yield from (cells("td", row) for row in table.rows)
        yield "</tbody></table></div>"

    return "\n".join(lines())


def as_text(table: Table) -> str:
    """The same table for a terminal."""
    rows = [list(table.columns), *map(list, table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    lines = []
    for name, *numbers in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *cells]))
    return "\n".join(lines)
