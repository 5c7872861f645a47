"""A panel of `dragoman explain`, and the code that it shows."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.inspect.mathml import Formula

_ROOT = Path(__file__).parents[1]

Code = tuple[Callable[..., Any], str]
"""A function, and words of one statement in it."""


@dataclass(frozen=True)
class Panel:
    """`tour`: two sentences of the guided tour. `left_out`: why a model does not have this."""

    name: str
    title: str
    lead: str
    tour: str
    formulas: tuple[Formula, ...] = ()
    code: tuple[Code, ...] = ()
    left_out: str = ""


@cache
def statement(function: Callable[..., Any], words: str) -> tuple[str, str]:
    """The smallest statement of a function that holds these words, and where it stands."""
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and words in (ast.get_source_segment(source, node) or "")
    ]
    if not found:
        raise LookupError(f"{function.__qualname__} does not say {words!r}.")
    best = min(found, key=lambda node: len(ast.get_source_segment(source, node) or ""))
    shown = source.splitlines()[best.lineno - 1 : best.end_lineno]
    file = Path(inspect.getsourcefile(function) or "")
    # a variant of a user's own stands outside the package
    name = file.relative_to(_ROOT.parent).as_posix() if _ROOT in file.parents else file.name
    return textwrap.dedent("\n".join(shown)), f"{name}:{first + best.lineno - 1}"
