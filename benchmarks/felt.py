"""Grades by people for translations of everyday sentences.

    python benchmarks/felt.py --out pentaglot.tsv
    python benchmarks/felt.py --model runs/new --plain --out new.tsv
    python benchmarks/felt.py --blind pentaglot.tsv new.tsv --out sheet.tsv --key key.tsv
    python benchmarks/felt.py --score sheet.tsv --key key.tsv

felt.tsv has 400 sentences, written for this benchmark: 20 of each of 20 kinds, and 50 in each of
the eight directions between English and German, French, Spanish and Portuguese. Half of each kind
are for development (dev); nothing may be fitted to the other half (unseen).

The first two commands translate them into grading sheets, in random order. --blind mixes sheets of
several models; equal outputs for a sentence become one row. A person then fills in the last column:
adequate, minor (a small fault), wrong (it misleads) or absurd. --score prints the share of each
grade, with 95% intervals. A sheet of one model needs no key.
"""

import argparse
import csv
import math
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import dragoman
from dragoman.config.schema import DecodingConfig
from dragoman.decode.request import Request

LINES = Path(__file__).with_suffix(".tsv")
GRADES = ("adequate", "minor", "wrong", "absurd")
SENTENCE = ("id", "kind", "from", "to", "text")
SHEET = (*SENTENCE, "output", "grade")
KEY = ("id", "model")
Z = 1.96  # standard deviations on either side of the mean for 95%
Row = dict[str, str]


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read rows of a table, which a spreadsheet may have saved."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, dialect="excel-tab", strict=True)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise SystemExit(f"{path} has no column {missing[0]!r}: expected {', '.join(columns)}.")
        rows = []
        for row in reader:
            if None in row or None in row.values():
                width = len(reader.fieldnames or ())
                raise SystemExit(f"{path}:{reader.line_num}: expected {width} cells.")
            rows.append(row)
    return rows


