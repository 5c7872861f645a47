"""Break the package at random places, and check that a test notices.

    python tests/mutants/sample.py 100 [--seed 7] [--under dragoman/decode]
    python tests/mutants/sample.py 100 --part 1/2            one half, to run next to part 2/2
    python tests/mutants/sample.py 100 --again               judge survivors again, after new tests
    python tests/mutants/sample.py --reach [TESTS ...]       record which test runs which block

A mutant negates a condition, swaps `and` with `or`, `+` with `-`, `*` with `/` or `min` with `max`,
drops a call or returns nothing. Code outside functions, GPU kernels and assertions are never
mutated. Each mutant is tested with the test files that import its module, are in the folder of its
room or mention it: the few nearest first, and more if it survives these. With recorded coverage
(`--reach`, which takes as long as all tests), it is tested with the tests that run the mutated
block, the fastest first, for at most `MOST_SECONDS`. A mutant that passes all of them has survived.

A sample may take hours, so each verdict is logged, with one log for each seed, and the same command
resumes from it. The log also keeps the sample itself, so the sample stays the same while the code
changes. A place that disappears before a test has killed it is replaced by another one.

Tests are collected once. Then each mutant is judged in a fork, which replaces the function's code
by the broken code and runs the tests, without importing any module again. A function that was
called during imports has already run by then, so each survivor is judged again in fresh processes
that import the broken module, one for each test file. A test that also fails without the mutant
does not count.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import inspect
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
import run
from _pytest.runner import runtestprotocol

BUILD = run.ROOT / "build" / "mutants"
REACH = BUILD / "reach.json"
TESTS = ("tests/unit", "tests/agree", "tests/learn", "tests/story", "tests/torture")
COUNTS_STEPS = "tests/unit/test_patterns.py"  # slow, and tests no single module
LEFT_OUT = ("dragoman/model/kernels", "dragoman/pretrained")
MOST_SECONDS = 30.0  # of tests for one mutant, by the times recorded with the reach
LONGEST_S = 600  # a broken loop may never end; on a busy machine, good tests may not either
MOST_TESTS = 80
FIRST_FILES = 5  # test files for every mutant
MOST_FILES = 15  # test files for a mutant that survives the first ones

_ORDER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_BLOCKS = ("body", "orelse", "finalbody")
_HEAD = """
import builtins, os
if not hasattr(builtins, '_reached'):
    builtins._reached = set()
    if 'DRAGOMAN_REACH' in os.environ:
        import atexit
        name = os.path.join(os.environ['DRAGOMAN_REACH'], str(os.getpid()))
        atexit.register(lambda: open(name, 'w')
                        .write(' '.join(map(str, builtins._reached))))
"""


class Place(NamedTuple):
    file: str
    line: int
    block: str  # "file:function/number of the block", as in the reach
    number: int  # index of the node in its file
    change: str  # in words

    @property
    def name(self) -> str:
        """Identify the place, independent of changes to other blocks."""
        return f"{self.block}: {self.change}"


KILLED, SURVIVED, UNENDED, UNREACHED, GONE = "killed", "SURVIVED", "unended", "unreached", "gone"


class Log:
    """The sample and its verdicts so far: a file of JSON lines that several processes append to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines]
        # The last line about a place wins.
        self.entries = {entry["name"]: entry for entry in entries}

    def write(self, place: Place, state: str = "", by: str = "") -> None:
        entry = {"name": place.name, "file": place.file, "state": state, "by": by}
        self.entries[place.name] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def files() -> list[str]:
    found = sorted((run.ROOT / "dragoman").rglob("*.py"))
    relative = [path.relative_to(run.ROOT) for path in found]
    return [str(path) for path in relative if not str(path).startswith(LEFT_OUT)]


