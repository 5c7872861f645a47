"""A reader in its own process gives the same answers, within limits that it cannot exceed."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import format_of, read
from dragoman.documents.inline import SentenceResult
from dragoman.documents.sandbox import Reader, ReaderLimits
from tests import attacks

PAGE = b"<p>Hello <b>you</b>. And me.</p><p>One <i>more</i></p>"


def shouted(reader: Reader) -> bytes:
    """Return the file with its sentences in capital letters."""
    return reader.translate(
        lambda sentences: [SentenceResult(sentence.text.upper()) for sentence in sentences]
    )


def test_a_file_is_read_and_written_as_in_this_process():
    with Reader() as reader:
        outline = reader.open("a.html", PAGE, "html")
        document = read("a.html", PAGE, format_of("a.html"))
        assert outline.segments == len(document.segments)
        assert reader.unchanged() == document.write(document.segments) == PAGE
        assert shouted(reader) == b"<p>HELLO <b>YOU</b>. AND ME.</p><p>ONE <i>MORE</i></p>"


def test_a_missing_package_is_reported_in_one_line_and_the_reader_survives(tmp_path, monkeypatch):
    (tmp_path / "yaml.py").write_text("raise ModuleNotFoundError('none here', name='yaml')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Reader() as reader:
        message = r"^a\.yaml: this needs yaml: pip install .*documents"
        with pytest.raises(DocumentError, match=message):
            reader.open("a.yaml", b"a: Hello.", "yaml")
        assert reader.open("a.html", PAGE, "html").segments == 2


def test_a_reader_survives_a_refused_file():
    with Reader() as reader:
        with pytest.raises(DocumentError, match=r"a\.docx.*DTD"):
            reader.open("a.docx", attacks.defaults_of_attributes(), "docx")
        with pytest.raises(DocumentError, match="3 characters to translate, 2 are taken"):
            reader.open("a.txt", b"abc", "text", max_characters=2)
        assert reader.reusable
        assert reader.open("a.txt", "é\ud800".encode("utf-8", "replace"), "text").segments == 1


def test_a_reader_that_has_grown_takes_what_a_fresh_one_takes():
    limits = ReaderLimits(memory_bytes=20 * 2**20, memory_times=0)
    with Reader() as reader:
        assert reader.open("a.html", PAGE * 1_000, "html", limits=limits).segments == 2_000
    with Reader() as reader:
        reader.open("b.html", PAGE * 10_000, "html", limits=ReaderLimits(2**31))
        assert reader.open("a.html", PAGE * 1_000, "html", limits=limits).segments == 2_000


def test_a_reader_whose_memory_does_not_shrink_is_not_used_again(tmp_path, monkeypatch):
    """The package that reads one format keeps 100 MiB for itself."""
    (tmp_path / "yaml.py").write_text(
        "kept = bytearray(100 * 2**20)\n"
        "class YAMLError(Exception): problem_mark = problem = None\n"
        "SafeLoader = None\n"
        "def compose_all(*arguments): raise YAMLError\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Reader() as reader:
        reader.open("a.html", PAGE, "html")
        assert shouted(reader)
        assert reader.reusable
        with pytest.raises(DocumentError, match=r"a\.yaml"):
            reader.open("a.yaml", b"a: Hello.", "yaml", limits=ReaderLimits(2**31))
        assert not reader.reusable


def test_options_reach_the_reader():
    with Reader() as reader:
        reader.open("t", b"a <x>b</x>", "tagged", ReadOptions(ignored=("x",)))
        assert shouted(reader) == b"A <x>b</x>"


def test_memory_has_a_limit():
    with Reader() as reader:
        letters = b"<p>" * 3_000_000
        with pytest.raises(DocumentError, match=r"memory|process reading it was killed"):
            reader.open("a.html", letters, "html", limits=ReaderLimits(2**20, 1))


def test_a_reader_without_memory_takes_no_further_file():
    with Reader() as reader:
        with pytest.raises(DocumentError, match="too much memory"):
            reader.open("a.html", b"&" * 10**6, "html")
        # Its process may not have ended yet.
        assert not reader.reusable


def test_processor_time_has_a_limit():
    with Reader() as reader:
        reader.open("a.txt", b"Hello.", "text", limits=ReaderLimits(cpu_s=0))
        with pytest.raises(DocumentError, match=r"processor time|takes longer"):
            # much work of an honest kind
            reader.open("a.html", PAGE * 60_000, "html", limits=ReaderLimits(2**31, cpu_s=0))


def test_a_small_file_gets_less_processor_time_than_a_large_one():
    """This one names 999,999,999 objects, and its parser looks for each."""
    raw = (
        b"%PDF-1.5\n1 0 obj\n<</Type/XRef/Size 999999999/W[1 1 1]/Index[0 999999999]/Root 2 0 R"
        b"/Length 3>>\nstream\nabc\nendstream\nendobj\n2 0 obj\n<</Type/Catalog/Pages 2 0 R>>\n"
        b"endobj\nstartxref\n9\n%%EOF"
    )
    limits = ReaderLimits(cpu_s=600, wall_s=600)
    with Reader() as reader, pytest.raises(DocumentError, match="more than 4 s of processor time"):
        reader.open("a.pdf", raw, "pdf", limits=limits)
    assert limits.cpu_for(10**6) > 10 * limits.cpu_for(len(raw))


def test_wall_time_has_a_limit_and_killing_a_reader_raises_an_error():
    with Reader() as reader:
        with pytest.raises(DocumentError, match="took longer than"):
            reader.open("a.html", PAGE * 60_000, "html", limits=ReaderLimits(2**31, wall_s=0.01))
        assert not reader.reusable
    with Reader() as reader:
        threading.Timer(0.05, reader.kill).start()
        with pytest.raises(DocumentError, match="process reading it was killed"):
            reader.open("a.html", PAGE * 60_000, "html", limits=ReaderLimits(2**31))


def test_a_reader_leaves_no_process():
    reader = Reader()
    number = reader._process.pid
    reader.open("a.txt", b"Hello.", "text")
    reader.kill()
    for _ in range(100):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("it is still there")


OLD_WORD = b"\xd0\xcf\x11\xe0"


@pytest.fixture
def slow_office(tmp_path, monkeypatch):
    """A LibreOffice that starts another program, writes a file and waits; where both are noted."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    program = tmp_path / "bin" / "soffice"
    note = tmp_path / "started"
    program.write_text(
        f'#!/bin/sh\nsleep 600 &\necho "$!" > "$HOME/numbers"\nmv "$HOME/numbers" {note}\nwait\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return note


def is_running(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_killing_a_reader_ends_its_programs_and_removes_their_files(slow_office, tmp_path):
    reader = Reader()

    def kill_when_started() -> None:
        while not slow_office.exists():
            time.sleep(0.05)
        assert any((tmp_path / "tmp").rglob("file.doc"))
        reader.kill()

    killer = threading.Thread(target=kill_when_started)
    killer.start()
    with pytest.raises(DocumentError, match="process reading it was killed"):
        reader.open("a.doc", OLD_WORD, "doc")
    killer.join()
    number = int(slow_office.read_text())
    for _ in range(100):
        if not is_running(number):
            break
        time.sleep(0.05)
    assert not is_running(number)
    assert not any((tmp_path / "tmp").iterdir())


@pytest.mark.skipif(shutil.which("soffice") is None, reason="needs LibreOffice")
def test_an_old_word_file_is_read_within_the_limits_of_the_service(tmp_path):
    (tmp_path / "a.rtf").write_text("{\\rtf1 Hund.\\par}")
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = ["soffice", profile, "--headless", "--convert-to", "doc:MS Word 97", "a.rtf"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    raw = (tmp_path / "a.doc").read_bytes()
    with Reader() as reader:
        assert reader.open("a.doc", raw, "doc", limits=ReaderLimits(wall_s=600)).characters == 5


def test_a_reader_imports_nothing_that_translates():
    """It would take most of the second in which a killed reader is replaced."""
    code = "import sys, dragoman.documents.sandbox; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "onnxruntime", "sentencepiece", "torch", "dragoman.decode"}
    assert not heavy & set(done.stdout.split())
