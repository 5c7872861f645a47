"""Round numbers of two digits as words and as Roman numerals: what a translation may have instead.

"Im 19. Jahrhundert" is "in the nineteenth century", and "au XIXe siècle".
"""

import re
from functools import lru_cache

_NUMBERS = (*range(10, 21), *range(30, 100, 10))
# Cardinals and ordinals, in the order of these numbers.
_WORDS = {
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
_ENDING = {"de": "(?:s?te[mnrs]?)?", "en": "s?", "es": "s?", "fr": "s?", "pt": "s?"}
_ROMAN = ((90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
LANGUAGES = tuple(_WORDS)


def times_said(number: str, text: str, language: str) -> int:
    """Count how often a text spells out a two-digit number.

    >>> times_said("19", "in the mid-nineteenth century", "en")
    1
    >>> times_said("19", "au XIXe siècle", "fr"), times_said("19", "19 Tage", "de")
    (1, 0)
    """
    if len(number) != 2 or number[0] == "0" or language not in _WORDS:
        return 0
    return len(_pattern(int(number), language).findall(text))


@lru_cache(500)
def _pattern(number: int, language: str) -> re.Pattern[str]:
    ways = [rf"{_roman(number)}(?:e|ème|º)?"]
    if number in _NUMBERS:
        word = _WORDS[language].split()[_NUMBERS.index(number)]
        ways.append(rf"(?i:(?:{word}){_ENDING[language]})")
    return re.compile(rf"(?<!\w)(?:{'|'.join(ways)})(?!\w)")


def _roman(number: int) -> str:
    """
    >>> _roman(19), _roman(44)
    ('XIX', 'XLIV')
    """
    letters = ""
    for value, said in _ROMAN:
        letters += said * (number // value)
        number %= value
    return letters
