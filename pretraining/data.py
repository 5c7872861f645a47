"""What the bundled model is trained and scored on, beside the corpora themselves.

    python pretraining/data.py corpora

reads corpora/{tatoeba,extra,real,new,found,programs,phrases,flores} and leaves in
corpora/pretraining:

- docs.XX-en: some documentation, laws and verses, without code and what is not a translation;
- words.XX-en: dictionaries and the names of countries, languages and units;
- prose.XX-en: stories and encyclopaedia passages;
- odd.XX-en: pairs as people type them: shouted, in small letters, without the final mark, with an
  emoji, with other numbers and names;
- general.XX-en: news, courses, textbooks, pages of organisations;
- short.XX-en: menu entries, headings, greetings and single words, with their capitals;
- programs.XX-en, menus.XX-en: messages and help of programs (programs.py), and their short lines;
- life.XX-en, more.XX-en, ding.de-en, tales.XX-en: everyday text: shops, customer mail, household,
  advice, a dictionary with its examples, stories of games;
- phrases.XX-YY: sentences of everyday life, written in five languages;
- train.XX-YY, general.XX-YY and so on: lines of two languages that translate one English line;
- valid.*: some validation pairs of FLORES and Tatoeba, for a look during training;
- first.toml to seventh-after.toml: pretraining/config.toml with these corpora, in all directions,
  for each stage of training:
  - second: more of everyday sentences and encyclopedia text, and what back.py made;
  - third: general prose, short lines, and back-translations of more text;
  - fourth: short lines between all languages, and more of the little text that there is in French,
    Spanish and Portuguese alone;
  - fifth, with a deeper encoder (grow.py): less of Parliament, more back-translations;
  - sixth: the messages of programs;
  - seventh, with a new vocabulary: everyday text and the pairs of behaviors.py; its second part,
    seventh-after, adds back-translations.

Europarl is used as it is: line n of all five files is one sentence, and each file is read once for
its eight directions. No changed pair is made of a sentence that stands in a validation or test set;
from all others the config's [[data.exclude]] keeps the sentences of these sets.
"""

import argparse
import bz2
import gzip
import lzma
import multiprocessing
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

from dragoman.text.doctor import normalised
from dragoman.text.parallel import read_pairs

