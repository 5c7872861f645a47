"""What a promise is: a class like those of the other `keep_…` files, and an entry in the table."""

from typing import Protocol

from dragoman.decode.proposer import Proposer
from dragoman.decode.query import Life
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate


class Promise(Protocol):
    def __init__(self, splitter: Splitter, proposer: Proposer): ...

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        """Whether this translation of the part must be mended. Most parts are looked at and left,
        so it should cost little."""
        ...

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Life[tuple[Candidate, ...]]:
        """Better candidates of a part whose best one breaks the promise."""
        ...  # fmt: skip


def kept(
    promise: Promise, part: Part, candidates: tuple[Candidate, ...], request: Request
) -> Life[tuple[Candidate, ...]]:
    """The candidates as they are, or mended."""
    if promise.is_broken(part, candidates[0].text, request):
        return (yield from promise.mend(part, candidates, request))
    return candidates
