"""Run the per-sentence work of `prepare` on all cores.

The workers copy lines, check them, count words, and turn text into ids.

Each job is a function of a range of sentences and reads their text from the store's folder. So
little but results travels between processes, and memory holds only the ranges in progress. A small
corpus runs in this process: starting workers would take longer.
"""

import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import groupby, starmap
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import numpy as np

from dragoman.data.store import TEXT, RaggedFile, RaggedFileWriter, Side, line_of
from dragoman.errors import RunError
from dragoman.text.codec import Codec, without_mark
from dragoman.text.doctor import look
from dragoman.text.parallel import is_packed, no_tab, read_blocks, shards
from dragoman.text.subword import Flat, count_words

SENTENCES_AT_ONCE = 10_000
_BYTES_AT_ONCE = 2**21
# Less text than this is encoded before processes have started.
BYTES_FOR_PROCESSES = 8 * 2**20
_RATIO = 4  # rough size of a compressed text once unpacked
_BYTE = np.dtype(np.uint8)

_Result = TypeVar("_Result")


class SentenceRange(NamedTuple):
    """Sentences `first` to `last` - 1 of the store whose text is in a folder."""

    folder: Path
    first: int
    last: int


class CopyJob(NamedTuple):
    """A file to copy, and its destinations.

    A plain file has one, a .tsv file one per column.
    """

    file: str
    places: tuple[Path, ...]


def spans_of(folder: Path, side: Side) -> Iterator[SentenceRange]:
    """Split the sentences of a side into ranges of bounded size."""
    starts = RaggedFile(folder, TEXT, _BYTE).starts
    first = side.first
    last = side.first + side.sentences
    while first < last:
        # Long sentences make short ranges, so ranges take about the same memory.
        fitting = int(np.searchsorted(starts, starts[first] + _BYTES_AT_ONCE, side="right")) - 1
        end = max(first + 1, min(last, fitting, first + SENTENCES_AT_ONCE))
        yield SentenceRange(folder, first, end)
        first = end


def _read_span(span: SentenceRange) -> list[str]:
    """Read the sentences exactly as stored, carriage returns included."""
    # One decode for the whole range is much faster than one per sentence.
    rows = RaggedFile(span.folder, TEXT, _BYTE)
    text = rows.values[rows.starts[span.first] : rows.starts[span.last]].tobytes().decode()
    return text.split("\n")[:-1]


def _sentences_of(span: SentenceRange) -> list[str]:
    texts = _read_span(span)
    return [*map(line_of, texts)] if any("\r" in text for text in texts) else texts


def _copy_lines(job: CopyJob) -> int:
    """Check and copy a file; return its number of lines."""
    writers = [RaggedFileWriter(place.parent, place.name) for place in job.places]
    number = 0
    for block, ends in read_blocks(job.file):
        columns = [(block, ends)] if len(writers) == 1 else _columns(block, job.file, number)
        for writer, (column, ends_of_column) in zip(writers, columns, strict=True):
            writer.add(np.frombuffer(column, np.uint8), np.diff(ends_of_column, prepend=0))
        number += len(ends)
    for writer in writers:
        writer.__exit__(None, None, None)
    return number


def _columns(block: bytes, file: str, before: int) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield the first two columns of some lines, each as a block of lines."""
    # A carriage return at the end of a row ends its last column. Append it to the second one, where
    # the checks will find it.
    rows = [line.split(b"\t") for line in block.split(b"\n")[:-1]]
    for number, row in enumerate(rows, start=before + 1):
        if len(row) < 2:
            raise no_tab(file, number, row[0].decode())
    crs = [b"\r" if len(row) > 2 and row[-1].endswith(b"\r") else b"" for row in rows]
    for column in (
        [row[0] for row in rows],
        [row[1] + cr for row, cr in zip(rows, crs, strict=True)],
    ):
        yield (
            b"".join(line + b"\n" for line in column),
            np.cumsum([len(line) + 1 for line in column]),
        )


def look_at(span: SentenceRange) -> np.ndarray:
    """Run the checks that look at one sentence at a time."""
    texts = _read_span(span)
    if not any("\r" in text for text in texts):
        return look(texts)
    return look([*map(line_of, texts)], [text.endswith("\r") for text in texts])


def count_in(span: SentenceRange, rows: np.ndarray, normalization: str) -> "Counter[str]":
    """Count the words of some of these sentences."""
    texts = _sentences_of(span)
    return count_words((without_mark(texts[row]) for row in rows), normalization)


def encode(span: SentenceRange, codec: Codec, target: bool) -> Flat:
    return codec.encode_sides(_sentences_of(span), target)


class Workers:
    """Calls functions in worker processes on all cores and yields their results in order.

    Without processes it calls them here, one after the other.
    """

    def __init__(self, processes: bool):
        self._cores = os.cpu_count() or 1
        self._executor: ProcessPoolExecutor | None = None
        # Spawn, not fork: forking with live threads is unsafe.
        if processes and self._cores > 1:
            self._executor = ProcessPoolExecutor(self._cores, get_context("spawn"), _start_process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def map(
        self, function: Callable[..., _Result], calls: Iterable[Sequence[object]]
    ) -> Iterator[_Result]:
        """Call the function with each of these argument lists."""
        if self._executor is None:
            for arguments in calls:
                yield function(*arguments)
            return
        # Submit a few calls ahead: all of them would hold all results in memory.
        pending: deque[Future[_Result]] = deque()
        try:
            for arguments in calls:
                pending.append(self._executor.submit(function, *arguments))
                if len(pending) > 2 * self._cores:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise RunError(
                "a process that prepares text was killed, perhaps because memory ran out. Start "
                "again."
            ) from None

    def copy(self, files: Iterable[CopyJob]) -> Iterator[int]:
        """Copy files; yield the number of lines of each."""
        # Other processes may be unable to read a pipe or standard input, so read these here.
        for is_stream, group in groupby(files, key=lambda job: not Path(job.file).is_file()):
            calls = ((job,) for job in group)
            yield from starmap(_copy_lines, calls) if is_stream else self.map(_copy_lines, calls)

    def encode(
        self, spans: Iterable[SentenceRange], codec: Codec, target: bool, folder: Path, kind: str
    ) -> Iterator[Flat]:
        """Yield the ids of sentences.

        Each worker process reads the codec from its files once.
        """
        # A codec is large: workers read it from its files instead of receiving it with every call.
        if self._executor is None:
            return self.map(encode, ((span, codec, target) for span in spans))
        return self.map(_encode_in_process, ((span, folder, kind, target) for span in spans))


def are_worth_processes(names: Iterable[str]) -> bool:
    """Return True if these files hold enough text for processes; a pipe counts as long."""
    total = 0
    for file in (file for name in names for file in shards(name)):
        # The size of a pipe is unknown; assume that it is worth the processes.
        path = Path(file)
        total += (
            path.stat().st_size * (_RATIO if is_packed(file) else 1)
            if path.is_file()
            else BYTES_FOR_PROCESSES
        )
    return total >= BYTES_FOR_PROCESSES


def _start_process() -> None:
    # The parent process handles Ctrl-C and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _encode_in_process(span: SentenceRange, folder: Path, kind: str, target: bool) -> Flat:
    return encode(span, _codec_of_process(folder, kind), target)


@lru_cache(maxsize=1)
def _codec_of_process(folder: Path, kind: str) -> Codec:
    """Load the codec once per process: a process serves one `prepare`, which has one codec."""
    return Codec.from_files(
        {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}, kind
    )
