"""Count the numbers, addresses and measures that survive translation.

python benchmarks/digits.py --to de en fr es pt

digits.tsv has 200 lines in five languages, each with one thing or two that must survive;
digits_fresh.tsv has 50 more, which nothing was fitted to (--lines). Every line
is translated into the languages named, except its own. What counts as survival, by kind:

- url, email, ip, version, isbn, phone: the same characters, as often as in the source.
- number: a number of the same value. A decimal point may become a comma, and groups of three may be
  parted by a point, a comma, a space or nothing, as the target language has it. A form that the
  target language reads as another value ("3,456" people in German) does not count. A number below
  ten may be a word of the target language.
- percent, unit, currency, temperature: the number as above, with its sign, next to the same unit,
  as a symbol or as a word of the target language. A temperature needs no unit.
- time: the same hour and minute, in 24 hours or in 12 with what makes them the same.
- date: the same day and year, and the month as a number or by its name.

A line survives if all that is marked in it does, and if no other number of two digits or more was
added.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import dragoman

LINES = Path(__file__).with_suffix(".tsv")
LANGUAGES = ("de", "en", "fr", "es", "pt")
LEAST = 0.99  # of all lines
VERBATIM = frozenset(["url", "email", "ip", "version", "isbn", "phone"])

_MARKED = re.compile(r"\{(\w+)\|([^{}]*)\}")
_MINUS = "-−–‑"
_NUMBER = re.compile(r"\d+(?:[.,  \u202f'’]\d{3})*(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)?")
_MONTHS = {
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "en": "january february march april may june july august september october november december",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro "
    "dezembro",
}  # fmt: skip
_WORDS = {
    "de": "null eins zwei drei vier fünf sechs sieben acht neun",
    "en": "zero one two three four five six seven eight nine",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "pt": "zero um dois três quatro cinco seis sete oito nove",
}  # fmt: skip
# Symbols, and how the words for them begin in the five languages.
_UNITS = {
    "kg": ("kg", "kilo|quilo"), "km": ("km", "kilom|quil"), "km²": ("km²|km2", "square|quadrat"),
    "m": ("m", "met|mèt|mét"), "m²": ("m²|m2", "square|quadrat|mètr|metr"),
    "cm": ("cm", "centi|zenti"), "mm": ("mm", "mill|mili"), "minutes": ("min", "minut"),
    "minuten": ("min", "minut"), "minutos": ("min", "minut"), "hours": ("h", "hour|stund|heur|hor"),
    "stunden": ("h", "hour|heur|hor"), "heures": ("h", "hour|stund|hor"),
    "horas": ("h", "hour|stund|heur|hor"),
    "%": ("%", "percent|per cent|prozent|pour cent|por ciento|por cento"),
    "£": ("£|gbp", "pound|pfund|livre|libra"), "$": (r"\$|usd", "dollar|dólar"),
    "€": ("€|eur", "euro"), "euro": ("€|eur", "euro"), "euros": ("€|eur", "euro"),
    "r$": (r"r\$|brl", "real|reais|reales|réa|reai"),
}  # fmt: skip
_AFTERNOON = re.compile(
    r"p\.? ?m\b|nachmittag|abend|après-midi|soir|tarde|noche|noite|afternoon|evening", re.IGNORECASE
)


class Mark(NamedTuple):
    kind: str
    text: str


class Line(NamedTuple):
    language: str
    text: str
    marks: tuple[Mark, ...]


def read_lines(path: Path = LINES) -> Iterator[Line]:
    for row in path.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            language, marked = row.split("\t")
            marks = tuple(Mark(*found) for found in _MARKED.findall(marked))
            yield Line(language, _MARKED.sub(r"\2", marked), marks)


def value(number: str, language: str) -> Decimal | None:
    """Read a number as a reader of this language would.

    >>> value("3.456", "de"), value("3.456", "en"), value("3.2", "de")
    (Decimal('3456'), Decimal('3.456'), Decimal('3.2'))
    """
    point, comma = (".", ",") if language == "en" else (",", ".")
    number = re.sub(r"[ \u00a0\u202f'’]", "", number)
    if re.fullmatch(rf"\d{{1,3}}(?:\{comma}\d{{3}})+(?:\{point}\d+)?", number):
        number = number.replace(comma, "")
    # A comma before two digits can only be a decimal sign, in any language.
    whole, *rest = re.split(r"[.,]", number)
    return Decimal(".".join([whole, *rest])) if len(rest) < 2 else None


class Found(NamedTuple):
    """A number in a text, and the text around it."""

    value: Decimal | None
    negative: bool
    before: str
    behind: str


def numbers(text: str, language: str) -> list[Found]:
    found = []
    for match in _NUMBER.finditer(text):
        before, behind = text[: match.start()], text[match.end() :]
        sign = re.search(rf"(?:(?<!\w)[{_MINUS}] ?|\b(?:minus|moins|menos) )$", before, re.I)
        found.append(Found(value(match[0], language), bool(sign), before, behind))
    return found


def survives(mark: Mark, language: str, translation: str, to: str) -> bool:
    """Whether what is marked in a line of a language is in its translation into another."""
    for number, word in enumerate(_WORDS[to].split()):
        translation = re.sub(rf"(?i)\b{word}\b", str(number), translation)
    if mark.kind in VERBATIM:
        return len(re.findall(rf"(?<!\w){re.escape(mark.text)}(?!\w)", translation)) == 1
    if mark.kind == "time":
        return time_survives(mark.text, translation)
    if mark.kind == "date":
        return date_survives(mark.text, language, translation, to)
    (wanted,) = numbers(mark.text, language)
    unit = mark.text[len(wanted.before) :].lstrip("0123456789., \u00a0\u202f") or wanted.before
    symbols, words = _UNITS.get(unit.strip().lower(), ("", ""))
    form = rf"(?<![^\W\d])(?:(?:{symbols})(?![^\W\d])|(?:{words}))"
    for other in numbers(translation, to):
        if other.value != wanted.value or other.negative != wanted.negative:
            continue
        if mark.kind in ("number", "temperature"):
            return True
        around = (other.before[-10:], other.behind[:20])
        if any(re.search(form, side.lower()) for side in around):
            return True
    return False


def time_survives(time: str, translation: str) -> bool:
    hour, minute = ([int(n) for n in re.findall(r"\d+", time)] + [0])[:2]
    for match in re.finditer(
        r"\b(\d{1,2})(?: ?(?:[:.h]|heures?|Uhr) ?(\d\d)?)?(?!\d)", translation
    ):
        found = int(match[1]), int(match[2] or 0)
        if found == (hour, minute):
            return True
        later = bool(_AFTERNOON.search(translation[match.end() : match.end() + 25]))
        if later and (found[0] + 12, found[1]) == (hour, minute):
            return True
    return False


def date_survives(date: str, language: str, translation: str, to: str) -> bool:
    names = _MONTHS[language].split()
    month = next((n for n, name in enumerate(names, 1) if name in date.lower()), 0)
    parts = [int(n) for n in re.findall(r"\d+", date)]
    year = max(parts)
    parts.remove(year)
    if not month:
        # 2024-03-18 has the month in the middle, and so have all others here
        month = parts[0] if re.match(r"\d{4}", date) else parts[1]
        parts.remove(month)
    (day,) = parts
    left = Counter(int(n) for n in re.findall(r"\d+", translation))
    left.subtract([day, year])
    named = _MONTHS[to].split()[month - 1] in translation.lower()
    return left[day] >= 0 and left[year] >= 0 and (named or left[month] > 0)


def invented(line: Line, translation: str) -> bool:
    """Whether the translation has a long number whose digits its source does not have."""
    read = Counter(re.sub(r"\D", "", line.text))
    written = Counter(re.sub(r"\D", "", " ".join(re.findall(r"\d{2,}", translation))))
    # A time of 12 hours has other digits; `time_survives` has looked at it.
    return not any(mark.kind in ("time", "date") for mark in line.marks) and bool(written - read)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--from", dest="sources", nargs="+", default=LANGUAGES)
    parser.add_argument("--to", nargs="+", default=LANGUAGES)
    parser.add_argument("--show", action="store_true", help="Print every line that fails.")
    arguments = parser.parse_args()
    translator = dragoman.load(arguments.model)
    lines = [line for line in read_lines(arguments.lines) if line.language in arguments.sources]
    of_kind: dict[str, list[bool]] = defaultdict(list)
    whole: list[bool] = []
    for language in arguments.sources:
        for to in arguments.to:
            mine = [line for line in lines if line.language == language != to]
            found = translator([line.text for line in mine], source=language, to=to)
            for line, translation in zip(mine, found, strict=True):
                good = [survives(mark, language, translation, to) for mark in line.marks]
                for mark, survived in zip(line.marks, good, strict=True):
                    of_kind[mark.kind].append(survived)
                whole.append(all(good) and not invented(line, translation))
                if arguments.show and not whole[-1]:
                    print(f"{language}-{to}: {line.text}\n       {translation}")
    for kind, marks in sorted(of_kind.items()):
        print(f"{kind:12} {sum(marks):4} of {len(marks):4}  {sum(marks) / len(marks):.1%}")
    share = sum(whole) / len(whole)
    print(f"{'whole lines':12} {sum(whole):4} of {len(whole):4}  {share:.1%}")
    sys.exit(share < LEAST)


if __name__ == "__main__":
    main()
