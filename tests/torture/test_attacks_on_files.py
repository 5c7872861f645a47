"""Attacks on the command line: files, names, settings, texts and cards. One line each, nothing
obeyed."""

import hashlib
import json
import os
import pty
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dragoman.bundle.folder import PRETRAINED, bundled_models
from dragoman.cli.translating import Shown
from dragoman.config import DecodingConfig, make_config, parse_set
from dragoman.config.settings import environment_number
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import Translator
from dragoman.errors import ConfigError
from dragoman.lab.explain.attention_figure import AttentionFigure, Box, Label, to_svg
from dragoman.text.parallel import read_lines

EVIL = "\x1b[2J\x1b]0;owned\x07 [red]x[/nope]\r\ndragoman: all is well\n\x9b31m\u202e\u2028end"
COMMANDS = set("\x00\x07\x1b\r\x9b\u202e\u2028")


def one_line(text: str) -> bool:
    return text.endswith("\n") and len(text.splitlines()) == 1 and not set(text) & COMMANDS


@pytest.fixture
def model(tmp_path) -> Path:
    """A model of one's own; its card can be forged."""
    folder = tmp_path / "model"
    shutil.copytree(PRETRAINED / bundled_models()[0], folder)
    return folder


def forge_card(folder: Path, card: object) -> None:
    raw = json.dumps(card).encode()
    (folder / "card.json").write_bytes(raw)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["card.json"] = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_card_cannot_command_a_terminal_or_forge_a_line(model, dragoman) -> None:
    plain = len(dragoman("info", model).out.splitlines())
    card = json.loads((model / "card.json").read_text())
    forge_card(model, card | {"made by": EVIL, EVIL: "name"})
    said = dragoman("info", model)
    assert said.code == 0
    assert not set(said.out) & COMMANDS
    assert len(said.out.splitlines()) == plain + 2
    assert "[red]x[/nope]" in said.out
    facts = json.loads(dragoman("info", model, "--json").out)
    assert facts["made by"] == EVIL


@pytest.mark.parametrize(
    "card",
    [
        {"from": 5},
        {"scores": 7},
        {"scores": [{}]},
        {"scores": [{"name": "B", "value": "x", "signature": ""}]},
    ],
)
def test_a_card_that_is_none_is_one_clear_line(model, dragoman, card) -> None:
    forge_card(model, card)
    said = dragoman("info", model)
    assert said.code == 1
    assert one_line(said.err)
    assert "card.json" in said.err


def test_an_error_that_quotes_a_file_stays_one_line(tmp_path, dragoman) -> None:
    name = f"{EVIL.replace('/', '')}.de"
    for arguments in (
        ("translate", "--input", tmp_path / name),
        ("translate", "--model", name, "a"),
        ("translate", "--to", EVIL, "a"),
        ("translate", "a", "--set", f"decoding.{EVIL}=1"),
        ("translate", "a", "--set", f"decoding.length_penalty={EVIL}"),
    ):
        said = dragoman(*arguments)
        assert said.code == 1
        assert one_line(said.err), said.err
        assert not said.out


def test_a_translation_cannot_command_a_terminal() -> None:
    """A pipe gets the text unchanged, and JSON is the same everywhere."""
    translation = Translation("a", (Candidate("red \x1b[31m\x9b", -1.0),))
    assert Shown(1, False, False)(translation) == "red \x1b[31m\x9b\n"
    assert Shown(2, False, False, terminal=True)(translation) == "-1.0000\tred \\u001b[31m\\u009b\n"
    for terminal in (True, False):
        line = Shown(1, False, True, terminal)(translation)
        assert one_line(line)
        assert json.loads(line)["translations"][0]["text"] == "red \x1b[31m\x9b"


