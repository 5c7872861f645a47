"""Addresses, versions, placeholders and the like stay as they are."""

from dataclasses import replace

from dragoman.decode.repairs.coroutines import Rounds
from dragoman.decode.repairs.keep_numbers import KeepNumbers
from dragoman.decode.repairs.keep_terms import KeepTerms
from dragoman.decode.repairs.piecewise import piecewise
from dragoman.decode.repairs.repair import repaired
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.repairs.stand_ins import lost_spans, standing_in, with_spans
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate
from dragoman.text.numbers import Edit, edited
from dragoman.text.verbatim import STAND_INS, verbatim_spans


class KeepVerbatim:
    """Addresses, versions, placeholders and the like stay as they are (`decoding.keep_numbers`).

    A word stands in for each. Where the model loses that word too, the texts between them are
    translated by themselves: then nothing can be lost.
    """

    def __init__(self, splitter: Splitter, proposer: SearchingProposer):
        self._splitter, self._proposer = splitter, proposer
        self._others = (KeepTerms(splitter, proposer), KeepNumbers(splitter, proposer))

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        wanted = self._proposer.settings(request).keep_numbers and not request.prefix
        return bool(wanted and lost_spans(part.text, text))

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        once = replace(request, nbest=1)
        text = ""
        for stand_in in STAND_INS:
            edits = standing_in(part.text, verbatim_spans(part.text), stand_in)
            changed = self._splitter.changed(part, edited(part.text, edits), request)
            spans = {edit.text: part.text[edit.start : edit.end] for edit in edits}
            text = with_spans((yield from self._translated(changed, once)), spans)
            if text:
                break
        else:
            same = [Edit(*at, part.text[slice(*at)]) for at in verbatim_spans(part.text)]
            text = yield from piecewise(self._splitter, part, same, self._translated, once)
        best = yield from self._proposer.scored(part, [text], request)
        return (*best, *candidates)[: request.nbest]

    def _translated(self, part: Part, request: Request) -> Rounds[str]:
        """The best translation of a part, with the promises about terms and numbers kept."""
        candidates = yield from self._proposer.distinct_of(part, request)
        for promise in self._others:
            candidates = yield from repaired(promise, part, candidates, request)
        return candidates[0].text
