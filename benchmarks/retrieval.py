"""Count how often the nearest vector to a sentence's is its translation's, and by chance.

python benchmarks/retrieval.py examples/valid.de.gz examples/valid.en.gz --model runs/embed

"centred": the mean vector of each language is subtracted first, since it only says which language
a sentence is in.
"""

import argparse

import numpy as np

import dragoman
from dragoman.decode.request import Request
from dragoman.text.parallel import read_pairs


def found(queries: np.ndarray, others: np.ndarray) -> float:
    """The share of rows whose nearest row of the others is their own."""
    return float(((queries @ others.T).argmax(axis=1) == np.arange(len(queries))).mean())


def centred(vectors: np.ndarray) -> np.ndarray:
    moved = vectors - vectors.mean(axis=0)
    unit: np.ndarray = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    pairs = list(read_pairs(arguments.source, arguments.target))
    translator = dragoman.load(arguments.model, engine="torch")
    languages = translator.codec.languages.targets
    left = translator.embed([pair.source for pair in pairs], Request(to=languages[0]))
    right = translator.embed([pair.target for pair in pairs], Request(to=languages[-1]))
    print(f"{len(pairs)} pairs, chance {1 / len(pairs):.1%}")
    for name, a, b in (("plain", left, right), ("centred", centred(left), centred(right))):
        print(
            f"{name:8} source finds target {found(a, b):.1%}, target finds source {found(b, a):.1%}"
        )


if __name__ == "__main__":
    main()
