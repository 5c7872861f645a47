"""Second stage of a translation: the candidates of each part.

Parts are sorted by length and searched in batches, several at once where the engine can do that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.decode.constraints import Phrase
from dragoman.decode.glossary import Demand, lacking
from dragoman.decode.hypotheses import Hypothesis, Limits
from dragoman.decode.parallel import batches_at_once, search_batches
from dragoman.decode.request import Request
from dragoman.decode.searches import SEARCHES, Task
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate, align_words, merged, word_attention
from dragoman.engine.interface import Engine, by_engine
from dragoman.errors import TranslationError
from dragoman.text.codec import Codec

_USUAL_BEAM = 4  # a batch holds fewer sentences where the beam is wider
LEAST_ROOM = 32  # positions that a hypothesis takes memory for, however short it is
_ROUNDS = 2  # batches for each core, if the next ones were all of the same size
_LEAST_TOKENS = 256  # of a batch, unless there are more cores than batches
_WIDEST = 64  # hypotheses of a search for more translations that read differently

Found = list[tuple[Candidate, ...]]  # the candidates of each part, best first


class Searcher:
    """`decoding`: the model's own settings."""

    def __init__(self, engine: Engine, codec: Codec, decoding: DecodingConfig):
        self._engine, self._codec, self._decoding = engine, codec, decoding
        self._searches = [make() for make in SEARCHES.values()]

    def different(self, parts: Sequence[Part], first: int, request: Request) -> Found:
        """The candidates of each part, no two of which read the same.

        Where there are fewer than `nbest`, wider searches follow, until there are enough or none
        are left.
        """
        found = [merged(candidates) for candidates in self.all(parts, first, request)]
        width = self.width(request)
        short = [row for row, some in enumerate(found) if len(some) < request.nbest]
        while short and width < _WIDEST:
            width = min(2 * width, _WIDEST)
            wider = replace(request, nbest=width)
            more = self.all([parts[row] for row in short], first, wider)
            still = []
            for row, candidates in zip(short, more, strict=True):
                found[row] = merged(candidates)[: request.nbest]
                if len(found[row]) < request.nbest and len(candidates) == width:
                    still.append(row)
            short = still
        return found

    def all(self, parts: Sequence[Part], first: int, request: Request) -> Found:
        """What the search ends with for each part; several candidates may read the same.

        `first`: lines that came before these.
        """
        found = self._hypotheses(parts, first, request)
        return [
            self._chosen(part, hypotheses, request)
            for part, hypotheses in zip(parts, found, strict=True)
        ]

    def _hypotheses(
        self, parts: Sequence[Part], first: int, request: Request
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[]] * len(parts)
        said = max((len(part.says) for part in parts), default=0)
        at_once = batches_at_once(self._engine)
        batches: list[list[int]] = []
        for _, rows in by_engine(self._engine, [part.ids for part in parts]):
            lengths = [len(parts[row].ids) for row in rows]
            some = self.batches(lengths, request, at_once, said)
            batches += [[rows[number] for number in batch] for batch in some]
        groups = [[parts[row] for row in rows] for rows in batches]
        searched = search_batches(
            self._engine, groups, lambda engine, group: self._search(engine, group, first, request),
            in_order=request.observer is not None,
        )  # fmt: skip
        for rows, outputs in zip(batches, searched, strict=True):
            for row, hypotheses in zip(rows, outputs, strict=True):
                found[row] = hypotheses
        return found

    def batches(
        self, lengths: Sequence[int], request: Request, at_once: int, said: int = 0
    ) -> list[list[int]]:
        """Which parts of these lengths are well searched together, where `at_once` batches are.

        `said`: translations of a part that are given, where none are searched for.
        """
        tokens = self.settings(request).batch_tokens or self._engine.batch_tokens
        beam = said or (request.nbest if request.sampling else self.width(request))
        room = 1 if self._engine.searches_on_device else LEAST_ROOM
        # A batch for the usual beam is limited by its tokens. A wider beam takes more memory for
        # each sentence, so it gets fewer sentences.
        limit = _Hypotheses(beam, _USUAL_BEAM * tokens, room)
        return [*batches_by_length(lengths, tokens, limit, at_once)]

    def _chosen(
        self, part: Part, hypotheses: Sequence[Hypothesis], request: Request
    ) -> tuple[Candidate, ...]:
        """The `nbest` candidates of a part. Those with all terms come first: the beam may hold one
        that is not the best, and then no term must be put in."""
        wanted = hypotheses if part.demands else hypotheses[: request.nbest]
        candidates = [self._candidate(part, hypothesis, request) for hypothesis in wanted]
        if part.demands:
            candidates.sort(key=lambda one: bool(lacking(part.demands, one.text, part.in_capitals)))
        return tuple(candidates[: request.nbest])

    def scored(
        self, parts: Sequence[Part], texts: Sequence[Sequence[str]], first: int, request: Request
    ) -> Found:
        """These translations of each part, with the probabilities that the model gives them."""
        given = [part._replace(says=tuple(said)) for part, said in zip(parts, texts, strict=True)]
        found = self._hypotheses(given, first, request)
        return [
            tuple(
                replace(self._candidate(part, hypothesis, request), text=text)
                for hypothesis, text in zip(hypotheses, part.says, strict=True)
            )
            for part, hypotheses in zip(given, found, strict=True)
        ]

    def word_attention(
        self, parts: Sequence[Part], texts: Sequence[Sequence[str]], first: int, request: Request
    ) -> list[list[np.ndarray]]:
        """How much each word of these translations looked at each source word. (T, S) each"""
        given = [part._replace(says=tuple(said)) for part, said in zip(parts, texts, strict=True)]
        found = self._hypotheses(given, first, replace(request, alignments=True))
        looked: list[list[np.ndarray]] = [[] for _ in parts]
        for part, hypotheses, of_part in zip(given, found, looked, strict=True):
            forced = len(self._codec.forced_start(part.to))
            source = [self._codec.source.pieces[i] for i in part.ids]
            for hypothesis in hypotheses:
                assert hypothesis.attention is not None
                target = [self._codec.target.pieces[i] for i in hypothesis.tokens[forced:]]
                of_part.append(word_attention(source, target, hypothesis.attention[forced:]))
        return looked

    @property
    def links_words(self) -> bool:
        """Whether the model can tell which words translate which."""
        return self._engine.has_attention

    def settings(self, request: Request) -> DecodingConfig:
        """Those of the request, or else the model's own."""
        return request.decoding or self._decoding

    def width(self, request: Request) -> int:
        """Hypotheses that a search keeps for each part."""
        return max(self.settings(request).beam, request.nbest)

    def longest_targets(self, parts: Sequence[Part], request: Request) -> np.ndarray:
        """The most pieces that the translation of each part may have. (N,)"""
        sources = [part.ids for part in parts]
        return Limits(self._engine, sources, self.settings(request), None).longest

    def work(self, parts: Sequence[Part], request: Request) -> list[int]:
        """Positions that the model computes at most to search for each part.

        These are its source pieces, and for every hypothesis of the beam as many target pieces as
        it may have. A position of the target takes 2 x layers x width numbers in the KV cache.
        """
        longest = self.longest_targets(parts, request)
        width = self.width(request)
        return [
            len(part.ids) + width * int(length) for part, length in zip(parts, longest, strict=True)
        ]

    def _search(
        self, engine: Engine, parts: Sequence[Part], first: int, request: Request
    ) -> list[list[Hypothesis]]:
        sources = [part.ids for part in parts]
        engine = engine.chosen(sources[0])  # which is that of the whole batch
        settings = self.settings(request)
        forced = [
            self._codec.forced_start(part.to) + self._beginning(part, request) for part in parts
        ]
        given = None
        if any(part.says for part in parts):
            given = [
                [
                    self._codec.forced_start(part.to) + ids
                    for ids in self._codec.encode_target(part.says)
                ]
                for part in parts
            ]
        prefixes = forced if any(forced) else None
        # a forced piece may be on nobody's list
        if prefixes or given or request.demanding or not settings.shortlist:
            engine = engine.without_shortlist
        phrases = None
        if request.demanding:
            phrases = [tuple(map(self._phrase, part.demands)) for part in parts]
        task = Task(
            settings,
            request.nbest,
            prefixes,
            phrases,
            given,
            attention=request.alignments,
            sampling=request.sampling,
            keys=[(first + part.line) * 2**16 + part.number for part in parts],
            observer=request.observer,
            on_step=request.on_step,
            spare=any(part.demands for part in parts),
        )
        search = next(search for search in self._searches if search.fits(engine, task))
        return search(engine, sources, task)

    def _beginning(self, part: Part, request: Request) -> list[int]:
        """What the translation of a part must begin with; the prefix is that of a whole line."""
        text = request.prefix if part.number == 0 else ""
        return self._codec.encode_target([text])[0] if text else []

    def _phrase(self, demand: Demand) -> Phrase:
        """A demand as ids. At the beginning of a sentence a term may be capitalised."""
        unk = self._codec.target.unk
        texts = [*demand.targets, *(text[:1].upper() + text[1:] for text in demand.targets)]
        ways = [tuple(ids) for ids in self._codec.encode_target([*dict.fromkeys(texts)])]
        known = tuple(way for way in ways if way and unk not in way)
        if not known:
            raise TranslationError(
                f"the glossary's {demand.targets[0]!r} holds a letter that this model cannot write."
            )
        return Phrase(known, demand.inflection)

    def spelled(self, part: Part, candidate: Candidate) -> str:
        """What the pieces of a candidate read."""
        numbers = self._codec.target.ids
        text = self._codec.decode_target([numbers[piece] for piece in candidate.pieces])
        return text.upper() if part.in_capitals else text

    def _candidate(self, part: Part, hypothesis: Hypothesis, request: Request) -> Candidate:
        forced = len(self._codec.forced_start(part.to))
        tokens, log_probs = hypothesis.tokens[forced:], hypothesis.log_probs[forced:]
        pieces = tuple(self._codec.target.pieces[i] for i in tokens)
        alignment: tuple[tuple[int, int], ...] = ()
        if request.alignments and hypothesis.attention is not None:
            source = [self._codec.source.pieces[i] for i in part.ids]
            links = align_words(source, pieces, hypothesis.attention[forced:])
            alignment = tuple((_in_line(word, part.left_out), other) for word, other in links)
        text = self._codec.decode_target(tokens)
        if part.in_capitals:
            text = text.upper()
        return Candidate(text, hypothesis.score, pieces, log_probs, alignment)


