"""Modules that add variants or formats of their own: named by `--plugin`, or installed.

    [project.entry-points."dragoman.plugins"]
    near = "near"

in a package names a module that adds to our tables when it is imported. Looking for such packages
takes time that hardly anybody needs, so they are imported at the first name that the tables lack.
"""

import importlib
import sys
from functools import cache
from pathlib import Path

from dragoman.errors import ConfigError

GROUP = "dragoman.plugins"
_named: list[str] = []


def import_named(name: str) -> None:
    """A module from the current folder, or an installed one, that somebody asked for."""
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
    if name not in _named:
        _named.append(name)


def named_plugins() -> tuple[str, ...]:
    """For other processes, which have to import the same ones."""
    return tuple(_named)


@cache
def import_plugins() -> None:
    """Once in a process. What stands in a model or a config file cannot name a module: only who
    installs packages decides which these are."""
    from importlib.metadata import entry_points  # with it come parsers of mail, at every start

    for plugin in entry_points(group=GROUP):
        try:
            plugin.load()
        except Exception as error:  # whatever it may be, it is the plugin's
            raise ConfigError(
                f"the plugin {plugin.name} ({plugin.value}) cannot be imported: {error}."
            ) from error
