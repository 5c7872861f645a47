"""The figures of a report as plain data: line charts, bar charts, heat maps, tables.

They are saved as JSON, so a report can be rebuilt without repeating any run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Series:
    """One curve; `low` and `high` are the ends of its error bars, if it has any."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class LineChart:
    """Curves over one pair of axes; the labels include units."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    top: float | None = None  # a value that the vertical axis always reaches
    x_mark: tuple[float, str] | None = None  # a labeled vertical line, such as the trained length
    y_mark: tuple[float, str] | None = None  # a labeled horizontal line, such as chance


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars; `low` and `high` are the ends of error bars, `faint` bars are pale."""

    title: str
    label: str
    names: Sequence[str]
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    faint: Sequence[bool] = ()


@dataclass(frozen=True)
class HeatMap:
    """Attention weights from 0 to 1: a row for each query, a column for each key."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Table:
    """A table of text cells; a `folded` one, for details, opens on a click."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


Figure = LineChart | BarChart | HeatMap | Table
# Saved findings use these names, so they stay when a class is renamed.
_KINDS: dict[str, type[Figure]] = {
    "Lines": LineChart, "Bars": BarChart, "Map": HeatMap, "Table": Table
}  # fmt: skip


def to_tree(figure: Figure) -> dict[str, Any]:
    kind = next(name for name, cls in _KINDS.items() if cls is type(figure))
    return {"kind": kind, **asdict(figure)}


def from_tree(tree: Mapping[str, Any]) -> Figure:
    fields = {name: value for name, value in tree.items() if name != "kind"}
    if "series" in fields:
        fields["series"] = [Series(**series) for series in fields["series"]]
    for mark in ("x_mark", "y_mark"):
        if fields.get(mark):  # JSON turned the pair into a list
            fields[mark] = tuple(fields[mark])
    return _KINDS[tree["kind"]](**fields)
