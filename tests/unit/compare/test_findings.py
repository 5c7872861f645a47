"""What is said of a claim follows from the numbers, whichever way they point."""

import re
from dataclasses import replace

import pytest

from dragoman.compare import corpus_size, table, vocabulary
from dragoman.compare.figures import Bars, Finding, Lines, Table
from dragoman.compare.runs import Result
from dragoman.compare.systems import ARCHITECTURES


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
    "C7": (table_finding(20.0, 15.0), table_finding(12.0, 15.0)),
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
        ("C7", ["20.0", "15.0", "23.2", "21.5"]),
        ("C9", ["100", "900", "9.0", "5.0", "30.0"]),
        ("C10", ["10.0", "20.0"]),
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
