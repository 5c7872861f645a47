"""Batches made ready in the background while the model computes."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dragoman.config import Config
from dragoman.data.batches import Batch, BatchPlan, Position, collate, make_batch, micro_batches, rng
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
        self._plan = BatchPlan(
            store.source_lengths, store.target_lengths, training.batch_tokens, training.seed, weights
        )

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
        )
        lengths = np.array([*map(len, sources)]), np.array([*map(len, targets)]) + 1
        return [
            replace(collate(sources[part], targets[part], codec.source, codec.target), indices=indices[part])
            for part in micro_batches(*lengths, self._micro_batch_tokens)
        ]
