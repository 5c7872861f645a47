"""Whether a translation has the numbers of its source."""

import re
from collections import Counter

NUMBER = re.compile(r"\d+")


def digits_astray(source: str, translation: str) -> int:
    """How many digits a translation lacks or has made up. A number of one digit may come from a word, or become one.

    >>> digits_astray("Zimmer 204 im 2. Stock", "room 204 on the second floor")
    0
    >>> digits_astray("3 829 billets", "329 tickets")
    1
    """
    (left, left_words), (right, right_words) = map(_digits, (source, translation))
    return (left - right - left_words).total() + (right - left - right_words).total()


def _digits(text: str) -> tuple[Counter[str], Counter[str]]:
    """All digits of a text, and those that are a number by themselves."""
    numbers = NUMBER.findall(text)
    return Counter("".join(numbers)), Counter(number for number in numbers if len(number) == 1)
