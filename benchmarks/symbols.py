"""Count the symbols, abbreviations before numbers and code-like bits that survive translation.

python benchmarks/symbols.py

symbols.tsv has 300 lines in five languages; symbols_fresh.tsv has 50 more, which nothing was fitted
to (--lines). Every line is translated into the other four languages. The marked text
of a line must occur in its translation as often as in the line, ignoring white space; money,
percent and degrees may be words with the same number, an abbreviation may be written out or as the
target language has it. A bullet must come first. No symbol may occur in a translation more often
than in its line. The patterns here are independent of the package.
"""

import argparse
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dragoman

LINES = Path(__file__).with_suffix(".tsv")
LANGUAGES = ("en", "de", "fr", "es", "pt")
LEAST = 0.99  # of all translations
_MARKED = re.compile(r"\{(?:(no|fig|approx|vol|ch|art|rec):)?([^{}]*)\}")
_LABELS = {
    "no": r"no\.?|nr\.?|n\.?[°ºo]|n[uú]m\.?|\w*nummer|number|n[uú]mero|numéro",
    "fig": r"fig\.?|figur[ae]?|abb\.?|abbildung|figure",
    "approx": r"approx\.?|ca\.?|circa|etwa|ungefähr|rund|env\.?|environ|aprox\.?|cerca\s?de|about"
    r"|around|approximately|aproximadamente|unos|unas|alrededor\s?de|près\s?de",
    "vol": r"vol\.?|volume|volumen|bd\.?|band|tome|tomo",
    "ch": r"ch\.?|chap\.?|chapter|chapitre|kap\.?|kapitel|cap\.?|capítulo",
    "art": r"art\.?|article|artikel|artículo|artigo",
    "rec": r"rec\.?|recommendation|empfehlung|recommandation|recomendación|recomendação",
}
_WORDS = {
    "€": "euros?", "$": "dollars?|dólar(?:es)?|usd", "£": "pounds?|pfund|livres?|libras?",
    "¥": "yens?|ienes?", "%": "percent|per cent|prozent|pour cent|por ciento|por cento",
    "°": "degrees?|grad|degrés?|grados?|graus?",
    "²": "square|quadrat|carrés?|cuadrados?|quadrados?",
}  # fmt: skip


class Mark(NamedTuple):
    kind: str  # of abbreviation; empty: the text stays
    text: str


class Line(NamedTuple):
    language: str
    text: str
    marks: tuple[Mark, ...]


def read_lines(path: Path = LINES) -> Iterator[Line]:
    for row in path.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            language, marked = row.split("\t")
            marks = tuple(Mark(*match) for match in _MARKED.findall(marked))
            yield Line(language, _MARKED.sub(r"\2", marked), marks)


def bare(text: str) -> str:
    """Remove white space, and unify the variants of each sign."""
    text = text.replace("μ", "µ").replace("…", "...")
    return re.sub(r"\s", "", re.sub(r"(?<=\b[nN])(\.?)°", r"\1º", text))


def survives(mark: Mark, line: Line, translation: str) -> bool:
    if mark.kind:
        number = mark.text.split()[-1]
        form = rf"(?i)(?<![^\W\d])(?:{_LABELS[mark.kind]})\s*{number}(?![\d-])"
        return len(re.findall(form, translation)) == 1
    wanted, said, text = bare(line.text), bare(translation), bare(mark.text)
    is_bullet = wanted.startswith(text) and re.fullmatch(r"\W+|\W?\w{1,2}[.)]", text)
    if is_bullet:
        return said.startswith(text) and not said.startswith(2 * text)
    if said.count(text) == wanted.count(text):
        return True
    symbol = next((c for c in mark.text if c in _WORDS), "")
    number = "".join(re.findall(r"\d", mark.text))
    if not symbol or not number:
        return False
    around = rf"{re.escape(symbol)}\s?{number}\b|\b{number}\s?(?:{re.escape(symbol)}|"
    return bool(re.search(rf"(?i){around}(?:\w+\s)?(?:{_WORDS[symbol]})|\w+²)", translation))


def doubled(line: Line, translation: str) -> str:
    """The symbols that a translation has more often than its line."""

    def symbols(text: str) -> Counter[str]:
        return Counter(
            c for c in bare(text) if unicodedata.category(c)[0] == "S" or c in "#&%§¶µ•*"
        )

    return "".join(symbols(translation) - symbols(line.text))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--show", action="store_true", help="Print every line that fails.")
    arguments = parser.parse_args()
    translator = dragoman.load(arguments.model)
    lines = [*read_lines(arguments.lines)]
    kept: dict[str, list[bool]] = defaultdict(list)
    for language in LANGUAGES:
        for to in LANGUAGES:
            mine = [line for line in lines if line.language == language != to]
            translations = translator([line.text for line in mine], source=language, to=to)
            for line, translation in zip(mine, translations, strict=True):
                lost = [mark for mark in line.marks if not survives(mark, line, translation)]
                more = doubled(line, translation)
                for group in (language, "all lines"):
                    kept[group].append(not lost and not more)
                kept["nothing doubled"].append(not more)
                if arguments.show and (lost or more):
                    print(f"{language}-{to}: {line.text}\n       {translation}")
    for group, results in kept.items():
        print(f"{group:16} {sum(results):4} of {len(results):4}  {sum(results) / len(results):.1%}")
    sys.exit(sum(kept["all lines"]) < LEAST * len(kept["all lines"]))


if __name__ == "__main__":
    main()
