"""What `dragoman adapt` gains from 100, 1,000 and 10,000 messages of a program, and what it loses
elsewhere.

    taskset -c 0,1 python benchmarks/adapt.py libreoffice --to es --data FOLDER [--pairs 100,1000]
    taskset -c 0,1 python benchmarks/adapt.py gnucash --to de --data FOLDER --pairs 1000
    python benchmarks/adapt.py libreoffice --to es --svg docs/assets/adapt.svg

The messages are those that benchmarks/messages.py left in the working folder: the first ones of
`train` are learned, all 1,000 of `test` are scored, and so are FLORES dev and the first 1,000
sentences of Tatoeba's validation set. Settings (--set learning_rate=3e-3) are chosen with --choose,
which scores the messages of `dev` and the rest of Tatoeba's instead. FOLDER holds
`flores/dev.XX.gz` and `tatoeba/XX-en/valid.XX.gz`. Every direction is from English, but for FLORES
from German, which shows another direction. Minutes are those of the whole adaptation, with what it
says about its gain. Adapters are left in NAME.PAIRS.SEED.safetensors (--only-learn stops there, and
--adapter scores one, perhaps on another machine). Rows are added to NAME.rows.jsonl; --svg draws
their means.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import safetensors
import safetensors.numpy

from dragoman.bundle.folder import Bundle, model_folders, read_bundle
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from dragoman.text.metrics import bleu
from dragoman.text.parallel import read_lines, read_pairs
from dragoman.training.adapt import adapt
from dragoman.training.lora import LoraConfig

GENERAL = 1000  # sentences of --general
REPORTED = 1000  # sentences of Tatoeba's validation set; settings are chosen on the others
Pairs = list[tuple[str, str]]


def pairs_of(source: Path, target: Path | str = "") -> Pairs:
    return [(pair.source, pair.target) for pair in read_pairs(source, target)]


class TestSet:
    def __init__(self, pairs: Pairs, source: str, target: str):
        self.sources = [s for s, _ in pairs]
        self.references = [t for _, t in pairs]
        self.request = Request(to=target, source_language=source)

    def score(self, translator: Translator) -> float:
        return bleu(translator(self.sources, self.request), self.references)


def test_sets(given: argparse.Namespace) -> dict[str, TestSet]:
    to, most = given.to, given.test
    flores, tatoeba = given.data / "flores", given.data / "tatoeba" / f"{to}-en"
    everyday = pairs_of(tatoeba / "valid.en.gz", tatoeba / f"valid.{to}.gz")
    if given.choose:
        return {
            "dev messages": TestSet(pairs_of(Path(f"{given.name}.dev.tsv"))[:most], "en", to),
            "rest of Tatoeba valid": TestSet(everyday[REPORTED:][:most], "en", to),
        }
    wiki = pairs_of(flores / "dev.en.gz", flores / f"dev.{to}.gz")
    back = pairs_of(flores / "dev.de.gz", flores / "dev.en.gz")
    return {
        "messages": TestSet(pairs_of(Path(f"{given.name}.test.tsv"))[:most], "en", to),
        "FLORES dev": TestSet(wiki[:most], "en", to),
        "Tatoeba valid": TestSet(everyday[:REPORTED][:most], "en", to),
        "FLORES dev de→en": TestSet(back[:most], "de", "en"),
    }


def learn(given: argparse.Namespace) -> Iterator[Path]:
    """An adapter for each number of pairs, in files that say how they were made."""
    bundle = read_bundle(model_folders(given.model)[0])
    train = pairs_of(Path(f"{given.name}.train.tsv"))
    tested = {source for test in test_sets(given).values() for source in test.sources}
    lines = list(read_lines(given.general))[:GENERAL] if given.general else []
    general = [(line, "") for line in lines if line not in tested]
    named = dict(setting.split("=") for setting in given.set)
    config = LoraConfig(**{name: json.loads(value) for name, value in named.items()})
    for count in map(int, given.pairs.split(",")):
        started = time.perf_counter()
        found = adapt(bundle, train[:count], "en", given.to, general, config, say=print)
        minutes = (time.perf_counter() - started) / 60
        print(
            *map(str, found.gains), f"{count:,} pairs: {minutes:.1f} minutes", sep="\n", flush=True
        )
        told = {"pairs": count, "settings": named, "minutes": minutes, "steps": found.steps}
        path = Path(f"{given.name}.{count}.{config.seed}.safetensors")
        safetensors.numpy.save_file(found.adapter, path, {"told": json.dumps(told)})
        yield path


def score(given: argparse.Namespace, adapters: Iterable[Path], rows: Path) -> None:
    bundle = read_bundle(model_folders(given.model)[0])
    sets = test_sets(given)

    def scores(changed: Bundle) -> dict[str, float]:
        translator = Translator(make_engine(changed, "cpu"), bundle.codec, bundle.config)
        return {name: test.score(translator) for name, test in sets.items()}

    before: dict[str, float] = {}
    for path in adapters:
        if not before:
            before = scores(bundle)
            said = ", ".join(f"{name} {value:.2f}" for name, value in before.items())
            print(f"before: {said}", flush=True)
        with safetensors.safe_open(path, "np") as file:
            told = json.loads(file.metadata()["told"])
        adapter = safetensors.numpy.load_file(path)
        size = path.stat().st_size / 1e6
        after = scores(replace(bundle, adapter=adapter))
        gains = {name: after[name] - before[name] for name in sets}
        said = ", ".join(f"{name} {after[name]:.2f} ({gains[name]:+.2f})" for name in sets)
        print(f"{path}: {told}, {size:.2f} MB: {said}", flush=True)
        row = told | {"megabytes": size, "before": before, "gains": gains}
        with rows.open("a", encoding="utf-8") as out:
            print(json.dumps(row), file=out)


def mean_gains(rows: Path) -> dict[int, dict[str, float]]:
    """Return the mean over all rows for each number of pairs."""
    found: dict[int, list[dict[str, float]]] = {}
    for line in rows.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["pairs"], []).append(row["gains"])
    return {
        pairs: {name: sum(row[name] for row in group) / len(group) for name in group[0]}
        for pairs, group in sorted(found.items())
    }


def plot(rows: Path, path: Path) -> None:
    """Gain by pairs, a line for each test set."""
    found = mean_gains(rows)
    values = [gain for gains in found.values() for gain in gains.values()]
    highest, lowest = max(values) + 1, min(*values, 0.0)
    x = [90 + 420 * i / max(1, len(found) - 1) for i in range(len(found))]

    def y(value: float) -> float:
        return 20 + 230 * (highest - value) / (highest - lowest)

    parts = [f'<line x1="60" x2="560" y1="{y(0):.0f}" y2="{y(0):.0f}" stroke="#999"/>']
    for at, pairs in zip(x, found, strict=True):
        parts.append(f'<text x="{at:.0f}" y="285" text-anchor="middle">{pairs:,} pairs</text>')
    colours = ("#c0392b", "#2c6fbb", "#3a8f4d", "#8e6bb0")
    names = list(next(iter(found.values())))
    for number, (name, colour) in enumerate(zip(names, colours, strict=False)):
        points = [(at, gains[name]) for at, gains in zip(x, found.values(), strict=True)]
        line = " ".join(f"{at:.0f},{y(gain):.1f}" for at, gain in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="90" y="{30 + 18 * number}" fill="{colour}">{name}</text>')
        if number == 0:
            parts += [
                f'<text x="{at:.0f}" y="{y(gain) - 6:.0f}" text-anchor="middle" '
                f'fill="{colour}">{gain:+.1f}</text>'
                for at, gain in points
            ]
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 300" font-family="sans-serif"'
    title = "<title>BLEU gained by adapting, by number of pairs</title>"
    path.write_text(f'{head} font-size="13">{title}{"".join(parts)}</svg>\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the messages, such as libreoffice")
    parser.add_argument("--to", required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--pairs", default="100,1000,10000")
    parser.add_argument("--test", type=int, default=2000, help="sentences of each test set at most")
    parser.add_argument("--choose", action="store_true", help="score what settings are chosen on")
    parser.add_argument("--general", default="", help="English sentences to be replayed")
    parser.add_argument("--set", action="append", default=[], help="a setting of LoraConfig")
    parser.add_argument("--only-learn", action="store_true", help="leave the adapters' files")
    parser.add_argument("--adapter", type=Path, action="append", help="such a file, to be scored")
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    rows = Path(f"{given.name}.rows.jsonl")
    if given.data:
        adapters = given.adapter or learn(given)
        if given.only_learn:
            print(*adapters, sep="\n")
        else:
            score(given, adapters, rows)
    if given.svg:
        plot(rows, given.svg)


if __name__ == "__main__":
    main()
