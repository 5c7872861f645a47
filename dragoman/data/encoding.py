"""Text to ids on all cores: chunks of a corpus go to processes and come back, in their order, as arrays.

Memory holds the chunks under way and nothing else. A small corpus is not worth the start of a process.
"""

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from dragoman.config import Corpus
from dragoman.data.store import Pairs, Rows, type_of_ids
from dragoman.errors import RunError
from dragoman.text.codec import Codec
from dragoman.text.doctor import is_usable, normalised
from dragoman.text.parallel import Pair, read_pairs

PAIRS_IN_CHUNK = 5_000
CHUNKS_FOR_PROCESSES = 10  # fewer are encoded before processes have started


class Chunk(NamedTuple):
    """Neighbouring lines of a corpus."""

    corpus: int
    first_line: int
    sources: list[str]
    targets: list[str]


class Encoded(NamedTuple):
    """What became of a chunk."""

    pairs: Pairs
    held_out: int
    too_long: int
    longest: int


def read_chunks(corpora: Sequence[Corpus]) -> Iterator[Chunk]:
    for number, corpus in enumerate(corpora):
        pairs = read_pairs(corpus.source, corpus.target)
        while taken := list(islice(pairs, PAIRS_IN_CHUNK)):
            yield Chunk(number, taken[0].line, [pair.source for pair in taken], [pair.target for pair in taken])


@dataclass(frozen=True)
class Encoder:
    """Chunk to ids, without the pairs that training must not see."""

    codec: Codec
    tos: tuple[str, ...]  # the target language of each corpus
    max_length: int
    held_out: frozenset[str]  # normalised: no training pair may have one of these sides

    def __call__(self, chunk: Chunk) -> Encoded:
        lines = range(chunk.first_line, chunk.first_line + len(chunk.sources))
        usable = [pair for pair in map(Pair, lines, chunk.sources, chunk.targets) if is_usable(pair)]
        kept = [pair for pair in usable if not is_held_out(pair, self.held_out)]
        sources = self.codec.encode_source([pair.source for pair in kept], self.tos[chunk.corpus])
        targets = self.codec.encode_target([pair.target for pair in kept])
        lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        fit = [row for row, length in enumerate(lengths) if length <= self.max_length]
        dtype = type_of_ids(max(len(self.codec.source), len(self.codec.target)))
        pairs = Pairs(
            chunk.corpus,
            np.array([kept[row].line for row in fit]),
            Rows.of_ids([sources[row] for row in fit], dtype),
            Rows.of_ids([targets[row] for row in fit], dtype),
            Rows.of_texts(kept[row].source for row in fit),
            Rows.of_texts(kept[row].target for row in fit),
        )
        longest = max((length for length in lengths if length > self.max_length), default=0)
        return Encoded(pairs, len(usable) - len(kept), len(kept) - len(fit), longest)


def is_held_out(pair: Pair, texts: frozenset[str]) -> bool:
    return bool(texts) and (normalised(pair.source) in texts or normalised(pair.target) in texts)


def encode(chunks: Iterable[Chunk], encoder: Encoder) -> Iterator[Encoded]:
    """The chunks in their order, encoded by this process or, if they are many, by as many as there are cores."""
    chunks = iter(chunks)
    first, cores = list(islice(chunks, CHUNKS_FOR_PROCESSES)), os.cpu_count() or 1
    if len(first) < CHUNKS_FOR_PROCESSES or cores == 1:
        yield from map(encoder, chain(first, chunks))
        return
    executor = ProcessPoolExecutor(cores, get_context("spawn"), _start_process, (encoder,))
    under_way: deque[Future[Encoded]] = deque()
    try:
        for chunk in chain(first, chunks):
            under_way.append(executor.submit(_encode_in_process, chunk))
            if len(under_way) > 2 * cores:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool:
        raise RunError("a process that encodes text was killed, perhaps for want of memory. Start again.") from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


_encoder_of_process: list[Encoder] = []


def _start_process(encoder: Encoder) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    _encoder_of_process.append(encoder)


def _encode_in_process(chunk: Chunk) -> Encoded:
    return _encoder_of_process[0](chunk)
