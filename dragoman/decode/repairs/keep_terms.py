"""Every term of the glossary appears."""

from dataclasses import replace

from dragoman.decode.repairs.coroutines import Rounds, together
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate, merged
from dragoman.text.glossary import lacking

# Hypotheses: translations with and without a term share the beam. With 4 some get a word too many.
_LEAST_BEAM = 5


class KeepTerms:
    """Every term of the glossary appears, in the place of what the model would say.

    Where that fails, or a model cannot link words, only translations with all terms are searched,
    wherever these put them.
    """

    def __init__(self, splitter: Splitter, proposer: SearchingProposer):
        self._proposer = proposer

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        demands = part.demands
        return bool(demands and lacking(demands, text, part.in_capitals, request.pause))

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        if self._proposer.links_words:
            candidates = yield from self._filled_in(part, candidates, request)
            if not self.is_broken(part, candidates[0].text, request):
                return candidates
        # Words cannot be linked, or a term has taken the place of another.
        beam = max(self._proposer.width(request), _LEAST_BEAM)
        settings = replace(self._proposer.settings(request), beam_size=beam)
        strict = yield from self._proposer.demanding(part, replace(request, decoding=settings))
        return merged(strict)

    def _filled_in(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        """The candidates with their terms in place, in their order."""
        mended = yield from together([self._of_one(part, one, request) for one in candidates])
        return merged(mended)[: request.nbest]

    def _of_one(self, part: Part, candidate: Candidate, request: Request) -> Rounds[Candidate]:
        request.pause()  # many terms take long
        # Capitals come last: a model in whose words they are loses its way.
        quiet = part._replace(in_capitals=False)
        text = self._proposer.spelled(quiet, candidate)
        assert candidate.looked is not None
        from dragoman.decode.repairs.placing import filled_in  # few texts have terms

        texts = filled_in(text, candidate.looked, part.demands, part.to)
        best = 0
        if len(texts) > 1:
            best = yield from self._proposer.likeliest(quiet, texts, request)
        mended = self._proposer.reworded(quiet, candidate, texts[best], request)
        return replace(mended, text=mended.text.upper()) if part.in_capitals else mended