def write_table(path: Path | None, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a table to a file, or to the standard output."""
    opened = path.open("w", encoding="utf-8", newline="") if path else nullcontext(sys.stdout)
    with opened as file:
        writer = csv.DictWriter(
            file, columns, dialect="excel-tab", lineterminator="\n", extrasaction="ignore"
        )
        writer.writeheader()
        writer.writerows(rows)


def without_repairs(decoding: DecodingConfig) -> DecodingConfig:
    """Switch off all repairs: what changes or replaces a translation by further searches.

    Lines in capitals are still read in small letters, which takes no search.
    """
    repairs = ("keep_numbers", "keep_names", "short_lines")
    off: dict[str, Any] = dict.fromkeys(repairs, False)
    return replace(decoding, **off)


def translate(sentences: Sequence[Row], model: str, plain: bool) -> list[Row]:
    """Translate sentences into rows of a grading sheet, in the same order."""
    translator = dragoman.load(model)
    request = Request()
    if plain:
        request = Request(decoding=without_repairs(translator.config.decoding))
    of_direction: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for sentence in sentences:
        of_direction[sentence["from"], sentence["to"]].append(sentence)
    outputs = {}
    for (source, to), some in of_direction.items():
        texts = [sentence["text"] for sentence in some]
        translations = translator.translate(texts, request=request, source=source, to=to)
        for sentence, translation in zip(some, translations, strict=True):
            outputs[sentence["id"]] = re.sub(r"\s*[\t\r\n]\s*", " ", str(translation))
    return [sentence | {"output": outputs[sentence["id"]], "grade": ""} for sentence in sentences]


def blind(sheets: Mapping[str, Sequence[Row]], seed: int) -> tuple[list[Row], list[Row]]:
    """Mix the sheets of several models into one, and make the key to it.

    A row is named after its sentence and a random number, so that no number belongs to a model.
    """
    sentences: dict[str, Row] = {}
    models_of: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for model, rows in sheets.items():
        for row in rows:
            sentence = {name: row[name] for name in SENTENCE}
            if sentences.setdefault(row["id"], sentence) != sentence:
                raise SystemExit(f"{row['id']} is another sentence in the sheet of {model}.")
            models_of[row["id"]][row["output"]].append(model)
    for id_, models in models_of.items():
        if sorted(model for some in models.values() for model in some) != sorted(sheets):
            raise SystemExit(f"{id_} is not exactly once in each sheet: translate the same part.")
    rng = random.Random(seed)
    mixed, key = [], []
    for id_, sentence in sentences.items():
        outputs = sorted(models_of[id_])
        rng.shuffle(outputs)
        for number, output in enumerate(outputs, start=1):
            row_id = f"{id_}.{number}"
            mixed.append(sentence | {"id": row_id, "output": output, "grade": ""})
            key += [{"id": row_id, "model": model} for model in models_of[id_][output]]
    rng.shuffle(mixed)
    return mixed, key


def wilson(count: int, total: int) -> tuple[float, float]:
    """Wilson's score interval of a share.

    >>> [f"{bound:.3f}" for bound in wilson(5, 10)]
    ['0.237', '0.763']
    """
    share = count / total
    middle = share + Z**2 / (2 * total)
    reach = Z * math.sqrt(share * (1 - share) / total + Z**2 / (4 * total**2))
    scale = 1 + Z**2 / total
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def tally(rows: Sequence[Row], key: Sequence[Row]) -> dict[tuple[str, str], Counter[str]]:
    """Count grades by model and group: all rows, each kind, each direction."""
    models_of: dict[str, list[str]] = defaultdict(list)
    for entry in key:
        models_of[entry["id"]].append(entry["model"])
    if sorted(row["id"] for row in rows) != sorted(models_of):
        raise SystemExit("sheet and key have different rows: use the key made with the sheet.")
    groups = ["all", *dict.fromkeys(row["kind"] for row in rows)]
    groups += dict.fromkeys(f"{row['from']}-{row['to']}" for row in rows)
    models = sorted({entry["model"] for entry in key})
    counts: dict[tuple[str, str], Counter[str]] = {
        (model, group): Counter() for model in models for group in groups
    }
    for row in rows:
        grade = row["grade"].strip().lower()
        if grade and grade not in GRADES:
            raise SystemExit(f"{row['id']} has the grade {grade!r}: expected {', '.join(GRADES)}.")
        if grade:
            for model in models_of[row["id"]]:
                for group in ("all", row["kind"], f"{row['from']}-{row['to']}"):
                    counts[model, group][grade] += 1
    return counts


def score(rows: Sequence[Row], key: Sequence[Row]) -> None:
    """Print the shares of the grades."""
    missing = sum(not row["grade"].strip() for row in rows)
    if missing:
        print(f"{missing} of {len(rows)} rows have no grade and do not count.", file=sys.stderr)
    print("model", "group", "rows", *GRADES, sep="\t")
    for (model, group), counts in tally(rows, key).items():
        total = counts.total()
        if total:
            cells = []
            for grade in GRADES:
                low, high = wilson(counts[grade], total)
                cells.append(f"{counts[grade] / total:.1%} ({low:.1%} to {high:.1%})")
            print(model, group, total, *cells, sep="\t")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--part", choices=("dev", "unseen", "all"), default="dev")
    parser.add_argument("--plain", action="store_true", help="Translate without repairs.")
    parser.add_argument("--blind", type=Path, nargs="+", metavar="SHEET", help="Mix sheets.")
    parser.add_argument("--score", type=Path, metavar="SHEET", help="Print shares of grades.")
    parser.add_argument("--out", type=Path, metavar="SHEET", help="default: standard output")
    parser.add_argument("--key", type=Path, help="Which models made each row of a mixed sheet.")
    parser.add_argument("--seed", type=int, default=1, help="of the order of rows")
    arguments = parser.parse_args()
    if arguments.score:
        rows = read_table(arguments.score, SHEET)
        key = [{"id": row["id"], "model": arguments.score.stem} for row in rows]
        if arguments.key:
            key = read_table(arguments.key, KEY)
        score(rows, key)
    elif arguments.blind:
        sheets = {path.stem: read_table(path, SHEET) for path in arguments.blind}
        if not arguments.key or len(sheets) < len(arguments.blind):
            parser.error("--blind needs --key, and sheets with different names.")
        rows, key = blind(sheets, arguments.seed)
        write_table(arguments.out, SHEET, rows)
        write_table(arguments.key, KEY, key)
    else:
        sentences = read_table(arguments.lines, (*SENTENCE, "part"))
        some = [row for row in sentences if arguments.part in (row["part"], "all")]
        rows = translate(some, arguments.model, arguments.plain)
        random.Random(arguments.seed).shuffle(rows)
        write_table(arguments.out, SHEET, rows)


if __name__ == "__main__":
    main()
