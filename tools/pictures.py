"""The pictures of docs/lectures.md, drawn by the code that they explain.

    python tools/pictures.py        writes docs/assets/lectures/*.svg

The colours are readable on light and on dark paper; nothing else in a picture depends on the page.
"""

import argparse
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig, make_config, variants
from dragoman.config.plugins import import_lab
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES
from dragoman.model.attention import SIMILARITIES, SPANS, causal_mask, plain_attention
from dragoman.model.heads import BareHeads
from dragoman.model.layers import ACTIVATIONS
from dragoman.model.positions import DISTANCES
from dragoman.text.lexicon import Model1
from dragoman.training.loss import smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate

FOLDER = Path(__file__).parents[1] / "docs/assets/lectures"
INK, BLUE, ORANGE, GREEN, PINK = "#7a828c", "#3b82d0", "#d9822b", "#2a9d76", "#b8548f"
SERIES = (BLUE, ORANGE, GREEN, PINK, INK)
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2")
WORDS = ["the", "small", "dog", "sees", "the", "cat"]


# -- three kinds of pictures -----------------------------------------------------------------------


def heatmaps(
    maps: Mapping[str, np.ndarray],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    cell: float = 18,
    gap: float = 26,
) -> str:
    """Matrices side by side, the stronger the colour the larger the number.

    As on every page of ours, numbers above zero are blue and those below are orange.
    """
    left = 12 + 6.4 * max(map(len, rows), default=0)
    top = 30 + (5.5 * max(map(len, columns)) if columns else 0)
    parts = []
    x = left
    bottom = 0.0
    for title, matrix in maps.items():
        height, width = matrix.shape
        largest = float(np.abs(matrix[np.isfinite(matrix)]).max()) or 1.0
        parts.append(text(x, 14, title, weight="bold"))
        for j, word in enumerate(columns if width == len(columns) else ()):
            across, up = x + cell * (j + 0.7), top - 4
            parts.append(text(across, up, word, turn=f"rotate(-60 {across:.0f} {up:.0f})"))
        parts.append(f'<g stroke="{INK}" stroke-opacity=".25" stroke-width=".5">')
        for i, j in np.argwhere(np.isfinite(matrix)):
            value = float(matrix[i, j])
            colour = BLUE if value >= 0 else ORANGE
            parts.append(
                f'<rect x="{x + cell * j:.0f}" y="{top + cell * i:.0f}" width="{cell - 1:.0f}" '
                f'height="{cell - 1:.0f}" fill="{colour}" '
                f'fill-opacity="{abs(value) / largest:.2f}"/>'
            )
        parts.append("</g>")
        x += max(cell * width, 7.0 * len(title)) + gap
        bottom = max(bottom, top + cell * height)
    for i, word in enumerate(rows):
        parts.append(text(left - 6, top + cell * (i + 0.72), word, anchor="end"))
    return svg(parts, x - gap + 8, bottom + 8)


def curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    width: float = 420,
    height: float = 200,
) -> str:
    """Lines with the ends of their axes."""
    xs = np.concatenate([np.asarray(x, float) for x, _ in series.values()])
    ys = np.concatenate([np.asarray(y, float) for _, y in series.values()])
    left, top = 52, 12

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + (x - xs.min()) / (xs.max() - xs.min()) * width,
            top + (ys.max() - y) / (ys.max() - ys.min()) * height,
        )

    frame = f'<path d="M{left} {top}V{top + height}H{left + width}" fill="none" stroke="{INK}"/>'
    parts = [frame]
    for value in (ys.min(), ys.max()):
        parts.append(
            text(left - 6, place(xs.min(), value)[1] + 4, f"{round(value, 2):g}", anchor="end")
        )
    for value in (xs.min(), xs.max()):
        across = place(value, ys.min())[0]
        parts.append(text(across, top + height + 16, f"{value:g}", anchor="middle"))
    parts.append(text(left + width / 2, top + height + 16, x_label, anchor="middle"))
    parts.append(text(left + 8, top + 10, y_label))
    for number, (name, (x, y)) in enumerate(series.items()):
        points = " ".join(
            f"{a:.1f},{b:.1f}" for a, b in (place(*p) for p in zip(x, y, strict=True))
        )
        colour, dash = SERIES[number], DASHES[number]
        line = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{points}" {line}/>')
        row = top + 30 + 17 * number
        key = left + width + 14
        parts.append(f'<path d="M{key} {row - 4}h26" {line}/>')
        parts.append(text(key + 32, row, name))
    longest = max(map(len, series))
    return svg(parts, left + width + 54 + 7 * longest, top + height + 26)


