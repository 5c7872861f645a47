"""Write the ONNX messages that our graphs need as bytes, without the `onnx` package.

A model for ONNX Runtime is a protocol-buffer message, `ModelProto`. The numbers of the fields below
come from `onnx/onnx.proto` (https://github.com/onnx/onnx, IR version 11); `storage/protobuf.py` has
the wire format.

Each function returns one message. There is no parser: dragoman never reads a graph.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dragoman.storage.protobuf import bytes_field, float_field, int_field, text_field

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7  # TensorProto.DataType
KINDS = {
    np.dtype(np.float32): FLOAT,
    np.dtype(np.uint8): UINT8,
    np.dtype(np.int8): INT8,
    np.dtype(np.int32): INT32,
    np.dtype(np.int64): INT64,
}
EXTERNAL = 1  # TensorProto.DataLocation
OF_FLOAT, OF_INT, OF_TENSOR, OF_INTS = 1, 2, 4, 7  # AttributeProto.AttributeType

Attribute = int | float | Sequence[int] | np.ndarray


def tensor(array: np.ndarray, name: str = "") -> bytes:
    """Write a TensorProto that contains its data."""
    # Tensors are little-endian in the format, whatever the machine is.
    little_endian = array.astype(array.dtype.newbyteorder("<")).tobytes()
    named = text_field(8, name) if name else b""
    return _tensor_kind(array.dtype, array.shape) + named + bytes_field(9, little_endian)


def external_tensor(
    name: str, dtype: np.dtype, shape: Sequence[int], location: str, offset: int, length: int
) -> bytes:
    """Write a TensorProto whose data is in a file, or in the array that replaces the file."""
    place = {"location": location, "offset": str(offset), "length": str(length)}
    entries = (
        bytes_field(13, text_field(1, key) + text_field(2, value)) for key, value in place.items()
    )
    return (
        _tensor_kind(dtype, shape)
        + text_field(8, name)
        + b"".join(entries)
        + int_field(14, EXTERNAL)
    )


def value_info(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """Write a ValueInfoProto: an input or output of a graph; names stand for variable sizes."""
    # A dimension is a number or a name; equal names must have equal sizes.
    sizes = (int_field(1, size) if isinstance(size, int) else text_field(2, size) for size in shape)
    dimensions = b"".join(bytes_field(1, size) for size in sizes)  # TensorShapeProto
    tensor_type = int_field(1, kind) + bytes_field(2, dimensions)  # TypeProto.Tensor
    return text_field(1, name) + bytes_field(2, bytes_field(1, tensor_type))


def node(
    kind: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    domain: str,
    attributes: Mapping[str, Attribute],
) -> bytes:
    """Write a NodeProto: one operation."""
    message = b"".join(text_field(1, name) for name in inputs)
    message += b"".join(text_field(2, name) for name in outputs) + text_field(4, kind)
    # Sorted, so that the same graph always gives the same bytes.
    for name, value in sorted(attributes.items()):
        message += bytes_field(5, _attribute(name, value))
    return message + text_field(7, domain)


def model(
    name: str,
    nodes: Iterable[bytes],
    initializers: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    opsets: Mapping[str, int],
    ir_version: int,
) -> bytes:
    """Write a ModelProto with its GraphProto; `opsets` are the operators' versions by domain."""
    graph = (
        _all(1, nodes)
        + text_field(2, name)
        + _all(5, initializers)
        + _all(11, inputs)
        + _all(12, outputs)
    )
    # OperatorSetIdProto
    imports = (text_field(1, domain) + int_field(2, version) for domain, version in opsets.items())
    return (
        int_field(1, ir_version)
        + text_field(2, "dragoman")
        + bytes_field(7, graph)
        + _all(8, imports)
    )


def _attribute(name: str, value: Attribute) -> bytes:
    """Write an AttributeProto."""
    if isinstance(value, np.ndarray):
        return text_field(1, name) + bytes_field(5, tensor(value)) + int_field(20, OF_TENSOR)
    # Fields 2, 3, 5 and 8 hold a value of each type; field 20 names the type.
    if isinstance(value, int):
        return text_field(1, name) + int_field(3, value) + int_field(20, OF_INT)
    if isinstance(value, float):
        return text_field(1, name) + float_field(2, value) + int_field(20, OF_FLOAT)
    return (
        text_field(1, name)
        + b"".join(int_field(8, each) for each in value)
        + int_field(20, OF_INTS)
    )


def _tensor_kind(dtype: np.dtype, shape: Sequence[int]) -> bytes:
    return b"".join(int_field(1, size) for size in shape) + int_field(2, KINDS[dtype])


def _all(number: int, messages: Iterable[bytes]) -> bytes:
    """Write a repeated field."""
    return b"".join(bytes_field(number, message) for message in messages)
