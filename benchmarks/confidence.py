"""Measure how far the package's confidences can be trusted, and learn them.

    python benchmarks/confidence.py anew CORPORA MESSAGES rows      # the next three, one by one
    python benchmarks/confidence.py collect CORPORA MESSAGES rows   # translates; some minutes
    python benchmarks/confidence.py learn rows       # writes estimate.json (decode/confidence)
    python benchmarks/confidence.py report rows      # on text that nothing was learned on
    python benchmarks/confidence.py left-out rows    # each kind, learned on the others
    python benchmarks/confidence.py features rows    # which features pay
    python benchmarks/confidence.py human MLQE       # against human judgements
    python benchmarks/confidence.py cost CORPORA     # time without and with

With other weights, `anew` is the one to run, with a new folder for its rows: translations that are
there are not made again. CORPORA has `flores`, `tatoeba` and `newsdev`; MESSAGES holds
PROGRAM.XX.dev.tsv of several programs (to learn on) and gnucash.XX.test.tsv, which
benchmarks/messages.py makes; MLQE is MLQE-PE's data for English-German, unpacked: the tests of 2020
and 2021, the latter with its gold labels.
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.decode.confidence import calibration
from dragoman.decode.confidence.curves import Curves, fit, sigmoid
from dragoman.decode.confidence.estimate import GOOD_CHRF, NAMES, estimator, word_features
from dragoman.decode.confidence.features import FEATURES, features, is_sentence
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.decode.translation import Translation
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.metrics import sentence_chrf

ESTIMATE = Path(__file__).parents[1] / "dragoman" / "decode" / "confidence" / "estimate.json"
OTHERS = ("de", "es", "fr", "pt")
# sentences of each direction to and from English
LEARNED = {"tatoeba.valid": 160, "flores.dev": 120, "news": 120}
PROGRAMS = (
    "audacity", "claws", "control", "darktable", "evolution",
    "filezilla", "gnumeric", "pidgin", "vlc",
)  # fmt: skip
LEARNED |= {f"{program}.dev": 120 for program in PROGRAMS}
PROSE = {"tatoeba.valid", "flores.dev", "news"}  # the others are messages
# A less probable translation is never the better one.
SIGNS = [{"mean": 1, "unsure": -1, "worst_word": 1}.get(name, 0) for name in FEATURES]
UNSEEN = {"gnucash.test": 150, "tatoeba.test": 150, "flores.devtest": 80}
DEAR = ("flores.dev", "tatoeba.valid")  # where other searches are tried too, to and from these:
DEAR_LANGUAGES = ("de", "fr")
DEAR_ROWS = 20
DRAW = Request(sampling=Sampling(seed=3))
Row = dict[str, Any]


def lines_of(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (
        (gzip.decompress(raw) if path.suffix == ".gz" else raw)
        .decode()
        .removesuffix("\n")
        .split("\n")
    )


def pairs_of(corpora: Path, messages: Path, kind: str, language: str) -> list[tuple[str, str]]:
    """Texts in a language, and in English."""
    name, _, part = kind.partition(".")
    if name in ("flores", "tatoeba"):
        folder = corpora / name / (f"{language}-en" if name == "tatoeba" else "")
        sides = (lines_of(folder / f"{part}.{code}.gz") for code in (language, "en"))
        return [*zip(*sides, strict=True)]
    if name == "news":
        path = corpora / "newsdev" / f"newstest2013.{language}-en.tsv.gz"
    else:  # messages of a program, English first
        path = messages / f"{name}.{language}.{part}.tsv"
    if not path.exists():  # news, and some programs, have no Portuguese
        return []
    pairs = [(a, b) for a, b, *_ in (line.split("\t") for line in lines_of(path) if line)]
    return pairs if name == "news" else [(other, english) for english, other in pairs]


def directions(
    corpora: Path, messages: Path, kind: str, count: int
) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Both directions of each language, with different sentences."""
    for language in OTHERS:
        pairs = pairs_of(corpora, messages, kind, language)
        pairs = random.Random(1).sample(pairs, min(2 * count, len(pairs)))
        half = len(pairs) // 2
        if half:
            yield language, "en", pairs[:half]
            yield "en", language, [(english, other) for other, english in pairs[half:]]