Box = tuple[float, float, str]


def diagram(
    boxes: Mapping[str, Box], arrows: Sequence[str], unit: tuple[int, int], sideways: bool = False
) -> str:
    """Boxes (column, row, words), a `unit` apart, and arrows "a>b"; "a~b" is dashed.

    Arrows leave a box above or below, or `sideways` where they reach another column.
    """
    across, down = unit
    wide = {name: 20 + 6.8 * len(words) for name, (_, _, words) in boxes.items()}
    middle = {name: (60 + across * x, 24 + down * y) for name, (x, y, _) in boxes.items()}
    parts = [
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>'
    ]
    for arrow in arrows:
        dashed = "~" in arrow
        start, end = arrow.split("~" if dashed else ">")
        (x1, y1), (x2, y2) = middle[start], middle[end]
        if y1 != y2 and not (sideways and x1 != x2):
            y1 += 14 if y2 > y1 else -14
            y2 += -15 if y2 > y1 else 15
        else:
            x1 += wide[start] / 2 if x2 > x1 else -wide[start] / 2
            x2 += -wide[end] / 2 - 1 if x2 > x1 else wide[end] / 2 + 1
        parts.append(
            f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{INK}" fill="none" '
            f'stroke-dasharray="{"4 3" if dashed else ""}" marker-end="url(#tip)"/>'
        )
    for name, (_, _, words) in boxes.items():
        x, y = middle[name]
        if words:
            plain = words.startswith("*")  # a word of the text, not a part of the model
            stroke = "none" if plain else BLUE
            parts.append(
                f'<rect x="{x - wide[name] / 2:.1f}" y="{y - 13}" width="{wide[name]:.1f}" '
                f'height="26" rx="5" fill="{BLUE}" fill-opacity="{0 if plain else 0.14}" '
                f'stroke="{stroke}"/>'
            )
            parts.append(text(x, y + 4, words.lstrip("*"), anchor="middle"))
    right = max(x + wide[name] / 2 for name, (x, _) in middle.items())
    bottom = max(y for _, y in middle.values())
    return svg(parts, right + 12, bottom + 26)


def text(
    x: float, y: float, words: str, anchor: str = "start", weight: str = "normal", turn: str = ""
) -> str:
    turned = f' transform="{turn}"' if turn else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{INK}"{turned}>{html.escape(words)}</text>'
    )


def svg(parts: Sequence[str], width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="system-ui, sans-serif" '
        f'font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"
    )


# -- the pictures ----------------------------------------------------------------------------------


def config(**settings: object) -> ModelConfig:
    named = {f"model.{name.replace('__', '.')}": value for name, value in settings.items()}
    return make_config("tiny", settings={"model.d_model": 32, "model.num_heads": 4, **named}).model


