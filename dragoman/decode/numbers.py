"""Whether a translation has the numbers of its source; and others to stand in for those that a
model gets wrong."""

import random
import re
from collections import Counter
from collections.abc import Mapping

_NUMBER = re.compile(r"\d+")
_TRIES = 20  # at a number that is not taken


def digits_astray(source: str, translation: str) -> int:
    """How many digits a translation lacks or has made up. A number of one digit may come from a
    word, or become one.

    >>> digits_astray("Zimmer 204 im 2. Stock", "room 204 on the second floor")
    0
    >>> digits_astray("3 829 billets", "329 tickets")
    1
    """
    (left, left_words), (right, right_words) = map(_digits, (source, translation))
    return (left - right - left_words).total() + (right - left - right_words).total()


def _digits(text: str) -> tuple[Counter[str], Counter[str]]:
    """All digits of a text, and those that are a number by themselves."""
    numbers = _NUMBER.findall(text)
    return Counter("".join(numbers)), Counter(number for number in numbers if len(number) == 1)


def stand_ins(text: str, seed: int) -> dict[str, str]:
    """Another number for each of the text that has two digits or more, unless all that are like it
    are taken.

    >>> [*stand_ins("Am 15. Mai 1987, um 8 Uhr", seed=1)]
    ['15', '1987']
    """
    lots = random.Random(seed)
    numbers = _NUMBER.findall(text)
    others: dict[str, str] = {}
    for number in dict.fromkeys(number for number in numbers if len(number) > 1):
        alike = (_alike(number, lots) for _ in range(_TRIES))
        others[number] = next(
            (other for other in alike if other not in (*numbers, *others.values())), number
        )
    return others


def _alike(number: str, lots: random.Random) -> str:
    """As long, of a like size, told the same way: "the 19th" for "the 15th", "5 p.m." for 17 as "3
    p.m." for 15."""
    head = number[:-2][:1] + "".join(lots.choices("0123456789", k=max(0, len(number) - 3)))
    if number[-2] != "1":
        return head + lots.choice("23456789") + number[-1]
    return head + "1" + lots.choice("012" if number[-1] in "012" else "3456789")


def with_others(text: str, others: Mapping[str, str]) -> str:
    """
    >>> with_others("room 204 of 2041", {"204": "294"})
    'room 294 of 2041'
    """
    return _NUMBER.sub(lambda found: others.get(found[0], found[0]), text)


def put_back(others: Mapping[str, str], changed: str, said: str) -> str:
    """What was said of a changed text, with its own numbers; nothing if one of the others did not
    come through whole.

    >>> put_back({"204": "294"}, "Zimmer 294", "room 294")
    'room 204'
    >>> put_back({"1290": "1920"}, "1920 Leute", "1,920 people")
    ''
    """
    before, after = (Counter(_NUMBER.findall(text)) for text in (changed, said))
    if digits_astray(changed, said) or any(
        before[other] != after[other] for other in others.values()
    ):
        return ""
    return with_others(said, {other: number for number, other in others.items()})
