"""Documents read in a process of their own, which has limits and can be killed.

Whoever reads a file that somebody else made cannot know how long a parser will take, or how much
memory. So a `Reader` is another process: it reads the file, asks for the translations of its
sentences and writes it again. It has limits of address space and processor time, and a limit of
wall time for each step. At a limit it dies, and the file gets a `DocumentError`. An honest file
leaves its reader as it was, so that it can be used again.

A reader has a process group and a folder for temporary files. Both are made here and end here, so
that a reader that is killed leaves neither a program that it started nor a file.

The two talk in frames over pipes: two lengths, JSON, and the bytes of a file. Only `Reader.kill`
waits for the process, so nobody else can take its exit status.
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
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from dragoman.documents.document import Document, DocumentError, Options
from dragoman.documents.formats import named, read
from dragoman.documents.inline import Said
from dragoman.documents.report import Report, Row, report_of
from dragoman.documents.segment import texts
from dragoman.documents.translating import Repeated, Sentence, sample, translating
from dragoman.storage.limits import address_space, limit_process

_HEAD = struct.Struct(">II")
_MOST_FILES = 100  # that one process reads, so that what they leave behind does not add up
_MOST_GROWTH = 2**26  # bytes of address space that files may leave behind in a process
_WINDOW = 32  # segments that are translated together; after these, more is done
_TRIES = 20
_NICENESS = 5  # whoever translates comes first
Rounds: TypeAlias = Generator[list[Sentence], list[Said], bytes]


@dataclass(frozen=True)
class Confinement:
    """What the reader of a file may take: memory beyond that of Python itself, and seconds for each
    step of its work (reading, finding sentences, placing translations, writing)."""

    memory_bytes: int = 100 * 2**20
    memory_times: int = 20  # the size of the file, on top
    cpu_s: int = 20
    wall_s: float = 60.0
    bytes_a_second: int = 20_000  # a small file gets less than `cpu_s`

    def cpu_for(self, size: int) -> int:
        """Processor seconds for a file of so many bytes.

        A PDF of 172 bytes may name a font of 2**64 letters: it is not worth what a book is.

        >>> Confinement().cpu_for(172), Confinement().cpu_for(2**20)
        (4, 20)
        """
        return min(self.cpu_s, _LEAST_CPU_S + size // self.bytes_a_second)


_LEAST_CPU_S = 4  # importing a parser takes up to one
GENEROUS = Confinement(2**31, 20, 600, 3600.0, bytes_a_second=500)


class Outline(NamedTuple):
    """What is known of a file once it is read."""

    segments: int
    characters: int
    sample: str


class Reader:
    """The other process, for one file at a time."""

    def __init__(self) -> None:
        package = Path(__file__).parents[2]
        paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-", ignore_cleanup_errors=True)
        own = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        own |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)
        self._process = subprocess.Popen(
            # -P: nothing is imported from the folder where somebody happens to be
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own},
            start_new_session=True,
        )
        self._limits = Confinement()
        self._cpu_s = 0  # for the file
        self._name = ""
        self._files = 0
        self._growth = 0  # address space that its files have left behind
        self._late = False
        self.done = 0  # segments of the file that are translated
        self.report = Report([])  # of the file, once it is translated

    def open(
        self,
        name: str,
        raw: bytes,
        format_: str,
        options: Options = Options(),
        limits: Confinement = Confinement(),
        max_characters: int = 0,
    ) -> Outline:
        """Read a file; `max_characters`: the most to translate, 0 for any number."""
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
        return Outline(*answer["outline"])

    def rounds(self) -> Rounds:
        """The file translated: yields sentences, is sent their translations."""
        answer, written = self._exchange({"begin": True})
        while "sentences" in answer:
            self.done = answer["done"]
            said = yield [Sentence(*sentence) for sentence in answer["sentences"]]
            answer, written = self._exchange({"said": said})
        self.report = Report([Row(*row) for row in answer["report"]])
        return written

    def unchanged(self) -> bytes:
        """The file written again as it is."""
        return self._exchange({"unchanged": True})[1]

    @property
    def reusable(self) -> bool:
        """Whether the process may read another file: alive, and not grown by those before."""
        is_fresh = self._files < _MOST_FILES and self._growth <= _MOST_GROWTH
        return is_fresh and self._process.poll() is None

    def kill(self) -> None:
        """End the process; whoever waits for an answer of it gets an error."""
        self._end()
        self._process.wait()
        self._remove_folder()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _end(self) -> None:
        """Kill the process and whatever it started."""
        if not hasattr(os, "killpg"):  # on Windows
            self._process.kill()
            return
        # Until `wait` was called, no other group can have this number.
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _remove_folder(self) -> None:
        # A program that was killed a moment ago may still finish writing a file.
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
        if "error" in answer:
            raise DocumentError(answer["error"])
        if "defect" in answer:
            raise RuntimeError(f"reading {self._name!r}:\n{answer['defect']}")
        return answer, written

    def _give_up(self) -> None:
        self._late = True
        self._end()

    def _why_dead(self) -> str:
        self._end()  # it may have closed its pipe and be alive
        status = self._process.wait()
        if self._late:
            return f"reading it takes longer than {self._limits.wall_s:g} s."
        if status == -getattr(signal, "SIGXCPU", 0):
            return f"reading it takes more than {self._cpu_s} s of processor time."
        return "it could not be read: its reader was ended."


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


# What the other process does


class _Desk:
    """The file that is being read, and how far it is."""

    def __init__(self) -> None:
        self._fresh = address_space()
        self._document = Document([], lambda segments: b"")
        self._rounds: Rounds | None = None
        self._done = 0
        self._report = Report([])
        self._cpu_s = 0

    def answer(self, message: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        if "open" in message:
            order = message["open"]
            self._cpu_s = order["cpu"]
            # The limit counts from what the process has now without this file: pages that other
            # files left in the heap are not charged to it.
            base = self.put_away() + self._fresh - len(blob)
            limit_process(base + order["memory"], self._cpu_s)
            return {"outline": self._open(order, blob)}, b""
        limit_process(0, self._cpu_s)
        if "unchanged" in message:
            return {}, self._document.write(self._document.segments)
        if "begin" in message:
            self._rounds = self._translating()
            return self._advance(self._rounds.__next__)
        assert self._rounds is not None
        said = [
            Said(text, tuple(map(tuple, links)), *more) for text, links, *more in message["said"]
        ]
        send = self._rounds.send
        return self._advance(lambda: send(said))

    def put_away(self) -> int:
        """Forget the file; return how much address space is left of this and earlier ones."""
        self._rounds = None
        self._document = Document([], lambda segments: b"")
        self._report = Report([])
        return address_space() - self._fresh

    def _open(self, order: dict[str, Any], raw: bytes) -> Outline:
        fields = order["options"].items()
        values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in fields}
        options = Options(**values)
        name, most = order["name"], order["max_characters"]
        self._document = read(name, raw, named(order["format"]), options)
        segments = self._document.segments
        characters = sum(len(text) for segment in segments for text in texts(segment))
        if most and characters > most:
            raise DocumentError(
                f"{name} has {characters:,} characters to translate, {most:,} are taken."
            )
        return Outline(len(segments), characters, sample(segments))

    def _translating(self) -> Rounds:
        document = self._document
        repeated = Repeated(document.segments)
        self._done = 0
        for window in repeated.windows(_WINDOW):
            done = yield from translating(window, document.doubts)
            self._done += repeated.learn(window, done)
        translated = repeated.translated()
        self._report = report_of(document, translated)
        return document.write(translated)

    def _advance(self, step: Callable[[], list[Sentence]]) -> tuple[dict[str, Any], bytes]:
        try:
            return {"sentences": step(), "done": self._done}, b""
        except StopIteration as end:
            return {"report": self._report.rows}, end.value


def main() -> None:
    """Answer frames until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other side
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    # Whatever is printed goes to standard error: the pipe holds frames and nothing else.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    desk = _Desk()
    while True:
        try:
            message, blob = _receive(sys.stdin.buffer)
        except EOFError:
            return
        lasts = True
        written = b""
        try:
            answer, written = desk.answer(message, blob)
        except MemoryError:
            answer, lasts = {"error": "it takes too much memory to read."}, False
        except DocumentError as error:
            answer = {"error": str(error)}
        except RecursionError:
            answer = {"error": "it is nested too deeply."}
        except Exception:
            answer, lasts = {"defect": traceback.format_exc()}, False
        if "report" in answer or "error" in answer:  # done with this file
            answer["growth"] = desk.put_away()
        with suppress(BrokenPipeError):
            _send(out, answer, written)
        if not lasts:
            return


if __name__ == "__main__":
    main()
