"""Write an inspection as one self-contained HTML page, with style, script and data inside.

Weights are stored as 16-bit fractions in base64: a hundred words in 6 layers of 8 heads take a few
megabytes, and no weight is off by more than 1/131070.
"""

import base64
import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

import numpy as np

from dragoman.inspect.viewer import VIEWER
from dragoman.inspect.words import Axis, piece_label, readable
from dragoman.lab.explain.sentence_inspection import ATTENTION_MAPS, BeamNode, SentenceInspection
from dragoman.text.subword import WORD_START

_FILES = resources.files("dragoman.lab.explain") / "page"
_SHARED = ("base.css", "viewer.js")  # with the service's page, in `inspect/page`
STYLES = ("base.css", "viewer.css")
SCRIPTS = ("viewer.js", "attention.js", "beam.js", "positions.js")
FULL = 65535


def payload(inspection: SentenceInspection) -> dict[str, Any]:
    """Return the data of the viewer's script as JSON values."""
    return {
        "text": inspection.text,
        "translation": inspection.translation,
        "searched": inspection.searched,
        "axes": {name: axis_payload(axis) for name, axis in inspection.axes.items()},
        "maps": [
            {
                "name": name,
                **asdict(ATTENTION_MAPS[name]),
                "layers": weights.shape[0],
                "heads": weights.shape[1],
                "weights": _packed(weights),
            }
            for name, weights in inspection.maps.items()
        ],
        "beam": beam_payload(inspection.beam),
        "base": inspection.base,
        "positions": _packed_signed(inspection.positions)
        if inspection.positions is not None
        else None,
    }


def page(inspection: SentenceInspection) -> str:
    """Return the HTML page, which needs no network."""
    return fill_template(payload(inspection), STYLES, SCRIPTS, "openPage")


def fill_template(
    data: dict[str, Any], styles: Sequence[str], scripts: Sequence[str], open: str
) -> str:
    """Return a page with these files and this data; its script's function `open` shows it."""
    parts = {
        "title": html.escape(f"{data['text']} → {data['translation']}"),
        "style": "\n".join(map(_read, styles)),
        "script": "\n".join(map(_read, scripts)),
        "data": script_json(data),
        "open": open,
    }
    template = _read("page.html")
    # Replace all in one pass, because the data may contain braces too.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _read(name: str) -> str:
    # The service shows the same viewer, so two files belong to `inspect`.
    folder = VIEWER if name in _SHARED else _FILES
    return (folder / name).read_text(encoding="utf-8")


def axis_payload(axis: Axis) -> dict[str, Any]:
    return {
        "pieces": [*map(piece_label, axis.pieces)],
        "words": axis.words,
        "labels": axis.labels,
    }


def beam_payload(nodes: Sequence[BeamNode]) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(node, name) for name in ("step", "parent", "fate", "best")},
            "total": round(node.total, 4),
            "score": None if node.score is None else round(node.score, 4),
            "label": piece_label(node.piece),
            "text": readable([node.piece]),
            "starts": node.piece.startswith(WORD_START),
        }
        for node in nodes
    ]


def script_json(value: Any) -> str:
    """Return JSON that is safe inside a script element.

    >>> script_json("</script>")
    '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # `<` could end the script or open a comment; U+2028 and U+2029 end a line in older scripts.
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _packed(weights: np.ndarray) -> str:
    return base64.b64encode(np.rint(weights * FULL).astype("<u2").tobytes()).decode("ascii")


def _packed_signed(values: np.ndarray) -> dict[str, Any]:
    """Return a table as 16-bit integers, scaled so that its largest value is 32767."""
    # A table of zeros needs a scale as well.
    largest = float(np.abs(values).max()) or 1.0
    raw = np.rint(values / largest * 32767).astype("<i2").tobytes()
    return {
        "rows": values.shape[0],
        "columns": values.shape[1],
        "largest": largest,
        "values": base64.b64encode(raw).decode("ascii"),
    }
