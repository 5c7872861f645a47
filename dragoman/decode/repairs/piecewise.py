"""Some of a text is set, and what stands between is translated by itself: then nothing that is set
can be lost."""

import re
from collections.abc import Callable, Sequence

from dragoman.decode.repairs.coroutines import Rounds, together
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.text.numbers import Edit
from dragoman.text.segments import edges

_CLAUSE_ENDS = re.compile(r"[,;:] |(?<=\w) [–—-] ")
_BRACKETS = re.compile(r"(?<= )(\()[^()]*(\))")  # not those of 18(2)


def clause_ends(text: str) -> list[Edit]:
    """Where a text can be cut into clauses.

    >>> [edit.text for edit in clause_ends("In 1,200 cases (2019), most of them mild, 3 died.")]
    ['(', ')', ', ', ', ']
    """
    ends = [match.span() for match in _CLAUSE_ENDS.finditer(text)]
    ends += [match.span(side) for match in _BRACKETS.finditer(text) for side in (1, 2)]
    return [Edit(start, end, text[start:end]) for start, end in sorted(ends)]


def piecewise(
    splitter: Splitter,
    part: Part,
    edits: Sequence[Edit],
    translated: Callable[[Part, Request], Rounds[str]],
    request: Request,
) -> Rounds[str]:
    """A part with edits made, and each text between two of them translated by itself."""
    texts: list[str] = []
    at = 0
    for start, end, text in edits:
        texts += [part.text[at:start], text]
        at = end
    texts.append(part.text[at:])
    with_words = [place for place in range(0, len(texts), 2) if any(map(str.isalpha, texts[place]))]
    pieces = [splitter.changed(part, edges(texts[place])[1], request) for place in with_words]
    found = yield from together([translated(piece, request) for piece in pieces])
    for place, piece, text in zip(with_words, pieces, found, strict=True):
        if piece.text[-1:].isalnum():  # a model ends a clause like a sentence
            text = text.removesuffix(".").removesuffix(",")
        before, _, behind = edges(texts[place])
        texts[place] = before + text + behind
    return "".join(texts)
