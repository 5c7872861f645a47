"""A bundle becomes one that ONNX Runtime runs too: graphs are added, which refer into its weights."""

from dataclasses import replace

import safetensors.numpy

from dragoman.bundle import ENCODER_GRAPH, LISTED_STEP_GRAPH, STEP_GRAPH, WEIGHTS, Bundle
from dragoman.convert.graph import Stored
from dragoman.convert.graphs import encoder_graph, listed_step_graph, step_graph
from dragoman.convert.known import refuse_unknown
from dragoman.int8 import quantise


def with_graphs(bundle: Bundle, int8: bool = False) -> Bundle:
    """The bundle with graphs, one more if it has a shortlist; with `int8`, its matrices are stored in int8 as well."""
    config = bundle.config.model
    refuse_unknown(config, "our ONNX graph")
    weights = quantise(bundle.float_weights()) if int8 else bundle.weights
    raw = safetensors.numpy.save(dict(weights))
    stored = Stored(WEIGHTS, raw)
    graphs = {
        ENCODER_GRAPH: encoder_graph(config, stored),
        STEP_GRAPH: step_graph(config, stored, bundle.codec.target),
    }
    if bundle.shortlist is not None:
        graphs[LISTED_STEP_GRAPH] = listed_step_graph(config, stored)
    return replace(bundle, weights=weights, graphs=graphs, weights_file=raw)
