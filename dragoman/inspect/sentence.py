"""One sentence looked at from all sides.

L layers, H heads, S source pieces, T target pieces (the end included), D features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dragoman.decode.translation import Candidate
from dragoman.decode.translator import Request, Translator
from dragoman.errors import TranslationError
from dragoman.inspect.beam import Node, Tree
from dragoman.inspect.words import Axis


@dataclass(frozen=True)
class Kind:
    """A family of attention maps: who asks (rows) and who is looked at (columns)."""

    title: str
    rows: str
    columns: str


KINDS = {
    "encoder": Kind("Encoder", "source", "source"),
    # row t says piece t; it sees what was said before it, from <s>
    "decoder": Kind("Decoder", "target", "said"),
    "cross": Kind("Cross", "target", "source"),
}


@dataclass(frozen=True)
class Inspection:
    text: str
    translation: str
    axes: dict[str, Axis]  # "source", "target" and "said", the target shifted by one
    maps: dict[str, np.ndarray]  # by the names of KINDS, each (L, H, rows, columns)
    beam: list[Node]
    positions: np.ndarray | None  # (max(S, T), D); None where there are none to show

    def joined(self, kind: str) -> np.ndarray:
        """A family's maps between words instead of pieces. (L, H, row words, column words)"""
        rows, columns = self.axes[KINDS[kind].rows], self.axes[KINDS[kind].columns]
        return join_words(self.maps[kind], rows.words, columns.words)


def inspect_sentence(
    translator: Translator, text: str, translation: str | None = None, request: Request = Request()
) -> Inspection:
    """Translate a text and keep all that can be seen; with a translation given, attention is that
    of saying it."""
    request, found, beam = observed_search(translator, text, request)
    shown = translator.attention(
        text, found.pieces if translation is None else translation, request
    )
    source, target = _pieces(shown, "source"), _pieces(shown, "target")
    vocabulary = translator.codec.target
    positions_of: Callable[[int], np.ndarray | None] | None = getattr(
        translator.inside, "position_vectors", None
    )
    return Inspection(
        text,
        found.text if translation is None else translation,
        {
            "source": Axis.of(source),
            "target": Axis.of(target),
            "said": Axis.of([vocabulary.pieces[vocabulary.bos], *target[:-1]]),
        },
        {name: np.asarray(shown[name]) for name in KINDS if name in shown},
        beam,
        positions_of(max(len(source), len(target))) if positions_of is not None else None,
    )


def observed_search(
    translator: Translator, text: str, request: Request
) -> tuple[Request, Candidate, list[Node]]:
    """A text translated in one piece: the request that does so, what was found, and the beam."""
    if not text.strip():
        raise TranslationError("there is no text to look at.")
    settings = request.decoding or translator.config.decoding
    # a text in parts would have several trees
    request = replace(request, decoding=replace(settings, by_sentence=False))
    translator.encode_whole(text, request)
    tree = Tree(translator.engine.target)
    observed = replace(request, observer=tree.add, nbest=1)
    found = translator.translate([text], observed)[0].candidates[0]
    tree.mark_best(found.pieces)
    return request, found, tree.nodes


def join_words(
    weights: np.ndarray, row_words: Sequence[int], column_words: Sequence[int]
) -> np.ndarray:
    """A word is looked at as much as all its pieces together, and looks as its pieces do on
    average.

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
