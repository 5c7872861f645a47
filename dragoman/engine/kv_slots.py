"""Keep the keys and values of a batch's hypotheses in slots.

Each sentence has a few slots.

    B sentences, w slots of each, R rows of search, M room for positions, A arrays (keys and values
    of every layer).

The hypotheses of a sentence occupy neighboring slots, so they share one copy of its encoding. A row
that continues another keeps its slot. Only if a hypothesis has several children is anything copied,
into slots whose hypotheses have no children, and then only what differs since the two parted: the
hypotheses of a beam share most of their past.

A recurrence keeps one vector, its cell, instead of keys and values. Its slots have a single
position (M = 1), which every step overwrites.
"""

from dataclasses import dataclass, replace

import numpy as np

from dragoman.engine.buffer_pool import BUFFER_POOL

# Grow the room by this many positions. A step reads all of the room anyway, so copying it every
# 16 steps costs little. With a beam of 1000 one position takes megabytes, so none is allocated in
# advance.
_ROOM_STEP = 16
_SPARSE = 0.75  # pack the slots if fewer than this share of the sentences are alive


@dataclass
class KvSlots:
    sentences: np.ndarray  # (B,) their indices in the batch
    width: int  # w
    slots: np.ndarray  # (R,) the slot of each row of search
    length: int  # positions so far
    caches: np.ndarray  # (A, B*w, H, M, K)
    # (B*w, M) the slot that wrote each position: two rows share a past as far as these agree
    writers: np.ndarray
    cells: bool = False  # True for a recurrence, which has a single position

    def __post_init__(self) -> None:
        self._numbers = np.arange(len(self.writers))  # indices of all slots, needed at every step

    @classmethod
    def first(cls, sentences: int, arrays: int, heads: int, head_width: int) -> "KvSlots":
        """Create slots with one row per sentence, before its first token."""
        # Uninitialized memory is fine: nothing is read before it is written.
        caches = BUFFER_POOL.empty((arrays, sentences, heads, _ROOM_STEP, head_width))
        rows = np.arange(sentences)
        return cls(rows, 1, rows, 0, caches, np.zeros((sentences, _ROOM_STEP), dtype=np.int64))

    @classmethod
    def of_cells(cls, sentences: int, arrays: int, width: int) -> "KvSlots":
        """Create slots for a recurrence, whose cells start at zero."""
        caches = BUFFER_POOL.empty((arrays, sentences, 1, 1, width))
        caches.fill(0)
        rows = np.arange(sentences)
        return cls(rows, 1, rows, 0, caches, np.zeros((sentences, 1), dtype=np.int64), cells=True)

    @property
    def room(self) -> int:
        return int(self.caches.shape[3])

    @property
    def full(self) -> bool:
        """True if there is no room for the next position."""
        return not self.cells and self.length >= self.room

    @property
    def filled(self) -> int:
        """The number of positions written so far."""
        return 1 if self.cells else self.length

    def continued(self, parents: np.ndarray) -> "KvSlots":
        """Continue row parents[r] as row r, in its slot or a copy of it.

        The old object must not be used afterwards.
        """
        all_taken = len(parents) == len(self._numbers)
        if all_taken and not self.full and (parents == self._numbers).all():
            # Fast path: every slot is taken and nothing moves, as in greedy search before the
            # first end.
            return self
        sources = self.slots[parents]
        groups = sources // self.width  # the sentence of each row
        counts = np.bincount(groups, minlength=len(self.sentences))
        fits = counts.max() <= self.width and not self.full
        if not fits or np.count_nonzero(counts) < _SPARSE * len(counts):
            return self._rebuilt(sources, groups, counts)
        self.slots = self._shuffled(sources)
        return self

    def write(self) -> None:
        """Record that every slot has written its next position."""
        self.writers[:, 0 if self.cells else self.length] = self._numbers
        self.length += 1

    def _shuffled(self, sources: np.ndarray) -> np.ndarray:
        """Keep first children in their slots; copy further ones into slots that become free.

        Plain loops: the arrays are too short for NumPy to pay off.
        """
        slots = sources.tolist()
        taken = set(sources.tolist())
        stayed: set[int] = set()
        for row, source in enumerate(sources.tolist()):
            # A hypothesis with one child keeps its slot: moving its cache would cost more than the
            # step itself. A further child gets the slot of a hypothesis without children.
            if source in stayed:
                group = source - source % self.width
                slots[row] = next(
                    slot for slot in range(group, group + self.width) if slot not in taken
                )
                taken.add(slots[row])
                self._copy(source, slots[row])
            stayed.add(source)
        return np.array(slots)

    def _copy(self, source: int, slot: int) -> None:
        # Up to where the two parted, the slot already holds the same numbers. Beams share most of
        # their past, so this copies a small part of the cache.
        filled = self.filled
        parted = self.writers[source, :filled] != self.writers[slot, :filled]
        since = slice(int(parted.argmax()) if parted.any() else filled, filled)
        self.writers[slot, since] = self.writers[source, since]
        self.caches[:, slot, :, since] = self.caches[:, source, :, since]

    def _rebuilt(self, sources: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> "KvSlots":
        # Sentences without rows are finished.
        kept = np.flatnonzero(counts)
        width = int(counts.max())
        order = np.argsort(groups, kind="stable")
        slots = np.empty_like(sources)
        slots[order] = np.searchsorted(kept, groups[order]) * width + _rank_within(groups[order])
        if len(kept) * width <= len(self.writers) and not self.full:
            return self._packed(kept, width, slots, sources)
        room = self.room + _ROOM_STEP if self.full else self.room
        filled = self.filled
        arrays, _, heads, _, head_width = self.caches.shape
        caches = BUFFER_POOL.empty((arrays, len(kept) * width, heads, room, head_width))
        empty = np.ones(len(kept) * width, dtype=bool)
        empty[slots] = False
        # Copy array by array: NumPy's fancy indexing would make a temporary of them all.
        for new, old in zip(caches, self.caches, strict=True):
            new[slots, :, :filled] = old[sources, :, :filled]
            # A step computes empty slots too, and arbitrary numbers (denormals, NaN) may slow it
            # down.
            new[empty, :, :filled] = 0
        # An empty slot shares its past with no other.
        writers = np.full((len(kept) * width, room), -1)
        writers[slots, :filled] = self.writers[sources, :filled]
        return replace(
            self, sentences=self.sentences[kept], width=width, slots=slots, caches=caches,
            writers=writers,
        )  # fmt: skip

    def _packed(
        self, kept: np.ndarray, width: int, slots: np.ndarray, sources: np.ndarray
    ) -> "KvSlots":
        """Pack the rows into the first slots: allocating new memory would cost more than the
        copies.
        """
        filled = self.filled
        moved = slots != sources
        slots_to, slots_from = slots[moved], sources[moved]
        for cache in self.caches:
            cache[slots_to, :, :filled] = cache[slots_from, :, :filled]
        writers = np.full((len(kept) * width, self.room), -1)
        writers[slots, :filled] = self.writers[sources, :filled]
        return replace(
            self, sentences=self.sentences[kept], width=width, slots=slots,
            caches=self.caches[:, : len(writers)], writers=writers,
        )  # fmt: skip


def _rank_within(groups: np.ndarray) -> np.ndarray:
    """Return each item's rank within its group; the items of a group are contiguous.

    >>> _rank_within(np.array([7, 7, 9, 9, 9])).tolist()
    [0, 1, 0, 1, 2]
    """
    ranks: np.ndarray = np.arange(len(groups)) - np.searchsorted(groups, groups)
    return ranks
