"""Several ranks, one run: real processes that talk over gloo."""

import json
import multiprocessing
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tests.conftest import SMALL, toy_pairs, write_corpus

SETTINGS: dict[str, Any] = {
    **SMALL, "text.size": 400, "model.dropout": 0.0, "training.batch_tokens": 300, "training.max_steps": 4,
    "training.validate_every": 2, "training.checkpoint_every": 1, "training.log_every": 1, "training.average": 9,
    "training.micro_batch_tokens": 200, "data.valid_size": 7,
}  # fmt: skip
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["dragoman.training.run", "torch.distributed.fsdp", "torch.utils.tensorboard"])


def one_rank(rank: int, size: int, port: int, corpus: tuple[Path, Path], out: Path, settings: dict[str, Any]) -> None:
    """What torchrun starts, with the environment that it sets."""
    from dragoman.config import Corpus
    from dragoman.training.run import train

    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    there = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": 1}
    os.environ.update({name: str(value) for name, value in (here | there).items()})
    corpora = (Corpus(*map(str, corpus)),)
    train(out, corpora=corpora, preset="tiny", settings=SETTINGS | settings, device="cpu", resume=True)


def train_on(size: int, corpus: tuple[Path, Path], out: Path, **settings: Any) -> Path:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    ranks = [PROCESSES.Process(target=one_rank, args=(r, size, port, corpus, out, named)) for r in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(timeout=100)
    assert [process.exitcode for process in ranks] == [0] * size
    return out


def log_of(run: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "tokens_per_s"} for entry in entries]


def assert_same_run(run: Path, other: Path) -> None:
    """The gradients (Adam's moments are made of them), the weights, and the log with loss and norm of each step."""
    for file in ("checkpoints/step-00000004/optimiser.safetensors", "model.safetensors"):
        mine, theirs = (safetensors.numpy.load_file(folder / file) for folder in (run, other))
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-3, atol=2e-6, err_msg=f"{file} {name}")
    assert len(log_of(run)) == len(log_of(other))
    for entry, same in zip(log_of(run), log_of(other), strict=True):
        assert entry == pytest.approx(same, rel=1e-4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Path, Path]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), "t", toy_pairs(300))


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory) -> Path:
    return train_on(1, corpus, tmp_path_factory.mktemp("one") / "run")


@pytest.mark.parametrize("size", [2, 4])
def test_the_number_of_ranks_changes_neither_gradient_nor_log(corpus, one, tmp_path, size: int) -> None:
    assert_same_run(train_on(size, corpus, tmp_path / "run"), one)


def test_a_sharded_model_trains_as_a_whole_one_and_is_saved_whole(corpus, one, tmp_path) -> None:
    assert_same_run(train_on(2, corpus, tmp_path / "run", training__sharded=True), one)


def test_a_run_resumes_on_another_number_of_ranks(corpus, one, tmp_path) -> None:
    """Two ranks that share the model begin, one goes on."""
    out = tmp_path / "run"
    train_on(2, corpus, out, training__max_steps=2, training__sharded=True)
    (out / "manifest.json").unlink()
    assert_same_run(train_on(1, corpus, out, training__sharded=False), one)
