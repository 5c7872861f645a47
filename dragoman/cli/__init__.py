"""The command line: one small file per command."""

from typing import Any

STYLE: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
}
"""How every group of commands looks."""


class ReaderGoneError(Exception):
    """Whoever read the output has had enough, as `head` has after some lines.

    Click would take a BrokenPipeError for a failure.
    """
