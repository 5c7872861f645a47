"""Inspect one sentence: its attention maps, its beam and its position vectors.

L layers, H heads, S source subwords, T target subwords (with the end), D features.
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
class AttentionMap:
    """A kind of attention map: the axis of its queries (rows) and of its keys (columns)."""

    title: str
    rows: str
    columns: str


ATTENTION_MAPS = {
    "encoder": AttentionMap("Encoder", "source", "source"),
    # Row t predicts subword t from the subwords before it, <s> included.
    "decoder": AttentionMap("Decoder", "target", "shifted"),
    "cross": AttentionMap("Cross", "target", "source"),
}


@dataclass
class BeamNode:
    """A node of the beam's tree: one subword that extends a hypothesis.

    `total` is the sum of log-probabilities so far; `parent` is the index of another node, or -1.
    """

    step: int
    parent: int
    piece: str
    total: float
    fate: str  # "kept", "ended" (a complete hypothesis) or "dropped"
    best: bool = False  # part of the translation that the search chose
    score: float | None = None  # of a complete hypothesis, after the length penalty


class BeamTree:
    """Observes the search of one sentence and collects its nodes."""

    def __init__(self, vocabulary: Vocabulary):
        self.nodes: list[BeamNode] = []
        self._vocabulary = vocabulary
        self._rows = {0: -1}  # from a row of the search to its node

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
            if total == float("-inf"):  # a banned token
                continue
            # `kept` is the row of the next step, or -1.
            if kept >= 0:
                rows[kept] = len(self.nodes)
            fate = "ended" if ended else "kept" if kept >= 0 else "dropped"
            self.nodes.append(
                BeamNode(
                    step.number, self._rows[parent], self._vocabulary.pieces[token], total, fate
                )
            )
        self._rows = rows

    def add_scores(self, settings: DecodingConfig) -> None:
        """Divide the totals of complete hypotheses by the length penalty, as the search does.

        This omits the coverage penalty, which few models use.
        """
        penalty = LENGTH_PENALTIES[settings.length_penalty]
        for node in self.nodes:
            if node.fate == "ended":
                node.score = node.total / penalty(self._length(node), settings.length_penalty_alpha)

    def _length(self, node: BeamNode) -> int:
        """Return the length of a complete hypothesis in subwords, the end included."""
        length = 1
        while node.parent >= 0:
            node = self.nodes[node.parent]
            length += 1
        return length

    def mark_best(self, pieces: Sequence[str]) -> None:
        """Mark the nodes of the chosen translation.

        A hypothesis that reached the maximum length has no end node.
        """
        children = {(node.parent, node.piece): number for number, node in enumerate(self.nodes)}
        at = -1
        for piece in (*pieces, self._vocabulary.pieces[self._vocabulary.eos]):
            if (at := children.get((at, piece), -1)) < 0:
                return
            self.nodes[at].best = True


@dataclass(frozen=True)
class SentenceInspection:
    text: str
    translation: str
    axes: dict[str, Axis]  # "source", "target", and "shifted": the target, one position later
    maps: dict[str, np.ndarray]  # by the names of ATTENTION_MAPS, each (L, H, rows, columns)
    beam: list[BeamNode]
    searched: str  # the translation that the search chose, even if another one was given
    positions: np.ndarray | None  # (max(S, T), D), if the model adds position vectors
    base: float | None  # of the wavelengths, if positions are sinusoidal

    def joined(self, kind: str) -> np.ndarray:
        """Return the maps between words instead of subwords. (L, H, row words, column words)"""
        rows, columns = (
            self.axes[ATTENTION_MAPS[kind].rows],
            self.axes[ATTENTION_MAPS[kind].columns],
        )
        return join_words(self.maps[kind], rows.words, columns.words)


def inspect_sentence(
    translator: InspectableTranslator,
    text: str,
    translation: str | None = None,
    request: Request = Request(),
) -> SentenceInspection:
    """Translate a text and inspect it; if a translation is given, its attention is shown."""
    request, candidate, beam = observed_search(translator, text, request)
    shown = translator.attention(
        text, candidate.pieces if translation is None else translation, request
    )
    source, target = _pieces(shown, "source"), _pieces(shown, "target")
    vocabulary = translator.codec.target
    positions = translator.config.model.positions
    return SentenceInspection(
        text,
        candidate.text if translation is None else translation,
        {
            "source": Axis.of(source),
            "target": Axis.of(target),
            "shifted": Axis.of([vocabulary.pieces[vocabulary.bos], *target[:-1]]),
        },
        {name: np.asarray(shown[name]) for name in ATTENTION_MAPS if name in shown},
        beam,
        candidate.text,
        translator.position_vectors(max(len(source), len(target))),
        positions.base if positions.kind == "sinusoidal" else None,
    )


def observed_search(
    translator: InspectableTranslator, text: str, request: Request
) -> tuple[Request, Candidate, list[BeamNode]]:
    """Translate a text without splitting it; return the request, the candidate and the beam."""
    if not text.strip():
        raise TranslationError("the text is empty: give a sentence.")
    settings = request.decoding or translator.config.decoding
    # Several segments would have several trees.
    request = replace(request, decoding=replace(settings, split_sentences=False))
    # Raises if the model cannot take the whole text.
    translator.encode_whole(text, request)
    tree = BeamTree(translator.engine.target)
    observed = replace(request, observer=tree.add, nbest=1)
    candidate = translator.translate([text], observed)[0].candidates[0]
    # The search starts with the forced pieces, such as a language tag, so the tree has them too.
    tree.mark_best((*translator.forced_pieces(text, request), *candidate.pieces))
    tree.add_scores(settings)
    return request, candidate, tree.nodes


def join_words(
    weights: np.ndarray, row_words: Sequence[int], column_words: Sequence[int]
) -> np.ndarray:
    """Merge subwords into words: sum the columns of a word, average its rows.

    >>> join_words(np.array([[0.25, 0.75], [0.75, 0.25]]), [0, 0], [0, 1]).tolist()
    [[0.5, 0.5]]
    """
    # 1 where a column belongs to a word: sums the columns. (columns, words)
    word_columns = np.equal.outer(np.asarray(column_words), np.unique(column_words)).astype(float)
    # Divided by its row sums below, it averages the rows. (words, rows)
    word_rows = np.equal.outer(np.unique(row_words), np.asarray(row_words)).astype(float)
    joined: np.ndarray = (word_rows / word_rows.sum(axis=1, keepdims=True)) @ weights @ word_columns
    return joined


def _pieces(shown: dict[str, object], side: str) -> list[str]:
    pieces = shown[side]
    assert isinstance(pieces, list)
    return pieces
