"""Reading files of an untrusted folder."""

import os
import socket
from pathlib import Path

import pytest

from dragoman.storage.safe_read import DEEPEST, escapes_folder, parse_json, parse_toml, read_regular
from tests.forging import nothing_hangs


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_pipe, make_socket, link_to_device, Path.mkdir])
def test_only_regular_files_are_read_without_waiting(tmp_path: Path, make) -> None:
    make(tmp_path / "it")
    with nothing_hangs(), pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "it", 100)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(100 * 2**30)
    with pytest.raises(OSError, match=r"107,374,182,400 bytes, at most 1,000"):
        read_regular(tmp_path / "sparse", 1000)
    (tmp_path / "small").write_bytes(b"x" * 1000)
    assert read_regular(tmp_path / "small", 1000) == b"x" * 1000


def test_links_out_of_a_folder_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, target in (
        ("stays", "other"),
        ("leaves", "../secret"),
        ("turns", "turns"),
        ("far", "/etc/passwd"),
    ):
        (tmp_path / "in" / name).symlink_to(target)
    told = {
        name: escapes_folder(tmp_path / "in" / name, tmp_path / "in")
        for name in ("stays", "leaves", "turns", "far")
    }
    assert told == {"stays": False, "leaves": True, "turns": False, "far": True}


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deeply_nested_json_raises_a_value_error(depth: int, opening: str, closing: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json((opening * depth + "1" + closing * depth).encode())
    shallow = opening * (DEEPEST - 1) + "1" + closing * (DEEPEST - 1)
    parse_json(shallow.encode())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=" + "[" * 100_000, "nested too deeply"),
        ("a=" + "{a=" * 100_000, "nested too deeply"),
        (".".join("a" * 100_000) + "=1", "dots"),
        ("[" + ".".join("a" * 100_000) + "]", "dots"),
    ],
)
def test_toml_that_exhausts_the_stack_or_takes_minutes_is_refused(text: str, words: str) -> None:
    with nothing_hangs(), pytest.raises(ValueError, match=words):
        parse_toml(text.encode())