def test_a_terminal_is_noticed_whether_named_or_not(tmp_path, dragoman, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(
        Shown, "__call__", lambda self, translation: seen.append(self.terminal) or ""
    )
    ours, theirs = pty.openpty()
    assert dragoman("translate", "--to", "en", "Ja.", "--output", os.ttyname(theirs)).code == 0
    assert dragoman("translate", "--to", "en", "Ja.", "--output", tmp_path / "out").code == 0
    os.close(ours)
    os.close(theirs)
    assert seen == [True, False]


def test_a_figure_of_any_piece_is_well_formed() -> None:
    label = f"</text><script>alert(1)</script>&{EVIL}\x00"
    drawn = to_svg(
        AttentionFigure(9, 9, [Box(0, 0, 1, 1, (0, 0, 0))], [Label(0, 0, label, "start")])
    )
    root = ET.fromstring(drawn)
    assert [child.tag.split("}")[1] for child in root] == ["rect", "text"]


@pytest.mark.parametrize(
    "value", ["abc", "-1", "0", "1e6", "", "9" * 5000, "１２", "\x1b[31m", "0x10"]
)
def test_an_environment_variable_that_is_no_number_is_one_clear_line(
    tmp_path, dragoman, monkeypatch, value
) -> None:
    (tmp_path / "a.de").write_text("Ja.\n")
    monkeypatch.setenv("DRAGOMAN_LONGEST_LINE", value)
    (tmp_path / "a.en").write_text("Yes.\n")
    said = dragoman("check", tmp_path / "a.de", tmp_path / "a.en")
    if not value:  # as if it were not set
        assert said.code == 0
        return
    assert said.code == 1
    assert one_line(said.err)
    assert "DRAGOMAN_LONGEST_LINE" in said.err
    assert len(said.err) < 200


def test_numbers_from_the_environment_have_limits(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DRAGOMAN_LONGEST_LINE", "3")
    (tmp_path / "a.de").write_text("Ja.\n")
    with pytest.raises(Exception, match="has over 3 bytes"):
        list(read_lines(tmp_path / "a.de"))
    monkeypatch.setenv("SOME_NUMBER", "7")
    assert environment_number("SOME_NUMBER", 1) == 7
    assert environment_number("NO_SUCH_NUMBER", 1) == 1


DEEP = 100_000


@pytest.mark.parametrize(
    "toml",
    [
        "a = " + "[" * DEEP,
        "a = " + "{a = " * DEEP,
        ".".join(["model"] * 3000) + " = 1",
        ".".join(["model", "width", *["a"] * 3000]) + " = 1",
        "model.d_model = " + "9" * 5000,
        "model.d_model = 0x" + "f" * 50_000,
        "model.dropout = 0x" + "f" * 50_000,
        "model.d_model = " + "[" * 400 + "]" * 400,
    ],
    ids=["list", "table", "names", "value", "digits", "hexadecimal", "float", "shallow"],
)
def test_settings_nested_or_long_without_end_are_one_clear_line(tmp_path, dragoman, toml) -> None:
    (tmp_path / "x.toml").write_text(toml)
    (tmp_path / "a.de").write_text("Ja.\n")
    files = tmp_path / "a.de", tmp_path / "a.de"
    said = dragoman("prepare", *files, "--out", tmp_path / "out", "--config", tmp_path / "x.toml")
    assert said.code == 1
    assert one_line(said.err)
    key, _, value = toml.partition(" = ")
    with pytest.raises(ConfigError):
        make_config("tiny", settings=parse_set([f"{key}={value}"]))


@pytest.mark.parametrize("number", [0, 1001, 10**9])
def test_more_translations_than_a_beam_may_have_are_refused(dragoman, number) -> None:
    assert dragoman("translate", "a", "--to", "en", "--nbest", number).code == 2
    assert dragoman("translate", "a", "--to", "en", "--beam", number).code == 2
    translator = Translator.load("")
    for request in (
        Request(to="en", nbest=number),
        Request(to="en", nbest=number, sampling=Sampling()),
        Request(to="en", decoding=DecodingConfig(beam_size=number)),
    ):
        with pytest.raises(ConfigError, match=f"is {number}: it must be from 1 to 1000"):
            translator.translate(["Ja."], request)


def translate_into(path: Path, **more: object) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "dragoman",
        "translate",
        "--to",
        "en",
        "Ja.",
        "--output",
        str(path),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_full_device_as_output_is_one_clear_line_and_stays_a_device(tmp_path) -> None:
    device = tmp_path / "full"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        open(device, "wb").close()
    except OSError:
        pytest.skip("no device can be made here")
    done = translate_into(device)
    assert done.returncode == 1
    assert one_line(done.stderr)
    assert "the disk is full" in done.stderr
    assert stat.S_ISCHR(device.stat().st_mode)


def test_shards_are_not_joined_into_a_pipe(tmp_path, dragoman) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.de").write_text("Ja.\n")
    said = dragoman(
        "synthesize", "--to", "en", "--input", tmp_path / "a.de", "--output", tmp_path / "pipe"
    )
    assert said.code == 1
    assert one_line(said.err)
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "pipe.parts").exists()


def test_a_cleaned_copy_replaces_no_link(tmp_path, dragoman) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "kept").write_text("")
    (tmp_path / "kept").chmod(0o600)
    (out / "changes.tsv").symlink_to(tmp_path / "kept")
    for name in ("a.de", "a.en"):
        (tmp_path / name).write_text("Ja.\n\n")
    assert dragoman("check", tmp_path / "a.de", tmp_path / "a.en", "--fix", out).code == 0
    assert (out / "changes.tsv").is_symlink()
    assert "removed" in (tmp_path / "kept").read_text()
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o600
