"""Adapters of low rank (LoRA, Hu et al. 2022): what is added to a matrix is a product of two thin
ones.

    W' = W + U D        W (out, in), U (out, r), D (r, in)

U and D are stored in half precision under the matrix's name with ".up" and ".down". An int8 matrix
is made float, changed, and made int8 again. So engines and converters know nothing of adapters.
"""

from collections.abc import Mapping

import numpy as np

from dragoman.bundle.gate import GATE
from dragoman.bundle.int8 import SCALES, dequantise, quantise_rows
from dragoman.errors import BundleError

UP, DOWN = ".up", ".down"


def adapted(
    weights: Mapping[str, np.ndarray], adapter: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Stored weights with an adapter added; each stays in the form that it had."""
    result = dict(weights)
    for name, (up, down) in factors(weights, adapter).items():
        change = up.astype(np.float32) @ down.astype(np.float32)
        if name + SCALES in weights:
            stored = {key: weights[key] for key in (name, name + SCALES)}
            changed = dequantise(stored)[name] + change
            result[name], result[name + SCALES] = quantise_rows(changed)
        else:
            result[name] = weights[name] + change
    return result


def factors(
    weights: Mapping[str, np.ndarray], adapter: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """U and D by the names of their matrices; an error unless they fit these."""
    pairs = dict[str, tuple[np.ndarray, np.ndarray]]()
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
        if not (np.isfinite(up).all() and np.isfinite(down).all()):
            raise BundleError(f"the adapter's {name} holds numbers that are not finite.")
        pairs[name] = up, down
    return pairs
