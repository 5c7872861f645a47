"""Draw figures as inline SVG.

Colors come from the page's style sheet, light or dark; no script is needed. Curves differ in
color, dash and marker, in an order that works for every kind of color vision (the palette is Okabe
and Ito's, defined in the page as --series-1, ...).
"""

import html
import math
from collections.abc import Callable, Iterator, Sequence

from dragoman.lab.compare.figures import BarChart, HeatMap, LineChart, Series

_WIDTH, _FONT = 480, 12
# There is no font to measure, so widths are estimates.
_LETTER = 0.56 * _FONT  # approximate mean width
_LABEL_WIDTH = 0.84  # labels have a smaller font
_LEFT, _RIGHT, _TOP, _PLOT, _BOTTOM = 58, 14, 30, 210, 44
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "", "6 3", "2 3", "8 3 2 3")
_MOST_OWN_TICKS = 10
_MARKERS = ("circle", "square", "diamond", "triangle")


class PlotAxis:
    """Map values to coordinates, with ticks at round values."""

    def __init__(
        self, values: Sequence[float], start: float, end: float, log: bool, from_zero: bool = False
    ):
        self._log = log and min(values) > 0
        low = min(values)
        high = max(values)
        if from_zero:
            low = min(0.0, low)
            high = max(0.0, high)
        if low == high:
            low, high = (low / 2, high * 2) if self._log else (low - 0.5, high + 0.5)
        self.ticks = _powers(low, high) if self._log else _round_steps(low, high)
        # A linear axis grows to its outer ticks; a logarithmic one would grow by whole decades.
        if not self._log:
            low = min(low, self.ticks[0])
            high = max(high, self.ticks[-1])
        self._low = self._scale(low)
        self._high = self._scale(high)
        self._start = start
        self._end = end

    def __call__(self, value: float) -> float:
        share = (self._scale(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def _scale(self, value: float) -> float:
        return math.log(value) if self._log else value


def draw_lines(figure: LineChart) -> str:
    """Draw curves with axes, units and a legend."""
    series = [
        [p for p in zip(s.x, s.y, strict=True) if all(map(math.isfinite, p))] for s in figure.series
    ]
    xs, ys = (
        [point[axis] for points in series for point in points] or [0.0, 1.0] for axis in (0, 1)
    )
    if figure.x_mark is not None:
        xs = [*xs, figure.x_mark[0]]
    ends = [value for s in figure.series for value in (*s.low, *s.high) if math.isfinite(value)]
    # The vertical axis must reach error bars, the mark and the required top as well.
    marks = [figure.y_mark[0]] if figure.y_mark is not None else []
    tops = [figure.top] if figure.top is not None else []
    ys = [value for value in [*ys, *ends, *marks, *tops] if value > 0 or not figure.log_y]
    x_axis = PlotAxis(xs, _LEFT, _WIDTH - _RIGHT, figure.log_x)
    y_axis = PlotAxis(ys, _TOP + _PLOT, _TOP, figure.log_y, from_zero=not figure.log_y)
    entries = [(s.name, number) for number, s in enumerate(figure.series)]
    legend, bottom = _legend(entries, _TOP + _PLOT + _BOTTOM + 10)

    def parts() -> Iterator[str]:
        room = _WIDTH - _LEFT - _RIGHT
        yield _text(_LEFT, 16, figure.title, "start", "title", _squeezed(figure.title, room))
        for value in y_axis.ticks:
            y = y_axis(value)
            ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            yield f'<line class="grid" {ends}/>'
            yield _text(_LEFT - 6, y + 4, _short(value), "end", "tick")
        for value in _x_ticks(xs, x_axis, figure.log_x):
            # Labels of the last ticks would leave the picture, so shift them inside.
            x = min(x_axis(value), _WIDTH - 4 - _LETTER * len(_short(value)) / 2)
            yield _text(x, _TOP + _PLOT + 16, _short(value), "middle", "tick")
        yield _text(
            (_LEFT + _WIDTH - _RIGHT) / 2, _TOP + _PLOT + 35, figure.x_label, "middle", "label"
        )
        middle = _TOP + _PLOT / 2
        rotation = f' transform="rotate(-90 13 {middle})"'
        rotation += _squeezed(figure.y_label, _PLOT + 25)
        yield _text(13, middle, figure.y_label, "middle", "label", rotation)
        yield from _marks(figure, x_axis, y_axis)
        # Error bars first, so that no bar covers a curve or its markers.
        for number, curve in enumerate(figure.series):
            yield from _error_bars(curve, number, x_axis, y_axis)
        for number, (points, curve) in enumerate(zip(series, figure.series, strict=True)):
            yield from _curve(
                [(x_axis(x), y_axis(y)) for x, y in points], number, curve.name, points
            )
        yield from legend

    return _svg(parts(), bottom, figure.title)


def _x_ticks(xs: Sequence[float], axis: PlotAxis, log: bool) -> list[float]:
    """Use the values themselves on a logarithmic axis if they are few, round numbers otherwise."""
    values = sorted(set(xs))
    if not log or len(values) > _MOST_OWN_TICKS:
        return axis.ticks
    ticks: list[float] = []
    for value in values:
        # Skip a tick whose label would touch the previous one.
        if not ticks or axis(value) - axis(ticks[-1]) >= _LETTER * (len(_short(value)) + 1):
            ticks.append(value)
    return ticks


def _marks(figure: LineChart, x_axis: PlotAxis, y_axis: PlotAxis) -> Iterator[str]:
    """Draw lines across the plot that mark a value, such as the trained length or chance."""
    if figure.x_mark is not None:
        x = x_axis(figure.x_mark[0])
        yield f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_TOP + _PLOT}"/>'
        side, shift = ("end", -5) if x > (_LEFT + _WIDTH) / 2 else ("start", 5)
        yield _text(x + shift, _TOP + _PLOT - 8, figure.x_mark[1], side, "mark-label")
    if figure.y_mark is not None:
        y = y_axis(figure.y_mark[0])
        yield (
            f'<line class="mark" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        label_y = y + 13 if y < _TOP + 14 else y - 5  # keep clear of the title
        yield _text(_LEFT + 5, label_y, figure.y_mark[1], "start", "mark-label")


def _error_bars(series: Series, number: int, x_axis: PlotAxis, y_axis: PlotAxis) -> Iterator[str]:
    """Draw error bars, except where they are too short to see."""
    # `strict=False`: a series without error bars has empty ends.
    for x, low, high in zip(series.x, series.low, series.high, strict=False):
        if not (math.isfinite(low) and math.isfinite(high)):
            continue
        place, bottom, top = x_axis(x), y_axis(low), y_axis(high)
        if bottom - top < 1:
            continue
        path = (
            f"M{place:.1f},{bottom:.1f}V{top:.1f}M{place - 4:.1f},{bottom:.1f}h8"
            f"M{place - 4:.1f},{top:.1f}h8"
        )
        yield f'<path class="error s{number % 8 + 1}" d="{path}"/>'


def draw_bars(figure: BarChart) -> str:
    """Draw horizontal bars, whose names can be read on a narrow screen."""
    # As wide as the longest name, up to half of the figure.
    left = min(240.0, 12 + _LETTER * max(map(len, figure.names), default=0))
    # A failed system has the value NaN: a bar of length 0 and a dash.
    finite = [value for value in figure.values if math.isfinite(value)] or [1.0]
    ends = [value for value in (*figure.low, *figure.high) if math.isfinite(value)]
    axis = PlotAxis([*finite, *ends], left, _WIDTH - 56, False, from_zero=True)
    row = 24
    bottom = _TOP + row * len(figure.names)

    def parts() -> Iterator[str]:
        yield _text(8, 16, figure.title, "start", "title")
        for number, (name, value) in enumerate(zip(figure.names, figure.values, strict=True)):
            y = _TOP + row * number
            start = axis(0.0)
            end = axis(value) if math.isfinite(value) else start
            yield _text(left - 6, y + 15, name, "end", "tick", _squeezed(name, left - 10))
            kind = "bar faint" if any(figure.faint[number : number + 1]) else "bar"
            yield (
                f'<rect class="{kind}" x="{min(start, end):.1f}" y="{y + 3}" '
                f'width="{abs(end - start):.1f}" '
                f'height="{row - 7}" rx="2"><title>{html.escape(name)}: '
                f"{_short(value)}</title></rect>"
            )
            edge = max(start, end)
            if len(figure.low) and math.isfinite(figure.low[number]):
                low, high = axis(figure.low[number]), axis(figure.high[number])
                path = (
                    f"M{low:.1f},{y + 11.5}H{high:.1f}M{low:.1f},{y + 7.5}v8M{high:.1f},{y + 7.5}v8"
                )
                yield f'<path class="error whisker" d="{path}"/>'
                edge = max(edge, high)
            yield _text(edge + 6, y + 15, _short(value), "start", "tick")
        yield _text((left + _WIDTH - 56) / 2, bottom + 18, figure.label, "middle", "label")

    return _svg(parts(), bottom + 28, figure.title)


def draw_map(figure: HeatMap) -> str:
    """Draw a head's weights; a fuller color is a larger weight."""
    cell = min(26.0, (_WIDTH - 110) / max(1, len(figure.columns)))
    left = min(130.0, 12 + _LETTER * max(map(len, figure.rows), default=0))
    top = _TOP + 8 + _LETTER * max(map(len, figure.columns), default=0)

    def parts() -> Iterator[str]:
        yield _text(8, 16, figure.title, "start", "title")
        for j, word in enumerate(figure.columns):
            x = left + cell * (j + 0.7)
            yield _text(
                x,
                top - 6,
                word,
                "start",
                "cell-label",
                f' transform="rotate(-90 {x:.1f} {top - 6:.1f})"',
            )
        for i, (word, weights) in enumerate(zip(figure.rows, figure.weights, strict=True)):
            yield _text(left - 6, top + cell * (i + 0.7), word, "end", "cell-label")
            for j, weight in enumerate(weights):
                yield (
                    f'<rect class="cell" x="{left + cell * j:.1f}" y="{top + cell * i:.1f}" '
                    f'width="{cell - 1:.1f}" height="{cell - 1:.1f}" '
                    f'fill-opacity="{weight:.3f}"><title>{weight:.2f}</title></rect>'
                )

    return _svg(parts(), top + cell * len(figure.rows) + 8, figure.title)


def _short(value: float) -> str:
    """Format a number for an axis or a bar.

    >>> _short(0.25), _short(31.4159), _short(1024), _short(2.5e12), _short(0.00001)
    ('0.25', '31.4', '1024', '2.5e12', '1e-5')
    """
    if not math.isfinite(value):
        return "–"
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _round_steps(low: float, high: float, count: int = 5) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten that enclose `low` and `high`."""
    power = 10.0 ** math.floor(math.log10((high - low) / count))
    # The tolerances absorb rounding errors, such as 0.3 / 0.1 < 3.
    step = next(s * power for s in (1, 2, 5, 10) if (high - low) / (s * power) <= count + 1e-9)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Return about six powers of ten between the ends, or powers of two if those are too few."""
    for base in (10.0, 2.0):
        first = math.ceil(math.log(low, base) - 1e-9)
        last = math.floor(math.log(high, base) + 1e-9)
        if last - first >= 2:
            # At most seven ticks: skip exponents where the range is wide.
            return [base**n for n in range(first, last + 1, 1 + (last - first) // 6)]
    return [low, high]


def _curve(
    coordinates: Sequence[tuple[float, float]],
    number: int,
    name: str,
    points: Sequence[tuple[float, float]],
) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in coordinates)
    dash = _DASHES[number % len(_DASHES)]
    yield f'<polyline class="curve s{number % 8 + 1}" points="{path}" stroke-dasharray="{dash}"/>'
    for (x, y), (x_value, y_value) in zip(coordinates, points, strict=True):
        yield _marker(x, y, number, f"{name}: {_short(x_value)}, {_short(y_value)}")


def _marker(x: float, y: float, number: int, tip: str = "") -> str:
    shapes: dict[str, Callable[[], str]] = {
        "circle": lambda: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4"',
        "square": lambda: f'<rect x="{x - 3.1:.1f}" y="{y - 3.1:.1f}" width="6.2" height="6.2"',
        "diamond": lambda: (
            f'<polygon points="{x:.1f},{y - 4.4:.1f} {x + 4.4:.1f},{y:.1f} {x:.1f},{y + 4.4:.1f} '
            f'{x - 4.4:.1f},{y:.1f}"'
        ),
        "triangle": lambda: (
            f'<polygon points="{x:.1f},{y - 4.2:.1f} {x + 4:.1f},{y + 3:.1f} '
            f'{x - 4:.1f},{y + 3:.1f}"'
        ),
    }
    shape = shapes[_MARKERS[number % len(_MARKERS)]]()
    return (
        f'{shape} class="marker '
        f's{number % 8 + 1}"><title>{html.escape(tip)}</title>{_end_of(shape)}'
    )


def _end_of(shape: str) -> str:
    # A tooltip is a child element, so the marker needs a closing tag.
    return f"</{shape[1:].split(' ')[0]}>"


def _legend(entries: Sequence[tuple[str, int]], y: float) -> tuple[list[str], float]:
    """Return the legend, in as many rows as it needs, and its lower end."""
    parts = []
    x = float(_LEFT)
    for name, number in entries:
        width = 34 + _LETTER * len(name)
        # Wrap, unless the row is empty: a name that is too long gets a row of its own.
        if x + width > _WIDTH and x > _LEFT:
            x = float(_LEFT)
            y = y + 18
        dash = _DASHES[number % len(_DASHES)]
        parts.append(
            f'<line class="curve s{number % 8 + 1}" x1="{x:.1f}" x2="{x + 20:.1f}" '
            f'y1="{y - 4:.1f}" y2="{y - 4:.1f}" stroke-dasharray="{dash}"/>'
        )
        parts += [_marker(x + 10, y - 4, number, name), _text(x + 25, y, name, "start", "tick")]
        x += width + 8
    return parts, y + 8


def _text(x: float, y: float, text: str, anchor: str, kind: str, more: str = "") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" '
        f'text-anchor="{anchor}"{more}>{html.escape(text)}</text>'
    )


def _squeezed(text: str, width: float) -> str:
    """Return the SVG attributes that fit a long text into its width."""
    own = _LETTER * len(text)
    if 1.3 * own <= width:  # phones have larger fonts
        return ""
    return f' textLength="{min(_LABEL_WIDTH * own, width):.0f}" lengthAdjust="spacingAndGlyphs"'


def _svg(parts: Iterator[str], height: float, title: str) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'aria-label="{html.escape(title)}">\n{inside}\n</svg>'
    )