def _in_line(word: int, left_out: Sequence[int]) -> int:
    """The number of a part's word in its line, which has words that the part has not.

    >>> [_in_line(word, (2, 4)) for word in range(4)]
    [0, 1, 3, 5]
    """
    for other in left_out:
        word += other <= word
    return word


class _Hypotheses(NamedTuple):
    """What the hypotheses of a batch take: keys and values for `positions` in all."""

    beam: int
    positions: int
    room: int  # positions of a hypothesis at least

    def most_sentences(self, longest: int) -> int:
        return max(1, self.positions // (self.beam * max(longest, self.room)))


def batches_by_length(
    lengths: Sequence[int],
    tokens: int,
    hypotheses: _Hypotheses | None = None,
    at_once: int = 1,
) -> Iterator[list[int]]:
    """Row numbers grouped by length, longest first (memory shows at once).

    A batch is limited by its padded tokens and, in a search, by what its hypotheses take. Where
    several are searched at once, they become smaller towards the end: each takes its part of what
    is left, so that all cores end at about the same time.
    """
    group: list[int] = []
    most = 0
    left = sum(lengths)
    least = min(_LEAST_TOKENS, left // at_once)
    for row in sorted(range(len(lengths)), key=lambda r: (-lengths[r], r)):
        if len(group) == most:
            if group:
                yield group
            group = []
            longest = max(1, lengths[row])
            share = max(least, left // (_ROUNDS * at_once)) if at_once > 1 else tokens
            most = max(1, min(tokens, share) // longest)
            if hypotheses is not None:
                most = min(most, hypotheses.most_sentences(longest))
        group.append(row)
        left -= lengths[row]
    if group:
        yield group
