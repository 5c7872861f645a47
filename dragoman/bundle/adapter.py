"""Low-rank adapters (LoRA, Hu et al. 2022): add the product of two thin matrices to a matrix.

    W' = W + U D        W (out, in), U (out, r), D (r, in)

U and D are stored in half precision under the matrix's name with ".up" and ".down". An int8 matrix
is converted to float, changed, and quantized again, so engines and converters need not know about
adapters.

An adapter may have a gate, which decides which sentences it translates. Every source piece has a
vote. If the sum over a sentence is positive, the sentence resembles the adapter's training data,
and the adapted model translates it. All other sentences go to the original model and stay the same
to the last bit. Tags of languages that the adapter was not trained for vote -∞. The votes are a
logistic regression on the mean of a sentence's word vectors (`dragoman/training/train_gate.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.bundle.int8 import SCALES, dequantize, quantize_rows
from dragoman.errors import BundleError

UP, DOWN = ".up", ".down"
GATE = "gate"  # name among an adapter's tensors


def adapted(
    weights: Mapping[str, np.ndarray], adapter: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Merge an adapter into stored weights; each keeps its storage format."""
    result = dict(weights)
    for name, (up, down) in factors(weights, adapter).items():
        change = up.astype(np.float32) @ down.astype(np.float32)
        # An int8 matrix is changed in float and quantized again with new scales.
        if name + SCALES in weights:
            stored = {key: weights[key] for key in (name, name + SCALES)}
            changed = dequantize(stored)[name] + change
            result[name], result[name + SCALES] = quantize_rows(changed)
        else:
            result[name] = weights[name] + change
    return result


def factors(
    weights: Mapping[str, np.ndarray], adapter: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return U and D by matrix name; raise a BundleError if they do not fit."""
    pairs = dict[str, tuple[np.ndarray, np.ndarray]]()
    # Both factors are named after their matrix.
    names = {name.removesuffix(UP).removesuffix(DOWN) for name in adapter if name != GATE}
    for name in sorted(names):
        up, down = adapter.get(name + UP), adapter.get(name + DOWN)
        matrix = weights.get(name)
        if up is None or down is None or matrix is None or matrix.ndim != 2:
            raise BundleError(f"the adapter's {name} has no matrix to be added to.")
        fits = up.ndim == down.ndim == 2 and up.shape[1] == down.shape[0]
        if not fits or (len(up), down.shape[1]) != matrix.shape:
            raise BundleError(
                f"the adapter's {name} has shapes {up.shape} and {down.shape}, the matrix "
                f"{matrix.shape}."
            )
        if up.dtype.kind != "f" or down.dtype.kind != "f":
            raise BundleError(f"the adapter's {name} is stored as {up.dtype}, not in floats.")
        # NaN or infinity would spread to every output.
        if not (np.isfinite(up).all() and np.isfinite(down).all()):
            raise BundleError(f"the adapter's {name} holds numbers that are not finite.")
        pairs[name] = up, down
    return pairs


@dataclass(frozen=True)
class Gate:
    votes: np.ndarray  # (V,)

    @classmethod
    def of(cls, adapter: Mapping[str, np.ndarray], pieces: int) -> "Gate | None":
        """Return the gate of an adapter for a source vocabulary of this size.

        None means that the adapter is for all sentences.
        """
        votes = adapter.get(GATE)
        if votes is None:
            return None
        if votes.shape != (pieces,) or votes.dtype != np.float32 or np.isnan(votes).any():
            raise BundleError(f"the adapter's {GATE} is not a vote for each of {pieces:,} pieces.")
        return cls(votes)

    def __call__(self, source: Sequence[int]) -> bool:
        """True if a sentence, given as ids, goes to the adapted model.

        >>> gate = Gate(np.array([2.0, -1.0, -np.inf], dtype=np.float32))
        >>> gate([0, 1]), gate([0, 1, 1, 1]), gate([0, 0, 2])
        (True, False, False)
        """
        # A sum in float32 could depend on the order of the pieces.
        return bool(self.votes[np.asarray(source)].sum(dtype=np.float64) > 0)