def vectors(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pictures() -> dict[str, str]:
    """The SVG of each picture, by name."""
    torch.manual_seed(7)
    return {
        "self-attention": self_attention(),
        "similarities": similarities(),
        "spans": spans(),
        "heads": heads(),
        "masks": masks(),
        "memory": memory(),
        "sinusoids": sinusoidal(),
        "joined": joined(),
        "distances": distances(),
        "norms": norms(),
        "activations": activations(),
        "transformer": transformer(),
        "decoder-only": decoder_only(),
        "rnn": rnn(),
        "rnn-attention": rnn_attention(),
        "gnmt": gnmt(),
        "convs2s": convs2s(),
        "lexicon": lexicon(),
        "teacher-forcing": teacher_forcing(),
        "smoothing": smoothing(),
        "schedules": schedules(),
        "beam": beam(),
        "penalties": penalties(),
        "cache": cache(),
    }


def self_attention() -> str:
    x = vectors(1, 6, 16)
    x[:, 4] = x[:, 0]  # the same word twice
    bare = BareHeads(16, 1)
    q, (k, v) = bare.queries_keys_values(x / 2)
    _, weights = plain_attention(q, k, v)
    return heatmaps({"w": weights[0, 0].numpy()}, WORDS, WORDS)


def similarities() -> str:
    q, k, v = vectors(3, 1, 1, 6, 16)
    maps = {}
    import_lab()
    others = [name for name in variants.SIMILARITIES if name != "dot"]
    for name in ("dot", *others):
        kind = SIMILARITIES[name]
        with torch.no_grad():
            _, weights = plain_attention(q, k, v, similarity=kind(1, 16))
        maps[name] = weights[0, 0].numpy()
    return heatmaps(maps, WORDS, cell=15)


def spans() -> str:
    q, k, v = vectors(3, 1, 1, 8, 16)
    maps = {}
    import_lab()
    for name in variants.SPANS:
        kind = SPANS[name]
        span = kind(1)
        mask = span.visible(None, 0, 8, 8, q.device)
        _, weights = plain_attention(q, k, v, mask, choose=span.choose)
        maps[name] = weights[0, 0].numpy()
    return heatmaps(maps)


def heads() -> str:
    """Matrices for queries (blue) and for keys and values (lighter), D = 8, H = 2."""
    shapes = {"paper": (8, 4, 2), "narrow": (4, 4, 2), "wide": (8, 8, 2), "multi-query": (8, 4, 1)}
    maps = {}
    for name, (inputs, outputs, sets) in shapes.items():
        grid = np.full((18, 17), np.nan)
        for head in range(2):
            column = head * 9
            row = 4 * head if name == "narrow" else 0
            grid[row : row + inputs, column : column + outputs] = 1.0
            if head < sets:
                grid[row + 10 : row + 10 + inputs, column : column + outputs] = 0.45
        maps[name] = grid
    return heatmaps(maps, cell=7)


def masks() -> str:
    q, k, v = vectors(3, 1, 1, 6, 16)
    mask = causal_mask(6, 6)
    _, weights = plain_attention(q, k, v, mask)
    maps = {"what each word may see": mask.numpy() * 1.0, "weights": weights[0, 0].numpy()}
    return heatmaps(maps, WORDS, WORDS)


def memory() -> str:
    boxes: dict[str, Box] = {}
    for side, (name, first) in enumerate((("last", 0), ("same", 4))):
        for layer in range(3):
            boxes[f"{name}e{layer}"] = (first, 2 - layer, f"encoder {layer + 1}")
            boxes[f"{name}d{layer}"] = (first + 1.6, 2 - layer, f"decoder {layer + 1}")
        boxes[f"{name}t"] = (first + 0.8, 3, "*memory=" + ("last", "same-layer")[side])
    arrows = [f"{name}{side}{i}>{name}{side}{i + 1}" for name in ("last", "same") for side in "ed"
              for i in (0, 1)]  # fmt: skip
    arrows += [f"laste2~lastd{layer}" for layer in range(3)]
    arrows += [f"samee{layer}~samed{layer}" for layer in range(3)]
    return diagram(boxes, arrows, (100, 56), sideways=True)


def sinusoidal() -> str:
    table = sinusoids(24, 32)
    return heatmaps(
        {"24 positions × 32 features": table, "similarity of positions": table @ table.T}, cell=8
    )


def joined() -> str:
    boxes: dict[str, Box] = {
        "x1": (0, 1, "√D E[x]"), "p1": (1.3, 1, "p"), "sum": (0.65, 0, "x + p"),
        "x2": (4, 1, "√D E[x]"), "p2": (5.3, 1, "p"), "cat": (4.65, 0, "W [x ; p]"),
    }  # fmt: skip
    return diagram(boxes, ["x1>sum", "p1>sum", "x2>cat", "p2>cat"], (90, 56))


def distances() -> str:
    """Draw the scores that two words get for their distance, with equal vectors everywhere."""
    same = vectors(1, 1, 1, 8, seed=11).expand(1, 1, 12, 8)
    rotary = DISTANCES["rotary"](config(positions__kind="rotary"), 8).turn(same, 0)
    relative = DISTANCES["relative"](config(positions__kind="relative"), 8)
    with torch.no_grad():
        relative.get_parameter("by_distance").copy_(vectors(65, 4, seed=5))
        learned = relative.bias(12, 12)
    alibi = DISTANCES["alibi"](config(positions__kind="alibi"), 8).bias(12, 12)
    assert learned is not None
    assert alibi is not None
    return heatmaps(
        {
            "rotary": (rotary @ rotary.transpose(-1, -2))[0, 0].numpy(),
            "relative": learned[0].numpy(),
            "ALiBi, head 1": alibi[0].exp().numpy(),
            "ALiBi, head 2": alibi[1].exp().numpy(),
        },
        cell=10,
    )


def norms() -> str:
    boxes: dict[str, Box] = {
        "x1": (0, 3, "*x"), "f1": (0, 2, "sublayer"), "s1": (0, 1, "+"), "n1": (0, 0, "norm"),
        "t1": (0, 3.7, "*post"),
        "x2": (4, 3, "*x"), "n2": (4, 2, "norm"), "f2": (4, 1, "sublayer"), "s2": (4, 0, "+"),
        "t2": (4, 3.7, "*pre"), "r": (4.5, 2, ""),
    }  # fmt: skip
    arrows = ["x1>f1", "f1>s1", "s1>n1", "x2>n2", "n2>f2", "f2>s2"]
    drawn = diagram(boxes, arrows, (80, 48))
    # The residual goes around the sublayer.
    around = "".join(
        f'<path d="M{x + 8} {y1}H{x + 60}V{y2}H{x + 17}" fill="none" stroke="{ORANGE}" '
        f'stroke-width="1.5"/>'
        for x, y1, y2 in ((60, 168, 72), (380, 168, 24))
    )
    return drawn.replace("</svg>", around + "</svg>")


def activations() -> str:
    x = torch.linspace(-4, 3, 71)
    series = {name: (x.tolist(), f(x).tolist()) for name, f in ACTIVATIONS.items()}
    return curves(series, "x", "σ(x)", 320, 170)


def transformer() -> str:
    boxes: dict[str, Box] = {
        "src": (0, 5, "*source"), "es": (0, 4, "embedding + position"),
        "ea": (0, 3, "self-attention"), "ef": (0, 2, "feed-forward"), "n1": (-1.1, 2.5, "*N ×"),
        "tgt": (2.4, 5, "*target, shifted"), "et": (2.4, 4, "embedding + position"),
        "da": (2.4, 3, "self-attention, masked"), "dc": (2.4, 2, "cross-attention"),
        "df": (2.4, 1, "feed-forward"), "out": (2.4, 0, "linear, softmax"), "n2": (3.7, 2, "*× N"),
    }  # fmt: skip
    arrows = ["src>es", "es>ea", "ea>ef", "ef>dc", "tgt>et", "et>da", "da>dc", "dc>df", "df>out"]
    moved = {name: (x + 0.9, y, words) for name, (x, y, words) in boxes.items()}
    return diagram(moved, arrows, (110, 48))


def decoder_only() -> str:
    words = ["x1", "x2", "</s>", "<s>", "y1", "y2"]
    mask = causal_mask(6, 6).numpy() * 1.0
    counted = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])[:, None]
    return heatmaps({"what each position sees": mask, "in the loss": counted}, words, words)


