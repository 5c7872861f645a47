"""From text to text: the one pipeline behind every interface.

    lines → parts → queries → search → candidates → repairs → joined lines

Lines with an exact match in a translation memory, and lines that are not in one of the model's
languages, keep their text. The others are split into parts that the model can take at once. Equal
parts are searched for once. Candidates that lost something are repaired with further searches, and
the parts of a line are joined again.

The caller passes the search: an engine's on the command line, the scheduler's in the service.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from dragoman.config import DecodingConfig
from dragoman.decode.proposer import Proposer
from dragoman.decode.query import BudgetError, Search, affordable
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate, Translation, count_words, joined, merged
from dragoman.engine.protocol import Engine
from dragoman.text.codec import Codec
from dragoman.text.glossary import lacking
from dragoman.text.languages import reason_to_keep
from dragoman.text.masks import has_each_once, lost
from dragoman.text.translation_memory import EXACT, Match

if TYPE_CHECKING:
    from dragoman.decode.repairs.table import Repairs


class Pipeline:
    """Translates lines with a search that the caller passes.

    `decoding` are the model's own settings. Of the engine, only its abilities are needed here.
    """

    def __init__(self, engine: Engine, codec: Codec, decoding: DecodingConfig):
        self._engine, self._codec = engine, codec
        self.splitter = Splitter(codec, decoding, engine.max_length, engine.allowed_tokens)
        self.proposer = Proposer(codec, decoding, engine.has_attention)

    def translate(
        self, lines: Sequence[str], request: Request, search: Search, first: int = 0
    ) -> list[Translation]:
        """Translate each line. `first` is the number of lines before these."""
        finished, matches = self._finished(lines, request)
        unfinished = ["" if row in finished else text for row, text in enumerate(lines)]
        parts = self.splitter(unfinished, request, first)
        candidates = self._candidates(parts, request, search)
        of_line: list[list[tuple[Part, tuple[Candidate, ...]]]] = [[] for _ in lines]
        for part, of_part in zip(parts, candidates, strict=True):
            of_line[part.line - first].append((part, of_part))
        return [
            finished[row] if row in finished else self._joined(text, of_line[row], matches[row])
            for row, text in enumerate(lines)
        ]

    def linking(self, request: Request) -> Request:
        """Return the request with links between words, if the model has attention to link by."""
        return replace(request, alignments=self._engine.has_attention)

    def least_work(self, lines: Sequence[str], request: Request) -> int:
        """Return a lower bound of the work of the first searches, without splitting the lines."""
        source = request.source_language or next(iter(self._codec.languages.sources), "")
        to = request.to or self._codec.languages.default_target(request.source_language)
        texts = [line for line in lines if line.strip()]
        pieces = sum(map(len, self._codec.encode_source(texts, to, source)))
        ratio = min(1.0, self.proposer.settings(request).max_length_ratio)
        return int(pieces * (1 + self.proposer.width(request) * ratio))

    def _finished(
        self, lines: Sequence[str], request: Request
    ) -> tuple[dict[int, Translation], list[Match | None]]:
        """Return translations that need no model, by line, and all matches in the memory."""
        memory = request.memory
        matches = [memory.find(text) if memory and text.strip() else None for text in lines]
        finished: dict[int, Translation] = {}
        for row, (text, match) in enumerate(zip(lines, matches, strict=True)):
            if match and match.similarity == EXACT:
                finished[row] = Translation(text, (Candidate(match.target, 0.0),), match=match)
            elif note := self._reason_to_keep(text, request):
                # A translation is one line, even if it is the source.
                same = " ".join(text.splitlines()).replace("\t", " ")
                finished[row] = Translation(text, (Candidate(same, 0.0),), note, match)
        return finished, matches

    def _reason_to_keep(self, text: str, request: Request) -> str:
        """Return why a text is kept, judging by its detected language, or an empty string."""
        if request.source_language or request.observer or not text.strip():
            return ""
        languages = self._codec.languages
        return reason_to_keep(text, languages.sources, self.splitter.target(text, request))

    def _candidates(
        self, parts: Sequence[Part], request: Request, search: Search
    ) -> list[tuple[Candidate, ...]]:
        """Return the candidates of each part, best first; equal parts share theirs."""
        # Samples of equal parts differ, and an observer watches each part.
        if request.sampling or request.observer:
            answers = affordable(search([self.proposer.query(part, request) for part in parts]))
            return [
                self.proposer.candidates(part, hypotheses, request)
                for part, hypotheses in zip(parts, answers, strict=True)
            ]
        keys = [_key(part, request) for part in parts]
        unique = dict(zip(keys, parts, strict=True))
        distinct = [*unique.values()]
        candidates = self.proposer.distinct(distinct, request, search)
        candidates = self._completed(distinct, candidates, request, search)
        if not self._codec.has_masks:
            candidates = self._repair(distinct, candidates, request, search)
        of_key = {
            key: tuple(replace(one, looked=None) for one in own) if part.demands else own
            for (key, part), own in zip(unique.items(), candidates, strict=True)
        }
        return [of_key[key] for key in keys]

    def _completed(
        self,
        parts: Sequence[Part],
        candidates: Sequence[tuple[Candidate, ...]],
        request: Request,
        search: Search,
    ) -> list[tuple[Candidate, ...]]:
        """Search once more for the parts whose best candidate has lost something.

        All that must come through is masked then, and only translations with all masks and terms
        are searched. They count if they have fewer faults.
        """
        found = [*candidates]
        pairs = zip(parts, found, strict=True)
        faults = [self._faults(part, own[0], request) for part, own in pairs]
        failed = [row for row, count in enumerate(faults) if count]
        masked = {row: self._masked(parts[row], found[row][0].text, request) for row in failed}
        again = {row: part for row, part in masked.items() if part is not None}
        if not again:
            return found
        # A free search with masks reads better than one that must have them.
        ways = [
            [(row, part, self.proposer.query(part, request)) for row, part in again.items()],
            [(row, part, self.proposer.constrained(part, request)) for row, part in again.items()],
        ]
        tries = [one for way in ways for one in way]
        answers = search([query for _, _, query in tries])
        for (row, part, _), hypotheses in zip(tries, answers, strict=True):
            if not faults[row] or isinstance(hypotheses, BudgetError):
                continue
            own = merged(self.proposer.candidates(part, hypotheses, request))
            counts = [self._faults(part, one, request) for one in own]
            if min(counts) < faults[row]:
                best = counts.index(min(counts))
                faults[row] = counts[best]
                found[row] = (own[best], *own[:best], *own[best + 1 :])[: request.nbest]
        changed = [row for row in again if found[row] is not candidates[row]]
        if self._codec.has_masks or not changed:
            return found
        # No pieces of these translations spell what the masks stood for, so they are scored as
        # they read now.
        texts = {row: [one.text for one in found[row]] for row in changed}
        scored = search([self.proposer.scoring(parts[row], texts[row], request) for row in changed])
        for row, hypotheses in zip(changed, scored, strict=True):
            if not isinstance(hypotheses, BudgetError):
                found[row] = self.proposer.as_scored(parts[row], texts[row], hypotheses, request)
        return found

    def _faults(self, part: Part, candidate: Candidate, request: Request) -> int:
        """Count what a candidate has lost of its part."""
        count = int(not has_each_once("".join(candidate.pieces), part.masks))
        if part.demands and self._codec.has_masks:
            count += len(lacking(part.demands, candidate.text, part.in_capitals))
        if self.proposer.settings(request).keep_numbers and not request.prefix:
            language = self.splitter.language_of_numbers(part, request)
            count += lost(part.text, candidate.text, self._codec.spells, language, part.to)
        return count

    def _masked(self, part: Part, translation: str, request: Request) -> Part | None:
        """Return a part with all masked that a translation lacks; None if that changes nothing."""
        (masked,) = self.splitter.encode([part], request, lost_by=translation)
        if not (masked.masks or masked.demands) or len(masked.ids) > self.splitter.longest(request):
            return None
        return masked

    @cached_property
    def _repair(self) -> "Repairs":
        """The repairs, which only models without masks need."""
        from dragoman.decode.repairs.table import Repairs

        return Repairs(self.splitter, self.proposer)

    def _joined(
        self, text: str, parts: Sequence[tuple[Part, tuple[Candidate, ...]]], match: Match | None
    ) -> Translation:
        """Join the candidates of a line's parts to its translation."""
        words: list[int] = []
        if len(parts) > 1:  # alignments of later parts are shifted by the words of earlier ones
            pieces = self._codec.source.pieces
            words = [
                count_words([pieces[i] for i in part.ids]) + len(part.left_out) for part, _ in parts
            ]
        candidates = joined([of_part for _, of_part in parts], words)
        is_cut = any(part.is_cut for part, _ in parts)
        adapted = self._is_adapted(parts)
        return Translation(text, candidates, match=match, adapted=adapted, is_cut=is_cut)

    def _is_adapted(self, parts: Sequence[tuple[Part, tuple[Candidate, ...]]]) -> bool:
        first, *others = self._engine.variants
        return bool(others) and any(self._engine.route(part.ids) is not first for part, _ in parts)


def _key(part: Part, request: Request) -> object:
    """Return all that the candidates of a part depend on.

    The text matters as well as its ids, since repairs compare its digits, which may have the same
    ids in two spellings. Alignments count the words left out.
    """
    has_prefix = bool(request.prefix) and part.number == 0
    text = part.text.strip()
    return tuple(part.ids), part.to, text, has_prefix, part.demands, part.left_out
