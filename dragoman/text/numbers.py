"""Numbers: how languages write them, and what a translation has lost, invented or changed.

A quantity is a number with its sign and its unit. Its twin in a translation has the same digits.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_NUMBER = re.compile(r"\d+")
_MOST_DIGITS = 40  # longer numbers are not checked
_SPACES = " \u00a0\u202f"
# Groups of three digits, or digits with points and commas between them.
_WRITTEN = re.compile(
    rf"\d(?:(?<!\d\d)\d{{0,2}}(?:[.,{_SPACES}'’]\d{{3}})+(?:[.,]\d+)?(?!\d)|\d*(?:[.,]\d+)*)"
)
_GROUPED = re.compile(rf"\d{{1,3}}(?:[.,{_SPACES}'’]\d{{3}})+")
_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_GROUP_SPACES = re.compile(rf"[{_SPACES}'’]")
_BETWEEN_DIGITS = re.compile(rf"[.,{_SPACES}'’]")
_BETWEEN_PARTS = re.compile(r"(?:st|nd|rd|th)?\W{0,2}")  # of a date
_SAME_SIGNS = re.compile(r"\d+([./-])\d+(?:\1\d+)+")
# A minus touches its number; a hyphen or dash between two numbers also touches the first one.
_SIGN = re.compile(r"(?:^|[\s(\[])[-−–]$")
_SPAN = re.compile(r"\d\s[-−–]$")
_MINUS = re.compile(rf"(?:[-−–][{_SPACES}]?|\b(?:minus|moins|menos)\s)$", re.IGNORECASE)

# Times with am or pm. A point after p.m. is kept if it may end the sentence.
_HALF_DAY = re.compile(
    r"(?<![\d:.,])(1[0-2]|0?[1-9])(?::([0-5]\d))?\s?"
    r"(?:([AaPp])[Mm]\b|([AaPp])\.\s?[Mm]\.(?=\s+[^\sA-Z])|([AaPp])\.\s?[Mm](?=\.))"
)
_WHOLE_DAYS = frozenset(["de", "es", "fr", "it", "nl", "pt"])  # languages that count to 24


class Writing(NamedTuple):
    """How a language writes numbers."""

    decimal: str
    group: str


# By CLDR.
WRITINGS = {
    "cs": Writing(",", "\u00a0"), "da": Writing(",", "."), "de": Writing(",", "."),
    "en": Writing(".", ","), "es": Writing(",", "."), "fi": Writing(",", "\u00a0"),
    "fr": Writing(",", "\u202f"), "it": Writing(",", "."), "nl": Writing(",", "."),
    "pl": Writing(",", "\u00a0"), "pt": Writing(",", "."), "ro": Writing(",", "."),
    "ru": Writing(",", "\u00a0"), "sv": Writing(",", "\u00a0"), "tr": Writing(",", "."),
    "uk": Writing(",", "\u00a0"),
}  # fmt: skip
_CHECKED = frozenset(["de", "en", "es", "fr", "it", "nl", "pt"])  # languages whose units are known
# Symbols of units, and what a translation may have instead: symbols, and how words begin.
_UNITS = {
    "%": ("%", "percent|per cent|prozent|pour cent|por ciento|por cento"),
    "€": ("€|eur", "euro"), "EUR": ("€|eur", "euro"), "£": ("£|gbp", "pound|pfund|livre|libra"),
    "$": ("$|usd", "dollar|dólar|dolar"), "USD": ("$|usd", "dollar|dólar|dolar"),
    "R$": ("r$|brl", "real|reai|réa|reales"), "¥": ("¥|jpy", "yen|iene"),
    "°C": ("°|°c|ºc", "grad|degr|grau"), "°F": ("°|°f|ºf", "grad|degr|grau"),
    "kg": ("kg", "kilo|quilo"), "km": ("km", "kilom|quil"), "m": ("m", "met|mèt|mét"),
    "cm": ("cm", "centim|centím|zentim"), "mm": ("mm", "millim|milim|milím"),
    "km²": ("km²|km2", "square|quadrat"), "m²": ("m²|m2", "square|quadrat|mètr|metr"),
    "kWh": ("kwh", "kilow|quil"), "km/h": ("km/h|kmh", "kilom|quil|stundenkilom"),
    "GB": ("gb|go", "gigab"), "MB": ("mb|mo", "megab|mégao"), "ml": ("ml", "millil|milil|milíl"),
}  # fmt: skip
_SYMBOL = "|".join(re.escape(symbol) for symbol in sorted(_UNITS, key=len, reverse=True))
_BEHIND = re.compile(rf"[{_SPACES}]?({_SYMBOL})(?![\w²³])")
_BEFORE = re.compile(rf"(?<!\w)(R\$|[€£$¥]|EUR|USD)[{_SPACES}]?$")
_FAR_BEHIND, _FAR_BEFORE = 16, 8  # characters between a number and its unit in a translation


class Quantity(NamedTuple):
    """A number with its sign and unit; `start` and `end` include both."""

    start: int
    end: int
    number: str
    sign: str = ""
    unit: str = ""

    @property
    def digits(self) -> str:
        return _digits_of(self.number)


def _digits_of(number: str) -> str:
    return number if number.isdigit() else re.sub(r"\D", "", number)


@lru_cache(maxsize=256)  # each promise asks about the same source
def quantities(text: str) -> tuple[Quantity, ...]:
    """Find the numbers of a text.

    >>> [(q.sign, q.number, q.unit) for q in quantities("-5 °C, £1,299.99 in 1987")]
    [('-', '5', '°C'), ('', '1,299.99', '£'), ('', '1987', '')]
    """
    found = []
    for match in _WRITTEN.finditer(text):
        start, end = match.span()
        unit, before = "", text[max(0, start - 10) : start]
        signed = _SIGN.search(before) and not _SPAN.search(before)
        sign = before[-1] if signed else ""
        start -= len(sign)
        if behind := _BEHIND.match(text, end):
            unit, end = behind[1], behind.end()
        elif symbol := _BEFORE.search(before.removesuffix(sign)):
            unit, start = symbol[1], start - len(symbol[0])
        found.append(Quantity(start, end, match[0], sign, unit))
    return tuple(found)


def value(number: str, language: str) -> Decimal | None:
    """Read a number as a reader of this language would; None if it is not a number there.

    >>> value("3.456", "de"), value("3.456", "en"), value("3.2", "de")
    (Decimal('3456'), Decimal('3.456'), Decimal('3.2'))
    """
    decimal = WRITINGS[language].decimal
    group = "." if decimal == "," else ","
    number = re.sub(rf"[{_SPACES}'’]", "", number)
    if re.fullmatch(rf"\d{{1,3}}(?:\{group}\d{{3}})+(?:\{decimal}\d+)?", number):
        number = number.replace(group, "")
    # One sign that parts no group of three is a decimal sign, in whatever language.
    whole, *rest = re.split("[.,]", number)
    return Decimal(".".join([whole, *rest])) if len(rest) < 2 else None


def rewritten(number: str, source: str, target: str) -> str:
    """Write a number of one language as another one does.

    >>> rewritten("1,299.99", "en", "de"), rewritten("2.5", "de", "fr")
    ('1.299,99', '2.5')
    """
    if source not in WRITINGS or target not in WRITINGS:
        return number
    (decimal, group), (own_decimal, own_group) = WRITINGS[source], WRITINGS[target]
    sign = number[: len(number) - len(number.lstrip("-−–"))]
    number = number.removeprefix(sign)
    plain = _GROUP_SPACES.sub("" if group.isspace() else group, number)
    whole, mark, fraction = plain.partition(decimal)
    groups = whole.split(group)
    if len(groups) > 1 and any(len(digits) != 3 for digits in groups[1:]):
        return sign + number
    if not all(digits.isdigit() for digits in groups) or (mark and not fraction.isdigit()):
        return sign + number  # written as another language does
    has_groups = len(groups) > 1 or len(plain) < len(number)
    whole = "".join(groups)
    if has_groups:
        first = len(whole) % 3
        thousands = (whole[at : at + 3] for at in range(first, len(whole), 3))
        whole = own_group.join(filter(None, [whole[:first], *thousands]))
    return sign + (whole + own_decimal + fraction if mark else whole)


def _same_digits(quantity: Quantity, text: str) -> Iterator[tuple[int, int]]:
    """Find the digits of a quantity in a text, with any separators between them.

    A regular expression for each number would take longer to compile than to use.

    >>> text = "41,087 of 141.087 or 41 087, not 41.087,5"
    >>> [text[start:end] for start, end in _same_digits(Quantity(0, 6, "41.087"), text)]
    ['41,087', '41 087']
    """
    wanted, date = quantity.digits, _DATE.fullmatch(quantity.number)
    between = _BETWEEN_PARTS if date else _BETWEEN_DIGITS
    parts = date and (len(date[1]), len(date[1] + date[2]))
    runs = [run.span() for run in _NUMBER.finditer(text)]
    gaps = [text[end:start] for (_, end), (start, _) in pairwise(runs)]
    pointed = [False, *(gap in (".", ",") for gap in gaps), False]  # part of a longer number
    after = 0
    for first, (start, _) in enumerate(runs):
        if start < after or pointed[first]:
            continue
        said = ""
        for last in range(first, len(runs)):
            if said and not (
                between.fullmatch(gaps[last - 1]) and (parts is None or len(said) in parts)
            ):
                break
            said += text[slice(*runs[last])]
            if said == wanted and not pointed[last + 1]:
                after = runs[last][1]
                yield start, after
            if not wanted.startswith(said):
                break


def _twins(source: str, translation: str) -> Iterator[tuple[Quantity, int, int]]:
    """Pair the quantities of a source with the spans of their numbers in the translation.

    Each span is used once; quantities that the translation lacks are skipped.
    """
    taken: list[tuple[int, int]] = []
    for quantity in quantities(source):
        if len(quantity.digits) > _MOST_DIGITS:
            continue
        for start, end in _same_digits(quantity, translation):
            if all(end <= a or b <= start for a, b in taken):
                taken.append((start, end))
                yield quantity, start, end
                break


def misread(source: str, translation: str, language: str, to: str) -> int:
    """Count numbers that have the right digits, but mean something else in their language, have
    lost their minus or have come apart.

    >>> misread("41.087 Leute", "41,087 habitants", "de", "fr")
    1
    >>> misread("es wird −5 °C", "il fera 5 °C", "de", "fr")
    1
    """
    if language not in WRITINGS or to not in WRITINGS:
        return 0
    if all(one.number.isdigit() and not one.sign for one in quantities(source)):
        return 0
    twins = [*_twins(source, translation)]
    with_twins = {quantity for quantity, _, _ in twins}
    # Their digits may all be there, in two numbers: "18-204".
    grouped = [one for one in quantities(source) if _GROUPED.fullmatch(one.number)]
    count = sum(quantity not in with_twins for quantity in grouped)
    for quantity, start, end in twins:
        written = translation[start:end]
        differs = not quantity.number.isdigit() and not _means(quantity, written, language, to)
        before = translation[max(0, start - 10) : start]
        count += differs or bool(quantity.sign and not _MINUS.search(before))
    return count


def _means(quantity: Quantity, written: str, language: str, to: str) -> bool:
    """Tell whether a translation's number means what the source's does."""
    if "." in quantity.number and "," in quantity.number:
        # Both signs tell how it is written, whatever its text was taken for: 1.234,56 € alone
        # could be of any language.
        readers = (one for one in (language, "de", "en") if value(quantity.number, one) is not None)
        language = next(readers, language)
    wanted = value(quantity.number, language)
    if wanted is None:
        # With several points it is a date, a version or a chapter.
        points = len(re.findall(r"\D", quantity.number))
        return points < 2 or bool(_SAME_SIGNS.fullmatch(written)) or written == quantity.number
    here, there = WRITINGS[language].decimal, WRITINGS[to].decimal
    if wanted % 1 and here not in quantity.number:
        # 8.2 in a French text is no number of that language, but a version or a chapter.
        return written == quantity.number
    # The point of an English text may be one too, unless a unit stands beside it.
    is_sure = bool(quantity.unit) or here == ","
    return value(written, to) == wanted and not (is_sure and wanted % 1 and there not in written)


def number_errors(source: str, translation: str, to: str = "") -> int:
    """Count the digits and units that a translation lacks or has made up.

    A number of one digit may come from a word, or become one. Units and words for numbers of two
    digits are looked at in translations `to` a language whose words for them are known.

    >>> number_errors("Zimmer 204 im 2. Stock", "room 204 on the second floor")
    0
    >>> number_errors("3 829 billets", "329 tickets")
    1
    >>> number_errors("Der See ist 251 m tief.", "The lake is 251 deep.", "en")
    1
    >>> number_errors("im 19. Jahrhundert", "in the nineteenth century", "en")
    0
    >>> number_errors("am 05.01.2006", "on 50.01.2006")
    1
    """
    if not (_NUMBER.search(source) or _NUMBER.search(translation)):  # as in most texts
        return 0
    lost_units = _lost_units(source, translation) if to in _CHECKED else 0
    theirs, ours = map(_numbers, (source, translation))
    if theirs == ours:  # as in most of the others
        return lost_units
    if to in _CHECKED:
        # The language of the source is not known here.
        theirs, ours = (
            theirs - _in_words(theirs - ours, translation, [to]),
            ours - _in_words(ours - theirs, source, _SPELLED),
        )
    (left, left_words), (right, right_words) = map(_digits, (theirs, ours))
    digits = (left - right - left_words).total() + (right - left - right_words).total()
    return digits + (_jumbled(theirs - ours) & _jumbled(ours - theirs)).total() + lost_units


@lru_cache(maxsize=256)  # a source is compared with several translations
def _numbers(text: str) -> Counter[str]:
    """Count the numbers of a text by their digits."""
    return Counter(map(_digits_of, _WRITTEN.findall(text)))


def _in_words(missing: Counter[str], text: str, languages: Iterable[str]) -> Counter[str]:
    """Count which of the missing numbers a text spells out in words."""
    return Counter(
        {
            number: min(count, max(count_spelled_out(number, text, code) for code in languages))
            for number, count in missing.items()
        }
    )


def _digits(numbers: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """Count all digits of some numbers, and separately the one-digit numbers."""
    alone = Counter({number: count for number, count in numbers.items() if len(number) == 1})
    return Counter("".join(numbers.elements())), alone


def _jumbled(numbers: Counter[str]) -> Counter[str]:
    """Count some numbers, ignoring the order of their digits."""
    return Counter("".join(sorted(number)) for number in numbers.elements())


def _lost_units(source: str, translation: str) -> int:
    """Count the quantities with a unit that are missing in the translation, or lack the unit."""
    lost = sum(bool(quantity.unit) for quantity in quantities(source))
    if not lost:  # as in most texts
        return 0
    for quantity, start, end in _twins(source, translation):
        if quantity.unit:
            before = translation[max(0, start - _FAR_BEFORE) : start]
            behind = re.compile(rf"\D{{0,{_FAR_BEHIND}}}[^\W\d]*").match(translation, end)
            sides = (before.lower(), behind[0].lower() if behind else "")
            lost -= any(_unit(quantity.unit).search(side) for side in sides)
    return lost


@lru_cache(100)
def _unit(symbol: str) -> re.Pattern[str]:
    """Match a unit in a translation, as a symbol or a word."""
    symbols, words = _UNITS[symbol]
    exact = "|".join(re.escape(other) for other in symbols.split("|"))
    return re.compile(rf"(?<![^\W\d])(?:(?:{exact})(?![^\W\d])|(?:{words}))")


# -- Numbers in words and Roman numerals: *in the nineteenth century*, *au XIXe siècle* ------------

_NAMED = (*range(10, 21), *range(30, 100, 10))
# Cardinals and ordinals, in the order of these numbers.
_NUMBER_WORDS = {
    "de": "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig "
    "dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "en": "ten(?:th)? eleven(?:th)? twel(?:ve|fth) thirteen(?:th)? fourteen(?:th)? fifteen(?:th)? "
    "sixteen(?:th)? seventeen(?:th)? eighteen(?:th)? nineteen(?:th)? twent(?:y|ieth) "
    "thirt(?:y|ieth) fort(?:y|ieth) fift(?:y|ieth) sixt(?:y|ieth) sevent(?:y|ieth) "
    "eight(?:y|ieth) ninet(?:y|ieth)",
    "es": "diez|décim[oa] once|undécim[oa] doce|duodécim[oa] trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve veinte|vigésim[oa] treinta cuarenta cincuenta sesenta setenta "
    "ochenta noventa",
    "fr": "dix|dixième onz(?:e|ième) douz(?:e|ième) treiz(?:e|ième) quatorz(?:e|ième) "
    "quinz(?:e|ième) seiz(?:e|ième) dix-sept(?:ième)? dix-huit(?:ième)? dix-neu(?:f|vième) "
    "vingt(?:ième)? trent(?:e|ième) quarant(?:e|ième) cinquant(?:e|ième) soixant(?:e|ième) "
    "soixante-dix(?:ième)? quatre-vingts?(?:ième)? quatre-vingt-dix(?:ième)?",
    "pt": "dez|décim[oa] onze doze treze catorze|quatorze quinze dezesseis|dezasseis "
    "dezessete|dezassete dezoito dezenove|dezanove vinte|vigésim[oa] trinta quarenta cinquenta "
    "sessenta setenta oitenta noventa",
}
_ENDINGS = {"de": "(?:s?te[mnrs]?)?", "en": "s?", "es": "s?", "fr": "s?", "pt": "s?"}
_ROMAN = ((90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
_SPELLED = tuple(_NUMBER_WORDS)


def count_spelled_out(number: str, text: str, language: str) -> int:
    """Count how often a text spells out a two-digit number.

    >>> count_spelled_out("19", "in the mid-nineteenth century", "en")
    1
    >>> count_spelled_out("19", "au XIXe siècle", "fr"), count_spelled_out("19", "19 Tage", "de")
    (1, 0)
    """
    if len(number) != 2 or number[0] == "0" or language not in _NUMBER_WORDS:
        return 0
    return len(_spelled_out(int(number), language).findall(text))


@lru_cache(500)
def _spelled_out(number: int, language: str) -> re.Pattern[str]:
    ways = [rf"{_roman(number)}(?:e|ème|º)?"]
    if number in _NAMED:
        word = _NUMBER_WORDS[language].split()[_NAMED.index(number)]
        ways.append(rf"(?i:(?:{word}){_ENDINGS[language]})")
    return re.compile(rf"(?<!\w)(?:{'|'.join(ways)})(?!\w)")


def _roman(number: int) -> str:
    """
    >>> _roman(19), _roman(44)
    ('XIX', 'XLIV')
    """
    letters = ""
    for value, numeral in _ROMAN:
        letters += numeral * (number // value)
        number %= value
    return letters


class Edit(NamedTuple):
    """A replacement of the characters from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


