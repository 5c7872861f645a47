"""C10: words, pieces and characters, and what rare words cost.

A small task first: a dictionary of words of two syllables, some of which training shows rarely or
never. If translations follow from the syllables, as with names, numbers, compounds and endings,
pieces should translate unseen words; if each word has to be learned, they should not.

Then, in the full form, real text: three Transformers that differ in what text is cut into, each
with its own learning rate. How many words of the references do they say, by how often those words
were seen in training?

Rare words occur in longer sentences, which are harder for other reasons. So recall is taken in
groups of sentences of similar length and averaged over the groups with the same weights for every
frequency: those of the rare words.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.lab.compare.figures import BarChart, Figure, LineChart, Series, Table
from dragoman.lab.compare.runs import Result, Study
from dragoman.lab.compare.seed_statistics import interval
from dragoman.lab.compare.systems import Scale, System
from studies.finding import Claim, Finding, named
from studies.grid import best, candidates, cell, marked, named_system, tuned_words, tuning_budget
from studies.judge import Judgement, all_of, at_least, judge, said
from studies.scales import QUICK
from studies.tasks import DICTIONARY, SYMBOLS, Trial, Tuned, curve, effort, tune, tuning_table

CUTS: dict[str, dict[str, object]] = {
    "words": {"text.tokenizer": "word"},
    "BPE": {},
    "characters": {"text.tokenizer": "character"},
}
# how often a word was seen in training, at least, for each group but the last, which is open
FREQUENCIES = (0, 1, 6, 21, 101, 1001)
NAMES = ("0", "1-5", "6-20", "21-100", "101-1000", "over 1000")
_RARE = 2  # groups that are called rare
_LENGTHS = (0, 5, 8, 12)  # words of a reference, from which on a group of lengths begins
_LEARNED = 0.4  # recall of all words with BPE, below which nothing is judged
_LONGER = 2.5  # times the budget: what characters need to read as many pairs
_WORDS_IN_A_ROW = 6
_IN_DICTIONARY = 0.95  # of the frequent words every system has to get right, or nothing is judged
_AHEAD = 0.2  # the least lead on rare words that is worth speaking of
_ARBITRARY = "pieces, no rule"


@dataclass(frozen=True)
class Size:
    """The sizes of the dictionary's trials."""

    steps: int
    rates: tuple[float, ...]
    seeds: int
    width: int = 64
    batch: int = 64

    def times_seen(self) -> list[float]:
        """How often training shows a word, on average, for each group of them."""
        shown = self.steps * self.batch * _WORDS_IN_A_ROW
        return [shown * share / size for size, share in DICTIONARY]


SIZES = {
    "quick": Size(300, (3e-3, 1e-2), 3),
    "full": Size(400, (1e-3, 3e-3, 1e-2), 5),
}


def look_up(study: Study) -> dict[str, Tuned]:
    """The dictionary's trials: words, pieces and characters; pieces where there is no rule."""
    size = SIZES[study.scale.name]
    systems = {cut: (cut, True) for cut in SYMBOLS} | {_ARBITRARY: ("pieces", False)}
    return tune(
        study.folder / "tasks",
        {
            name: Trial(
                "dictionary",
                {
                    "length": _WORDS_IN_A_ROW,
                    "cut": cut,
                    "symbols": SYMBOLS[cut],
                    "regular": regular,
                },
                {"d_model": size.width},
                effort(study, size.steps),
                batch=size.batch,
                tested={"evenly": True},
            )
            for name, (cut, regular) in systems.items()
        },
        size.rates,
        size.seeds,
    )


def _candidates(scale: Scale, cut: str) -> dict[float, System]:
    """Return a system with each candidate learning rate."""
    if cut == "BPE":  # the unchanged Transformer
        return candidates(scale, "transformer")
    share = tuning_budget(scale) * (_LONGER if cut == "characters" else 1)
    return {
        rate: named_system(f"cut-{cut}", CUTS[cut], rate=rate, share=share) for rate in scale.rates
    }


def _finalists(study: Study, cut: str) -> list[System]:
    """Return the systems with the rate that validates best, at the highest cost, by seeds.

    Characters, which are there for the picture, stay at the cost of their tuning.
    """
    scale = study.scale
    rate = best(study, _candidates(scale, cut))
    if rate is None:
        return []
    if cut == "characters":
        return [_candidates(scale, cut)[rate]]
    share, seeds = scale.budgets[-1], range(1, scale.seeds + 1)
    if cut == "BPE":
        return [cell(scale, "transformer", rate, share, seed, optional=seed > 1) for seed in seeds]
    return [
        named_system(f"cut-{cut}", CUTS[cut], rate=rate, share=share, seed=seed, optional=seed > 1)
        for seed in seeds
    ]


def _to_be_tuned(scale: Scale) -> list[System]:
    if len(scale.rates) == 1:
        return []
    return [system for cut in CUTS for system in _candidates(scale, cut).values()]