def collect(corpora: Path, messages: Path, out: Path) -> None:
    translator = InspectableTranslator.load("pentaglot", threads=1)
    out.mkdir(exist_ok=True)
    for kind, count in (LEARNED | UNSEEN).items():
        path = out / f"{kind}.jsonl"
        if path.exists():
            continue
        rows = []
        for a, b, pairs in directions(corpora, messages, kind, count):
            rows += _rows(translator, kind, a, b, pairs)
        if not rows:
            raise SystemExit(f"nothing to translate for {kind}: see benchmarks/messages.py.")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{kind}: {len(rows):,} translations", flush=True)


def _rows(
    translator: InspectableTranslator, kind: str, a: str, b: str, pairs: list[tuple[str, str]]
) -> list[Row]:
    sources = [source for source, _ in pairs]
    rows: list[Row] = [{"kind": kind, "a": a, "b": b, "seconds": {}} for _ in pairs]

    def translate(name: str, texts: list[str], **options: Any) -> list[Translation]:
        began = time.process_time()
        found = translator.translate(texts, **options)
        for row in rows[: len(texts)]:
            row["seconds"][name] = (time.process_time() - began) / len(texts)
        return found

    translations = translate("beam", sources, source=a, to=b)
    for row, (source, reference), said in zip(rows, pairs, translations, strict=True):
        row |= {"source": source, "reference": reference, "text": str(said), "pieces": said.tokens,
                "log_probs": said.log_probs, "chrf": sentence_chrf(said, [reference])}  # fmt: skip
    if kind in DEAR and (a in DEAR_LANGUAGES or b in DEAR_LANGUAGES):
        some, outputs = sources[:DEAR_ROWS], [*map(str, translations[:DEAR_ROWS])]
        dear = {
            "greedy": translate("greedy", some, source=a, to=b, beam=1),
            "back": translate("back", outputs, source=b, to=a, beam=1),
            "drawn": translate("drawn", some, request=DRAW, source=a, to=b),
            "linked": translate("linked", some, source=a, to=b, alignments=True),
        }
        for number, row in enumerate(rows[: len(some)]):
            row |= {name: str(found[number]) for name, found in dear.items()}
            row["linked"] = len({word for word, _ in dear["linked"][number].alignment})
    return rows


def read_rows(out: Path, kinds: dict[str, int]) -> list[Row]:
    rows = [json.loads(line) for kind in kinds for line in lines_of(out / f"{kind}.jsonl")]
    return [row for row in rows if row["log_probs"]]


def anew(corpora: Path, messages: Path, out: Path) -> None:
    """All that other weights need."""
    collect(corpora, messages, out)
    learn(out)
    report(out)


def learn(out: Path) -> None:
    """Every kind of text weighs the same; messages of all programs are one kind."""
    rows = read_rows(out, LEARNED)
    curves = learned(rows)
    words, right, of_kind = _words(rows)
    curves["words"] = fit(words, right, _weights(of_kind), is_probability=True)
    save(curves)


def learned(rows: list[Row]) -> dict[str, Curves]:
    seen, chrf = table(rows), np.array([row["chrf"] for row in rows])
    weights = _weights([row["kind"] for row in rows])
    good = (chrf >= GOOD_CHRF).astype(float)
    whole = np.array([is_sentence(row["source"]) for row in rows])
    curves = {"chrf": fit(seen, chrf, weights, signs=SIGNS)}
    for name, here in (("good", whole), ("good_label", ~whole)):
        some = (seen[here], good[here], weights[here])
        curves[name] = fit(*some, is_probability=True, signs=SIGNS)
    return curves


