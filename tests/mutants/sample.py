"""Break the package at random places, and see that a test notices.

    python tests/mutants/sample.py --reach [TESTS ...]         once: which test runs which block
    python tests/mutants/sample.py 100 [--seed 7] [--under dragoman/decode]

A mutant negates a condition, swaps `and` with `or`, `+` with `-`, `*` with `/` or `min` with `max`,
leaves out a call or returns nothing. Only the tests that run the block of a mutant are asked, the
quickest first, for at most `MOST_SECONDS`; a mutant that they let pass has survived. Places outside
functions, kernels for a GPU and assertions are left alone.

What takes long to import is imported once: each mutant is judged by a fork of this process.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import run

REACH = run.ROOT / "build" / "mutants" / "reach.json"
TESTS = ("tests/unit", "tests/agree", "tests/learn", "tests/story/test_command_line.py")
LEFT_OUT = ("dragoman/model/kernels", "dragoman/pretrained")
MOST_SECONDS = 30.0  # of tests for one mutant, as they took when the reach was noted
LONGEST_S = 300  # a broken loop may never end: that is noticed too
MOST_TESTS = 80

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
    number: int  # of the node among those of its file
    change: str  # in words


def files() -> list[str]:
    found = sorted((run.ROOT / "dragoman").rglob("*.py"))
    relative = [path.relative_to(run.ROOT) for path in found]
    return [str(path) for path in relative if not str(path).startswith(LEFT_OUT)]


def changed(node: ast.AST) -> ast.AST | None:
    """The node with its fault, or None if this kind is left alone."""
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
    """All that tests may read, in a folder of its own."""
    left_out = shutil.ignore_patterns("__pycache__", ".*", "build", "runs", "*.egg-info")
    shutil.copytree(run.ROOT, folder, ignore=left_out, dirs_exist_ok=True)


def note_reach(tests: list[str]) -> None:
    """Run tests once, on a package that notes which blocks each of them runs.

    What is noted of other tests stays.
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


def judged(folder: Path, tests: list[str]) -> run.Outcome:
    """What tests say about the package in a folder, in a process of its own."""
    output = folder / "output"
    child = os.fork()
    if not child:
        # A group of its own, so that what the tests start ends with them.
        os.setpgid(0, 0)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        os.environ["PYTHONPATH"] = str(folder)
        sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = pytest.main([*options, *tests])
        sys.stdout.flush()
        os._exit(int(code))
    ends = time.monotonic() + LONGEST_S
    status = None
    while status is None and time.monotonic() < ends:
        done, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return run.Outcome(True, f"the tests did not end within {LONGEST_S} s")
    if status == 0:
        return run.Outcome(False, "")
    if status > 3:  # not a verdict: pytest knows no such test
        sys.exit(f"Note the reach anew (--reach).\n{output.read_text(errors='replace')}")
    text = output.read_text(errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) \S+?(?:::(.+?))?(?: - |$)", text, re.MULTILINE)
    return run.Outcome(True, (failed and failed[1]) or f"exit status {status}")


def tests_of(block: str, noted: dict[str, dict]) -> list[str]:
    """The quickest tests that run a block."""
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
    """Random places, at most one for each block: faults of one block are noticed by one test."""
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--under", default="dragoman/", help="only files whose path begins so")
    parser.add_argument("--reach", nargs="*", help="note which of these tests runs what")
    parser.add_argument("--known", action="store_true", help="only blocks that some test runs")
    options = parser.parse_args()
    if options.reach is not None or not REACH.exists():
        note_reach(options.reach or list(TESTS))
    noted = json.loads(REACH.read_text())
    sys.dont_write_bytecode = True
    # Half of the time of a test is that of importing these.
    for module in ("numpy", "torch", "onnxruntime", "hypothesis", "sacrebleu", "sentencepiece"):
        importlib.import_module(module)
    survived = unreached = 0
    chosen = sample(options.count, options.seed, options.under)
    if options.known:
        chosen = [place for place in chosen if place.block in noted["reach"]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        for place in chosen:
            tests = tests_of(place.block, noted)
            outcome = run.Outcome(False, "no test runs it")
            if tests:
                (folder / place.file).write_text(broken(place), encoding="utf-8")
                outcome = judged(folder, tests)
                shutil.copy(run.ROOT / place.file, folder / place.file)
            unreached += not tests
            survived += bool(tests) and not outcome.killed
            state = "killed  " if outcome.killed else "SURVIVED"
            print(
                f"{state}  {place.file}:{place.line}  {place.change[:160]}  {outcome.by}",
                flush=True,
            )
    print(
        f"{len(chosen)} mutants of seed {options.seed}: {survived} survived, "
        f"{unreached} stand where no test goes"
    )
    return int(survived + unreached > 0)


if __name__ == "__main__":
    sys.exit(main())
