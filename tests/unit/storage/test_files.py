"""Writing respects existing files: modes, owners, links, devices and pipes stay the same."""

import bz2
import gzip
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from dragoman.errors import RunError
from dragoman.storage.files import (
    _opened_straight,
    replacing,
    storage_errors,
    write_atomically,
    writing,
)
from dragoman.training.checkpoint import Checkpoints, Progress
from tests.conftest import small_model

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")
FULL = 1, 7  # /dev/full


def write(path: Path, text: str = "new") -> None:
    with storage_errors(f"writing {path}"), writing(str(path)) as file:
        file.write(text)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def only(folder: Path, *names: str) -> bool:
    """True if a folder contains exactly these names."""
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o604, 0o444, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, kept) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(kept)
    write(path)
    assert (path.read_text(), mode(path)) == ("new", kept)
    write_atomically(path, b"newer")
    assert (path.read_text(), mode(path)) == ("newer", kept)
    assert only(tmp_path, "out.txt")


@AS_ROOT
def test_a_file_that_is_replaced_keeps_its_owner_and_group(tmp_path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    os.chown(path, 1234, 2345)
    path.chmod(0o640)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (1234, 2345, 0o640)


def test_if_the_group_cannot_be_kept_the_new_one_gets_the_rights_of_all(
    tmp_path, monkeypatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    path = tmp_path / "out.txt"
    for before, after in ((0o640, 0o600), (0o664, 0o644), (0o666, 0o666)):
        path.write_text("old")
        path.chmod(before)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fchown", refuse)
            write(path)
        assert mode(path) == after


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path, umask) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "out.txt")
        write_atomically(tmp_path / "out.bin", b"")
    finally:
        os.umask(before)
    assert mode(tmp_path / "out.txt") == mode(tmp_path / "out.bin") == 0o666 & ~umask


