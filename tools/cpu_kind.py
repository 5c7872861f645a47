"""Run a command as another kind of x86 CPU would: real kernels at their real speed, chosen by
libraries that believe newer instructions to be missing. Only Linux on Intel can do that.

python tools/cpu_kind.py kinds
python tools/cpu_kind.py run avx512 python -m dragoman info
python tools/cpu_kind.py test           what depends on the CPU, on every kind that can be had

Kinds: `own` (this machine, unchanged), `vnni` (Cascade Lake: without AMX), `avx512` (Skylake-X:
AVX-512 without VNNI), `avx2` (Haswell, and AMD's Zen before the fourth).
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = ROOT / "build" / "cpu_kind.so"
# Bits of CPUID's leaf 7.
AFTER_CASCADE_LAKE = {
    "ECX": 1 << 1 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 14,
    "EDX": 1 << 8 | 1 << 22 | 1 << 23 | 1 << 24 | 1 << 25,  # AMX: 22, 24, 25
}
AFTER_SKYLAKE = {
    "ECX": AFTER_CASCADE_LAKE["ECX"] | 1 << 11,  # VNNI
    "EDX": AFTER_CASCADE_LAKE["EDX"] | 1 << 2 | 1 << 3,
}
ALL_AVX512 = 1 << 16 | 1 << 17 | 1 << 21 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 30 | 1 << 31
KINDS: dict[str, Mapping[str, int]] = {
    "own": {},
    "vnni": AFTER_CASCADE_LAKE,
    "avx512": {**AFTER_SKYLAKE, "EBX": 1 << 21},
    "avx2": {**AFTER_SKYLAKE, "EBX": ALL_AVX512},
}
NEEDED = {"vnni": "amx_int8", "avx512": "avx512vl", "avx2": "avx2"}  # of the machine itself
TESTS = [
    "tests/agree/test_native.py",
    "tests/agree/test_onnx.py",
    "tests/agree/test_listed.py",
    "tests/agree/test_ranges.py",
    "tests/unit/decode/test_processes.py",
    "tests/unit/engine",
]


def environment(kind: str) -> dict[str, str]:
    """Return the environment that makes a process believe that it runs on this kind."""
    if not KINDS[kind]:
        return {}
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < SOURCE.stat().st_mtime:
        LIBRARY.parent.mkdir(exist_ok=True)
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(LIBRARY), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
    bits = {f"CPU_KIND_{register}": f"{value:x}" for register, value in KINDS[kind].items()}
    return {"LD_PRELOAD": str(LIBRARY), **bits}


def why_not(kind: str) -> str:
    """Why this machine cannot act as one of this kind; empty if it can."""
    if not KINDS[kind]:
        return ""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "CPUID can be made to fault on Linux on x86 alone"
    flags = Path("/proc/cpuinfo").read_text().split()
    if NEEDED[kind] not in flags:
        return f"this CPU has no {NEEDED[kind]} itself"
    try:
        masked = environment(kind)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no C compiler ({error})"
    if subprocess.run(["true"], env={**os.environ, **masked}, check=False).returncode:
        return "this CPU, or this kernel, cannot make CPUID fault"
    return ""


def run(kind: str, command: Sequence[str]) -> int:
    return subprocess.run(command, env={**os.environ, **environment(kind)}, check=False).returncode


def test(arguments: Sequence[str]) -> int:
    """The tests that depend on the CPU on every kind that can be had, and a table of them."""
    rows = []
    for kind in KINDS:
        if reason := why_not(kind):
            rows.append((kind, "not seen", reason))
            continue
        begin = time.perf_counter()
        print(f"as {kind}:", flush=True)
        code = run(kind, [sys.executable, "-m", "pytest", *TESTS, *arguments])
        seconds = time.perf_counter() - begin
        how = "masked" if KINDS[kind] else "real"
        rows.append((kind, how, f"{'green' if code == 0 else 'RED'} in {seconds:.0f} s"))
    print("\n| CPU | seen | tests |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return any(row[2].startswith("RED") for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="mode", required=True)
    commands.add_parser("kinds", help="which of them this machine can be")
    running = commands.add_parser("run", help="a command as one kind")
    running.add_argument("kind", choices=KINDS)
    running.add_argument("command", nargs=argparse.REMAINDER)
    commands.add_parser("test", help="tests on every kind; what follows is pytest's")
    options, others = parser.parse_known_args()
    if options.mode == "test":
        return test(others)
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if options.mode == "run":
        return run(options.kind, options.command)
    for kind in KINDS:
        print(f"{kind}: {why_not(kind) or 'yes'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
