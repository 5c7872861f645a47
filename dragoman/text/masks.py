"""Masks: symbols that a model copies, in place of text that must come through unchanged.

Addresses, code, placeholders and markup are masked; so are characters that the vocabulary cannot
spell, such as "™" and "½", and long numbers, which the target language may write with other marks.
A model with masks in its vocabulary has learned to put each into its place in the translation.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from unicodedata import category

from dragoman.text.verbatim import verbatim_spans

MASKS = tuple(chr(0xE000 + number) for number in range(16))
# Around a source word and, after `LEMMA`, the translation that a glossary asks for.
TERM, LEMMA, TERM_END = "\ue010", "\ue011", "\ue012"
SYMBOLS = (*MASKS, TERM, LEMMA, TERM_END)
_DIGITS = r"(?:\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+[.,]\d+|\d+)"
_START, _END = r"(?<![\w.,:/−–-])", r"(?![\w:/-]|[.,]\d)"
_SIGN = r"(?:(?<![^\s(])[-−–])?"
_UNITS = (
    r"(?:[kcmµn]?m[²³]?|[kmµ]?g|[mcdh]?[lL]|ha|°[CF]?|K|k?[WV]|[kM]?Wh|mAh?|[kMGT]i?[Bb]|k?Hz|MHz|GHz"
    r"|k?J|k?cal|[kM]?Pa|h?Pa|bar|km/h|mph|m/s|rpm|dpi|px|ft|lbs?|oz)"
)
_CURRENCY = r"(?:R\$|US\$|[€£$¥])"
# A model copies short numbers reliably, and "8.30" may be a time. It may lose digits of long ones,
# and it may convert units.
_AMOUNT = re.compile(
    rf"{_START}(?P<before>{_SIGN}{_CURRENCY})[ \u00a0\u202f]?(?P<prefixed>{_DIGITS}){_END}"
    rf"|{_START}(?P<suffixed>{_SIGN}{_DIGITS})[ \u00a0\u202f]?(?P<after>{_CURRENCY})(?!\w)"
    rf"|{_START}(?P<measured>{_SIGN}{_DIGITS})(?P<unit>[ \u00a0\u202f]?{_UNITS})(?![\w²³/])"
    rf"|{_START}(?P<number>{_SIGN}(?=\d{{5}}|\d+\D\d{{3}}){_DIGITS}){_END}"
)
_DATE = re.compile(r"(?<![\w./-])\d{1,4}([./-])\d{1,2}\1\d{1,4}(?![\w/-]|\.\d)")
_OPERATOR = r"(?:[<>=!]=|[=<>+*×÷])"
# "R&D" and "Smith & Sons"; "File > Open"; "x <= 5" and "a = b + c"
_SIGNS = re.compile(
    r"(?<!\w)\w*+&\w*|(?<=\w )[>→](?= \w)"
    rf"|(?<!\w)\w{{1,3}}(?:(?: {_OPERATOR} |{_OPERATOR})\w{{1,3}})+(?!\w)"
    rf"|[{SYMBOLS[0]}-{SYMBOLS[-1]}]"  # a text may have symbols of its own
)
_TRADEMARKS = "™®℠"
_SPACES = re.compile(r"['’ \u00a0\u202f]")
# The decimal mark and the mark between thousands of each language, by CLDR.
_MARKS = {
    "cs": (",", "\u00a0"), "da": (",", "."), "de": (",", "."), "en": (".", ","), "es": (",", "."),
    "fi": (",", "\u00a0"), "fr": (",", "\u202f"), "it": (",", "."), "nl": (",", "."),
    "pl": (",", "\u00a0"), "pt": (",", "."), "ro": (",", "."), "ru": (",", "\u00a0"),
    "sv": (",", "\u00a0"), "tr": (",", "."), "uk": (",", "\u00a0"),
}  # fmt: skip
_CURRENCY_FIRST = frozenset(["en", "pt"])  # of these languages, by CLDR


class Mask(NamedTuple):
    """A symbol in the text that the model reads, and the text that takes its place afterwards."""

    symbol: str
    text: str


def masked(
    text: str, spells: Callable[[str], bool], source: str, target: str
) -> tuple[str, tuple[Mask, ...]]:
    """Replace what must be kept by masks; `spells` tells which characters the vocabulary has.

    >>> text, masks = masked("See a.py, 1,250 times", lambda character: True, "en", "de")
    >>> text.encode("unicode_escape").decode(), [mask.text for mask in masks]
    ('See \\\\ue000, \\\\ue001 times', ['a.py', '1.250'])
    """
    spans: list[tuple[int, int, str]] = []
    same = [*verbatim_spans(text), *_unspelled(text, spells)]
    same += [match.span() for kind in (_DATE, _SIGNS) for match in kind.finditer(text)]
    spans += [(start, end, text[start:end]) for start, end in same]
    spans += [(*m.span(), _amount(m, source, target)) for m in _AMOUNT.finditer(text)]
    masks: list[Mask] = []
    parts: list[str] = []
    at = 0
    # Of spans that overlap, the first and longest counts.
    for start, end, kept in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < at or len(masks) == len(MASKS):
            continue
        masks.append(Mask(MASKS[len(masks)], kept))
        parts += [text[at:start], masks[-1].symbol]
        at = end
    return "".join([*parts, text[at:]]), tuple(masks)


def annotated(text: str, terms: Sequence[tuple[str, str]]) -> str:
    """Annotate the occurrences of terms, in order, with the translations that they should have.

    >>> annotated("old house", [("house", "Bude")]).encode("unicode_escape").decode()
    'old \\\\ue010 house\\\\ue011 Bude\\\\ue012'
    """
    parts: list[str] = []
    at = 0
    for source, target in terms:
        start = text.find(source, at)
        if start < 0:
            continue  # within a mask
        parts += [text[at:start], f"{TERM} {source}{LEMMA} {target}{TERM_END}"]
        at = start + len(source)
    return "".join([*parts, text[at:]])


def unmasked(text: str, masks: Sequence[Mask]) -> str:
    """Put the masked texts back; masks that the source did not have disappear.

    >>> unmasked("Siehe \\ue000\\ue007.", [Mask("\\ue000", "a.py")])
    'Siehe a.py.'
    """
    texts = {ord(symbol): "" for symbol in SYMBOLS} | {
        ord(mask.symbol): mask.text for mask in masks
    }
    return text.translate(texts)


def has_each_once(text: str, masks: Sequence[Mask]) -> bool:
    """Tell whether a translation has each mask of its source exactly once."""
    return all(text.count(mask.symbol) == 1 for mask in masks)


def rewritten(number: str, source: str, target: str) -> str:
    """Write a number of one language as another one does.

    >>> rewritten("1,299.99", "en", "de"), rewritten("2.5", "de", "fr")
    ('1.299,99', '2.5')
    """
    if source not in _MARKS or target not in _MARKS:
        return number
    (decimal, group), (own_decimal, own_group) = _MARKS[source], _MARKS[target]
    sign = number[: len(number) - len(number.lstrip("-−–"))]
    number = number.removeprefix(sign)
    plain = _SPACES.sub("" if group.isspace() else group, number)
    whole, mark, fraction = plain.partition(decimal)
    groups = whole.split(group)
    if len(groups) > 1 and any(len(digits) != 3 for digits in groups[1:]):
        return sign + number
    if not all(digits.isdigit() for digits in groups) or (mark and not fraction.isdigit()):
        return sign + number  # written as another language does
    has_groups = len(groups) > 1 or len(plain) < len(number)
    whole = "".join(groups)
    if has_groups:
        whole = f"{int(whole):,}".replace(",", own_group)
    return sign + (whole + own_decimal + fraction if mark else whole)


def _amount(match: re.Match[str], source: str, target: str) -> str:
    """Write a number, an amount of money or a measure as the target language does."""
    if number := match["number"]:
        return rewritten(number, source, target)
    if number := match["measured"]:
        return rewritten(number, source, target) + match["unit"]
    currency = match["before"] or match["after"]
    number = rewritten(match["prefixed"] or match["suffixed"], source, target)
    sign = currency[:1] if currency[0] in "-−–" else ""
    currency = currency.removeprefix(sign)
    if target not in _CURRENCY_FIRST:
        return f"{sign}{number}\u00a0{currency}"
    return f"{sign}{currency}\u00a0{number}" if currency == "R$" else f"{sign}{currency}{number}"


def _unspelled(text: str, spells: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return the spans of characters that the vocabulary cannot spell.

    A raised or small character takes the word before it along: "m²", "ACME™".
    """
    odd = {c for c in set(text) if not (c.isascii() or c.isalpha() or c.isspace() or spells(c))}
    spans = []
    start = end = 0
    for at, character in enumerate(text):
        if character not in odd or at < end:
            continue
        least, start = end, at
        if character in _TRADEMARKS or category(character) == "No":
            while start > least and text[start - 1].isalnum():
                start -= 1
        end = at + 1
        while end < len(text) and text[end] in odd:
            end += 1
        spans.append((start, end))
    return spans