OTHERS = ("de", "es", "fr", "pt")
LANGUAGES = ("en", *OTHERS)
PHRASE_COLUMNS = ("en", "de", "fr", "es", "pt")
MUCH_TEXT = ("en", "de")  # of which there is much text without a translation
DOCS = (
    "mdn", "phpdoc", "pydocs", "canlaws", "godotdocs", "gimphelp", "reactdocs", "k8sdocs",
    "osguide",
    "proghist", "tldr", "debhandbook", "freebsddoc", "bible",
)  # fmt: skip
WORDS = ("wiktdict", "cldr", "isocodes")
PROSE = ("stories", "xquad")
GENERAL = (
    "webwml", "fsfe", "cdda", "ethorg", "msbeginners", "openstax", "learnosm", "usgov", "mozorg",
    "openscience", "httpd", "bitcoin", "monero", "cncf", "owasp", "djangogirls", "hfcourse",
    "csunplugged", "skycultures", "sdg",
    "wesnoth", "freeciv", "widelands", "unknownhorizons", "shatteredpd", "unciv", "pkpdocs",
    "udpud", "nextstrain",
)  # fmt: skip
PROGRAMS = ("messages", "help")
LIFE = ("life",)  # shops, customer mail, help desks, household devices, goods, places
MORE = ("more", "apps")  # telephone calls, advice, hotels, tales, jobs, recipes
DING = ("ding",)  # an English-German dictionary with phrases and example sentences
TALES = ("pf2e", "pathfinder", "games")  # stories and dialogue of games
MENUS = ("libreoffice", "cdda", "mozorg", "webwml", "gimphelp", "godotdocs", "mdn", "learnosm")
EVERYDAY = {"life": LIFE, "more": MORE, "ding": DING, "tales": TALES}
# How often a pair is seen in an epoch, by corpus: with English, and between two other languages.
FIRST = {
    "europarl": (1.0, 0.25),
    "tatoeba": (2.0, 0.25),
    "docs": (0.6, 0.0),
    "words": (0.5, 0.0),
    "prose": (3.0, 0.0),
    "odd": (0.5, 0.0),
}
SECOND = {
    "europarl": (0.6, 0.15),
    "tatoeba": (4.0, 0.5),
    "docs": (0.4, 0.0),
    "words": (0.5, 0.0),
    "prose": (4.0, 0.0),
    "odd": (1.0, 0.0),
    "back": (3.0, 0.0),
    "scarce": (3.0, 0.0),  # back-translations of the languages that have little text
}
THIRD = {
    "europarl": (0.4, 0.12),
    "tatoeba": (3.0, 0.5),
    "docs": (0.4, 0.0),
    "words": (0.4, 0.0),
    "prose": (4.0, 0.0),
    "odd": (1.0, 0.0),
    "general": (1.5, 0.5),
    "short": (1.0, 0.0),
    "back": (1.5, 1.0),
    "scarce": (1.5, 0.0),
}
FOURTH = THIRD | {"short": (1.5, 1.0), "scarce": (3.0, 1.0)}
FIFTH = FOURTH | {"europarl": (0.3, 0.1), "docs": (0.3, 0.0), "back": (2.0, 1.0)}
SIXTH = FIFTH | {"programs": (0.5, 0.25), "menus": (1.0, 0.5), "short": (1.0, 0.5)}
# The seventh stage is trained in two parts: before and after what back.py makes.
SEVENTH = {
    "europarl": (0.3, 0.06),
    "tatoeba": (2.5, 0.4),
    "docs": (0.3, 0.0),
    "words": (0.4, 0.0),
    "prose": (4.0, 0.0),
    "odd": (0.4, 0.0),
    "general": (1.2, 0.4),
    "short": (0.6, 0.4),
    "life": (1.3, 0.3),
    "more": (1.3, 0.0),
    "ding": (0.6, 0.0),
    "tales": (0.7, 0.0),
    "behaviors": (1.0, 0.7),
}
SEVENTH |= {"phrases": (6.0, 3.0), "programs": (0.4, 0.15), "menus": (0.8, 0.4)}
SEVENTH_AFTER = SEVENTH | {"back": (1.3, 0.0), "scarce": (1.3, 0.0)}
STAGES = {
    "first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH,
    "sixth": SIXTH, "seventh": SEVENTH, "seventh-after": SEVENTH_AFTER,
}  # fmt: skip
DOC_PAIRS = 120_000  # of each pair of languages
ODD_PAIRS, RENAMED_PAIRS = 2500, 50_000  # of each pair of languages
SHORT_PAIRS, SHORT_WORDS = 40_000, 4  # of each pair of languages; of a line, at most
MOST_TIMES = 4  # a menu entry that many programs have
VALID_PAIRS = 125  # of each set
EMOJI = [
    *"😀😂😉😊😍🤔😢😭😡😱🙏👍👎👋👏💪", "❤️", *"💔🔥✨🎉🎂🎁", "☀️", "🌧️", "❄️",
    *"🌈🌹🌍🐶🐱🍕🍺☕⚽🚗🚂", "✈️", *"🏠📱💻💡📚✅❌", "⚠️", "❓", "➡️", "€", "™",
]  # fmt: skip
SIGNS = [*"©®§°±µ¶†‡•–—…→≤≥≠×÷#%&=+/|£$¥€¿¡«»"]
ACCENTS = [
    "aä", "aã", "aá", "aå", "cç", "cč", "eé", "eè", "eę", "ií", "lł", "nñ", "nň", "oö", "oô",
    "oó", "oø", "rř", "sš", "uü", "uú", "uů", "zž", ("ss", "ß"),
]  # fmt: skip
NUMBER = re.compile(r"\d+")
NAME = re.compile(r"\b[^\W\d_]{3,}\b")
MARKUP = re.compile(r"@[A-Z][a-z]+|\[\[|\]\]|Compendium")  # of a game's tables
CODE = re.compile(r"[<>{}\[\]|\\=_$@#*^~]|\(\)|::|->|//")
OPENED: dict[str, Callable[..., Any]] = {
    ".bz2": bz2.open,
    ".gz": gzip.open,
    ".xz": lzma.open,
}
Pair = tuple[str, str]
Weights = dict[str, tuple[float, float]]


def main(corpora: Path) -> None:
    (corpora / "pretraining").mkdir(exist_ok=True)
    with multiprocessing.get_context("fork").Pool() as pool:
        pool.starmap(make_with_english, [(corpora, language) for language in OTHERS], chunksize=1)
        between_others = [(corpora, a, b) for a, b in combinations(OTHERS, 2)]
        pool.starmap(make_between_others, between_others, chunksize=1)
    for a, b in combinations(LANGUAGES, 2):
        pair = (b, a) if a == "en" else (a, b)
        write(corpora / "pretraining", f"phrases.{'-'.join(pair)}", phrases(corpora, *pair))
    write_stages(corpora)


