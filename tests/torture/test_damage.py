"""Damaged bundles and full disks: one clear line, never a traceback, nothing lost."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.bundle.folder import read_bundle
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import BundleError, ConfigError
from tests.conftest import QUICK_RUN, toy_pairs, write_corpus
from tests.processes import run
from tests.unit.bundle.test_bundle import FILES

FLIPS = int(os.environ.get("DRAGOMAN_FLIPS", "200"))


@pytest.fixture
def bundle(trained, tmp_path) -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in FILES:
        shutil.copy(trained / name, folder)
    return folder


def test_one_flipped_or_missing_byte_anywhere_is_noticed(bundle, capsys) -> None:
    draw = random.Random(3)
    originals = {name: (bundle / name).read_bytes() for name in FILES}
    for number in range(FLIPS):
        name = draw.choice([n for n in FILES if n != "manifest.json"])
        raw = bytearray(originals[name])
        place = draw.randrange(len(originals[name]))
        if number % 2:
            raw[place] ^= 1 << draw.randrange(8)
        else:
            del raw[place:]
        (bundle / name).write_bytes(raw)
        with pytest.raises(BundleError, match=name.replace(".", r"\.")):
            read_bundle(bundle)
        (bundle / name).write_bytes(originals[name])
    read_bundle(bundle)
    with capsys.disabled():
        print(f"\n{FLIPS} damaged bundles, all refused")


def test_damage_with_a_manifest_to_match_never_ends_in_a_traceback(bundle, capsys) -> None:
    """A forger of the hashes too can change weights, but gets only our own errors."""
    draw = random.Random(5)
    originals = {name: (bundle / name).read_bytes() for name in FILES}
    refused = 0
    for _ in range(FLIPS):
        name = draw.choice(
            ["config.toml", "languages.json", "card.json", "model.safetensors", "shared.spm"]
        )
        raw = bytearray(originals[name])
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(min(len(raw), 3000))  # in the headers and settings
            raw[place : place + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        (bundle / name).write_bytes(raw)
        manifest = json.loads(originals["manifest.json"])
        manifest["files"][name] = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        (bundle / "manifest.json").write_text(json.dumps(manifest))
        try:
            TorchEngine.from_bundle(read_bundle(bundle), "cpu")
        except (BundleError, ConfigError):
            refused += 1
        (bundle / name).write_bytes(originals[name])
    with capsys.disabled():
        print(f"\n{FLIPS} forged bundles, {refused} refused, the others loaded")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_one_clear_line_and_loses_nothing(small_disk, dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(200))
    settings = ["checkpoint_every=1", "average=20", "max_steps=40"]
    command = ["train", *map(str, corpus), *QUICK_RUN]
    command += [f"--set=training.{setting}" for setting in settings]
    done = run(tmp_path / "said", *command, "--out", small_disk / "run")
    assert done.code == 1
    said = [line for line in done.err.splitlines() if line.startswith("dragoman: ")]
    assert len(said) == 1
    assert "the disk is full" in said[0]
    assert "Traceback" not in done.err
    before = sorted((small_disk / "run" / "checkpoints").glob("step-????????"))
    assert len(before) > 1
    shutil.copytree(small_disk / "run", tmp_path / "moved")  # more space elsewhere
    resumed = dragoman(*command, "--out", tmp_path / "moved", "--resume")
    assert resumed.code == 0, resumed.err


def test_a_folder_that_cannot_be_written_is_one_clear_line(dragoman, trained) -> None:
    command = ["translate", "eins", "--model", str(trained), "--device", "cpu"]
    answer = dragoman(*command, "--output", "/proc/nothing/out.txt")
    assert answer.code == 1
    assert len(answer.err.strip().splitlines()) == 1, answer.err
    with open("/dev/full", "w") as file:  # a process of its own, whose standard output this is
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "translate", "--to", "en", "Ja."],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_read_only_folder_is_one_clear_line_and_a_run_there_stays_whole(
    small_disk, tmp_path
) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(200))
    there = small_disk / "run"
    command = ["train", *map(str, corpus), *QUICK_RUN]
    short = ["max_steps=4", "validate_every=0", "average=1"]
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    first = [*command, *(f"--set=training.{setting}" for setting in short)]
    assert run(tmp_path / "said", *first, "--out", there).code == 0
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for more in (
        ["--out", small_disk / "new"],
        ["--out", there, "--resume", "--set", "training.max_steps=9"],
    ):
        done = run(tmp_path / "said", *command, *more)
        assert done.code == 1
        said = [line for line in done.err.splitlines() if line.startswith("dragoman: ")]
        assert len(said) == 1, done.err
        assert "Traceback" not in done.err
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before