def then(study: Study) -> list[System]:
    """Real text is for the large form only."""
    if study.scale.name == QUICK.name:
        return []
    return [system for cut in CUTS for system in _finalists(study, cut)]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def recalled(outputs: Sequence[str], references: Sequence[str]) -> list[list[bool]]:
    """Tell for each word of each reference if the output has it, as often as the reference.

    >>> recalled(["the cat"], ["the the cat"])
    [[True, False, True]]
    """
    found = []
    for output, reference in zip(outputs, references, strict=True):
        left = Counter(words_of(output))
        row = []
        for word in words_of(reference):
            row.append(left[word] > 0)
            left[word] -= 1
        found.append(row)
    return found


class RareWords:
    """The words of references, by how often they were seen in training and by sentence length."""

    def __init__(self, trained: Sequence[str], references: Sequence[str]):
        seen = Counter(word for text in trained for word in words_of(text))
        words = [words_of(text) for text in references]
        self.sentence = np.repeat(np.arange(len(words)), [len(row) for row in words])
        counts = np.array([seen[word] for row in words for word in row], dtype=int)
        self.group = np.searchsorted(FREQUENCIES, counts, side="right") - 1
        lengths = np.array([len(words[number]) for number in self.sentence], dtype=int)
        self.length = np.searchsorted(_LENGTHS, lengths, side="right") - 1

    def recall(self, found: np.ndarray) -> list[float]:
        """Average by frequency, as if every group had the rare words' sentence lengths.

        `found` has the share of systems that output each word. A group without words gets NaN.
        """
        rare = self.group < _RARE
        recall = []
        for group in range(len(FREQUENCIES)):
            total = weight = 0.0
            for length in range(len(_LENGTHS)):
                here = (self.group == group) & (self.length == length)
                share = float((rare & (self.length == length)).sum())
                if here.any() and share:
                    total += share * float(found[here].mean())
                    weight += share
            recall.append(total / weight if weight else math.nan)
        return recall

    def rare_by_sentence(self, found: np.ndarray) -> np.ndarray:
        """Recall of the rare words of each sentence that has any."""
        rare = self.group < _RARE
        sentences = np.unique(self.sentence[rare])
        return np.array([found[rare & (self.sentence == number)].mean() for number in sentences])


def finding(size: Size, tuned: Mapping[str, Tuned], text: "OnText | None" = None) -> Finding:
    """Describe the findings on the dictionary, and on real text if systems were trained on it."""
    groups = range(len(DICTIONARY))
    right = {name: [one.over(group) for group in groups] for name, one in tuned.items()}
    frequent = [share for values in right.values() for share in values[-1]]
    learned = at_least("every system knows the frequent words", frequent, _IN_DICTIONARY)
    never, rare = (
        judge(right["pieces"][group], right["words"][group], margin=_AHEAD, checks=[learned])
        for group in (0, 1)
    )
    by_rule = judge(right["pieces"][0], right[_ARBITRARY][0], margin=_AHEAD, checks=[learned])
    # The task is about words that were never seen; rarely seen ones can be learned one by one.
    judged = [never, by_rule]
    task = all_of(judged)
    verdict = task
    if text is not None and text.rare.verdict != "undecided":
        verdict = all_of([*judged, text.rare])
    unseen = {name: float(np.mean(values[0])) for name, values in right.items()}
    seldom = {name: float(np.mean(values[1])) for name, values in right.items()}
    times = size.times_seen()
    told = said(
        task,
        "pieces say words that they never saw, where a rule leads to them",
        "pieces do not say more of the words that they never saw",
        f"not decided ({'; '.join(one.why for one in judged if one.why)})",
    )
    return Finding(
        [
            LineChart(
                "Words of a dictionary, by how often training shows them",
                "times seen in training (never: 0.5)",
                "share of words right",
                [curve(name, [max(n, 0.5) for n in times], values)
                 for name, values in right.items()],
                log_x=True,
                top=1.0,
            ),
            *(text.figures if text is not None else ()),
            tuning_table(tuned),
        ],
        (
            f"Of the words that training never shows, {named(unseen, '.0%')} are right: {told}. "
            f"Of those that it shows {times[1]:.0f} times, {named(seldom, '.0%')}.",
            text.sentence if text is not None else
            "Where every word has a translation of its own, "
            + said(
                by_rule.verdict,
                "pieces know no more than they have seen: what helps is the rule, and that pieces "
                "let a model see it.",
                "pieces know unseen words as well: it is not the rule that helps.",
                "these runs cannot tell what pieces know.",
            ),
        ),
        verdict,
        f"One layer of width {size.width}, {sum(n for n, _ in DICTIONARY)} words of two syllables, "
        f"{size.steps} training steps, {size.seeds} seeds, each system with the best of "
        f"{len(size.rates)} learning rates. Required: every system gets {_IN_DICTIONARY:.0%} of "
        f"the frequent words right. Seen if pieces are ahead of words on words never seen by more "
        f"than {_AHEAD:.0%} (measured {never.interval()}; on rarely seen ones {rare.interval()}), "
        f"and ahead of pieces without a rule ({by_rule.interval()})."
        + (text.conditions if text is not None else ""),
    )  # fmt: skip