def make_with_english(corpora: Path, language: str) -> None:
    out = corpora / "pretraining"
    rng = random.Random(language)
    held_out = {normalised(text) for pair in held_out_pairs(corpora) for text in pair}
    name = f"{language}-en"
    docs = list(documents(corpora, language))
    write(out, f"docs.{name}", rng.sample(docs, min(DOC_PAIRS, len(docs))))
    write(out, f"words.{name}", dict.fromkeys(pairs_with_english(corpora, WORDS, language)))
    write(out, f"prose.{name}", dict.fromkeys(pairs_with_english(corpora, PROSE, language)))
    train = tatoeba(corpora, "train", language)
    everything = dict.fromkeys(pairs_with_english(corpora, GENERAL, language))
    general = [*filter(is_general, everything)]
    write(out, f"general.{name}", general)
    write(out, f"short.{name}", short(corpora, language, rng))
    write(out, f"menus.{name}", agreed(menus(corpora, language)))
    write(out, f"programs.{name}", programs(corpora, language))
    for part, names in EVERYDAY.items():
        found = dict.fromkeys(pairs_with_english(corpora, names, language))
        write(out, f"{part}.{name}", filter(is_everyday, found))
    free, general_free = (
        [pair for pair in pairs if held_out.isdisjoint(map(normalised, pair))]
        for pairs in (train, general)
    )
    write(out, f"odd.{name}", odd(free, general_free, rng))
    for valid, pairs in {
        "tatoeba": tatoeba(corpora, "valid", language),
        "flores": flores(corpora, "dev", language),
    }.items():
        write(out, f"valid.{valid}.{name}", rng.sample(pairs, VALID_PAIRS))


def make_between_others(corpora: Path, a: str, b: str) -> None:
    out = corpora / "pretraining"
    write(out, f"train.{a}-{b}", joined(*(tatoeba(corpora, "train", x) for x in (a, b))))
    for part in ("general", "life"):
        sides = (
            pairs_of(out / f"{part}.{x}-en.{x}.gz", out / f"{part}.{x}-en.en.gz") for x in (a, b)
        )
        write(out, f"{part}.{a}-{b}", joined(*sides))
    write(out, f"short.{a}-{b}", prevailing(*(known_short(corpora, x) for x in (a, b))))
    write(out, f"menus.{a}-{b}", prevailing(*(menus(corpora, x) for x in (a, b))))
    write(out, f"programs.{a}-{b}", joined(*(programs(corpora, x) for x in (a, b))))


