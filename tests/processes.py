"""Commands in processes of their own: for tests that send signals, fill a disk or start ranks.

A fresh interpreter needs eight seconds of a core to import all that training imports. So the
processes are forked from a server that has imported it once and done nothing else. (That a fresh
interpreter works too is shown by the tests that start `python -m dragoman`.) This module imports
little, since each process imports it again.
"""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "dragoman.cli.train",
        "dragoman.training.run",
        "torch._dynamo",  # the first optimiser would import it
        "torch.distributed.fsdp",
        "torch.utils.tensorboard",
    ]
)
_LONGEST_S = 900  # far more than a busy machine takes


class Answer(NamedTuple):
    code: int  # negative: the signal that ended it
    out: str
    err: str


class Running:
    """A `dragoman` command line in a process of its own; files in `folder` hold what it says."""

    def __init__(self, folder: Path, arguments: Sequence[object], given: str = ""):
        """`given`: its standard input."""
        folder.mkdir(parents=True, exist_ok=True)
        self._files = [folder / name for name in ("stdin", "stdout", "stderr")]
        for file in self._files:
            file.write_text(given if file.name == "stdin" else "", encoding="utf-8")
        words = ["dragoman", *map(str, arguments)]
        self._process = PROCESSES.Process(
            target=_command, args=(words, self._files, Path.cwd(), dict(os.environ))
        )
        self._process.start()

    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    def send(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def answer(self) -> Answer:
        """What it said, once it has ended."""
        self._process.join(_LONGEST_S)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError("the command hangs")
        out, err = (file.read_text(encoding="utf-8") for file in self._files[1:])
        return Answer(self._process.exitcode, out, err)


def run(folder: Path, *arguments: object, given: str = "") -> Answer:
    return Running(folder, arguments, given).answer()


def _command(
    words: list[str], files: list[Path], folder: Path, environment: dict[str, str]
) -> None:
    from dragoman.cli.app import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, (file, mode) in enumerate(zip(files, ("r", "w", "w"), strict=True)):
        with open(file, mode) as opened:
            os.dup2(opened.fileno(), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (as long as the process lives)
    sys.argv = words
    main()


def start_ranks(
    size: int, port: int, corpus: tuple[Path, Path], out: Path, settings: dict[str, object]
) -> list[int | None]:
    """So many ranks of one run; their exit codes."""
    ranks = [
        PROCESSES.Process(target=_one_rank, args=(rank, size, port, corpus, out, settings))
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(_LONGEST_S)
    return [process.exitcode for process in ranks]


def _one_rank(
    rank: int,
    size: int,
    port: int,
    corpus: tuple[Path, Path],
    out: Path,
    settings: dict[str, object],
) -> None:
    """What torchrun starts, with the environment that it sets."""
    from dragoman.config import Corpus
    from dragoman.training.run import train

    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    there = {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "test",
        "OMP_NUM_THREADS": 1,
    }
    os.environ.update({name: str(value) for name, value in (here | there).items()})
    corpora = (Corpus(*map(str, corpus)),)
    train(out, corpora=corpora, preset="tiny", settings=settings, device="cpu", resume=True)
