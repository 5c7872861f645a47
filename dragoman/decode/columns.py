"""Columns of tables, translated in place: of pandas, Polars or Arrow, or a list."""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

_BREAK = re.compile(r"(\r\n|\r|\n)")
_TEXT = ("str", "string", "object", "String", "Object", "large_string", "string_view")
_TABLES = ("DataFrame", "LazyFrame", "Table", "RecordBatch", "Expr")


def map_column(translate: Callable[[list[str]], Sequence[str]], values: Iterable[Any]) -> Any:
    """The same kind of column with its texts translated: a Series stays a Series, with its index
    and name, and an Arrow array stays one; anything else becomes a list.

    Missing values, numbers and blank texts stay as they are, and so do the line breaks of a cell.
    A line that comes several times is translated once.

    >>> map_column(lambda texts: [text.upper() for text in texts], ["ja", None, "nein", "ja"])
    ['JA', None, 'NEIN', 'JA']
    """
    if isinstance(values, str | bytes):
        raise TypeError("map takes a column, not one text: call the translator with that.")
    package = type(values).__module__.partition(".")[0]
    if package in ("pandas", "polars", "pyarrow") and type(values).__name__ in _TABLES:
        # Iterating over a table gives names or columns, and nothing of it would be translated.
        kind = type(values).__name__
        raise TypeError(f'map takes one column, not a {kind}: frame["german"], say.')
    series: Any = values
    column = series.to_pylist() if package == "pyarrow" else list(values)
    cells = [_BREAK.split(value) if isinstance(value, str) else [] for value in column]
    lines = [*dict.fromkeys(line for cell in cells for line in cell if line.strip())]
    made = dict(zip(lines, map(str, translate(lines)), strict=True)) if lines else {}
    mapped = [
        "".join(made.get(line, line) for line in cell) if cell else value
        for cell, value in zip(cells, column, strict=True)
    ]
    if package == "pandas" and hasattr(values, "index"):  # an Index has none
        kind = _kept(series.dtype)
        return type(series)(mapped, index=series.index, name=series.name, dtype=kind)
    if package == "polars":
        return type(series)(series.name, mapped, dtype=_kept(series.dtype))
    if package == "pyarrow":
        arrow = import_module("pyarrow")
        made_array = arrow.array(mapped, _kept(series.type))
        is_chunked = isinstance(values, arrow.ChunkedArray)
        return arrow.chunked_array([made_array]) if is_chunked else made_array
    return mapped


def _kept(kind: Any) -> Any:
    """A column's dtype if it can hold any text: categories cannot, and so become plain text."""
    return kind if str(kind) in _TEXT else None
