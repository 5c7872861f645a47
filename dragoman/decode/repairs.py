"""Third stage of a translation: candidates that break a promise are searched for again.

A promise is a class like those below and an entry in `REPAIRS`. They are kept in that order, and
each one's candidates must not break an earlier one's again.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from dragoman.config import MOST_HYPOTHESES
from dragoman.decode.glossary import Demand, lacking
from dragoman.decode.numbers import (
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
from dragoman.decode.placing import MOST_TEXTS, filled_in
from dragoman.decode.request import Request
from dragoman.decode.searching import Found, Searcher
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate, merged
from dragoman.text.segments import edges
from dragoman.text.verbatim import STAND_INS, StandIns, names, verbatim_spans

# Hypotheses: translations with and without a term share the beam. With 4 some get a word too many.
_LEAST_FOR_TERMS = 5
_WIDER = 4  # times the beam, if the numbers of a translation are wrong
_STAND_INS = 3  # other sets of numbers that are tried where that does not help


class Repair(Protocol):
    def __init__(self, splitter: Splitter, searcher: Searcher): ...

    def broken(self, part: Part, text: str, request: Request) -> bool:
        """Whether this translation of the part must be mended."""
        ...

    def concerns(self, part: Part) -> bool:
        """Whether the part has anything that the promise is about."""
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
    """Every term of the glossary appears, in the place of what the model would say.

    Where that fails, or a model cannot link words, only translations with all terms are searched,
    wherever these put them.
    """

    def __init__(self, splitter: Splitter, searcher: Searcher):
        self._searcher = searcher

    def broken(self, part: Part, text: str, request: Request) -> bool:
        return bool(lacking(part.demands, text, part.in_capitals))

    def concerns(self, part: Part) -> bool:
        return bool(part.demands)

    def mend(
        self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]], first: int,
        request: Request,
    ) -> Found:  # fmt: skip
        mended = list(found)
        if self._searcher.links_words:
            mended = self._filled_in(parts, found, first, request)
        # Words cannot be linked, or a term has taken the place of another.
        left = [
            row
            for row, (part, candidates) in enumerate(_pairs(parts, mended))
            if self.broken(part, candidates[0].text, request)
        ]
        settings = replace(self._searcher.settings(request), beam=self._width(request))
        strict = replace(request, decoding=settings, demanding=True)
        searched = self._searcher.all([parts[row] for row in left], first, strict)
        for row, candidates in zip(left, searched, strict=True):
            mended[row] = merged(candidates)
        return mended

    def _filled_in(
        self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]], first: int,
        request: Request,
    ) -> Found:  # fmt: skip
        """The candidates with their terms in place, best first."""
        # Capitals come last: a model in whose words they are loses its way.
        quiet = [part._replace(in_capitals=False) for part in parts]
        texts = [
            [self._searcher.spelled(part, candidate) for candidate in candidates]
            for part, candidates in zip(quiet, found, strict=True)
        ]
        looked = self._searcher.word_attention(quiet, texts, first, request)
        filled = []
        for part, of_part, attention in zip(quiet, texts, looked, strict=True):
            most = max(1, MOST_TEXTS // len(of_part))
            filled.append(
                [
                    filled_in(text, at, part.demands, part.to, most)
                    for text, at in zip(of_part, attention, strict=True)
                ]
            )
        flat = [[text for ways in of_candidates for text in ways] for of_candidates in filled]
        known = self._searcher.scored(quiet, flat, first, request)
        mended = []
        for part, of_candidates, of_all in zip(parts, filled, known, strict=True):
            given = iter(of_all)
            # Of each candidate one: translations that differ in an article are no alternatives.
            one_each = [
                max([next(given) for _ in ways], key=lambda one: one.score)
                for ways in of_candidates
            ]
            best = merged(one_each)[: request.nbest]
            if part.in_capitals:
                best = tuple(replace(one, text=one.text.upper()) for one in best)
            mended.append(best)
        return mended

    def work(self, part: Part, request: Request) -> int:
        texts = self._width(request)
        if self._searcher.links_words:
            # Each is read once for its links, and with each choice of articles.
            texts += request.nbest + max(MOST_TEXTS, request.nbest)
        return self._searcher.work([part], replace(request, nbest=texts))[0]

    def _width(self, request: Request) -> int:
        return max(self._searcher.width(request), _LEAST_FOR_TERMS)


class KeepNumbers:
    """The digits, signs and units are those of the source (`decoding.keep_numbers`).

    What a rule can mend is mended so. Else a wider search is tried, then texts with other numbers,
    then texts with words that stand in for the numbers, then a search that demands the numbers.
    """

    def __init__(self, splitter: Splitter, searcher: Searcher):
        self._splitter, self._searcher = splitter, searcher

    def broken(self, part: Part, text: str, request: Request) -> bool:
        if not self._searcher.settings(request).keep_numbers:
            return False
        return self._errors(part, text) > 0 or self._by_rule(part, text, request) != text

    def concerns(self, part: Part) -> bool:
        terms = (target for demand in part.demands for target in demand.targets)
        return any(map(str.isdigit, "".join((part.text, *terms))))

    def mend(
        self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]], first: int,
        request: Request,
    ) -> Found:  # fmt: skip
        mended = [self._closest(part, known, request) for part, known in _pairs(parts, found)]
        wrong = self._wrong(parts, mended)
        beam = self._width(request)
        settings = replace(self._searcher.settings(request), beam=beam)
        wider = self._searcher.all(
            [parts[row] for row in wrong], first, replace(request, decoding=settings, nbest=beam)
        )
        for row, more in zip(wrong, wider, strict=True):
            mended[row] = self._closest(parts[row], (*more, *found[row]), request)
        if not request.prefix:
            once = replace(request, nbest=1)
            for attempt in (self._with_other_numbers, self._with_words, self._demanded):
                still_wrong = {row: parts[row] for row in self._wrong(parts, mended)}
                for row, text in attempt(still_wrong, first, once).items():
                    right = Candidate(text, mended[row][0].score)
                    mended[row] = self._closest(parts[row], (right, *mended[row]), request)
        return self._scored(parts, mended, first, request)

    def work(self, part: Part, request: Request) -> int:
        wider = self._searcher.work([part], replace(request, nbest=self._width(request)))[0]
        once = self._searcher.work([part], replace(request, nbest=1))[0]
        # Other numbers, words in their place, and what scores the result; then a demanding search.
        return 2 * wider + (_STAND_INS + 2) * once

    def _width(self, request: Request) -> int:
        return min(_WIDER * self._searcher.width(request), MOST_HYPOTHESES)

    def _wrong(self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]]) -> list[int]:
        return [
            row
            for row, (part, candidates) in enumerate(_pairs(parts, found))
            if self._errors(part, candidates[0].text)
        ]

    @staticmethod
    def _errors(part: Part, text: str) -> int:
        return number_errors(part.text, text, part.to)

    def _by_rule(self, part: Part, text: str, request: Request) -> str:
        language = self._splitter.language(part.text, request)
        return edited(text, number_edits(part.text, text, language, part.to))

    def _closest(
        self, part: Part, candidates: Sequence[Candidate], request: Request
    ) -> tuple[Candidate, ...]:
        """Mended by rule and put in order: fewer terms and spans that lack come first, then fewer
        errors of numbers, then the better score."""
        different: dict[str, Candidate] = {}
        for candidate in candidates:
            text = self._by_rule(part, candidate.text, request)
            different.setdefault(text, replace(candidate, text=text))

        def faults(candidate: Candidate) -> tuple[int, int, float]:
            text = candidate.text
            lost = len(lacking(part.demands, text, part.in_capitals))
            lost += lost_spans(part.text, text)
            return lost, self._errors(part, text), -candidate.score

        return tuple(sorted(different.values(), key=faults)[: request.nbest])

    def _scored(self, parts: Sequence[Part], found: Found, first: int, request: Request) -> Found:
        """The candidates with pieces that spell their texts, where a rule has changed these."""
        changed = [
            (row, place)
            for row, candidates in enumerate(found)
            for place, candidate in enumerate(candidates)
            if self._searcher.spelled(parts[row], candidate) != candidate.text
        ]
        said = self._searcher.scored(
            [parts[row] for row, _ in changed],
            [[found[row][place].text] for row, place in changed],
            first,
            request,
        )
        result = [list(candidates) for candidates in found]
        for (row, place), (candidate,) in zip(changed, said, strict=True):
            result[row][place] = candidate
        return [tuple(candidates) for candidates in result]

    def _with_other_numbers(
        self, parts: Mapping[int, Part], first: int, request: Request
    ) -> dict[int, str]:
        """Translations of texts that come out well with other numbers, the right ones put back."""
        tries: list[tuple[int, dict[str, str], Part]] = []
        for row, part in parts.items():
            for others in [stand_ins(part.text, seed) for seed in range(_STAND_INS)]:
                changed = self._splitter.changed(part, with_others(part.text, others), request)
                if others and len(changed.ids) <= self._splitter.longest(request):
                    tries.append((row, others, changed))
        right: dict[int, str] = {}
        outputs = self._searcher.all([changed for _, _, changed in tries], first, request)
        for (row, others, changed), (best, *_) in zip(tries, outputs, strict=True):
            text = put_back(others, changed.text, best.text)
            if text and row not in right:
                right[row] = text
        return right

    def _with_words(
        self, parts: Mapping[int, Part], first: int, request: Request
    ) -> dict[int, str]:
        """Translations of texts with words in the place of numbers, if all words come through."""
        tries: list[tuple[int, dict[str, str], Part]] = []
        for row, part in parts.items():
            language = self._splitter.language(part.text, request)
            counted = _counted(part.text)
            edits = standing_in(part.text, [(one.start, one.end) for one in counted], names)
            back = {}
            for edit, quantity in zip(edits, counted, strict=True):
                here = part.text[edit.start : edit.end]
                number = rewritten(quantity.number, language, part.to)
                back[edit.text] = here.replace(quantity.number, number)
            changed = self._splitter.changed(part, edited(part.text, edits), request)
            if edits and len(changed.ids) <= self._splitter.longest(request):
                tries.append((row, back, changed))
        outputs = self._searcher.all([changed for _, _, changed in tries], first, request)
        right = {
            row: with_spans(best.text, back)
            for (row, back, _), (best, *_) in zip(tries, outputs, strict=True)
        }
        return {row: text for row, text in right.items() if text}

    def _demanded(self, parts: Mapping[int, Part], first: int, request: Request) -> dict[int, str]:
        """Translations that hold all numbers, wherever the search has put them."""
        demanding = {}
        for row, part in parts.items():
            language = self._splitter.language(part.text, request)
            numbers = [rewritten(q.number, language, part.to) for q in _counted(part.text)]
            if numbers:
                more = tuple(Demand((number,)) for number in numbers)
                demanding[row] = part._replace(demands=(*part.demands, *more))
        settings = replace(self._searcher.settings(request), beam=self._width(request))
        strict = replace(request, decoding=settings, demanding=True)
        found = self._searcher.all(list(demanding.values()), first, strict)
        return {row: best.text for row, (best, *_) in zip(demanding, found, strict=True)}


def _pairs(
    parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]]
) -> Iterator[tuple[Part, tuple[Candidate, ...]]]:
    return zip(parts, found, strict=True)


def _counted(text: str) -> list[Quantity]:
    """The quantities that a word would not say, outside of what stays verbatim."""
    kept = verbatim_spans(text)
    return [
        quantity
        for quantity in quantities(text)
        if (len(quantity.digits) > 1 or quantity.unit or quantity.sign)
        and all(quantity.end <= start or end <= quantity.start for start, end in kept)
    ]


class KeepVerbatim:
    """Addresses, versions, placeholders and the like stay as they are (`decoding.keep_numbers`).

    A word stands in for each. Where the model loses that word too, the texts between them are
    translated by themselves: then nothing can be lost.
    """

    def __init__(self, splitter: Splitter, searcher: Searcher):
        self._splitter, self._searcher = splitter, searcher
        self._others = (KeepTerms(splitter, searcher), KeepNumbers(splitter, searcher))

    def broken(self, part: Part, text: str, request: Request) -> bool:
        wanted = self._searcher.settings(request).keep_numbers and not request.prefix
        return bool(wanted and lost_spans(part.text, text))

    def concerns(self, part: Part) -> bool:
        return bool(verbatim_spans(part.text))

    def mend(
        self, parts: Sequence[Part], found: Sequence[tuple[Candidate, ...]], first: int,
        request: Request,
    ) -> Found:  # fmt: skip
        once = replace(request, nbest=1)
        right: dict[int, str] = {}
        for stand_in in STAND_INS:
            left = [row for row in range(len(parts)) if row not in right]
            edits = [
                standing_in(parts[row].text, verbatim_spans(parts[row].text), stand_in)
                for row in left
            ]
            changed = [
                self._splitter.changed(parts[row], edited(parts[row].text, of_row), request)
                for row, of_row in zip(left, edits, strict=True)
            ]
            translated = self._translated(changed, first, once)
            for row, of_row, text in zip(left, edits, translated, strict=True):
                spans = {edit.text: parts[row].text[edit.start : edit.end] for edit in of_row}
                if whole := with_spans(text, spans):
                    right[row] = whole
        left = [row for row in range(len(parts)) if row not in right]
        pieced = self._piecewise([parts[row] for row in left], first, once)
        right |= dict(zip(left, pieced, strict=True))
        texts = [[right[row]] for row in range(len(parts))]
        said = self._searcher.scored(parts, texts, first, request)
        return [(*best, *others)[: request.nbest] for best, others in zip(said, found, strict=True)]

    def work(self, part: Part, request: Request) -> int:
        once = self._searcher.work([part], replace(request, nbest=1))[0]
        inside = sum(repair.work(part, request) for repair in self._others if repair.concerns(part))
        # With each kind of stand-in, in pieces, and once to score what came of it.
        return (len(STAND_INS) + 1) * (once + inside) + once

    def _translated(self, parts: Sequence[Part], first: int, request: Request) -> list[str]:
        """The best translations of parts, with the promises about terms and numbers kept."""
        found = self._searcher.different(parts, first, request)
        for repair in self._others:
            found = repaired(repair, parts, found, first, request)
        return [candidates[0].text for candidates in found]

    def _piecewise(self, parts: Sequence[Part], first: int, request: Request) -> list[str]:
        """Each text between two spans by itself, the spans where they are."""
        cut = [_cut(part.text) for part in parts]
        pieces = [
            self._splitter.changed(part, edges(text)[1], request)
            for part, texts in zip(parts, cut, strict=True)
            for text in texts[::2]
            if _speaks(text)
        ]
        said = iter(self._translated(pieces, first, request))
        whole = []
        for texts in cut:
            for place in range(0, len(texts), 2):
                if _speaks(texts[place]):
                    before, _, behind = edges(texts[place])
                    texts[place] = before + next(said) + behind
            whole.append("".join(texts))
        return whole


def repaired(
    repair: Repair, parts: Sequence[Part], found: Found, first: int, request: Request
) -> Found:
    """The candidates of all parts, those of broken ones mended."""
    found = list(found)
    rows = [
        row for row, part in enumerate(parts) if repair.broken(part, found[row][0].text, request)
    ]
    if rows:
        broken = [parts[row] for row in rows]
        mended = repair.mend(broken, [found[row] for row in rows], first, request)
        for row, candidates in zip(rows, mended, strict=True):
            found[row] = candidates
    return found


def lost_spans(source: str, translation: str) -> int:
    """How many things that must stay verbatim are not in a translation as often as in its source.

    >>> lost_spans("Write to ada@example.org.", "Schreiben Sie an example.org.")
    1
    """
    wanted = Counter(source[start:end] for start, end in verbatim_spans(source))
    lost = 0
    for span, count in wanted.items():
        lost += len(re.findall(rf"(?<!\w){re.escape(span)}(?!\w)", translation)) != count
    return lost


def standing_in(text: str, spans: Sequence[tuple[int, int]], stand_in: StandIns) -> list[Edit]:
    """What puts a word that the text does not have into the place of each span."""
    edits: list[Edit] = []
    number = 0
    for start, end in spans:
        while (other := stand_in(number)) in text:
            number += 1
        number += 1
        edits.append(Edit(start, end, other))
    return edits


def with_spans(text: str, spans: Mapping[str, str]) -> str:
    """A translation with spans for their stand-ins; empty if one of these is not in it once.

    >>> with_spans("Schreiben Sie an X47.", {"X47": "ada@example.org"})
    'Schreiben Sie an ada@example.org.'
    """
    edits = []
    for other, span in spans.items():
        places = [match.span() for match in re.finditer(rf"(?<!\w){other}(?!\w)", text)]
        if len(places) != 1 or text.count(other) != 1:
            return ""
        edits.append(Edit(*places[0], span))
    return edited(text, edits)


def _cut(text: str) -> list[str]:
    """A text, a span, a text, and so on."""
    texts: list[str] = []
    at = 0
    for start, end in verbatim_spans(text):
        texts += [text[at:start], text[start:end]]
        at = end
    return [*texts, text[at:]]


def _speaks(text: str) -> bool:
    return any(character.isalpha() for character in text)


# A translation in which addresses were mended has new numbers too, so these come last.
REPAIRS: dict[str, type[Repair]] = {
    "terms": KeepTerms,
    "verbatim": KeepVerbatim,
    "numbers": KeepNumbers,
}
