"""Load the compiled operators, choose kernels for this CPU, and pack matrices for them."""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dragoman.bundle.int8 import ZERO
from dragoman.engine.onnx.kernels import Factors, best_factors

PANEL = 64  # contiguous columns of a packed matrix
GROUP = 4  # contiguous numbers of a column
LANES = 16  # the features of a head must be a multiple of this
KINDS = "amx", "vnni", "avxvnni", "avx512", "avx2", "dotprod"  # kinds of kernels, fastest first
EXACT = "amx", "vnni", "avxvnni", "dotprod"  # kinds that never saturate
UNTIMED = ("dotprod",)  # only tried in an emulator, so the user must ask for them


@cache
def path() -> Path | None:
    """Return the path of the library, or None if it was not compiled."""
    file = Path(__file__).with_name("operators.ort.so")
    return file if file.exists() else None


@cache
def kind() -> str:
    """Choose the kernels: the kind that the environment names, or the first that this CPU supports.

    Return an empty string if there is none.
    """
    if not path():
        return ""
    requested = os.environ.get("DRAGOMAN_KERNELS")
    kinds = (requested,) if requested else [kind for kind in KINDS if kind not in UNTIMED]
    return next((kind for kind in kinds if use(kind)), "")


def use(kind: str) -> bool:
    """Switch to this kind of kernels; return False if this CPU does not support them."""
    return bool(_functions().dragoman_use(kind.encode()))


def usable() -> bool:
    """True if our kernels compute exact products on this CPU."""
    # Kernels before VNNI need weights with small pairs. The bundle's weights are prepared for ONNX
    # Runtime, which may have a kernel without that need where we have none.
    return kind() in EXACT or (kind() != "" and best_factors() is Factors.SMALL_PAIRS)


def factors() -> Factors:
    """Return the format of weights that our kernels need."""
    return Factors.SIGNED if kind() in EXACT else Factors.SMALL_PAIRS


def middle() -> int:
    """Return the number that the kernels subtract from the bytes of activations."""
    # Arm's dot products need signed factors on both sides.
    return ZERO if kind() == "dotprod" else 0


def described() -> str:
    """Describe the operators that run here, or why none do."""
    if not path():
        return "none: not compiled when dragoman was installed"
    return f"for {kind()}" if usable() else "none for this CPU"


class Matrix(NamedTuple):
    """A matrix whose columns are in the order in which the operators read them.

    The columns are in panels of 64, padded with zeros.
    """

    rows: np.ndarray  # (N, K) from the bundle: bytes with zero point 128, or signed bytes
    packed: np.ndarray  # (panels, K/4, 64, 4), signed
    sums: np.ndarray  # (N,) the sum of each column

    @classmethod
    def of(cls, rows: np.ndarray) -> "Matrix":
        count, depth = rows.shape
        assert rows.flags.c_contiguous
        packed = np.empty((-(-count // PANEL), depth // GROUP, PANEL, GROUP), dtype=np.int8)
        sums = np.empty(count, dtype=np.int32)
        _functions().dragoman_pack(
            rows.ctypes.data,
            count,
            depth,
            rows.dtype == np.uint8,
            packed.ctypes.data,
            sums.ctypes.data,
        )
        return cls(rows, packed, sums)


@cache
def _functions() -> ctypes.CDLL:
    # Without argument types, ctypes would pass pointers as 32-bit integers.
    functions = ctypes.CDLL(str(path()))
    functions.dragoman_use.argtypes = (ctypes.c_char_p,)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    functions.dragoman_pack.argtypes = pointer, size, size, ctypes.c_int, pointer, pointer
    functions.dragoman_pack.restype = None
    return functions
