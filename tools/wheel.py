"""A wheel in a clean environment of each Python: installed, then used as a stranger would.

    python tools/wheel.py dist/dragoman-*.whl python3.11 python3.12 /opt/python3.14/bin/python3

In an empty folder each one translates with the packaged model, trains ten steps and serves one
request. The table says what came of it, and the exit status is 1 if anything failed. Only the
standard library is needed. Further arguments of pip, an index among them, come from its environment
variables.
"""

import argparse
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PAIRS = 200
SECONDS = 120  # for the service to come up


class StepError(Exception):
    """A command did not do what it should; the message is the end of its output."""


def run(*command: object, folder: Path) -> str:
    # Nothing of the environment that we run in.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StepError((done.stderr or done.stdout).strip()[-400:])
    return done.stdout.strip()


def install(python: str, wheel: Path, folder: Path) -> str:
    run(python, "-m", "venv", "env", folder=folder)
    pip = folder / "env/bin/pip"
    run(pip, "install", "--quiet", f"{wheel}[train,serve]", folder=folder)
    return run(pip, "check", folder=folder)


def translate(folder: Path) -> str:
    text = "Wo ist der Bahnhof?"
    answer = run(folder / "env/bin/dragoman", "translate", "--to", "en", text, folder=folder)
    if "station" not in answer:
        raise StepError(answer)
    return answer


def train(folder: Path) -> str:
    for language in ("de", "en"):
        with gzip.open(EXAMPLES / f"tatoeba.{language}.gz", "rt", encoding="utf-8") as lines:
            some = [next(lines) for _ in range(PAIRS)]
        (folder / f"a.{language}").write_text("".join(some), encoding="utf-8")
    settings = ["--preset", "tiny", "--device", "cpu", "--set", "training.max_steps=10"]
    settings += ["--set", "text.vocab_size=1000"]
    dragoman = folder / "env/bin/dragoman"
    run(dragoman, "train", "a.de", "a.en", "--out", "model", *settings, folder=folder)
    run(dragoman, "translate", "--model", "model", "Ja.", folder=folder)
    return "ten steps"


def serve(folder: Path) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [str(folder / "env/bin/dragoman"), "serve", "--port", str(port)]
    service = subprocess.Popen(
        program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/translate",
            json.dumps({"q": "Wo ist der Bahnhof?", "source": "de", "target": "en"}).encode(),
            {"Content-Type": "application/json"},
        )
        end = time.monotonic() + SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                    return str(json.load(answer)["translatedText"])
            except OSError:
                if service.poll() is not None or time.monotonic() > end:
                    service.kill()
                    raise StepError(service.communicate()[1][-400:]) from None
                time.sleep(0.5)
    finally:
        service.terminate()
        service.communicate()


def row(python: str, wheel: Path) -> list[str]:
    """Its version, and what came of each thing that was tried; what fails begins with FAILED."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        version = run(
            python, "-c", "import platform; print(platform.python_version())", folder=folder
        )
        steps: list[Callable[[], str]] = [
            lambda: install(python, wheel, folder),
            lambda: translate(folder),
            lambda: train(folder),
            lambda: serve(folder),
        ]
        cells = [version]
        for step in steps:
            try:
                cells.append(step())
            except StepError as failure:
                cells.append(f"FAILED: {failure}")
            print(f"{version}: {cells[-1]}", file=sys.stderr, flush=True)
        return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs="+", metavar="python", help="an interpreter")
    given = parser.parse_args()
    wheel = given.wheel.resolve()
    rows = [row(python, wheel) for python in given.pythons]
    print(f"{wheel.name}, {wheel.stat().st_size / 2**20:.1f} MiB\n")
    print("| Python | installed | translates | trains | serves |\n|---|---|---|---|---|")
    for cells in rows:
        print(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return int(any(cell.startswith("FAILED") for cells in rows for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
