"""Check strings from untrusted input."""

import re
from collections.abc import Mapping

_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def unwritable_in(value: object) -> str:
    """Find a character in nested strings that paths or UTF-8 cannot represent.

    These are U+0000 and lone surrogates. Return a description, or an empty string.

    >>> unwritable_in({"a": ["b", {"c\\0": 1}]})
    'the control character U+0000 at 1'
    """
    # A stack instead of recursion: a stranger's value may be nested deeper than Python's calls.
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if match := _UNWRITABLE.search(item):
                kind = "control character" if match[0] == "\0" else "lone surrogate"
                return f"the {kind} U+{ord(match[0]):04X} at {match.start()}"
        elif isinstance(item, Mapping):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            stack += item
    return ""
