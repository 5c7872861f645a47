"""Several ranks, one run: real processes that talk over gloo."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from dragoman.data.batches import dummy_batch
from dragoman.training.gradients import Gradients
from tests.conftest import (
    SHORT_SEARCH,
    SMALL,
    small_config,
    small_model,
    toy_pairs,
    vocabulary,
    write_corpus,
)
from tests.processes import ranks_succeed

SETTINGS: dict[str, Any] = {
    **SMALL, **SHORT_SEARCH, "text.vocab_size": 400, "model.dropout": 0.0,
    "training.batch_tokens": 300,
    "training.max_steps": 4, "training.optimizer": "adam",
    "training.validate_every": 2, "training.checkpoint_every": 1, "training.log_every": 1,
    "training.average_checkpoints": 9,
    "training.micro_batch_tokens": 200, "data.valid_size": 7,
    # else Adam makes steps of the rounding errors of gradients that are zero
    "training.epsilon": 1e-3,
}  # fmt: skip


def train_on(size: int, corpus: tuple[Path, Path], out: Path, **settings: Any) -> Path:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    assert ranks_succeed(size, port, corpus, out, SETTINGS | named)
    return out


def log_of(run: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{**entry, "kind": len(entry["kind"]), "tokens_per_s": 0} for entry in entries]


def assert_same_run(run: Path, other: Path) -> None:
    """The gradients (Adam's moments are made of them), the weights, and the log with loss and norm
    of each step."""
    for file in ("checkpoints/step-00000004/optimiser.safetensors", "model.safetensors"):
        mine, theirs = (safetensors.numpy.load_file(folder / file) for folder in (run, other))
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_allclose(
                mine[name], theirs[name], rtol=1e-3, atol=2e-6, err_msg=f"{file} {name}"
            )
    assert len(log_of(run)) == len(log_of(other))
    for entry, same in zip(log_of(run), log_of(other), strict=True):
        assert entry == pytest.approx(same, rel=1e-4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Path, Path]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), "t", toy_pairs(300))


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory) -> Path:
    return train_on(1, corpus, tmp_path_factory.mktemp("one") / "run")


def test_two_ranks_make_the_steps_of_one(corpus, one, tmp_path) -> None:
    assert_same_run(train_on(2, corpus, tmp_path / "run"), one)


def test_four_unsharded_ranks_resume_a_run_of_two_sharded_ones(corpus, one, tmp_path) -> None:
    """Two ranks write a whole checkpoint, and the resumed run equals a run on one rank."""
    out = tmp_path / "run"
    train_on(2, corpus, out, training__max_steps=2, training__sharded=True)
    (out / "manifest.json").unlink()
    assert_same_run(train_on(4, corpus, out, training__sharded=False), one)


def test_a_rank_without_work_adds_nothing() -> None:
    model = small_model()
    words = vocabulary(23)
    gradients = Gradients(model, small_config(), torch.device("cpu"))
    gradients.accumulate(dummy_batch(words, words), tokens=7)
    assert gradients.sums.tolist() == [0, 0]
    assert all(not parameter.grad.any() for parameter in model.parameters())


SUICIDE = """
import os, signal, sys, threading, time
from pathlib import Path
from dragoman.cli.app import main

def wait_and_die():
    while not Path(os.environ["FATAL"]).exists():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    threading.Thread(target=wait_and_die, daemon=True).start()
main()
"""


@pytest.mark.slow
def test_a_killed_rank_leaves_no_trace_in_the_run(corpus, one, tmp_path) -> None:
    """torchrun restarts all ranks, and they continue from the last checkpoint."""
    script, out = tmp_path / "rank.py", tmp_path / "run"
    script.write_text(SUICIDE)
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--max-restarts",
        "1",
    ]
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    command = [
        *torchrun,
        str(script),
        "train",
        *map(str, corpus),
        "--out",
        str(out),
        "--preset",
        "tiny",
        *settings,
    ]
    fatal = {"FATAL": str(out / "checkpoints" / "step-00000002")}
    done = subprocess.run(
        [*command, "--device", "cpu"],
        env={**os.environ, **fatal},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "resumed at step" in done.stderr
    assert done.stderr.count("another rank was lost") <= 1
    assert "Traceback" not in done.stderr
    assert_same_run(out, one)
