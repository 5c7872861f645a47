"""Translate lines that exist in five languages in all twenty directions, and count the right ones.

The common part of short.py and names.py.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Protocol, TypeVar

import dragoman

LANGUAGES = ("en", "de", "fr", "es", "pt")


class Item(Protocol):
    @property
    def kind(self) -> str: ...


T = TypeVar("T", bound=Item)


def report(
    description: str | None,
    items: Sequence[T],
    line_of: Callable[[T, str], str],
    is_right: Callable[[T, str, str, str], bool],
    least: float,
    fresh: Sequence[T] = (),
) -> None:
    """`line_of` an item in a language; whether an item's translation from one language into another
    is right; the share of all that must be, or the exit status is 1; `fresh` items, which nothing
    was fitted to."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--show", action="store_true", help="Print every line that fails.")
    if fresh:
        parser.add_argument("--fresh", action="store_true", help="Take the fresh ones instead.")
    arguments = parser.parse_args()
    if fresh and arguments.fresh:
        items = fresh
    translator = dragoman.load(arguments.model)
    right: dict[str, list[bool]] = defaultdict(list)
    for language, to in permutations(LANGUAGES, 2):
        lines = [line_of(item, language) for item in items]
        translations = translator(lines, source=language, to=to)
        for item, line, translation in zip(items, lines, translations, strict=True):
            good = is_right(item, translation, language, to)
            for group in (item.kind, f"{language}-{to}", "all"):
                right[group].append(good)
            if arguments.show and not good:
                print(f"{language}-{to}: {line} = {translation}")
    for group, results in right.items():
        print(f"{group:10} {sum(results):4} of {len(results):4}  {sum(results) / len(results):.1%}")
    sys.exit(sum(right["all"]) < least * len(right["all"]))
