"""The built wheel, installed into an empty environment without torch."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.convert.to_onnx import to_onnx
from dragoman.engine.onnx.native.library import described

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    venv.create(folder / "env", with_pip=True)
    wheel = next(folder.glob("dragoman-*.whl"))
    pip = [
        folder / "env/bin/pip",
        "install",
        "--quiet",
        "--constraint",
        ROOT / "constraints.txt",
        wheel,
    ]
    subprocess.run(pip, check=True, capture_output=True)
    return folder / "env/bin"


def run(program: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


@pytest.mark.slow
def test_the_wheel_runs_on_its_own(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "dragoman", "--version", cwd=tmp_path).stdout.startswith("dragoman ")
    facts = run(installed / "dragoman", "info", cwd=tmp_path).stdout
    assert "torch: not installed" in facts
    assert f"native operators: {described()}" in facts
    (tmp_path / "a.de").write_text("Ja.\nNein.\n")
    (tmp_path / "a.en").write_text("Yes.\nNo.\n")
    assert run(installed / "dragoman", "check", "a.de", "a.en", cwd=tmp_path).stdout == "2 pairs\n"
    scored = run(installed / "dragoman", "evaluate", "a.de", "a.en", "--hyp", "a.en", cwd=tmp_path)
    assert "chrF2 100.00" in scored.stdout


@pytest.mark.slow
def test_commands_that_need_torch_say_so(installed: Path, tmp_path: Path, trained: Path) -> None:
    for arguments in (
        ["translate", "x", "--model", trained, "--engine", "torch"],
        ["attend", "x", "--model", trained, "--out", "a.html"],
        ["train", "a.de", "a.en", "--out", "run"],
    ):
        done = run(installed / "dragoman", *arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert "pip install 'dragoman[train]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_wheel_brings_its_pages_and_says_what_serving_needs(
    installed: Path, tmp_path: Path, trained: Path
) -> None:
    packages = ("inspect", "serve", "lab.explain")
    program = (
        "from importlib import resources as r;"
        f"print(sorted(f.name for p in {packages} for f in (r.files('dragoman.' + p) / "
        "'page').iterdir()))"
    )
    shown = run(installed / "python", "-c", program, cwd=tmp_path).stdout
    there = [
        file.name
        for package in packages
        for file in (ROOT / "dragoman" / package.replace(".", "/") / "page").iterdir()
    ]
    assert shown == f"{sorted(there)}\n"
    done = run(installed / "dragoman", "serve", "--model", trained, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'dragoman[serve]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_it_translates_without_torch_and_soon(
    installed: Path, tmp_path: Path, trained: Path
) -> None:
    """A bundle, converted or not, needs nothing but the plain wheel.

    The limits are in CPU time, and generous: benchmarks/cpu.py measures it.
    """
    done = run(installed / "dragoman", "translate", "eins zwei", "--model", trained, cwd=tmp_path)
    assert done.stdout == "one two\n", done.stderr
    write_bundle(tmp_path / "int8", to_onnx(read_bundle(trained), int8=True))
    done = run(
        installed / "dragoman", "translate", "eins zwei", "--model", tmp_path / "int8", cwd=tmp_path
    )
    assert done.stdout == "one two\n", done.stderr
    imported, translated = (
        float(seconds)
        for seconds in run(
            installed / "python", "-c", TIMES, tmp_path / "int8", cwd=tmp_path
        ).stdout.split()
    )
    assert imported < 1.5
    assert translated < 5


TIMES = """
import sys, time
start = time.process_time()
import dragoman
imported = time.process_time()
dragoman.load(sys.argv[1])("eins zwei")
print(imported - start, time.process_time() - imported)
assert "torch" not in sys.modules
"""


def test_importing_dragoman_imports_neither_torch_nor_training() -> None:
    program = (
        "import sys, dragoman; print([m for m in sys.modules if m == 'torch' or "
        "'dragoman.training' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
