"""A safetensors file is read without a copy."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.storage.binary import tensors

NUMBERS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([True, False, True]),
    "c": np.arange(5, dtype=np.uint8),
    "d": np.array(2.5),
    "e": np.zeros((0, 4), dtype=np.int16),
    "f": np.arange(3, dtype=np.float16),
    "g": np.arange(-2, 2, dtype=np.int64),
}
FILE = safetensors.numpy.save(NUMBERS, metadata={"made": "by others"})


def with_header(header: object, numbers: bytes = b"\0" * 8) -> bytes:
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + numbers


def test_files_of_the_safetensors_package_are_read_without_a_copy() -> None:
    read = tensors(FILE)
    assert read.keys() == NUMBERS.keys()
    for name, array in NUMBERS.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)
        assert read[name].shape == array.shape
        assert read[name].flags.aligned
    assert not read["a.weight"].flags.writeable
    assert not read["a.weight"].flags.owndata


def test_unaligned_numbers_are_copied() -> None:
    facts = {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}
    first = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    raw = with_header({"x": facts, "first": first}, b"\7" + np.float32([1, 2]).tobytes())
    assert tensors(raw)["x"].tolist() == [1, 2]
    assert tensors(raw)["x"].flags.aligned


@pytest.mark.parametrize(
    "facts",
    [
        {"shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F8", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 2**66]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0]},
        [],
        None,
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused(facts: object) -> None:
    with pytest.raises(ValueError, match=r"malformed|header says|after its last"):
        tensors(with_header({"x": facts}))


@pytest.mark.parametrize("raw", [b"", b"1234567", b"\xff" * 16, with_header([]), with_header("x")])
def test_other_files_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="header"):
        tensors(raw)


@given(st.integers(0, len(FILE) - 1), st.integers(0, 255))
@example(0, 255)
def test_files_that_safetensors_refuses_are_refused(place: int, byte: int) -> None:
    """One byte of a file is another one."""
    damaged = FILE[:place] + bytes([byte]) + FILE[place + 1 :]
    try:
        read = tensors(damaged)
    except ValueError:
        return
    theirs = safetensors.numpy.load(damaged)
    assert read.keys() == theirs.keys()
    for name, array in theirs.items():
        assert read[name].tobytes() == array.tobytes()
        assert (read[name].shape, read[name].dtype) == (array.shape, array.dtype)
