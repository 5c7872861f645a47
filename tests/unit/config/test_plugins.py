"""A package that adds a variant and a format by being installed."""

import sys
from pathlib import Path

import pytest

from dragoman.config import make_config, plugins
from dragoman.config.variants import POSITIONS
from dragoman.documents import formats
from dragoman.documents.document import DocumentError
from dragoman.errors import ConfigError

MODULE = """
from dragoman.config.variants import POSITIONS, Position
from dragoman.documents.formats import BY_NAME, Format, add_format

POSITIONS["spiral"] = Position("seen from afar")
add_format(Format("note", (".note",), BY_NAME["text"].read))
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages in which there is one, with nothing imported yet."""
    about = tmp_path / "spiral-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spiral\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nspiral = spiral\n")
    (tmp_path / "spiral.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for table in (POSITIONS, formats.BY_NAME, formats.BY_ENDING):
        for name in ("spiral", "note", ".note"):
            monkeypatch.setitem(table, name, None)  # additions are removed afterwards
            del table[name]
    monkeypatch.delitem(sys.modules, "spiral", raising=False)
    plugins.import_installed.cache_clear()
    return tmp_path


def test_an_installed_package_adds_a_variant(installed: Path) -> None:
    config = make_config("tiny", settings={"model.positions.kind": "spiral"})
    assert config.model.positions.kind == "spiral"


def test_an_installed_package_adds_a_format(installed: Path) -> None:
    assert formats.format_of("letter.note").name == "note"
    assert formats.format_named("note").endings == (".note",)


def test_plugins_are_not_imported_before_a_name_is_unknown(installed: Path) -> None:
    make_config("tiny")
    formats.format_of("letter.txt")
    assert "spiral" not in sys.modules


def test_names_without_a_plugin_stay_unknown(installed: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.positions\.kind is 'circle'"):
        make_config("tiny", settings={"model.positions.kind": "circle"})
    with pytest.raises(DocumentError, match="has no supported format"):
        formats.format_of("letter.circle")


def test_an_error_names_a_plugin_that_cannot_be_imported(installed: Path) -> None:
    (installed / "spiral.py").write_text("import a_module_that_nobody_has\n")
    with pytest.raises(ConfigError, match=r"the plug-in spiral \(spiral\) cannot be imported"):
        formats.format_of("letter.note")
