"""A bundle made for the ONNX engine, with its matrices in int8 if asked for.

It is checked to be one that the engine runs.

The engine runs any bundle of a plain Transformer; this one says that it is meant for it.
"""

from dataclasses import replace

from dragoman.bundle.folder import ONNX, Bundle
from dragoman.bundle.int8 import all_in_bytes, dequantize, quantize
from dragoman.engine.onnx.graphs import beyond_graphs, step_graph
from dragoman.errors import ConversionError


def to_onnx(bundle: Bundle, int8: bool = False) -> Bundle:
    """The bundle for the ONNX engine; with `int8`, its matrices are stored in int8."""
    if reasons := beyond_graphs(bundle.config.model):
        raise ConversionError(
            "the ONNX engine supports only the plain Transformer; this model has "
            f"{', '.join(reasons)}."
        )
    weights = bundle.weights
    if int8 and not all_in_bytes(weights):  # bytes that came as such stay as they are
        weights = quantize(dequantize(weights))
    # refuses a width that int8 cannot take
    step_graph(bundle.config.model, weights, bundle.codec.target)
    return replace(bundle, weights=weights, engine=ONNX)
