"""Scores a model on the validation sets, by which one model is chosen over another: all pairs, and the long ones.

    python pretraining/validate.py corpora runs/bundled

BLEU as in finish.py, with the model's own settings of search.
"""

import sys
from pathlib import Path
from statistics import mean

from data import LANGUAGES, tatoeba

from dragoman.decode.translator import Request, load
from dragoman.evaluate.metrics import bleu

LONG = 13  # English words


def main(corpora: Path, model: str) -> None:
    translator, found = load(model), []
    for language in LANGUAGES:
        pairs = tatoeba(corpora, "valid", language)
        long = [row for row, (_, english) in enumerate(pairs) if len(english.split()) >= LONG]
        for source, target in ((language, "en"), ("en", language)):
            texts, references = ([pair[side] for pair in pairs] for side in ((0, 1) if target == "en" else (1, 0)))
            said = translator(texts, Request(to=target, source_language=source))
            scores = [
                bleu([said[r] for r in rows], [references[r] for r in rows]) for rows in (range(len(pairs)), long)
            ]
            print(
                f"{source}→{target}  {scores[0]:.2f}  of {LONG} words and more ({len(long)}) {scores[1]:.2f}",
                flush=True,
            )
            found.append(scores)
    print("mean", *(f"{mean(column):.2f}" for column in zip(*found, strict=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
