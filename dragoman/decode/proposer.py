"""Candidates of one part of a text: each method is a life, which yields queries (`query.py`)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.promises.glossary import Demand, lacking
from dragoman.decode.query import BudgetError, Life, Manner, Query, ask
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.task import Phrase
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, align_words, merged, reworded, word_attention
from dragoman.errors import TranslationError
from dragoman.text.codec import Codec
from dragoman.text.segments import capitalised
from dragoman.text.subword import WORD_START

_LOOK_AHEAD = 6  # pieces behind a difference that are read to judge it
_WIDEST = 64  # hypotheses of a search for more translations that read differently
_PARTS_OF_A_LINE = 2**16  # at most: what is drawn for a part depends on the numbers of both


class Proposer:
    """`decoding`: the model's own settings; `links_words`: whether it can tell which words
    translate which."""

    def __init__(self, codec: Codec, decoding: DecodingConfig, links_words: bool):
        self._codec, self._decoding, self.links_words = codec, decoding, links_words

    def settings(self, request: Request) -> DecodingConfig:
        """Those of the request, or else the model's own."""
        return request.decoding or self._decoding

    def width(self, request: Request) -> int:
        """Hypotheses that a search keeps for each part."""
        return max(self.settings(request).beam_size, request.nbest)

    def query(self, part: Part, request: Request) -> Query:
        """The plain search for a part."""
        # Where a term may have to be put in, the search tells the place.
        looks = request.alignments or (bool(part.demands) and self.links_words)
        settings = self.settings(request)
        if part.all_pieces:
            settings = replace(settings, shortlist=False)
        manner = Manner(settings, request.nbest, looks, request.sampling)
        return Query(
            part.ids,
            manner,
            self._codec.forced_start(part.to) + self._beginning(part, request),
            key=part.line * _PARTS_OF_A_LINE + part.number,
            spare=bool(part.demands),
        )

    def propose(self, part: Part, request: Request) -> Life[tuple[Candidate, ...]]:
        """What the search ends with; several candidates may read the same."""
        hypotheses = yield from ask(self.query(part, request))
        return self._chosen(part, hypotheses, request)

    def distinct(self, part: Part, request: Request) -> Life[tuple[Candidate, ...]]:
        """Candidates no two of which read the same.

        Where there are fewer than `nbest`, wider searches follow, until there are enough or none
        are left.
        """
        candidates = merged((yield from self.propose(part, request)))
        width = self.width(request)
        while len(candidates) < request.nbest and width < _WIDEST:
            width = min(2 * width, _WIDEST)
            try:
                more = yield from self.propose(part, replace(request, nbest=width))
            except BudgetError:
                break
            candidates = merged(more)[: request.nbest]
            if len(more) < width:
                break
        return candidates

    def demanding(self, part: Part, request: Request) -> Life[tuple[Candidate, ...]]:
        """Translations with all terms that the part demands, wherever the search puts them."""
        phrases = tuple(map(self._phrase, part.demands))
        query = self.query(part, request)._replace(phrases=phrases)
        hypotheses = yield from ask(query)
        return self._chosen(part, hypotheses, request)

    def scored(
        self, part: Part, texts: Sequence[str], request: Request
    ) -> Life[tuple[Candidate, ...]]:
        """These translations, with the probabilities that the model gives them."""
        hypotheses = yield from self._read(part, texts, request)
        return tuple(
            replace(self._candidate(part, hypothesis, request), text=text)
            for hypothesis, text in zip(hypotheses, texts, strict=True)
        )

    def likeliest(self, part: Part, texts: Sequence[str], request: Request) -> Life[int]:
        """Which of some texts that differ in few words the model likes best.

        It reads them from their beginning to some pieces behind the last difference.
        """
        start = self._codec.forced_start(part.to)
        outputs = [start + ids for ids in self._codec.encode_target(texts)]
        same = min(map(len, outputs))
        while len({tuple(output[len(output) - same :]) for output in outputs}) > 1:
            same -= 1
        beginnings = [output[: len(output) - max(0, same - _LOOK_AHEAD)] for output in outputs]
        manner = Manner(self.settings(request))
        query = Query(part.ids, manner, outputs=beginnings, ends=same <= _LOOK_AHEAD)
        hypotheses = yield from ask(query)
        return int(np.argmax([hypothesis.score for hypothesis in hypotheses]))

    def reworded(self, part: Part, candidate: Candidate, text: str, request: Request) -> Candidate:
        """A candidate in which some words were changed."""
        (ids,) = self._codec.encode_target([text])
        pieces = tuple(self._codec.target.pieces[i] for i in ids)
        changed = reworded(candidate, text, pieces)
        if request.alignments and changed.looked is not None:
            changed = replace(changed, alignment=self._links(part, changed.looked))
        return changed

    def spelled(self, part: Part, candidate: Candidate) -> str:
        """What the pieces of a candidate read."""
        numbers = self._codec.target.ids
        return self._written(part, [numbers[piece] for piece in candidate.pieces])

    def is_frequent(self, word: str) -> bool:
        """Whether a word is one piece, with or without its capital."""
        pieces = self._codec.source.ids
        return WORD_START + word in pieces or WORD_START + word.lower() in pieces

    def _read(self, part: Part, texts: Sequence[str], request: Request) -> Life[list[Hypothesis]]:
        start = self._codec.forced_start(part.to)
        outputs = [start + ids for ids in self._codec.encode_target(texts)]
        return (yield from ask(self.query(part, request)._replace(outputs=outputs)))

    def _beginning(self, part: Part, request: Request) -> list[int]:
        """What the translation of a part must begin with; the prefix is that of a whole line."""
        text = request.prefix if part.number == 0 else ""
        return self._codec.encode_target([text])[0] if text else []

    def _phrase(self, demand: Demand) -> Phrase:
        """A demand as ids. At the beginning of a sentence a term may be capitalised."""
        unk = self._codec.target.unk
        spellings = demand.spellings
        texts = [*spellings, *(text[:1].upper() + text[1:] for text in spellings)]
        ways = [tuple(ids) for ids in self._codec.encode_target([*dict.fromkeys(texts)])]
        known = tuple(way for way in ways if way and unk not in way)
        if not known:
            raise TranslationError(
                f"the glossary's {demand.targets[0]!r} holds a letter that this model cannot write."
            )
        return Phrase(known)

    def _chosen(
        self, part: Part, hypotheses: Sequence[Hypothesis], request: Request
    ) -> tuple[Candidate, ...]:
        """The `nbest` candidates of a part. Those with all terms come first: the beam may hold one
        that is not the best, and then no term must be put in."""
        if part.demands:
            hypotheses = sorted(
                hypotheses,
                key=lambda one: bool(
                    lacking(part.demands, self._text(part, one), part.in_capitals)
                ),
            )
        return tuple(self._candidate(part, one, request) for one in hypotheses[: request.nbest])

    def _text(self, part: Part, hypothesis: Hypothesis) -> str:
        return self._written(part, hypothesis.tokens[len(self._codec.forced_start(part.to)) :])

    def _written(self, part: Part, tokens: Sequence[int]) -> str:
        return _as_written(part, self._codec.decode_target(tokens))

    def _candidate(self, part: Part, hypothesis: Hypothesis, request: Request) -> Candidate:
        forced = len(self._codec.forced_start(part.to))
        tokens, log_probs = hypothesis.tokens[forced:], hypothesis.log_probs[forced:]
        pieces = tuple(map(self._codec.target.pieces.__getitem__, tokens))
        looked = None
        alignment: tuple[tuple[int, int], ...] = ()
        if hypothesis.attention is not None:
            source = [self._codec.source.pieces[i] for i in part.ids]
            attention = hypothesis.attention[forced:]
            if request.alignments:
                alignment = self._links(part, word_attention(source, pieces, attention))
            if part.demands:
                looked = word_attention(source, pieces, attention, punctuation=False)
        text = self._written(part, tokens)
        return Candidate(text, hypothesis.score, pieces, log_probs, alignment, looked)

    def _links(self, part: Part, looked: np.ndarray) -> tuple[tuple[int, int], ...]:
        """Pairs of a word of the line and a target word."""
        return tuple((_in_line(word, part.left_out), other) for word, other in align_words(looked))


def _as_written(part: Part, text: str) -> str:
    """A translation with capitals where its source has them, and with its dots at the end.

    >>> _as_written(Part(0, 0, [], "de", "Wait…"), "Warte...")
    'Warte…'
    """
    for said, written in (("...", "…"), ("…", "...")):
        if text.endswith(said) and part.text.endswith(written):
            text = text.removesuffix(said) + written
    if part.in_capitals:
        return text.upper()
    return capitalised(text) if part.capital else text


def _in_line(word: int, left_out: Sequence[int]) -> int:
    """The number of a part's word in its line, which has words that the part has not.

    >>> [_in_line(word, (2, 4)) for word in range(4)]
    [0, 1, 3, 5]
    """
    for other in left_out:
        word += other <= word
    return word
