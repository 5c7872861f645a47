"""Pictures for the lessons: a matrix as colours, curves over steps. Jupyter shows them as SVG.

They have no background, so they suit both light and dark pages.
"""

from collections.abc import Sequence
from html import escape

import numpy as np

CELL = 22
INK = "#7a828c"  # of names and numbers, where the page does not set a colour of its own
ABOVE, BELOW = "#3b82d0", "#d9822b"
COLOURS = (ABOVE, BELOW, "#2a9d76", "#b8548f")


class Picture:
    def __init__(self, width: float, height: float, *parts: str):
        self.svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'font-family="sans-serif" font-size="11" color="{INK}" fill="currentColor">'
            f"{''.join(parts)}</svg>"
        )

    def _repr_svg_(self) -> str:
        return self.svg


def heatmap(
    matrix: np.ndarray,
    rows: Sequence[object] = (),
    columns: Sequence[object] = (),
    cell: int = CELL,
) -> Picture:
    """Blue is positive, clear zero, orange negative; rows and columns may have names."""
    matrix = np.asarray(matrix, dtype=float)
    largest = np.abs(matrix).max() or 1.0
    left = 8 + 7 * max((len(str(name)) for name in rows), default=0)
    top = 8 + 7 * max((len(str(name)) for name in columns), default=0)
    parts = []
    for (i, j), value in np.ndenumerate(matrix):
        parts.append(
            f'<rect x="{left + j * cell}" y="{top + i * cell}" width="{cell}" height="{cell}" '
            f'fill="{ABOVE if value >= 0 else BELOW}" fill-opacity="{abs(value) / largest:.2f}"/>'
        )
    height, width = matrix.shape
    parts.append(
        f'<rect x="{left}" y="{top}" width="{cell * width}" height="{cell * height}" '
        f'fill="none" stroke="currentColor" stroke-opacity=".4"/>'
    )
    for i, name in enumerate(rows):
        y = top + (i + 0.7) * cell
        parts.append(f'<text x="{left - 4}" y="{y}" text-anchor="end">{escape(str(name))}</text>')
    for j, name in enumerate(columns):
        x = left + (j + 0.7) * cell
        turned = f'transform="rotate(-90 {x} {top - 4})"'
        parts.append(f'<text x="{x}" y="{top - 4}" {turned}>{escape(str(name))}</text>')
    return Picture(left + cell * width + 8, top + cell * height + 8, *parts)


def curves(lines: dict[str, Sequence[float]], width: int = 560, height: int = 200) -> Picture:
    """One curve for each name, over 0, 1, 2, ..."""
    values = np.concatenate([np.asarray(line, dtype=float) for line in lines.values()])
    low, high = float(values.min()), float(values.max())
    longest = max(len(line) for line in lines.values())
    parts = [
        f'<text x="4" y="16">{high:.3g}</text>',
        f'<text x="4" y="{height - 22}">{low:.3g}</text>',
    ]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = []
        for i, value in enumerate(line):
            x = 50 + (width - 60) * i / max(1, longest - 1)
            y = 12 + (height - 44) * (high - value) / ((high - low) or 1.0)
            points.append(f"{x:.1f},{y:.1f}")
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="2"/>'
            f'<text x="{50 + 130 * number}" y="{height - 5}" fill="{colour}">{escape(name)}</text>'
        )
    return Picture(width, height, *parts)
