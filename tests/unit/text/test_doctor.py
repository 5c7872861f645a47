import random
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.doctor import (
    CRLF,
    MEANINGS,
    NOT_LEARNABLE,
    CorpusReport,
    HeldOut,
    examine,
    fix,
    held_out_key,
    mended,
    normalised,
)
from dragoman.text.parallel import Pair, read_lines, read_pairs
from dragoman.text.repeats import Repeats, hash_all

EXAMPLES = Path(__file__).parents[3] / "examples"
GERMAN = (
    "Ich weiß nicht, warum der Hund schläft und die Katze nicht. Das ist ein schönes Haus mit "
    "einem großen Garten."
)
ENGLISH = (
    "I do not know why the dog sleeps and the cat does not. This is a beautiful house with a big "
    "garden."
)


def healthy(count: int = 200) -> list[Pair]:
    draw = random.Random(1)
    left = GERMAN.rstrip(".").split()
    right = ENGLISH.rstrip(".").split()
    return [
        Pair(
            i,
            " ".join(draw.choices(left, k=6)) + f" {i}.",
            " ".join(draw.choices(right, k=6)) + f" {i}.",
        )
        for i in range(1, count + 1)
    ]


TROUBLES = {
    "empty": ("", " "),
    "one side empty": ("", "Nothing there."),
    "repeated": tuple(healthy()[4][1:]),
    "nearly repeated": (healthy()[4].source.upper(), healthy()[4].target + "!"),
    "too long": ("Wort " * 600, "word " * 600),
    "lopsided": ("kurz", "a very long translation of a very short word indeed, is it not"),
    "same on both sides": ("Angela Merkel", "Angela Merkel"),
    "source in the other language": (
        "This is the house that I do not know.",
        "Das ist ein Haus, sagt sie.",
    ),
    "target in the other language": (
        "Der Hund weiß nicht, warum.",
        "Ich weiß nicht, warum der Hund schläft.",
    ),
    "broken encoding": ("Das ist schÃ¶n.", "That is beautiful."),
    "control characters": ("Das ist\x07 gut.", "That is good."),
    "markup on one side": ("Das ist <b>gut</b>.", "That is good."),
    "not normalised": ("scho\u0308n gut", "quite fine"),
}


def test_a_clean_corpus_has_no_findings() -> None:
    assert examine(healthy()).findings == []


@pytest.mark.parametrize("kind", TROUBLES)
def test_finds_each_problem_with_its_line(kind: str) -> None:
    report = examine([*healthy(), Pair(201, *TROUBLES[kind])])
    assert report.by_kind[kind].count == 1
    assert report.by_kind[kind].lines == [201]


def test_every_problem_has_a_meaning_and_every_meaning_a_test() -> None:
    held_out = {f"{what} in held-out set" for what in ("source", "target", "pair")}
    # the last has a test of its own, below
    assert set(MEANINGS) == set(TROUBLES) | held_out | {CRLF}


def test_finds_held_out_text_on_either_side_in_any_case() -> None:
    pairs = healthy()
    held = HeldOut.of(
        [[Pair(1, pairs[0].source.lower(), "other"), Pair(2, "anders", pairs[1].target), pairs[2]]]
    )
    report = examine(pairs, held)
    found = {kind: report.by_kind[kind].lines for kind in report.by_kind}
    assert found == {
        "source in held-out set": [1],
        "target in held-out set": [2],
        "pair in held-out set": [3],
    }


def test_a_fixed_corpus_is_clean_and_every_change_has_a_reason() -> None:
    broken = [Pair(200 + i, *sides) for i, sides in enumerate(TROUBLES.values(), start=1)]
    pairs = [*healthy(), *broken]
    results = list(fix(pairs, examine(pairs)))
    kept = [result for _, _, result in results if result is not None]
    assert len(kept) == 200 + 2  # control characters and Unicode forms are mended, the rest goes
    assert [pair.line for pair, reasons, result in results if result is None and not reasons] == []
    again = [pair._replace(line=i) for i, pair in enumerate(kept, start=1)]
    assert examine(again).findings == []


def test_finds_swapped_languages_in_real_text() -> None:
    """A twentieth of the examples with both sides swapped: most that are long enough are found,
    hardly a good one."""
    sides = [list(read_lines(EXAMPLES / f"tatoeba.{language}.gz")) for language in ("de", "en")]
    pairs = [Pair(i, *pair) for i, pair in enumerate(zip(*sides, strict=True), start=1)]
    swapped = {pair.line for pair in pairs[::20] if min(len(pair.source), len(pair.target)) >= 20}
    mixed = [Pair(p.line, p.target, p.source) if p.line in swapped else p for p in pairs]
    found = {
        pair.line for pair, reasons, _ in fix(mixed, examine(mixed)) if "other language" in reasons
    }
    assert len(found & swapped) > 0.9 * len(swapped)
    assert len(found - swapped) < 0.002 * len(pairs)


def test_repeats_match_a_set_in_bounded_memory(monkeypatch) -> None:
    monkeypatch.setattr("dragoman.text.repeats._BUFFERED", 100)
    draw = np.random.default_rng(1)
    keys = [str(k) for k in draw.integers(0, 700, size=2000)]
    first: dict[str, int] = {}
    expected = []
    with Repeats() as repeats:
        for line, key in enumerate(keys, start=1):
            repeats.add(hash_all([key]), np.array([line]))
            if key in first:
                expected.append((line, first[key]))
            first.setdefault(key, line)
        found = sorted(tuple(row) for part in repeats.lines() for row in part.tolist())
    assert found == expected


@given(st.text(max_size=30), st.text(max_size=30))
def test_texts_that_differ_in_case_or_punctuation_share_a_key(text: str, other: str) -> None:
    forms = [
        text,
        text.upper(),
        text.casefold(),
        f"<BT> {text}",
        f"„{text}“ …",
        *(normalize(name, text) for name in ("NFC", "NFKD")),
        other,
    ]
    keys = {normalised(form): held_out_key(form) for form in forms}
    assert all(held_out_key(form) == keys[normalised(form)] for form in forms)


@given(st.text(max_size=60))
def test_repairing_twice_changes_nothing(text: str) -> None:
    assert mended(mended(text)) == mended(text)


def test_lines_that_end_in_cr_lf_are_counted_read_and_repaired(tmp_path) -> None:
    (tmp_path / "a.de").write_bytes(b"Das ist gut.\r\nNein.\n")
    (tmp_path / "a.en").write_bytes(b"That is good.\r\nNo.\n")
    pairs = list(read_pairs(tmp_path / "a.de", tmp_path / "a.en"))
    assert [pair[1:3] for pair in pairs] == [("Das ist gut.", "That is good."), ("Nein.", "No.")]
    report = examine(pairs)
    assert [(finding.kind, finding.count, finding.lines) for finding in report.findings] == [
        (CRLF, 1, [1])
    ]
    assert [(kept.source, kept.target) for _, _, kept in fix(pairs, report) if kept] == [
        pair[1:3] for pair in pairs
    ]


@pytest.mark.parametrize(
    ("pairs", "usable", "ailing", "pointless"),
    [(10, 10, 0, False), (10, 0, 0, True), (10, 4, 5, False), (10, 4, 6, True)],
)
def test_a_problem_of_most_pairs_makes_a_corpus_pointless(pairs, usable, ailing, pointless) -> None:
    report = CorpusReport(pairs, usable)
    report.add(next(iter(NOT_LEARNABLE)), np.arange(ailing))
    assert report.is_pointless is pointless
