"""Random mutants: where they are placed, which tests judge them, and how a sample resumes."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.documents.formats import translated_name

FILE = "dragoman/text/numbers.py"


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    for name in ("run", "sample"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("sample")


def test_a_sample_goes_on_where_it_was_left(sample: ModuleType, tmp_path: Path) -> None:
    def left() -> list[str]:
        log = sample.Log(tmp_path / "log")
        return [place.name for place in sample.to_judge(log, 3, 7, FILE, again=False)]

    first, second, third = left()
    log = sample.Log(tmp_path / "log")
    at = {place.name: place for place in sample.places(FILE)}
    log.write(at[first], sample.KILLED, "a test")
    log.write(at[second], sample.SURVIVED)
    assert left() == [third]
    again = sample.to_judge(sample.Log(tmp_path / "log"), 3, 7, FILE, again=True)
    assert [place.name for place in again] == [second, third]
    # A place of code that has changed since is no longer judged.
    log.write(at[third]._replace(block=f"{FILE}:gone/0"))
    assert left() == [third]


def test_a_place_that_is_gone_is_replaced_unless_a_test_had_noticed_it(
    sample: ModuleType, tmp_path: Path
) -> None:
    place = sample.places(FILE)[0]
    gone = {
        state: place._replace(block=f"{FILE}:gone/{number}")
        for number, state in enumerate((sample.KILLED, sample.SURVIVED, ""))
    }
    log = sample.Log(tmp_path / "log")
    for state, old in gone.items():
        log.write(old, state)
    chosen = sample.to_judge(log, 3, 7, FILE, again=True)
    assert len(chosen) == 2
    assert not {place.name for place in chosen} & {old.name for old in gone.values()}


def test_the_tests_of_a_module_are_near_it(sample: ModuleType) -> None:
    doctests, first, *_ = sample.tests_near(FILE)
    assert (doctests, first) == (FILE, "tests/unit/text/test_numbers.py")


def test_tests_that_call_a_command_are_near_it(sample: ModuleType) -> None:
    near = sample.tests_near("dragoman/cli/evaluate.py")
    assert {"tests/story/test_command_line.py", "tests/story/test_confidence.py"} <= {*near[1:4]}


@pytest.mark.parametrize(
    "file", ["dragoman/text/repeats.py", "dragoman/text/translation_memory.py"]
)
def test_every_mutant_of_a_file_is_code_that_python_accepts(sample: ModuleType, file: str) -> None:
    good = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    for place in sample.places(file):
        changed = sample.broken(place)
        compile(changed, file, "exec")
        assert changed != sample.ast.unparse(sample.ast.parse(good))


def test_a_mutant_is_put_into_a_function_that_others_have_imported(sample: ModuleType) -> None:
    returns = [
        p for p in sample.places("dragoman/documents/formats.py") if "-> return None" in p.change
    ]
    place = next(p for p in returns if ":translated_name/" in p.block)
    good = translated_name.__code__
    try:
        sample.patch(place)
        assert translated_name("a.txt", "de") is None
    finally:
        translated_name.__code__ = good
    assert translated_name("a.txt", "de") == "a.de.txt"


@pytest.mark.slow
def test_a_test_that_fails_without_the_fault_has_noticed_nothing(
    sample: ModuleType, tmp_path: Path
) -> None:
    good = (Path(__file__).parents[2] / FILE).read_text(encoding="utf-8")
    (tmp_path / FILE).parent.mkdir(parents=True)
    for name in (FILE, "good.py"):
        (tmp_path / name).write_text(good, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "test_two.py").write_text(
        "from pathlib import Path\n"
        "def test_that_fails(): assert False\n"
        f"def test_that_looks(): assert Path('{FILE}').read_bytes() == Path('good.py').read_bytes()"
    )
    place = sample.places(FILE)[0]
    by_one, by_both = (["test_two.py::test_that_fails"], ["test_two.py"])
    assert sample.judged_long(tmp_path, place, [by_one]) == (sample.SURVIVED, "")
    noticed = (sample.KILLED, "test_two.py::test_that_looks")
    assert sample.judged_long(tmp_path, place, [by_one, by_both]) == noticed
