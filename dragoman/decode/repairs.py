"""Third stage of a translation: candidates that break a promise are searched for again.

A promise is a class like the two below and an entry in `REPAIRS`. They are kept in that order, and
each one's candidates must not break an earlier one's again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from dragoman.config import MOST_HYPOTHESES
from dragoman.decode.glossary import lacking
from dragoman.decode.numbers import digit_errors, put_back, stand_ins, with_others
from dragoman.decode.request import Request
from dragoman.decode.searching import Found, Searcher
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate, merged

_WIDER_FOR_TERMS = 2  # times the beam, which is shared by translations with more and fewer terms
_WIDER = 4  # times the beam, if the numbers of a translation are wrong
_STAND_INS = 3  # other sets of numbers that are tried where that does not help


class Repair(Protocol):
    def __init__(self, splitter: Splitter, searcher: Searcher): ...

    def broken(self, part: Part, text: str, request: Request) -> bool:
        """Whether this translation of the part must be mended."""
        ...

    def mend(
        self,
        parts: Sequence[Part],
        found: Sequence[tuple[Candidate, ...]],
        first: int,
        request: Request,
    ) -> Found:
        """Better candidates of parts that are broken."""
        ...  # fmt: skip

    def work(self, part: Part, request: Request) -> int:
        """Positions that mending the part computes at most."""
        ...


class KeepTerms:
    """Every term of the glossary appears: only translations with all terms are searched."""

    def __init__(self, splitter: Splitter, searcher: Searcher):
        self._searcher = searcher

    def broken(self, part: Part, text: str, request: Request) -> bool:
        return lacking(part.demands, text) > 0

    def mend(
        self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]], first: int,
        request: Request,
    ) -> Found:  # fmt: skip
        settings = replace(self._searcher.settings(request), beam=self._width(request))
        strict = replace(request, decoding=settings, demanding=True)
        return [merged(candidates) for candidates in self._searcher.all(parts, first, strict)]

    def work(self, part: Part, request: Request) -> int:
        return self._searcher.work([part], replace(request, nbest=self._width(request)))[0]

    def _width(self, request: Request) -> int:
        return min(_WIDER_FOR_TERMS * self._searcher.width(request), MOST_HYPOTHESES)


class KeepNumbers:
    """The digits are those of the source (`decoding.keep_numbers`).

    A wider search is tried first, then texts with other numbers.
    """

    def __init__(self, splitter: Splitter, searcher: Searcher):
        self._splitter, self._searcher = splitter, searcher

    def broken(self, part: Part, text: str, request: Request) -> bool:
        wanted = self._searcher.settings(request).keep_numbers
        return bool(wanted and digit_errors(part.text, text))

    def mend(
        self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]], first: int,
        request: Request,
    ) -> Found:  # fmt: skip
        beam = self._width(request)
        settings = replace(self._searcher.settings(request), beam=beam)
        wider = self._searcher.all(parts, first, replace(request, decoding=settings, nbest=beam))
        mended: Found = []
        for part, known, more in zip(parts, found, wider, strict=True):
            different = {candidate.text: candidate for candidate in (*more, *known)}
            closest = sorted(
                different.values(), key=lambda candidate: self._faults(part, candidate)
            )
            mended.append(tuple(closest[: request.nbest]))
        if request.prefix:
            return mended
        still_wrong = {
            row: part
            for row, part in enumerate(parts)
            if self.broken(part, mended[row][0].text, request)
        }
        for row, right in self._with_stand_ins(still_wrong, first, replace(request, nbest=1)):
            mended[row] = (right, *mended[row])[: request.nbest]
        return mended

    def work(self, part: Part, request: Request) -> int:
        wider = self._searcher.work([part], replace(request, nbest=self._width(request)))[0]
        once = self._searcher.work([part], replace(request, nbest=1))[0]
        return wider + (_STAND_INS + 1) * once  # each stand-in, and the forced translation

    def _width(self, request: Request) -> int:
        return min(_WIDER * self._searcher.width(request), MOST_HYPOTHESES)

    @staticmethod
    def _faults(part: Part, candidate: Candidate) -> tuple[int, int, float]:
        """Fewer terms that lack come first, then fewer wrong digits, then the better score."""
        text = candidate.text
        return lacking(part.demands, text), digit_errors(part.text, text), -candidate.score

    def _with_stand_ins(
        self, parts: Mapping[int, Part], first: int, request: Request
    ) -> Iterator[tuple[int, Candidate]]:
        """Rows whose texts are translated well with other numbers.

        Each comes with that translation, the right numbers put back.
        """
        tries: list[tuple[int, dict[str, str], Part]] = []
        for row, part in parts.items():
            for others in [stand_ins(part.text, seed) for seed in range(_STAND_INS)]:
                text = with_others(part.text, others)
                (changed,) = self._splitter.encode([part._replace(text=text)], request)
                if others and len(changed.ids) <= self._splitter.longest(request):
                    tries.append((row, others, changed))
        right: dict[int, str] = {}
        outputs = self._searcher.all([changed for _, _, changed in tries], first, request)
        for (row, others, changed), (best, *_) in zip(tries, outputs, strict=True):
            if not lacking(parts[row].demands, best.text):
                right[row] = right.get(row) or put_back(others, changed.text, best.text)
        for row, text in right.items():
            if text:
                # The prefix is asked only of the first part of a line.
                alone = parts[row]._replace(number=0)
                forced = self._searcher.all([alone], first, replace(request, prefix=text))[0][0]
                if forced.text == text:
                    yield row, forced


REPAIRS: dict[str, type[Repair]] = {"terms": KeepTerms, "numbers": KeepNumbers}