def phrases(corpora: Path, a: str, b: str) -> Iterator[Pair]:
    """Two of the five columns of corpora/phrases/*.tsv (English, German, French, Spanish, ...)."""
    columns = [PHRASE_COLUMNS.index(language) for language in (a, b)]
    for path in sorted((corpora / "phrases").glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines():
            texts = line.split("\t")
            yield texts[columns[0]].strip(), texts[columns[1]].strip()


def write_stages(corpora: Path) -> None:
    settings = (Path(__file__).parent / "config.toml").read_text(encoding="utf-8")
    for stage, weights in STAGES.items():
        tables = [*training_tables(corpora, weights), *held_out_tables(corpora)]
        text = settings + "\n" + "\n".join(tables)
        (corpora / "pretraining" / f"{stage}.toml").write_text(text, encoding="utf-8")


def tatoeba(corpora: Path, part: str, language: str) -> list[Pair]:
    folder = corpora / "tatoeba" / f"{language}-en"
    return pairs_of(folder / f"{part}.{language}.gz", folder / f"{part}.en.gz")


def flores(corpora: Path, part: str, language: str) -> list[Pair]:
    return pairs_of(
        corpora / "flores" / f"{part}.{language}.gz", corpora / "flores" / f"{part}.en.gz"
    )


def pairs_of(source: Path, target: Path) -> list[Pair]:
    return [(pair.source, pair.target) for pair in read_pairs(source, target)]


def held_out_pairs(corpora: Path) -> Iterator[Pair]:
    for language in OTHERS:
        for part in ("valid", "test"):
            yield from tatoeba(corpora, part, language)
        for part in ("dev", "devtest"):
            yield from flores(corpora, part, language)


def pairs_with_english(corpora: Path, names: Iterable[str], language: str) -> Iterator[Pair]:
    """From all folders of corpora, of those that know the language."""
    for name in names:
        for path in sorted(corpora.glob(f"*/{name}.{language}-en.tsv.*")):
            with OPENED[path.suffix](path, "rt", encoding="utf-8") as file:
                for line in file:
                    text, english = line.rstrip("\n").split("\t")
                    yield text, english


def documents(corpora: Path, language: str) -> Iterable[Pair]:
    """Each pair once, and only if it is prose: documentation is full of code."""
    pairs = [*pairs_with_english(corpora, DOCS, language), *extra(corpora, language)]
    return dict.fromkeys(
        pair for pair in pairs if all(map(is_prose, pair)) and is_translation(*pair)
    )


def extra(corpora: Path, language: str) -> Iterator[Pair]:
    for folder in (corpora / "extra").glob(f"*.{language}-en"):
        yield from pairs_of(folder / f"train.{language}.gz", folder / "train.en.gz")


def short(corpora: Path, language: str, rng: random.Random) -> list[Pair]:
    """Lines of menus, everyday lines without their final mark, and words of a dictionary, which
    stand in such lines with a capital, too."""
    lines = dict.fromkeys(short_lines(corpora, language))
    sayings = dict.fromkeys(short_sayings(corpora, language))
    words = [(capitalised(a), capitalised(b)) for a, b in short_words(corpora, language)]
    return [
        pair
        for pairs in ([*lines], [*sayings], words)
        for pair in rng.sample(pairs, min(SHORT_PAIRS, len(pairs)))
    ]


def known_short(corpora: Path, language: str) -> Iterator[Pair]:
    for pairs in (short_lines, short_sayings, short_words):
        yield from pairs(corpora, language)


def short_lines(corpora: Path, language: str) -> Iterator[Pair]:
    lines = (*pairs_with_english(corpora, MENUS, language), *extra(corpora, language))
    return (pair for pair in lines if all(map(is_short, pair)) and pair[0] != pair[1])


def short_sayings(corpora: Path, language: str) -> Iterator[Pair]:
    for pair in tatoeba(corpora, "train", language):
        if all(text.endswith((".", "!")) for text in pair):
            a, b = (text[:-1] for text in pair)
            if is_short(a) and is_short(b):
                yield a, b


def short_words(corpora: Path, language: str) -> Iterator[Pair]:
    words = pairs_with_english(corpora, ("wiktdict",), language)
    return (pair for pair in words if all(map(is_short, pair)))


def menus(corpora: Path, language: str) -> Iterator[Pair]:
    """Short lines, each as often as there are programs that have it."""
    lines = pairs_with_english(corpora, PROGRAMS, language)
    return (pair for pair in lines if all(map(is_short, pair)))


def programs(corpora: Path, language: str) -> list[Pair]:
    """The other lines, each once."""
    lines = dict.fromkeys(pairs_with_english(corpora, PROGRAMS, language))
    return [pair for pair in lines if not all(map(is_short, pair))]


def agreed(pairs: Iterable[Pair]) -> list[Pair]:
    """What at least a third translate so, in both directions; often, if many do.

    >>> agreed([("Feile", "File"), *3 * [("Datei", "File")]])
    [('Datei', 'File'), ('Datei', 'File'), ('Datei', 'File')]
    """
    times = Counter(pairs)
    of_side: list[Counter[str]] = [Counter(), Counter()]
    for pair, votes in times.items():
        for side, text in enumerate(pair):
            of_side[side][text] += votes
    return [
        pair
        for pair, votes in times.items()
        if 3 * votes >= max(of_side[side][text] for side, text in enumerate(pair))
        for _ in range(min(votes, MOST_TIMES))
    ]


def prevailing(one: Iterable[Pair], other: Iterable[Pair]) -> list[Pair]:
    """Translations of the same English line, where most agree on one: short lines that do not may
    mean different things.

    >>> french = [("chien", "dog"), ("rive", "bank"), ("banque", "bank")]
    >>> prevailing([("Bank", "bank"), ("Hund", "dog")], french)
    [('Hund', 'chien')]
    """
    usual = []
    for pairs in (one, other):
        of_english: dict[str, Counter[str]] = defaultdict(Counter)
        for text, english in pairs:
            of_english[english][text] += 1
        usual.append(
            {
                english: best
                for english, texts in of_english.items()
                for best, times in texts.most_common(1)
                if times > texts.total() / 2
            }
        )
    return [(text, usual[1][english]) for english, text in usual[0].items() if english in usual[1]]


def is_short(text: str) -> bool:
    return (
        len(text.split()) <= SHORT_WORDS
        and text[:1].isalpha()
        and not CODE.search(text)
        and not any(c.isdigit() for c in text)
    )


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def is_general(pair: Pair) -> bool:
    """Text without signs of code; lines of a few words may differ much in length."""
    a, b = pair
    if any(map(CODE.search, pair)):
        return False
    return is_translation(a, b) if len(a.split()) > 3 else a != b


def is_everyday(pair: Pair) -> bool:
    """Drop pairs that only repeat the source; a placeholder or two is fine."""
    a, b = pair
    if a == b or sum(c.isalpha() for c in a) < 2 or any(map(MARKUP.search, pair)):
        return False
    return is_translation(a, b) if len(a.split()) > 6 else True


def is_prose(text: str) -> bool:
    """Several words, nearly all of it letters, no signs of code."""
    letters = sum(c.isalpha() or c.isspace() for c in text)
    return len(text.split()) >= 3 and letters >= 0.8 * len(text) and not CODE.search(text)


def is_translation(a: str, b: str) -> bool:
    """Neither the same text again nor one of quite another length."""
    return a != b and 0.5 < (len(a) + 10) / (len(b) + 10) < 2


def joined(one: Iterable[Pair], other: Iterable[Pair]) -> list[Pair]:
    """Translations of the same English sentence, each used as seldom as the longer list allows."""
    of_english: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, pairs in enumerate((one, other)):
        for text, english in pairs:
            of_english[normalised(english)][side].append(text)
    found = []
    for left, right in of_english.values():
        if left and right:
            for i in range(max(len(left), len(right))):
                found.append((left[i % len(left)], right[i % len(right)]))
    return found


def odd(pairs: list[Pair], general: list[Pair], rng: random.Random) -> list[Pair]:
    """Everyday pairs that were changed; names are exchanged in longer sentences as well."""
    marked = [pair for pair in pairs if all(text.endswith(".") for text in pair)]
    numbered = [pair for pair in (*pairs, *general) if same_numbers(*pair)]
    named, names = with_names(pairs)
    more_named, more_names = with_names(general)
    all_names = sorted({*names, *more_names})
    return [
        *((a.upper(), b.upper()) for a, b in rng.sample(pairs, 4 * ODD_PAIRS)),
        *((a.lower(), b.lower()) for a, b in rng.sample(pairs, ODD_PAIRS)),
        *((a[:-1], b[:-1]) for a, b in rng.sample(marked, ODD_PAIRS)),
        *(decorated(pair, rng.choice(EMOJI), rng) for pair in rng.sample(pairs, ODD_PAIRS)),
        *(decorated(pair, rng.choice(SIGNS), rng) for pair in rng.sample(pairs, ODD_PAIRS)),
        *(renumbered(pair, rng) for pair in rng.choices(numbered, k=2 * ODD_PAIRS)),
        *(
            renamed(*one, all_names, rng)
            for some in filter(None, (named, more_named))
            for one in rng.choices(some, k=RENAMED_PAIRS)
        ),
    ]


def with_names(pairs: list[Pair]) -> tuple[list[tuple[Pair, list[str]]], set[str]]:
    """Pairs that share names, with these; and all names, which are words with a capital that stand
    in the middle of a sentence, too."""
    shared = [(pair, same_names(*pair)) for pair in pairs]
    known = {name for (a, _), found in shared for name in found if not a.startswith(name)}
    named = [(pair, names) for pair, found in shared if (names := [n for n in found if n in known])]
    return named, known


def same_numbers(a: str, b: str) -> bool:
    """Whether both have the same numbers, each once; others may be dates, written otherwise
    elsewhere."""
    found = NUMBER.findall(a)
    return (
        bool(found) and len(set(found)) == len(found) and sorted(found) == sorted(NUMBER.findall(b))
    )


def decorated(pair: Pair, sign: str, rng: random.Random) -> Pair:
    a, b = pair
    return rng.choice(
        [(f"{a} {sign}", f"{b} {sign}"), (f"{sign} {a}", f"{sign} {b}"), (a + sign, b + sign)]
    )


def renumbered(pair: Pair, rng: random.Random) -> Pair:
    """Other digits, as many (or some more), the same on both sides."""
    others = {}
    for number in NUMBER.findall(pair[0]):
        digits = len(number) + rng.choice((0, 0, 1, 3))
        others[number] = str(rng.randrange(10 ** (len(number) - 1), 10**digits))
    a, b = (NUMBER.sub(lambda found: others[found.group()], text) for text in pair)
    return a, b


def same_names(a: str, b: str) -> list[str]:
    """Words with a capital that both texts have, each once."""
    found, others = (
        [word for word in NAME.findall(text) if word[0].isupper() and word[1:].islower()]
        for text in (a, b)
    )
    return [word for word in found if found.count(word) == 1 == others.count(word)]


def renamed(pair: Pair, found: list[str], names: list[str], rng: random.Random) -> Pair:
    """Other names, the same on both sides: one seen elsewhere, or one that nobody bears, made of
    two or more; or two of them."""
    a, b = pair
    for name in found:
        new = " ".join(a_name(names, rng) for _ in range(rng.choice((1, 1, 2))))
        a, b = (re.sub(rf"\b{name}\b", new, text) for text in (a, b))
    return a, b


def a_name(names: list[str], rng: random.Random) -> str:
    one, *others = rng.choices(names, k=4)
    mixed = one[: rng.randint(2, 5)] + others[0][rng.randint(1, 3) :].lower()
    parts = (other[(at := rng.randint(1, 3)) : at + rng.randint(2, 3)] for other in others)
    strange = one[: rng.randint(1, 4)] + "".join(parts).lower()
    plain, accented = rng.choice(ACCENTS)
    made = rng.choice([mixed, strange])
    return rng.choice([one, made, made.replace(plain, accented, 1)])


def training_tables(corpora: Path, weights: Weights) -> Iterator[str]:
    """[[data.corpora]] of every direction, and [[data.valid]]."""
    made = corpora / "pretraining"
    for a, b in permutations(LANGUAGES, 2):
        with_english = "en" in (a, b)
        weight = {name: both[not with_english] for name, both in weights.items()}
        pair = "-".join(sorted((a, b), key=lambda language: (language == "en", language)))

        back = "back" if b in MUCH_TEXT else "scarce"
        stems = {name: f"{made}/{name}.{pair}." for name in sorted(weight)}
        stems["europarl"] = f"{corpora}/real/europarl."
        stems["tatoeba"] = f"{made}/train.{pair}."
        if with_english:
            stems["tatoeba"] = f"{corpora}/tatoeba/{pair}/train."
        stems |= {"back": "", "scarce": "", back: f"{made}/back.{a}-{b}."}
        stems["behaviors"] = f"{made}/behaviors.{a}-{b}."
        for name, stem in stems.items():
            if stem and weight.get(name) and not is_empty(Path(f"{stem}{a}.gz")):
                yield table("data.corpora", stem, a, b, weight[name])
        if with_english:
            for name in ("valid.flores", "valid.tatoeba"):
                yield table("data.valid", f"{made}/{name}.{pair}.", a, b)


def is_empty(path: Path) -> bool:
    """Whether a file was made without a line; one that is made later is not empty."""
    if not path.exists():
        return False
    with gzip.open(path) as file:
        return not file.read(1)


def held_out_tables(corpora: Path) -> Iterator[str]:
    """[[data.exclude]]: every validation and test set."""
    for language in OTHERS:
        for part in ("valid", "test"):
            yield table("data.exclude", f"{corpora}/tatoeba/{language}-en/{part}.", language, "en")
        for part in ("dev", "devtest"):
            yield table("data.exclude", f"{corpora}/flores/{part}.", language, "en")


def table(name: str, stem: str, from_: str, to: str, weight: float = 1.0) -> str:
    """`stem`: what stands before the languages in the names of both files."""
    end = "bz2" if "/europarl." in stem else "gz"
    lines = [
        f"[[{name}]]",
        f'source = "{stem}{from_}.{end}"',
        f'target = "{stem}{to}.{end}"',
        f'from = "{from_}"',
        f'to = "{to}"',
    ]
    return "\n".join([*lines, f"weight = {weight}", ""])


def write(folder: Path, name: str, pairs: Iterable[Pair]) -> None:
    """Both sides as files; the languages are the end of the name, "XX-YY"."""
    pairs = list(pairs)
    languages = name.rsplit(".", 1)[-1].split("-")
    for side, language in enumerate(languages):
        path = folder / f"{name}.{language}.gz"
        with gzip.open(path, "wt", compresslevel=3, encoding="utf-8") as file:
            file.writelines(f"{pair[side]}\n" for pair in pairs)
    print(f"{name}: {len(pairs):,} pairs", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    options = parser.parse_args()
    main(options.corpora)
