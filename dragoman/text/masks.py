"""Masks: symbols that a model copies, in place of text that must come through unchanged.

Addresses, code, placeholders and markup are masked; so are characters that the vocabulary cannot
spell, such as "™" and "½", and long numbers, which the target language may write with other marks.
A model with masks in its vocabulary has learned to put each into its place in the translation.
Other models read the text itself. For what their translation has lost, they search once more, and
words that look like names are their masks then.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from typing import NamedTuple
from unicodedata import category

from dragoman.text.numbers import misread, number_errors, rewritten
from dragoman.text.verbatim import names, verbatim_spans
from dragoman.text.vocabulary import LEMMA, MASKS, SYMBOLS, TERM, TERM_END

_DIGITS = r"(?:\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+[.,]\d+|\d+)"
_START, _END = r"(?<![\w.,:/−–-])", r"(?![\w:/-]|[.,]\d)"
_SIGN = r"(?:(?<![^\s(])[-−–])?"
_UNITS = (
    r"(?:[kcmµn]?m[²³]?|[kmµ]?g|[mcdh]?[lL]|ha|°[CF]?|K|k?[WV]|[kM]?Wh|mAh?|[kMGT]i?[Bb]|k?Hz|MHz|GHz"
    r"|k?J|k?cal|[kM]?Pa|h?Pa|bar|km/h|mph|m/s|rpm|dpi|px|ft|lbs?|oz)"
)
_CURRENCY_SIGN = re.compile(r"[€£$¥]")  # a translation may have a word instead
_CURRENCY = r"(?:R\$|US\$|[€£$¥])"
# "$5 million" is "5 Millionen Dollar": the sign changes its place, so the model writes it.
_ALONE = r"(?![ \u00a0\u202f](?i:mil|bil|tril|mrd|mio|thousand|tausend))"
# A model copies short numbers reliably, and "8.30" may be a time. It may lose digits of long ones,
# and it may convert units.
_AMOUNT = re.compile(
    rf"{_START}(?P<before>{_SIGN}{_CURRENCY})[ \u00a0\u202f]?(?P<prefixed>{_DIGITS}){_END}{_ALONE}"
    rf"|{_START}(?P<suffixed>{_SIGN}{_DIGITS})[ \u00a0\u202f]?(?P<after>{_CURRENCY})(?!\w)"
    rf"|{_START}(?P<measured>{_SIGN}{_DIGITS})(?P<unit>[ \u00a0\u202f]?{_UNITS})(?![\w²³/])"
    rf"|{_START}(?P<number>{_SIGN}(?=\d{{5}}|\d+\D\d{{3}}){_DIGITS}){_END}"
)
_PLAIN_NUMBER = re.compile(r"(?<![\w.,:/-])(?:\d++[ \u00a0\u202f]?%|\d{2,}(?![\w:/-]|[.,]\d))")
_DATE = re.compile(r"(?<![\w./-])\d{1,4}([./-])\d{1,2}\1\d{1,4}(?![\w/-]|\.\d)")
_OPERATOR = r"(?:[<>=!]=|[=<>+*×÷])"
# "R&D" and "Smith & Sons"; "File > Open"; "x <= 5" and "a = b + c"
_SIGNS = re.compile(
    r"(?<!\w)\w*+&\w*|(?<=\w )[>→](?= \w)"
    rf"|(?<!\w)\w{{1,3}}(?:(?: {_OPERATOR} |{_OPERATOR})\w{{1,3}})+(?!\w)"
    # A sign belongs to its number.
    rf"|[~≈±≤≥#§©¶†‡]\s?\d++(?:[.,]\d++)?(?:\s?{_UNITS}(?![\w²³/]))?"
    rf"|[{SYMBOLS[0]}-{SYMBOLS[-1]}]"  # a text may have symbols of its own
)
_SPACE = re.compile(r"\s")
_MICRO = "µ"  # a letter to Python; vocabularies have the Greek one
_TRADEMARKS = "™®℠"
_CURRENCY_FIRST = frozenset(["en", "pt"])  # of these languages, by CLDR

# Abbreviations before numbers: how each language writes them, and what a translation may have
# instead. Models that have not learned them take "Art. 5" for a kind and "vol. 3" for a flight;
# training pairs with such references (`pretraining/behaviors.py`) make this table superfluous.
_ABBREVIATIONS: tuple[tuple[dict[str, str], str], ...] = (
    ({"en": "no.", "de": "Nr.", "fr": "n°", "es": "n.º", "pt": "n.º"},
     r"n[ro]s?\.|n\.? ?[°ºo]|\w{0,20}nummer|number|n[uú]m\.|n[uúu]m[eé]ro"),
    ({"en": "fig.", "de": "Abb.", "fr": "fig.", "es": "fig.", "pt": "fig."},
     r"figs?\.|figur[ea]?|abb\.|abbildung"),
    ({"en": "approx.", "de": "ca.", "fr": "env.", "es": "aprox.", "pt": "aprox."},
     r"approx\.|approximately|ca\.|circa|etwa|ungefähr|rund|env\.|environ|aprox\.|cerca de|about"
     r"|around|aproximadamente|alrededor de|un[oa]s|près de"),
    ({"en": "vol.", "de": "Bd.", "fr": "vol.", "es": "vol.", "pt": "vol."},
     r"vols?\.|volumen?|bd\.|band|tom[eo]"),
    ({"en": "art.", "de": "Art.", "fr": "art.", "es": "art.", "pt": "art."},
     r"arts?\.|article|artikels?|artículo|artigo"),
    ({"en": "ch.", "de": "Kap.", "fr": "chap.", "es": "cap.", "pt": "cap."},
     r"ch(?:ap)?\.|chapter|chapitre|[kc]ap\.|kapitels?|capítulo"),
    ({"en": "Rec.", "de": "Rec.", "fr": "Rec.", "es": "Rec.", "pt": "Rec."},
     r"rec\.|recommendation|empfehlung|recommandation|recomenda(?:ción|ção)"),
)  # fmt: skip
_REFERRED = re.compile(r"\d++(?:[.,]\d++){0,9}+(?:[-/]\d++)*+")
_REFERENCE = re.compile(
    rf"(?<![\w.])(?P<label>no\.|nr\.|n\.? ?[°º]|n[uú]m\.|fig\.|abb\.|approx\.|ca\.|env\.|aprox\.|"
    rf"vol\.|bd\.|art\.|ch\.|chap\.|kap\.|cap\.|rec\.)\s?(?P<number>{_REFERRED.pattern})",
    re.IGNORECASE,
)


class Mask(NamedTuple):
    """A symbol in the text that the model reads, and the text that takes its place afterwards."""

    symbol: str
    text: str

    @property
    def has_own_symbol(self) -> bool:
        """Whether the symbol is one of the vocabulary's, not a word."""
        return self.symbol in MASKS

    @property
    def pattern(self) -> re.Pattern[str]:
        """Match the mask in a translation; a model may write a word in small letters."""
        if self.has_own_symbol:
            return re.compile(self.symbol)
        return re.compile(rf"(?i)(?<!\w){self.symbol}(?!\w)")


