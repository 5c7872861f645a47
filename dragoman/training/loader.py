"""Prepare batches ahead of the model.

Reading ids from the store takes a millisecond and happens in a thread. BPE-dropout segments every
sentence again, in Python; on machines with cores to spare, worker processes do that. Any worker can
make any batch, because a batch is a function of its position in the data.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np

from dragoman.config import Config
from dragoman.config.settings import environment_number
from dragoman.data.batches import (
    Batch,
    BatchPlan,
    DataPosition,
    Mixture,
    collate,
    even_parts,
    lengths_only,
    make_batch,
    micro_batches,
    mixing_weights,
    rng,
)
from dragoman.data.dataset import name_languages
from dragoman.data.store import Store
from dragoman.errors import RunError
from dragoman.text.codec import Codec

_STEPS_AHEAD = 32
CORES_FOR_PROCESSES = 8  # with fewer cores, the model needs them all
_MOST_PROCESSES = 12


class BatchMaker:
    """Makes the micro-batches of a step, as a function of its position in the data."""

    def __init__(
        self,
        store: Store,
        codec: Codec,
        config: Config,
        micro_batch_tokens: int,
        rank: int = 0,
        ranks: int = 1,
    ):
        self._tos = [corpus.target_language for corpus in name_languages(config.data.corpora)]
        self._store, self._codec, self._config = store, codec, config
        self._micro_batch_tokens = micro_batch_tokens
        self._rank, self._ranks = rank, ranks

    def make(self, position: DataPosition, indices: np.ndarray) -> list[Batch]:
        """Return all micro-batches of a step; batches for other ranks contain only lengths."""
        if self._config.text.bpe_dropout:
            return self._with_dropout(position, indices)
        store, codec = self._store, self._codec

        def batch(part: slice) -> Batch:
            rows = indices[part]
            sources = store.sources(rows, codec.source.pad)
            targets = store.targets(rows, codec.target.pad)
            return make_batch(
                sources, source_lengths[part], targets, target_lengths[part], codec.target, rows
            )

        source_lengths, target_lengths = (
            lengths[indices].astype(np.int64)
            for lengths in (store.source_lengths, store.target_lengths)
        )
        return self._dealt(batch, source_lengths, target_lengths, indices)

    def _with_dropout(self, position: DataPosition, indices: np.ndarray) -> list[Batch]:
        """Segment the text again with BPE-dropout."""
        store, codec = self._store, self._codec
        # The seed depends on the position in the data, so any worker makes the same batch.
        place = (position.epoch, position.window, position.batch)
        seed = int(rng(self._config.training.seed, *place).integers(2**31))
        sources, targets = codec.encode_with_dropout(
            store.source_texts(indices),
            store.target_texts(indices),
            [self._tos[number] for number in store.corpora(indices)],
            self._config.text.bpe_dropout,
            seed,
            self._config.data.max_length,
        )

        def batch(part: slice) -> Batch:
            return replace(
                collate(sources[part], targets[part], codec.source, codec.target),
                indices=indices[part],
            )

        return self._dealt(
            batch, np.array([*map(len, sources)]), np.array([*map(len, targets)]), indices
        )

    def _dealt(
        self,
        batch: Callable[[slice], Batch],
        sources: np.ndarray,
        targets: np.ndarray,
        indices: np.ndarray,
    ) -> list[Batch]:
        """Cut a step into micro-batches that fit into memory, in equal numbers per rank."""
        # The end token of a target counts, too.
        parts = micro_batches(sources, targets + 1, self._micro_batch_tokens)
        if self._ranks > 1:
            # All ranks must run equally many passes: with sharded weights, each pass gathers them.
            parts = even_parts(
                sources + targets + 1, self._ranks * math.ceil(len(parts) / self._ranks)
            )
        return [
            batch(part)
            if number % self._ranks == self._rank  # ranks take micro-batches in turn
            else lengths_only(sources[part], targets[part], indices[part])
            for number, part in enumerate(parts)
        ]


class Loader:
    """Yields the data of one step after another, forever, from a position on."""

    def __init__(
        self,
        store: Store,
        codec: Codec,
        config: Config,
        micro_batch_tokens: int,
        rank: int = 0,
        ranks: int = 1,
    ):
        self._store, self._codec, self._config = store, codec, config
        # Workers build their own batch makers from these.
        self._share = (micro_batch_tokens, rank, ranks)
        self._most_alive = 0  # largest number of worker processes seen alive
        self._maker = BatchMaker(store, codec, config, *self._share)
        # The plan decides which pairs make a batch; the maker turns them into arrays.
        corpus_weights = [corpus.weight for corpus in config.data.corpora]
        training = config.training
        weights = mixing_weights(store.sizes, corpus_weights, config.data.temperature)
        self._plan = BatchPlan(
            store.source_lengths, store.target_lengths, training.batch_tokens, training.seed,
            Mixture(store.sizes, weights),
        )  # fmt: skip

    def steps_in_epoch(self, epoch: int = 0) -> int:
        return sum(1 for _ in self._plan.epoch(epoch))

    def step_at(self, position: DataPosition) -> list[Batch]:
        """Make the data of one step in this thread."""
        return self._maker.make(position, self._plan.at(position))

    def from_position(
        self, position: DataPosition
    ) -> Generator[tuple[DataPosition, list[Batch]], None, None]:
        """Yield each step's micro-batches with the position after it, prepared some steps ahead.

        A signal to the whole process group kills the workers too; they are restarted once.
        """
        for again in (False, True):
            try:
                for after, batches in self._ahead(position):
                    position = after  # continue from here if the workers are restarted
                    yield after, batches
            except BrokenProcessPool:
                if again:
                    raise RunError(
                        "a process that prepares batches was killed. Continue with --resume."
                    ) from None

    def _ahead(self, position: DataPosition) -> Iterator[tuple[DataPosition, list[Batch]]]:
        # A batch is made from the position before it; the position after it is saved in
        # checkpoints.
        before = position
        plan = self._plan.from_position(position)
        ready: deque[tuple[DataPosition, Future[list[Batch]]]] = deque()
        executor = self._executor()
        try:
            while True:
                while len(ready) < _STEPS_AHEAD:
                    after, indices = next(plan)
                    ready.append((after, self._submit(executor, before, indices)))
                    before = after
                after, future = ready.popleft()
                yield after, self._result(future)
        finally:
            # Do not wait: a killed worker would never finish.
            executor.shutdown(wait=False, cancel_futures=True)

    def _result(self, future: "Future[list[Batch]]") -> list[Batch]:
        """Wait for a result, but not for a pool with a killed worker.

        If a worker is killed while writing its result, the pool would wait forever for the rest.
        """
        while True:
            # Workers start one after the other, so remember the largest number.
            alive = len(active_children())
            self._most_alive = max(self._most_alive, alive)
            try:
                return future.result(timeout=5)
            except TimeoutError:
                if alive < self._most_alive:
                    raise BrokenProcessPool from None

    def _executor(self) -> Executor:
        if self._config.text.bpe_dropout and (os.cpu_count() or 1) >= CORES_FOR_PROCESSES:
            parts = (self._store.folder, self._codec.to_files(), self._config, *self._share)
            # The ranks on this machine share its cores, and each needs some for itself.
            local_ranks = environment_number("LOCAL_WORLD_SIZE", 1, at_least=1)
            processes = max(1, min(_MOST_PROCESSES, ((os.cpu_count() or 1) - 4) // local_ranks))
            # Spawned, not forked: CUDA does not survive a fork.
            return ProcessPoolExecutor(processes, get_context("spawn"), _start_process, parts)
        return ThreadPoolExecutor(1, "loader")

    def _submit(
        self, executor: Executor, position: DataPosition, indices: np.ndarray
    ) -> "Future[list[Batch]]":
        if isinstance(executor, ProcessPoolExecutor):
            return executor.submit(_make_in_process, position, indices)
        return executor.submit(self._maker.make, position, indices)


# The batch maker of a worker process: a pool's initializer cannot return anything.
_maker_of_process: list[BatchMaker] = []


def _start_process(folder: Path, files: dict[str, bytes], config: Config, *share: int) -> None:
    codec = Codec.from_files(files, config.text.tokenizer)
    _maker_of_process.append(BatchMaker(Store(folder), codec, config, *share))


def _make_in_process(position: DataPosition, indices: np.ndarray) -> list[Batch]:
    return _maker_of_process[0].make(position, indices)
