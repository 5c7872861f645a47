"""French for a model that knows only German and English: what `dragoman extend` gains and loses.

    python benchmarks/extend.py --data FOLDER [--out runs/extend] [--steps 4000] [--out-of-english]
        [--kept 29000] [--set training.max_steps=3000]

FOLDER holds `multi30k/{train,val,test_2016_flickr}.{de,en,fr}.gz` and `tatoeba/de-en/{train,valid}
.{de,en}.gz`. Three models of the same size are trained: German to English from both corpora, French
to English from Multi30k only, and the first one extended by the pairs of the second. With
--out-of-english all directions are turned round, so that the model has two targets and needs tags.
A second run with the same --out extends the same model again, for instance with other settings
(--set), which are chosen on `val`. Multi30k is for research only. A GPU is advisable.
"""

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

from dragoman.config import Corpus
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.metrics import bleu
from dragoman.text.parallel import read_lines
from dragoman.training.run import train

MODEL = {"text.vocab_size": 8000, "model.dropout": 0.3}
TRAINING = {
    "training.batch_tokens": 8000, "training.validate_every": 1000, "training.warmup_steps": 400,
}  # fmt: skip


def score(folder: Path, corpus: Corpus, most: int | None = None) -> float:
    translator = Translator.load(folder)
    sources, references = (list(read_lines(file))[:most] for file in (corpus.source, corpus.target))
    to = corpus.target_language if translator.codec.languages.tagged else ""
    return bleu(translator(sources, Request(to=to)), references)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/extend"))
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--kept", type=int, default=29_000, help="replayed of each old corpus")
    parser.add_argument("--out-of-english", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="for the extension")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

    def corpus(folder: str, part: str, other: str) -> Corpus:
        codes = ("en", other) if given.out_of_english else (other, "en")
        left, right = (str(given.data / folder / f"{part}.{code}.gz") for code in codes)
        return Corpus(left, right, *codes)

    captions, sentences = (corpus(name, "train", "de") for name in ("multi30k", "tatoeba/de-en"))
    new = corpus("multi30k", "train", "fr")
    settings = {**MODEL, **TRAINING, "training.max_steps": given.steps}
    for name, other, corpora in (("old", "de", (captions, sentences)), ("alone", "fr", (new,))):
        if not (given.out / name).exists():
            valid = corpus("multi30k", "val", other)
            train(
                given.out / name, corpora=corpora, valid=(valid,), preset="small", settings=settings
            )
    kept = given.out / "kept.txt"
    draw = random.Random(1)  # Tatoeba's shortest sentences come first
    lines = []
    for one in (captions, sentences):
        known = list(read_lines(one.source))
        lines += draw.sample(known, min(given.kept, len(known)))
    kept.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    started = time.perf_counter()
    extended = given.out / f"extended{len(list(given.out.glob('extended*[0-9]')))}"
    subprocess.run(
        [sys.executable, "-m", "dragoman", "extend", new.source, new.target, "--general", str(kept),
         "--from", new.source_language, "--to", new.target_language,
         "--model", str(given.out / "old"), "--out", str(extended),
         *(f"--set={value}" for value in given.set)],
        check=True,
    )  # fmt: skip
    print(f"extended in {time.perf_counter() - started:.0f} s, {given.set}", flush=True)
    for part in ("val", "test_2016_flickr"):
        old, fresh = (corpus("multi30k", part, other) for other in ("de", "fr"))
        for name, pairs, folder in (("old", old, "old"), ("new", fresh, "alone")):
            before, after = score(given.out / folder, pairs), score(extended, pairs)
            print(f"{part} {name}: {folder} {before:.2f}, extended {after:.2f}", flush=True)
    before, after = (
        score(folder, corpus("tatoeba/de-en", "valid", "de"), 2000)
        for folder in (given.out / "old", extended)
    )
    print(f"Tatoeba valid old: old {before:.2f}, extended {after:.2f}", flush=True)


if __name__ == "__main__":
    main()
