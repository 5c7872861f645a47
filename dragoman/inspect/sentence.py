"""One sentence looked at from all sides.

L layers, H heads, S source pieces, T target pieces (the end included), D features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES
from dragoman.decode.search.task import BeamStep
from dragoman.decode.translation import Candidate
from dragoman.errors import TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.inspect.words import Axis
from dragoman.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Kind:
    """A family of attention maps: who asks (rows) and who is looked at (columns)."""

    title: str
    rows: str
    columns: str


KINDS = {
    "encoder": Kind("Encoder", "source", "source"),
    # Row t predicts piece t. It sees the pieces before it, from <s>.
    "decoder": Kind("Decoder", "target", "shifted"),
    "cross": Kind("Cross", "target", "source"),
}


@dataclass
class Node:
    """A candidate of the beam.

    `total` is the sum of log-probabilities up to here; `parent` numbers another node, -1 the root.
    """

    step: int
    parent: int
    piece: str
    total: float
    fate: str  # "kept", "ended" (a complete hypothesis) or "dropped"
    best: bool = False  # on the way to the translation that the search chose
    score: float | None = None  # of a complete hypothesis: what search compares


class Tree:
    """An observer of one sentence's search."""

    def __init__(self, vocabulary: Vocabulary):
        self.nodes: list[Node] = []
        self._vocabulary = vocabulary
        self._rows = {0: -1}  # row of the search -> node

    def add(self, step: BeamStep) -> None:
        rows: dict[int, int] = {}
        for parent, token, total, kept, ended in zip(
            step.parents.tolist(),
            step.tokens.tolist(),
            step.totals.tolist(),
            step.kept.tolist(),
            step.ended.tolist(),
            strict=True,
        ):
            if total == float("-inf"):  # forbidden
                continue
            if kept >= 0:
                rows[kept] = len(self.nodes)
            fate = "ended" if ended else "kept" if kept >= 0 else "dropped"
            self.nodes.append(
                Node(step.number, self._rows[parent], self._vocabulary.pieces[token], total, fate)
            )
        self._rows = rows

    def add_scores(self, settings: DecodingConfig) -> None:
        """Divide the totals of complete hypotheses by the length penalty, as search does.

        A coverage penalty, which few models have, is not in it.
        """
        penalty = LENGTH_PENALTIES[settings.length_penalty]
        for node in self.nodes:
            if node.fate == "ended":
                node.score = node.total / penalty(self._length(node), settings.length_penalty_alpha)

    def _length(self, node: Node) -> int:
        """Pieces of a complete hypothesis, its end included."""
        length = 1
        while node.parent >= 0:
            node = self.nodes[node.parent]
            length += 1
        return length

    def mark_best(self, pieces: Sequence[str]) -> None:
        """Mark the chosen translation from the root.

        A hypothesis that was cut off at the largest length has no end.
        """
        children = {(node.parent, node.piece): number for number, node in enumerate(self.nodes)}
        at = -1
        for piece in (*pieces, self._vocabulary.pieces[self._vocabulary.eos]):
            if (at := children.get((at, piece), -1)) < 0:
                return
            self.nodes[at].best = True


@dataclass(frozen=True)
class Inspection:
    text: str
    translation: str
    axes: dict[str, Axis]  # "source", "target", and "shifted": the target, one later
    maps: dict[str, np.ndarray]  # by the names of KINDS, each (L, H, rows, columns)
    beam: list[Node]
    searched: str  # the translation that the search chose, also if another one was given
    positions: np.ndarray | None  # (max(S, T), D); None where there are none to show
    base: float | None  # of the wavelengths of sinusoidal positions; None: they are not

    def joined(self, kind: str) -> np.ndarray:
        """A family's maps between words instead of pieces. (L, H, row words, column words)"""
        rows, columns = self.axes[KINDS[kind].rows], self.axes[KINDS[kind].columns]
        return join_words(self.maps[kind], rows.words, columns.words)


def inspect_sentence(
    translator: InspectableTranslator,
    text: str,
    translation: str | None = None,
    request: Request = Request(),
) -> Inspection:
    """Translate a text and keep all that can be seen.

    With a translation given, attention is that of predicting it.
    """
    request, found, beam = observed_search(translator, text, request)
    shown = translator.attention(
        text, found.pieces if translation is None else translation, request
    )
    source, target = _pieces(shown, "source"), _pieces(shown, "target")
    vocabulary = translator.codec.target
    positions = translator.config.model.positions
    return Inspection(
        text,
        found.text if translation is None else translation,
        {
            "source": Axis.of(source),
            "target": Axis.of(target),
            "shifted": Axis.of([vocabulary.pieces[vocabulary.bos], *target[:-1]]),
        },
        {name: np.asarray(shown[name]) for name in KINDS if name in shown},
        beam,
        found.text,
        translator.position_vectors(max(len(source), len(target))),
        positions.base if positions.kind == "sinusoidal" else None,
    )


def observed_search(
    translator: InspectableTranslator, text: str, request: Request
) -> tuple[Request, Candidate, list[Node]]:
    """A text translated in one piece: the request that does so, what was found, and the beam."""
    if not text.strip():
        raise TranslationError("there is no text to look at.")
    settings = request.decoding or translator.config.decoding
    # a text in parts would have several trees
    request = replace(request, decoding=replace(settings, split_sentences=False))
    translator.encode_whole(text, request)
    tree = Tree(translator.engine.target)
    observed = replace(request, observer=tree.add, nbest=1)
    found = translator.translate([text], observed)[0].candidates[0]
    tree.mark_best((*translator.forced_pieces(text, request), *found.pieces))
    tree.add_scores(settings)
    return request, found, tree.nodes


def join_words(
    weights: np.ndarray, row_words: Sequence[int], column_words: Sequence[int]
) -> np.ndarray:
    """Attention between words: columns of a word are summed, its rows averaged.

    >>> join_words(np.array([[0.25, 0.75], [0.75, 0.25]]), [0, 0], [0, 1]).tolist()
    [[0.5, 0.5]]
    """
    # (columns, words)
    belongs = np.equal.outer(np.asarray(column_words), np.unique(column_words)).astype(float)
    # (words, rows)
    shares = np.equal.outer(np.unique(row_words), np.asarray(row_words)).astype(float)
    joined: np.ndarray = (shares / shares.sum(axis=1, keepdims=True)) @ weights @ belongs
    return joined


def _pieces(shown: dict[str, object], side: str) -> list[str]:
    pieces = shown[side]
    assert isinstance(pieces, list)
    return pieces
