"""How large the package is: names, files, lines, comments, lengths of functions.

    python tools/count.py [FOLDER]

A name is public if it stands at the top of a module and begins with no underscore.
"""

import ast
import sys
from pathlib import Path

LONGEST_LINE = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef


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


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dragoman")
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
        "lines": len(lines),
        "public names": len(public),
        "public names in 1,000 lines": round(1000 * len(public) / len(lines)),
        "comment lines of their own": sum(line.strip().startswith("#") for line in lines),
        f"lines over {LONGEST_LINE} characters": sum(len(line) > LONGEST_LINE for line in lines),
        "functions": len(lengths),
        "median lines of a function": lengths[len(lengths) // 2],
        "90th percentile": lengths[9 * len(lengths) // 10],
    }
    for name, figure in figures.items():
        print(f"{name}: {figure:,}")


if __name__ == "__main__":
    main()
