"""The commands put together."""

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dragoman.cli import COMMANDS, STYLE, ReaderGoneError
from dragoman.config.plugins import import_lab, import_named, import_until
from dragoman.config.settings import did_you_mean
from dragoman.storage.version import __version__


class _Commands(TyperGroup):
    """The commands, each imported when it is asked for: a short translation need not wait for the
    others.

    Contexts and commands are click's own or, with newer versions of typer, those of its copy.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        import_lab()
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if not import_until(lambda: cmd_name in COMMANDS):
            ctx.fail(f"there is no command {cmd_name!r}{did_you_mean(cmd_name, COMMANDS)}.")
        module = importlib.import_module(COMMANDS[cmd_name])
        app = getattr(module, "app", None)  # of a command that has commands of its own
        if app is None:
            app = typer.Typer(**STYLE)
            app.command(cmd_name)(module.command)
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None


app = typer.Typer(
    name="dragoman",
    help="Train a translator from two text files, see what it attends to, ship it.",
    cls=_Commands,
    no_args_is_help=True,
    **STYLE,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import your own module, which adds variants (repeatable).",
        ),
    ] = None,
) -> None:
    for name in plugin or []:
        import_named(name)
