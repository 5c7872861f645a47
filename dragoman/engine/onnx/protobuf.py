"""The few messages of ONNX that our graphs need, written as bytes without the `onnx` package.

A model for ONNX Runtime is one protocol-buffer message, `ModelProto`. The messages, their fields
and the numbers of these are those of `onnx/onnx.proto` (https://github.com/onnx/onnx, IR version
11); the wire format is described at https://protobuf.dev/programming-guides/encoding. A message is
the sequence of its fields. A field is a key, 8 * number + wire type, and a value:

    wire type 0    a varint: seven bits a byte, lowest first, the top bit set on all but the last
    wire type 2    a length and so many bytes: a string, or a message
    wire type 5    four bytes: a float

Each function below returns one message. Nothing here reads any: dragoman parses no graph.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7  # TensorProto.DataType
KINDS = {
    np.dtype(np.float32): FLOAT,
    np.dtype(np.uint8): UINT8,
    np.dtype(np.int8): INT8,
    np.dtype(np.int64): INT64,
}
EXTERNAL = 1  # TensorProto.DataLocation
OF_FLOAT, OF_INT, OF_TENSOR, OF_INTS = 1, 2, 4, 7  # AttributeProto.AttributeType

_ONE_BYTE = [bytes([number]) for number in range(0x80)]

Attribute = int | float | Sequence[int] | np.ndarray


def varint(number: int) -> bytes:
    """
    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    if 0 <= number < 0x80:  # as nearly all are
        return _ONE_BYTE[number]
    number &= 2**64 - 1  # a negative number counts as its two's complement
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def tensor(array: np.ndarray, name: str = "") -> bytes:
    """TensorProto with its numbers inside."""
    little_endian = array.astype(array.dtype.newbyteorder("<")).tobytes()
    named = _text(8, name) if name else b""
    return _tensor_kind(array.dtype, array.shape) + named + _bytes(9, little_endian)


def external_tensor(
    name: str, dtype: np.dtype, shape: Sequence[int], location: str, offset: int, length: int
) -> bytes:
    """TensorProto whose numbers are in a file of this name, or in what ONNX Runtime was given for
    that file."""
    place = {"location": location, "offset": str(offset), "length": str(length)}
    entries = (_bytes(13, _text(1, key) + _text(2, value)) for key, value in place.items())
    return _tensor_kind(dtype, shape) + _text(8, name) + b"".join(entries) + _int(14, EXTERNAL)


def value_info(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto: a tensor that goes into a graph or comes out, with names for what varies in
    its shape."""
    sizes = (_int(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    dimensions = b"".join(_bytes(1, size) for size in sizes)  # TensorShapeProto
    tensor_type = _int(1, kind) + _bytes(2, dimensions)  # TypeProto.Tensor
    return _text(1, name) + _bytes(2, _bytes(1, tensor_type))


def node(
    kind: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    domain: str,
    attributes: Mapping[str, Attribute],
) -> bytes:
    """NodeProto: one operation."""
    written = b"".join(_text(1, name) for name in inputs) + b"".join(
        _text(2, name) for name in outputs
    )
    written += _text(4, kind)
    for name, value in sorted(attributes.items()):
        written += _bytes(5, _attribute(name, value))
    return written + _text(7, domain)


def model(
    name: str,
    nodes: Iterable[bytes],
    initializers: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    opsets: Mapping[str, int],
    ir_version: int,
) -> bytes:
    """ModelProto with its GraphProto; `opsets` are the versions of the operators of each domain."""
    graph = (
        _all(1, nodes)
        + _text(2, name)
        + _all(5, initializers)
        + _all(11, inputs)
        + _all(12, outputs)
    )
    # OperatorSetIdProto
    imports = (_text(1, domain) + _int(2, version) for domain, version in opsets.items())
    return _int(1, ir_version) + _text(2, "dragoman") + _bytes(7, graph) + _all(8, imports)


def _attribute(name: str, value: Attribute) -> bytes:
    """AttributeProto"""
    if isinstance(value, np.ndarray):
        return _text(1, name) + _bytes(5, tensor(value)) + _int(20, OF_TENSOR)
    if isinstance(value, int):
        return _text(1, name) + _int(3, value) + _int(20, OF_INT)
    if isinstance(value, float):
        return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _int(20, OF_FLOAT)
    return _text(1, name) + b"".join(_int(8, each) for each in value) + _int(20, OF_INTS)


def _tensor_kind(dtype: np.dtype, shape: Sequence[int]) -> bytes:
    return b"".join(_int(1, size) for size in shape) + _int(2, KINDS[dtype])


def _key(number: int, wire_type: int) -> bytes:
    return varint(8 * number + wire_type)


def _int(number: int, value: int) -> bytes:
    return _key(number, 0) + varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _key(number, 2) + varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _all(number: int, messages: Iterable[bytes]) -> bytes:
    """A repeated field."""
    return b"".join(_bytes(number, message) for message in messages)
