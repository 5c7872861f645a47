"""A panel of the page of `dragoman explain`, and the code that it quotes."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.lab.explain.mathml import Formula

_ROOT = Path(__file__).parents[2]

Code = tuple[Callable[..., Any], str]
"""A function, and words from one of its statements."""


@dataclass(frozen=True)
class Panel:
    """One panel: `tour` is its text in the guided tour, `left_out` why a model lacks this step."""

    name: str
    title: str
    lead: str
    tour: str
    formulas: tuple[Formula, ...] = ()
    code: tuple[Code, ...] = ()
    left_out: str = ""


@cache
def statement(function: Callable[..., Any], words: str) -> tuple[str, str]:
    """Return the smallest statement of a function that contains these words, and its location."""
    # Decorators such as `torch.no_grad` hide the function that was written.
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    # A method is indented, which the parser refuses.
    source = textwrap.dedent("".join(lines))
    matches = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and words in (ast.get_source_segment(source, node) or "")
    ]
    if not matches:
        raise LookupError(f"{function.__qualname__} does not contain {words!r}.")
    # An `if` contains its body's words too, so take the innermost statement.
    best = min(matches, key=lambda node: len(ast.get_source_segment(source, node) or ""))
    code = source.splitlines()[best.lineno - 1 : best.end_lineno]
    file = Path(inspect.getsourcefile(function) or "")
    # A user's own variant is outside the package.
    name = file.relative_to(_ROOT.parent).as_posix() if _ROOT in file.parents else file.name
    return textwrap.dedent("\n".join(code)), f"{name}:{first + best.lineno - 1}"
