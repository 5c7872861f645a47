"""The beam as a tree: every candidate that search looked at, its parent, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.decode.search import BeamStep
from dragoman.text.vocabulary import Vocabulary


@dataclass
class Node:
    """A candidate: `total` is the sum of log-probabilities up to here; `parent` numbers another
    node, -1 the root."""

    step: int
    parent: int
    piece: str
    total: float
    fate: str  # "kept", "ended" (a complete hypothesis) or "dropped"
    best: bool = False  # on the way to the translation that was chosen


class Tree:
    """An observer of one sentence's search."""

    def __init__(self, vocabulary: Vocabulary):
        self.nodes: list[Node] = []
        self._vocabulary = vocabulary
        self._rows = {0: -1}  # row of the search -> node

    def add(self, step: BeamStep) -> None:
        rows: dict[int, int] = {}
        for parent, token, total, kept, ended in zip(
            step.parents.tolist(), step.tokens.tolist(), step.totals.tolist(), step.kept.tolist(),
            step.ended.tolist(),
            strict=True,
        ):  # fmt: skip
            if total == float("-inf"):  # forbidden
                continue
            if kept >= 0:
                rows[kept] = len(self.nodes)
            fate = "ended" if ended else "kept" if kept >= 0 else "dropped"
            self.nodes.append(
                Node(step.number, self._rows[parent], self._vocabulary.pieces[token], total, fate)
            )
        self._rows = rows

    def mark_best(self, pieces: Sequence[str]) -> None:
        """Follow the chosen translation from the root; a hypothesis cut off at the largest length
        has no end."""
        children = {(node.parent, node.piece): number for number, node in enumerate(self.nodes)}
        at = -1
        for piece in (*pieces, self._vocabulary.pieces[self._vocabulary.eos]):
            if (at := children.get((at, piece), -1)) < 0:
                return
            self.nodes[at].best = True
