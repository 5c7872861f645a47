"""Translates table columns: a pandas or Polars Series, an Arrow array, or a list."""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

_BREAK = re.compile(r"(\r\n|\r|\n)")
_TEXT = ("str", "string", "object", "String", "Object", "large_string", "string_view")
_TABLES = ("DataFrame", "LazyFrame", "Table", "RecordBatch", "Expr")


def map_column(translate: Callable[[list[str]], Sequence[str]], values: Iterable[Any]) -> Any:
    """Translate the texts of a column and return the same kind of column.

    A Series keeps its index and name, and an Arrow array remains one. Anything else becomes a list.
    Missing values, numbers, blank texts and the line breaks of a cell are preserved. A line that
    occurs several times is translated once.

    >>> map_column(lambda texts: [text.upper() for text in texts], ["ja", None, "nein", "ja"])
    ['JA', None, 'NEIN', 'JA']
    """
    if isinstance(values, str | bytes):
        raise TypeError("map takes a column, not one text: call the translator with that.")
    package = type(values).__module__.partition(".")[0]
    if package in ("pandas", "polars", "pyarrow") and type(values).__name__ in _TABLES:
        # Iterating over a table yields column names or columns, so no text would be translated.
        kind = type(values).__name__
        raise TypeError(f'map takes one column, not a {kind}: frame["german"], say.')
    series: Any = values
    column = series.to_pylist() if package == "pyarrow" else list(values)
    cells = [_BREAK.split(value) if isinstance(value, str) else [] for value in column]
    lines = [*dict.fromkeys(line for cell in cells for line in cell if line.strip())]
    translations = dict(zip(lines, map(str, translate(lines)), strict=True)) if lines else {}
    mapped = [
        "".join(translations.get(line, line) for line in cell) if cell else value
        for cell, value in zip(cells, column, strict=True)
    ]
    if package == "pandas" and hasattr(values, "index"):  # an Index itself becomes a list
        kind = _kept(series.dtype)
        return type(series)(mapped, index=series.index, name=series.name, dtype=kind)
    if package == "polars":
        return type(series)(series.name, mapped, dtype=_kept(series.dtype))
    if package == "pyarrow":
        arrow = import_module("pyarrow")
        array = arrow.array(mapped, _kept(series.type))
        is_chunked = isinstance(values, arrow.ChunkedArray)
        return arrow.chunked_array([array]) if is_chunked else array
    return mapped


def _kept(kind: Any) -> Any:
    """Return a column's dtype if it can hold any text; categories cannot, and become plain text."""
    return kind if str(kind) in _TEXT else None
