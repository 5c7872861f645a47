"""The compiled operators: whether there are any, and for what kind of CPU they are."""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dragoman.bundle.int8 import ZERO
from dragoman.engine.onnx.kernels import Factors, best_factors

PANEL = 64  # columns of a matrix that lie together
GROUP = 4  # numbers of a column that do
LANES = 16  # what an attention's features are a multiple of
KINDS = "amx", "vnni", "avxvnni", "avx512", "avx2", "dotprod"  # of kernels, the best first
EXACT = "amx", "vnni", "avxvnni", "dotprod"  # those that any weights are exact for
UNTIMED = ("dotprod",)  # only tried in an emulator: for whoever asks


@cache
def path() -> Path | None:
    """Where the library is; None if this installation has none."""
    file = Path(__file__).with_name("operators.ort.so")
    return file if file.exists() else None


@cache
def kind() -> str:
    """Which kernels this CPU gets, those that the environment asks for or the first of `KINDS` that
    it has; empty: none."""
    if not path():
        return ""
    asked = os.environ.get("DRAGOMAN_KERNELS")
    kinds = (asked,) if asked else [kind for kind in KINDS if kind not in UNTIMED]
    return next((kind for kind in kinds if use(kind)), "")


def use(kind: str) -> bool:
    """Kernels of this kind are used from now on, if this CPU has them; whether it has."""
    return bool(_functions().dragoman_use(kind.encode()))


def usable() -> bool:
    """Whether this CPU has kernels here that are exact for the weights it gets.

    Those before VNNI add pairs of products in 16 bits. A CPU may have another instruction, for
    which there is no kernel here; then its weights are too large for that.
    """
    return kind() in EXACT or (kind() != "" and best_factors() is Factors.SMALL_PAIRS)


def factors() -> Factors:
    """What the kernels take, without asking ONNX Runtime's."""
    return Factors.SIGNED if kind() in EXACT else Factors.SMALL_PAIRS


def middle() -> int:
    """What the kernels take from the bytes of activations before they multiply: Arm's dot products
    want both factors with a sign."""
    return ZERO if kind() == "dotprod" else 0


def described() -> str:
    """Which operators run here, or why none do."""
    if not path():
        return "none: not compiled when dragoman was installed"
    return f"for {kind()}" if usable() else "none for this CPU"


class Matrix(NamedTuple):
    """Columns in the order in which the operators read them: panels of 64, filled up with zeros."""

    rows: np.ndarray  # as a bundle stores them (N, K), in bytes around 128, or signed ones
    packed: np.ndarray  # (panels, K/4, 64, 4), signed
    sums: np.ndarray  # (N,) of each column

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
    functions = ctypes.CDLL(str(path()))
    functions.dragoman_use.argtypes = (ctypes.c_char_p,)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    functions.dragoman_pack.argtypes = pointer, size, size, ctypes.c_int, pointer, pointer
    functions.dragoman_pack.restype = None
    return functions