def rnn() -> str:
    boxes = _chain("x", 3, 1.0, "h") | {"v": (3.2, 1, "v")}
    boxes |= _chain("y", 3, 1.0, "h", first=4.4)
    arrows = ["xh0>xh1", "xh1>xh2", "xh2>v", "v>yh0", "yh0>yh1", "yh1>yh2"]
    arrows += [f"{side}{i}>{side}h{i}" for side in "xy" for i in range(3)]
    return diagram(boxes, arrows, (76, 52))


def rnn_attention() -> str:
    boxes = _chain("x", 3, 2.0, "m") | _chain("y", 3, 2.0, "h", first=4.4)
    boxes |= {f"c{i}": (4.4 + i, 1, f"c{i + 1}") for i in range(3)}
    boxes |= {f"o{i}": (4.4 + i, 0, "tanh") for i in range(3)}
    arrows = ["xh0>xh1", "xh1>xh0", "xh1>xh2", "xh2>xh1", "yh0>yh1", "yh1>yh2"]
    arrows += [f"{side}{i}>{side}h{i}" for side in "xy" for i in range(3)]
    arrows += [f"xh{i}~c1" for i in range(3)] + [f"yh{i}>c{i}" for i in range(3)]
    arrows += [f"c{i}>o{i}" for i in range(3)]
    return diagram(boxes, arrows, (84, 56))