def changed(node: ast.AST) -> ast.AST | None:
    """Return the mutated node, or None if nodes of this kind are not mutated."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]):
            new.ops = [_ORDER[type(op)]()]
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not()):
            new = new.operand
        case ast.BinOp() | ast.AugAssign() if type(new.op) in _ARITHMETIC:
            if isinstance(new, ast.BinOp) and any(
                isinstance(side, ast.JoinedStr | ast.List | ast.Constant)
                and not isinstance(getattr(side, "value", 0), int | float)
                for side in (new.left, new.right)
            ):
                return None  # lists and texts: a mere TypeError
            new.op = _ARITHMETIC[type(new.op)]()
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            new.func = ast.Name(_NAMES[name])
        case ast.Expr(value=ast.Call()):
            new = ast.Pass()
        case ast.Return(value=ast.expr() as value) if not (
            isinstance(value, ast.Constant) and value.value is None
        ):
            new.value = ast.Constant(None)
        case _:
            return None
    return new


def nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    """Every node inside a function, its parent and the name of its block.

    The name survives changes elsewhere in the file: "Translator.stream/2" is the third block there.
    """
    numbers = Counter[str]()

    def walk(node: ast.AST, function: str, block: str) -> Iterator[tuple[ast.AST, ast.AST, str]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
        inside = block or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            inner = block
            if inside and name in _BLOCKS and children and isinstance(children[0], ast.stmt):
                inner = f"{function}/{numbers[function]}"
                numbers[function] += 1
            for child in children:
                if not isinstance(child, ast.AST) or isinstance(child, ast.Assert | ast.Raise):
                    continue
                if inner:
                    yield child, node, inner
                yield from walk(child, function, inner)

    yield from walk(tree, "", "")


def places(file: str) -> list[Place]:
    tree = ast.parse((run.ROOT / file).read_text(encoding="utf-8"))
    found = []
    for number, (node, _, block) in enumerate(nodes(tree)):
        new = changed(node)
        if new is not None:
            change = f"{ast.unparse(node)} -> {ast.unparse(new)}".replace("\n", " ")
            found.append(Place(file, node.lineno, f"{file}:{block}", number, change))  # type: ignore[attr-defined]
    return found


def broken(place: Place) -> str:
    """The text of the place's file with its fault."""
    tree = ast.parse((run.ROOT / place.file).read_text(encoding="utf-8"))
    node, parent, _ = list(nodes(tree))[place.number]
    new = changed(node)
    for name, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, name, new)
        elif isinstance(value, list):
            setattr(parent, name, [new if child is node else child for child in value])
    return ast.unparse(ast.fix_missing_locations(tree))


def instrumented(file: str) -> str:
    """A file that notes each block it runs."""
    tree = ast.parse((run.ROOT / file).read_text(encoding="utf-8"))
    bodies = dict[str, list[ast.stmt]]()
    for node, parent, block in nodes(tree):
        for name in _BLOCKS:
            body = getattr(parent, name, None)
            if isinstance(body, list) and node in body and not isinstance(parent, ast.ClassDef):
                bodies[block] = body
    for block, body in bodies.items():
        first = body[0]
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        body[is_text:is_text] = ast.parse(f"_reached.add({f'{file}:{block}'!r})").body
    if file == "dragoman/__init__.py":
        tree.body[1:1] = ast.parse(_HEAD).body
    return ast.unparse(ast.fix_missing_locations(tree))


PLUGIN = """
import builtins, json, os, pathlib, time
import pytest
reach, seconds = {}, {}
folder = pathlib.Path(os.environ["DRAGOMAN_REACH"])

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    builtins._reached.clear()
    started = time.process_time()
    wall = time.monotonic()
    yield
    seconds[item.nodeid] = max(time.process_time() - started, (time.monotonic() - wall) / 4)
    blocks = set(builtins._reached)
    for file in folder.iterdir():
        blocks.update(file.read_text().split())
        file.unlink()
    for block in blocks:
        reach.setdefault(block, []).append(item.nodeid)

def pytest_sessionfinish():
    pathlib.Path(os.environ["DRAGOMAN_REACH_TO"]).write_text(
        json.dumps({"reach": reach, "seconds": seconds}))
"""


