"""Draw the package's rooms, floor by floor, from its imports: the picture in ARCHITECTURE.md.

    python tools/house.py            # prints it
    python tools/house.py --write    # puts it into ARCHITECTURE.md

A room is one floor above the highest room that it imports. Imports inside functions count, too.
"""

import argparse
import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dragoman"
BEGIN, END = "<!-- the house: python tools/house.py --write -->\n", "<!-- end of the house -->\n"


def rooms() -> dict[str, set[str]]:
    """Map each folder of the package to the folders that it imports."""
    names = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists())
    return {name: _imported(PACKAGE / name) & set(names) - {name} for name in names}


def _imported(folder: Path) -> set[str]:
    imported = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            imported |= {name.split(".")[1] for name in modules if name.startswith("dragoman.")}
    return imported


def floors(imports: dict[str, set[str]]) -> list[list[str]]:
    """The rooms of each floor, lowest first."""
    floor_of: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in floor_of:
            floor_of[name] = 1 + max(map(floor, imports[name]), default=-1)
        return floor_of[name]

    for name in imports:
        floor(name)
    highest = max(floor_of.values())
    return [[n for n in sorted(imports) if floor_of[n] == f] for f in range(highest + 1)]


def picture() -> str:
    """Return a line for each room, the highest floor first, with the rooms that it imports."""
    imports = rooms()
    lines = []
    for number, names in reversed([*enumerate(floors(imports))]):
        lines.append(f"── floor {number} " + "─" * 60)
        lines += [f"{name:<10} {' '.join(sorted(imports[name]))}".rstrip() for name in names]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put it into ARCHITECTURE.md")
    if not parser.parse_args().write:
        print(picture(), end="")
        return
    file = ROOT / "ARCHITECTURE.md"
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    file.write_text(before + BEGIN + picture() + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
