"""Grows a model for a further stage of training: more layers, twice the width, another vocabulary.

    python pretraining/grow.py dragoman/pretrained/NAME runs/grown --layers 16 \\
        --vocabulary corpora/pretraining/shared.spm
    python pretraining/grow.py runs/student runs/teacher --decoder-layers 4 --double

New layers are spread evenly among the old ones. Each is a copy of the one before it with its
outputs set to zero, so that with a norm before each part it adds nothing at first: the grown model
computes the same.

A model of twice the width has each feature, head and unit twice. What reads two copies takes half
of its weight from each, give or take random noise that cancels: the outputs stay, but the copies
get different gradients and part. (Sinusoidal positions of the double width have frequencies between
the old ones, so the copies of a feature differ a little from the start.)

A piece of a new vocabulary starts with the mean embedding of the old pieces that spell it. That is
exact for pieces that both vocabularies have.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import replace as with_settings
from dragoman.text.subword import WORD_START, BytePairs, Segmenter

OUTPUTS = ("attention.project.to_out.", "cross.project.to_out.", "feed_forward.outer.")
OF_WORDS = ("words.weight", "output.weight")
NOISE = 0.3  # of a weight's standard deviation


def main(
    model: Path,
    out: Path,
    layers: int | None,
    decoder_layers: int | None,
    vocabulary: Path | None,
    double: bool,
) -> None:
    bundle = read_bundle(model)
    old = bundle.config.model
    if old.norm_position != "pre":
        raise SystemExit(f"{model} has its norms after the parts: a new layer would change it.")
    config, weights = bundle.config, bundle.float_weights()
    depths = {
        "encoder": (old.num_encoder_layers, layers or old.num_encoder_layers),
        "decoder": (old.num_decoder_layers, decoder_layers or old.num_decoder_layers),
    }
    for side, (before, after) in depths.items():
        weights = grown(weights, side, spread_out(before, after))
        config = with_settings(config, {f"model.num_{side}_layers": after})
    if vocabulary:
        new = BytePairs(vocabulary.read_bytes())
        weights["source_embedding.words.weight"] = transferred(
            weights["source_embedding.words.weight"], bundle.codec.source_segmenter, new
        )
        config = with_settings(config, {"text.vocab_size": len(new.vocabulary)})
        codec = replace(bundle.codec, source_segmenter=new, target_segmenter=new)
        bundle = replace(bundle, codec=codec, shortlist=None)
    if double:
        weights = doubled(weights)
        sizes = {"d_model": old.d_model, "num_heads": old.num_heads, "d_ff": old.d_ff}
        config = with_settings(config, {f"model.{name}": 2 * n for name, n in sizes.items()})
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


def grown(
    weights: Mapping[str, np.ndarray], side: str, origins: list[int]
) -> dict[str, np.ndarray]:
    """The weights with the layers of one side repeated as `origins` says."""
    result = {name: array for name, array in weights.items() if not name.startswith(f"{side}.")}
    for place, origin in enumerate(origins):
        is_copy = place > 0 and origins[place - 1] == origin
        old = f"{side}.{origin}."
        for name, array in weights.items():
            if name.startswith(old):
                part = name.removeprefix(old)
                adds = is_copy and part.startswith(OUTPUTS)
                result[f"{side}.{place}.{part}"] = np.zeros_like(array) if adds else array
    return result


def doubled(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights of a model of twice the width that computes (nearly) the same.

    Features of the residual stream come in pairs of a sine and a cosine: each pair is followed by
    its copy, so that the first has its old frequency. Heads and units are followed by all copies.
    """
    rng = np.random.default_rng(1)
    result = {}
    for name, array in weights.items():
        if name == "output.bias":
            new = array
        elif name.endswith(OF_WORDS):
            # √D is √2 times what it was, for input and output.
            new = in_pairs(array, 1) / np.sqrt(2)
        elif name.startswith("decoder_norm."):
            new = in_pairs(array, 0) / np.sqrt(2)
        elif "norm." in name:
            new = in_pairs(array, 0)
        elif "to_qkv." in name:
            new = np.concatenate([part for q in np.split(array, 3) for part in (q, q)])
        elif "inner." in name:
            new = np.concatenate([array, array])
        else:
            new = in_pairs(array, 0)
        if array.ndim == 2 and not name.endswith(OF_WORDS):
            from_stream = "to_qkv." in name or "inner." in name
            noise = rng.normal(0, NOISE * array.std(), new.shape).astype(array.dtype)
            halves = new / 2 + noise, new / 2 - noise
            if from_stream:
                new = np.stack([half.reshape(len(new), -1, 2) for half in halves], axis=2)
                new = new.reshape(len(new), -1)
            else:
                new = np.concatenate(halves, axis=1)
        result[name] = np.ascontiguousarray(new, dtype=array.dtype)
    return result


def in_pairs(array: np.ndarray, axis: int) -> np.ndarray:
    """Each two neighbors along the axis, followed by their copy.

    >>> in_pairs(np.arange(4), 0)
    array([0, 1, 0, 1, 2, 3, 2, 3])
    """
    pairs = np.arange(array.shape[axis]).reshape(-1, 1, 2)
    return array.take(np.tile(pairs, (1, 2, 1)).ravel(), axis)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, help="of the encoder, afterwards")
    parser.add_argument("--decoder-layers", type=int, help="of the decoder, afterwards")
    parser.add_argument("--vocabulary", type=Path, help="a SentencePiece model (vocabulary.py)")
    parser.add_argument("--double", action="store_true", help="the width, heads and units")
    main(**vars(parser.parse_args()))
