"""Split texts into sentences, or into parts that fit a limit.

Parts end at sentence ends if possible, otherwise between words, otherwise anywhere.
"""

import re
from collections.abc import Callable
from functools import cache

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])(?=[\s\"'»”)])\s*|(?<=[。！？])")
_SPACE = re.compile(r"\s+")
_CLOSED = re.compile(r"[.!?…。！？][\s\"'»”)]{0,9}\Z")
# A gap begins at the start of its white space: trying each position of a long run would take
# quadratic time. The pattern starts with white space, so the search skips everything else quickly.
_GAP = re.compile(
    r"\s(?<!\s\s)(?:(?<=[\r\n])\s*|\s*[\r\n]\s*"
    r"|(?:(?<=[.!?…]\s)|(?<=[.!?…][\"'»”“’)]\s)|(?<=[.!?…]\s»\s))(?!»)\s*)"
)
_LONGEST_SENTENCE = 5000  # characters
_LONGEST_WORD = 100  # characters
_LONG_WORD = 5  # letters: acronyms are mostly shorter
# "2.3 Results", "1. Introduction", "(a) First", "- item": numbers and marks of items belong to the
# sentence that follows. But not the number of "3 dogs" or "2.5 million", nor the day of "3. Mai".
NUMBERING = re.compile(
    r"(?:(?:\(?(?:\d{1,3}(?:\.\d{1,3}){0,5}|[A-Za-z]|[ivx]{1,4}|[IVXLC]{1,5})[.):]{1,2}"
    r"|\d{1,3}(?:\.\d{1,3}){1,5}(?=\s+[A-ZÀ-Ý]))|[-–—•*·‣▪◦○●■□►➢✓])\s{1,9}"
    r"(?!(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w{0,6}\b)(?=\S)"
)
# A full stop after one of these does not end a sentence.
_ABBREVIATIONS = {
    "en": "mr mrs ms messrs dr prof st vs etc approx incl excl esp dept gen capt sgt lt rev eg",
    "de": "bzw ca dr etc fr hr nr prof sog st usw vgl vs evtl ggf inkl exkl zzgl bspw geb insb "
    "abb ungef",
    "fr": "dr etc mme mlle pr st ste cf env ex vs boul av",
    "es": "sr sra sres srta dr dra dña ud uds prof profa etc aprox ej av avda pág vs",
    "pt": "sr sra srs dr dra exmo exma prof profa etc aprox ex av pág vs",
}
# These may be words, too, especially "no": they are abbreviations only before a number.
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
    """Split a text into parts that fit, each as long as possible.

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
    # Neither sentences nor words: cut in the middle, and test the halves again.
    middle = len(text) // 2
    return split_to_fit(text[:middle], fits) + split_to_fit(text[middle:], fits)


def _pack(atoms: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Join neighboring atoms as long as they fit."""
    groups = []
    start = 0
    while start < len(atoms):
        count = _most_that_fit(atoms, start, fits)
        groups.append(" ".join(atoms[start : start + count]))
        start += count
    return groups


def _most_that_fit(atoms: list[str], start: int, fits: Callable[[str], bool]) -> int:
    """Return the number of atoms from `start` that fit together, at least one."""
    # Double the number until it is too large, then bisect. Testing takes time proportional to the
    # text, so a test after each atom would take quadratic time.
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


def ends_sentence(text: str) -> bool:
    """True if a part of `split_to_fit` ends where a sentence does.

    >>> ends_sentence('He said "no."'), ends_sentence("He said")
    (True, False)
    """
    return bool(_CLOSED.search(text))


def split_sentences(text: str, language: str = "") -> tuple[list[str], list[str]]:
    """Return the sentences of a text, and the white space between them.

    The end of a line always ends a sentence. A full stop does not, if it follows a single letter,
    an abbreviation, or a number of up to two digits, which may be an ordinal. Without a `language`,
    the abbreviations of all languages are used.

    A sentence of more than `_LONGEST_SENTENCE` characters is cut, between words if possible, since
    work on one sentence cannot be interrupted.

    >>> split_sentences("Ja. Am 3. Mai kam Dr. Roth.\\nGut!")
    (['Ja.', 'Am 3. Mai kam Dr. Roth.', 'Gut!'], [' ', '\\n'])
    """
    sentences, gaps, start = [], [], 0
    numbering = NUMBERING.match(text)
    # The full stop in "iv. Results" belongs to the number.
    for gap in _GAP.finditer(text, numbering.end() if numbering else 0):
        if (
            "\n" in gap[0]
            or "\r" in gap[0]
            or _ends(text[start : gap.start()], text[gap.end() : gap.end() + 9], language)
        ):
            sentences.append(text[start : gap.start()])
            gaps.append(gap[0])
            start = gap.end()
    sentences.append(text[start:])
    if len(text) <= _LONGEST_SENTENCE:
        return sentences, gaps
    return _cut(sentences, gaps)


def _cut(sentences: list[str], gaps: list[str]) -> tuple[list[str], list[str]]:
    """Cut sentences that are too long."""
    pieces, between = [], []
    for sentence, gap in zip(sentences, [*gaps, ""], strict=True):
        rest = sentence
        while len(rest) > _LONGEST_SENTENCE:
            space = rest.rfind(" ", _LONGEST_SENTENCE // 2, _LONGEST_SENTENCE)
            at = space if space > 0 else _LONGEST_SENTENCE
            pieces.append(rest[:at])
            between.append(rest[at : at + (space > 0)])
            rest = rest[at + (space > 0) :]
        pieces.append(rest)
        between.append(gap)
    return pieces, between[:-1]


def _ends(before: str, after: str, language: str) -> bool:
    """True if a sentence ends between these texts."""
    if not after or after[0].islower():
        return False
    # Only look at the last word: splitting the whole text at every gap would take quadratic time.
    ending = before[-_LONGEST_WORD:].rstrip("\"'»”“’)").removesuffix(".")
    last = re.split(r"[\s.(\['’]", ending)[-1].lower()
    if not before.endswith("."):
        return True
    # "Am 3. Mai", but "in the year 2020. Then": a longer number ends the sentence.
    is_ordinal = last.isdigit() and len(last) <= 2
    is_letter = len(last) == 1 and last.isalpha()
    if not last or is_ordinal or is_letter or last in _words(False, language):
        return False
    return not (last in _words(True, language) and _NUMBER.match(after))


@cache
def _words(before_numbers: bool, language: str) -> frozenset[str]:
    """Return the abbreviations of a language, or of all languages if it is unknown."""
    known = _BEFORE_NUMBERS if before_numbers else _ABBREVIATIONS
    texts = [known[language]] if language in known else known.values()
    return frozenset(word for text in texts for word in text.split())


def is_in_capitals(text: str) -> bool:
    """True if a text is in capitals and is more than acronyms: one of its words is long enough.

    >>> is_in_capitals("WHERE IS MY BAG?"), is_in_capitals("NATO"), is_in_capitals("UN, EU, USA")
    (True, False, False)
    >>> is_in_capitals("SETTINGS")
    True
    """
    if not text.isupper():
        return False
    words = [word for word in text.split() if any(c.isalpha() for c in word)]
    # A single word may be an acronym, so it must be longer.
    shortest = _LONG_WORD if len(words) == 1 else 4
    return any(len(word) >= shortest for word in words)


def begins_with_capital(text: str) -> bool:
    """True if the first letter of a text is a capital, without a digit before it.

    >>> begins_with_capital("„Gut“"), begins_with_capital("3 Hunde"), begins_with_capital("eBay")
    (True, False, False)
    """
    first = next((c for c in text if c.isalnum()), "")
    return first.isupper()


def capitalised(text: str) -> str:
    """Capitalize the first letter of a text, unless a digit precedes it.

    >>> capitalised("¿dónde?"), capitalised("3 dogs"), capitalised("")
    ('¿Dónde?', '3 dogs', '')
    """
    first = next((i for i, c in enumerate(text) if c.isalnum()), 0)
    return text[:first] + text[first : first + 1].upper() + text[first + 1 :]


def uncapitalised(text: str) -> str:
    """Convert the first letter of a text to lower case, unless the second is a capital, too.

    >>> uncapitalised("Lundi"), uncapitalised("TV")
    ('lundi', 'TV')
    """
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def sentence_case(text: str) -> str:
    """Convert a text to lower case, with a capital at its start.

    >>> sentence_case("¿DÓNDE ESTÁ?")
    '¿Dónde está?'
    """
    small = text.lower()
    first = next((i for i, c in enumerate(small) if c.isalpha()), 0)
    return small[:first] + small[first : first + 1].upper() + small[first + 1 :]


def edges(text: str) -> tuple[str, str, str]:
    """Split a text into leading white space, the text itself, and trailing white space.

    >>> edges("  a b ")
    ('  ', 'a b', ' ')
    """
    core = text.strip()
    if not core:
        return text, "", ""
    start = text.index(core)
    return text[:start], core, text[start + len(core) :]
