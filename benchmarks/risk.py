"""What fine-tuning by risk changes: BLEU and GLEU of greedy translations, GLEU of translations
drawn from the model.

python benchmarks/risk.py examples/valid.de.gz examples/valid.en.gz runs/demo runs/risk
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np

import dragoman
from dragoman.config import replace
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.text.metrics import bleu, gleu
from dragoman.text.parallel import read_pairs

Encode = Callable[[Sequence[str]], list[list[int]]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    sources, references = zip(
        *((p.source, p.target) for p in read_pairs(arguments.source, arguments.target)), strict=True
    )
    for name in arguments.models:
        translator = dragoman.load(name, engine="torch")
        pieces = translator.codec.encode_target

        def mean_gleu(outputs: Sequence[str], pieces: Encode = pieces) -> float:
            return float(
                np.mean(
                    [gleu(y, r) for y, r in zip(pieces(outputs), pieces(references), strict=True)]
                )
            )

        one_by_one = replace(translator.config, {"decoding.beam_size": 1}).decoding
        greedy = translator(list(sources), Request(decoding=one_by_one))
        drawn = translator(list(sources), Request(sampling=Sampling()))
        scores = f"BLEU {bleu(greedy, list(references)):.2f}, GLEU {mean_gleu(greedy):.4f}"
        print(f"{name}: greedy {scores}; drawn GLEU {mean_gleu(drawn):.4f}", flush=True)


if __name__ == "__main__":
    main()
