"""Symbols, bullets and abbreviations before numbers keep their place and their number."""

from dataclasses import replace

from dragoman.decode.repairs.coroutines import Rounds
from dragoman.decode.repairs.keep_verbatim import KeepVerbatim
from dragoman.decode.repairs.piecewise import piecewise
from dragoman.decode.repairs.stand_ins import lost_spans, standing_in, with_spans
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate
from dragoman.text.numbers import Edit, edited
from dragoman.text.symbols import (
    SymbolSpan,
    may_hold_symbols,
    split_lead,
    split_tail,
    symbol_errors,
    symbol_spans,
)
from dragoman.text.verbatim import STAND_INS, verbatim_spans


class KeepSymbols(KeepVerbatim):
    """Symbols, bullets and abbreviations before numbers keep their place and their number
    (`decoding.keep_numbers`).

    What a line begins and ends with is taken off and put back. Inside, a word stands in for each
    symbol with the number or the name that it belongs to. Where the model loses that word too, the
    texts between symbols are translated by themselves.
    """

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        if not may_hold_symbols(part.text) or request.prefix:
            return False
        return self._proposer.settings(request).keep_numbers and self._errors(part, text) > 0

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        once = replace(request, nbest=1)
        lead, rest = split_lead(part.text)
        rest, tail = split_tail(rest)
        core = self._splitter.changed(part, rest, request)
        texts = []
        if lead or tail:
            texts.append(lead + (yield from self._translated(core, once)) + tail)
        spans = self._spans(core, request)
        for stand_in in STAND_INS if spans else ():
            if texts and not self._errors(part, texts[-1]):
                break
            edits = standing_in(rest, [(span.start, span.end) for span in spans], stand_in)
            changed = self._splitter.changed(part, edited(rest, edits), request)
            back = {edit.text: span.text for edit, span in zip(edits, spans, strict=True)}
            if text := with_spans((yield from self._translated(changed, once)), back):
                texts.append(lead + text + tail)
        if spans and (not texts or self._errors(part, texts[-1])):
            edits = [Edit(*span) for span in spans]
            between = yield from piecewise(self._splitter, core, edits, self._translated, once)
            texts.append(lead + between + tail)
        first = candidates[0].text
        best = min([first, *texts], key=lambda text: self._errors(part, text))
        if best == first:
            return candidates
        mended = yield from self._proposer.scored(part, [best], request)
        return (*mended, *candidates)[: request.nbest]

    @staticmethod
    def _errors(part: Part, text: str) -> int:
        return symbol_errors(part.text, text) + lost_spans(part.text, text)

    def _spans(self, part: Part, request: Request) -> list[SymbolSpan]:
        """The symbols of a part, and what must stay verbatim in it."""
        language = self._splitter.language(part.text, request)
        spans = symbol_spans(part.text, language, part.to)
        verbatim = [SymbolSpan(*at, part.text[slice(*at)]) for at in verbatim_spans(part.text)]
        # Where two overlap, the longer one holds: formulas have numbers, addresses signs.
        kept: list[SymbolSpan] = []
        for span in sorted([*verbatim, *spans], key=lambda span: span.start - span.end):
            if all(span.end <= other.start or other.end <= span.start for other in kept):
                kept.append(span)
        return sorted(kept)
