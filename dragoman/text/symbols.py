r"""Symbols that a translation keeps, in number and place, and the bullet that a line begins with.

    >>> symbol_errors("See § 3.", "Siehe 3.")
    1
    >>> [text[a:b] for text in ["If x <= 5, ACME™ pays $3."] for a, b, _ in symbol_spans(text)]
    ['x <= 5', 'ACME™', '$3']

A few symbols may become words: 5 % may be five percent. Whatever can be long in a pattern has a
bound or gives nothing back (`*+`), as in `verbatim.py`.
"""

import re
from collections import Counter
from functools import cache
from typing import NamedTuple

from dragoman.text.numbers import WRITINGS, rewritten
from dragoman.text.segments import NUMBERING

# The blocks of Unicode that hold symbols alone: currencies, letter-like signs, arrows, mathematics,
# boxes, dingbats, emoji.
_SIGNS = "#~^\\\\%$¢-§©¬®°-³µ-·¹¼-¾×÷†-•‰-″※₠-⃀℀-⅏←-⯿\U0001f000-\U0001faff"
# The star of German plurals, Besucher*innen, is none.
_SYMBOL = re.compile(
    rf"[!:+*/-]?=++>?|<[-=>]*+|-?>++=?|&++|\|++|\+++"
    rf"|(?:(?<![^\W\d_])\*|\*(?!in(?:nen)?(?!\w)))\**+|[{_SIGNS}]"
)
# What most texts have none of, neither at their beginning nor anywhere.
_MAYBE_FIRST = re.compile(r"\W|\d{1,3}[.)]\s|\w{1,5}[.):]")
_MAYBE = re.compile(rf"[=<>&|+*.°º){_SIGNS}](?:(?<=[=<>&|+*{_SIGNS}])|(?<=[.°º])\s?\d|(?<=\d\))\s)")
# What looks the same and is another character.
_TWINS = str.maketrans({"μ": "µ", "˚": "°", "Ω": "Ω"})
# What may stand for a symbol: how words and codes begin in the five languages.
_WORDS = {
    "%": "percent|per cent|prozent|pour ?cent|por ?cent|por ciento", "°": "grad|degr|grau|º",
    "$": "usd|brl|dollar|d[oó]lar|real|reai", "€": "eur", "£": "gbp|pound|pfund|livre|libra",
    "¥": "jpy|yen|iene", "²": "square|quadrat|carr|cuadr|quadrad|2", "³": "cubi|kubi|cúb|3",
}  # fmt: skip

_N = r"\d++(?:[.,\u00a0\u202f]\d++){0,9}+"
_OPERAND = rf"(?:0x[0-9A-Fa-f]++|{_N}|[A-Za-z]\d*+|[A-Z][A-Z0-9_]{{1,20}}+)(?!\w)"
_OPERATOR = r"(?:[!:+*/-]?=++>?|[<>]=?|[+*×÷≤≥≠≈→^|]|&&)"
_UNIT = r"(?:[µμ]\w{1,3}|[cmkd]?m|[mk]?g|[kM]?[VAW]|[kMG]?Hz|dB|ms|s|h|ppm|°[CF]?|%)(?!\w)"
_SPANS = (
    rf"(?P<formula>(?<![\w.,]){_OPERAND}(?:\s?(?:{_OPERATOR}|[-/])\s?{_OPERAND}){{1,9}}+)"
    r"|(?<![\w&.-])\w[\w&.-]{0,40}+[™®℠]++"
    rf"|(?P<amount>(?:R\$|[€$£¥¢₹])\s?{_N}|[±≈~<>≤≥]\s?{_N}(?:\s?{_UNIT})?"
    rf"|(?<![\w.,]){_N}\s?(?:±\s?{_N}\s?)?(?:[€$£¥¢₹‰]|[µμ]\w{{1,3}}+|°[CFNSEWO]?(?!\w)|%))"
    rf"|[§#©¶†‡]{{1,3}}\s?{_N}|[A-Z]\w{{0,9}}+(?:&[A-Z]\w{{0,9}}+)++"
    rf"|{_SYMBOL.pattern}\ufe0f?"
)
# A symbol and the number that it stands at.
_TIED = re.compile(r"([§#±≈~©])\s?(\d{1,9}+)|(?<!\d)(\d{1,9}+)\s?(°|‰)")
# Items in one line: "1) this 2) that".
_ITEM = re.compile(r"(?<=\s)\d{1,2}\)(?=\s)")
_MARKED_WORD = re.compile(r"\w[.)\"”]?[™®℠]")

