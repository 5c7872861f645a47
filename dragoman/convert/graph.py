"""Writing an ONNX graph node by node, its weights left where they are: in the bundle's safetensors file.

A weight is named once and referred to by file, offset and length ("external data"), so several graphs, and torch, share
one copy. A matrix may be referred to in part: rows lie together, so a range of them is a tensor of its own.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from dragoman.bundle import GRAPH_VERSION

MICROSOFT = "com.microsoft"  # ONNX Runtime's own operators
OPSET, IR_VERSION = 23, 11
TYPES = {"F32": TensorProto.FLOAT, "U8": TensorProto.UINT8}
Rows = tuple[int, int]


class Stored:
    """Where each tensor of a safetensors file lies: its header is a length and a JSON object."""

    def __init__(self, file: str, raw: bytes):
        (length,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8 : 8 + length])
        header.pop("__metadata__", None)
        self.file, self._start, self._facts = file, 8 + length, header

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def shape(self, name: str) -> list[int]:
        return list(self._facts[name]["shape"])

    def proto(self, name: str, label: str, rows: Rows | None = None) -> TensorProto:
        """The tensor, or some rows of it, as an initializer without data of its own."""
        shape, (begin, end) = self.shape(name), self._facts[name]["data_offsets"]
        if rows is not None:
            row_bytes = (end - begin) // shape[0]
            begin, end, shape[0] = begin + rows[0] * row_bytes, begin + rows[1] * row_bytes, rows[1] - rows[0]
        tensor = TensorProto(name=label, data_type=TYPES[self._facts[name]["dtype"]], dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": self.file, "offset": self._start + begin, "length": end - begin}.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class Graph:
    """Nodes in the making. Values are named by what made them; weights by their names in the bundle."""

    def __init__(self, stored: Stored):
        self.stored = stored
        self._nodes: list[Any] = []
        self._initializers: dict[str, TensorProto] = {}
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []

    def input(self, name: str, kind: int, shape: Sequence[int | str]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, kind: int, shape: Sequence[int | str]) -> None:
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def weight(self, name: str, rows: Rows | None = None) -> str:
        label = name if rows is None else f"{name}[{rows[0]}:{rows[1]}]"
        if label not in self._initializers:
            self._initializers[label] = self.stored.proto(name, label, rows)
        return label

    def constant(self, value: np.ndarray | float | Sequence[int]) -> str:
        array = np.float32(value) if isinstance(value, float) else np.asarray(value)
        name = f"constant_{len(self._initializers)}"
        self._initializers[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def op(self, kind: str, *inputs: str, names: Sequence[str] | int = 1, domain: str = "", **attributes: Any) -> Any:
        """A node; the name of its output, or a list of them. `names` gives these, or how many to invent."""
        if isinstance(names, int):
            names = [f"{kind}_{len(self._nodes)}_{i}" for i in range(names)]
        self._nodes.append(helper.make_node(kind, list(inputs), list(names), domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def microsoft(self, kind: str, *inputs: str, names: Sequence[str] | int = 1, **attributes: Any) -> Any:
        return self.op(kind, *inputs, names=names, domain=MICROSOFT, **attributes)

    def serialise(self, name: str) -> bytes:
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, list(self._initializers.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(
            graph,
            opset_imports=opsets,
            producer_name="dragoman",
            model_version=GRAPH_VERSION,
            ir_version=IR_VERSION,
        )
        return bytes(model.SerializeToString())
