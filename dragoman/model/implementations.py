"""Tables of the classes that implement the variants of `config/variants.py`."""

import importlib
from collections.abc import Mapping
from typing import TypeVar

from dragoman.config.variants import Variant

T = TypeVar("T")


class Implementations(dict[str, T]):
    """Classes by the names of their variants.

    Looking up a missing class imports the module that the variant names. That module adds the
    class to this table.
    """

    def __init__(self, variants: Mapping[str, Variant], classes: Mapping[str, T]):
        super().__init__(classes)
        self._variants = variants

    def __missing__(self, name: str) -> T:
        module = self._variants[name].module
        if module:
            importlib.import_module(module)
        if name in self:
            return self[name]
        raise KeyError(name)
