"""The tensors of a safetensors file, where they lie: no number is copied.

The file is the size of a header in eight bytes, the header in JSON, and the numbers of all tensors
end to end. The `safetensors` package reads the same and copies it, which takes as long as all else
that is done with a small model's weights.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dragoman.storage.binary import Cursor
from dragoman.storage.safe_read import parse_json

_SIZE = 8  # bytes that say how long the header is
_METADATA = "__metadata__"
_KINDS = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16,
    "U32": np.uint32, "I32": np.int32, "U64": np.uint64, "I64": np.int64,
    "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip


def tensors(raw: bytes) -> dict[str, np.ndarray]:
    """Arrays that cannot be written to, in the order in which they lie; a ValueError if this is no
    such file."""
    file = Cursor(raw)
    try:
        written = bytes(file.take(file.number("Q")))
    except ValueError:
        raise ValueError("its header is longer than the file") from None
    first = _SIZE + len(written)
    header = parse_json(written)
    if not isinstance(header, dict):
        raise ValueError("its header lists no tensors")
    header.pop(_METADATA, None)
    listed = [_Tensor.of(name, facts) for name, facts in header.items()]
    arrays: dict[str, np.ndarray] = {}
    place = 0
    for tensor in sorted(listed, key=lambda tensor: (tensor.begin, tensor.end)):
        count = math.prod(tensor.shape)
        fits = tensor.begin == place and tensor.end == place + count * tensor.kind.itemsize
        if not fits or first + tensor.end > len(raw):
            raise ValueError(f"{tensor.name} is not where its header says")
        array = np.frombuffer(raw, tensor.kind, count, first + place).reshape(tensor.shape)
        arrays[tensor.name] = array if array.flags.aligned else array.copy()
        place = tensor.end
    if first + place != len(raw):
        raise ValueError("there is something behind its last tensor")
    return arrays


class _Tensor(NamedTuple):
    name: str
    kind: np.dtype
    shape: list[int]
    begin: int  # in bytes, from the first number of all
    end: int

    @classmethod
    def of(cls, name: str, facts: Any) -> "_Tensor":
        try:
            kind, shape, (begin, end) = facts["dtype"], facts["shape"], facts["data_offsets"]
            numbers = [*shape, begin, end]
            if any(type(number) is not int or number < 0 for number in numbers):
                raise ValueError("a size is no whole number")
            return cls(name, np.dtype(_KINDS[kind]), shape, begin, end)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{name} is described wrongly ({error})") from None
