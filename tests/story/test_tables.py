"""The recipes of docs/clients.md: pandas, Polars, DuckDB, IPython. Each is what a reader would
write, and runs with the package itself."""

import pytest

import dragoman


@pytest.fixture(scope="module")
def translator(trained):
    return dragoman.load(trained, device="cpu")


class Counted:
    """Counts what reaches the search."""

    def __init__(self, translator, monkeypatch):
        self.texts: list[str] = []
        plain = translator.translate

        def counting(texts, *arguments, **options):
            self.texts += texts
            return plain(texts, *arguments, **options)

        monkeypatch.setattr(translator, "translate", counting)


def test_a_pandas_column_keeps_index_missing_values_and_name(translator, monkeypatch) -> None:
    """pandas 3.1.1"""
    pandas = pytest.importorskip("pandas")
    counted = Counted(translator, monkeypatch)
    column = pandas.Series(["eins", None, "zwei drei", "eins", ""], index=[7, 3, 9, 1, 2], name="a")
    mapped = translator.map(column, to="en")
    assert counted.texts == ["eins", "zwei drei"]
    assert mapped.index.tolist() == [7, 3, 9, 1, 2]
    assert mapped.name == "a"
    assert mapped.isna().tolist() == [False, True, False, False, False]
    assert mapped.dropna().tolist() == ["one", "two three", "one", ""]
    mixed = pandas.Series(["eins", 4, None], dtype=object)
    assert translator.map(mixed).tolist()[:2] == ["one", 4]


def test_a_polars_column_is_translated_in_place(translator) -> None:
    """Polars 2.1.0"""
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"german": ["eins", None, "zwei"]})
    found = frame.with_columns(
        polars.col("german").map_batches(translator.map, return_dtype=polars.String).alias("said")
    )
    assert found["said"].to_list() == ["one", None, "two"]
    assert translator.map(frame["german"]).name == "german"


def test_duckdb_translates_by_a_function_of_sql(translator) -> None:
    """DuckDB 2.0.0"""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.create_function(
            "translate_text", lambda text: str(translator(text)), ["VARCHAR"], "VARCHAR"
        )
        rows = database.sql(
            "select translate_text(a) from (values ('eins'), (null), ('zwei drei')) as t(a)"
        ).fetchall()
    assert rows == [("one",), (None,), ("two three",)]


def test_duckdb_translates_whole_vectors_through_arrow(translator, monkeypatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    counted = Counted(translator, monkeypatch)

    def several(column):  # with one argument, as the function of SQL has
        return translator.map(column)

    with duckdb.connect() as database:
        database.create_function("translate_text", several, ["VARCHAR"], "VARCHAR", type="arrow")
        rows = database.sql(
            "select translate_text(a) from (values ('eins'), (null), ('zwei'), ('eins')) as t(a)"
        ).fetchall()
    assert rows == [("one",), (None,), ("two",), ("one",)]
    assert counted.texts == ["eins", "zwei"]


@pytest.fixture
def shell(translator, monkeypatch, capsys):
    """IPython 9.18.1"""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    from dragoman.inspect import notebook

    monkeypatch.setattr(notebook, "_translator", lambda folder: translator)
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "dragoman")
    capsys.readouterr()
    return shell


def test_a_notebook_has_a_magic(shell, capsys) -> None:
    shell.run_cell("%%translate de en\neins\n\nzwei drei\n")
    assert capsys.readouterr().out == "one\n\ntwo three\n"


def test_the_magic_takes_the_language_that_its_line_names(shell, translator, monkeypatch) -> None:
    asked: list[dict[str, str]] = []

    def note(lines, **options):
        asked.append(options)
        return []

    monkeypatch.setattr(translator, "translate", note)
    shell.run_cell("%%translate de en\neins\n")
    shell.run_cell("%%translate en\neins\n")
    assert asked == [{"source": "de", "to": "en"}, {"source": "", "to": "en"}]


def test_a_mistake_in_a_notebook_is_one_line(shell, capsys) -> None:
    shell.run_cell("%%translate tlh\neins\n")
    shown = capsys.readouterr()
    (line,) = (shown.out + shown.err).splitlines()
    assert line.startswith("UsageError: this model does not translate into 'tlh'")
