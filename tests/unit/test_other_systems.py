"""Everything imports, and the usual things work, where what only Unix has is missing.

A process takes these things away after the libraries of others were imported, which have code of
their own for each system, and before ours.
"""

import os
import subprocess
import sys
from pathlib import Path

import dragoman
from dragoman.decode.request import Request

ROOT = Path(__file__).parents[2]
AS_ELSEWHERE = """\
import builtins, importlib, io, os, pkgutil, signal, sys
import numpy, onnxruntime, rich, sacrebleu, safetensors.numpy, sentencepiece
for optional in ("torch", "torch.utils.tensorboard", "triton", "fastapi", "httptools", "yaml",
                 "markdown_it", "python_multipart", "uvicorn", "transformers", "ctranslate2",
                 "PIL", "ray"):
    try:
        importlib.import_module(optional)
    except ImportError:
        pass
UNIX_MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "uvloop"}
for name in [*sys.modules]:
    if name.partition(".")[0] in UNIX_MODULES:
        del sys.modules[name]


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in UNIX_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())
for name in ("fork", "forkpty", "fchmod", "fchown", "chown", "getuid", "geteuid", "getgid",
             "setsid", "getpgid", "killpg", "mkfifo", "nice", "register_at_fork",
             "sched_getaffinity", "statvfs", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK",
             "O_CLOEXEC", "uname", "wait4"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGCHLD",
             "alarm", "pthread_sigmask", "setitimer"):
    if hasattr(signal, name):
        delattr(signal, name)
real_open = io.open


def open_but_proc(file, *arguments, **named):
    if str(file).startswith(("/proc", "/sys", "/dev/")):
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return real_open(file, *arguments, **named)


builtins.open = io.open = open_but_proc
"""
IMPORTS = """
failed = []
import dragoman
for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
    if module.name == "dragoman.__main__":
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "tensorboard", "ctranslate2", "transformers"):
            failed.append(f"{module.name}: {error}")
    except Exception as error:
        failed.append(f"{module.name}: {error!r}")
print("\\n".join(failed))
"""
WORK = """
from pathlib import Path
from dragoman.storage.files import write_atomically
import dragoman
from dragoman.decode.request import Request
translator = dragoman.load()
request = Request(to="en", source_language="de")
lines = ["Wo ist der Bahnhof?", "Ja."]
texts = [one.text for one in translator.stream(lines, request, processes=2)]
path = Path(sys.argv[1])
for content in (b"first", b"second"):
    write_atomically(path, content)
print(texts)
"""


def elsewhere(script: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", AS_ELSEWHERE + script, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_module_imports_where_what_only_unix_has_is_missing() -> None:
    assert elsewhere(IMPORTS) == ""


def test_translating_by_one_process_gives_the_same_texts_where_nothing_forks(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out.txt"
    texts = elsewhere(WORK, out)
    assert out.read_bytes() == b"second"
    lines = ["Wo ist der Bahnhof?", "Ja."]
    usual = dragoman.load().translate(lines, Request(to="en", source_language="de"))
    assert texts == repr([one.text for one in usual])
