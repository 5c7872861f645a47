"""What the bundled model is trained and scored on, beside the corpora themselves.

    python pretraining/data.py corpora

reads corpora/tatoeba/XX-en/{train,valid,test}.{XX,en}.gz and leaves in corpora/pretraining:

- train.XX-YY: sentences of two languages that translate the same English sentence;
- odd.XX-en: pairs as people type them: shouted, in small letters, without the final mark, with an emoji, with other
  numbers and names;
- long.XX-en: pairs of a dozen words and more, and sentences chained to such ("..., and ...");
- unpaired.en: English sentences that have no Portuguese yet, the Bible's verses among them;
- valid.XX-en: some of the validation pairs, for a look during training;
- test.XX-YY: the test sets joined on the English side.

What is chained or changed, and what of Tatoeba is to be translated back, stands in no validation or test set. From all
other pairs (those joined on English among them, whatever the English is) the config's [[data.exclude]] keeps the
sentences of these sets.
"""

import gzip
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from dragoman.text.doctor import normalised
from dragoman.text.parallel import read_lines, read_pairs

LANGUAGES = ("de", "es", "fr", "pt")
JOINTS = {  # how one clause follows another: and, but, or as if by itself
    "de": (" und ", ", aber ", "; "),
    "en": (", and ", ", but ", "; "),
    "es": (" y ", ", pero ", "; "),
    "fr": (" et ", ", mais ", " ; "),
    "pt": (" e ", ", mas ", "; "),
}
LONG = 12  # English words
ODD_PAIRS, RENAMED_PAIRS, CHAINED_PAIRS = 2500, 15_000, 30_000  # of each pair of languages
VALID_PAIRS, TEST_PAIRS = 500, 2000
EMOJI = [
    *"😀😂😉😊😍🤔😢😭😡😱🙏👍👎👋👏💪", "❤️", *"💔🔥✨🎉🎂🎁", "☀️", "🌧️", "❄️", *"🌈🌹🌍🐶🐱🍕🍺☕⚽🚗🚂", "✈️",
    *"🏠📱💻💡📚✅❌", "⚠️", "❓", "➡️", "€", "™",
]  # fmt: skip
ACCENTS = ["aä", "aã", "aá", "cç", "eé", "eè", "ií", "nñ", "oö", "oô", "oó", "uü", "uú", ("ss", "ß")]
WORD = re.compile(r"[^\W\d_]+")
NUMBER = re.compile(r"\d+")
NAME = re.compile(r"\b[^\W\d_]{3,}\b")
Texts = Iterable[tuple[str, str]]


def main(corpora: Path) -> None:
    out, lots = corpora / "pretraining", random.Random(1)
    out.mkdir(exist_ok=True)
    held_out = {
        normalised(text)
        for a in LANGUAGES
        for part in ("valid", "test")
        for pair in tatoeba(corpora, part, a)
        for text in pair
    }
    for a in LANGUAGES:
        train = [p for p in tatoeba(corpora, "train", a) if held_out.isdisjoint(map(normalised, p))]
        write(out, f"odd.{a}-en", a, "en", odd(train, lots))
        write(out, f"long.{a}-en", a, "en", long(train, a, lots))
        valid = tatoeba(corpora, "valid", a)
        write(out, f"valid.{a}-en", a, "en", lots.sample(valid, VALID_PAIRS))
    write_texts(out / "unpaired.en.gz", unpaired(corpora, held_out))
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


def long(pairs: list[tuple[str, str]], language: str, lots: random.Random) -> list[tuple[str, str]]:
    """The corpus has few long sentences: these, and others made by chaining two to four short ones."""
    sides = [Chain(language, (a for a, _ in pairs)), Chain("en", (b for _, b in pairs))]
    clauses = [pair for pair in pairs if all(re.fullmatch(r"[^.!?;:\"…]+\.", text) for text in pair)]
    chained = []
    for _ in range(CHAINED_PAIRS):
        chosen = lots.sample(clauses, lots.choice((2, 2, 3, 4)))
        joints = [lots.randrange(3) for _ in chosen[1:]]
        a, b = (chain(texts, joints) for chain, texts in zip(sides, zip(*chosen, strict=True), strict=True))
        chained.append((a, b))
    return [pair for pair in pairs if len(pair[1].split()) >= LONG] + chained


class Chain:
    """Makes one sentence of several; a clause's first word is written as in the midst of a sentence."""

    def __init__(self, language: str, texts: Iterable[str]):
        self._joints = JOINTS[language]
        self._inside = Counter(word for text in texts for word in WORD.findall(text)[1:])

    def __call__(self, texts: Iterable[str], joints: Iterable[int]) -> str:
        first, *others = (text.removesuffix(".") for text in texts)
        clauses = (self._joints[joint] + self._continued(text) for joint, text in zip(joints, others, strict=True))
        return "".join([first, *clauses, "."])

    def _continued(self, text: str) -> str:
        word = WORD.search(text)
        small = word is not None and self._inside[word[0].lower()] >= self._inside[word[0]]
        return text[:1].lower() + text[1:] if small else text


def unpaired(corpora: Path, held_out: set[str]) -> Iterable[str]:
    known = held_out | {normalised(english) for _, english in tatoeba(corpora, "train", "pt")}
    found = {normalised(text): text for a in ("de", "es", "fr") for _, text in tatoeba(corpora, "train", a)}
    yield from (text for key, text in found.items() if key not in known)
    for a in ("de", "es"):
        yield from read_lines(corpora / "extra" / f"bible.{a}-en" / "train.en.gz")


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
        write_texts(folder / f"{name}.{language}.gz", texts)
    print(f"{name}: {len(pairs):,} pairs")


def write_texts(path: Path, texts: Iterable[str]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
