"""A magic for IPython and Jupyter, which `%load_ext dragoman` adds:

    %%translate de
    Where is the station?

The line names the target, or source and target (`en de`). A model is loaded on first use.
"""

from functools import cache
from typing import Any

from dragoman.bundle.folder import model_folders
from dragoman.errors import ConfigError, DragomanError
from dragoman.inspect.translator import InspectableTranslator


# A cell must not load the model again.
@cache
def _translator(folder: str) -> InspectableTranslator:
    return InspectableTranslator.load(folder)


def translate(line: str, cell: str) -> None:
    """Print a cell's translation, line by line."""
    *source, target = line.split() or [""]
    if not target or len(source) > 1:
        raise ConfigError("%%translate takes a target, or a source and a target: %%translate de.")
    (folder,) = model_folders("", "".join(source), target)
    lines = cell.rstrip("\n").split("\n")
    for translation in _translator(folder).translate(lines, source="".join(source), to=target):
        print(translation)


def load_ipython_extension(shell: Any) -> None:
    from IPython.core.error import UsageError

    def magic(line: str, cell: str) -> None:
        try:
            translate(line, cell)
        # IPython prints a UsageError as a single line, other errors with a traceback.
        except DragomanError as error:
            raise UsageError(str(error)) from None

    shell.register_magic_function(magic, "cell", "translate")
