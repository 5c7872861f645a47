"""Low-rank adapters (LoRA, Hu et al. 2022): add the product of two thin matrices to a matrix.

    W' = W + U D        W (out, in), U (out, r), D (r, in)

U and D are stored in half precision under the matrix's name with ".up" and ".down". An int8 matrix
is converted to float, changed, and quantized again, so engines and converters need not know about
adapters.
"""

from collections.abc import Mapping

import numpy as np

from dragoman.bundle.gate import GATE
from dragoman.bundle.int8 import SCALES, dequantize, quantize_rows
from dragoman.errors import BundleError

UP, DOWN = ".up", ".down"


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
