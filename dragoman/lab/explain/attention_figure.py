"""Draw attention maps as figures for papers, in SVG or PNG.

The heads of a layer are side by side, with queries as rows and keys as columns; darker cells have
larger weights.
"""

import html
import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.errors import ConfigError, MissingPackageError, escaped
from dragoman.inspect.words import piece_label
from dragoman.lab.explain.sentence_inspection import ATTENTION_MAPS, SentenceInspection

_CELL, _FONT, _GAP = 14, 10, 16
_WIDTH_OF_LETTER = 0.6 * _FONT  # approximately, in DejaVu Sans
_PAPER, _INK = np.array([255, 255, 255]), np.array([8, 48, 107])
_SCALE = 3  # PNG pixels per unit of the figure


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    colour: tuple[int, int, int]


@dataclass(frozen=True)
class Label:
    """A text whose baseline ends at (x, y).

    With `upright` it starts there and runs upward; with `middle` its center is there.
    """

    x: float
    y: float
    text: str
    anchor: str = "end"  # or "middle", or "upright"


@dataclass(frozen=True)
class AttentionFigure:
    width: float
    height: float
    boxes: list[Box]
    labels: list[Label]


def draw(
    inspection: SentenceInspection,
    kind: str = "cross",
    layer: int = -1,
    head: int | None = None,
    pieces: bool = False,
) -> AttentionFigure:
    """Lay out a layer's heads side by side, or one of them.

    Layers and heads count from 1, and -1 is the last layer.
    """
    if kind not in inspection.maps:
        raise ConfigError(f"attention {kind!r} is unknown; it can be {', '.join(inspection.maps)}.")
    maps = inspection.maps[kind] if pieces else inspection.joined(kind)  # (L, H, rows, columns)
    layer = _number("layer", len(maps) if layer == -1 else layer, len(maps))
    heads = range(maps.shape[1]) if head is None else [_number("head", head, maps.shape[1]) - 1]
    axes = inspection.axes[ATTENTION_MAPS[kind].rows], inspection.axes[ATTENTION_MAPS[kind].columns]
    rows, columns = ([*map(piece_label, a.pieces)] if pieces else list(a.labels) for a in axes)
    left = _GAP + _WIDTH_OF_LETTER * max(map(len, rows))
    top = 2.2 * _GAP + _WIDTH_OF_LETTER * max(map(len, columns))
    boxes: list[Box] = []
    labels = [Label(left - 4, top + _CELL * (i + 0.75), word) for i, word in enumerate(rows)]
    for place, number in enumerate(heads):
        x = left + place * (_CELL * len(columns) + _GAP)
        labels.append(
            Label(x + _CELL * len(columns) / 2, _GAP, f"layer {layer}, head {number + 1}", "middle")
        )
        labels += [
            Label(x + _CELL * (j + 0.75), top - 4, word, "upright")
            for j, word in enumerate(columns)
        ]
        boxes += _cells(maps[layer - 1, number], x, top)
    width = left + len(heads) * (_CELL * len(columns) + _GAP)
    return AttentionFigure(width, top + _CELL * len(rows) + _GAP, boxes, labels)


def to_svg(figure: AttentionFigure) -> str:
    def lines() -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{figure.width:.0f}" '
            f'height="{figure.height:.0f}" viewBox="0 0 {figure.width:.1f} {figure.height:.1f}" '
            f'font-family="DejaVu Sans, sans-serif" font-size="{_FONT}">'
        )
        for b in figure.boxes:
            colour = "#{:02x}{:02x}{:02x}".format(*b.colour)
            yield (
                f'<rect x="{b.x:.1f}" y="{b.y:.1f}" width="{b.width}" height="{b.height}" '
                f'fill="{colour}"/>'
            )
        for t in figure.labels:
            turn = f' transform="rotate(-90 {t.x:.1f} {t.y:.1f})"' if t.anchor == "upright" else ""
            anchor = "start" if t.anchor == "upright" else t.anchor
            text = html.escape(escaped(t.text))  # XML allows no control characters
            yield f'<text x="{t.x:.1f}" y="{t.y:.1f}" text-anchor="{anchor}"{turn}>{text}</text>'
        yield "</svg>"

    return "\n".join(lines()) + "\n"


def to_png(figure: AttentionFigure) -> bytes:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError:
        raise MissingPackageError(
            "PNG figures need Pillow: run pip install pillow, or write SVG."
        ) from None
    try:
        font: ImageFont.ImageFont | ImageFont.FreeTypeFont = ImageFont.truetype(
            "DejaVuSans.ttf", _SCALE * _FONT
        )
    except OSError:  # Pillow's own font has Latin letters only
        font = ImageFont.load_default(_SCALE * _FONT)
    image = Image.new("RGB", (round(_SCALE * figure.width), round(_SCALE * figure.height)), "white")
    canvas = ImageDraw.Draw(image)
    for b in figure.boxes:
        corners = [
            _SCALE * b.x,
            _SCALE * b.y,
            # Pillow's rectangles include their last row and column.
            _SCALE * (b.x + b.width) - 1,
            _SCALE * (b.y + b.height) - 1,
        ]
        canvas.rectangle(corners, fill=b.colour)
    for t in figure.labels:
        x, y = _SCALE * t.x, _SCALE * t.y
        if t.anchor != "upright":
            canvas.text(
                (x, y), t.text, fill="black", font=font, anchor="rs" if t.anchor == "end" else "ms"
            )
            continue
        # Pillow writes only horizontally: draw on a strip of paper, turn it, and paste its ink.
        box = canvas.textbbox((0, 0), t.text, font=font, anchor="ls")
        strip = Image.new("L", (round(box[2]) + 1, 2 * _SCALE * _FONT))
        baseline = round(1.5 * _SCALE * _FONT)
        ImageDraw.Draw(strip).text((0, baseline), t.text, fill=255, font=font, anchor="ls")
        rotated = strip.rotate(90, expand=True)
        image.paste("black", (round(x) - baseline, round(y) - rotated.height), rotated)
    raw = io.BytesIO()
    image.save(raw, format="PNG")
    return raw.getvalue()


def _cells(weights: np.ndarray, x: float, y: float) -> list[Box]:
    """Return a pale frame and a cell for each weight."""
    rows, columns = weights.shape
    # Mix paper and ink by the weight.
    colours = np.rint(_PAPER + weights[..., None] * (_INK - _PAPER)).astype(int)
    cells = [
        Box(x + _CELL * j, y + _CELL * i, _CELL, _CELL, (r, g, b))
        for i in range(rows)
        for j, (r, g, b) in enumerate(colours[i].tolist())
    ]
    return [Box(x - 1, y - 1, _CELL * columns + 2, _CELL * rows + 2, (190, 200, 214)), *cells]


def _number(what: str, value: int, most: int) -> int:
    if not 1 <= value <= most:
        raise ConfigError(f"{what} {value} does not exist: choose one from 1 to {most}.")
    return value
