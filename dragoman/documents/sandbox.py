"""Read documents in a process of its own, which has limits and can be killed.

The time and memory that a parser takes on an untrusted file cannot be predicted. So a `Reader`
is another process: it reads the file, asks for the translations of its sentences and writes it
again. Its address space and processor time are limited, and so is the wall time of each step. At a
limit the process is killed, and the file gets a `DocumentError`. After a harmless file the process
can be used again.

A reader has its own process group and its own folder for temporary files. Both are created and
removed by this side, so a reader that is killed leaves neither a program that it started nor a
file.

The two sides exchange frames over pipes: two lengths, JSON, and the bytes of a file. Only
`Reader.kill` waits for the process, so no other code can take its exit status.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dragoman.documents.document import Document, DocumentError, ReadOptions
from dragoman.documents.formats import format_named, read
from dragoman.documents.inline import SentenceResult
from dragoman.documents.report import Report, ReportRow, report_of
from dragoman.documents.rounds import (
    SentenceRequest,
    TranslateSentences,
    UniqueSegments,
    language_sample,
    translate_segments,
)
from dragoman.documents.segment import texts
from dragoman.storage.limited import address_space, limit_process

_HEAD = struct.Struct(">II")
_MOST_FILES = 100  # per process, so that leaks of parsers do not add up
_MOST_GROWTH = 2**26  # bytes of address space that files may leave behind in a process
_WINDOW = 32  # segments translated together; progress is reported after each window
_TRIES = 20
_NICENESS = 5  # the translator has priority


@dataclass(frozen=True)
class ReaderLimits:
    """Limits for reading one file: memory beyond Python's own, and seconds for each step of the
    work (reading, finding sentences, placing translations, writing).
    """

    memory_bytes: int = 100 * 2**20
    memory_times: int = 20  # additional memory, in sizes of the file
    cpu_s: int = 20
    wall_s: float = 60.0
    bytes_a_second: int = 20_000  # a small file gets less than `cpu_s`

    def cpu_for(self, size: int) -> int:
        """Return the processor seconds for a file of `size` bytes.

        A PDF of 172 bytes can name a font of 2**64 letters; it gets less time than a book.

        >>> ReaderLimits().cpu_for(172), ReaderLimits().cpu_for(2**20)
        (4, 20)
        """
        return min(self.cpu_s, _LEAST_CPU_S + size // self.bytes_a_second)


_LEAST_CPU_S = 4  # importing a parser takes up to one
GENEROUS_LIMITS = ReaderLimits(2**31, 20, 600, 3600.0, bytes_a_second=500)


class FileSummary(NamedTuple):
    """The size of a file that was read, and a sample of its text."""

    segments: int
    characters: int
    sample: str


class Reader:
    """The client side of a reading process, for one file at a time."""

    def __init__(self) -> None:
        package = Path(__file__).parents[2]
        paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-", ignore_cleanup_errors=True)
        # The process finds this package wherever it was imported from.
        own = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        own |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)
        self._process = subprocess.Popen(
            # -P: import nothing from the current folder, which may hold untrusted files.
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own},
            start_new_session=True,  # a group of its own, to kill what it starts as well
        )
        self._limits = ReaderLimits()
        self._cpu_s = 0  # for the file
        self._name = ""
        self._files = 0
        self._growth = 0  # address space that its files have left behind
        self._late = False
        self._ends = False  # after its last answer; it may still run for a moment
        self.done = 0  # translated segments of the current file
        self.report = Report([])  # on the current file, once it is translated

    def open(
        self,
        name: str,
        raw: bytes,
        format_: str,
        options: ReadOptions = ReadOptions(),
        limits: ReaderLimits = ReaderLimits(),
        max_characters: int = 0,
    ) -> FileSummary:
        """Read a file. `max_characters` limits the text to translate; 0 means no limit."""
        self._limits, self._name, self.done, self.report = limits, name, 0, Report([])
        self._cpu_s = limits.cpu_for(len(raw))
        self._files += 1
        memory = limits.memory_bytes + limits.memory_times * len(raw)
        message = {
            "name": name,
            "format": format_,
            "options": asdict(options),
            "memory": memory,
            "cpu": self._cpu_s,
            "max_characters": max_characters,
        }
        answer, _ = self._exchange({"open": message}, raw)
        return FileSummary(*answer["summary"])

    def translate(self, translate: TranslateSentences, with_tags: bool = False) -> bytes:
        """Translate the file with a function for its sentences, and return the written file.

        `with_tags`: the function keeps tags, so it gets whole segments first.
        """
        answer, written = self._exchange({"translate": True, "with_tags": with_tags})
        while "sentences" in answer:
            self.done = answer["done"]
            results = translate([SentenceRequest(*sentence) for sentence in answer["sentences"]])
            answer, written = self._exchange({"results": results})
        rows, others = answer["report"]
        self.report = Report([ReportRow(*row) for row in rows], others)
        return written

    def unchanged(self) -> bytes:
        """Return the file, written without any translation."""
        return self._exchange({"unchanged": True})[1]

    @property
    def reusable(self) -> bool:
        """Whether the process may read another file: alive, and not grown by those before."""
        is_fresh = self._files < _MOST_FILES and self._growth <= _MOST_GROWTH
        return is_fresh and not self._ends and self._process.poll() is None

    def kill(self) -> None:
        """End the process; a caller waiting for its answer gets an error."""
        self._end()
        self._process.wait()
        self._remove_folder()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _end(self) -> None:
        """Kill the process and everything it started."""
        if not hasattr(os, "killpg"):  # on Windows
            self._process.kill()
            return
        # Before `wait` is called, the number cannot be reused for another group.
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _remove_folder(self) -> None:
        # A program that was just killed may still finish writing a file.
        for _ in range(_TRIES):
            self._folder.cleanup()
            if not Path(self._folder.name).exists():
                return
            shutil.rmtree(self._folder.name, ignore_errors=True)
            time.sleep(0.05)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _exchange(self, message: dict[str, Any], blob: bytes = b"") -> tuple[dict[str, Any], bytes]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        # The timer kills the process, which ends the read below.
        timer = threading.Timer(self._limits.wall_s, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            _send(stdin, message, blob)
            answer, written = _receive(stdout)
        except (OSError, EOFError, ValueError):
            raise DocumentError(f"{self._name}: {self._why_dead()}") from None
        finally:
            timer.cancel()
        self._growth = answer.pop("growth", self._growth)
        self._ends = answer.pop("ends", False)
        if "error" in answer:
            raise DocumentError(answer["error"])
        # A bug of ours, not of the file: raise it with its traceback.
        if "defect" in answer:
            raise RuntimeError(f"reading {self._name!r}:\n{answer['defect']}")
        return answer, written

    def _give_up(self) -> None:
        self._late = True
        self._end()

    def _why_dead(self) -> str:
        self._end()  # it may be alive, with its pipe closed
        status = self._process.wait()
        if self._late:
            return f"reading it took longer than {self._limits.wall_s:g} s."
        if status == -getattr(signal, "SIGXCPU", 0):
            return f"reading it took more than {self._cpu_s} s of processor time."
        return "it could not be read: the process reading it was killed."


def _send(stream: BinaryIO | Any, message: dict[str, Any], blob: bytes = b"") -> None:
    text = json.dumps(message).encode("ascii")
    stream.write(_HEAD.pack(len(text), len(blob)) + text)
    stream.write(blob)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> tuple[dict[str, Any], bytes]:
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    text_size, blob_size = _HEAD.unpack(head)
    text, blob = stream.read(text_size), stream.read(blob_size)
    if len(text) < text_size or len(blob) < blob_size:
        raise EOFError
    return json.loads(text), blob


# The reading process


class _OtherFileError(Exception):
    """The client turned to another file before this one was translated."""

    def __init__(self, message: dict[str, Any], blob: bytes):
        self.message, self.blob = message, blob


class _ReaderProcess:
    """The state of the reading process: the current file, and its progress."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        # Memory of Python itself and its libraries, before any file.
        self._base = address_space()
        self._document = Document([], lambda segments: b"")
        self._done = 0
        self._report = Report([])
        self._cpu_s = 0

    def answer(self, message: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        if "open" in message:
            task = message["open"]
            self._cpu_s = task["cpu"]
            # The limit counts from what the process has now without this file: pages that other
            # files left in the heap are not charged to it.
            base = self.put_away() + self._base - len(blob)
            limit_process(base + task["memory"], self._cpu_s)
            return {"summary": self._open(task, blob)}, b""
        limit_process(0, self._cpu_s)
        if "unchanged" in message:
            return {}, self._document.write(self._document.segments)
        written = self._translated(message["with_tags"])
        return {"report": self._report}, written

    def put_away(self) -> int:
        """Forget the file; return how much address space is left of this and earlier ones."""
        self._document = Document([], lambda segments: b"")
        self._report = Report([])
        return address_space() - self._base

    def _open(self, task: dict[str, Any], raw: bytes) -> FileSummary:
        fields = task["options"].items()
        values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in fields}
        options = ReadOptions(**values)
        name, limit = task["name"], task["max_characters"]
        self._document = read(name, raw, format_named(task["format"]), options)
        segments = self._document.segments
        characters = sum(len(text) for segment in segments for text in texts(segment))
        if limit and characters > limit:
            raise DocumentError(
                f"{name} has {characters:,} characters to translate, {limit:,} are taken."
            )
        return FileSummary(len(segments), characters, language_sample(segments))

    def _translated(self, with_tags: bool) -> bytes:
        document = self._document
        unique = UniqueSegments(document.segments)
        self._done = 0
        for window in unique.windows(_WINDOW):
            translated = translate_segments(window, self._ask, document.warnings, with_tags)
            self._done += unique.add(window, translated)
        every = unique.translated()
        written = document.write(every)  # checks the file, and adds warnings
        self._report = report_of(document, every)
        return written

    def _ask(self, sentences: list[SentenceRequest]) -> list[SentenceResult]:
        """Have the client translate sentences."""
        try:
            _send(self._out, {"sentences": sentences, "done": self._done})
            message, blob = _receive(sys.stdin.buffer)
        except (EOFError, BrokenPipeError):
            os._exit(0)  # not raised: to the main loop it would look like an error of a parser
        if "results" not in message:
            raise _OtherFileError(message, blob)
        limit_process(0, self._cpu_s)  # of each step
        return [
            SentenceResult(text, tuple(map(tuple, links)), *more)
            for text, links, *more in message["results"]
        ]


def main() -> None:
    """Answer frames until the other side closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side handles Ctrl-C
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    # Anything a parser prints goes to standard error: the pipe may carry only frames.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    process = _ReaderProcess(out)
    while True:
        try:
            message, blob = _receive(sys.stdin.buffer)
        except EOFError:
            return
        reusable = True
        written = b""
        try:
            while True:
                try:
                    answer, written = process.answer(message, blob)
                    break
                except _OtherFileError as other:
                    message, blob = other.message, other.blob
        # After this error the process cannot be trusted to work.
        except MemoryError:
            answer, reusable = {"error": "it takes too much memory to read."}, False
        except DocumentError as error:
            answer = {"error": str(error)}
        except RecursionError:
            answer = {"error": "it is nested too deeply."}
        except Exception:
            answer, reusable = {"defect": traceback.format_exc()}, False
        if "report" in answer or "error" in answer:  # done with this file
            answer["growth"] = process.put_away()
        answer["ends"] = not reusable
        with suppress(BrokenPipeError):
            _send(out, answer, written)
        if not reusable:
            return


if __name__ == "__main__":
    main()
