"""Mark a bundle for the ONNX engine, optionally with its matrices in int8.

The engine runs any bundle of a plain Transformer; a marked one is run by it by default.
"""

from dataclasses import replace

from dragoman.bundle.folder import ONNX, Bundle
from dragoman.bundle.int8 import all_in_bytes, dequantize, quantize
from dragoman.engine.onnx.graphs import beyond_graphs, step_graph
from dragoman.errors import ConversionError


def to_onnx(bundle: Bundle, int8: bool = False) -> Bundle:
    """Return the bundle for the ONNX engine; `int8` stores its matrices in int8."""
    if reasons := beyond_graphs(bundle.config.model):
        raise ConversionError(
            "the ONNX engine supports only the plain Transformer; this model has "
            f"{', '.join(reasons)}."
        )
    weights = bundle.weights
    if int8 and not all_in_bytes(weights):  # matrices that came in int8 keep their bytes
        weights = quantize(dequantize(weights))
    # Building a graph raises an error if int8 does not support the width.
    step_graph(bundle.config.model, weights, bundle.codec.target)
    return replace(bundle, weights=weights, engine=ONNX)
