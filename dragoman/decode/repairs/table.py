"""All repairs, in order: a later one must not undo the work of an earlier one."""

from collections.abc import Sequence

from dragoman.decode.proposer import Proposer
from dragoman.decode.query import BudgetError, Search
from dragoman.decode.repairs.coroutines import Rounds, drive, together
from dragoman.decode.repairs.keep_names import KeepNames
from dragoman.decode.repairs.keep_terms import KeepTerms
from dragoman.decode.repairs.repair import Repair, repaired
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.repairs.short_lines import ShortLines
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate

# A short line gets another translation, so that comes first. Names replace single words, which
# breaks nothing.
REPAIRS: dict[str, type[Repair]] = {
    "short lines": ShortLines,
    "terms": KeepTerms,
    "names": KeepNames,
}


class Repairs:
    """All repairs with the components that they need."""

    def __init__(self, splitter: Splitter, proposer: Proposer):
        searching = SearchingProposer.like(proposer)
        self._repairs = [make(splitter, searching) for make in REPAIRS.values()]

    def __call__(
        self,
        parts: Sequence[Part],
        candidates: Sequence[tuple[Candidate, ...]],
        request: Request,
        search: Search,
    ) -> list[tuple[Candidate, ...]]:
        """Return the candidates of each part, repaired as far as the budget allows."""
        pairs = zip(parts, candidates, strict=True)
        return drive(together([self._of_part(part, own, request) for part, own in pairs]), search)

    def _of_part(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        for repair in self._repairs:
            request.pause()
            try:
                candidates = yield from repaired(repair, part, candidates, request)
            except BudgetError:
                continue
        return candidates
