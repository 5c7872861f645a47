"""Run the lessons and store the outputs of their cells: `python tools/lessons.py` for all of them,
or with the names of notebooks.

A notebook is JSON with cells of text and of code. Running one is running its code cells one after
the other in one namespace: no Jupyter is needed. A cell's output is what it prints, and the value
of its last expression. An SVG is stored as an SVG.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "lessons"


def run(notebook: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell."""
    notebook = notebook.resolve()
    before = Path.cwd()
    sys.path.insert(0, str(notebook.parent))
    os.chdir(notebook.parent)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        return [
            _run_cell("".join(cell["source"]), names)
            for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "code"
        ]
    finally:
        os.chdir(before)
        sys.path.remove(str(notebook.parent))


def _run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
        )
    if value is not None:
        picture = getattr(value, "_repr_svg_", None)
        data = {"image/svg+xml": [picture()]} if picture else {"text/plain": [repr(value)]}
        outputs.append(
            {"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data}
        )
    return outputs


def render(notebook: Path) -> None:
    """Write the outputs into the notebook."""
    found = iter(run(notebook))
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = next(found)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    notebook.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", type=Path, nargs="*")
    options = parser.parse_args()
    for path in options.notebooks or sorted(FOLDER.glob("*.ipynb")):
        render(path)
        print(path.name)
