"""What the bundled model is trained and scored on, beside the corpora themselves.

    python pretraining/data.py corpora

reads corpora/{tatoeba,extra,real,new,flores} and leaves in corpora/pretraining:

- docs.XX-en: some documentation, laws and verses, without code and what is not a translation;
- words.XX-en: dictionaries and the names of countries, languages and units;
- prose.XX-en: stories and encyclopaedia passages;
- odd.XX-en: pairs as people type them: shouted, in small letters, without the final mark, with an
  emoji, with other numbers and names;
- general.XX-en: news, courses, textbooks, pages of organisations;
- short.XX-en: menu entries, headings and single words, with their capitals;
- train.XX-YY, general.XX-YY: sentences of two languages that translate one English sentence;
- valid.*: some validation pairs of FLORES and Tatoeba, for a look during training;
- first.toml, second.toml, third.toml: pretraining/config.toml with these corpora, in all
  directions, once for each stage of training. The second stage gives everyday sentences and
  encyclopaedia text more weight, and adds what back.py made; the third adds general prose and short
  lines, and back-translations of more text.

Europarl is used as it is: line n of all five files is one sentence, and each file is read once for
its eight directions. No changed pair is made of a sentence that stands in a validation or test set;
from all others the config's [[data.exclude]] keeps the sentences of these sets.
"""

import argparse
import bz2
import gzip
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, permutations
from pathlib import Path

from dragoman.text.doctor import normalised
from dragoman.text.parallel import read_pairs

OTHERS = ("de", "es", "fr", "pt")
LANGUAGES = ("en", *OTHERS)
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
)  # fmt: skip
MENUS = ("libreoffice", "cdda", "mozorg", "webwml", "gimphelp", "godotdocs", "mdn", "learnosm")
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
}
DOC_PAIRS = 120_000  # of each pair of languages
ODD_PAIRS, RENAMED_PAIRS = 2500, 25_000  # of each pair of languages
SHORT_PAIRS, SHORT_WORDS = 40_000, 4  # of each pair of languages; of a line, at most
VALID_PAIRS = 125  # of each set
EMOJI = [
    *"😀😂😉😊😍🤔😢😭😡😱🙏👍👎👋👏💪", "❤️", *"💔🔥✨🎉🎂🎁", "☀️", "🌧️", "❄️",
    *"🌈🌹🌍🐶🐱🍕🍺☕⚽🚗🚂", "✈️", *"🏠📱💻💡📚✅❌", "⚠️", "❓", "➡️", "€", "™",
]  # fmt: skip
SIGNS = [*"©®§°±µ¶†‡•–—…→≤≥≠×÷#%&=+/|£$¥€¿¡«»"]
ACCENTS = [
    "aä", "aã", "aá", "cç", "eé", "eè", "ií", "nñ", "oö", "oô", "oó", "uü", "uú", ("ss", "ß"),
]  # fmt: skip
NUMBER = re.compile(r"\d+")
NAME = re.compile(r"\b[^\W\d_]{3,}\b")
CODE = re.compile(r"[<>{}\[\]|\\=_$@#*^~]|\(\)|::|->|//")
Pair = tuple[str, str]
Weights = dict[str, tuple[float, float]]


def main(corpora: Path) -> None:
    out = corpora / "pretraining"
    rng = random.Random(1)
    out.mkdir(exist_ok=True)
    held_out = {normalised(text) for pair in held_out_pairs(corpora) for text in pair}
    for language in OTHERS:
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
        free, general_free = (
            [pair for pair in pairs if held_out.isdisjoint(map(normalised, pair))]
            for pairs in (train, general)
        )
        write(out, f"odd.{name}", odd(free, general_free, rng))
        write(
            out,
            f"valid.tatoeba.{name}",
            rng.sample(tatoeba(corpora, "valid", language), VALID_PAIRS),
        )
        write(
            out, f"valid.flores.{name}", rng.sample(flores(corpora, "dev", language), VALID_PAIRS)
        )
    for a, b in combinations(OTHERS, 2):
        write(out, f"train.{a}-{b}", joined(*(tatoeba(corpora, "train", x) for x in (a, b))))
        sides = (
            pairs_of(out / f"general.{x}-en.{x}.gz", out / f"general.{x}-en.en.gz") for x in (a, b)
        )
        write(out, f"general.{a}-{b}", joined(*sides))
    settings = (Path(__file__).parent / "config.toml").read_text(encoding="utf-8")
    for stage, weights in {"first": FIRST, "second": SECOND, "third": THIRD}.items():
        tables = [*training_tables(corpora, weights), *held_out_tables(corpora)]
        text = settings + "\n" + "\n".join(tables)
        (out / f"{stage}.toml").write_text(text, encoding="utf-8")


def tatoeba(corpora: Path, part: str, language: str) -> list[Pair]:
    return pairs_of(*tatoeba_files(corpora, part, language, "en"))


