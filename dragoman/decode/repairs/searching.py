"""The questions that repairs ask the model: other candidates, scores of given texts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.decode.proposer import WIDEST, Proposer
from dragoman.decode.query import BudgetError, Query, SearchOptions
from dragoman.decode.repairs.coroutines import Rounds, ask
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, merged

_LOOK_AHEAD = 6  # pieces after a difference that are read to judge it


class SearchingProposer(Proposer):
    """A proposer whose methods search, as generators (`coroutines.py`)."""

    @classmethod
    def like(cls, proposer: Proposer) -> "SearchingProposer":
        """Return one for the same model."""
        return cls(proposer._codec, proposer._decoding, proposer.links_words)

    def propose(self, part: Part, request: Request) -> Rounds[tuple[Candidate, ...]]:
        """Search; several of the candidates may read the same."""
        hypotheses = yield from ask(self.query(part, request))
        return self.candidates(part, hypotheses, request)

    def distinct_of(self, part: Part, request: Request) -> Rounds[tuple[Candidate, ...]]:
        """Search for candidates no two of which read the same, like `distinct`."""
        candidates = merged((yield from self.propose(part, request)))
        width = self.width(request)
        while len(candidates) < request.nbest and width < WIDEST:
            width = min(2 * width, WIDEST)
            try:
                more = yield from self.propose(part, replace(request, nbest=width))
            except BudgetError:
                break
            candidates = merged(more)[: request.nbest]
            if len(more) < width:
                break
        return candidates

    def demanding(self, part: Part, request: Request) -> Rounds[tuple[Candidate, ...]]:
        """Search for translations with all terms that the part demands, in any place."""
        phrases = tuple(map(self.phrase_of, part.demands))
        query = self.query(part, request)._replace(phrases=phrases)
        hypotheses = yield from ask(query)
        return self.candidates(part, hypotheses, request)

    def scored(
        self, part: Part, texts: Sequence[str], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        """Score given translations."""
        hypotheses = yield from ask(self.scoring(part, texts, request))
        return self.as_scored(part, texts, hypotheses, request)

    def likeliest(self, part: Part, texts: Sequence[str], request: Request) -> Rounds[int]:
        """Return the number of the likeliest of some texts that differ in a few words.

        The model reads them only to a few pieces after the last difference.
        """
        start = self._codec.forced_start(part.to)
        outputs = [start + ids for ids in self._codec.encode_target(texts)]
        same = min(map(len, outputs))
        while len({tuple(output[len(output) - same :]) for output in outputs}) > 1:
            same -= 1
        beginnings = [output[: len(output) - max(0, same - _LOOK_AHEAD)] for output in outputs]
        options = SearchOptions(self.settings(request))
        query = Query(part.ids, options, outputs=beginnings, ends=same <= _LOOK_AHEAD)
        hypotheses = yield from ask(query)
        return int(np.argmax([hypothesis.score for hypothesis in hypotheses]))
