"""The command line: one small file per command."""

from typing import Any

STYLE: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
}
"""How every group of commands looks."""


_NAMES = (
    "train", "prepare", "adapt", "extend", "translate", "synthesize", "serve", "evaluate",
    "score", "cascade", "embed", "tokenize", "check", "info", "convert", "models",
    "mcp",
)  # fmt: skip
COMMANDS = {name: f"dragoman.cli.{name}" for name in _NAMES}
"""The module of each command, with a function `command`. Plug-ins add theirs."""


class ReaderGoneError(Exception):
    """Whoever read the output has had enough, as `head` has after some lines.

    Click would take a BrokenPipeError for a failure.
    """
