"""Where the hypotheses of a batch keep their keys and values: a grid of slots.

Each sentence has a few of them.

    B sentences, w slots of each, R rows of search, M room for positions, A arrays (keys and values
    of every layer).

The hypotheses of a sentence stand side by side, so they can look at one copy of its encoding. A row
that continues another stays in its slot. Only where a hypothesis has several children is something
copied, into the slots of childless ones, and of that only what came after the two parted: what
beams have in common is most of their past.
"""

from dataclasses import dataclass

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

    def __post_init__(self) -> None:
        self._numbers = np.arange(len(self.writers))  # of all slots: asked for at every step

    @classmethod
    def first(cls, sentences: int, arrays: int, heads: int, head_width: int) -> "Grid":
        """One row for each sentence, before its first token."""
        # nothing is read before it is written
        caches = RECYCLED.empty((arrays, sentences, heads, _ROOM_STEP, head_width))
        rows = np.arange(sentences)
        return cls(rows, 1, rows, 0, caches, np.zeros((sentences, _ROOM_STEP), dtype=np.int64))

    @property
    def room(self) -> int:
        return int(self.caches.shape[3])

    def continued(self, parents: np.ndarray) -> "Grid":
        """Row r takes the place of row parents[r], or a copy of it.

        The old grid must not be used any more.
        """
        full = len(parents) == len(self._numbers)
        if full and self.length < self.room and (parents == self._numbers).all():
            # every slot is taken and nothing moves, as in greedy search before the first end
            return self
        sources = self.slots[parents]
        groups = sources // self.width  # the sentence of each row
        counts = np.bincount(groups, minlength=len(self.sentences))
        fits = counts.max() <= self.width and self.length < self.room
        if not fits or np.count_nonzero(counts) < _SPARSE * len(counts):
            return self._rebuilt(sources, groups, counts)
        self.slots = self._shuffled(sources)
        return self

    def write(self) -> None:
        """Note that every slot has written its next position."""
        self.writers[:, self.length] = self._numbers
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
        parted = self.writers[source, : self.length] != self.writers[slot, : self.length]
        since = slice(int(parted.argmax()) if parted.any() else self.length, self.length)
        self.writers[slot, since] = self.writers[source, since]
        self.caches[:, slot, :, since] = self.caches[:, source, :, since]

    def _rebuilt(self, sources: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> "Grid":
        kept = np.flatnonzero(counts)
        width = int(counts.max())
        order = np.argsort(groups, kind="stable")
        slots = np.empty_like(sources)
        slots[order] = np.searchsorted(kept, groups[order]) * width + _rank_within(groups[order])
        if len(kept) * width <= len(self.writers) and self.length < self.room:
            return self._packed(kept, width, slots, sources)
        room = self.room if self.length < self.room else self.room + _ROOM_STEP
        arrays, _, heads, _, head_width = self.caches.shape
        caches = RECYCLED.empty((arrays, len(kept) * width, heads, room, head_width))
        nobodys = np.setdiff1d(np.arange(len(kept) * width), slots)
        # one by one: NumPy copies what it selects
        for new, old in zip(caches, self.caches, strict=True):
            new[slots, :, : self.length] = old[sources, :, : self.length]
            # A step computes these too, and numbers of any kind might take it longer.
            new[nobodys, :, : self.length] = 0
        # an empty slot shares its past with nobody
        writers = np.full((len(kept) * width, room), -1)
        writers[slots, : self.length] = self.writers[sources, : self.length]
        return Grid(self.sentences[kept], width, slots, self.length, caches, writers)

    def _packed(
        self, kept: np.ndarray, width: int, slots: np.ndarray, sources: np.ndarray
    ) -> "Grid":
        """In the first of the slots that there are: new memory would cost more than the copies."""
        moved = slots != sources
        slots_to, slots_from = slots[moved], sources[moved]
        for cache in self.caches:
            cache[slots_to, :, : self.length] = cache[slots_from, :, : self.length]
        writers = np.full((len(kept) * width, self.room), -1)
        writers[slots, : self.length] = self.writers[sources, : self.length]
        caches = self.caches[:, : len(writers)]
        return Grid(self.sentences[kept], width, slots, self.length, caches, writers)


def _rank_within(groups: np.ndarray) -> np.ndarray:
    """How many of the same group stand before each; the groups lie together.

    >>> _rank_within(np.array([7, 7, 9, 9, 9])).tolist()
    [0, 1, 0, 1, 2]
    """
    ranks: np.ndarray = np.arange(len(groups)) - np.searchsorted(groups, groups)
    return ranks
