"""Plug-ins: modules that add variants, commands or formats to the tables of the core.

Three kinds exist. The package's own is `dragoman.lab`. The user names others with `--plugin`.
Installed packages name theirs as entry points:

    [project.entry-points."dragoman.plugins"]
    near = "near"

Importing plug-ins takes time that most commands need not spend. So the lab, and then the entry
points, are imported only when a table lacks a name (`import_until`).
"""

import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from dragoman.errors import ConfigError

GROUP = "dragoman.plugins"
# A string, since the core imports the lab only for a name that it lacks.
LAB = "dragoman.lab"
_named: list[str] = []
T = TypeVar("T")


def import_named(name: str) -> None:
    """Import a module that the user named, from the current folder or an installed one."""
    # Only for this import: the current folder must not shadow installed modules later.
    sys.path.insert(0, str(Path.cwd()))
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module exists, but one of its own imports does not.
        if error.name != name:
            raise
        raise ConfigError(
            f"--plugin {name}: no such module in this folder, nor installed."
        ) from None
    finally:
        sys.path.pop(0)
    # Worker processes start without plug-ins and import these again.
    if name not in _named:
        _named.append(name)


def named_plugins() -> tuple[str, ...]:
    """Return the modules named so far, for other processes to import as well."""
    return tuple(_named)


class Registry(dict[str, T]):
    """A table of named parts to which plug-ins add; looking up a missing name imports them."""

    def __missing__(self, name: str) -> T:
        if import_until(lambda: name in self):
            return self[name]
        raise KeyError(name)


def import_until(found: Callable[[], bool]) -> bool:
    """Import plug-ins, the lab first, until `found` is true; return whether it is."""
    # Importing all installed plug-ins is slower than importing the lab, and seldom needed.
    for step in (import_lab, import_installed):
        if found():
            return True
        step()
    return found()


def import_lab() -> None:
    """Import the package's own plug-in, for a full list of names."""
    importlib.import_module(LAB)


@cache
def import_installed() -> None:
    """Import the plug-ins of installed packages, once in a process.

    A model or a config file cannot name a module: only installing a package adds one.
    """
    from importlib.metadata import entry_points  # a slow import

    for plugin in entry_points(group=GROUP):
        try:
            plugin.load()
        except Exception as error:  # a plug-in may raise anything
            raise ConfigError(
                f"the plug-in {plugin.name} ({plugin.value}) cannot be imported: {error}."
            ) from error
