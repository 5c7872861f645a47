"""Adds layers to a model's encoder, without a change of what it says, for a further stage of
training.

    python pretraining/grow.py dragoman/pretrained/NAME runs/grown --layers 12

The new layers stand at even distances among the old ones. Each is a copy of the one before it with
both of its outputs set to zero, so that with a norm before each part it adds nothing at first.
"""

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import replace as with_settings

LAYER = re.compile(r"encoder\.(\d+)\.")
OUTPUTS = ("attention.project.to_out.", "feed_forward.outer.")


def main(model: Path, out: Path, layers: int) -> None:
    bundle = read_bundle(model)
    if bundle.config.model.norm_position != "pre":
        raise SystemExit(f"{model} has its norms after the parts: a new layer would change it.")
    origins = spread_out(bundle.config.model.num_encoder_layers, layers)
    config = with_settings(bundle.config, {"model.num_encoder_layers": layers})
    weights = grown(bundle.float_weights(), origins)
    write_bundle(
        out, replace(bundle, config=config, weights=weights, adapter=None, ranges={}, engine="auto")
    )


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
    options = parser.parse_args()
    main(options.model, options.out, options.layers)
