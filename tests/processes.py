"""Commands in processes of their own: for tests that send signals, fill a disk or start ranks.

A fresh interpreter needs four seconds of a core to import all that training imports. So the
processes are forked from a server that has imported it once and done nothing else. (That a fresh
interpreter works too is shown by the tests that start `python -m dragoman`.) This module imports
little, since each process imports it again.
"""

import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "dragoman.cli.train",
        "dragoman.training.run",
        "dragoman.serve.app",
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

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[object],
        given: str | None = "",
        first: Callable[[], None] | None = None,
    ):
        """`given`: its standard input; None: what `write` gives it. It calls `first` before all
        else."""
        folder.mkdir(parents=True, exist_ok=True)
        self._files = [folder / name for name in ("stdin", "stdout", "stderr")]
        for file in self._files:
            file.write_text((given or "") if file.name == "stdin" else "", encoding="utf-8")
        reader, self._writer = PROCESSES.Pipe(duplex=False)
        words = ["dragoman", *map(str, arguments)]
        self._process = PROCESSES.Process(
            target=_command,
            args=(
                words,
                self._files,
                reader if given is None else None,
                Path.cwd(),
                dict(os.environ),
                first,
            ),
        )
        self._process.start()
        reader.close()

    def write(self, text: str) -> None:
        os.write(self._writer.fileno(), text.encode())

    def end_input(self) -> None:
        self._writer.close()

    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    def send(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def end(self) -> None:
        """Kill the process, even in the middle of its work."""
        self._process.kill()
        self._process.join(_LONGEST_S)

    def heard(self, pattern: str) -> str:
        """Wait until the command prints a match on standard output or error; return it."""
        deadline = time.monotonic() + _LONGEST_S
        while True:
            ended = self.has_ended()
            said = "".join(file.read_text(encoding="utf-8") for file in self._files[1:])
            if found := re.search(pattern, said):
                return found[0]
            assert not ended, f"the command ended and did not say {pattern}: {said}"
            assert time.monotonic() < deadline, "the command hangs"
            time.sleep(0.01)

    def answer(self) -> Answer:
        """Wait for the end of the process; return its output."""
        self._process.join(_LONGEST_S)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError("the command hangs")
        out, err = (file.read_text(encoding="utf-8") for file in self._files[1:])
        return Answer(self._process.exitcode, out, err)


def run(
    folder: Path,
    *arguments: object,
    given: str = "",
    first: Callable[[], None] | None = None,
) -> Answer:
    return Running(folder, arguments, given, first).answer()


def refuse_the_compiler() -> None:
    """Block torch's compiler, for `first`: nothing here needs it, and it imports slowly."""
    assert "torch._dynamo" not in sys.modules
    sys.modules["torch._dynamo"] = None  # importing it fails


def _command(
    words: list[str],
    files: list[Path],
    given: Connection | None,
    folder: Path,
    environment: dict[str, str],
    first: Callable[[], None] | None,
) -> None:
    from dragoman.cli.app import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, (file, mode) in enumerate(zip(files, ("r", "w", "w"), strict=True)):
        with open(file, mode) as opened:
            os.dup2(opened.fileno(), number)
    if given:
        os.dup2(given.fileno(), 0)
        given.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (as long as the process lives)
    sys.argv = words
    if first:
        first()
    main()


def ranks_succeed(
    size: int, port: int, corpus: tuple[Path, Path], out: Path, settings: dict[str, object]
) -> bool:
    """So many ranks of one run."""
    starter = PROCESSES.Process(target=_start_ranks, args=(size, port, corpus, out, settings))
    starter.start()
    starter.join(_LONGEST_S)
    return starter.exitcode == 0


def _start_ranks(
    size: int, port: int, corpus: tuple[Path, Path], out: Path, settings: dict[str, object]
) -> None:
    """What torchrun does; it imports what ranks that share a model need once for all of them."""
    if settings.get("training.sharded"):
        import torch._dynamo
        import torch.distributed.fsdp  # noqa: F401

    forked = multiprocessing.get_context("fork")
    ranks = [
        forked.Process(target=_one_rank, args=(rank, size, port, corpus, out, settings))
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(_LONGEST_S)
    sys.exit(any(process.exitcode != 0 for process in ranks))


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
