"""The usual command lines for a translation, understood without typer.

Importing typer, and what it imports, takes as long as loading a model. A line that has a few plain
options and texts is read here; any other, and every mistake, is left to typer. The two must agree:
a test compares them.
"""

import os
from collections.abc import Sequence
from typing import TypedDict

_NAMES = {
    "--model": "model", "-m": "model", "--from": "from_", "--to": "to",
    "--input": "input_", "-i": "input_", "--output": "output", "-o": "output", "--beam": "beam",
    "--device": "device",
}  # fmt: skip
_LARGEST_BEAM = 99  # larger ones are typer's, which knows the limit


class QuickTranslation(TypedDict, total=False):
    """Arguments of `translating.translate`."""

    texts: list[str]
    model: str
    from_: str
    to: str
    input_: str
    output: str
    beam: int
    device: str


def quick_translation(arguments: Sequence[str]) -> QuickTranslation | None:
    """What `dragoman translate` is asked for; None: that is for typer to say.

    >>> quick_translation(["translate", "Ja.", "--to", "en"])
    {'texts': ['Ja.'], 'to': 'en'}
    >>> quick_translation(["translate", "Ja.", "--help"])
    """
    # On Windows typer replaces patterns by the names of files.
    if arguments[:1] != ["translate"] or os.name == "nt":
        return None
    request = QuickTranslation(texts=[])
    left = iter(arguments[1:])
    for word in left:
        if not word.startswith("-"):
            request["texts"].append(word)
            continue
        name = _NAMES.get(word)
        value = next(left, "-")
        if name is None or name in request or value.startswith("-"):
            return None
        if name != "beam":
            request[name] = value  # type: ignore[literal-required]
        elif value.isascii() and value.isdigit() and 1 <= int(value) <= _LARGEST_BEAM:
            request["beam"] = int(value)
        else:
            return None
    return request
