"""How large the package is: names, files, lines, comments, lengths of functions.

    python tools/count.py [FOLDER] [--loaded]

A name is public if it is at the top level of a module and has no leading underscore. A line of code
is neither blank nor a comment nor part of a docstring. `--loaded` also counts what `dragoman
translate --to en "Guten Tag."` imports of the package, and what a sentence passes through: the
package's functions that run for it, and the deepest stack of them.
"""

import argparse
import ast
import os
import subprocess
import sys
from pathlib import Path

LONGEST_LINE = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef
PATH = """
import sys, dragoman
translator = dragoman.load()
translator("Ja.", to="en")
seen, depth, deepest = set(), 0, 0
def profile(frame, event, argument):
    global depth, deepest
    if "dragoman" in frame.f_code.co_filename and event in ("call", "return"):
        seen.add(frame.f_code)
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
sys.setprofile(profile)
translator("Guten Tag.", to="en", source="de")
sys.setprofile(None)
print(len(seen), deepest)
"""


def top_names(tree: ast.Module) -> list[str]:
    """Classes, functions and constants of a module."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names


def code_lines(text: str) -> int:
    """
    >>> code_lines("'What.'\\n\\n# why\\nx = 1\\ny = 2\\n")
    2
    """
    lines = text.splitlines()
    left_out = {n for n, line in enumerate(lines, 1) if not line.strip() or line.strip()[0] == "#"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            first = node.body[0]
            left_out |= {*range(first.lineno, (first.end_lineno or first.lineno) + 1)}
    return len(lines) - len(left_out)


def loaded(folder: Path) -> list[Path]:
    """The files of the package that a short translation imports."""
    command = [sys.executable, "-X", "importtime", "-m", "dragoman"]
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve().parent)}
    done = subprocess.run(
        [*command, "translate", "--to", "en", "Guten Tag."],
        cwd=folder.resolve().parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    paths = []
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if ".".join(parts).removesuffix(".__init__") in names:
            paths.append(path)
    return paths


def path_of_a_sentence(folder: Path) -> tuple[int, int]:
    """Functions that run for a sentence, and the deepest stack of them, on one thread."""
    done = subprocess.run(
        [sys.executable, "-c", PATH],
        cwd=folder.resolve().parent,
        env={**os.environ, "PYTHONPATH": str(folder.resolve().parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    functions, deepest = map(int, done.stdout.split())
    return functions, deepest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default="dragoman")
    parser.add_argument("--loaded", action="store_true")
    options = parser.parse_args()
    folder = options.folder
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts]
    lines = [line for text in texts for line in text.splitlines()]
    public = [name for tree in trees for name in top_names(tree) if not name.startswith("_")]
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, Function)
    )
    figures = {
        "files": len(texts),
        "entries of the folder": sum(path.name != "__pycache__" for path in folder.iterdir()),
        "lines": len(lines),
        "lines of code": sum(map(code_lines, texts)),
        "public names": len(public),
        "public names in 1,000 lines": round(1000 * len(public) / len(lines)),
        "comment lines of their own": sum(line.strip().startswith("#") for line in lines),
        f"lines over {LONGEST_LINE} characters": sum(len(line) > LONGEST_LINE for line in lines),
        "functions": len(lengths),
        "median lines of a function": lengths[len(lengths) // 2],
        "90th percentile": lengths[9 * len(lengths) // 10],
    }
    if options.loaded:
        imported = [path.read_text(encoding="utf-8") for path in loaded(folder)]
        figures["modules that a translation loads"] = len(imported)
        figures["their lines"] = sum(len(text.splitlines()) for text in imported)
        functions, deepest = path_of_a_sentence(folder)
        figures["functions that a sentence passes through"] = functions
        figures["the deepest stack of them"] = deepest
    for name, figure in figures.items():
        print(f"{name}: {figure:,}")


if __name__ == "__main__":
    main()
