"""What `dragoman adapt` gains from 100, 1,000 and 10,000 messages of LibreOffice, and what it loses
elsewhere.

    python benchmarks/adapt.py --data FOLDER [--model M] [--pairs 100,1000,10000] [--minutes 5]

FOLDER holds `extra/libreoffice.de-en/train.{de,en}.gz`, `flores/dev.{de,en}.gz` and
`tatoeba/de-en/valid.{de,en}.gz`. 1,000 other messages are the test. Time is that of the process on
its cores, so a busy machine does not change it. A plot goes to --svg.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.bundle import model_folders, read_bundle
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.engine.choose import make_engine
from dragoman.evaluate.metrics import bleu
from dragoman.low_rank import adapted
from dragoman.text.parallel import read_pairs
from dragoman.training.adapt import Recipe, adapt

TEST = 1000


def messages(folder: Path) -> tuple[list, list]:
    """Pairs to learn from and pairs to test on, no source in both."""
    files = [
        str(folder / "extra" / "libreoffice.de-en" / f"train.{code}.gz") for code in ("de", "en")
    ]
    pairs = list({p.source: (p.source, p.target) for p in read_pairs(*files)}.values())
    order = np.random.default_rng(1).permutation(len(pairs))
    shuffled = [pairs[i] for i in order]
    return shuffled[TEST:], shuffled[:TEST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--pairs", default="100,1000,10000")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--test", type=int, default=1000, help="sentences of each test set")
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    bundle = read_bundle(model_folders(given.model)[0])
    train, test = messages(given.data)
    sets = {"LibreOffice": test}
    for name, stem in (("FLORES dev", "flores/dev"), ("Tatoeba valid", "tatoeba/de-en/valid")):
        files = [str(given.data / f"{stem}.{code}.gz") for code in ("de", "en")]
        sets[name] = [(p.source, p.target) for p in read_pairs(*files)]
    sets = {name: pairs[: given.test] for name, pairs in sets.items()}
    request = Request(to="en", source_language="de")

    def scores(weights) -> dict[str, float]:
        changed = replace(bundle, weights=weights)
        translator = Translator(make_engine(changed, "cpu"), bundle.codec, bundle.config)
        return {
            name: bleu(translator([s for s, _ in pairs], request), [t for _, t in pairs])
            for name, pairs in sets.items()
        }

    before = scores(bundle.weights)
    print("pairs    minutes  adapter  " + "  ".join(f"{name:>20}" for name in sets))
    print("0        -        -        " + "  ".join(f"{before[name]:20.1f}" for name in sets))
    gains = []
    for count in map(int, given.pairs.split(",")):
        started = time.process_time()
        found = adapt(
            bundle,
            train[:count],
            "de",
            "en",
            recipe=Recipe(minutes=given.minutes),
            say=lambda line: print(line, flush=True),
        )
        minutes = (time.process_time() - started) / 60
        after = scores(adapted(bundle.weights, found.adapter))
        size = sum(array.nbytes for array in found.adapter.values()) / 1e6
        row = [f"{after[n]:11.1f} ({after[n] - before[n]:+5.2f})" for n in sets]
        print(f"{count:<8} {minutes:5.1f}    {size:4.1f} MB  " + "  ".join(f"{r:>20}" for r in row))
        gains.append((count, [after[n] - before[n] for n in sets]))
    if given.svg:
        plot(given.svg, list(sets), gains)


def plot(path: Path, names: list[str], gains: list) -> None:
    """Gain by pairs, a line for each test set."""
    highest = max(max(values) for _, values in gains) + 1
    colours = ("#c0392b", "#2c6fbb", "#3a8f4d")
    x = [80 + 460 * i / max(1, len(gains) - 1) for i in range(len(gains))]

    def y(value: float) -> float:
        return 240 - 200 * value / highest

    parts = [f'<line x1="60" x2="560" y1="{y(0):.0f}" y2="{y(0):.0f}" stroke="#999"/>']
    parts += [
        f'<text x="{px:.0f}" y="275" text-anchor="middle">{count:,} pairs</text>'
        for px, (count, _) in zip(x, gains, strict=True)
    ]
    for number, (name, colour) in enumerate(zip(names, colours, strict=True)):
        points = [(px, y(values[number])) for px, (_, values) in zip(x, gains, strict=True)]
        line = " ".join(f"{px:.0f},{py:.0f}" for px, py in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<text x="{px:.0f}" y="{py - 6:.0f}" text-anchor="middle" fill="{colour}">'
            f"{values[number]:+.1f}</text>"
            for (px, py), (_, values) in zip(points, gains, strict=True)
        ]
        parts.append(f'<text x="80" y="{24 + 18 * number}" fill="{colour}">{name}</text>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 300" font-family="sans-serif"'
    path.write_text(f'{head} font-size="13">{"".join(parts)}</svg>\n', encoding="utf-8")


if __name__ == "__main__":
    main()