def masked(
    text: str,
    spells: Callable[[str], bool],
    source: str,
    target: str,
    symbols: Sequence[str] = MASKS,
    lost_by: str | None = None,
) -> tuple[str, tuple[Mask, ...]]:
    """Replace what must be kept by masks; `spells` tells which characters the vocabulary has.

    Models mostly write plain numbers, and abbreviations before numbers, rightly by themselves. So
    these are masked only if there is a translation that has lost them, `lost_by`. Words (`symbols`)
    mask nothing else that the translation has, either.

    >>> text, masks = masked("See a.py, 1,250 times", lambda character: True, "en", "de")
    >>> text.encode("unicode_escape").decode(), [mask.text for mask in masks]
    ('See \\\\ue000, \\\\ue001 times', ['a.py', '1.250'])
    """
    same = _kept_spans(text, spells) + [match.span() for match in _DATE.finditer(text)]
    spans = [(start, end, text[start:end]) for start, end in same]
    spans += [(*m.span(), _amount(m, source, target)) for m in _AMOUNT.finditer(text)]
    if lost_by is not None:
        others = [(*match.span(), match[0]) for match in _PLAIN_NUMBER.finditer(text)]
        others += references(text, target)
        if symbols is not MASKS:
            # The fewer words stand for something else, the better the model understands the text.
            others, spans = [*others, *spans], []
        spans += [span for span in others if not _is_in(span[2], lost_by)]
    masks: list[Mask] = []
    parts: list[str] = []
    at = 0
    # Of spans that overlap, the first and longest counts.
    for start, end, kept in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < at or len(masks) == len(symbols):
            continue
        masks.append(Mask(symbols[len(masks)], kept))
        parts += [text[at:start], masks[-1].symbol]
        at = end
    return "".join([*parts, text[at:]]), tuple(masks)


def _is_in(text: str, translation: str) -> bool:
    """Tell whether a translation has a text, with or without its white space.

    >>> _is_in("1.8 m", "It is 1.8 mm"), _is_in("1.8 m", "It is 1.8m long")
    (False, True)
    """
    letters = r"\s?".join(map(re.escape, _SPACE.sub("", text)))
    return bool(re.search(rf"(?<!\w){letters}(?!\w)", translation))