def save(curves: dict[str, Curves]) -> None:
    """Replace the curves that were learned; keep all others."""
    written = json.loads(ESTIMATE.read_text()) if ESTIMATE.exists() else {}
    written |= {name: curve.as_json(NAMES[name]) for name, curve in curves.items()}
    ESTIMATE.write_text(json.dumps(written, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{ESTIMATE.name}: {ESTIMATE.stat().st_size:,} bytes")


def table(rows: list[Row]) -> np.ndarray:
    """The features of each row. (N, F)"""
    fields = ("source", "text", "pieces", "log_probs")
    return np.array([features(*(row[field] for field in fields)) for row in rows])


def _weights(kinds: list[str]) -> np.ndarray:
    """Weight rows so that all kinds count the same, whatever their number. All messages are one
    kind, of which each program has the same share."""
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    programs = counts.keys() - PROSE
    total = {kind: 1 / len(programs) if kind in programs else 1.0 for kind in counts}
    return np.array([total[kind] / counts[kind] for kind in kinds])


def _words(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """All words' features, whether the reference has the word, and their kinds of text."""
    seen: list[tuple[float, ...]] = []
    right: list[float] = []
    kinds: list[str] = []
    for row in rows:
        there = _bag(row["reference"])
        said = "".join(row["pieces"]).replace("▁", " ").split()
        found = word_features(row["pieces"], row["log_probs"])
        if len(said) == len(found):
            seen += found
            right += [float(bool(_bag(word) & there) or not _bag(word)) for word in said]
            kinds += [row["kind"]] * len(said)
    return np.array(seen), np.array(right), kinds


def _bag(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text.lower()).split())


def report(out: Path) -> None:
    judge = estimator()
    print("| text | sentences | good | Pearson | Spearman | AUC | ECE | words: AUC | words: ECE |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in UNSEEN:
        rows = read_rows(out, {kind: 0})
        fields = ("source", "text", "pieces", "log_probs")
        found = [judge(*(row[field] for field in fields)) for row in rows]
        chrf = [row["chrf"] for row in rows]
        good = [value >= GOOD_CHRF for value in chrf]
        sure = [one.good for one in found]
        seen, right, _ = _words(rows)
        hits = [bool(value) for value in right]
        words = [1 / (1 + np.exp(-judge.words(row))) for row in seen]
        print(
            f"| {kind} | {len(rows):,} | {np.mean(good):.0%} "
            f"| {calibration.pearson([one.chrf for one in found], chrf):.3f} "
            f"| {calibration.spearman([one.chrf for one in found], chrf):.3f} "
            f"| {calibration.area_under_curve(sure, good):.3f} "
            f"| {calibration.calibration_error(sure, good):.3f} "
            f"| {calibration.area_under_curve(words, hits):.3f} "
            f"| {calibration.calibration_error(words, hits):.3f} |",
            flush=True,
        )


def left_out(out: Path) -> None:
    """The calibration error on each kind of text where nothing of that kind was learned on, and on
    the messages of all programs together, each estimated from the others."""
    print("| left out | sentences | good | AUC | ECE |\n|---|---|---|---|---|")
    rows = read_rows(out, LEARNED)
    all_sure: list[float] = []
    all_good: list[bool] = []
    for kind in LEARNED:
        curves = learned([row for row in rows if row["kind"] != kind])
        here = [row for row in rows if row["kind"] == kind]
        good = [row["chrf"] >= GOOD_CHRF for row in here]
        names = ["good" if is_sentence(row["source"]) else "good_label" for row in here]
        sure = [sigmoid(curves[name](seen)) for name, seen in zip(names, table(here), strict=True)]
        _print_left_out(kind, sure, good)
        if kind not in PROSE:
            all_sure += sure
            all_good += good
    _print_left_out("all messages", all_sure, all_good)


def _print_left_out(name: str, sure: list[float], good: list[bool]) -> None:
    print(
        f"| {name} | {len(good):,} | {np.mean(good):.0%} "
        f"| {calibration.area_under_curve(sure, good):.3f} "
        f"| {calibration.calibration_error(sure, good):.3f} |",
        flush=True,
    )


def which_features(out: Path) -> None:
    """Judge each feature by itself, all of them, and all with one more expensive feature: Spearman
    with chrF, learned on one half of the sentences and judged on the other, both ways round."""
    rows = [row for row in read_rows(out, dict.fromkeys(DEAR, 0)) if "greedy" in row]
    chrf = np.array([row["chrf"] for row in rows])
    cheap = table(rows)
    dear = {
        "greedy": [sentence_chrf(row["greedy"], [row["text"]]) for row in rows],
        "back": [sentence_chrf(row["back"], [row["source"]]) for row in rows],
        "drawn": [sentence_chrf(row["drawn"], [row["text"]]) for row in rows],
        "linked": [row["linked"] / max(1, len(row["source"].split())) for row in rows],
    }
    beam = sum(row["seconds"]["beam"] for row in rows)
    cost = {name: sum(row["seconds"][name] for row in rows) / beam for name in dear}
    cost["linked"] -= 1  # it takes the place of the plain search
    columns = {name: (cheap[:, [i]], 0.0) for i, name in enumerate(FEATURES)}
    columns["all of these"] = (cheap, 0.0)
    for name, values in dear.items():
        column = np.array(values)[:, None]
        columns[f"{name} alone"] = (column, cost[name])
        columns[f"all of these, and {name}"] = (np.hstack([cheap, column]), cost[name])
    every = np.hstack([cheap, np.array([*dear.values()]).T])
    columns["all of all"] = (every, sum(cost.values()))
    half = np.random.default_rng(1).permutation(len(rows)) % 2 == 0
    weights = _weights([row["kind"] for row in rows])
    print(f"{len(rows)} sentences\n| features | Spearman | more time |\n|---|---|---|")
    for name, (seen, more) in columns.items():
        said = np.zeros(len(rows))
        for here in (half, ~half):
            curves = fit(seen[here], chrf[here], weights[here], smoothness=100.0)
            said[~here] = [curves(row) for row in seen[~here]]
        rank = calibration.spearman(list(said), list(chrf))
        print(f"| {name} | {rank:.3f} | {more:.0%} |", flush=True)


def human(folder: Path) -> None:
    """Compare our confidence in MLQE-PE's translations with the judgements of people."""
    translator = InspectableTranslator.load("pentaglot", threads=1)
    judge = estimator()
    for year, sources, said, wanted, theirs in _judgements(folder):
        scored = translator.score(sources, said, "de", "en")
        back = translator.score(said, sources, "en", "de")
        codec = translator.codec
        estimates = []
        for source, text, ids, log_probs in zip(
            sources, said, codec.encode_target(said), scored, strict=True
        ):
            pieces = [codec.target.pieces[i] for i in ids]
            estimates.append(judge(source, text, pieces, log_probs.tolist()))
        found = {
            "its own model's mean log-probability (in the data)": theirs,
            "our model: mean log-probability": [float(one.mean()) for one in scored],
            "our model, backward: mean log-probability": [float(one.mean()) for one in back],
            "our model: both": [
                float(one.mean() + other.mean()) for one, other in zip(scored, back, strict=True)
            ],
            "our estimate: expected chrF": [one.chrf for one in estimates],
            "our estimate: probability of good": [one.good for one in estimates],
        }
        print(f"{year}: {len(said)} sentences\n| score | Pearson | Spearman |\n|---|---|---|")
        for name, values in found.items():
            if not values:
                continue
            r, rank = calibration.pearson(values, wanted), calibration.spearman(values, wanted)
            print(f"| {name} | {r:.3f} | {rank:.3f} |")


def _judgements(
    folder: Path,
) -> Iterator[tuple[int, list[str], list[str], list[float], list[float]]]:
    """Year, sources, translations, mean standardised scores, and, where the data have them, mean
    log-probabilities of the model that translated."""
    (path,) = folder.rglob("test20.ende.df.short.tsv")
    rows = [line.split("\t") for line in lines_of(path)[1:]]
    wanted, theirs = ([float(row[column]) for row in rows] for column in (6, 7))
    yield 2020, [row[1] for row in rows], [row[2] for row in rows], wanted, theirs
    files = (next(folder.rglob(f"test21.{ending}")) for ending in ("src", "mt", "da"))
    sources, said, scores = map(lines_of, files)
    yield 2021, sources, said, [*map(float, scores)], []


def cost(corpora: Path) -> None:
    """CPU time of translations, and of their estimates."""
    translator = InspectableTranslator.load("pentaglot", threads=1)
    lines = lines_of(corpora / "flores" / "dev.de.gz")[:40]
    lines += lines_of(corpora / "tatoeba" / "de-en" / "valid.de.gz")[:120]
    translator.translate(lines[:4], source="de", to="en")
    began = time.process_time()
    found = translator.translate(lines, source="de", to="en")
    between = time.process_time()
    for one in found:
        assert one.estimate
    plain, more = between - began, time.process_time() - between
    print(
        f"{len(lines)} lines: {1000 * plain / len(lines):.2f} ms each, and "
        f"{1000 * more / len(lines):.3f} ms for the estimate: {1 + more / plain:.3f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, function, folders in (
        ("anew", anew, ["corpora", "messages", "out"]),
        ("collect", collect, ["corpora", "messages", "out"]),
        ("learn", learn, ["out"]),
        ("report", report, ["out"]),
        ("left-out", left_out, ["out"]),
        ("features", which_features, ["out"]),
        ("human", human, ["folder"]),
        ("cost", cost, ["corpora"]),
    ):
        command = commands.add_parser(name)
        for folder in folders:
            command.add_argument(folder, type=Path)
        command.set_defaults(function=function)
    options = vars(parser.parse_args())
    options.pop("function")(**options)


if __name__ == "__main__":
    main()
