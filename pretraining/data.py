"""What the bundled model is trained and scored on, beside the corpora themselves.

    python pretraining/data.py corpora

reads corpora/tatoeba/XX-en/{train,valid,test}.{XX,en}.gz and leaves in corpora/pretraining:

- train.XX-YY: sentences of two languages that translate the same English sentence;
- odd.XX-en: pairs as people type them: shouted, in small letters, without the final mark, with an emoji, with other
  numbers and names;
- valid.XX-en: some of the validation pairs, for a look during training;
- test.XX-YY: the test sets joined on the English side.

Which of these may be trained on is not decided here: the config's [[data.exclude]] names all validation and test sets.
"""

import gzip
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from dragoman.text.doctor import normalised
from dragoman.text.parallel import read_pairs

LANGUAGES = ("de", "es", "fr", "pt")
ODD_PAIRS, RENAMED_PAIRS, VALID_PAIRS, TEST_PAIRS = 2500, 15_000, 500, 2000  # of each kind and pair of languages
EMOJI = [
    *"😀😂😉😊😍🤔😢😭😡😱🙏👍👎👋👏💪", "❤️", *"💔🔥✨🎉🎂🎁", "☀️", "🌧️", "❄️", *"🌈🌹🌍🐶🐱🍕🍺☕⚽🚗🚂", "✈️",
    *"🏠📱💻💡📚✅❌", "⚠️", "❓", "➡️", "€", "™",
]  # fmt: skip
ACCENTS = ["aä", "aã", "aá", "cç", "eé", "eè", "ií", "nñ", "oö", "oô", "oó", "uü", "uú", ("ss", "ß")]
NUMBER = re.compile(r"\d+")
NAME = re.compile(r"\b[^\W\d_]{3,}\b")
Texts = Iterable[tuple[str, str]]


def main(corpora: Path) -> None:
    out, lots = corpora / "pretraining", random.Random(1)
    out.mkdir(exist_ok=True)
    for a in LANGUAGES:
        train = tatoeba(corpora, "train", a)
        write(out, f"odd.{a}-en", a, "en", odd(train, lots))
        valid = tatoeba(corpora, "valid", a)
        write(out, f"valid.{a}-en", a, "en", lots.sample(valid, VALID_PAIRS))
    for a, b in combinations(LANGUAGES, 2):
        write(out, f"train.{a}-{b}", a, b, joined(tatoeba(corpora, "train", a), tatoeba(corpora, "train", b)))
        test = joined(tatoeba(corpora, "test", a), tatoeba(corpora, "test", b))
        write(out, f"test.{a}-{b}", a, b, lots.sample(test, min(TEST_PAIRS, len(test))))


def tatoeba(corpora: Path, part: str, language: str) -> list[tuple[str, str]]:
    folder = corpora / "tatoeba" / f"{language}-en"
    return [(p.source, p.target) for p in read_pairs(folder / f"{part}.{language}.gz", folder / f"{part}.en.gz")]


def joined(one: Texts, other: Texts) -> list[tuple[str, str]]:
    """Translations of the same English sentence, each used as seldom as the longer of the two lists allows."""
    of_english: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, pairs in enumerate((one, other)):
        for text, english in pairs:
            of_english[normalised(english)][side].append(text)
    return [
        (left[i % len(left)], right[i % len(right)])
        for left, right in of_english.values()
        if left and right
        for i in range(max(len(left), len(right)))
    ]


def odd(pairs: list[tuple[str, str]], lots: random.Random) -> list[tuple[str, str]]:
    marked = [pair for pair in pairs if all(text.endswith(".") for text in pair)]
    numbered = [pair for pair in pairs if same_numbers(*pair)]
    shared = [(pair, same_names(*pair)) for pair in pairs]
    known = {name for (a, _), found in shared for name in found if not a.startswith(name)}
    named = [(pair, names) for pair, found in shared if (names := [name for name in found if name in known])]
    names = sorted(known)
    return [
        *((a.upper(), b.upper()) for a, b in lots.sample(pairs, 4 * ODD_PAIRS)),
        *((a.lower(), b.lower()) for a, b in lots.sample(pairs, ODD_PAIRS)),
        *((a[:-1], b[:-1]) for a, b in lots.sample(marked, ODD_PAIRS)),
        *(decorated(pair, lots.choice(EMOJI), lots) for pair in lots.sample(pairs, ODD_PAIRS)),
        *(renumbered(pair, lots) for pair in lots.choices(numbered, k=ODD_PAIRS)),
        *(renamed(pair, found, names, lots) for pair, found in lots.choices(named, k=RENAMED_PAIRS)),
    ]


def same_numbers(a: str, b: str) -> bool:
    """Whether both have the same numbers, each once; others may be dates or times, told otherwise elsewhere."""
    found = NUMBER.findall(a)
    return bool(found) and len(set(found)) == len(found) and sorted(found) == sorted(NUMBER.findall(b))


def decorated(pair: tuple[str, str], sign: str, lots: random.Random) -> tuple[str, str]:
    a, b = pair
    return lots.choice([(f"{a} {sign}", f"{b} {sign}"), (f"{sign} {a}", f"{sign} {b}"), (a + sign, b + sign)])


def renumbered(pair: tuple[str, str], lots: random.Random) -> tuple[str, str]:
    """Other digits, as many (or some more), the same on both sides."""
    others = {
        number: str(lots.randrange(10 ** (len(number) - 1), 10 ** (len(number) + lots.choice((0, 0, 1, 3)))))
        for number in NUMBER.findall(pair[0])
    }
    a, b = (NUMBER.sub(lambda found: others[found.group()], text) for text in pair)
    return a, b


def same_names(a: str, b: str) -> list[str]:
    """Words with a capital that both texts have, each once."""
    found, others = ([w for w in NAME.findall(text) if w[0].isupper() and w[1:].islower()] for text in (a, b))
    return [word for word in found if found.count(word) == 1 == others.count(word)]


def renamed(pair: tuple[str, str], found: list[str], names: list[str], lots: random.Random) -> tuple[str, str]:
    """Other names, the same on both sides: one of those seen elsewhere, or one that nobody bears, made of two."""
    a, b = pair
    for name in found:
        one, other = lots.choice(names), lots.choice(names)
        mixed = one[: lots.randint(2, 5)] + other[lots.randint(1, 3) :].lower()
        new = lots.choice([one, mixed, mixed.replace(*lots.choice(ACCENTS), 1)])
        a, b = (re.sub(rf"\b{name}\b", new, text) for text in (a, b))
    return a, b


def write(folder: Path, name: str, a: str, b: str, pairs: Iterable[tuple[str, str]]) -> None:
    pairs = list(pairs)
    for language, texts in zip((a, b), zip(*pairs, strict=True), strict=True):
        with gzip.open(folder / f"{name}.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in texts)
    print(f"{name}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