_LEAD = re.compile(
    rf"(?:{NUMBERING.pattern}|[#>+]{{1,6}}\s{{1,9}}(?=\S)|(?:\.{{2,9}}|…)\s{{0,9}}){{1,3}}"
)
_INITIAL = re.compile(r"[A-Za-z]\.")  # of a name
_TAIL = re.compile(r"(?:(?<=\S)\s++|(?<=[.!?…)]))[←-⯿\U0001f000-\U0001faff\ufe0f\u200d]++\Z")

# Abbreviations before a number: how each language writes them, and what a translation may have.
_LABELS: tuple[tuple[dict[str, str], str], ...] = (
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
_NUMBER = re.compile(rf"{_N}(?:[-/]\d++)*+")
_LABEL = re.compile(
    rf"(?<![\w.])(?P<label>no\.|nr\.|n\.? ?[°º]|n[uú]m\.|fig\.|abb\.|approx\.|ca\.|env\.|aprox\.|"
    rf"vol\.|bd\.|art\.|ch\.|chap\.|kap\.|cap\.|rec\.)\s?(?P<number>{_NUMBER.pattern})",
    re.IGNORECASE,
)


class SymbolSpan(NamedTuple):
    """`text`: what stands there in a translation."""

    start: int
    end: int
    text: str


@cache
def _spans() -> re.Pattern[str]:
    """Compiled for the first text that may hold one."""
    return re.compile(_SPANS)


def may_hold_symbols(text: str) -> bool:
    """Whether it is worth looking for any; most texts have none."""
    return bool(_MAYBE_FIRST.match(text) or _MAYBE.search(text))


def symbol_spans(text: str, language: str = "", to: str = "") -> list[SymbolSpan]:
    """Symbols with the numbers, names and formulas that they belong to, in order."""
    spans = []
    for match in _LABEL.finditer(text):
        spans.append(SymbolSpan(*match.span(), _label(match, to)))
    if "(" not in text:
        spans += [SymbolSpan(*match.span(), match[0]) for match in _ITEM.finditer(text)]
    taken = list(spans)
    for match in _spans().finditer(text):
        start, end = match.span()
        if not _SYMBOL.search(match[0]):  # 1990-1995
            continue
        if all(end <= other.start or other.end <= start for other in taken):
            written = match[0]
            if match["amount"] and language in WRITINGS and to in WRITINGS:
                written = re.sub(_N, lambda number: rewritten(number[0], language, to), written)
            spans.append(SymbolSpan(start, end, written))
    return sorted(spans)


def _label(match: re.Match[str], to: str) -> str:
    """An abbreviation and its number as a language writes them.

    >>> _label(_LABEL.search("Invoice no. 2024-0815"), "de")
    'Nr. 2024-0815'
    """
    label = match["label"]
    forms = _kind(label)[0]
    written = forms.get(to, label)
    # German nouns always have a capital, which tells nothing.
    if label[0].isupper() and (match.start() == 0 or label != forms.get("de")):
        written = written[0].upper() + written[1:]
    return f"{written} {match['number']}"


@cache
def _kind(label: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """The forms of an abbreviation, and a pattern of what may stand before its number."""
    for forms, accepted in _LABELS:
        if re.match(accepted, label, re.IGNORECASE):
            return forms, re.compile(rf"(?<!\w)(?:{accepted})\s{{0,2}}$", re.IGNORECASE)
    return {}, re.compile("")


def symbol_errors(source: str, translation: str) -> int:
    """How many kinds of symbols a translation lacks, has too often or has elsewhere, and how many
    abbreviations before numbers it has lost. The bullet of a line counts too.

    >>> symbol_errors("It is $5.", "Es kostet $ 5 $."), symbol_errors("5 %", "fünf Prozent")
    (1, 0)
    >>> symbol_errors("Invoice no. 12", "Rechnung Nein! 12"), symbol_errors("1. Open", "Öffnen")
    (1, 1)
    """
    if not may_hold_symbols(source):
        return 0
    source, translation = (text.translate(_TWINS) for text in (source, translation))
    wanted, present = (Counter(_symbols(text)) for text in (source, translation))
    errors = 0
    for symbol, count in wanted.items():
        if symbol in _WORDS:
            count, said = (len(_said(symbol).findall(text)) for text in (source, translation))
            errors += said != count or present[symbol] > count
        else:
            errors += present[symbol] != count
    tied, still_tied = (Counter(_TIED.findall(text)) for text in (source, translation))
    for before, _, _, behind in tied - still_tied:
        symbol = before or behind
        errors += present[symbol] == wanted[symbol]  # else it was counted above
    errors += len(_MARKED_WORD.findall(source)) > len(_MARKED_WORD.findall(translation))
    for match in _spans().finditer(source):
        formula = match["formula"] or ""
        if _SYMBOL.search(formula) and re.search("[A-Za-z]", formula):
            errors += formula not in translation
    errors += sum(not _has_label(match, translation) for match in _LABEL.finditer(source))
    return errors + (not _has_lead(source, translation))


def _symbols(text: str) -> list[str]:
    return _SYMBOL.findall(text) + ([] if "(" in text else _ITEM.findall(text))


@cache
def _said(symbol: str) -> re.Pattern[str]:
    """A symbol, or a word for it."""
    return re.compile(rf"{re.escape(symbol)}|{_WORDS[symbol]}", re.IGNORECASE)


def _has_label(label: re.Match[str], translation: str) -> bool:
    accepted = _kind(label["label"])[1]
    digits = re.sub(r"\D", "", label["number"])
    return any(
        accepted.search(translation[max(0, number.start() - 30) : number.start()])
        for number in _NUMBER.finditer(translation)
        if re.sub(r"\D", "", number[0]) == digits
    )


def split_lead(text: str) -> tuple[str, str]:
    """The bullet, dots or number that a line begins with, and the rest of it.

    >>> split_lead("• 2) Open the file"), split_lead("1. Mai 2020"), split_lead("... and so on")
    (('• 2) ', 'Open the file'), ('', '1. Mai 2020'), ('... ', 'and so on'))
    """
    text = text.strip()
    match = _LEAD.match(text)
    if match is None or match.end() == len(text) or _INITIAL.match(text):
        return "", text
    return re.sub(r"\s", " ", match[0]), text[match.end() :]


def split_tail(text: str) -> tuple[str, str]:
    """A text, and the emoji or arrows that it ends with.

    >>> split_tail("Well done! 🎉")
    ('Well done!', ' 🎉')
    """
    match = _TAIL.search(text)
    return (text[: match.start()], match[0]) if match and match.start() else (text, "")


def _has_lead(source: str, translation: str) -> bool:
    """Whether a translation begins as its source does, once. A number may have lost its point."""
    lead = _bare(split_lead(source)[0])
    if not lead:
        return True
    start = _bare(translation[: 3 * len(lead) + 9])
    if lead[:-1].isdigit():
        rest = start.removeprefix(lead[:-1])
        doubled = rest.lstrip(".)").startswith(lead)
        return rest != start and not rest[:1].isdigit() and not doubled
    return start.startswith(lead) and not start.startswith(2 * lead)


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text).replace("…", "...")
