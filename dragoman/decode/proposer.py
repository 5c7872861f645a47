"""Queries for the parts of a text, and the candidates that the answers contain."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.query import BudgetError, Query, Search, SearchOptions, affordable
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.decode.search.task import Phrase
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, align_words, merged, reworded, word_attention
from dragoman.errors import TranslationError
from dragoman.text.codec import Codec
from dragoman.text.glossary import Demand, lacking
from dragoman.text.masks import has_each_once, unmasked
from dragoman.text.segments import capitalised
from dragoman.text.subword import WORD_START

WIDEST = 64  # hypotheses of a search for more distinct translations
_PARTS_OF_A_LINE = 2**16  # at most: the seed of a part's samples depends on the numbers of both


class Proposer:
    """Makes queries and reads their answers.

    `decoding` are the model's own settings. `links_words` tells whether its attention can link
    words.
    """

    def __init__(self, codec: Codec, decoding: DecodingConfig, links_words: bool):
        self._codec, self._decoding, self.links_words = codec, decoding, links_words

    def settings(self, request: Request) -> DecodingConfig:
        """Return the settings of the request, or else the model's own."""
        return request.decoding or self._decoding

    def width(self, request: Request) -> int:
        """Return how many hypotheses a search keeps for each part."""
        return max(self.settings(request).beam_size, request.nbest)

    def query(self, part: Part, request: Request) -> Query:
        """Return the plain search for a part."""
        # The attention tells where a repair may have to insert a term.
        inserts = bool(part.demands) and self.links_words and not self._codec.has_masks
        looks = request.alignments or inserts
        settings = self.settings(request)
        if part.all_pieces:
            settings = replace(settings, shortlist=False)
        options = SearchOptions(settings, request.nbest, looks, request.sampling)
        return Query(
            part.ids,
            options,
            self._codec.forced_start(part.to) + self._beginning(part, request),
            key=part.line * _PARTS_OF_A_LINE + part.number,
            spare=bool(part.demands or part.masks),
        )

    def reworded(self, part: Part, candidate: Candidate, text: str, request: Request) -> Candidate:
        """Return a candidate with some words replaced, so that it reads like `text`."""
        (ids,) = self._codec.encode_target([text])
        pieces = tuple(self._codec.target.pieces[i] for i in ids)
        changed = reworded(candidate, text, pieces)
        if request.alignments and changed.looked is not None:
            changed = replace(changed, alignment=self._links(part, changed.looked))
        return changed

    def spelled(self, part: Part, candidate: Candidate) -> str:
        """Return the text that the pieces of a candidate spell."""
        numbers = self._codec.target.ids
        return self._written(part, [numbers[piece] for piece in candidate.pieces])

    def is_frequent(self, word: str) -> bool:
        """Tell whether a word is one piece, with or without its capital."""
        pieces = self._codec.source.ids
        return WORD_START + word in pieces or WORD_START + word.lower() in pieces

    def _beginning(self, part: Part, request: Request) -> list[int]:
        """Return the forced prefix of a part, which only the first part of a line has."""
        text = request.prefix if part.number == 0 else ""
        return self._codec.encode_target([text])[0] if text else []

    def distinct(
        self, parts: Sequence[Part], request: Request, search: Search
    ) -> list[tuple[Candidate, ...]]:
        """Search for the candidates of each part, no two of which read the same.

        Where there are fewer than `nbest`, wider searches follow until there are enough.
        """
        answers = affordable(search([self.query(part, request) for part in parts]))
        found = [
            merged(self.candidates(part, hypotheses, request))
            for part, hypotheses in zip(parts, answers, strict=True)
        ]
        few = [row for row, own in enumerate(found) if len(own) < request.nbest]
        width = self.width(request)
        while few and width < WIDEST:
            width = min(2 * width, WIDEST)
            wider = replace(request, nbest=width)
            wider_answers = search([self.query(parts[row], wider) for row in few])
            retry = []
            for row, hypotheses in zip(few, wider_answers, strict=True):
                if isinstance(hypotheses, BudgetError):
                    continue
                more = self.candidates(parts[row], hypotheses, wider)
                found[row] = merged(more)[: request.nbest]
                # Fewer hypotheses than asked for: there are no others.
                if len(found[row]) < request.nbest and len(more) == width:
                    retry.append(row)
            few = retry
        return found

    def candidates(
        self, part: Part, hypotheses: Sequence[Hypothesis], request: Request
    ) -> tuple[Candidate, ...]:
        """Return the `nbest` candidates of a part, those with all masks and all terms first.

        A hypothesis with all terms needs no insertion, even if another one scores higher.
        """
        request.pause()
        if part.masks:
            hypotheses = sorted(hypotheses, key=lambda one: not self.has_masks(part, one.tokens))
        if part.demands:
            hypotheses = sorted(
                hypotheses,
                key=lambda one: bool(
                    lacking(part.demands, self._text(part, one), part.in_capitals, request.pause)
                ),
            )
        return tuple(self._candidate(part, one, request) for one in hypotheses[: request.nbest])

    def _text(self, part: Part, hypothesis: Hypothesis) -> str:
        return self._written(part, hypothesis.tokens[len(self._codec.forced_start(part.to)) :])

    def _written(self, part: Part, tokens: Sequence[int]) -> str:
        return unmasked(_as_written(part, self._codec.decode_target(tokens)), part.masks)

    def has_masks(self, part: Part, tokens: Sequence[int]) -> bool:
        """Tell whether a hypothesis has each mask of its part once."""
        text = "".join(self._codec.target.pieces[token] for token in tokens)
        return has_each_once(text, part.masks)

    def constrained(self, part: Part, request: Request) -> Query:
        """Return a search among the translations that have all masks and terms of a part."""
        numbers = self._codec.target.ids
        phrases = []
        for mask in part.masks:
            if mask.symbol in numbers:
                phrases.append(Phrase(((numbers[mask.symbol],),), open_ended=True, once=True))
            else:
                (ids,) = self._codec.encode_target([mask.symbol])
                phrases.append(Phrase((tuple(ids),)))
        if self._codec.has_masks:
            phrases += map(self.phrase_of, part.demands)
        return self.query(part, request)._replace(phrases=tuple(phrases))

    def scoring(self, part: Part, texts: Sequence[str], request: Request) -> Query:
        """Return a query that scores given translations of a part."""
        start = self._codec.forced_start(part.to)
        outputs = [start + ids for ids in self._codec.encode_target(texts)]
        return self.query(part, request)._replace(outputs=outputs)

    def as_scored(
        self, part: Part, texts: Sequence[str], scored: Sequence[Hypothesis], request: Request
    ) -> tuple[Candidate, ...]:
        """Return candidates with given texts from the answer to `scoring`."""
        pairs = zip(texts, scored, strict=True)
        return tuple(replace(self._candidate(part, one, request), text=text) for text, one in pairs)

    def phrase_of(self, demand: Demand) -> Phrase:
        """Return a demand as ids; at the beginning of a sentence, a term may be capitalized."""
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
        """Return pairs of a word of the line and a target word."""
        return tuple((_in_line(word, part.left_out), other) for word, other in align_words(looked))


def _as_written(part: Part, text: str) -> str:
    """Give a translation the capitals of its source, and the same dots at the end.

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
    """Convert the number of a word in its part to its number in the line.

    Words left out of the part are numbers of the line only.

    >>> [_in_line(word, (2, 4)) for word in range(4)]
    [0, 1, 3, 5]
    """
    for other in left_out:
        word += other <= word
    return word
