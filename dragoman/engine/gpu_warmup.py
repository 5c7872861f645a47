"""Wake the GPU in threads while Python imports PyTorch.

The import takes more than a second, mostly in Python. Creating the driver's context and hashing
Triton's compiler do not hold the interpreter lock, so threads can do both meanwhile. If they fail,
the work is simply done later.
"""

from contextlib import suppress
from threading import Thread


def wake_gpu() -> None:
    """Start waking the GPU. After this call the process can no longer fork."""
    for work in (_open_context, _compute_key):
        Thread(target=work, daemon=True).start()


def _open_context() -> None:
    """Open the context that PyTorch will use: the primary one of the first visible GPU."""
    import ctypes  # imported here: only needed with a GPU

    # The primary context, because PyTorch uses it, too; it is never released.
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(device), 0):
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def _compute_key() -> None:
    """Compute the key of Triton's cache, a hash of the whole compiler, which Triton keeps."""
    with suppress(ImportError, OSError):
        from triton.runtime.cache import triton_key

        triton_key()
