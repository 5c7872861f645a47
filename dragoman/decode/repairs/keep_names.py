"""Names come through letter by letter."""

from dragoman.decode.confidence.features import word_log_probs
from dragoman.decode.repairs.coroutines import Rounds
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate
from dragoman.text.glossary import lacking
from dragoman.text.masks import lost
from dragoman.text.names import COUNTED, Garbled, Name, find_garbled, is_known, lacking_names
from dragoman.text.numbers import Edit, edited
from dragoman.text.verbatim import verbatim_spans

# Natural logarithms of probabilities.
_DOUBT = -0.5  # that leaves a word in doubt
_WORSE = -4.0  # of a translation with the name, divided by that of the one without


class KeepNames:
    """A name that a translation misspells is put right (`decoding.keep_names`).

    A name may be lost if a word like it stands in the translation and the model is not sure of that
    word. If the shortlist lacks pieces of the name, the part is searched again among all pieces.
    If the name is one that text does not have, it takes the place of the word, unless the model
    finds that too unlikely.
    """

    def __init__(self, splitter: Splitter, proposer: SearchingProposer):
        self._splitter, self._proposer = splitter, proposer

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        if part.in_capitals or request.prefix or not self._proposer.settings(request).keep_names:
            return False
        names = self._lacking(part, text, request)
        unsaid = (not self._splitter.can_spell(part, name.text) for name in names if name.joined)
        return any(unsaid) or bool(find_garbled(part.text, text, names))

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        garbled, lost = self._garbled(part, candidates[0], request)
        if any(not self._splitter.can_spell(part, name) for name in lost):
            again = yield from self._proposer.distinct_of(part._replace(all_pieces=True), request)
            if self._is_better(part, again[0].text, candidates[0].text, request):
                candidates = again
                garbled, _ = self._garbled(part, candidates[0], request)
        if not garbled:
            return candidates
        best = candidates[0]
        edits = [Edit(one.start, one.end, one.name) for one in garbled]
        texts = [best.text, *(edited(best.text, [edit]) for edit in edits)]
        scored = yield from self._proposer.scored(part, texts, request)
        before, *after = (sum(candidate.log_probs) for candidate in scored)
        likely = [edit for edit, total in zip(edits, after, strict=True) if total - before > _WORSE]
        if not likely:
            return candidates
        text = edited(best.text, likely)
        mended = self._proposer.reworded(part, best, text, request)
        return (mended, *(one for one in candidates[1:] if one.text != text))

    def _lacking(self, part: Part, text: str, request: Request) -> tuple[Name, ...]:
        """The names of a part that a translation does not have, but for those in terms and in
        what stays verbatim."""
        language, is_rare = request.source_language, self._is_rare
        names = lacking_names(part.text, text, language, part.to, is_rare)
        if names and not language:
            # The language last: it takes longer to detect than to find no name.
            language = self._splitter.language(part.text, request)
            names = lacking_names(part.text, text, language, part.to, is_rare)
        if not names:
            return ()
        verbatim = verbatim_spans(part.text)
        terms = " ".join(demand.source for demand in part.demands)
        if not (verbatim or terms):  # as in most parts
            return names
        return tuple(
            name
            for name in names
            if name.text not in terms
            and all(name.end <= start or end <= name.start for start, end in verbatim)
        )

    def _is_rare(self, word: str) -> bool:
        """Whether it is not among the model's pieces."""
        return not self._proposer.is_frequent(word)

    def _garbled(
        self, part: Part, candidate: Candidate, request: Request
    ) -> tuple[list[Garbled], list[str]]:
        """The names that a candidate misspells, and all that it may have lost: names in whose
        place there is a doubtful word, and those beside a name that came through."""
        text = candidate.text
        names = self._lacking(part, text, request)
        joined = {name.text for name in names if name.joined}
        of_words = word_log_probs(candidate.pieces, candidate.log_probs)
        doubtful = []
        for one in find_garbled(part.text, text, names):
            number = len(text[: one.start + 1].split()) - 1
            if number >= len(of_words) or of_words[number] < _DOUBT:
                doubtful.append(one)
        lost = [one.name for one in doubtful]
        lost += [name for name in joined if not self._is_common(name)]
        # What becomes of a known word is left to the model, unless it is surely a name.
        garbled = [one for one in doubtful if not one.known or one.name in joined]
        if garbled and not {self._splitter.language(part.text, request), part.to} <= COUNTED:
            garbled = []
        return garbled, lost

    def _is_common(self, word: str) -> bool:
        return self._proposer.is_frequent(word) or is_known(word)

    def _is_better(self, part: Part, text: str, other: str, request: Request) -> bool:
        """Whether a translation lacks fewer names than another, and breaks no other promise that
        the other keeps."""

        def faults(text: str) -> int:
            terms = len(lacking(part.demands, text, part.in_capitals))
            language = self._splitter.language_of_numbers(part, request)
            return terms + lost(part.text, text, self._splitter.spells, language, part.to)

        fewer = len(self._lacking(part, text, request)) < len(self._lacking(part, other, request))
        return fewer and faults(text) <= faults(other)
