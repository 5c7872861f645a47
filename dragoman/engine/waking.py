"""A GPU is woken while Python is busy with imports.

Importing PyTorch takes more than a second, most of it in Python. What the driver does to make a
context, and a hash of Triton's compiler, do not need Python's lock: threads do that meanwhile.
Whoever needs it afterwards finds it done, or does it then if something went wrong here.
"""

from contextlib import suppress
from threading import Thread


def wake_gpu() -> None:
    """Begin to talk to the GPU. A process that did so can no longer be forked."""
    for work in (_open_context, _compute_key):
        Thread(target=work, daemon=True).start()


def _open_context() -> None:
    """The one that PyTorch will use: that of the first GPU which this process may see."""
    import ctypes  # those who have no GPU do without

    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(device), 0):
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def _compute_key() -> None:
    """Of Triton's cache: it covers every byte of the compiler, and is computed once."""
    with suppress(ImportError, OSError):
        from triton.runtime.cache import triton_key

        triton_key()
