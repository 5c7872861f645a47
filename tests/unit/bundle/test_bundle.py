import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.errors import BundleError

FILES = [
    "model.safetensors",
    "config.toml",
    "card.json",
    "languages.json",
    "shared.spm",
    "manifest.json",
]


@pytest.fixture
def bundle(trained, tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in FILES:
        shutil.copy(trained / name, folder)
    return folder


def test_a_bundle_needs_nothing_else_and_survives_a_round_trip(bundle, tmp_path) -> None:
    first = read_bundle(bundle)
    write_bundle(tmp_path / "again", first)
    second = read_bundle(tmp_path / "again")
    assert second.config == first.config
    assert second.card == first.card
    assert all(np.array_equal(second.weights[name], array) for name, array in first.weights.items())
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        bundle / "model.safetensors"
    ).read_bytes()


def test_float_weights_are_writable(trained: Path) -> None:
    """Stored weights are read-only views of the file."""
    bundle = read_bundle(trained)
    assert not any(array.flags.writeable for array in bundle.weights.values())
    assert all(array.flags.writeable for array in bundle.float_weights().values())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "empty"])
def test_damage_is_reported_with_the_file(bundle, name: str, damage: str) -> None:
    path = bundle / name
    raw = path.read_bytes()
    middle = len(raw) // 2
    path.unlink()
    if damage != "remove":
        flipped = raw[:middle] + bytes([raw[middle] ^ 0x40]) + raw[middle + 1 :]
        path.write_bytes({"flip": flipped, "truncate": raw[:-3], "empty": b""}[damage])
    with pytest.raises(BundleError) as caught:
        read_bundle(bundle)
    assert str(bundle) in str(caught.value)
    if not (name == "manifest.json" and damage == "flip"):
        assert name in str(caught.value)


@pytest.mark.parametrize("name", [name for name in FILES if name != "manifest.json"])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_shorter_or_longer_than_its_manifest_says_is_refused_by_its_size(
    bundle, name: str, change: int
) -> None:
    """Before it is read: a size costs nothing to compare."""
    size = (bundle / name).stat().st_size
    os.truncate(bundle / name, size + change)
    with pytest.raises(BundleError, match=rf"{name} has [\d,]+ bytes, its manifest says {size}:"):
        read_bundle(bundle)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 99}, "format 99"),
        ({"files": {"../../etc/passwd": {"size": 1, "sha256": ""}}}, "not part of a bundle"),
        ({"files": {}}, "does not list model.safetensors"),
        ({"files": 3}, "cannot be read"),
    ],
)
def test_a_false_manifest_is_refused(bundle, change: dict, words: str) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(BundleError, match=words):
        read_bundle(bundle)


def test_a_link_out_of_the_bundle_is_not_followed(bundle, tmp_path) -> None:
    (bundle / "card.json").rename(tmp_path / "elsewhere.json")
    (bundle / "card.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(BundleError, match="leads out of the bundle"):
        read_bundle(bundle)


def test_missing_and_unfinished_folders_have_their_own_messages(tmp_path) -> None:
    with pytest.raises(BundleError, match="no such model folder"):
        read_bundle(tmp_path / "nowhere")
    with pytest.raises(BundleError, match="not a model folder"):
        read_bundle(tmp_path)
    (tmp_path / "run.toml").touch()
    with pytest.raises(BundleError, match="--resume"):
        read_bundle(tmp_path)
