"""Names that are missing in a translation, and the garbled words in their place.

>>> names = lacking_names("I saw Tjarke.", "Ich sah Warke.", "en", "de")
>>> find_garbled("I saw Tjarke.", "Ich sah Warke.", names)
(Garbled(name='Tjarke', start=8, end=13, likeness=0.73, known=False),)
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from operator import add, itemgetter
from typing import NamedTuple

from dragoman.text.languages import NOUNS_IN_CAPITALS

COUNTED = frozenset(["de", "en", "es", "fr", "pt"])  # languages whose words are known
# Languages that write days, months and languages in small letters.
SMALL_LETTERS = frozenset(("ca", "es", "fr", "gl", "it", "pt", "ro"))
_WORD = re.compile(r"(?:[^\W\d_]++|\ufffd++)++")  # with replacement characters of broken bytes
# A word that starts with anything but a-z, so that most words are skipped quickly.
_MAYBE_NAME = re.compile(r"[^\W\d_a-z](?<![^\W\d_].)(?<!\ufffd.)(?:[^\W\d_]++|\ufffd++)*+")
HASHES = 4  # bits of a word in the Bloom filter
_LEAST_LETTERS, _MOST_LETTERS = 3, 40
# Any word is capitalized after these.
_BEGINS = re.compile(r"(?:\A|[.!?:…])\W{0,5}\Z|[\"“„«»‘¿¡(]\s?\Z")
_GENITIVES = ("X's", "X’s", " of X", " de X", " do X", " da X", "d'X", "d’X")
_ALIKE = 0.5  # the least likeness of two words
_MORE_ALIKE = 0.65  # where only one of them need be a name
_MOST_ALIKE = 0.8  # where one of them has no capital


class Garbled(NamedTuple):
    """A name, and the span of a similar word in its place. `known`: the name is in the filter."""

    name: str
    start: int
    end: int
    likeness: float
    known: bool = False


def name_words(text: str) -> Iterator[re.Match[str]]:
    """Find words that begin with a capital and have small letters, too.

    >>> [match[0] for match in name_words("Ada met Jiřina Dvořáková in the USA.")]
    ['Ada', 'Jiřina', 'Dvořáková']
    """
    return (match for match in _MAYBE_NAME.finditer(text) if looks_like_a_name(match[0]))


def looks_like_a_name(word: str) -> bool:
    return word[0].isupper() and len(word) >= _LEAST_LETTERS and not word.isupper()


def is_known(word: str) -> bool:
    """Check if a capitalized word occurs more than once in a corpus of five languages.

    `tools/known_names.py` counted them. One in 80 other words is a false positive.

    >>> is_known("Lisbon"), is_known("Lissabon"), is_known("Lissbon")
    (True, True, False)
    """
    known = _known()
    # A Bloom filter: 343 kB for the words of five languages, with a few false positives.
    return all(known[bit >> 3] >> (bit & 7) & 1 for bit in bits_of(word, 8 * len(known)))


@cache
def _known() -> bytes:
    return (files("dragoman.text") / "known_names.bin").read_bytes()


def bits_of(word: str, size: int) -> list[int]:
    """Return the bits of a Bloom filter that a word sets."""
    digest = blake2b(word.encode(), digest_size=4 * HASHES).digest()
    parts = (digest[at : at + 4] for at in range(0, len(digest), 4))
    return [int.from_bytes(part, "little") % size for part in parts]


def likeness(word: str, other: str) -> float:
    """Compare two words: twice their longest common subsequence over their total length.

    >>> likeness("Tjarke", "Warke"), likeness("Döhl", "döhl")
    (0.73, 1.0)
    """
    word, other = word.casefold(), other.casefold()
    # Hyyrö's bit-parallel algorithm: a bit of `row` is 0 where the common subsequence with `other`
    # gets one letter longer. One pass of integer operations replaces the table of both words.
    places: dict[str, int] = {}
    for at, letter in enumerate(other):
        places[letter] = places.get(letter, 0) | 1 << at
    row = whole = (1 << len(other)) - 1
    for letter in word:
        matches = row & places.get(letter, 0)
        row = (row + matches | row - matches) & whole
    common = len(other) - row.bit_count()
    return round(2 * common / (len(word) + len(other)), 2)


class Name(NamedTuple):
    """A word of a source that looks like a name.

    `sure`: its language capitalizes no other words there. `joined`: it is next to another name, as
    first and last names are, and the translation has that one.
    """

    text: str
    start: int
    end: int
    sure: bool
    joined: bool


def lacking_names(
    source: str,
    translation: str,
    language: str,
    to: str,
    is_rare: Callable[[str], bool] = lambda word: True,
) -> tuple[Name, ...]:
    """Find words of a source that look like names and are missing in its translation.

    Only rare words count, and words next to a name that was kept.

    >>> [name.text for name in lacking_names("Ich sah Tjarke.", "I saw Warke.", "de", "en")]
    ['Ich', 'Tjarke']
    >>> lacking_names("I saw Tjarke Lorentz.", "Ich sah Warke Lorentz.", "en", "de")
    (Name(text='Tjarke', start=6, end=12, sure=True, joined=True),)
    """
    names = [(match[0], *match.span()) for match in name_words(source)]
    # Names that the translation has, by position: they make their neighbors likely names.
    kept = [(start, end) for word, start, end in names if _has_word(translation, word)]
    starts, ends = {start for start, _ in kept}, {end for _, end in kept}
    lacking = []
    for word, start, end in names:
        if start in starts or _has_genitive(word, translation, language, to):
            continue
        joined = (start - 1 in ends and source[start - 1] == " ") or (
            end + 1 in starts and source[end] == " "
        )
        if not (joined or is_rare(word)):
            continue
        sure = language not in NOUNS_IN_CAPITALS and not _BEGINS.search(
            source, max(0, start - 6), start
        )
        lacking.append(Name(word, start, end, sure, joined))
    return tuple(lacking)


def _has_word(text: str, word: str) -> bool:
    """
    >>> _has_word("Anna's dog", "Anna"), _has_word("Annapolis", "Anna")
    (True, False)
    """
    return word in text and word in _words(text)  # the first is quick, and most often the last


@lru_cache(maxsize=4)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def _has_genitive(word: str, translation: str, language: str, to: str) -> bool:
    """Check if a translation adds the s of a German genitive to a name, or drops it.

    >>> _has_genitive("Annas", "Anna's dog", "de", "en")
    True
    >>> _has_genitive("Lajos", "Lajo came", "de", "en")
    False
    """
    if to == "de" and _has_word(translation, f"{word}s"):
        return True
    name = word[:-1]
    if language != "de" or word[-1] != "s" or not _has_word(translation, name):
        return False
    return any(of.replace("X", name) in translation for of in _GENITIVES)


@lru_cache(maxsize=4)  # called to detect an error, and again to repair it
def find_garbled(source: str, translation: str, names: tuple[Name, ...]) -> tuple[Garbled, ...]:
    """Find the word most like each missing name, among words that the source does not have.

    Where a capital proves little in the source, the word must be capitalized, too. If both words
    are known, one is the translation of the other: London and Londres.
    """
    if not names:
        return ()
    words = _WORD if any(name.sure or name.joined for name in names) else _MAYBE_NAME
    others = [
        (match, match[0].casefold())
        for match in words.finditer(translation)
        if not _has_word(source, match[0])
    ]
    # Where a capital is no proof of a name, only capitalized words can be the garbled one.
    capitals = [other for other in others if other[0][0][0].isupper()]
    garbled: list[Garbled] = []
    for name in names:
        sure = name.sure or name.joined
        least = _ALIKE if sure else _MORE_ALIKE
        text = name.text.casefold()
        like = [
            (likeness(text, word), match)
            for match, word in (others if sure else capitals)
            if _may_be_like(text, word, least)
        ]
        if not like:  # as for most
            continue
        alike, likest = max(like, key=itemgetter(0))
        word, start = likest[0], likest.start()
        if alike < (_MOST_ALIKE if word[0].islower() else least):
            continue
        if any(one.start == start for one in garbled):
            continue
        known = is_known(name.text)
        if not known or not (word.islower() or is_known(word)):
            garbled.append(Garbled(name.text, start, likest.end(), alike, known))
    return tuple(garbled)


def _may_be_like(word: str, other: str, least: float) -> bool:
    """Rule out most pairs of words faster than `likeness` can.

    They must share two consecutive letters, and enough letters in any order to reach `least`.

    >>> _may_be_like("tjarke", "warke", 0.7), _may_be_like("tjarke", "warke", 0.8)
    (True, False)
    """
    if len(word) > _MOST_LETTERS or len(other) > _MOST_LETTERS:
        return False
    enough = (least - 0.005) * (len(word) + len(other)) / 2  # likeness is rounded
    if len(other) < enough or sum(map(other.__contains__, word)) < enough:
        return False
    return any(pair in other for pair in map(add, word, word[1:]))
