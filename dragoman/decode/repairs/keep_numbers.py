"""The digits, signs and units are those of the source."""

import re
from collections.abc import Sequence
from dataclasses import replace

from dragoman.config import MOST_HYPOTHESES
from dragoman.decode.repairs.coroutines import Rounds, together
from dragoman.decode.repairs.keep_terms import KeepTerms
from dragoman.decode.repairs.piecewise import clause_ends, piecewise
from dragoman.decode.repairs.repair import repaired
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.repairs.stand_ins import lost_spans, standing_in, with_spans
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate
from dragoman.text.glossary import lacking
from dragoman.text.numbers import (
    Edit,
    Quantity,
    edited,
    number_edits,
    number_errors,
    put_back,
    quantities,
    rewritten,
    stand_ins,
    with_others,
)
from dragoman.text.symbols import symbol_errors
from dragoman.text.verbatim import names, verbatim_spans

_WIDER = 4  # times the beam, if the numbers of a translation are wrong
_STAND_INS = 3  # other sets of numbers that are tried where that does not help
_DIGIT = re.compile(r"\d")


class KeepNumbers:
    """The digits, signs and units are those of the source (`decoding.keep_numbers`).

    What a rule can mend is mended so. Else a wider search is tried, then texts with other numbers,
    then texts with words that stand in for the numbers, then clauses by themselves, and in the end
    the texts between numbers.
    """

    def __init__(self, splitter: Splitter, proposer: SearchingProposer):
        self._splitter, self._proposer = splitter, proposer
        self._terms = KeepTerms(splitter, proposer)

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        if not (_DIGIT.search(part.text) or _DIGIT.search(text)):
            return False
        if not self._proposer.settings(request).keep_numbers:
            return False
        return self._errors(part, text) > 0 or self.by_rule(part, text, request) != text

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        mended = self._closest(part, candidates, request)
        if self._errors(part, mended[0].text):
            more = yield from self._proposer.propose(part, self._wider(request))
            # No candidate counts that lacks a term.
            if all(self._terms.is_broken(part, one.text, request) for one in more):
                best = min(more, key=lambda one: self._errors(part, one.text))
                more = yield from repaired(self._terms, part, (best,), replace(request, nbest=1))
            mended = self._closest(part, (*more, *candidates), request)
        if not request.prefix:
            once = replace(request, nbest=1)
            for attempt in (
                self._with_other_numbers,
                self._with_words,
                self._by_clauses,
                self._between_numbers,
            ):
                if not self._errors(part, mended[0].text):
                    break
                text = yield from attempt(part, once)
                if text:
                    # Behind the others: of two that are equally wrong, the earlier reads better.
                    mended = self._closest(
                        part, (*mended, Candidate(text, mended[0].score)), request
                    )
        scored = [self._scored(part, candidate, request) for candidate in mended]
        return tuple((yield from together(scored)))

    def _wider(self, request: Request) -> Request:
        """A search with more hypotheses, all of which are looked at."""
        beam = min(_WIDER * self._proposer.width(request), MOST_HYPOTHESES)
        settings = replace(self._proposer.settings(request), beam_size=beam)
        return replace(request, decoding=settings, nbest=beam)

    @staticmethod
    def _errors(part: Part, text: str) -> int:
        return number_errors(part.text, text, part.to)

    def by_rule(self, part: Part, text: str, request: Request) -> str:
        """A translation with the right digits, and with what stands between them put right."""
        language = self._splitter.language(part.text, request)
        return edited(text, number_edits(part.text, text, language, part.to))

    def _closest(
        self, part: Part, candidates: Sequence[Candidate], request: Request
    ) -> tuple[Candidate, ...]:
        """Mended by rule and put in order: those that lack fewer terms, spans and symbols first,
        then those with fewer errors of numbers, then the better score."""
        different: dict[str, Candidate] = {}
        for candidate in candidates:
            text = self.by_rule(part, candidate.text, request)
            different.setdefault(text, replace(candidate, text=text))

        def faults(candidate: Candidate) -> tuple[int, int, float]:
            text = candidate.text
            lost = len(lacking(part.demands, text, part.in_capitals))
            lost += lost_spans(part.text, text) + symbol_errors(part.text, text)
            return lost, self._errors(part, text), -candidate.score

        return tuple(sorted(different.values(), key=faults)[: request.nbest])

    def _scored(self, part: Part, candidate: Candidate, request: Request) -> Rounds[Candidate]:
        """The candidate with pieces that spell its text, where a rule has changed that."""
        if self._proposer.spelled(part, candidate) == candidate.text:
            return candidate
        (scored,) = yield from self._proposer.scored(part, [candidate.text], request)
        return scored

    def _changed(self, part: Part, text: str, request: Request) -> Part | None:
        """The part with another text, if the model can take that at once."""
        changed = self._splitter.changed(part, text, request)
        return changed if len(changed.ids) <= self._splitter.longest(request) else None

    def _with_other_numbers(self, part: Part, request: Request) -> Rounds[str]:
        """The translation of a text that comes out well with other numbers, the right ones put
        back; empty if there is none."""
        tries: list[tuple[dict[str, str], Part]] = []
        for seed in range(_STAND_INS):
            others = stand_ins(part.text, seed)
            changed = self._changed(part, with_others(part.text, others), request)
            if others and changed:
                tries.append((others, changed))
        outputs = yield from together([self._translated(changed, request) for _, changed in tries])
        for (others, changed), text in zip(tries, outputs, strict=True):
            if right := put_back(others, changed.text, text):
                return right
        return ""

    def _translated(self, part: Part, request: Request) -> Rounds[str]:
        """The best translation of a part, with its terms."""
        candidates = yield from self._proposer.propose(part, request)
        best, *_ = yield from repaired(self._terms, part, candidates, request)
        return best.text

    def _with_words(self, part: Part, request: Request) -> Rounds[str]:
        """The translation of a text with words in the place of numbers, if all words come
        through."""
        numbers = self._rewritten(part, request)
        edits = standing_in(part.text, [(start, end) for start, end, _ in numbers], names)
        back = {edit.text: number.text for edit, number in zip(edits, numbers, strict=True)}
        changed = self._changed(part, edited(part.text, edits), request)
        if not (edits and changed):
            return ""
        return with_spans((yield from self._translated(changed, request)), back)

    def _by_clauses(self, part: Part, request: Request) -> Rounds[str]:
        """Clauses translated one by one: in a shorter text a model loses less."""
        return (yield from self._piecewise(part, clause_ends(part.text), request))

    def _between_numbers(self, part: Part, request: Request) -> Rounds[str]:
        """The texts between numbers translated one by one, the numbers where they are."""
        return (yield from self._piecewise(part, self._rewritten(part, request), request))

    def _piecewise(self, part: Part, edits: Sequence[Edit], request: Request) -> Rounds[str]:
        if not edits:
            return ""
        return (yield from piecewise(self._splitter, part, edits, self._translated, request))

    def _rewritten(self, part: Part, request: Request) -> list[Edit]:
        """The quantities of a part as the target language writes them."""
        language = self._splitter.language(part.text, request)
        edits = []
        for quantity in _counted(part.text):
            here = part.text[quantity.start : quantity.end]
            number = rewritten(quantity.number, language, part.to)
            edits.append(Edit(quantity.start, quantity.end, here.replace(quantity.number, number)))
        return edits


def _counted(text: str) -> list[Quantity]:
    """The quantities that a word would not say, outside of what stays verbatim."""
    kept = verbatim_spans(text)
    return [
        quantity
        for quantity in quantities(text)
        if (len(quantity.digits) > 1 or quantity.unit or quantity.sign)
        and all(quantity.end <= start or end <= quantity.start for start, end in kept)
    ]
