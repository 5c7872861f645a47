"""An inspection as one HTML page that needs nothing else: style, script and data stand in it.

Weights travel as 16-bit fractions in base64: a hundred words in 6 layers of 8 heads are a few
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

from dragoman.inspect.sentence import KINDS, Inspection, Node
from dragoman.inspect.words import Axis, piece_label, readable
from dragoman.text.subword import WORD_START

FILES = resources.files("dragoman.inspect") / "page"
STYLES = ("base.css", "viewer.css")
SCRIPTS = ("viewer.js", "attention.js", "beam.js", "positions.js")
FULL = 65535


def payload(inspection: Inspection) -> dict[str, Any]:
    """What the viewer's script takes, as JSON can say it."""
    return {
        "text": inspection.text,
        "translation": inspection.translation,
        "searched": inspection.searched,
        "axes": {name: axis_payload(axis) for name, axis in inspection.axes.items()},
        "maps": [
            {
                "name": name,
                **asdict(KINDS[name]),
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


def page(inspection: Inspection) -> str:
    """The page; opened from disk, it asks nothing of any network."""
    return filled(payload(inspection), STYLES, SCRIPTS, "openPage")


def filled(data: dict[str, Any], styles: Sequence[str], scripts: Sequence[str], open: str) -> str:
    """A page with these files and this data in it, which the function `open` of its scripts
    shows."""
    template = (FILES / "page.html").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(f"{data['text']} → {data['translation']}"),
        "style": "\n".join((FILES / name).read_text(encoding="utf-8") for name in styles),
        "script": "\n".join((FILES / name).read_text(encoding="utf-8") for name in scripts),
        "data": script_json(data),
        "open": open,
    }
    # in one pass: a text may hold braces too
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def axis_payload(axis: Axis) -> dict[str, Any]:
    return {
        "pieces": [*map(piece_label, axis.pieces)],
        "words": axis.words,
        "labels": axis.labels,
    }


def beam_payload(nodes: Sequence[Node]) -> list[dict[str, Any]]:
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
    """JSON that cannot end the script element it stands in, nor open a comment there.

    >>> script_json("</script>")
    '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _packed(weights: np.ndarray) -> str:
    return base64.b64encode(np.rint(weights * FULL).astype("<u2").tobytes()).decode("ascii")


def _packed_signed(values: np.ndarray) -> dict[str, Any]:
    """A table as 16-bit numbers, 32767 for its largest."""
    largest = float(np.abs(values).max()) or 1.0
    raw = np.rint(values / largest * 32767).astype("<i2").tobytes()
    return {
        "rows": values.shape[0],
        "columns": values.shape[1],
        "largest": largest,
        "values": base64.b64encode(raw).decode("ascii"),
    }
