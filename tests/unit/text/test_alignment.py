"""The worst corpora look clean line by line; only many lines together show what is wrong."""

import random

import pytest

from dragoman.text.alignment import (
    BLOCK_LINES,
    MOST_BLOCKS,
    Sample,
    find_alarms,
    places_of_blocks,
)
from dragoman.text.parallel import Pair, read_pairs
from tests.conftest import toy_pairs

Texts = list[tuple[str, str]]


@pytest.fixture(scope="module")
def texts() -> Texts:
    pairs = list(read_pairs("examples/tatoeba.de.gz", "examples/tatoeba.en.gz"))
    drawn = random.Random(1).sample(pairs, 2000)
    return [(pair.source, pair.target) for pair in drawn]


def alarms(texts: Texts, *languages: str) -> list[tuple[int, int, str]]:
    sample = Sample()
    sample.add(Pair(line, *pair) for line, pair in enumerate(texts, start=1))
    found = find_alarms(sample.blocks, *languages)
    return [(alarm.first, alarm.last, alarm.trouble) for alarm in found]


def test_good_text_raises_no_alarm(texts) -> None:
    assert alarms(texts, "de", "en") == []
    assert alarms(texts[:30], "de", "en") == []
    assert alarms(toy_pairs(1000), "de", "en") == []


@pytest.mark.parametrize("offset", [-2, -1, 1, 2])
def test_finds_the_line_where_a_shift_begins(texts, offset: int) -> None:
    """One line missing early in a file shifts the other 1,500."""
    rest = [target for _, target in texts[500:]]
    moved = rest[offset:] + rest[:offset]
    shifted = texts[:500] + [(s, t) for (s, _), t in zip(texts[500:], moved, strict=True)]
    ((first, last, trouble),) = alarms(shifted, "de", "en")
    assert abs(first - 501) <= 10
    assert last == 2000
    side = "after" if -offset > 0 else "before"
    assert trouble.endswith(f"target line {abs(offset)} {side} it")


def test_finds_swapped_languages_in_parts_and_in_single_pairs(texts) -> None:
    turned = [(target, source) for source, target in texts]
    ((first, last, trouble),) = alarms(texts[:1200] + turned[1200:], "de", "en")
    assert (first, last) == (1201, 2000)
    assert "swapped" in trouble
    mixed = [turned[i] if i % 3 == 0 else texts[i] for i in range(len(texts))]
    ((_, _, trouble),) = alarms(mixed)
    assert "the other way round" in trouble


def test_finds_unrelated_sides(texts) -> None:
    targets = [target for _, target in texts]
    random.Random(2).shuffle(targets)
    ((first, last, trouble),) = alarms([(s, t) for (s, _), t in zip(texts, targets, strict=True)])
    assert (first, last) == (1, 2000)
    assert "translations of each other" in trouble


def test_finds_a_wrong_language_name(texts) -> None:
    found = [trouble for _, _, trouble in alarms(texts, "fr", "es")]
    assert found == [
        "the source should be 'fr', but seems to be 'de'",
        "the target should be 'es', but seems to be 'en'",
    ]
    assert alarms(texts, "xx", "") == []  # a language that is not covered raises no alarm


@pytest.mark.parametrize(
    "pairs",
    [
        [("Das ist gut.", "That is good.")] * 1000,
        [(str(number), str(number)) for number in range(1000)],
        [("", "")] * 1000,
        [(f"wort{number}", f"word{number}") for number in range(1000)],
    ],
    ids=["all the same", "numbers", "nothing", "every word once"],
)
def test_text_without_evidence_raises_no_alarm(pairs) -> None:
    assert alarms(pairs, "de", "en") == []


def test_a_sample_is_spread_over_a_stream_of_any_length() -> None:
    sample = Sample()
    lines = 300_000
    sample.add(Pair(line, "a", "b") for line in range(1, lines + 1))
    assert MOST_BLOCKS / 2 <= len(sample.blocks) <= MOST_BLOCKS + 1
    gaps = [b[0].line - a[0].line for a, b in zip(sample.blocks, sample.blocks[1:], strict=False)]
    assert max(gaps) <= 4 * lines / MOST_BLOCKS
    assert all(len(block) == BLOCK_LINES for block in sample.blocks)
    for count in (0, 1, 150, 399, 12_345, 10**6):
        places = places_of_blocks(count)
        assert sum(map(len, places)) <= (MOST_BLOCKS + 1) * BLOCK_LINES * 2
        assert places[-1].stop <= count
    assert [*places_of_blocks(399)] == [range(399)]
