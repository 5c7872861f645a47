"""Detect misaligned corpora: shifted lines, swapped sides, unrelated text, wrong languages.

A single pair is not conclusive, but many are: words that translate each other occur in the same
pairs again and again. IBM model 1 (`lexicon`) learns such words from a sample that pairs each
source with its target and with the targets up to two lines away. Each part of the file is tested,
because one missing line shifts all later lines.

The sample consists of blocks of consecutive lines, spread evenly over a file of unknown length.

    D offsets d: source line i is paired with target line i+d
    N pairs of a block, without the two at each end
    L lines of a block, W words of a line
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dragoman.text.detect import COVERED, WORDS, detect
from dragoman.text.languages import known_code
from dragoman.text.lexicon import Model1
from dragoman.text.parallel import Pair

BLOCK_LINES = 200
MOST_BLOCKS = 32
OFFSETS = (0, -2, -1, 1, 2)
FURTHEST = 2
WORDS_READ = 12  # per sentence: the first words are seldom translated by the last ones
LEAST_COUNT = 3  # sentences with a word: nothing can be learned about rarer ones
LEAST_WORDS = 300  # per block, to call it unrelated
ROUNDS = 3

# These thresholds were chosen on 75 real corpora, from Tatoeba to dictionaries. On these, the right
# offset leads by at least 4.6 standard errors in every block of LEAST_WORDS, no wrong offset leads
# by 1, and the evidence of trigrams is never below 0.
CLEARLY_SHIFTED = 5.0  # standard errors
UNRELATED_BELOW = 2.0
SWAPPED_BELOW = -0.4  # nats per trigram
MOST_BLOCKS_AGREE = 0.8  # share of blocks in which another language than the given one is detected

_WORD = re.compile(  # letters and digits; where a script has no spaces, one character
    r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"
)
_PAD = 0
_SPELLED = tuple(WORDS)  # languages that `detect` distinguishes by more than their script
_PAIRS_ASKED = 20  # pairs per block whose languages are detected
_SURE = 70.0  # percent of confidence
_MIXED_ABOVE = 0.1  # share of pairs the other way round

_LETTERS_NEEDED = 15  # shorter lines are inconclusive
MARGIN = 1.0  # nats per trigram that make a line suspect
_TRIGRAMS_KEPT = 20_000

Block = Sequence[Pair]


@dataclass(frozen=True)
class Alarm:
    """A problem that makes training on a part of a corpus pointless."""

    first: int
    last: int
    trouble: str

    def __str__(self) -> str:
        return f"lines {self.first:,} to {self.last:,}: {self.trouble}"


class Sample:
    """A sample of blocks from a stream: all at first, then every second, every fourth, ..."""

    def __init__(self) -> None:
        self._blocks: list[list[Pair]] = []
        self._every = 1
        self._seen = 0
        self._growing: list[Pair] = []

    def add(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self._growing.append(pair)
            if len(self._growing) == BLOCK_LINES:
                self._keep()

    def _keep(self) -> None:
        # Thin out when there are too many: the blocks kept so far remain evenly spread.
        if self._seen % self._every == 0:
            self._blocks.append(self._growing)
        self._seen += 1
        self._growing = []
        if len(self._blocks) > MOST_BLOCKS:
            self._blocks = self._blocks[::2]
            self._every *= 2

    @property
    def blocks(self) -> list[list[Pair]]:
        """The blocks so far."""
        # A short rest is appended to the last block, if that block precedes it immediately.
        few = len(self._growing) < BLOCK_LINES // 2
        if few and self._blocks and self._every == 1:
            return [*self._blocks[:-1], self._blocks[-1] + self._growing]
        return [*self._blocks, self._growing] if self._growing else self._blocks


def places_of_blocks(lines: int) -> list[range]:
    """Return the line numbers, from 0, of the blocks of a file of known length."""
    blocks = min(MOST_BLOCKS, max(1, lines // BLOCK_LINES))
    starts = [lines * number // blocks for number in range(blocks)]
    size = min(lines, max(BLOCK_LINES, lines // blocks if blocks < MOST_BLOCKS else 0))
    return [range(start, min(start + size, lines)) for start in starts]


def find_alarms(
    blocks: Sequence[Block], source_language: str = "", target_language: str = ""
) -> list[Alarm]:
    """Return all problems of a sample; languages are compared if they are given."""
    blocks = [block for block in blocks if len(block) > 4 * FURTHEST]
    if not blocks:
        return []
    return [
        *_wrong_names(blocks, source_language, target_language),
        *(_swapped(blocks) or _mixed(blocks)),
        *_misaligned(blocks),
    ]


def _misaligned(blocks: Sequence[Block]) -> Iterator[Alarm]:
    """Yield parts in which each source fits a target some lines away, or none."""
    unrelated = "source and target do not seem to be translations of each other"
    of_blocks = list(_gains(blocks))
    states = [_state(gains) for gains in of_blocks]
    # A block in which a shift begins fits no offset well: it belongs to the neighboring shift.
    for i, state in enumerate(states):
        near = [s for s in states[max(0, i - 1) : i + 2] if s not in (0, None)]
        if state is None and near:
            states[i] = near[0]
    # Neighboring blocks in the same state are one part.
    for state, rows in groupby(range(len(blocks)), key=lambda row: states[row]):
        part = [*rows]
        first, last = blocks[part[0]][0].line, blocks[part[-1]][-1].line
        if state is None:
            yield Alarm(first, last, unrelated)
        elif state:
            if part[0] and states[part[0] - 1] == 0:
                first = _first_shifted(of_blocks[part[0] - 1 : part[0] + 1], state)
            ahead = f"{abs(state)} {'after' if state > 0 else 'before'} it"
            trouble = f"the sides are shifted: a source line fits the target line {ahead}"
            yield Alarm(first, last, trouble)


def _first_shifted(gains: Sequence["_Gains"], offset: int) -> int:
    """Return the line in two blocks where this offset begins to fit best."""
    values = np.concatenate([block.values for block in gains], axis=1)
    lines = [line for block in gains for line in block.lines]
    ahead = values[OFFSETS.index(offset)] - values[0]
    # The sum from each line to the end is largest at the first line of the shift.
    return lines[int(ahead[::-1].cumsum()[::-1].argmax())]


class _Gains(NamedTuple):
    """How much more likely the words of a target are, given the source."""

    values: np.ndarray  # sums of log P(y|x) - log P(y), (D, N)
    words: int  # number of words counted
    lines: list[int]  # of the N pairs


def _state(block: _Gains) -> int | None:
    """Return the offset of a block, or None if no offset fits."""
    gains = block.values
    if not gains.shape[1]:
        return 0
    best = int(gains.sum(axis=1).argmax())
    if OFFSETS[best] and _standard_errors(gains[best] - gains[0]) > CLEARLY_SHIFTED:
        return OFFSETS[best]
    ahead = _standard_errors(gains[0] - gains[1:].mean(axis=0))
    return None if block.words >= LEAST_WORDS and ahead < UNRELATED_BELOW else 0


def _standard_errors(values: np.ndarray) -> float:
    """Return the mean in units of its standard error."""
    return float(values.mean() / (values.std() / len(values) ** 0.5 + 1e-9))


def _gains(blocks: Sequence[Block]) -> Iterator[_Gains]:
    """Yield the gains of each block."""
    left = _ids([[pair.source for pair in block] for block in blocks])
    right = _ids([[pair.target for pair in block] for block in blocks])
    batches = []
    lines = []
    for block, source, target in zip(blocks, left, right, strict=True):
        rows = _comparable(target)
        lines.append([block[row].line for row in rows])
        batches += [(source[rows], target[rows + offset]) for offset in OFFSETS]
    if not any(target.any() for _, target in batches):
        yield from (_Gains(np.zeros((len(OFFSETS), 0)), 0, []) for _ in blocks)
        return
    # The model learns from all offsets alike and has no preference for any of them. So if line n of
    # the source is translated by line n+1 of the target, line n+1 gets a higher probability.
    model = Model1(batches, _PAD)
    for _ in range(ROUNDS):
        model.improve()
    # log P(y), the frequency of a target word anywhere
    counts = np.bincount(np.concatenate([target.ravel() for _, target in batches]))
    everywhere = np.log(np.maximum(counts, 1) / counts[1:].sum())
    gains = []
    for (_, target), log_probs in zip(batches, model.word_log_probs(), strict=True):
        rows, columns = np.nonzero(target)
        gain = log_probs - everywhere[target[rows, columns]]
        gains.append(np.bincount(rows, gain, len(target)))
    for number, lines_of_block in enumerate(lines):
        row = number * len(OFFSETS)
        values = np.stack(gains[row : row + len(OFFSETS)])
        yield _Gains(values, int(np.count_nonzero(batches[row][1])), lines_of_block)


def _comparable(target: np.ndarray) -> np.ndarray:
    """Return the lines of a block (L, W) whose neighbors within FURTHEST all differ from them."""
    middle = np.arange(FURTHEST, len(target) - FURTHEST)
    same = [(target[middle] == target[middle + d]).all(axis=1) for d in OFFSETS if d]
    comparable: np.ndarray = middle[~np.any(same, axis=0)]
    return comparable


def _ids(side: list[list[str]]) -> list[np.ndarray]:
    """Number the first words of each line of each block, without rare ones. (L, W) each"""
    words = [[_WORD.findall(text.lower())[:WORDS_READ] for text in block] for block in side]
    counts = Counter(word for block in words for line in block for word in set(line))
    known = [word for word, count in counts.items() if count >= LEAST_COUNT]
    number = {word: i for i, word in enumerate(known, start=_PAD + 1)}
    numbered = []
    for block in words:
        ids = np.full((len(block), WORDS_READ), _PAD, dtype=np.int64)
        for row, line in enumerate(block):
            numbers = [number[word] for word in line if word in number]
            ids[row, : len(numbers)] = numbers
        numbered.append(ids)
    return numbered


def _swapped(blocks: Sequence[Block]) -> list[Alarm]:
    """Return the parts whose languages are swapped.

    These are the minority of blocks, or of two equal halves the second one.
    """
    # Train on every second pair and test on the others, so that a block is not judged by itself.
    likeness = TrigramClassifier(
        (p.source for p in blocks[0][::2]), (p.target for p in blocks[0][::2])
    )

    def is_reversed(row: int) -> bool:
        source = likeness.leans_to_source(" ".join(p.source for p in blocks[row][1::2]))
        target = likeness.leans_to_source(" ".join(p.target for p in blocks[row][1::2]))
        return source - target < SWAPPED_BELOW

    reversed_rows = [is_reversed(row) for row in range(len(blocks))]
    minority = sum(reversed_rows) <= len(blocks) / 2
    alarms = []
    for odd, rows in groupby(range(len(blocks)), key=lambda row: reversed_rows[row] is minority):
        part = [*rows]
        if odd and any(reversed_rows):
            first, last = blocks[part[0]][0].line, blocks[part[-1]][-1].line
            trouble = "the two languages are swapped, compared to the other lines"
            alarms.append(Alarm(first, last, trouble))
    return alarms


def _mixed(blocks: Sequence[Block]) -> list[Alarm]:
    """Return an alarm if single pairs have swapped languages, as far as `detect` covers them."""
    text = " ".join(f"{block[0].source} {block[0].target}" for block in blocks)
    two = [guess.language for guess in detect(text, _SPELLED)[:2]]
    turns: Counter[str] = Counter()
    for block in blocks:
        for pair in block[:: len(block) // _PAIRS_ASKED + 1]:
            source, target = detect(pair.source, two)[0], detect(pair.target, two)[0]
            if min(source.confidence, target.confidence) >= _SURE:
                turns[f"{source.language}-{target.language}"] += 1
    (one, other) = (turns["-".join(order)] for order in (two, reversed(two)))
    share = min(one, other) / max(1, turns.total())
    if share < _MIXED_ABOVE:
        return []
    trouble = f"about {share:.0%} of the pairs have their languages the other way round"
    return [Alarm(blocks[0][0].line, blocks[-1][-1].line, trouble)]


def _wrong_names(blocks: Sequence[Block], source: str, target: str) -> Iterator[Alarm]:
    """Yield an alarm for a side whose language is not the given one in most blocks."""
    sides: list[tuple[str, str, Callable[[Pair], str]]] = [
        ("source", source, lambda pair: pair.source),
        ("target", target, lambda pair: pair.target),
    ]
    for name, named, text in sides:
        code = known_code(named, COVERED)
        if code not in COVERED:
            continue
        seen: Counter[str] = Counter()
        for block in blocks:
            guesses = dict(detect(" ".join(map(text, block))))
            best = max(guesses, key=lambda language: guesses[language])
            seen[best if guesses[best] >= 2 * guesses[code] else code] += 1
        language, count = seen.most_common(1)[0]
        if language != code and count >= MOST_BLOCKS_AGREE * len(blocks):
            trouble = f"the {name} should be {named!r}, but seems to be {language!r}"
            yield Alarm(blocks[0][0].line, blocks[-1][-1].line, trouble)


class TrigramClassifier:
    """Tells which of a corpus's two languages a line is in, from statistics of the corpus itself.

    Each side gets a model of letter trigrams from the first pairs. A line is suspect if the other
    side's model gives it a much higher probability. This works for any two languages.
    """

    def __init__(self, sources: Iterable[str], targets: Iterable[str]):
        left, right = _trigrams(sources), _trigrams(targets)
        total_left, total_right = sum(left.values()) or 1, sum(right.values()) or 1
        kept = {t for t, _ in left.most_common(_TRIGRAMS_KEPT)} | {
            t for t, _ in right.most_common(_TRIGRAMS_KEPT)
        }
        # log p(trigram | source) - log p(trigram | target), both smoothed by half a count
        self._evidence = {
            t: math.log((left[t] + 0.5) / (total_left + 0.5 * len(kept)))
            - math.log((right[t] + 0.5) / (total_right + 0.5 * len(kept)))
            for t in kept
        }

    def leans_to_source(self, line: str) -> float:
        """Return the mean evidence per trigram: positive for the source's language, negative for
        the target's.
        """
        text = f" {line.lower()} "
        if len(text) < _LETTERS_NEEDED + 2:
            return 0.0
        get = self._evidence.get
        # A list is faster here than a generator.
        return sum([get(text[i : i + 3], 0.0) for i in range(len(text) - 2)]) / (len(text) - 2)


def _trigrams(lines: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        text = f" {line.lower()} "
        counts.update(text[i : i + 3] for i in range(len(text) - 2))
    return counts
