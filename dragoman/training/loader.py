"""Batches made ready ahead of the model.

Taking ids from the store is a matter of a millisecond and happens in a thread. BPE-dropout segments every sentence
anew, in Python; where there are cores to spare, processes of their own do that. Who makes a batch does not matter: it
is a function of its place in the data.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np

from dragoman.config import Config
from dragoman.data.batches import Batch, BatchPlan, Position, collate, make_batch, micro_batches, rng
from dragoman.data.prepare import name_languages
from dragoman.data.store import Store
from dragoman.errors import RunError
from dragoman.text.codec import Codec

STEPS_AHEAD = 32
CORES_FOR_PROCESSES = 8  # with fewer, the model needs them all
MOST_PROCESSES = 12


class BatchMaker:
    """The micro-batches of a step, as a function of its place in the data."""

    def __init__(self, store: Store, codec: Codec, config: Config, micro_batch_tokens: int):
        self._tos = [corpus.target_language for corpus in name_languages(config.data.corpora)]
        self._store, self._codec, self._config = store, codec, config
        self._micro_batch_tokens = micro_batch_tokens

    def make(self, position: Position, indices: np.ndarray) -> list[Batch]:
        if self._config.text.dropout:
            return self._segmented_anew(position, indices)
        store, codec = self._store, self._codec
        sources, targets = store.source_lengths[indices], store.target_lengths[indices]
        return [
            make_batch(
                store.sources(indices[part], codec.source.pad),
                sources[part],
                store.targets(indices[part], codec.target.pad),
                targets[part],
                codec.target,
                indices[part],
            )
            for part in micro_batches(sources, targets + 1, self._micro_batch_tokens)
        ]

    def _segmented_anew(self, position: Position, indices: np.ndarray) -> list[Batch]:
        """The same from the text, by BPE-dropout; its seed is the place in the data."""
        store, codec = self._store, self._codec
        seed = int(rng(self._config.training.seed, position.epoch, position.batch).integers(2**31))
        sources, targets = codec.encode_with_dropout(
            [store.source_text(i) for i in indices],
            [store.target_text(i) for i in indices],
            [self._tos[number] for number in store.corpora[indices]],
            self._config.text.dropout,
            seed,
            self._config.data.max_length,
        )
        lengths = np.array([*map(len, sources)]), np.array([*map(len, targets)]) + 1
        return [
            replace(collate(sources[part], targets[part], codec.source, codec.target), indices=indices[part])
            for part in micro_batches(*lengths, self._micro_batch_tokens)
        ]


class Loader:
    """Steps' worth of data from a position on and without end."""

    def __init__(self, store: Store, codec: Codec, config: Config, micro_batch_tokens: int):
        self._store, self._codec, self._config = store, codec, config
        self._micro_batch_tokens = micro_batch_tokens
        self._most_alive = 0  # processes that were seen preparing batches
        self._maker = BatchMaker(store, codec, config, micro_batch_tokens)
        weights = np.array([corpus.weight for corpus in config.data.corpora])[store.corpora]
        self._plan = BatchPlan(
            store.source_lengths, store.target_lengths, config.training.batch_tokens, config.training.seed, weights
        )

    def steps_in_epoch(self, epoch: int = 0) -> int:
        return len(self._plan.epoch(epoch))

    def step_at(self, position: Position) -> list[Batch]:
        """The data of one step, made here and now."""
        _, indices = next(self._plan.from_position(position))
        return self._maker.make(position, indices)

    def from_position(self, position: Position) -> Iterator[tuple[Position, list[Batch]]]:
        """Each step's micro-batches with the position behind them, some steps ahead of their use."""
        before, plan = position, self._plan.from_position(position)
        ready: deque[tuple[Position, Future[list[Batch]]]] = deque()
        executor = self._executor()
        try:
            while True:
                while len(ready) < STEPS_AHEAD:
                    behind, indices = next(plan)
                    ready.append((behind, self._submit(executor, before, indices)))
                    before = behind
                behind, future = ready.popleft()
                yield behind, self._result(future)
        except BrokenProcessPool:
            raise RunError("a process that prepares batches was killed. Go on with --resume.") from None
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def _result(self, future: "Future[list[Batch]]") -> list[Batch]:
        """A process killed while it wrote its result leaves the pool waiting for the rest: do not wait with it."""
        while True:
            alive = len(active_children())
            self._most_alive = max(self._most_alive, alive)
            try:
                return future.result(timeout=5)
            except TimeoutError:
                if alive < self._most_alive:
                    raise BrokenProcessPool from None

    def _executor(self) -> Executor:
        if self._config.text.dropout and (os.cpu_count() or 1) >= CORES_FOR_PROCESSES:
            parts = (self._store.folder, self._codec.to_files(), self._config, self._micro_batch_tokens)
            processes = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 4))
            return ProcessPoolExecutor(processes, get_context("spawn"), _start_process, parts)
        return ThreadPoolExecutor(1, "loader")

    def _submit(self, executor: Executor, position: Position, indices: np.ndarray) -> "Future[list[Batch]]":
        if isinstance(executor, ProcessPoolExecutor):
            return executor.submit(_make_in_process, position, indices)
        return executor.submit(self._maker.make, position, indices)


_maker_of_process: list[BatchMaker] = []


def _start_process(folder: Path, files: dict[str, bytes], config: Config, micro_batch_tokens: int) -> None:
    codec = Codec.from_files(files, config.text.vocabulary)
    _maker_of_process.append(BatchMaker(Store(folder), codec, config, micro_batch_tokens))


def _make_in_process(position: Position, indices: np.ndarray) -> list[Batch]:
    return _maker_of_process[0].make(position, indices)
