"""Speed and memory of `dragoman check` on 100,000 and 1,000,000 pairs made from the examples.

    python benchmarks/doctor.py

Each size runs in a process of its own, which reports its peak memory; pairs are varied with numbers
so that few repeat.
"""

import argparse
import gzip
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def make_corpus(folder: Path, pairs: int) -> list[str]:
    names = []
    for language in ("de", "en"):
        lines = (
            gzip.decompress((EXAMPLES / f"tatoeba.{language}.gz").read_bytes())
            .decode()
            .splitlines()
        )
        path = folder / f"{pairs}.{language}"
        with open(path, "w", encoding="utf-8") as file:
            for number in range(pairs):
                file.write(
                    f"{lines[number % len(lines)]} {lines[(number * 7) % len(lines)]} {number}\n"
                )
        names.append(str(path))
    return names


def measure(source: str, target: str) -> None:
    from dragoman.text.doctor import examine
    from dragoman.text.parallel import read_pairs

    started = time.perf_counter()
    report = examine(read_pairs(source, target))
    seconds = time.perf_counter() - started
    unit = 2**20 if platform.system() == "Darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    speed = report.pairs / seconds
    print(
        f"{report.pairs:>9,} pairs  {seconds:6.1f} s  {speed:8,.0f} pairs/s  {peak:6.0f} MiB at "
        f"most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="two, measured in this process; else its own")
    options = parser.parse_args()
    if options.files:
        measure(*options.files)
        return
    with tempfile.TemporaryDirectory() as folder:
        for pairs in (100_000, 1_000_000):
            subprocess.run(
                [sys.executable, __file__, *make_corpus(Path(folder), pairs)], check=True
            )


if __name__ == "__main__":
    main()
