"""Runs killed at random moments, also inside the writing of a checkpoint, end in the bits of the
unbroken run."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from dragoman.training.run_folder import is_finished
from tests.conftest import QUICK_RUN, toy_pairs, write_corpus

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "2"))
OPTIONS = [
    "--set",
    "training.checkpoint_every=1",
    "--set",
    "training.max_steps=24",
    "--set",
    "text.bpe_dropout=0.1",
]


KILLED_IN_A_WRITE = """
import os, runpy, signal, sys
left, flush = int(sys.argv.pop(1)), os.fsync

def die_or_flush(file):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(file)

os.fsync = die_or_flush
runpy.run_module("dragoman", run_name="__main__")
"""  # a run that dies when it is about to flush its n-th file: written in part, not renamed


def command(corpus: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "dragoman",
        "train",
        *map(str, corpus),
        "--out",
        str(out),
        *QUICK_RUN,
        *OPTIONS,
        *more,
    ]


def history(folder: Path) -> list[dict]:
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in entry.items() if key not in ("tokens_per_s", "mfu")}
        for entry in entries
    ]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_kill_changes_the_result(tmp_path, capsys, device: str) -> None:
    """A checkpoint after every step. Every other kill is made to fall into the writing of one, the
    others anywhere."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    corpus = write_corpus(tmp_path, "t", toy_pairs(200))
    draw = random.Random(4)
    started = time.monotonic()
    there = ("--device", device)
    subprocess.run(command(corpus, tmp_path / "whole", *there), check=True, capture_output=True)
    whole_s = time.monotonic() - started
    out, kills, inside = tmp_path / "killed", 0, 0
    while kills < KILLS:
        run = command(corpus, out, "--resume", *there)
        if kills % 2:
            run[1:3] = ["-c", KILLED_IN_A_WRITE, str(draw.randint(1, 60))]
        process = subprocess.Popen(run, stderr=subprocess.DEVNULL)
        if not kills % 2:
            time.sleep(draw.uniform(0.3, 1.0) * whole_s)
            process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        inside += bool(list(out.glob("checkpoints/*.partial")) or list(out.glob("*.partial")))
        if is_finished(out):  # the next kills hit another run
            out = tmp_path / f"killed{kills}"
    subprocess.run(command(corpus, out, "--resume", *there), check=True, capture_output=True)
    finished = [folder for folder in tmp_path.glob("killed*") if is_finished(folder)]
    assert finished
    for folder in finished:
        assert (folder / "model.safetensors").read_bytes() == (
            tmp_path / "whole" / "model.safetensors"
        ).read_bytes()
        assert history(folder) == history(tmp_path / "whole")
    with capsys.disabled():
        print(
            f"\n{device}: {kills} kills, {inside} of them inside a write, {len(finished)} runs, "
            f"all bit-identical"
        )


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of torch's threads."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_another_number_of_threads_is_close(dragoman, tmp_path, threads, capsys) -> None:
    import numpy as np
    import safetensors.numpy

    corpus = write_corpus(tmp_path, "t", toy_pairs(200))
    short = ["--set", "training.max_steps=6", "--set", "training.validate_every=0"]
    for name, number in (("many", 2), ("one", 1)):
        threads(number)
        assert dragoman(*command(corpus, tmp_path / name)[3:], *short).code == 0
    many, one = (
        safetensors.numpy.load_file(tmp_path / name / "model.safetensors")
        for name in ("many", "one")
    )
    differences = np.concatenate([np.abs(many[name] - one[name]).ravel() for name in many])
    # The mean square, not the largest: where a gradient is almost zero, Adam makes a whole step of
    # a rounding error. Threads make 1e-6 of it. Other dropout or other segmentation of the same
    # lines makes 1.2e-4 and more.
    assert np.sqrt(np.mean(differences**2)) < 2e-5
    difference = float(differences.max())
    with capsys.disabled():
        print(f"\nlargest difference of a weight after 6 steps with one thread: {difference:.1e}")
