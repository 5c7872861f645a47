"""The commands put together, and how errors leave them.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for a user's
mistake (one line that names place, value and remedy), 2 for wrong usage.
"""

import errno
import importlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli import (
    adapt,
    attend,
    check,
    compare,
    convert,
    embed,
    evaluate,
    explain,
    extend,
    info,
    models,
    prepare,
    score,
    serve,
    synthesize,
    tokenize,
    train,
    translate,
)
from dragoman.errors import ConfigError, DragomanError
from dragoman.version import __version__

app = typer.Typer(
    name="dragoman",
    help="Train a translator from two text files, see what it attends to, ship it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("train")(train.command)
app.command("prepare")(prepare.command)
app.command("adapt")(adapt.command)
app.command("extend")(extend.command)
app.command("translate")(translate.command)
app.command("synthesize")(synthesize.command)
app.command("attend")(attend.command)
app.command("explain")(explain.command)
app.command("serve")(serve.command)
app.command("evaluate")(evaluate.command)
app.command("score")(score.command)
app.command("embed")(embed.command)
app.command("tokenize")(tokenize.command)
app.command("check")(check.command)
app.command("compare")(compare.command)
app.command("info")(info.command)
app.add_typer(convert.app, name="convert")
app.add_typer(models.app, name="models")


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
        _import(name)


def _import(name: str) -> None:
    """A module from the current folder, or an installed one."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ConfigError(
            f"--plugin {name}: there is no such module here, and none is installed."
        ) from None
    finally:
        sys.path.pop(0)


def main() -> None:
    # SIGTERM becomes an exception, so that files that are half written are swept away.
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE, errno.EDQUOT):
            raise
        if error.errno != errno.EPIPE:
            print(f"dragoman: {error.strerror}.", file=sys.stderr)
        # what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0 if error.errno == errno.EPIPE else 1)
