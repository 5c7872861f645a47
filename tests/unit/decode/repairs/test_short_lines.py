"""Lines of a few words, asked for in several ways, with a model that is a table."""

import math
from dataclasses import replace

import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.repairs.coroutines import drive
from dragoman.decode.repairs.short_lines import ShortLines
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.translation import Candidate

SETTINGS = DecodingConfig(short_lines=True)
# By text and language: answers and their probabilities.
SAID = {
    ("Hello", "fr"): {"Hello": 0.3, "Bonjour": 0.2},
    ("hello", "fr"): {"bonjour": 0.4, "hello": 0.1},
    ("Hello.", "fr"): {"Bonjour.": 0.9},
    ("Datei", "fr"): {"Dossier": 0.4},
    ("datei", "fr"): {"dossier": 0.1},
    ("Datei.", "fr"): {},
    ("Datei", "en"): {"File": 0.8, "Data": 0.2, "Row": 0.1},
    ("File", "fr"): {"Fichier": 0.9},
    ("Data", "fr"): {"Dossier": 0.1},
    ("lunes", "fr"): {"Lundi": 0.5},
    ("lunes.", "fr"): {"Lundi.": 0.5},
    ("Save…", "fr"): {"Sauvegarder...": 0.5},
    ("Datei...", "fr"): {"Dossier...": 0.5},
    ("Save", "fr"): {"Enregistrer": 0.5},
    ("save", "fr"): {"enregistrer": 0.5},
}


class Table:
    """Proposer and splitter in one."""

    def __init__(self, languages: tuple[str, ...] = ("de", "en", "fr")) -> None:
        self.languages = languages
        self.asked: list[tuple[str, str]] = []

    def settings(self, request: Request) -> DecodingConfig:
        return request.decoding or SETTINGS

    def speaks(self, language: str) -> bool:
        return language in self.languages

    def changed(self, part: Part, text: str, request: Request) -> Part:
        return part._replace(text=text)

    def encode(self, parts: list[Part], request: Request) -> list[Part]:
        return parts

    def propose(self, part: Part, request: Request):
        yield []
        self.asked.append((part.text, part.to))
        said = SAID.get((part.text, part.to), {})
        return tuple(Candidate(text, math.log(p)) for text, p in said.items())

    def scored(self, part: Part, texts: list[str], request: Request):
        yield []
        return tuple(Candidate(text, -9.0) for text in texts)


def mended(line: str, source: str, table: Table, nbest: int = 1) -> list[str]:
    part = Part(0, 0, [], "fr", line, capital=line[:1].isupper())
    request = Request(to="fr", source_language=source, nbest=nbest)
    first = tuple(Candidate(text, math.log(p)) for text, p in SAID[line, "fr"].items())
    life = ShortLines(table, table).mend(part, first[:nbest], request)
    return [candidate.text for candidate in drive(life, lambda queries: [])]


def test_the_answer_that_several_ways_agree_on_comes_first() -> None:
    table = Table()
    assert mended("Hello", "en", table, nbest=2) == ["Bonjour", "Hello"]
    assert table.asked == [("Hello", "fr"), ("hello", "fr"), ("Hello.", "fr")]


def test_a_small_letter_stays_one_where_both_languages_write_alike() -> None:
    table = Table(("es", "fr"))
    assert mended("lunes", "es", table) == ["lundi"]
    assert mended("lunes", "en", table) == ["Lundi"]  # if it were English
    assert mended("lunes", "", table) == ["Lundi"]


def test_dots_behind_a_line_stay_behind_it() -> None:
    table = Table()
    assert mended("Save…", "en", table) == ["Enregistrer…"]
    assert mended("Datei...", "de", table) == ["Fichier..."]
    assert not any(text.endswith(("…", "...")) for text, _ in table.asked)


def test_between_two_other_languages_english_is_a_way() -> None:
    table = Table()
    assert mended("Datei", "de", table) == ["Fichier"]
    assert ("Row", "fr") not in table.asked  # the best two are enough
    assert mended("Datei", "de", Table(("de", "fr"))) == ["Dossier"]
    assert mended("Datei", "", Table()) == ["Dossier"]  # whose language nobody has told


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("Hello", True),
        ("Save as…", True),
        ("Save as template", True),
        ("L'heure d'été", True),
        ("Save all the templates", False),
        ("Hello!", False),
        ("Page 3", False),
        ("", False),
    ],
)
def test_which_lines_are_short(line: str, short: bool) -> None:
    promise = ShortLines(Table(), Table())
    part = Part(0, 0, [], "fr", line)
    request = Request(to="fr")
    assert promise.is_broken(part, "", request) is short
    for other, changed in (
        (part._replace(in_capitals=True), request),
        (part, replace(request, prefix="Bon")),
        (part, replace(request, decoding=DecodingConfig())),
    ):
        assert not promise.is_broken(other, "", changed)
