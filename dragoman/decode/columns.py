"""Columns of tables: what somebody holds in pandas, Polars or a list, translated in place."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def map_column(translate: Callable[[list[str]], Sequence[str]], values: Iterable[Any]) -> Any:
    """The same kind of column with its texts translated: a Series stays a Series, with its index
    and name; anything else becomes a list.

    Missing values, numbers and blank texts stay as they are. A text that comes several times is
    translated once.

    >>> map_column(lambda texts: [text.upper() for text in texts], ["ja", None, "nein", "ja"])
    ['JA', None, 'NEIN', 'JA']
    """
    if isinstance(values, str | bytes):
        raise TypeError("map takes a column, not one text: call the translator with that.")
    column = list(values)
    is_text = [isinstance(value, str) and bool(value.strip()) for value in column]
    texts = [*dict.fromkeys(value for value, text in zip(column, is_text, strict=True) if text)]
    made = dict(zip(texts, map(str, translate(texts)), strict=True)) if texts else {}
    mapped = [made[v] if text else v for v, text in zip(column, is_text, strict=True)]
    package = type(values).__module__.partition(".")[0]
    series: Any = values
    if package == "pandas":
        kind = _kept(series.dtype)
        return type(series)(mapped, index=series.index, name=series.name, dtype=kind)
    if package == "polars":
        return type(series)(series.name, mapped, dtype=_kept(series.dtype))
    return mapped


def _kept(kind: Any) -> Any:
    """A column's dtype if it can hold any text: categories cannot, and so become plain text."""
    return kind if str(kind) in ("str", "string", "object", "String", "Object") else None
