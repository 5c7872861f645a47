"""Run Python as an Arm processor would, with qemu-user, this tree, and its operators compiled for
Arm. It is about thirty times slower, so it says nothing about speed. A program that starts another
Python process fails, since only the first process is emulated.

python tools/arm.py make
python tools/arm.py run python -m pytest -c /dev/null --rootdir . tests/agree/test_native.py
python tools/arm.py run python -m dragoman translate --to en "Wo ist der Bahnhof?"

`make` puts what that needs into build/arm: Python of Debian 12's arm64 packages, wheels of PyPI. On
Debian 12, as root, with qemu-user, gcc-aarch64-linux-gnu and unzip installed.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent
ROOM = HERE / "build" / "arm"
ROOT, SITE, TREE = ROOM / "root", ROOM / "site", ROOM / "tree"
NATIVE = "dragoman/engine/onnx/native/operators"
PACKAGES = [
    "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5",
    "libpython3.11-minimal", "libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6",
    "libuuid1", "python3.11", "python3.11-minimal", "zlib1g",
]  # fmt: skip
WHEELS = [
    "onnxruntime", "numpy", "sentencepiece", "safetensors", "flatbuffers", "protobuf", "packaging",
    "torch==2.7.1",  # the wheels of later ones for Arm need CUDA
    "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "setuptools",
    "rich", "typing_extensions", "markdown-it-py", "mdurl", "pygments",
    "sacrebleu", "regex", "portalocker", "tabulate", "colorama",
    "lxml", "pytest", "pluggy", "iniconfig", "hypothesis", "sortedcontainers",
]  # fmt: skip
# ONNX Runtime reads there what the CPU can do, and ends in a segmentation fault at x86's.
CPU_INFO = """processor\t: {}
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


def make() -> None:
    debs, wheels = ROOM / "debs", ROOM / "wheels"
    for folder in (debs, wheels, SITE, TREE, ROOT / "proc"):
        folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg", "--add-architecture", "arm64"], check=True)
    subprocess.run(["apt-get", "update"], check=True, stdout=subprocess.DEVNULL)
    packages = [f"{name}:arm64" for name in PACKAGES]
    subprocess.run(["apt-get", "download", *packages], cwd=debs, check=True)
    for file in debs.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", file, ROOT], check=True)
    pins = (HERE / "constraints.txt").read_text().split()
    ours = {pin.partition("==")[0].lower().replace("_", "-"): pin for pin in pins if "==" in pin}
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    download += [str(wheels), "--python-version=3.11", "--only-binary=:all:"]
    download += [f"--platform=manylinux{glibc}_aarch64" for glibc in ("_2_28", "_2_27", "2014")]
    for name in WHEELS:
        wanted = name if "==" in name else ours.get(name.lower().replace("_", "-"), name)
        subprocess.run([*download, wanted], check=True)
    for file in wheels.glob("*.whl"):
        subprocess.run(["unzip", "-qo", file, "-d", SITE], check=True)
    (ROOT / "proc" / "cpuinfo").write_text("".join(map(CPU_INFO.format, range(2))))


def run(arguments: list[str]) -> int:
    """Python with these arguments, in a copy of the tree."""
    for name in ("dragoman", "tests", "benchmarks", "examples", "tools"):
        subprocess.run(["cp", "-ru", HERE / name, TREE], check=True)
    command = ["aarch64-linux-gnu-gcc", "-shared", "-fPIC", "-O2", "-ffp-contract=off"]
    subprocess.run(
        [*command, "-o", TREE / f"{NATIVE}.ort.so", HERE / f"{NATIVE}.c", "-lm"], check=True
    )
    libraries = [str(ROOT / part / "lib" / "aarch64-linux-gnu") for part in ("", "usr")]
    variables = {
        "PYTHONPATH": f"{TREE}:{SITE}",
        "PYTHONHOME": str(ROOT / "usr"),
        "LD_LIBRARY_PATH": ":".join(libraries),
        "OMP_NUM_THREADS": "1",
        "DRAGOMAN_KERNELS": "dotprod",
    }
    settings = [part for name, value in variables.items() for part in ("-E", f"{name}={value}")]
    python = str(ROOT / "usr" / "bin" / "python3.11")
    emulator = ["qemu-aarch64", "-cpu", "neoverse-n1", "-L", str(ROOT), *settings, python]
    return subprocess.run([*emulator, *arguments], cwd=TREE, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("make", help="download and unpack")
    running = actions.add_parser("run", help="Python with these arguments")
    running.add_argument("python", choices=["python"])
    running.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.action == "run":
        return run(given.arguments)
    make()
    return 0


if __name__ == "__main__":
    sys.exit(main())