def test_a_private_file_is_private_while_it_is_written(tmp_path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as file:
        file.write(b"secret")
        file.flush()
        (aside,) = set(tmp_path.iterdir()) - {path}
        assert mode(aside) == 0o600
    assert only(tmp_path, "out.txt")


def test_a_link_stays_and_its_target_is_replaced(tmp_path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "real.txt").write_text("old")
    (there / "real.txt").chmod(0o600)
    for name, target in (("one", "there/real.txt"), ("two", "one"), ("new", "there/missing.txt")):
        (tmp_path / name).symlink_to(target)
        write(tmp_path / name, name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == name
    assert mode(there / "real.txt") == 0o600
    assert only(there, "real.txt", "missing.txt")


def test_a_link_to_itself_is_one_clear_line(tmp_path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RunError, match=r"writing .*loop: Too many levels"):
        write(tmp_path / "loop")


def test_a_planted_link_is_not_followed(tmp_path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "out.txt.partial").symlink_to(victim)
    write(tmp_path / "out.txt")
    write_atomically(tmp_path / "out.txt", b"newer")
    assert victim.read_text() == "precious"
    assert (tmp_path / "out.txt.partial").is_symlink()


def test_an_existing_temporary_name_is_never_written_to(tmp_path, monkeypatch) -> None:
    """A file or link with the temporary name, even if guessed, is an error."""
    victim, taken = tmp_path / "victim", tmp_path / "out.txt.00.partial"
    victim.write_text("precious")
    taken.symlink_to(victim)
    monkeypatch.setattr("dragoman.storage.files.secrets.token_hex", lambda _: "00")
    with pytest.raises(RunError, match="File exists"):
        write(tmp_path / "out.txt")
    assert victim.read_text() == "precious"
    assert only(tmp_path, "victim", taken.name)


def test_a_pipe_stays_a_pipe_and_gets_the_text(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    got = list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe)
    reader.join(timeout=300)
    assert got == ["new"]
    assert pipe.is_fifo()


@AS_ROOT
def test_a_device_stays_a_device_and_a_full_one_is_one_clear_line(tmp_path) -> None:
    device = tmp_path / "full"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(*FULL))
        open(device, "wb").close()
    except OSError:
        pytest.skip("no device can be made here")
    for put in (write, lambda path: write_device(path)):
        with pytest.raises(RunError, match="the disk is full"):
            put(device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert only(tmp_path, "full")


def write_device(path: Path) -> None:
    with storage_errors(f"writing {path}"):
        write_atomically(path, b"new")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_has_several_names(name) -> None:
    """Only opened here, never written: broken code must not replace a machine's /dev/stdout."""
    descriptor = _opened_straight(name, None)
    assert descriptor is not None
    assert os.path.sameopenfile(descriptor, 1)
    os.close(descriptor)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files have no names here")
@pytest.mark.parametrize("kind", ["socket", "pipe", "file"])
def test_standard_output_by_name_is_where_the_shell_redirected_it(tmp_path, kind) -> None:
    code = (
        "from dragoman.storage.files import writing\nwith writing('/proc/self/fd/1') as file: "
        "file.write('new')"
    )
    log = tmp_path / "log"
    log.write_text("before ")
    if kind == "file":
        ours, theirs = os.open(log, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    else:
        ours, theirs = (
            os.pipe() if kind == "pipe" else (end.detach() for end in socket.socketpair())
        )
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 100) == (b"before new" if kind == "file" else b"new")
    os.close(ours)
    assert only(tmp_path, "log")


def test_a_folder_is_one_clear_line(tmp_path) -> None:
    with pytest.raises(RunError, match=rf"writing {tmp_path}: Is a directory"):
        write(tmp_path)
    with pytest.raises(RunError, match=r"writing .*/out: No such file or directory\.$"):
        write(tmp_path / "missing" / "out")


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), writing(str(path)) as file:
        file.writelines(["new", "\ud800"])
    assert path.read_text() == "old"
    assert only(tmp_path, "out.txt")


def test_two_simultaneous_writers_leave_one_whole_file(tmp_path) -> None:
    path = tmp_path / "out.txt"
    with writing(str(path)) as first:
        first.write("first " * 100)
        write(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first " * 100
    assert only(tmp_path, "out.txt")


def test_a_long_name_can_be_written(tmp_path) -> None:
    write(tmp_path / ("ü" * 127))
    assert only(tmp_path, "ü" * 127)


def test_a_compressed_file_contains_neither_name_nor_time(tmp_path) -> None:
    for name in ("a.gz", "b.gz"):
        write(tmp_path / name)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"new"
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_bz2_file_is_compressed(tmp_path) -> None:
    write(tmp_path / "out.txt.bz2", "line\n")
    assert bz2.decompress((tmp_path / "out.txt.bz2").read_bytes()) == b"line\n"


def test_a_signal_during_creation_leaves_no_file(tmp_path, monkeypatch) -> None:
    open_file = os.open

    def interrupted(path, *how):
        open_file(path, *how)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "run.toml", b"new")
    assert only(tmp_path)


def noted(monkeypatch) -> list[tuple[str, int]]:
    """Record what is flushed and renamed, by inode, in order."""
    events: list[tuple[str, int]] = []
    flush, rename, replace = os.fsync, os.rename, os.replace

    def note(kind, number, act, *arguments):
        act(*arguments)
        events.append((kind, number))

    monkeypatch.setattr(os, "fsync", lambda d: note("flushed", os.fstat(d).st_ino, flush, d))
    for name, act in (("rename", rename), ("replace", replace)):
        monkeypatch.setattr(
            os,
            name,
            lambda old, new, act=act: note("renamed", Path(old).stat().st_ino, act, old, new),
        )
    return events


def test_a_file_is_on_the_disk_before_it_takes_its_name_and_its_folder_after(
    tmp_path, monkeypatch
) -> None:
    events = noted(monkeypatch)
    write_atomically(tmp_path / "a", b"new")
    file, folder = (tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino
    assert events == [("flushed", file), ("renamed", file), ("flushed", folder)]


def test_a_checkpoint_is_on_the_disk_before_it_takes_its_name_and_its_folder_after(
    tmp_path, monkeypatch
) -> None:
    model = small_model()
    events = noted(monkeypatch)
    Checkpoints(tmp_path, window=1).save(model, torch.optim.SGD(model.parameters()), Progress(3))
    saved = tmp_path / "step-00000003"
    renamed = events.index(("renamed", saved.stat().st_ino))
    for path in (saved, *saved.iterdir()):
        assert ("flushed", path.stat().st_ino) in events[:renamed]
    assert len([*saved.iterdir()]) == 3
    assert ("flushed", tmp_path.stat().st_ino) in events[renamed:]
