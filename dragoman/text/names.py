"""Words that look like names: which of them a translation lacks, and what stands in their place.

>>> names = lacking_names("I saw Tjarke.", "Ich sah Warke.", "en", "de")
>>> find_garbled("I saw Tjarke.", "Ich sah Warke.", names)
(Garbled(name='Tjarke', start=8, end=13, likeness=0.73, known=False),)
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from operator import add, itemgetter
from typing import NamedTuple

from dragoman.text.subword import WORD_START

COUNTED = frozenset(["de", "en", "es", "fr", "pt"])  # languages whose words are known
NOUNS_IN_CAPITALS = ("de",)  # languages in which a capital tells little
# Languages in which days, months and languages have none.
SMALL_LETTERS = frozenset(("ca", "es", "fr", "gl", "it", "pt", "ro"))
_WORD = re.compile(r"(?:[^\W\d_]++|\ufffd++)++")  # with what bytes leave that make no letter
# One that may have a capital: most have none, and this passes over them.
_MAYBE_NAME = re.compile(r"[^\W\d_a-z](?<![^\W\d_].)(?<!\ufffd.)(?:[^\W\d_]++|\ufffd++)*+")
HASHES = 4  # of a word in the filter of known ones
_LEAST_LETTERS, _MOST_LETTERS = 3, 40
# A word behind these has a capital whatever it is.
_BEGINS = re.compile(r"(?:\A|[.!?:…])\W{0,5}\Z|[\"“„«»‘¿¡(]\s?\Z")
_GENITIVES = ("X's", "X’s", " of X", " de X", " do X", " da X", "d'X", "d’X")
_ALIKE = 0.5  # letters that two words have in common, of those that they have
_MORE_ALIKE = 0.65  # where only one of them need be a name
_MOST_ALIKE = 0.8  # where one of them has no capital


class Garbled(NamedTuple):
    """A name, and where a word like it stands for it in a translation. `known`: text has it."""

    name: str
    start: int
    end: int
    likeness: float
    known: bool = False


def name_words(text: str) -> Iterator[re.Match[str]]:
    """Words that begin with a capital and have small letters too.

    >>> [match[0] for match in name_words("Ada met Jiřina Dvořáková in the USA.")]
    ['Ada', 'Jiřina', 'Dvořáková']
    """
    return (match for match in _MAYBE_NAME.finditer(text) if looks_like_a_name(match[0]))


def looks_like_a_name(word: str) -> bool:
    return word[0].isupper() and len(word) >= _LEAST_LETTERS and not word.isupper()


def pieces_of_names(pieces: Sequence[str]) -> Iterator[Sequence[str]]:
    """The pieces of words that have a capital and small letters, where there are several.

    A frequent word is one piece, and a model knows what becomes of it.

    >>> [*pieces_of_names(["▁Der", "▁al", "te", "▁Dö", "hl", "▁schläft"])]
    [['▁Dö', 'hl']]
    """
    start = 0
    for end in range(1, len(pieces) + 1):
        if end < len(pieces) and not pieces[end].startswith(WORD_START):
            continue
        if end - start > 1:
            word = pieces[start:end]
            letters = "".join(word)
            if letters.lower() != letters != letters.upper():
                yield word
        start = end


def is_known(word: str) -> bool:
    """Whether text in one of five languages has a word with this capital more than once.

    `tools/known_names.py` has counted them. One in 80 other words passes for one of them.

    >>> is_known("Lisbon"), is_known("Lissabon"), is_known("Lissbon")
    (True, True, False)
    """
    known = _known()
    return all(known[bit >> 3] >> (bit & 7) & 1 for bit in bits_of(word, 8 * len(known)))


@cache
def _known() -> bytes:
    return (files("dragoman.text") / "known_names.bin").read_bytes()


def bits_of(word: str, size: int) -> list[int]:
    """The bits of a Bloom filter that a word sets."""
    digest = blake2b(word.encode(), digest_size=4 * HASHES).digest()
    parts = (digest[at : at + 4] for at in range(0, len(digest), 4))
    return [int.from_bytes(part, "little") % size for part in parts]


def likeness(word: str, other: str) -> float:
    """The longest common subsequence of two words, as a share of their letters.

    >>> likeness("Tjarke", "Warke"), likeness("Döhl", "döhl")
    (0.73, 1.0)
    """
    word, other = word.casefold(), other.casefold()
    # Hyyrö's rows of bits: a bit of `row` is 0 where the letters of `other` up to there have one
    # more in common with those of `word` than the letters before them.
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

    `sure`: its language has no capital there for other words. `joined`: another name stands beside
    it, as first and last names do, and the translation has that one.
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
    """Words of a source that look like names and that its translation does not have: rare ones, and
    what is joined to a name.

    >>> [name.text for name in lacking_names("Ich sah Tjarke.", "I saw Warke.", "de", "en")]
    ['Ich', 'Tjarke']
    >>> lacking_names("I saw Tjarke Lorentz.", "Ich sah Warke Lorentz.", "en", "de")
    (Name(text='Tjarke', start=6, end=12, sure=True, joined=True),)
    """
    names = [(match[0], *match.span()) for match in name_words(source)]
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
    """Whether a translation has a name with the s of a German genitive, or without the one that
    the source has.

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


@lru_cache(maxsize=4)  # whoever finds that something is garbled asks again, to mend it
def find_garbled(source: str, translation: str, names: tuple[Name, ...]) -> tuple[Garbled, ...]:
    """For each of some names that a translation lacks the word that is likest to it, if one is
    like it and the source does not have it.

    Where the source's capital tells little, the word must have one too. If both are known, the word
    is what its language has for the name: London and Londres.
    """
    if not names:
        return ()
    words = _WORD if any(name.sure or name.joined for name in names) else _MAYBE_NAME
    others = [
        (match, match[0].casefold())
        for match in words.finditer(translation)
        if not _has_word(source, match[0])
    ]
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
    """Whether two words in small letters share two letters in a row, and as many in any order as
    `least` asks for: quicker than to compare them.

    >>> _may_be_like("tjarke", "warke", 0.7), _may_be_like("tjarke", "warke", 0.8)
    (True, False)
    """
    if len(word) > _MOST_LETTERS or len(other) > _MOST_LETTERS:
        return False
    enough = (least - 0.005) * (len(word) + len(other)) / 2  # likeness is rounded
    if len(other) < enough or sum(map(other.__contains__, word)) < enough:
        return False
    return any(pair in other for pair in map(add, word, word[1:]))
