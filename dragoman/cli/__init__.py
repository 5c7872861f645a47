"""The command line: one small file per command."""

_NAMES = (
    "train", "prepare", "align", "adapt", "extend", "translate", "synthesize", "serve", "evaluate",
    "score", "cascade", "embed", "tokenize", "check", "info", "convert", "models",
    "mcp",
)  # fmt: skip
COMMANDS = {name: f"dragoman.cli.{name}" for name in _NAMES}
"""The module of each command, with a function `command`, or `commands` by name. Plug-ins add
theirs."""
