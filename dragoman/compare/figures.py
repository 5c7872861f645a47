"""What a report shows, as plain data: curves, bars, maps, tables.

All of it goes through JSON, so that a report can be written again without running anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Series:
    """One curve; `low` and `high` are the ends of its error bars, where it has any."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Lines:
    """Curves over one pair of axes; labels carry units."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    top: float | None = None  # a value that the vertical axis reaches in any case
    x_mark: tuple[float, str] | None = None  # a vertical line and its name
    y_mark: tuple[float, str] | None = None  # a horizontal one: chance, say


@dataclass(frozen=True)
class Bars:
    """`low` and `high` are the ends of error bars; bars that are `faint` stand back."""

    title: str
    label: str
    names: Sequence[str]
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    faint: Sequence[bool] = ()


@dataclass(frozen=True)
class Map:
    """Weights from 0 to 1: rows ask, columns are looked at."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Table:
    """A folded table opens at a click: what was tuned, and other details."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


Figure = Lines | Bars | Map | Table
_KINDS: dict[str, type[Figure]] = {kind.__name__: kind for kind in (Lines, Bars, Map, Table)}


def to_tree(figure: Figure) -> dict[str, Any]:
    return {"kind": type(figure).__name__, **asdict(figure)}


def from_tree(tree: Mapping[str, Any]) -> Figure:
    fields = {name: value for name, value in tree.items() if name != "kind"}
    if "series" in fields:
        fields["series"] = [Series(**series) for series in fields["series"]]
    for mark in ("x_mark", "y_mark"):
        if fields.get(mark):
            fields[mark] = tuple(fields[mark])
    return _KINDS[tree["kind"]](**fields)
