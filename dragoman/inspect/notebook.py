"""`%load_ext dragoman` adds a magic to IPython and Jupyter:

    %%translate de
    Where is the station?

The line names the target, or source and target (`en de`). Models are loaded on first use.
"""

from functools import cache
from typing import Any

from dragoman.errors import ConfigError
from dragoman.inspect.translator import InspectableTranslator


@cache
def _translator(source: str, target: str) -> InspectableTranslator:
    return InspectableTranslator.load(source=source, target=target)


def translate(line: str, cell: str) -> None:
    """Print a cell's translation, line by line."""
    *source, target = line.split() or [""]
    if not target or len(source) > 1:
        raise ConfigError("%%translate takes a target, or a source and a target: %%translate de.")
    translator = _translator("".join(source), target)
    for translation in translator.translate(cell.rstrip("\n").split("\n"), to=target):
        print(translation)


def load_ipython_extension(shell: Any) -> None:
    shell.register_magic_function(translate, "cell")
