"""Scores a model on the validation sets, by which one model is chosen over another: FLORES dev and
Tatoeba.

    python pretraining/validate.py corpora runs/bundled

BLEU as in finish.py, with the model's own settings of search.
"""

import argparse
from pathlib import Path
from statistics import mean

from data import OTHERS, flores, tatoeba

from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.metrics import bleu


def main(corpora: Path, model: str) -> None:
    translator = Translator.load(model)
    found = []
    for language in OTHERS:
        sets = [flores(corpora, "dev", language), tatoeba(corpora, "valid", language)]
        for source, target in ((language, "en"), ("en", language)):
            scores = []
            for pairs in sets:
                texts, references = zip(
                    *(pairs if target == "en" else [(b, a) for a, b in pairs]), strict=True
                )
                request = Request(to=target, source_language=source)
                said = [*translator.stream(texts, request, processes=0)]
                scores.append(bleu(said, references))
            print(
                f"{source}→{target}  FLORES dev {scores[0]:.2f}  Tatoeba {scores[1]:.2f}",
                flush=True,
            )
            found.append(scores)
    print("mean", *(f"{mean(column):.2f}" for column in zip(*found, strict=True)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("model")
    options = parser.parse_args()
    main(options.corpora, options.model)