def edited(text: str, edits: list[Edit]) -> str:
    """
    >>> edited("3,456 people", [Edit(0, 5, "3.456")])
    '3.456 people'
    """
    pieces = []
    at = 0
    for edit in sorted(edits):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join(pieces) + text[at:]


class WholeDay(NamedTuple):
    """A text with 24-hour times, and the indices of the original words that it dropped."""

    text: str
    left_out: tuple[int, ...] = ()


def in_24_hours(text: str, source: str, target: str) -> WholeDay:
    """Convert English times to 24 hours, since models tend to lose am and pm.

    >>> in_24_hours("We met at 3:45 pm. It ended at 7 p.m.", "en", "de")
    WholeDay(text='We met at 15:45. It ended at 19:00.', left_out=(4, 9))
    """
    if source != "en" or target not in _WHOLE_DAYS:
        return WholeDay(text)
    edits = []
    left_out: list[int] = []
    words = [word.start() for word in re.finditer(r"\S+", text)]
    for found in _HALF_DAY.finditer(text):
        hour, minutes, *halves = found.groups()
        afternoon = "".join(filter(None, halves)).lower() == "p"
        whole = int(hour) % 12 + 12 * afternoon
        edits.append(Edit(*found.span(), f"{whole}:{minutes or '00'}"))
        first = bisect_left(words, found.start())
        left_out += range(first + 1, first + len(found[0].split()))
    return WholeDay(edited(text, edits), tuple(left_out))
