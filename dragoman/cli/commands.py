"""Find the command that a command line names, and run it."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from dragoman.cli import COMMANDS
from dragoman.cli.arguments import choose, listed, run
from dragoman.config.plugins import import_lab, import_named, import_until
from dragoman.config.settings import did_you_mean
from dragoman.storage.version import __version__


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        # Only here: this imports every command.
        import_lab()
        modules = {name: import_module(module) for name, module in COMMANDS.items()}
        self.epilog = listed({name: getattr(m, "command", m) for name, m in modules.items()})
        return super().format_help()


def run_command_line(words: Sequence[str]) -> None:
    """Run `dragoman` with these words. Only the module of the named command is imported."""
    parser = _Parser(
        "dragoman",
        usage="dragoman [--version] [--plugin MODULE] COMMAND ...",
        description="Train a translator from two text files, see what it attends to, ship it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    parser.add_argument(
        "--plugin",
        metavar="MODULE",
        action="append",
        default=[],
        help="Import your own module, which adds variants (repeatable).",
    )
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    # The rest belongs to the command: argparse's REMAINDER would swallow a "--" in it.
    places = [i for i, word in enumerate(words) if not word.startswith("-")]
    place = next((i for i in places if words[i - 1 : i] != ["--plugin"]), len(words))
    parsed, rest = parser.parse_args(words[: place + 1]), words[place + 1 :]
    for name in parsed.plugin:
        import_named(name)
    name = parsed.command
    if name is None:
        parser.print_help()
        sys.exit(2)
    if not import_until(lambda: name in COMMANDS):
        parser.error(f"there is no command {name!r}{did_you_mean(name, COMMANDS)}.")
    module = import_module(COMMANDS[name])
    if hasattr(module, "command"):
        run(module.command, rest, f"dragoman {name}")
    else:
        default = getattr(module, "default", None)
        choose(module.commands, rest, f"dragoman {name}", module.__doc__ or "", default)
