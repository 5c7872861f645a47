"""Check if a sentence's translation depends on its neighbors: translate each by itself, and in
batches, with one model.

python benchmarks/neighbours.py examples/valid.de.gz runs/demo.int8 python benchmarks/neighbours.py
examples/valid.de.gz runs/demo --engine torch --device cuda --precision bf16
"""

import argparse
from dataclasses import replace
from itertools import islice

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.request import Request
from dragoman.text.parallel import read_lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="sentences, one a line")
    parser.add_argument("model")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--batch-tokens", type=int, default=500, help="source pieces in a batch")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="of a search on a GPU")
    given = parser.parse_args()
    translator = dragoman.load(given.model, given.device, given.engine)
    lines = list(islice(read_lines(given.source), given.lines))
    for beam in (1, 4):
        settings = DecodingConfig(
            beam_size=beam, batch_tokens=given.batch_tokens, precision=given.precision
        )
        together = translator.translate(lines, Request(decoding=settings))
        alone = translator.translate(lines, Request(decoding=replace(settings, batch_tokens=1)))
        pairs = list(zip(together, alone, strict=True))
        texts = sum(a.text != b.text for a, b in pairs)
        scores = sum(a.score == b.score for a, b in pairs)
        print(
            f"beam {beam}: {texts} of {len(lines)} texts differ, {scores} scores are equal to the "
            f"last bit",
            flush=True,
        )


if __name__ == "__main__":
    main()
