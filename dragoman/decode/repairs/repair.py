"""The interface of a repair: a class like those of the `keep_…` modules, and a row of the table."""

from typing import Protocol

from dragoman.decode.repairs.coroutines import Rounds
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate


class Repair(Protocol):
    def __init__(self, splitter: Splitter, proposer: SearchingProposer): ...

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        """Tell whether this translation of the part needs the repair.

        It is called for every part and mostly returns False, so it should be fast.
        """
        ...

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        """Return better candidates for a part whose best one is broken."""
        ...  # fmt: skip


def repaired(
    repair: Repair, part: Part, candidates: tuple[Candidate, ...], request: Request
) -> Rounds[tuple[Candidate, ...]]:
    """Return the candidates, repaired if the best one needs it."""
    if repair.is_broken(part, candidates[0].text, request):
        return (yield from repair.mend(part, candidates, request))
    return candidates
