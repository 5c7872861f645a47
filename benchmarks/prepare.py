"""Speed and memory of `dragoman prepare` on a million and on five million pairs, compared with
SentencePiece's own encoder.

    python benchmarks/prepare.py [PAIRS]...

The corpus is made of the examples: pairs joined at random and numbered, in eight packed shards.
SentencePiece encodes the first 200,000 pairs of it, both sides, from memory, with as many threads
as there are cores. `prepare` reads, checks and unpacks the files, holds out a validation set,
learns pieces, encodes everything and writes it. Memory is what every process had at most, and the
most that all of them had together, looked at ten times a second.

Speeds are given in pairs per second and in pairs per second of CPU time, of all processes together.
The second says more on a machine that does other work too. Both end with the ratio to
SentencePiece: 1 is as fast as only encoding.

The last lines are for a corpus in both directions: each sentence is encoded once, so that it should
cost hardly more.
"""

import argparse
import gzip
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece

from dragoman.config import make_config
from dragoman.data.batches import BatchPlan
from dragoman.data.dataset import open_prepared
from dragoman.text.parallel import read_pairs

EXAMPLES = Path(__file__).parent.parent / "examples"
SHARDS = 8
ENCODED = 200_000


def make_corpus(folder: Path, pairs: int) -> tuple[str, str]:
    sides = [
        gzip.decompress((EXAMPLES / f"tatoeba.{x}.gz").read_bytes()).decode().splitlines()
        for x in ("de", "en")
    ]
    for shard in range(SHARDS):
        for language, lines in zip(("de", "en"), sides, strict=True):
            draw = random.Random(shard)
            with gzip.open(
                folder / f"train.{shard}.{language}.gz", "wt", encoding="utf-8", compresslevel=1
            ) as file:
                for number in range(pairs * shard // SHARDS, pairs * (shard + 1) // SHARDS):
                    first, second, third = (
                        lines[int(draw.random() * len(lines))] for _ in range(3)
                    )
                    file.write(f"{first} {second} {third} {number}\n")
    return str(folder / "train.*.de.gz"), str(folder / "train.*.en.gz")


def resident(process: int) -> dict[int, int]:
    """MiB of a process and all that it has started."""
    parents, sizes = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":\t", 1)
                for line in (path / "status").read_text().splitlines()
                if ":\t" in line
            )
            parents[int(path.name)] = int(status["PPid"])
            sizes[int(path.name)] = int(status["VmRSS"].split()[0]) // 1024
        except (OSError, KeyError, ValueError):
            continue  # it has just ended
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return {member: sizes[member] for member in family if member in sizes}


class Watched(NamedTuple):
    """The cost of a command: seconds, CPU seconds, peak MiB of a process, and of all together."""

    seconds: float
    cpu: float
    most: dict[int, int]
    together: int


def cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def watched(command: list[str]) -> Watched:
    started = time.perf_counter()
    most = dict[int, int]()
    together = 0
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        now = resident(process.pid)
        together = max(together, sum(now.values()))
        for member, size in now.items():
            most[member] = max(size, most.get(member, 0))
        time.sleep(0.1)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - cpu
    return Watched(time.perf_counter() - started, cpu, most, together)


def encoder_speed(model: Path, source: str, target: str) -> tuple[float, float]:
    """Return the pairs per second of SentencePiece, and per second of CPU time."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pairs = [pair for pair, _ in zip(read_pairs(source, target), range(ENCODED), strict=False)]
    sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    started = time.perf_counter()
    cpu = cpu_seconds(resource.RUSAGE_SELF)
    for side in sides:
        processor.encode(side, num_threads=os.cpu_count())
    cpu = cpu_seconds(resource.RUSAGE_SELF) - cpu
    return len(pairs) / (time.perf_counter() - started), len(pairs) / cpu


def padding(data: Path) -> tuple[float, float]:
    """Seconds until the first batch, and the share of padding in the batches of a window, 25,000
    target tokens each."""
    started = time.perf_counter()
    store = open_prepared(make_config("base"), data).train
    plan = BatchPlan(store.source_lengths, store.target_lengths, 25_000, seed=1)
    batches = plan.window(0, 0)
    seconds = time.perf_counter() - started
    sides = (store.source_lengths, store.target_lengths)
    real = sum(int(side[batch].sum()) for side in sides for batch in batches)
    room = sum(len(batch) * int(np.max(side[batch])) for side in sides for batch in batches)
    return seconds, 1 - real / room


def both_directions(folder: Path, source: str, target: str) -> Path:
    """Settings for a model of either direction."""
    corpora = "".join(
        f'[[data.corpora]]\nsource = "{a}"\ntarget = "{b}"\n'
        for a, b in ((source, target), (target, source))
    )
    (folder / "both.toml").write_text(f'preset = "base"\n{corpora}')
    return folder / "both.toml"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=int, nargs="*", default=[1_000_000, 5_000_000])
    options = parser.parse_args()
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source, target = make_corpus(folder, pairs)
            command = [sys.executable, "-m", "dragoman", "prepare"]
            took = watched(
                [*command, source, target, "--out", str(folder / "data"), "--preset", "base"]
            )
            speed, cpu_speed = encoder_speed(folder / "data" / "shared.spm", source, target)
            first_s, padded = padding(folder / "data")
            config = both_directions(folder, source, target)
            twice = watched([*command, "--config", str(config), "--out", str(folder / "both")])
        each = ", ".join(map(str, sorted(took.most.values(), reverse=True)[:5]))
        print(
            f"{pairs:,} pairs in {took.seconds:.0f} s: {pairs / took.seconds:,.0f} pairs/s "
            f"(SentencePiece alone: {speed:,.0f}; ratio {pairs / took.seconds / speed:.2f})\n"
            f"    CPU time {took.cpu:.0f} s: {pairs / took.cpu:,.0f} pairs/s "
            f"(SentencePiece alone: {cpu_speed:,.0f}; ratio {pairs / took.cpu / cpu_speed:.2f})\n"
            f"    MiB at most: {each}; together {took.together}\n"
            f"    first batch after {first_s:.1f} s, {padded:.1%} padding\n"
            f"    both directions: {twice.seconds:.0f} s, CPU time {twice.cpu:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
