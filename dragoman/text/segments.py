"""Texts cut into sentences, or into parts that fit a limit.

The cut is at sentence ends, else between words, else anywhere.
"""

import re
from collections.abc import Callable
from functools import cache

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])(?=[\s\"'»”)])\s*|(?<=[。！？])")
_SPACE = re.compile(r"\s+")
# A gap begins where its white space does: to try every place of a long run would take quadratic
# time. White space comes first here, so that all else is passed over at once.
_GAP = re.compile(
    r"\s(?<!\s\s)(?:(?<=[\r\n])\s*|\s*[\r\n]\s*"
    r"|(?:(?<=[.!?…]\s)|(?<=[.!?…][\"'»”“’)]\s)|(?<=[.!?…]\s»\s))(?!»)\s*)"
)
_LONGEST_WORD = 100  # characters
_LONG_WORD = 5  # letters: acronyms are mostly shorter
# "2.3 Results", "1. Introduction", "(a) First", "- item": what counts or marks an item stays before
# it. Not the number of "3 dogs" or "2.5 million", nor the day of "3. Mai".
NUMBERING = re.compile(
    r"(?:(?:\(?(?:\d{1,3}(?:\.\d{1,3}){0,5}|[A-Za-z]|[ivx]{1,4}|[IVXLC]{1,5})[.):]{1,2}"
    r"|\d{1,3}(?:\.\d{1,3}){1,5}(?=\s+[A-ZÀ-Ý]))|[-–—•*·‣▪◦○●■□►➢✓])\s{1,9}"
    r"(?!(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w{0,6}\b)(?=\S)"
)
# A full stop behind one of these ends no sentence.
_ABBREVIATIONS = {
    "en": "mr mrs ms messrs dr prof st vs etc approx incl excl esp dept gen capt sgt lt rev eg",
    "de": "bzw ca dr etc fr hr nr prof sog st usw vgl vs evtl ggf inkl exkl zzgl bspw geb insb "
    "abb ungef",
    "fr": "dr etc mme mlle pr st ste cf env ex vs boul av",
    "es": "sr sra sres srta dr dra dña ud uds prof profa etc aprox ej av avda pág vs",
    "pt": "sr sra srs dr dra exmo exma prof profa etc aprox ex av pág vs",
}
# These may be words too, "no" above all: the stop is theirs if a number follows.
_BEFORE_NUMBERS = {
    "en": "no nos nr fig figs sec sect vol vols chap ch art arts par para pp ed eq ref rec ver app "
    "max min tel ext approx",
    "de": "nr nrn abb abs art bd bde kap tab ziff max min mind rn rz tel aufl anm fig",
    "fr": "no nos fig figs art chap vol réf max min tél al éd pp rec env tab",
    "es": "no núm nro fig figs art arts cap vol págs pp máx mín tel ref rec ed tab",
    "pt": "no núm nro fig figs art arts cap vol págs pp máx mín tel ref rec ed tab",
}
_NUMBER = re.compile(r"[(\[#§~±]?\d|(?:No|Nr|N|Art|Fig)\b[.º°]|[IVXLC]{2,}\b")


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts of a text that all fit, as long as possible, cut at the gentlest places.

    >>> split_to_fit("One two. Three four. Five.", lambda part: len(part) <= 20)
    ['One two. Three four.', 'Five.']
    """
    if fits(text):
        return [text]
    for boundary in (_SENTENCE_END, _SPACE):
        atoms = [atom for atom in boundary.split(text) if atom and atom.strip()]
        if len(atoms) > 1:
            return [part for group in _pack(atoms, fits) for part in split_to_fit(group, fits)]
    if len(text) < 2:
        return [text]
    middle = len(text) // 2
    return split_to_fit(text[:middle], fits) + split_to_fit(text[middle:], fits)


def _pack(atoms: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Neighbouring atoms joined while they fit together."""
    groups = []
    start = 0
    while start < len(atoms):
        count = _most_that_fit(atoms, start, fits)
        groups.append(" ".join(atoms[start : start + count]))
        start += count
    return groups


def _most_that_fit(atoms: list[str], start: int, fits: Callable[[str], bool]) -> int:
    """How many atoms from there on fit together; one is always taken.

    The number is doubled until it is too large, and then searched for by halving: whether a text
    fits takes as long as the text, and to ask after each atom would make that quadratic.
    """
    most = len(atoms) - start
    fitting, too_many = 1, 2
    while too_many <= most and fits(" ".join(atoms[start : start + too_many])):
        fitting, too_many = too_many, 2 * too_many
    too_many = min(too_many, most + 1)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(" ".join(atoms[start : start + middle])):
            fitting = middle
        else:
            too_many = middle
    return fitting


def split_sentences(text: str, language: str = "") -> tuple[list[str], list[str]]:
    """Sentences, and the white space between them: one more of the first than of the second.

    A line's end always ends a sentence; a full stop does not after a single letter, an abbreviation
    or a number of up to two digits, which may be an ordinal. Without a `language`, the
    abbreviations of all languages count.

    >>> split_sentences("Ja. Am 3. Mai kam Dr. Roth.\\nGut!")
    (['Ja.', 'Am 3. Mai kam Dr. Roth.', 'Gut!'], [' ', '\\n'])
    """
    sentences, gaps, start = [], [], 0
    numbering = NUMBERING.match(text)
    # The point of "iv. Results" belongs to the number.
    for gap in _GAP.finditer(text, numbering.end() if numbering else 0):
        if (
            "\n" in gap[0]
            or "\r" in gap[0]
            or _ends(text[start : gap.start()], text[gap.end() : gap.end() + 9], language)
        ):
            sentences.append(text[start : gap.start()])
            gaps.append(gap[0])
            start = gap.end()
    return [*sentences, text[start:]], gaps


def _ends(before: str, after: str, language: str) -> bool:
    """Whether a sentence ends between the two."""
    if not after or after[0].islower():
        return False
    # The last word is enough. To split all that came before at every gap would take quadratic time.
    ending = before[-_LONGEST_WORD:].rstrip("\"'»”“’)").removesuffix(".")
    last = re.split(r"[\s.(\['’]", ending)[-1].lower()
    if not before.endswith("."):
        return True
    is_ordinal = last.isdigit() and len(last) <= 2
    is_letter = len(last) == 1 and last.isalpha()
    if not last or is_ordinal or is_letter or last in _words(False, language):
        return False
    return not (last in _words(True, language) and _NUMBER.match(after))


@cache
def _words(before_numbers: bool, language: str) -> frozenset[str]:
    """The abbreviations of a language; those of all, if we do not know it."""
    known = _BEFORE_NUMBERS if before_numbers else _ABBREVIATIONS
    texts = [known[language]] if language in known else known.values()
    return frozenset(word for text in texts for word in text.split())


def is_in_capitals(text: str) -> bool:
    """Whether a text is shouted: no small letter, several words that are not all short, or a long
    one, which is hardly an acronym.

    >>> is_in_capitals("WHERE IS MY BAG?"), is_in_capitals("NATO"), is_in_capitals("UN, EU, USA")
    (True, False, False)
    >>> is_in_capitals("SETTINGS")
    True
    """
    if not text.isupper():
        return False
    words = [word for word in text.split() if any(c.isalpha() for c in word)]
    shortest = _LONG_WORD if len(words) == 1 else 4
    return any(len(word) >= shortest for word in words)


def begins_with_capital(text: str) -> bool:
    """Whether the first letter of a text, with no digit before it, is a capital.

    >>> begins_with_capital("„Gut“"), begins_with_capital("3 Hunde"), begins_with_capital("eBay")
    (True, False, False)
    """
    first = next((c for c in text if c.isalnum()), "")
    return first.isupper()


def capitalised(text: str) -> str:
    """A text that begins with a capital, unless a digit stands before its first letter.

    >>> capitalised("¿dónde?"), capitalised("3 dogs"), capitalised("")
    ('¿Dónde?', '3 dogs', '')
    """
    first = next((i for i, c in enumerate(text) if c.isalnum()), 0)
    return text[:first] + text[first : first + 1].upper() + text[first + 1 :]


def uncapitalised(text: str) -> str:
    """A text that begins with a small letter, unless its second is a capital, too.

    >>> uncapitalised("Lundi"), uncapitalised("TV")
    ('lundi', 'TV')
    """
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def sentence_case(text: str) -> str:
    """Small letters, and a capital to begin with.

    >>> sentence_case("¿DÓNDE ESTÁ?")
    '¿Dónde está?'
    """
    small = text.lower()
    first = next((i for i, c in enumerate(small) if c.isalpha()), 0)
    return small[:first] + small[first : first + 1].upper() + small[first + 1 :]


def edges(text: str) -> tuple[str, str, str]:
    """White space before, the text itself, white space behind.

    >>> edges("  a b ")
    ('  ', 'a b', ' ')
    """
    core = text.strip()
    if not core:
        return text, "", ""
    start = text.index(core)
    return text[:start], core, text[start + len(core) :]