def gnmt() -> str:
    boxes: dict[str, Box] = {
        "y": (1, 4, "*y"), "l1": (1, 3, "LSTM 1"), "l2": (1, 2, "LSTM 2"), "l3": (1, 1, "LSTM 3"),
        "o": (1, 0, "*softmax"), "m": (4.4, 3, "memory"), "a": (2.8, 3, "attention"),
    }  # fmt: skip
    arrows = ["y>l1", "l1>l2", "l2>l3", "l3>o", "l1>a", "m>a", "a~l2", "a~l3"]
    return diagram(boxes, arrows, (90, 48))


def convs2s() -> str:
    boxes: dict[str, Box] = {f"x{i}": (i, 2, f"*y{i - 1}" if i > 1 else "*0") for i in range(5)}
    boxes |= {f"h{i}": (i, 1, "GLU") for i in range(2, 5)}
    boxes |= {f"k{i}": (i, 0, "GLU") for i in range(2, 5)}
    boxes |= {"m": (6.2, 1, "memory")}
    arrows = [f"x{i - j}>h{i}" for i in range(2, 5) for j in range(3)]
    arrows += [f"h{i - j}>k{i}" for i in range(2, 5) for j in range(3) if i - j >= 2]
    arrows += ["m~h4", "m~k4"]
    return diagram(boxes, arrows, (76, 64))


def lexicon() -> str:
    """das Haus / the house, das Buch / the book, ein Buch / a book."""
    sources = np.array([[1, 2], [1, 3], [4, 3]])
    targets = np.array([[1, 2], [1, 3], [4, 3]])
    model = Model1([(sources, targets)], pad=0)
    maps = {}
    for rounds in range(16):
        if rounds in (0, 1, 3, 15):
            table = np.zeros((5, 5))
            table[model.x, model.y] = model.t
            maps[f"{rounds} rounds"] = table[1:, 1:]
        model.improve()
    return heatmaps(
        maps, ["das", "Haus", "Buch", "ein"], ["the", "house", "book", "a"], cell=16, gap=30
    )


