"""Columns of other packages' tables, with a translator that returns capitals."""

import pytest

from dragoman.decode.columns import map_column


def shout(texts):
    return [text.upper() for text in texts]


def test_a_categorical_column_becomes_text() -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(["ja", "nein", None, "ja"], dtype="category", index=[3, 1, 2, 0])
    mapped = map_column(shout, column)
    assert mapped.index.tolist() == [3, 1, 2, 0]
    assert mapped.dropna().tolist() == ["JA", "NEIN", "JA"]
    polars = pytest.importorskip("polars")
    for kind in (polars.Categorical, polars.Enum(["ja", "nein"])):
        column = polars.Series("a", ["ja", None, "nein"], dtype=kind)
        assert map_column(shout, column).to_list() == ["JA", None, "NEIN"]


def test_a_text_column_keeps_its_dtype_even_if_all_values_are_missing() -> None:
    pandas = pytest.importorskip("pandas")
    for kind in ("str", "object", "string"):
        column = pandas.Series([None, None], dtype=kind)
        assert map_column(shout, column).dtype == column.dtype
    polars = pytest.importorskip("polars")
    assert map_column(shout, polars.Series([None], dtype=polars.String)).dtype == polars.String


def test_map_rejects_a_single_text() -> None:
    with pytest.raises(TypeError, match="a column, not one text"):
        map_column(shout, "ja")


def test_a_cell_keeps_its_line_breaks() -> None:
    asked: list[str] = []

    def join(texts):
        """Like a model, accepts no line breaks."""
        asked.extend(texts)
        return [" ".join(text.upper().split()) for text in texts]

    cells = ["ja\nnein", "nein\r\n\r\nja\r\n", " \n", "ja"]
    assert map_column(join, cells) == ["JA\nNEIN", "NEIN\r\n\r\nJA\r\n", " \n", "JA"]
    assert asked == ["ja", "nein"]


def test_map_rejects_a_table() -> None:
    """Otherwise the result would be the names of its columns, untranslated."""
    for package in ("pandas", "polars"):
        frame = pytest.importorskip(package).DataFrame({"german": ["ja"]})
        with pytest.raises(TypeError, match="one column, not a DataFrame"):
            map_column(shout, frame)


def test_an_index_becomes_a_list() -> None:
    pandas = pytest.importorskip("pandas")
    assert map_column(shout, pandas.Index(["ja", "nein"])) == ["JA", "NEIN"]


def test_an_arrow_array_remains_an_arrow_array() -> None:
    """Its elements are not `str`, so a naive loop would translate nothing."""
    arrow = pytest.importorskip("pyarrow")
    column = arrow.array(["ja", None, "", "ja"], arrow.large_string())
    mapped = map_column(shout, column)
    assert mapped.type == column.type
    assert mapped.to_pylist() == ["JA", None, "", "JA"]
    chunked = map_column(shout, arrow.chunked_array([["ja"], ["nein", None]]))
    assert isinstance(chunked, arrow.ChunkedArray)
    assert chunked.to_pylist() == ["JA", "NEIN", None]
    encoded = map_column(shout, arrow.array(["ja", "nein"]).dictionary_encode())
    assert encoded.to_pylist() == ["JA", "NEIN"]
    with pytest.raises(TypeError, match="one column, not a Table"):
        map_column(shout, arrow.table({"german": ["ja"]}))
