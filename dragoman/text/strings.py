"""Strings of strangers."""

import re
from collections.abc import Mapping

_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def unwritable_in(value: object) -> str:
    """A character in the strings of a value, names of fields included, that paths or UTF-8 cannot
    hold: U+0000 or a lone surrogate; empty if there is none.

    >>> unwritable_in({"a": ["b", {"c\\0": 1}]})
    'the control character U+0000 at 1'
    """
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if found := _UNWRITABLE.search(one):
                kind = "control character" if found[0] == "\0" else "lone surrogate"
                return f"the {kind} U+{ord(found[0]):04X} at {found.start()}"
        elif isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            left += one
    return ""