@dataclass(frozen=True)
class OnText:
    """What real text shows: figures, a sentence, the conditions, and the judgement."""

    figures: Sequence[Figure]
    sentence: str
    conditions: str
    rare: Judgement


def on_text(
    scores: Mapping[str, Sequence[float]],
    recall: Mapping[str, Sequence[float]],
    rare: Judgement,
    numbers: Sequence[int],
    tuning: Sequence[Table] = (),
    tuned: str = "the learning rate tuned for each system",
) -> OnText:
    """BLEU by seeds; recall by frequency, and how many words there are of each; the judgement."""
    shown = [place for place, number in enumerate(numbers) if number]
    lines = LineChart(
        "Real text: words of the reference that are said, by how often they were seen in training",
        "times seen in training (at least)",
        "recall, sentence lengths matched",
        [
            Series(
                name,
                [max(FREQUENCIES[place], 0.5) for place in shown],
                [values[place] for place in shown],
            )
            for name, values in recall.items()
        ],
        log_x=True,
    )
    table = Table(
        "Recall by frequency in training",
        ["seen", "words of the test", *recall],
        [
            [NAMES[place], f"{numbers[place]:,}", *(f"{r[place]:.1%}" for r in recall.values())]
            for place in shown
        ],
    )
    means = {name: sum(bleu) / len(bleu) for name, bleu in scores.items()}
    ends = [interval(bleu) for bleu in scores.values()]
    never = {name: 100 * values[0] for name, values in recall.items()}
    told = said(
        rare.verdict,
        "unknown words hurt the word vocabulary",
        "unknown words do not hurt the word vocabulary more than pieces",
        "these runs cannot tell",
    )
    return OnText(
        [
            lines,
            table,
            BarChart(
                "BLEU by what text is cut into",
                "test BLEU",
                list(scores),
                list(means.values()),
                [low for low, _ in ends],
                [high for _, high in ends],
            ),
            *tuning,
        ],
        f"In real text, {named(never)} percent of the reference's words that never occurred in "
        f"training are said, and BLEU is {named(means)}. On words seen at most five times BPE says "
        f"{rare.interval('+.1%')} more than the word vocabulary: {told}.",
        f" On real text: three Transformers that differ in the vocabulary alone; {tuned}; words "
        "and BPE at the same cost, characters, which need more for as many pairs, at their own; "
        "sentence lengths matched; judged over the sentences with a word that was seen at most "
        "five times. What is undecided there does not count against what the dictionary shows."
        + (f" Undecided: {rare.why}." if rare.why else ""),
        rare,
    )


def show(study: Study) -> Finding:
    text = _text(study) if study.scale.name != QUICK.name else None
    return finding(SIZES[study.scale.name], look_up(study), text)


def _text(study: Study) -> OnText:
    references = study.texts.test_of("all").targets
    rare = RareWords(study.texts.sentences("all").targets, references)
    results = _results(study)
    found = {
        cut: np.mean([np.concatenate(recalled(seed.outputs, references)) for seed in seeds], axis=0)
        for cut, seeds in results.items()
    }
    learned = at_least(
        f"BPE says {_LEARNED:.0%} of all words", [float(found["BPE"].mean())], _LEARNED
    )
    ours, theirs = (rare.rare_by_sentence(found[cut]).tolist() for cut in ("BPE", "words"))
    return on_text(
        {cut: [seed.bleu for seed in seeds] for cut, seeds in results.items()},
        {cut: rare.recall(values) for cut, values in found.items()},
        judge(ours, theirs, checks=[learned]),
        np.bincount(rare.group, minlength=len(FREQUENCIES)).tolist(),
        _tuning_tables(study),
        tuned_words(study.scale),
    )


def _results(study: Study) -> dict[str, list[Result]]:
    """Return the results at the highest cost of both words and BPE, by seeds."""
    systems = {cut: _finalists(study, cut) for cut in CUTS}
    if not all(study.has_result(systems[cut][0]) for cut in ("words", "BPE")):
        for cut in CUTS:
            tried = _candidates(study.scale, cut)
            rate = best(study, tried)
            systems[cut] = [tried[rate]] if rate is not None else []
    return {
        cut: [study.result(system) for system in row if study.has_result(system)]
        for cut, row in systems.items()
    }


def _tuning_tables(study: Study) -> list[Table]:
    if len(study.scale.rates) == 1:
        return []
    rows = []
    for cut in CUTS:
        tried = {
            rate: study.result(system) for rate, system in _candidates(study.scale, cut).items()
        }
        rows.append([cut, *marked(tried)])
    title = "Learning rates tried: validation BLEU (chosen: *)"
    columns = ["cut into", *(f"{rate:g}" for rate in study.scale.rates)]
    return [Table(title, columns, rows, folded=True)]


CLAIM = Claim(
    "Unknown words hurt",
    "A vocabulary of words has no answer to a word that it does not hold; byte-pair encoding, "
    "between words and characters, leaves none unknown.",
    "What becomes of words that were hardly seen in training, by what text is cut into?",
    "The word vocabulary would translate such words as well as pieces do, or pieces would know "
    "them even where no rule leads to them.",
    show,
    _to_be_tuned,
    then,
)
