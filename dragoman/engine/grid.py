"""Where the hypotheses of a batch keep their keys and values: a grid of slots.

Each sentence has a few of them.

    B sentences, w slots of each, R rows of search, M room for positions, A arrays (keys and values
    of every layer).

The hypotheses of a sentence stand side by side, so they can look at one copy of its encoding. A row
that continues another stays in its slot. Only where a hypothesis has several children is something
copied, into the slots of childless ones, and of that only what came after the two parted: what
beams have in common is most of their past.

A recurrence keeps one vector of its past, its cell, instead of keys and values. Its grid has a
single position (M = 1), which every step writes over.
"""

from dataclasses import dataclass, replace

import numpy as np

from dragoman.engine.recycled import RECYCLED

# Positions by which the room grows. A step reads all of the room anyway, so copying it every 16
# steps costs little, and what is not needed is not allocated: with a beam of 1000 a position takes
# megabytes.
_ROOM_STEP = 16
_SPARSE = 0.75  # a grid with fewer live sentences than this is packed


@dataclass
class Grid:
    sentences: np.ndarray  # (B,) their numbers in the batch
    width: int  # w
    slots: np.ndarray  # (R,) the slot of each row of search
    length: int  # positions so far
    caches: np.ndarray  # (A, B*w, H, M, K)
    # (B*w, M) the slot that wrote each position: two rows share a past as far as these agree
    writers: np.ndarray
    cells: bool = False  # whether a single position is all there is

    def __post_init__(self) -> None:
        self._numbers = np.arange(len(self.writers))  # of all slots: asked for at every step

    @classmethod
    def first(cls, sentences: int, arrays: int, heads: int, head_width: int) -> "Grid":
        """One row for each sentence, before its first token."""
        # nothing is read before it is written
        caches = RECYCLED.empty((arrays, sentences, heads, _ROOM_STEP, head_width))
        rows = np.arange(sentences)
        return cls(rows, 1, rows, 0, caches, np.zeros((sentences, _ROOM_STEP), dtype=np.int64))

    @classmethod
    def of_cells(cls, sentences: int, arrays: int, width: int) -> "Grid":
        """The same for a recurrence, which begins with zeros."""
        caches = RECYCLED.empty((arrays, sentences, 1, 1, width))
        caches.fill(0)
        rows = np.arange(sentences)
        return cls(rows, 1, rows, 0, caches, np.zeros((sentences, 1), dtype=np.int64), cells=True)

    @property
    def room(self) -> int:
        return int(self.caches.shape[3])

    @property
    def full(self) -> bool:
        """Whether there is no room for the next position."""
        return not self.cells and self.length >= self.room

    @property
    def filled(self) -> int:
        """Positions that hold something."""
        return 1 if self.cells else self.length

    def continued(self, parents: np.ndarray) -> "Grid":
        """Row r takes the place of row parents[r], or a copy of it.

        The old grid must not be used any more.
        """
        all_taken = len(parents) == len(self._numbers)
        if all_taken and not self.full and (parents == self._numbers).all():
            # every slot is taken and nothing moves, as in greedy search before the first end
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
        """Note that every slot has written its next position."""
        self.writers[:, 0 if self.cells else self.length] = self._numbers
        self.length += 1

    def _shuffled(self, sources: np.ndarray) -> np.ndarray:
        """First children stay, further ones go where nobody stays.

        Plain loops: the arrays are too short for NumPy.
        """
        slots = sources.tolist()
        taken = set(sources.tolist())
        stayed: set[int] = set()
        for row, source in enumerate(sources.tolist()):
            # A hypothesis with one child keeps its slot: moving its cache would cost more than the
            # step itself. A further child gets the slot of one that has none.
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
        # Before the two parted, the slot holds what the source holds. Beams share most of their
        # past, so this is a small part of the cache.
        filled = self.filled
        parted = self.writers[source, :filled] != self.writers[slot, :filled]
        since = slice(int(parted.argmax()) if parted.any() else filled, filled)
        self.writers[slot, since] = self.writers[source, since]
        self.caches[:, slot, :, since] = self.caches[:, source, :, since]

    def _rebuilt(self, sources: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> "Grid":
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
        caches = RECYCLED.empty((arrays, len(kept) * width, heads, room, head_width))
        empty = np.ones(len(kept) * width, dtype=bool)
        empty[slots] = False
        # one by one: NumPy copies what it selects
        for new, old in zip(caches, self.caches, strict=True):
            new[slots, :, :filled] = old[sources, :, :filled]
            # A step computes these too, and numbers of any kind might take it longer.
            new[empty, :, :filled] = 0
        # an empty slot shares its past with nobody
        writers = np.full((len(kept) * width, room), -1)
        writers[slots, :filled] = self.writers[sources, :filled]
        return replace(
            self, sentences=self.sentences[kept], width=width, slots=slots, caches=caches,
            writers=writers,
        )  # fmt: skip

    def _packed(
        self, kept: np.ndarray, width: int, slots: np.ndarray, sources: np.ndarray
    ) -> "Grid":
        """In the first of the slots that there are: new memory would cost more than the copies."""
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
    """How many of the same group stand before each; the groups lie together.

    >>> _rank_within(np.array([7, 7, 9, 9, 9])).tolist()
    [0, 1, 0, 1, 2]
    """
    ranks: np.ndarray = np.arange(len(groups)) - np.searchsorted(groups, groups)
    return ranks
