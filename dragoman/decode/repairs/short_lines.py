"""A line of a few words is asked for in several ways: it says too little about itself."""

import math
import re
from collections import defaultdict
from dataclasses import replace

from dragoman.decode.repairs.coroutines import Rounds, together
from dragoman.decode.repairs.searching import SearchingProposer
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate
from dragoman.text.glossary import NO_TERMS
from dragoman.text.names import SMALL_LETTERS
from dragoman.text.segments import capitalised, uncapitalised

_SHORT = re.compile(r"[^\W\d_]++(?:['’ -][^\W\d_]++)*+")
_DOTS = ("…", "...")  # behind a menu entry that asks for more
_WORDS = 3
_BETWEEN = "en"  # the language that most of what a model learns from has on one side
_ANSWERS = 4  # of each search
_WAYS = 2  # through the other language
# What an answer to the line as a sentence counts, in answers to the line: a menu entry is none.
_AS_SENTENCE = 0.25


class ShortLines:
    """The answer on which several ways of asking agree (`decoding.short_lines`).

    The line as it is, with a small first letter, with a full stop, and its best English
    translations, if neither language is English. Each way has some answers with their
    probabilities. These are added up for answers that are alike but for capitals and a full stop,
    and the largest sum wins.
    """

    def __init__(self, splitter: Splitter, proposer: SearchingProposer):
        self._splitter, self._proposer = splitter, proposer

    def is_broken(self, part: Part, text: str, request: Request) -> bool:
        if not self._proposer.settings(request).short_lines:
            return False
        if part.demands or part.in_capitals or request.prefix:
            return False
        line, _ = _without_dots(part.text)
        return len(line.split()) <= _WORDS and _SHORT.fullmatch(line) is not None

    def mend(
        self, part: Part, candidates: tuple[Candidate, ...], request: Request
    ) -> Rounds[tuple[Candidate, ...]]:
        several = replace(request, nbest=_ANSWERS, alignments=False, glossary=NO_TERMS)
        line, dots = _without_dots(part.text)
        weight_of = {line: 1.0, line[:1].lower() + line[1:]: 1.0, f"{line}.": _AS_SENTENCE}
        texts = [self._splitter.changed(part, text, several) for text in weight_of]
        ways, weights = [self._answers(one, several) for one in texts], [*weight_of.values()]
        languages = {request.source_language, part.to}
        if all(languages) and self._splitter.speaks(_BETWEEN) and _BETWEEN not in languages:
            ways.append(self._by_another_language(part._replace(text=line), several))
            weights.append(1.0)
        sums: defaultdict[str, float] = defaultdict(float)
        for answers, weight in zip((yield from together(ways)), weights, strict=True):
            for answer, probability in answers.items():
                answer = answer.removesuffix(".")
                if part.capital:
                    answer = capitalised(answer)
                elif line[:1].islower() and languages <= SMALL_LETTERS:
                    answer = uncapitalised(answer)
                sums[answer] += weight * probability
        best = max(sums, key=sums.__getitem__)
        if not best or best + dots == candidates[0].text:
            return candidates
        best += dots
        chosen = yield from self._proposer.scored(part, [best], request)
        others = (candidate for candidate in candidates if candidate.text != best)
        return (*chosen, *others)[: request.nbest]

    def _answers(self, part: Part, request: Request) -> Rounds[dict[str, float]]:
        """What the model says, with probabilities for each piece on average."""
        candidates = yield from self._proposer.propose(part, request)
        answers: defaultdict[str, float] = defaultdict(float)
        for one in candidates:
            answers[one.text] += math.exp(one.score)
        return answers

    def _by_another_language(self, part: Part, request: Request) -> Rounds[dict[str, float]]:
        (there,) = self._splitter.encode([part._replace(to=_BETWEEN)], request)
        between = yield from self._answers(there, request)
        usual = sorted(between, key=between.__getitem__, reverse=True)[:_WAYS]
        onward = replace(request, source_language=_BETWEEN)
        parts = [
            self._splitter.changed(part._replace(source=_BETWEEN), text.removesuffix("."), onward)
            for text in usual
        ]
        answers: defaultdict[str, float] = defaultdict(float)
        lives = [self._answers(other, onward) for other in parts]
        for text, said in zip(usual, (yield from together(lives)), strict=True):
            for answer, probability in said.items():
                answers[answer] += between[text] * probability
        return answers


def _without_dots(text: str) -> tuple[str, str]:
    """A line, and the dots behind it.

    >>> _without_dots("Save as…"), _without_dots("Save ")
    (('Save as', '…'), ('Save', ''))
    """
    line = text.strip()
    dots = next((dots for dots in _DOTS if line.endswith(dots)), "")
    return line.removesuffix(dots), dots