def tatoeba_files(corpora: Path, part: str, a: str, b: str) -> tuple[Path, Path]:
    folder = corpora / "tatoeba" / f"{b if a == 'en' else a}-en"
    return folder / f"{part}.{a}.gz", folder / f"{part}.{b}.gz"


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
    """From corpora/real and corpora/new, of those corpora that know the language."""
    for name in names:
        for path in corpora.glob(f"*/{name}.{language}-en.tsv.bz2"):
            with bz2.open(path, "rt", encoding="utf-8") as file:
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
    """Lines of a few words that both begin with a capital, as in a menu, or that consist of one
    word; most single words of a dictionary stand in such lines with a capital, too."""
    lines = [
        *pairs_with_english(corpora, MENUS, language),
        *pairs_with_english(corpora, ("libreoffice",), language),
        *extra(corpora, language),
    ]
    found = dict.fromkeys(pair for pair in lines if all(map(is_short, pair)) and pair[0] != pair[1])
    words = [
        (capitalised(a), capitalised(b))
        for a, b in pairs_with_english(corpora, ("wiktdict",), language)
        if all(map(is_short, (a, b)))
    ]
    return [
        *rng.sample([*found], min(SHORT_PAIRS, len(found))),
        *rng.sample(words, min(SHORT_PAIRS, len(words))),
    ]


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
    two."""
    a, b = pair
    for name in found:
        one, other = rng.choice(names), rng.choice(names)
        mixed = one[: rng.randint(2, 5)] + other[rng.randint(1, 3) :].lower()
        plain, accented = rng.choice(ACCENTS)
        new = rng.choice([one, mixed, mixed.replace(plain, accented, 1)])
        a, b = (re.sub(rf"\b{name}\b", new, text) for text in (a, b))
    return a, b


def training_tables(corpora: Path, weights: Weights) -> Iterator[str]:
    """[[data.corpora]] of every direction, and [[data.valid]]."""
    made = corpora / "pretraining"
    for a, b in permutations(LANGUAGES, 2):
        through_english = "en" in (a, b)
        weight = {name: both[not through_english] for name, both in weights.items()}
        real_files = (
            corpora / "real" / f"europarl.{a}.bz2",
            corpora / "real" / f"europarl.{b}.bz2",
        )
        yield table("data.corpora", *real_files, a, b, weight["europarl"])
        if not through_english:
            stem = f"train.{'-'.join(sorted((a, b)))}"
            yield table(
                "data.corpora",
                made / f"{stem}.{a}.gz",
                made / f"{stem}.{b}.gz",
                a,
                b,
                weight["tatoeba"],
            )
            if weight.get("general"):
                stem = f"general.{'-'.join(sorted((a, b)))}"
                sides = [made / f"{stem}.{language}.gz" for language in (a, b)]
                yield table("data.corpora", sides[0], sides[1], a, b, weight["general"])
            if weight.get("back") and b in MUCH_TEXT:
                sides = [made / f"back.{a}-{b}.{language}.gz" for language in (a, b)]
                yield table("data.corpora", sides[0], sides[1], a, b, weight["back"])
            continue
        yield table("data.corpora", *tatoeba_files(corpora, "train", a, b), a, b, weight["tatoeba"])
        other = b if a == "en" else a
        for name in set(weights) - {"europarl", "tatoeba", "back"}:
            stem = f"{name}.{other}-en"
            yield table(
                "data.corpora", made / f"{stem}.{a}.gz", made / f"{stem}.{b}.gz", a, b, weight[name]
            )
        if "back" in weight:
            sides = [made / f"back.{a}-{b}.{language}.gz" for language in (a, b)]
            yield table("data.corpora", sides[0], sides[1], a, b, weight["back"])
        for name in ("valid.flores", "valid.tatoeba"):
            stem = f"{name}.{other}-en"
            yield table("data.valid", made / f"{stem}.{a}.gz", made / f"{stem}.{b}.gz", a, b)


def held_out_tables(corpora: Path) -> Iterator[str]:
    """[[data.exclude]]: every validation and test set."""
    for language in OTHERS:
        for part in ("valid", "test"):
            yield table(
                "data.exclude", *tatoeba_files(corpora, part, language, "en"), language, "en"
            )
        for part in ("dev", "devtest"):
            files = [corpora / "flores" / f"{part}.{x}.gz" for x in (language, "en")]
            yield table("data.exclude", files[0], files[1], language, "en")


def table(name: str, source: Path, target: Path, from_: str, to: str, weight: float = 1.0) -> str:
    lines = [
        f"[[{name}]]",
        f'source = "{source}"',
        f'target = "{target}"',
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
    print(f"{name}: {len(pairs):,} pairs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    options = parser.parse_args()
    main(options.corpora)
