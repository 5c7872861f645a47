"""Columns of others' tables, with a translator that shouts."""

import pytest

from dragoman.decode.columns import map_column


def shout(texts):
    return [text.upper() for text in texts]


def test_a_category_becomes_text_and_loses_nothing() -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(["ja", "nein", None, "ja"], dtype="category", index=[3, 1, 2, 0])
    mapped = map_column(shout, column)
    assert mapped.index.tolist() == [3, 1, 2, 0]
    assert mapped.dropna().tolist() == ["JA", "NEIN", "JA"]
    polars = pytest.importorskip("polars")
    for kind in (polars.Categorical, polars.Enum(["ja", "nein"])):
        column = polars.Series("a", ["ja", None, "nein"], dtype=kind)
        assert map_column(shout, column).to_list() == ["JA", None, "NEIN"]


def test_a_column_of_text_keeps_its_kind_even_if_all_is_missing() -> None:
    pandas = pytest.importorskip("pandas")
    for kind in ("str", "object", "string"):
        column = pandas.Series([None, None], dtype=kind)
        assert map_column(shout, column).dtype == column.dtype
    polars = pytest.importorskip("polars")
    assert map_column(shout, polars.Series([None], dtype=polars.String)).dtype == polars.String


def test_a_text_is_no_column() -> None:
    with pytest.raises(TypeError, match="a column, not one text"):
        map_column(shout, "ja")
