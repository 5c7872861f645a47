"""The service returns free memory to the system."""

import asyncio
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from dragoman.serve import heap
from dragoman.serve.app import create_app
from dragoman.serve.service import Service

SMALL = 100_000  # bytes: such arrays are in a heap


def anonymous_mib() -> float:
    status = Path("/proc/self/status").read_text()
    size = re.search(r"RssAnon:\s+(\d+)", status)
    assert size
    return int(size[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the system's own figures are needed")
def test_free_pages_between_used_arrays_are_returned() -> None:
    arrays = [np.ones(SMALL, dtype=np.uint8) for _ in range(1000)]
    held = anonymous_mib()
    del arrays[:-1]  # the last one keeps the heap from becoming shorter
    heap.give_back()
    assert held - anonymous_mib() > 60
    assert arrays[0].all()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is needed")
def test_a_large_array_has_pages_of_its_own_whatever_was_given_back_before() -> None:
    """Runs in a process of its own, since the option lasts as long as the process."""
    lines = [
        "import asyncio, ctypes",
        "from dragoman.serve import heap",
        "libc = ctypes.CDLL(None)",
        "libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]",
        "libc.free.argtypes = [ctypes.c_void_p]",
        "class Info(ctypes.Structure):",
        "    _fields_ = [(str(n), ctypes.c_size_t) for n in range(10)]",
        "libc.mallinfo2.restype = Info",
        "pages = lambda: getattr(libc.mallinfo2(), '3')  # hblks: areas with pages of their own",
        "try: asyncio.run(asyncio.wait_for(heap.keep_small(lambda: 0), 0.01))",
        "except TimeoutError: pass",
        "libc.free(libc.malloc(16 << 20))",
        "before = pages()",
        "kept = libc.malloc(2 << 20)",
        "print(pages() - before)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr


def test_memory_is_given_back_once_for_work_that_was_done(monkeypatch) -> None:
    works = [0, 0, 0, 5, 5, 5, 5]  # the value at each call
    times = 0

    def give_back() -> None:
        nonlocal times
        times += 1

    def work_done() -> int:
        if not works:
            raise EOFError
        return works.pop(0)

    monkeypatch.setattr(heap, "_EVERY_S", 0.0)
    monkeypatch.setattr(heap, "give_back", give_back)
    with pytest.raises(EOFError):
        asyncio.run(heap.keep_small(work_done))
    assert times == 1


def test_a_service_that_has_translated_gives_memory_back(trained, monkeypatch) -> None:
    gave_back = threading.Event()
    monkeypatch.setattr(heap, "_EVERY_S", 0.01)
    monkeypatch.setattr(heap, "give_back", gave_back.set)
    with TestClient(create_app(Service([str(trained)], device="cpu"))) as client:
        text = {"text": "eins", "source": "de", "target": "en"}
        assert client.post("/v1/translate", json=text).status_code == 200
        assert gave_back.wait(60)
