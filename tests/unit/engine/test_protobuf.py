"""The messages that we write by hand, read and made by the `onnx` package."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dragoman.bundle.folder import read_bundle
from dragoman.bundle.int8 import quantize, signed
from dragoman.engine.onnx import onnx_writer
from dragoman.engine.onnx.graph import IR_VERSION, MICROSOFT, OPSETS
from dragoman.engine.onnx.graphs import columns_graph, encoder_graph, listed_step_graph, step_graph
from tests.forging import KEPT

ARRAYS = [
    np.array(0.5, dtype=np.float32),
    np.array([[1, 2], [3, 255]], dtype=np.uint8),
    np.array([-127, 0, 127], dtype=np.int8),
    np.array([-1, 0, 2**62], dtype=np.int64),
    np.array([0, -np.inf, np.nan], dtype=np.float32),
]
ATTRIBUTES = {
    "axis": -1,
    "epsilon": 1e-5,
    "perm": [0, 2, 1],
    "K": 2**40,
    "value": np.zeros(1, dtype=np.uint8),
}


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_a_tensor_equals_onnxs_own(array: np.ndarray) -> None:
    assert onnx_writer.tensor(array, "t") == numpy_helper.from_array(array, "t").SerializeToString()


def test_an_external_tensor_names_its_location() -> None:
    wanted = TensorProto(name="w[2:4]", data_type=TensorProto.FLOAT, dims=[2, 300])
    wanted.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w"), ("offset", "2400"), ("length", "2400")):
        wanted.external_data.add(key=key, value=value)
    ours = onnx_writer.external_tensor("w[2:4]", np.dtype(np.float32), [2, 300], "w", 2400, 2400)
    assert ours == wanted.SerializeToString()


@pytest.mark.parametrize("shape", [[], [1, "S"], ["B", 300]], ids=str)
def test_a_value_has_kind_and_shape(shape: list[int | str]) -> None:
    wanted = helper.make_tensor_value_info("x", TensorProto.INT32, shape)
    assert onnx_writer.value_info("x", onnx_writer.INT32, shape) == wanted.SerializeToString()


def test_a_node_has_every_kind_of_attribute_that_we_use() -> None:
    values = {**ATTRIBUTES, "value": numpy_helper.from_array(ATTRIBUTES["value"])}
    wanted = helper.make_node("Op", ["a", ""], ["b", "c"], domain=MICROSOFT, **values)
    assert (
        onnx_writer.node("Op", ["a", ""], ["b", "c"], MICROSOFT, ATTRIBUTES)
        == wanted.SerializeToString()
    )


def test_a_model_equals_onnxs_own() -> None:
    node = helper.make_node("Add", ["x", "one"], ["y"], domain="")
    one = numpy_helper.from_array(ARRAYS[0], "one")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
    opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    graph = helper.make_graph([node], "sum", [x], [y], [one])
    wanted = helper.make_model(
        graph, opset_imports=opsets, producer_name="dragoman", ir_version=IR_VERSION
    )
    parts = ([message.SerializeToString()] for message in (node, one, x, y))
    assert onnx_writer.model("sum", *parts, OPSETS, IR_VERSION) == wanted.SerializeToString()


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_round_trip(number: int) -> None:
    attribute = onnx.NodeProto.FromString(
        onnx_writer.node("Op", [], [], "", {"i": number})
    ).attribute[0]
    assert (attribute.i, attribute.type) == (number, onnx.AttributeProto.INT)


@pytest.mark.parametrize("kind", ["float32", "int8", "ranges"])
def test_graphs_pass_onnxs_checker_and_weights_are_inside_their_arrays(kind: str) -> None:
    bundle = read_bundle(KEPT)
    config = bundle.config.model
    weights = bundle.weights if kind == "float32" else signed(quantize(bundle.weights))
    measured = {name.split(".project")[0].removesuffix(".weight"): 3.0 for name in weights}
    ranges = measured if kind == "ranges" else {}
    graphs = [
        encoder_graph(config, weights, ranges),
        step_graph(config, weights, bundle.codec.target, ranges),
        listed_step_graph(config, weights, ranges),
        columns_graph(config, weights),
    ]
    for raw in graphs:
        model = onnx.load_from_string(raw)
        # nothing is unknown to onnx, nothing is in another order
        assert model.SerializeToString() == raw
        made = {name for node in model.graph.node for name in node.output}
        made |= {value.name for value in (*model.graph.input, *model.graph.initializer)}
        assert {name for node in model.graph.node for name in node.input} <= made | {""}
        for tensor in model.graph.initializer:
            place = {entry.key: entry.value for entry in tensor.external_data}
            if place:
                array = weights[place["location"]]
                assert int(place["offset"]) + int(place["length"]) <= array.nbytes
                assert int(place["length"]) == np.prod(tensor.dims) * array.itemsize
