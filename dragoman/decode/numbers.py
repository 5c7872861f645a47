"""Numbers that a translation must keep: counting errors, and other numbers to try instead."""

import random
import re
from collections import Counter
from collections.abc import Mapping

_NUMBER = re.compile(r"\d+")
_TRIES = 20  # at a number that is not taken


def digit_errors(source: str, translation: str) -> int:
    """How many digits a translation lacks or has made up.

    A number of one digit may come from a word, or become one.

    >>> digit_errors("Zimmer 204 im 2. Stock", "room 204 on the second floor")
    0
    >>> digit_errors("3 829 billets", "329 tickets")
    1
    """
    if not (_NUMBER.search(source) or _NUMBER.search(translation)):  # as in most texts
        return 0
    (left, left_words), (right, right_words) = map(_digits, (source, translation))
    return (left - right - left_words).total() + (right - left - right_words).total()


def _digits(text: str) -> tuple[Counter[str], Counter[str]]:
    """All digits of a text, and those that are a number by themselves."""
    numbers = _NUMBER.findall(text)
    return Counter("".join(numbers)), Counter(number for number in numbers if len(number) == 1)


def stand_ins(text: str, seed: int) -> dict[str, str]:
    """Another number for each of two digits or more, unless all that are like it are taken.

    >>> [*stand_ins("Am 15. Mai 1987, um 8 Uhr", seed=1)]
    ['15', '1987']
    """
    rng = random.Random(seed)
    numbers = _NUMBER.findall(text)
    others: dict[str, str] = {}
    for number in dict.fromkeys(number for number in numbers if len(number) > 1):
        alike = (_alike(number, rng) for _ in range(_TRIES))
        others[number] = next(
            (other for other in alike if other not in (*numbers, *others.values())), number
        )
    return others


def _alike(number: str, rng: random.Random) -> str:
    """A number of the same length and about the same size, which is read the same way.

    That is "the 19th" for "the 15th", and "5 p.m." for 17 as "3 p.m." for 15.
    """
    head = number[:-2][:1] + "".join(rng.choices("0123456789", k=max(0, len(number) - 3)))
    if number[-2] != "1":
        return head + rng.choice("23456789") + number[-1]
    return head + "1" + rng.choice("012" if number[-1] in "012" else "3456789")


def with_others(text: str, others: Mapping[str, str]) -> str:
    """The text with other numbers in place of its own.

    >>> with_others("room 204 of 2041", {"204": "294"})
    'room 294 of 2041'
    """
    return _NUMBER.sub(lambda found: others.get(found[0], found[0]), text)


def put_back(others: Mapping[str, str], changed: str, translation: str) -> str:
    """The translation of a changed text with the numbers of the original.

    Empty if one of the other numbers did not come through whole.

    >>> put_back({"204": "294"}, "Zimmer 294", "room 294")
    'room 204'
    >>> put_back({"1290": "1920"}, "1920 Leute", "1,920 people")
    ''
    """
    before, after = (Counter(_NUMBER.findall(text)) for text in (changed, translation))
    if digit_errors(changed, translation) or any(
        before[other] != after[other] for other in others.values()
    ):
        return ""
    return with_others(translation, {other: number for number, other in others.items()})