def words_as_masks(text: str) -> list[str]:
    """Return words that are not in a text, as masks for a model that has none of its own.

    >>> words_as_masks("Room X47")[:2]
    ['X60', 'X73']
    """
    words = (word for word in map(names, count()) if word not in text)
    return [word for word, _ in zip(words, MASKS, strict=False)]


def lost(
    source: str, translation: str, spells: Callable[[str], bool], language: str, to: str
) -> int:
    """Count what a translation has lost or changed of its source: codes, characters, numbers.

    >>> lost("See a.py, 31 times", "Siehe a, 13 Mal", lambda character: True, "en", "de")
    2
    """
    written = _SPACE.sub("", translation)
    spans = (_SPACE.sub("", source[start:end]) for start, end in _kept_spans(source, spells))
    kept = Counter(text for text in spans if not _CURRENCY_SIGN.fullmatch(text))
    missing = sum(written.count(text) < times for text, times in kept.items())
    missing += lost_references(source, translation)
    misread_numbers = misread(source, translation, language, to)
    return missing + misread_numbers + number_errors(source, translation, to)


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
    >>> unmasked("Siehe X47.", [Mask("X47", "a.py")])
    'Siehe a.py.'
    """
    for mask in masks:
        if not mask.has_own_symbol:
            text = mask.pattern.sub(lambda _, mask=mask: mask.text, text)  # type: ignore[misc]
    own = {ord(mask.symbol): mask.text for mask in masks if mask.has_own_symbol}
    return text.translate({ord(symbol): "" for symbol in SYMBOLS} | own)


def has_each_once(text: str, masks: Sequence[Mask]) -> bool:
    """Tell whether a translation has each mask of its source exactly once."""
    return all(len(mask.pattern.findall(text)) == 1 for mask in masks)


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


def _kept_spans(text: str, spells: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return the spans of codes, signs and odd characters, which no language writes otherwise."""
    signs = [match.span() for match in _SIGNS.finditer(text)]
    return [*verbatim_spans(text), *_unspelled(text, spells), *signs]


def _unspelled(text: str, spells: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return the spans of characters that the vocabulary cannot spell.

    A raised or small character takes the word before it along: "m²", "ACME™".
    """
    usual = {c for c in set(text) if c.isascii() or c.isspace() or (c.isalpha() and c != _MICRO)}
    odd = {c for c in set(text) - usual if not spells(c)}
    spans = []
    start = end = 0
    for at, character in enumerate(text):
        if character not in odd or at < end:
            continue
        least, start = end, at
        if character in _TRADEMARKS or category(character) == "No":
            while start > least and (text[start - 1].isalnum() or text[start - 1] == "."):
                start -= 1
        end = at + 1
        while end < len(text) and text[end] in odd:
            end += 1
        spans.append((start, end))
    return spans


def references(text: str, to: str) -> Iterator[tuple[int, int, str]]:
    """Yield where an abbreviation and its number are, and how another language writes them.

    >>> [*references("Invoice no. 2024-0815", "de")]
    [(8, 21, 'Nr. 2024-0815')]
    """
    for match in _REFERENCE.finditer(text):
        label = match["label"]
        forms, _ = _forms_of(label)
        written = forms.get(to, label)
        # German nouns always have a capital, which tells nothing.
        if label[0].isupper() and (match.start() == 0 or label != forms.get("de")):
            written = written[0].upper() + written[1:]
        yield (*match.span(), f"{written} {match['number']}")


def lost_references(source: str, translation: str) -> int:
    """Count the abbreviations that a translation does not have before their numbers.

    >>> lost_references("Invoice no. 12", "Rechnung Nein! 12"), lost_references("Nr. 2", "number 2")
    (1, 0)
    """
    return sum(not _has_reference(match, translation) for match in _REFERENCE.finditer(source))


def _has_reference(reference: re.Match[str], translation: str) -> bool:
    _, accepted = _forms_of(reference["label"])
    digits = re.sub(r"\D", "", reference["number"])
    return any(
        accepted.search(translation[max(0, number.start() - 30) : number.start()])
        for number in _REFERRED.finditer(translation)
        if re.sub(r"\D", "", number[0]) == digits
    )


@cache
def _forms_of(label: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the forms of an abbreviation, and a pattern of what may precede its number."""
    for forms, accepted in _ABBREVIATIONS:
        if re.match(accepted, label, re.IGNORECASE):
            return forms, re.compile(rf"(?<!\w)(?:{accepted})\s{{0,2}}$", re.IGNORECASE)
    return {}, re.compile("")
