"""Grows a model for a further stage of training: more encoder layers, another vocabulary.

    python pretraining/grow.py dragoman/pretrained/NAME runs/grown --layers 16 \\
        --vocabulary corpora/pretraining/shared.spm

The new layers are spread evenly among the old ones. Each is a copy of the one before it with both
of its outputs set to zero, so that with a norm before each part it adds nothing at first: the grown
model computes the same.

A piece of a new vocabulary starts with the mean embedding of the old pieces that spell it. That is
exact for pieces that both vocabularies have.
"""

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import replace as with_settings
from dragoman.text.subword import WORD_START, BytePairs, Segmenter

LAYER = re.compile(r"encoder\.(\d+)\.")
OUTPUTS = ("attention.project.to_out.", "feed_forward.outer.")


def main(model: Path, out: Path, layers: int, vocabulary: Path | None) -> None:
    bundle = read_bundle(model)
    if bundle.config.model.norm_position != "pre":
        raise SystemExit(f"{model} has its norms after the parts: a new layer would change it.")
    origins = spread_out(bundle.config.model.num_encoder_layers, layers)
    config = with_settings(bundle.config, {"model.num_encoder_layers": layers})
    weights = grown(bundle.float_weights(), origins)
    if vocabulary:
        new = BytePairs(vocabulary.read_bytes())
        weights["source_embedding.words.weight"] = transferred(
            weights["source_embedding.words.weight"], bundle.codec.source_segmenter, new
        )
        config = with_settings(config, {"text.vocab_size": len(new.vocabulary)})
        codec = replace(bundle.codec, source_segmenter=new, target_segmenter=new)
        bundle = replace(bundle, codec=codec, shortlist=None)
    write_bundle(
        out, replace(bundle, config=config, weights=weights, adapter=None, ranges={}, engine="auto")
    )


def transferred(old: np.ndarray, before: Segmenter, after: Segmenter) -> np.ndarray:
    """Embeddings of a new vocabulary from those of an old one. (V, D)"""
    rng = np.random.default_rng(1)
    new = rng.normal(0, old.std(), (len(after.vocabulary), old.shape[1])).astype(old.dtype)
    ids = before.vocabulary.ids
    for row, piece in enumerate(after.vocabulary.pieces):
        text = piece.replace(WORD_START, " ")
        if piece in ids:
            new[row] = old[ids[piece]]
        elif not text.isprintable():
            continue  # one of the model's own symbols
        else:
            # The old segmenter puts the mark of a space before a text: a piece from the middle of
            # a word is spelled without it.
            spelled = before.encode([text.strip()])[0]
            if not piece.startswith(WORD_START) and spelled[:1] == [ids.get(WORD_START)]:
                spelled = spelled[1:]
            if spelled:
                new[row] = old[spelled].mean(axis=0)
    return new


def spread_out(old: int, new: int) -> list[int]:
    """For each new layer the old one that it is, or is a copy of.

    >>> spread_out(4, 6)
    [0, 0, 1, 2, 2, 3]
    """
    if new < old:
        raise SystemExit(f"the model has {old} layers: give at least as many.")
    return [place * old // new for place in range(new)]


def grown(weights: Mapping[str, np.ndarray], origins: list[int]) -> dict[str, np.ndarray]:
    made = {name: array for name, array in weights.items() if not LAYER.match(name)}
    for place, origin in enumerate(origins):
        is_copy = place > 0 and origins[place - 1] == origin
        old = f"encoder.{origin}."
        for name, array in weights.items():
            if name.startswith(old):
                part = name.removeprefix(old)
                adds = is_copy and part.startswith(OUTPUTS)
                made[f"encoder.{place}.{part}"] = np.zeros_like(array) if adds else array
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, required=True, help="of the encoder, afterwards")
    parser.add_argument("--vocabulary", type=Path, help="a SentencePiece model (vocabulary.py)")
    options = parser.parse_args()
    main(options.model, options.out, options.layers, options.vocabulary)
