"""`dragoman translate --workers` on a real Ray cluster of two workers, through kills."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from dragoman.decode.bulk.job import RETRIES
from dragoman.decode.translation import Translation
from tests.conftest import toy_pairs

if find_spec("ray") is None:
    pytest.skip("Ray is not installed: pip install 'dragoman[ray]'", allow_module_level=True)
SHARDS, LINES_EACH, PATIENCE_S = 8, 50, 600
ROOT = Path(__file__).parents[2]
OURS = {
    **os.environ,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
"""The environment of the cluster and of its users."""


class Cluster:
    """Ray on this machine with two cores, and its processes."""

    def __init__(self, folder: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        start = [
            "start",
            "--head",
            "--block",
            "--num-cpus=2",
            "--include-dashboard=false",
            f"--temp-dir={folder}",
        ]
        start += [f"--port={self.address.split(':')[1]}", "--object-store-memory=100000000"]
        self.process = subprocess.Popen(
            [Path(sys.executable).parent / "ray", *start],
            env=OURS, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(self._answers)

    def workers(self) -> list[int]:
        """Return the processes that are translating, below the process started here."""
        below, found = {self.process.pid}, []
        for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                title = (path / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended
            if parent in below:
                below.add(int(path.name))
                found += [int(path.name)] * title.startswith(b"ray::Worker.attempt")
        return found

    def _answers(self) -> bool:
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0


def wait_until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets want short names
    started = Cluster(folder)
    yield started
    started.process.terminate()
    started.process.wait(PATIENCE_S)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bulk") / "numbers.de"
    path.write_text("".join(f"{source}\n" for source, _ in toy_pairs(SHARDS * LINES_EACH, seed=8)))
    return path


@pytest.fixture
def command(cluster: Cluster, numbers: Path, trained: Path) -> Callable[[Path], list[str]]:
    def command(output: Path) -> list[str]:
        files = ["--input", str(numbers), "--output", str(output), "--shard-lines", str(LINES_EACH)]
        there = ["--workers", "2", "--address", cluster.address]
        model = os.path.relpath(trained)  # the workers' folder is another
        return [sys.executable, "-m", "dragoman", "translate", "--model", model, *files, *there]

    return command


@pytest.fixture
def expected(dragoman, numbers: Path, trained: Path) -> str:
    return dragoman("translate", "--model", trained, "--input", numbers, "--device", "cpu").out


def parts(output: Path) -> list[Path]:
    return [
        path
        for path in output.with_name(f"{output.name}.parts").glob("*")
        if path.suffix != ".partial"
    ]


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(
    cluster: Cluster, command, expected: str, tmp_path: Path
) -> None:
    output = tmp_path / "out.en"
    driver = subprocess.Popen(command(output), env=OURS, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: parts(output) and cluster.workers())
    os.kill(cluster.workers()[0], signal.SIGKILL)
    assert len(parts(output)) < SHARDS
    assert driver.wait(PATIENCE_S) == 0, driver.stderr.read()
    assert output.read_text() == expected


@pytest.mark.slow
def test_a_killed_driver_changes_nothing(command, expected: str, tmp_path: Path) -> None:
    output = tmp_path / "out.en"
    driver = subprocess.Popen(command(output), env=OURS, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(parts(output)) > 1)
    driver.kill()
    driver.wait()
    kept = len(parts(output))
    assert kept < SHARDS
    assert not output.exists()
    again = subprocess.run(command(output), env=OURS, capture_output=True, text=True, check=True)
    assert f"shards done before: {kept} of {SHARDS}" in again.stderr
    assert again.stdout == ""
    assert output.read_text() == expected
    assert list(tmp_path.iterdir()) == [output]


@dataclass(frozen=True)
class Failing:
    """The translation, but for one line an error, as long as its file is there; it notes how
    often."""

    line: str
    file: Path

    def __call__(self, translation: Translation) -> str:
        if translation.source == self.line and self.file.exists():
            with self.file.open("a") as file:
                file.write("again\n")
            raise OSError("the disk hiccups")
        return f"{translation.text}\n"


@pytest.mark.slow
def test_a_shard_that_fails_is_retried_and_reported_at_the_end(
    cluster: Cluster, numbers: Path, trained: Path, expected: str, tmp_path: Path
) -> None:
    output, trouble = tmp_path / "out.en", tmp_path / "trouble"
    trouble.touch()
    lines = numbers.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if lines.count(line) == 1)
    first = number // LINES_EACH * LINES_EACH + 1
    program = (
        "from pathlib import Path; from dragoman.decode.bulk.job import Job; "
        "from dragoman.decode.bulk.run import translate_file; "
        "from dragoman.decode.request import Request; from tests.story.test_bulk import "
        "Failing; "
        f"job = Job({str(trained)!r}, Request(), Failing({lines[number]!r}, "
        f"Path({str(trouble)!r}))); "
        f"translate_file({str(numbers)!r}, {str(output)!r}, job, workers=2, "
        f"address={cluster.address!r}, "
        f"shard_lines={LINES_EACH})"
    )

    def translate() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=OURS,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr.strip().splitlines()[-1]

    said = translate()
    assert f"lines {first} to {first + LINES_EACH - 1} failed {RETRIES + 1} times" in said
    assert "OSError: the disk hiccups" in said
    assert trouble.read_text().splitlines() == ["again"] * (RETRIES + 1)
    assert len(parts(output)) == SHARDS - 1
    trouble.unlink()
    assert f"shards done before: {SHARDS - 1} of {SHARDS}" in translate()
    assert output.read_text() == expected
