"""Build an ONNX graph node by node, without copying weights.

The graph declares each weight as "external data" in a file named after the weight. There is no such
file: the engine passes the bundle's array to ONNX Runtime in its place, so several graphs share one
copy. Rows are contiguous in memory, so a range of rows of a matrix is a tensor, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dragoman.engine.onnx import onnx_writer

MICROSOFT = "com.microsoft"  # ONNX Runtime's own operators
OPSETS = {"": 23, MICROSOFT: 1}
IR_VERSION = 11
Rows = tuple[int, int]
Weights = Mapping[str, np.ndarray]


class Graph:
    """A graph under construction; weights keep their names in the bundle."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self._nodes: list[bytes] = []
        self._initializers: dict[str, bytes] = {}
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._domains: set[str] = set()

    def input(self, name: str, kind: int, shape: Sequence[int | str]) -> str:
        self._inputs.append(onnx_writer.value_info(name, kind, shape))
        return name

    def output(self, name: str, kind: int, shape: Sequence[int | str]) -> None:
        self._outputs.append(onnx_writer.value_info(name, kind, shape))

    def weight(self, name: str, rows: Rows | None = None) -> str:
        """Add a weight, or some of its rows, as external data; return its name."""
        label = name if rows is None else f"{name}[{rows[0]}:{rows[1]}]"
        # Shared weights, such as embeddings and output, are declared once.
        if label not in self._initializers:
            array = self.weights[name]
            first, last = rows or (0, len(array))
            # Rows are contiguous, so a part of a matrix is an offset into its data.
            row_bytes = array.nbytes // len(array)
            shape = [last - first, *array.shape[1:]]
            self._initializers[label] = onnx_writer.external_tensor(
                label,
                array.dtype,
                shape,
                location=name,
                offset=first * row_bytes,
                length=(last - first) * row_bytes,
            )
        return label

    def constant(self, value: np.ndarray | float | Sequence[int]) -> str:
        """Add a constant, whose data is stored in the graph; return its name."""
        # Python floats become float32, the only float type in our graphs.
        array = np.float32(value) if isinstance(value, float) else np.asarray(value)
        name = f"constant_{len(self._initializers)}"
        self._initializers[name] = onnx_writer.tensor(np.asarray(array), name)
        return name

    def op(
        self,
        kind: str,
        *inputs: str,
        names: Sequence[str] | int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """Add a node; return the name of its output, or a list of names.

        `names` are the names of the outputs, or how many to generate.
        """
        if isinstance(names, int):
            names = [f"{kind}_{len(self._nodes)}_{i}" for i in range(names)]
        # A model must declare the version of every domain that it uses.
        self._domains.add(domain)
        self._nodes.append(onnx_writer.node(kind, inputs, names, domain, attributes))
        return names[0] if len(names) == 1 else names

    def microsoft(
        self, kind: str, *inputs: str, names: Sequence[str] | int = 1, **attributes: Any
    ) -> Any:
        return self.op(kind, *inputs, names=names, domain=MICROSOFT, **attributes)

    def serialize(self, name: str) -> bytes:
        return onnx_writer.model(
            name,
            self._nodes,
            self._initializers.values(),
            self._inputs,
            self._outputs,
            dict.fromkeys(self._domains, 1) | OPSETS,
            IR_VERSION,
        )
