"""Figures as SVG and tables as text show all of their data."""

import math
import re
from xml.etree import ElementTree

import pytest

from dragoman.lab.compare.figures import BarChart, HeatMap, LineChart, Series, Table
from dragoman.lab.compare.html_report import as_text
from dragoman.lab.compare.svg_plot import PlotAxis, draw_bars, draw_lines, draw_map

CURVES = [
    Series("first <one>", [1, 10, 100], [3.0, 2.0, 1.0]),
    Series("second", [1, 10], [0.5, math.nan]),
]
LINES = LineChart("A title & more", "words", "BLEU", CURVES, log_x=True)


def test_every_curve_has_its_name_its_line_and_a_marker_for_each_finite_point() -> None:
    drawn = ElementTree.fromstring(draw_lines(LINES))
    texts = ["".join(element.itertext()) for element in drawn.iter("text")]
    assert {"A title & more", "words", "BLEU", "first <one>", "second"} <= set(texts)
    assert len(list(drawn.iter("polyline"))) == len(CURVES)
    markers = [element for element in drawn.iter() if "marker" in element.get("class", "")]
    assert len(markers) == 3 + 1 + len(CURVES)  # points, and the legend's


def test_curves_differ_in_more_than_color() -> None:
    drawn = ElementTree.fromstring(draw_lines(LINES))
    dashes = [line.get("stroke-dasharray") for line in drawn.iter("polyline")]
    assert len(set(dashes)) == len(CURVES)


@pytest.mark.parametrize("log", [False, True])
def test_an_axis_keeps_order_and_stays_within_its_ends(log: bool) -> None:
    values = [0.7, 3.0, 11.0, 250.0]
    axis = PlotAxis(values, 50.0, 450.0, log)
    places = [axis(value) for value in values]
    assert places == sorted(places)
    assert 50 <= min(places) <= max(places) <= 450 + 1e-9
    assert len(axis.ticks) >= 2
    assert all(50 - 1e-9 <= axis(tick) <= 450 + 1e-9 for tick in axis.ticks)


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis() -> None:
    axis = PlotAxis([1, 1000], 0.0, 300.0, True)
    assert axis(10) - axis(1) == pytest.approx(axis(1000) - axis(100))


def test_bars_are_as_long_as_their_values_say() -> None:
    drawn = ElementTree.fromstring(
        draw_bars(BarChart("t", "BLEU", ["a", "b", "lost"], [10.0, 20.0, math.nan]))
    )
    a, b, lost = (float(bar.get("width", "")) for bar in drawn.iter("rect"))
    assert b == pytest.approx(2 * a, rel=0.01)
    assert lost == 0


def test_bars_do_not_overlap_and_their_names_are_at_their_height() -> None:
    drawn = ElementTree.fromstring(
        draw_bars(BarChart("t", "BLEU", ["a", "a longer name"], [1.0, 2.0]))
    )
    first, second = drawn.iter("rect")
    assert float(first.get("y", "")) + float(first.get("height", "")) < float(second.get("y", ""))
    (name,) = (text for text in drawn.iter("text") if text.text == "a longer name")
    assert name.get("text-anchor") == "end"
    letters = 6 * len("a longer name")  # one of them is about six units wide
    assert letters < float(name.get("x", "")) < float(second.get("x", ""))


def test_a_curve_has_the_same_color_in_the_legend() -> None:
    def colours(kind: str) -> list[str]:
        return [
            line.get("class", "") for line in drawn.iter(kind) if "curve" in line.get("class", "")
        ]

    many = [Series(f"s{number}", [1, 2], [1.0, 2.0]) for number in range(9)]
    drawn = ElementTree.fromstring(draw_lines(LineChart("t", "x", "y", many)))
    assert colours("line") == colours("polyline")
    assert colours("line") == [f"curve s{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 1)]


def test_the_opacity_of_a_cell_is_its_weight() -> None:
    drawn = ElementTree.fromstring(
        draw_map(HeatMap("t", ["x", "y"], ["a", "b"], [[0.25, 0.75], [1.0, 0.0]]))
    )
    assert [float(cell.get("fill-opacity", "")) for cell in drawn.iter("rect")] == [
        0.25,
        0.75,
        1.0,
        0.0,
    ]


def test_no_number_is_drawn_as_not_a_number() -> None:
    assert not re.search(r'="[^"]*(nan|inf)', draw_lines(LINES))


def test_error_bars_reach_from_the_low_end_to_the_high_one() -> None:
    series = Series("s", [1, 2], [2.0, 3.0], [1.0, 3.0], [4.0, 3.0])
    drawn = ElementTree.fromstring(draw_lines(LineChart("t", "x", "y", [series])))
    bars = [path for path in drawn.iter("path") if "error" in path.get("class", "")]
    assert len(bars) == 1  # the second point has no spread to show
    ends = re.match(r"M[\d.]+,([\d.]+)V([\d.]+)", bars[0].get("d", ""))
    assert ends
    axis = PlotAxis([1.0, 2.0, 3.0, 4.0], 240.0, 30.0, False, from_zero=True)
    assert float(ends[1]) == pytest.approx(axis(1.0), abs=0.1)
    assert float(ends[2]) == pytest.approx(axis(4.0), abs=0.1)


def test_marks_have_labels_and_are_within_the_axes() -> None:
    lines = LineChart(
        "t", "x", "y", [Series("s", [1, 2], [0.5, 0.6])], top=1.0, x_mark=(3.0, "trained"),
        y_mark=(0.1, "chance"),
    )  # fmt: skip
    drawn = ElementTree.fromstring(draw_lines(lines))
    texts = ["".join(element.itertext()) for element in drawn.iter("text")]
    assert {"trained", "chance", "1"} <= set(texts)
    marks = [line for line in drawn.iter("line") if line.get("class") == "mark"]
    assert len(marks) == 2
    assert all(0 <= float(line.get("x2", "")) <= 480 for line in marks)


def test_few_values_on_a_logarithmic_axis_are_its_ticks() -> None:
    lines = LineChart("t", "rate", "y", [Series("s", [0.003, 0.03], [0.5, 0.6])], log_x=True)
    drawn = ElementTree.fromstring(draw_lines(lines))
    texts = ["".join(element.itertext()) for element in drawn.iter("text")]
    assert {"0.003", "0.03"} <= set(texts)


def test_faint_bars_have_their_own_class() -> None:
    bars = BarChart("t", "u", ["with", "without"], [0.9, 0.2], faint=[False, True])
    drawn = ElementTree.fromstring(draw_bars(bars))
    assert [bar.get("class") for bar in drawn.iter("rect")] == ["bar", "bar faint"]


def test_a_long_name_is_squeezed_and_a_short_one_is_not() -> None:
    lines = LineChart(
        "T" * 90, "x", "a long name of what is measured here", [Series("s", [1], [2])]
    )
    drawn = ElementTree.fromstring(draw_lines(lines))
    lengths = {"".join(t.itertext())[:1]: t.get("textLength") for t in drawn.iter("text")}
    assert float(lengths["T"] or 0) <= 480
    assert float(lengths["a"] or 0) <= 240
    assert lengths["x"] is None


def test_a_table_for_the_terminal_keeps_its_columns_in_line() -> None:
    lines = as_text(
        Table("t", ["system", "BLEU"], [["rnn", "3.1"], ["transformer", "30.5"]])
    ).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("rnn ")
    assert lines[1].endswith(" 3.1")
