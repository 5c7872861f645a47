"""Prefetched files are the files that would be read later, with the same checks."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from dragoman.bundle.folder import BundleError, _verified
from dragoman.storage import prefetch
from dragoman.storage.prefetch import WEIGHTS, prefetch_weights, take_prefetched


@pytest.fixture(autouse=True)
def nothing_prefetched() -> None:
    """A command line that ran in this process may have left a model that it did not load."""
    for path in [*prefetch._begun]:
        take_prefetched(path)


@pytest.fixture
def weights(tmp_path) -> Path:
    path = tmp_path / WEIGHTS
    path.write_bytes(safetensors.numpy.save({"a": np.ones(3, dtype=np.float32)}))
    return path


def facts(raw: bytes) -> dict[str, object]:
    return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def test_a_file_is_read_once_and_handed_out_once(weights, monkeypatch) -> None:
    raw = weights.read_bytes()
    prefetch_weights(str(weights.parent))
    prefetch._begun[weights].join()
    monkeypatch.setattr("dragoman.bundle.folder.read_regular", None)
    assert _verified(weights, facts(raw), 1000) == raw
    assert take_prefetched(weights) is None


def test_a_damaged_prefetched_file_is_refused(weights) -> None:
    raw = weights.read_bytes()
    weights.write_bytes(raw[:-1] + b"\0")
    prefetch_weights(str(weights.parent))
    with pytest.raises(BundleError, match="does not match its SHA-256"):
        _verified(weights, facts(raw), 1000)


def test_a_prefetched_file_that_is_too_large_is_refused(weights) -> None:
    raw = weights.read_bytes()
    prefetch_weights(str(weights.parent))
    with pytest.raises(BundleError, match="at most 10"):
        _verified(weights, facts(raw), 10)


def test_an_unreadable_file_is_left_to_the_normal_reader(weights, tmp_path) -> None:
    for model in ("no/such/model", "a,b", "\0"):
        prefetch_weights(model)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / WEIGHTS).symlink_to(weights)
    prefetch_weights(str(folder))
    assert not prefetch._begun


def test_without_a_name_the_bundled_model_is_prefetched() -> None:
    prefetch_weights("")
    (path,) = prefetch._begun
    content = take_prefetched(path)
    assert content is not None
    assert hashlib.sha256(content.raw).hexdigest() == content.sha256
