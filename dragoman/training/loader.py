"""Batches made ready in the background while the model computes."""

import queue
import threading
from collections.abc import Iterator

import numpy as np

from dragoman.config import Config
from dragoman.data.batches import Batch, BatchPlan, Position, collate, micro_batches, rng
from dragoman.data.prepare import name_languages
from dragoman.data.store import Store
from dragoman.text.codec import Codec

READY_BATCHES = 8


class Loader:
    """Steps' worth of data, each as micro-batches, from a position on and without end."""

    def __init__(self, store: Store, codec: Codec, config: Config, micro_batch_tokens: int):
        corpora = name_languages(config.data.corpora)
        self._tos = [corpus.target_language for corpus in corpora]
        self._store, self._codec, self._config = store, codec, config
        self._micro_batch_tokens = micro_batch_tokens
        weights = np.array([corpus.weight for corpus in corpora])[np.asarray(store.corpora)]
        training = config.training
        self._plan = BatchPlan(store.source_lengths, store.target_lengths, training.batch_tokens, training.seed, weights)

    def steps_in_epoch(self, epoch: int = 0) -> int:
        return len(self._plan.epoch(epoch))

    def step_at(self, position: Position) -> tuple[Position, list[Batch]]:
        """The data of one step, made here and now."""
        behind, indices = next(self._plan.from_position(position))
        return behind, self._make(position, indices)

    def from_position(self, position: Position) -> Iterator[tuple[Position, list[Batch]]]:
        """Each step's micro-batches with the position behind them, prepared ahead by a thread."""
        ready: queue.Queue[tuple[Position, list[Batch]] | BaseException] = queue.Queue(READY_BATCHES)
        stopped = threading.Event()

        def work() -> None:
            try:
                before = position
                for behind, indices in self._plan.from_position(position):
                    item = (behind, self._make(before, indices))
                    before = behind
                    while not stopped.is_set():
                        try:
                            ready.put(item, timeout=0.1)
                            break
                        except queue.Full:
                            continue
                    if stopped.is_set():
                        return
            except BaseException as error:  # handed to the consumer, who raises it
                ready.put(error)

        threading.Thread(target=work, daemon=True, name="loader").start()
        try:
            while True:
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()

    def _make(self, position: Position, indices: np.ndarray) -> list[Batch]:
        sources, targets = self._ids(position, indices)
        lengths = np.array([len(s) for s in sources]), np.array([len(t) + 1 for t in targets])
        return [
            collate(sources[part], targets[part], indices[part], self._codec.source.pad, self._codec.target)
            for part in micro_batches(*lengths, self._micro_batch_tokens)
        ]

    def _ids(self, position: Position, indices: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        store, rate = self._store, self._config.text.dropout
        if not rate:
            return [store.source(i) for i in indices], [store.target(i) for i in indices]
        seed = int(rng(self._config.training.seed, position.epoch, position.batch).integers(2**31))
        sources, targets = self._codec.encode_with_dropout(
            [store.source_text(i) for i in indices],
            [store.target_text(i) for i in indices],
            [self._tos[store.corpora[i]] for i in indices],
            rate,
            seed,
        )
        return [np.array(s) for s in sources], [np.array(t) for t in targets]
