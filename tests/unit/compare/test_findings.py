"""What is said of a claim follows from the numbers, whichever way they point."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dragoman.compare import (
    block,
    corpus_size,
    growth,
    heads,
    length,
    positions,
    recency,
    scaling,
    table,
    vocabulary,
)
from dragoman.compare.figures import Bars, Finding, Lines, Table
from dragoman.compare.language import LONGEST_COPY
from dragoman.compare.runs import Result
from dragoman.compare.systems import ARCHITECTURES
from dragoman.data.prepare import Sentences

# from the first word on: the first has the least
FALLING = [0.2 + 0.05 * n for n in range(LONGEST_COPY)]
EVEN = [1.0] * LONGEST_COPY


def result(bleu: float, **more: object) -> Result:
    return replace(
        Result(parameters=1000, steps=10, flops=5e9, seconds=3, bleu=bleu, chrf=2 * bleu), **more
    )  # type: ignore[arg-type]


def table_finding(transformer: float, rnn: float) -> Finding:
    curve = [(1e9, 5.0), (5e9, 11.0)]
    scores = dict.fromkeys(ARCHITECTURES, 10.0) | {"transformer": transformer, "rnn": rnn}
    rows = {name: table.Row(result(bleu, curve=curve), 50.0) for name, bleu in scores.items()}
    rows |= {
        "larger": table.Row(result(21.5), 20.0),
        "ensemble": table.Row(result(23.25, flops=1e10), 10.0),
    }
    return table.finding(rows, result(18.0), {"1 head": result(17.0), "no dropout": result(18.5)})


BOTH_WAYS = {
    "C1": (
        length.finding([3.0, 9.5], {"RNN": [20.0, 5.0], "RNN with attention": [22.0, 18.0],
                                    "Transformer": [30.0, 27.0]}),
        length.finding([3.0, 9.5], {"RNN": [20.0, 20.0], "RNN with attention": [22.0, 18.0],
                                    "Transformer": [30.0, 3.0]}),
    ),
    "C2": (
        recency.finding({"rnn": FALLING, "rnn-attention": EVEN, "transformer": EVEN},
                        {"rnn": FALLING, "rnn-attention": EVEN, "transformer": EVEN}),
        recency.finding({"rnn": EVEN, "rnn-attention": EVEN, "transformer": FALLING},
                        {"rnn": EVEN, "rnn-attention": EVEN, "transformer": EVEN}),
    ),
    "C3": (
        growth.steps_finding([8, 64], 2, 3, 512,
        {"recurrence": [1, 9], "convolution": [1, 1], "attention": [2, 2]},
                             {"recurrence": 1.0, "convolution": 2.0, "attention": 3.0}),
        growth.steps_finding([8, 64], 2, 3, 512,
        {"recurrence": [1, 1], "convolution": [1, 1], "attention": [2, 9]},
                             {"recurrence": 1.0, "convolution": 2.0, "attention": 3.0}),
    ),
    "C4": (
        growth.cost_finding([4, 8, 16], 4,
        {k: [1, 1, n] for k, n in zip(growth.LAYERS, (4, 4, 2), strict=True)},
                            {k: [1, 1, n] for k, n in zip(growth.LAYERS, (4, 2, 2), strict=True)}),
        growth.cost_finding([4, 8, 16], 4, *2 * [{k: [1, 1, 2] for k in growth.LAYERS}]),
    ),
    "C5": (
        scaling.finding({"1": [(3.0, 0.2), (0.1, 0.01)], "1/√d": [(3.0, 0.2), (3.0, 0.2)],
                         "1/d": [(4.0, 0.1), (5.0, 0.1)]}),
        scaling.finding({"1": [(3.0, 0.2), (3.0, 0.2)], "1/√d": [(3.0, 0.2), (3.0, 0.2)],
                         "1/d": [(4.0, 0.1), (5.0, 0.1)]}),
    ),
    "C6": (
        positions.finding(8, [3.0, 12.0],
        {"sinusoidal": [20.0, 10.0], "learned": [20.0, 4.0], "rotary": [20.0, 12.0],
                                           "relative": [20.0, 13.0]}, [21.0, 19.0],
                          {"sinusoidal": 0.5, "learned": 0.4, "rotary": 0.8, "relative": 0.9}),
        positions.finding(8, [3.0, 12.0],
        {"sinusoidal": [20.0, 3.0], "learned": [20.0, 4.0], "rotary": [20.0, 12.0],
                                           "relative": [20.0, 13.0]}, [21.0, 19.0],
                          {"sinusoidal": 0.9, "learned": 0.4, "rotary": 0.8, "relative": 0.7}),
    ),
    "C7": (table_finding(20.0, 15.0), table_finding(12.0, 15.0)),
    "C8": (heads.finding([], [0.9, 0.3], {1: 0.4, 4: 0.8}),
    heads.finding([], [0.9, 0.3], {1: 0.8, 4: 0.4})),
    "C9": (
        corpus_size.finding([100, 900], {"rnn": [9.0, 12.0], "transformer": [5.0, 30.0]}),
        corpus_size.finding([100, 900], {"rnn": [9.0, 32.0], "transformer": [5.0, 12.0]}),
    ),
    "C10": (
        vocabulary.finding({"words": 10.0, "BPE": 20.0},
        {"words": (15.0, 5.0), "BPE": (21.0, 19.0)}, 0.25),
        vocabulary.finding({"words": 20.0, "BPE": 10.0},
        {"words": (21.0, 19.0), "BPE": (15.0, 5.0)}, 0.25),
    ),
    "C11": (
        block.finding(result(20.0), {"no norm": result(0.0, failure="lost")},
        {"1 layer": result(15.5)}),
        block.finding(result(20.0), {"no norm": result(21.0)}, {"1 layer": result(15.5)}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", BOTH_WAYS)
def test_a_claim_is_seen_where_the_numbers_bear_it_out_and_not_where_they_do_not(
    claim: str,
) -> None:
    borne_out, not_borne_out = BOTH_WAYS[claim]
    assert borne_out.verdict == "seen"
    assert not_borne_out.verdict == "not seen"
    assert borne_out.sentences != not_borne_out.sentences


def drawn(finding: Finding) -> list[float]:
    """Every number in the figures."""
    numbers: list[float] = []
    for figure in finding.figures:
        if isinstance(figure, Lines):
            numbers += [value for series in figure.series for value in (*series.x, *series.y)]
        elif isinstance(figure, Bars):
            numbers += figure.values
        elif isinstance(figure, Table):
            numbers += [
                float(n.replace(",", ""))
                for row in figure.rows
                for n in row
                if re.fullmatch(r"[\d,.e+]+", n)
            ]
    return numbers


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("C1", ["20.0", "5.0", "22.0", "18.0", "30.0", "27.0", "3.0", "9.5"]),
        ("C3", ["64", "8", "65", "63"]),
        ("C5", ["3.00", "0.10", "5.00", "0.010", "0.200", "0.100"]),
        ("C7", ["20.0", "15.0", "23.2", "21.5"]),
        ("C8", ["40%", "80%"]),
        ("C9", ["100", "900", "9.0", "5.0", "30.0"]),
        ("C10", ["10.0", "20.0"]),
        ("C11", ["20.0", "15.5"]),
    ],
)
def test_numbers_in_the_sentences_are_those_of_the_figures(claim: str, said: list[str]) -> None:
    finding = BOTH_WAYS[claim][0]
    text = " ".join(finding.sentences)
    for number in said:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", text), (number, text)
        value = float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
        near = (
            0.5
            * 10.0 ** -len(number.rstrip("%").partition(".")[2])
            / (100 if number.endswith("%") else 1)
        )
        assert any(abs(value - other) <= near + 1e-9 for other in drawn(finding)), (
            number,
            drawn(finding),
        )


def test_the_table_says_what_each_system_scored_and_cost() -> None:
    shown = BOTH_WAYS["C7"][0].figures[0]
    assert isinstance(shown, Table)
    by_name = {row[0]: dict(zip(shown.columns, row, strict=True)) for row in shown.rows}
    assert set(by_name) == {*ARCHITECTURES, "larger", "ensemble"}
    assert by_name["rnn"]["BLEU"] == "15.00"
    assert by_name["rnn"]["FLOPs a step"] == "5e+08"
    assert by_name["rnn"]["FLOPs to BLEU 5"] == "1e+09"
    assert by_name["ensemble"]["FLOPs"] == "1e+10"


def test_groups_by_length_hold_every_sentence_once_and_grow() -> None:
    sources = ["a " * (1 + n % 17) for n in range(200)]
    rows = length.groups_by_length(sources)
    assert sorted(np.concatenate(rows).tolist()) == list(range(200))
    means = length.mean_words(sources, rows)
    assert means == sorted(means)
    assert len(rows) == len(length.SHARES) + 1


def test_positions_are_judged_within_and_beyond_the_trained_length() -> None:
    sources = ["a " * n for n in (1, 2, 3, 4, 5, 6, 7, 8)]
    rows = positions.groups(sources, trained=4)
    assert [group.tolist() for group in rows] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_words_are_right_at_their_own_place_only() -> None:
    test = Sentences(["", ""], ["a b c", "d e f"], ["", ""])
    assert heads.words_right(["a b c", "e d f x"], test) == pytest.approx(4 / 6)


def test_unscaled_attention_has_the_entropy_and_gradient_of_its_formula() -> None:
    """With one feature and a scale of 0 all keys weigh the same: log2 n bits, and a Jacobian known
    by hand."""
    entropy, gradient = scaling.spread_and_gradient(4, 0.0)
    n = scaling.KEYS
    assert entropy == pytest.approx(np.log2(n))
    assert gradient == pytest.approx(np.linalg.norm(np.eye(n) / n - np.ones((n, n)) / n**2))