def copied(folder: Path) -> None:
    """Copy everything that tests may read into a folder."""
    left_out = shutil.ignore_patterns("__pycache__", ".*", "build", "runs", "*.egg-info")
    shutil.copytree(run.ROOT, folder, ignore=left_out, dirs_exist_ok=True)


def note_reach(tests: list[str]) -> None:
    """Run tests once on an instrumented package, and record which blocks each of them runs.

    The records of other tests are kept.
    """
    REACH.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        for file in files():
            (folder / file).write_text(instrumented(file), encoding="utf-8")
        (folder / "reach_plugin.py").write_text(PLUGIN)
        ids = folder / "ids"
        ids.mkdir()
        environment = {
            **os.environ, "PYTHONPATH": str(folder), "DRAGOMAN_REACH": str(ids),
            "DRAGOMAN_REACH_TO": str(folder / "now"), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-m", "not slow"]
        command += ["-p", "reach_plugin", "-p", "no:cacheprovider", *tests]
        subprocess.run(command, cwd=folder, env=environment, check=False)
        now = json.loads((folder / "now").read_text())
    before = json.loads(REACH.read_text()) if REACH.exists() else {"reach": {}, "seconds": {}}
    for block, names in now["reach"].items():
        before["reach"][block] = sorted({*before["reach"].get(block, []), *names})
    before["seconds"] |= now["seconds"]
    REACH.write_text(json.dumps(before))
    print(f"{REACH}: {len(before['reach'])} blocks, {len(before['seconds'])} tests")


def put(path: Path, text: str) -> None:
    """Replace the text of a module, and delete its bytecode, which Python may think is current."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def judged_long(folder: Path, place: Place, tests: list[list[str]]) -> tuple[str, str]:
    """Judge a mutant by groups of tests, each in a new process; return the state and the reason."""
    good = (run.ROOT / place.file).read_text(encoding="utf-8")
    verdict = SURVIVED, ""
    for group in tests:
        asked = group
        while True:
            put(folder / place.file, broken(place))
            state, by = judged(folder, asked)
            put(folder / place.file, good)
            if state != KILLED or judged(folder, [by] if "::" in by else asked)[0] == SURVIVED:
                break
            if "::" not in by:  # these tests cannot even be collected
                state = SURVIVED
                break
            asked = [*asked, "--deselect", by]
        if state == KILLED:
            return state, by
        if state == UNENDED:
            verdict = state, by
    return verdict


def judged(folder: Path, tests: list[str]) -> tuple[str, str]:
    """Run tests on the package in a folder, in a new process; return the state and the reason."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return UNENDED, f"the tests did not end within {LONGEST_S} s"
    if done.returncode in (0, 5):  # passed, or no tests selected
        return SURVIVED, ""
    if done.returncode == 4:  # not a verdict: pytest knows no such test
        sys.exit(f"The recorded reach is stale: run --reach again.\n{done.stdout}{done.stderr}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?(?:::.+?)?)(?: - |$)", done.stdout, re.MULTILINE)
    return KILLED, failed[1] if failed else f"exit status {done.returncode}"


def patch(place: Place) -> None:
    """Apply a mutant to this process by replacing the code of the function around it."""
    whole = compile(broken(place), place.file, "exec")
    names = place.block.partition(":")[2].partition("/")[0].split(".")
    live: Any = importlib.import_module(place.file.removesuffix(".py").replace("/", "."))
    code = whole
    for name in names:
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
        live = live.__dict__[name]
        live = getattr(live, "__func__", None) or getattr(live, "fget", None) or live
        live = inspect.unwrap(getattr(live, "func", live))
        if isinstance(live, FunctionType):  # inner functions are constants of its code
            break
    live.__code__ = code


class Quick:
    """A pytest plugin that judges mutants by the collected tests."""

    def __init__(self, chosen: list[Place], log: Log, folder: Path):
        self._chosen, self._log, self._folder = chosen, log, folder
        self._fit: dict[str, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for place in self._chosen:
            near = tests_near(place.file)[: 1 + FIRST_FILES]
            by_file = {
                name: [i for i in session.items if i.nodeid.startswith(name)] for name in near
            }
            items = [item for name in near for item in by_file[name]]
            state, by = self._judged(items, place)
            while state == KILLED and not self._passes(session, by):
                items = [item for item in items if item.nodeid != by]
                state, by = self._judged(items, place)
            if state == SURVIVED:
                files_asked = [[test] for test in tests_near(place.file)]
                state, by = judged_long(self._folder, place, files_asked)
            told(self._log, place, state, by)
        return True

    def _passes(self, session: pytest.Session, test: str) -> bool:
        """Check that a failed test passes without the mutant."""
        if test not in self._fit:
            items = [item for item in session.items if item.nodeid == test]
            self._fit[test] = not items or self._judged(items, None)[0] == SURVIVED
        return self._fit[test]

    def _judged(self, items: list[pytest.Item], place: Place | None) -> tuple[str, str]:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            self._run(items, place, writer)
        os.close(writer)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(child, child)
        ready, _, _ = select.select([reader], [], [], LONGEST_S)
        answer = os.read(reader, 2000).decode() if ready else ""
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not ready:
            return UNENDED, f"the tests did not end within {LONGEST_S} s"
        return (SURVIVED, "") if answer == SURVIVED else (KILLED, answer or "the process ended")

    def _run(self, items: list[pytest.Item], place: Place | None, writer: int) -> None:
        """Run tests in the fork until one fails."""
        answer = ""
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            answer = SURVIVED
            if place is not None:
                try:
                    patch(place)
                except (LookupError, ValueError):  # judged later, in fresh processes
                    items = []
            for item, following in zip(items, [*items[1:], None], strict=True):
                reports = runtestprotocol(item, nextitem=following, log=False)
                failed = [report.nodeid for report in reports if report.failed]
                if failed:
                    answer = failed[0]
                    break
        finally:
            os.write(writer, answer.encode()[:2000])
            os._exit(0)


@cache
def imports(file: str) -> frozenset[str]:
    """Return the modules that a file imports, and the names that it imports from them."""
    tree = ast.parse((run.ROOT / file).read_text(encoding="utf-8"))
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def importers(file: str, among: list[str]) -> list[str]:
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return [one for one in among if module in imports(one)]


@cache
def tests_near(file: str) -> list[str]:
    """List a file's doctests and the test files that are most relevant to it, the nearest first."""
    found = [path for test in TESTS for path in [run.ROOT / test, *(run.ROOT / test).rglob("*.py")]]
    tests = [str(path.relative_to(run.ROOT)) for path in found if path.name.startswith("test_")]
    tests.remove(COUNTS_STEPS)
    of_users = [test for user in importers(file, files()) for test in importers(user, tests)]
    room = f"tests/unit/{Path(file).relative_to('dragoman').parent}/"
    word = re.compile(rf"(?<![a-z]){Path(file).stem}(?![a-z])")

    # No test imports a command: its tests call it by name.
    command = f'"{Path(file).stem}"' if file.startswith("dragoman/cli/") else ""

    def nearness(test: str) -> int:
        text = (run.ROOT / test).read_text(encoding="utf-8")
        mentions = len(word.findall(text))
        uses = bool(importers(file, [test])) or bool(command and command in text)
        near = 8 * uses + 2 * (test in of_users)
        return near + 3 * test.startswith(room) + 4 * bool(word.search(test)) + min(mentions, 4)

    # Files below 3 are neither in its room nor about it.
    near = sorted((test for test in tests if nearness(test) > 2), key=nearness, reverse=True)
    return [file, *near[:MOST_FILES]]


def tests_of(block: str, noted: dict[str, dict]) -> list[str]:
    """List the fastest tests that run a block."""
    seconds = noted["seconds"]
    tests = sorted(noted["reach"].get(block, []), key=lambda test: seconds[test])
    chosen: list[str] = []
    total = 0.0
    for test in tests[:MOST_TESTS]:
        test = test.partition("[")[0]  # parameters may hold what a command line cannot
        if test in chosen:
            continue
        total += sum(took for name, took in seconds.items() if name.partition("[")[0] == test)
        if chosen and total > MOST_SECONDS:
            break
        chosen.append(test)
    return chosen


def sample(count: int, seed: int, under: str) -> list[Place]:
    """Draw random places, at most one in each block: one test often kills all of a block."""
    by_block: dict[str, list[Place]] = defaultdict(list)
    for file in files():
        if file.startswith(under):
            for place in places(file):
                by_block[place.block].append(place)
    draw = random.Random(seed)
    blocks = sorted(by_block)
    weights = Counter({block: len(by_block[block]) for block in blocks})
    chosen: list[Place] = []
    while blocks and len(chosen) < count:
        block = draw.choices(blocks, [weights[block] for block in blocks])[0]
        blocks.remove(block)
        chosen.append(draw.choice(by_block[block]))
    return chosen


def told(log: Log, place: Place, state: str, by: str) -> None:
    log.write(place, state, by)
    print(f"{state:8}  {place.file}:{place.line}  {place.change[:160]}  {by}", flush=True)


def to_judge(log: Log, count: int, seed: int, under: str, again: bool) -> list[Place]:
    """List the places of a sample without a verdict, at their positions in the current code."""
    there = {*files()} & {entry["file"] for entry in log.entries.values()}
    now = {place.name: place for file in there for place in places(file)}
    for name, entry in log.entries.items():
        if entry["state"] != KILLED and name not in now:
            entry["state"] = GONE  # not written: the code may come back
    wanted = count + sum(entry["state"] == GONE for entry in log.entries.values())
    if len(log.entries) < wanted:
        for place in sample(wanted, seed, under):
            if place.name not in log.entries and len(log.entries) < wanted:
                log.write(place)
                now[place.name] = place
    open_states = ("", UNENDED, SURVIVED, UNREACHED) if again else ("",)
    return [
        now[name]
        for name, entry in log.entries.items()
        if entry["state"] in open_states and entry["file"].startswith(under)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="verdicts (default: build/mutants/seed-….jsonl)")
    parser.add_argument("--part", default="1/1", metavar="1/2", help="this share of the sample")
    parser.add_argument("--again", action="store_true", help="also what has survived before")
    parser.add_argument("--under", default="dragoman/", help="only files whose path begins so")
    parser.add_argument("--reach", nargs="*", help="note which of these tests runs what")
    options = parser.parse_args()
    if options.reach is not None:
        note_reach(options.reach or list(TESTS))
    noted = json.loads(REACH.read_text()) if REACH.exists() else None
    log = Log(options.log or BUILD / f"seed-{options.seed}.jsonl")
    chosen = to_judge(log, options.count, options.seed, options.under, options.again)
    part, parts = map(int, options.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        if noted is None and chosen:
            near = [test for place in chosen for test in tests_near(place.file)[: 1 + FIRST_FILES]]
            os.chdir(run.ROOT)
            sys.path.insert(0, str(run.ROOT))
            asked = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
            pytest.main([*asked, *dict.fromkeys(near)], plugins=[Quick(chosen, log, folder)])
        for place in chosen if noted else []:
            if tests := tests_of(place.block, noted):
                told(log, place, *judged_long(folder, place, [tests]))
            else:
                told(log, place, UNREACHED, "no test runs it")
    counts = Counter(entry["state"] or "not judged" for entry in log.entries.values())
    print(f"seed {options.seed}: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
    return int(counts[SURVIVED] + counts[UNREACHED] > 0)


if __name__ == "__main__":
    sys.exit(main())