def teacher_forcing() -> str:
    said = ["<s>", "the", "dog", "sleeps"]
    wanted = ["the", "dog", "sleeps", "</s>"]
    boxes: dict[str, Box] = {f"i{i}": (i, 2, f"*{word}") for i, word in enumerate(said)}
    boxes |= {f"d{i}": (i, 1, "decoder") for i in range(4)}
    boxes |= {f"o{i}": (i, 0, f"*{word}") for i, word in enumerate(wanted)}
    arrows = [f"i{i}>d{i}" for i in range(4)] + [f"d{i}>o{i}" for i in range(4)]
    return diagram(boxes, [*arrows, "d0>d1", "d1>d2", "d2>d3"], (100, 50))


def smoothing() -> str:
    """Draw the smoothed loss over 10 words, nine of which share the rest of the probability."""
    series = {}
    p = np.linspace(0.05, 0.995, 80)
    for epsilon in (0.0, 0.1, 0.3):
        losses = []
        for right in p:
            logits = torch.tensor([[right] + [(1 - right) / 9] * 9]).log()
            losses.append(float(smoothed_cross_entropy(logits, torch.tensor([0]), epsilon)[0]))
        series[f"ε = {epsilon:g}"] = (p.tolist(), losses)
    return curves(series, "probability of the right word", "loss", 320, 170)


def schedules() -> str:
    """Each relative to its own peak, at the end of the warm-up."""
    steps = [1, *range(100, 20001, 100)]
    series = {}
    for kind in ("noam", "linear", "constant"):
        settings = {"training.schedule": kind, "training.max_steps": 20000}
        training = make_config(
            "base", settings={**settings, "training.warmup_steps": 4000}
        ).training
        peak = learning_rate(4000, training, 512)
        rates = [learning_rate(step, training, 512) / peak for step in steps]
        series["noam, inverse-sqrt" if kind == "noam" else kind] = (steps, rates)
    return curves(series, "step", "rate / peak")


def beam() -> str:
    boxes: dict[str, Box] = {
        "s": (0, 1.5, "<s>"), "the": (1.4, 1, "the  −0.4"), "a": (1.4, 2, "a  −1.2"),
        "dog": (3.0, 0, "dog  −0.9"), "cat": (3.0, 1, "*cat  −1.9"), "dog2": (3.0, 2, "dog  −1.6"),
        "cat2": (3.0, 3, "*cat  −2.4"),
        "sl": (4.8, 0, "sleeps  −1.1"), "ru": (4.8, 1, "*runs  −2.6"),
        "sl2": (4.8, 2, "sleeps  −1.8"), "e": (6.5, 0, "</s>  −1.2"),
    }  # fmt: skip
    arrows = ["s>the", "s>a", "the>dog", "the~cat", "a>dog2", "a~cat2", "dog>sl", "dog~ru",
              "dog2>sl2", "sl>e"]  # fmt: skip
    return diagram(boxes, arrows, (90, 44), sideways=True)


def penalties() -> str:
    n = list(range(1, 41))
    series = {
        "gnmt, α = 0.6": (n, [LENGTH_PENALTIES["gnmt"](i, 0.6) for i in n]),
        "gnmt, α = 1": (n, [LENGTH_PENALTIES["gnmt"](i, 1.0) for i in n]),
        "power, α = 0.6": (n, [LENGTH_PENALTIES["power"](i, 0.6) for i in n]),
    }
    return curves(series, "pieces", "length(n)", 320, 170)


def cache() -> str:
    """Draw what a step computes (dark) and what it reads from the cache (light)."""
    maps = {}
    for step in (1, 2, 3, 4):
        grid = np.full((2, 4), np.nan)
        grid[:, :step] = 0.3
        grid[:, step - 1] = 1.0
        maps[f"step {step}"] = grid
    return heatmaps(maps, ["keys", "values"])


def _chain(side: str, count: int, row: float, letter: str, first: float = 0) -> dict[str, Box]:
    """Words below, states above them."""
    boxes: dict[str, Box] = {}
    for i in range(count):
        boxes[f"{side}{i}"] = (first + i, row + 1, f"*{side}{i + 1}")
        boxes[f"{side}h{i}"] = (first + i, row, f"{letter}{i + 1}")
    return boxes


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")
