"""Every error that a user can cause.

The command line prints one of these as a single line and exits with 1; anything else that escapes
is a defect of dragoman and shows its traceback. A message gives the place, the value found there
and the remedy.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Control characters (ESC begins a terminal's commands), other ends of lines, marks that turn the
# direction of writing, and surrogates, which no terminal can show.
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""A text of one line that a terminal shows and does not obey. Inside JSON it means the same.

    >>> escaped("red \x1b[31m and\na new line")
    'red \\u001b[31m and\\u000aa new line'
    """
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class DragomanError(Exception):
    """Base class of all errors that dragoman raises on purpose.

    A message may quote a file of unknown origin, so it is reduced to one line, and its control
    characters are escaped before they reach a terminal.
    """

    longest = 1_000_000  # characters of a message

    def __init__(self, message: str = ""):
        short = message if len(message) <= self.longest else f"{message[: self.longest]}…"
        super().__init__(escaped(" ".join(short.split())))


class ConfigError(DragomanError):
    """A setting is unknown, of the wrong type, out of range, or does not go with another one."""


class CorpusError(DragomanError):
    """A text file cannot be read, or its sides do not belong together."""


class BundleError(DragomanError):
    """A model folder is missing, incomplete, damaged or of another format."""

    longest = 1000  # a forged file may have names of any length


class RunError(DragomanError):
    """A training run cannot start or go on.

    Its folder is taken, there is nothing to resume, the loss is not finite, or the disk is full.
    """


class TranslationError(DragomanError):
    """A request that a model cannot fulfil.

    The sentence is too long, the language unknown, or there is no attention to show.
    """


class ConversionError(DragomanError):
    """A model cannot be turned into another system's form, or another system's into a bundle."""

    longest = 1000


class MissingPackageError(DragomanError):
    """An optional package is needed and not installed."""


@contextmanager
def needs_torch() -> Iterator[None]:
    """Around an import of what uses torch, which a plain installation does without."""
    with needs_package("torch", "train"):
        yield


@contextmanager
def needs_package(name: str, extra: str) -> Iterator[None]:
    """Around an import of what only an extra of the installation brings."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        shown = {"torch": "PyTorch"}.get(name, name)
        raise MissingPackageError(f"this needs {shown}: {how_to_install(extra)}.") from None


def how_to_install(extra: str) -> str:
    """The command that adds an extra to this installation: a clone installs from its own folder."""
    clone = Path(__file__).parents[1]
    what = str(clone) if (clone / "pyproject.toml").is_file() else "dragoman"
    editable = "" if what == "dragoman" else "--editable "
    return f"pip install {editable}'{what}[{extra}]'"
