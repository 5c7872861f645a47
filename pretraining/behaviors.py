"""Makes training pairs that teach the model how to behave, from pairs that data.py has left.

    python pretraining/behaviors.py corpora

reads corpora/pretraining/{phrases, train, life, more, tales, general, docs, short}.* and leaves
corpora/pretraining/behaviors.XX-YY.{XX,YY}.gz for every direction, each pair changed in one or two
of these ways (the table `RATES` says how often):

- masks: placeholders for code, URLs, tags and long numbers, copied to the right place;
- terms: a source word is followed by the lemma of the translation to use, which the model inflects
  (Dinu et al. 2019; Bergmanis & Pinnis 2021);
- spelling as people type: capitals, small letters, no final mark, typos, missing accents;
- several sentences in one line, the sentence before as context, a tag for the register;
- dates, times, amounts and units, written as each language writes them (CLDR);
- text that has to stay: codes, addresses, noise.

Which words of two sentences translate each other is estimated from how often they occur together
(the Dice coefficient), which is enough for the words that are used here.
"""

import argparse
import datetime
import multiprocessing
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import simplemma
from babel import dates, numbers, units
from data import LANGUAGES, OPENED, OTHERS, Pair, write
from own_symbols import CONTEXT, FORMAL, INFORMAL, LEMMA, MASKS, TERM, TERM_END
from scipy import sparse

# The share of a direction's pairs that are changed in each way.
RATES = {
    "masks": 0.24,
    "tags": 0.08,
    "terms": 0.16,
    "upper": 0.07,
    "title": 0.03,
    "lower": 0.04,
    "unmarked": 0.06,
    "typos": 0.06,
    "accents": 0.03,
    "several": 0.09,
    "context": 0.06,
    "register": 0.04,
}
FORMATS = 16_000  # pairs with dates, amounts and units, of each direction
NOISE = 3_000
WITH_ENGLISH, BETWEEN_OTHERS = 230_000, 50_000  # pairs of a direction
SOURCES = {  # how many pairs each corpus gives at most
    "phrases": 30_000, "train": 50_000, "life": 50_000, "more": 30_000, "tales": 15_000,
    "general": 40_000, "docs": 10_000, "short": 10_000, "europarl": 30_000,
}  # fmt: skip
COUNTED = 300_000  # pairs that words are counted in
WORDS_COUNTED = 40_000  # most frequent words of a language
FUNCTION_WORDS = 120  # of these, the first
LEAST_DICE = 0.15
LEAST_DICE_OF_FUNCTION_WORDS = 0.3
Table = dict[int, dict[int, float]]
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
FIXED = re.compile(
    r"https?://\S+[\w/]|[\w.+-]+@[\w-]+\.[\w.]+\w|%\(\w+\)s|%[sd@]|\{\{?\w*\}?\}|\$\{\w+\}"
    r"|</?\w[^<>]*>|&\w+;|\d[\d.,:/-]*\d%?|\b\d%?|[\w-]+[./_]\w[\w./_-]*|\b[A-Z]{2,}\d*\b|`[^`]+`"
)
FORMAL_WORDS = {
    "de": (r"\b(Sie|Ihnen|Ihre?[mnrs]?)\b(?<!^Sie)(?<!^Ihre)", r"\b(du|dich|dir|deine?[mnrs]?)\b"),
    "fr": (r"\b([Vv]ous|[Vv]otre|[Vv]os)\b", r"\b([Tt]u|[Tt]oi|[Tt]on|[Tt]a|[Tt]es)\b|\b[Tt]'"),
    "es": (r"\b([Uu]sted(es)?)\b", r"\b([Tt]ú|[Tt]e|[Tt]us?|[Tt]uyo|[Cc]ontigo)\b"),
    "pt": (r"\b([Oo] senhor|[Aa] senhora)\b", r"\b([Tt]u|[Tt]eu|[Tt]ua|[Cc]ontigo)\b"),
}
LOCALES = {"en": ("en_US", "en_GB"), "de": ("de_DE",), "fr": ("fr_FR",), "es": ("es_ES", "es_MX"),
           "pt": ("pt_BR", "pt_PT")}  # fmt: skip
NEIGHBORS = {a: b for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm") for a, b in pairwise(row)}
Change = Callable[["Maker", Pair], Pair | None]


class Lexicon:
    """How likely two words are to translate each other, counted in pairs of sentences."""

    def __init__(self, pairs: list[Pair]):
        sides = [
            [set(map(str.lower, WORD.findall(pair[side]))) for pair in pairs] for side in (0, 1)
        ]
        self.ids = [frequent(side) for side in sides]
        matrices = [occurrences(side, ids) for side, ids in zip(sides, self.ids, strict=True)]
        together = (matrices[0].T @ matrices[1]).tocsr()
        left, right = (np.asarray(matrix.sum(axis=0)).ravel() for matrix in matrices)
        together.data[together.data < 2] = 0
        together.eliminate_zeros()
        rows = np.repeat(np.arange(together.shape[0]), np.diff(together.indptr))
        dice = 2 * together.data / (left[rows] + right[together.indices])
        # The most frequent words ("the", "is") occur together by chance.
        is_frequent = (rows < FUNCTION_WORDS) | (together.indices < FUNCTION_WORDS)
        kept = dice > np.where(is_frequent, LEAST_DICE_OF_FUNCTION_WORDS, LEAST_DICE)
        self.dice: tuple[Table, Table] = ({}, {})
        found = (rows[kept].tolist(), together.indices[kept].tolist(), dice[kept].tolist())
        for a, b, value in zip(*found, strict=True):
            self.dice[0].setdefault(a, {})[b] = value
            self.dice[1].setdefault(b, {})[a] = value

    def aligned(self, a: str, b: str, is_turned: bool) -> list[tuple[re.Match[str], re.Match[str]]]:
        """Words of both sentences that are each other's best translation, and occur once; and
        a word between two of them, if it stands there alone in both sentences.
        """
        sides = [[*WORD.finditer(text)] for text in (a, b)]
        if not all(sides) or max(map(len, sides)) > 60:
            return []
        ids = self.ids[::-1] if is_turned else self.ids
        left, right = (
            [known.get(word.group().lower(), -1) for word in side]
            for side, known in zip(sides, ids, strict=True)
        )
        table = self.dice[is_turned]
        best: dict[int, tuple[float, int]] = {}  # for each word of b, its best one of a
        choices = []
        for i, one in enumerate(left):
            scores = table.get(one)
            if scores and left.count(one) == 1:
                score, j = max((scores.get(other, 0.0), j) for j, other in enumerate(right))
                if score and right.count(right[j]) == 1:
                    choices.append((i, j))
                    best[j] = max(best.get(j, (0.0, 0)), (score, i))
        pairs = [(i, j) for i, j in choices if best[j][1] == i]
        return [(sides[0][i], sides[1][j]) for i, j in between(pairs, *map(len, sides))]


def between(pairs: list[tuple[int, int]], left: int, right: int) -> list[tuple[int, int]]:
    """Places of words that translate each other, with single words between neighbors.

    >>> between([(0, 0), (2, 2), (4, 5)], 6, 7)
    [(0, 0), (1, 1), (2, 2), (4, 5), (5, 6)]
    """
    result = []
    ends = [(-1, -1), *sorted(pairs), (left, right)]
    for (i, j), (k, m) in pairwise(ends):
        if k - i == m - j == 2:
            result.append((i + 1, j + 1))
        if k < left:
            result.append((k, m))
    return result


def frequent(side: list[set[str]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for words in side:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    best = sorted(counts, key=lambda word: -counts[word])[:WORDS_COUNTED]
    return {word: number for number, word in enumerate(best)}


def occurrences(side: list[set[str]], ids: dict[str, int]) -> Any:
    rows = [(row, ids[word]) for row, words in enumerate(side) for word in words if word in ids]
    places = np.array(rows, dtype=np.int32).T
    return sparse.csr_matrix(
        (np.ones(len(rows), np.float32), (places[0], places[1])), shape=(len(side), len(ids))
    )


class Maker:
    """Changes pairs of one direction."""

    def __init__(self, source: str, target: str, lexicon: Lexicon, pairs: list[Pair], seed: int):
        self.source, self.target, self.lexicon, self.pairs = source, target, lexicon, pairs
        # A lexicon is counted with English second.
        self.is_turned = source == "en" or (target != "en" and source > target)
        self.rng = random.Random(seed)

    def aligned(self, pair: Pair) -> list[tuple[re.Match[str], re.Match[str]]]:
        return self.lexicon.aligned(*pair, self.is_turned)

    def make(self) -> Iterator[Pair]:
        changes: list[Change] = [
            masked, tagged, with_terms, upper, title, lower, unmarked, with_typos,
            without_accents, several, in_context, with_register,
        ]  # fmt: skip
        weights = [*RATES.values()]
        for number, pair in enumerate(self.pairs):
            self.place = number
            change = self.rng.choices([*changes, None], [*weights, max(0.0, 1 - sum(weights))])[0]
            made = change(self, pair) if change else None
            if made and self.rng.random() < 0.1:
                # Ways meet in real text: capitals around a mask, a typo in a line with a term.
                made = self.rng.choice([masked, unmarked, upper, several])(self, made) or made
            if made and max(map(len, made)) < 900:
                yield made


def masked(maker: Maker, pair: Pair) -> Pair | None:
    """Masks in place of what both sides share, of words that translate each other, or at the end.

    Up to six masks: some in a row, numbered as they come in the source, or in any order.
    """
    a, b = pair
    rng = maker.rng
    if any(symbol in a for symbol in MASKS):
        return None
    spans: list[tuple[int, int, int, int]] = []
    for found in FIXED.finditer(a):
        if a.count(found.group()) == 1 == b.count(found.group()):
            spans.append((*found.span(), b.index(found.group()), 0))
    for one, other in maker.aligned(pair):
        is_name = one.group() == other.group() and one.group()[:1].isupper()
        if rng.random() < (0.5 if is_name else 0.15):
            spans.append((*one.span(), *other.span()))
    spans = [(i, j, k, end or k + j - i) for i, j, k, end in spans]
    rng.shuffle(spans)
    kept: list[tuple[int, int, int, int]] = []
    wanted = rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 6))
    for span in spans:
        apart = all(
            (span[1] <= i or span[0] >= j) and (span[3] <= k or span[2] >= end)
            for i, j, k, end in kept
        )
        if apart and len(kept) < wanted:
            kept.append(span)
    if not kept and rng.random() < 0.5:
        return None
    names = names_of_masks(rng, len(kept) + 2)
    cut: list[tuple[int, int, str, int, int]] = []
    for number, (i, j, k, end) in enumerate(sorted(kept)):
        name = names[number]
        if rng.random() < 0.06:  # two masks in a row
            name += names[-1] if rng.random() < 0.5 else f" {names[-1]}"
            names[-1] = ""
        cut.append((i, j, name, k, end))
        if not names[-1]:
            names.append(names.pop(-2))
            break
    a = replaced(a, [(i, j, name) for i, j, name, _, _ in cut])
    b = replaced(b, [(k, end, name) for _, _, name, k, end in cut])
    if not cut or rng.random() < 0.08:
        spare = names[len(cut)]
        if not spare or spare in a:
            return a, b
        form = rng.choice(["{} {text}", "{text} {}", "{}: {text}", "{text} ({})"])
        a, b = (form.format(spare, text=text) for text in (a, b))
    return a, b


def names_of_masks(rng: random.Random, count: int) -> list[str]:
    """Mostly numbered from the first; now and then from elsewhere or in any order."""
    if rng.random() < 0.7:
        return [*MASKS[:count]]
    return rng.sample(MASKS, count)


def replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def tagged(maker: Maker, pair: Pair) -> Pair | None:
    """Masks around words that translate each other, as markup stands around them; nested, too."""
    rng = maker.rng
    if any(symbol in pair[0] for symbol in MASKS):
        return None
    words = maker.aligned(pair)
    if not words:
        return None
    chosen = sorted(
        rng.sample(words, min(len(words), rng.choice((1, 1, 2, 3)))), key=lambda w: w[0].start()
    )
    names = names_of_masks(rng, 12)
    sides = [[], []]  # type: list[list[tuple[int, int, str]]]
    for number, both in enumerate(chosen):
        before, after = names[2 * number], names[2 * number + 1]
        if number == 0 and rng.random() < 0.15:  # nested
            before, after = before + names[10], names[11] + after
        # With a space after what opens, a word has its usual pieces.
        for side, word in zip(sides, both, strict=True):
            side += [(word.start(), word.start(), f"{before} "), (word.end(), word.end(), after)]
    a, b = (replaced(text, side) for text, side in zip(pair, sides, strict=True))
    if rng.random() < 0.1:  # markup around the whole line
        spare = [name for name in MASKS if name not in a][:2]
        a, b = (f"{spare[0]} {text}{spare[1]}" for text in (a, b))
    return a, b


def with_terms(maker: Maker, pair: Pair) -> Pair | None:
    """One to three source words with the lemma that their translation has in a term base."""
    rng = maker.rng
    words = [
        (one, other)
        for one, other in maker.aligned(pair)
        if len(one.group()) > 3 and len(other.group()) > 2
    ]
    if not words:
        return None
    spans = []
    for one, other in rng.sample(words, min(len(words), rng.choice((1, 1, 1, 2, 3)))):
        form = other.group()
        lemma = simplemma.lemmatize(form, maker.target)
        if lemma[:2].lower() != form[:2].lower() or rng.random() < 0.25:
            lemma = form
        if maker.target != "de" and form[0].isupper() and other.start() == 0:
            lemma = lemma[0].lower() + lemma[1:]
        spans.append((*one.span(), f"{TERM} {one.group()}{LEMMA} {lemma}{TERM_END}"))
    return replaced(pair[0], spans), pair[1]


def upper(maker: Maker, pair: Pair) -> Pair | None:
    return None if FIXED.search(pair[0]) else (pair[0].upper(), pair[1].upper())


def lower(maker: Maker, pair: Pair) -> Pair | None:
    """In German small letters are wrong: the source alone is as people type it."""
    a, b = pair
    return a.lower(), (b if maker.target == "de" else b.lower())


def title(maker: Maker, pair: Pair) -> Pair | None:
    """English headlines have capitals that the other languages do not have."""
    a, b = pair
    if len(a.split()) > 9 or FIXED.search(a):
        return None
    titled = [
        " ".join(w if len(w) < 4 and i else w[:1].upper() + w[1:] for i, w in enumerate(t.split()))
        for t in (a, b)
    ]
    if maker.source == "en":
        return titled[0], b
    return (titled[0], titled[1]) if maker.target == "en" else None


def unmarked(maker: Maker, pair: Pair) -> Pair | None:
    a, b = pair
    return (a[:-1], b[:-1]) if a.endswith(".") and b.endswith(".") else None


def with_typos(maker: Maker, pair: Pair) -> Pair | None:
    """The source as it is typed in haste; the target stays right."""
    rng = maker.rng
    letters = [*pair[0]]
    for _ in range(1 + len(letters) // 60):
        places = [i for i in range(1, len(letters) - 1) if letters[i].isalpha()]
        if not places:
            return None
        i = rng.choice(places)
        kind = rng.randrange(4)
        if kind == 0:
            letters[i], letters[i - 1] = letters[i - 1], letters[i]
        elif kind == 1:
            letters[i] = ""
        elif kind == 2:
            letters[i] *= 2
        else:
            letters[i] = NEIGHBORS.get(letters[i], rng.choice(string.ascii_lowercase))
    return "".join(letters), pair[1]


PLAIN = str.maketrans("áàâãéèêíìîóòôõúùûçñ", "aaaaeeeiiioooouuucn")


def without_accents(maker: Maker, pair: Pair) -> Pair | None:
    a = pair[0]
    if maker.source == "de":
        for accented, plain in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss"), ("Ü", "Ue")):
            a = a.replace(accented, plain)
    a = a.translate(PLAIN)
    return None if a == pair[0] else (a, pair[1])


def several(maker: Maker, pair: Pair) -> Pair | None:
    """Two to four lines as one; the pairs that follow are of the same corpus."""
    following = maker.pairs[maker.place + 1 : maker.place + maker.rng.choice((2, 2, 2, 3, 4))]
    lines = [pair, *following]
    ends = (".", "!", "?", "…", ":")
    if not following or not all(text.endswith(ends) for line in lines for text in line):
        return None
    return " ".join(line[0] for line in lines), " ".join(line[1] for line in lines)


def in_context(maker: Maker, pair: Pair) -> Pair | None:
    """The source of the pair before, as context that is not translated."""
    if not maker.place:
        return None
    before = maker.pairs[maker.place - 1][0]
    return f"{before} {CONTEXT} {pair[0]}", pair[1]


def with_register(maker: Maker, pair: Pair) -> Pair | None:
    """A tag that says how the target addresses the reader, where it does so in one way."""
    if maker.target not in FORMAL_WORDS:
        return None
    formal, informal = (re.search(words, pair[1]) for words in FORMAL_WORDS[maker.target])
    if bool(formal) == bool(informal):
        return None
    return f"{FORMAL if formal else INFORMAL} {pair[0]}", pair[1]


# In the order of LANGUAGES.
CARRIERS = [
    ("{}", "{}", "{}", "{}", "{}"),
    ("until {}", "bis {}", "hasta {}", "jusqu’à {}", "até {}"),
    ("({})", "({})", "({})", "({})", "({})"),
    ("Total: {}", "Gesamt: {}", "Total: {}", "Total : {}", "Total: {}"),
    ("Date: {}", "Datum: {}", "Fecha: {}", "Date : {}", "Data: {}"),
    ("Only {}!", "Nur {}!", "¡Solo {}!", "Seulement {} !", "Apenas {}!"),
    ("{} or more", "{} oder mehr", "{} o más", "{} ou plus", "{} ou mais"),
    ("{}, thank you.", "{}, danke.", "{}, gracias.", "{}, merci.", "{}, obrigado."),
    ("That is {}.", "Das sind {}.", "Son {}.", "Cela fait {}.", "São {}."),
    ("Less than {}", "Weniger als {}", "Menos de {}", "Moins de {}", "Menos de {}"),
]
# Abbreviations before numbers, and sentences for them: most corpora spell them out.
ABBREVIATIONS = [
    ("no. {}", "Nr. {}", "n.º {}", "n° {}", "n.º {}"),
    ("No. {}", "Nr. {}", "N.º {}", "N° {}", "N.º {}"),
    ("p. {}", "S. {}", "pág. {}", "p. {}", "p. {}"),
    ("pp. {}", "S. {}", "págs. {}", "pp. {}", "pp. {}"),
    ("fig. {}", "Abb. {}", "fig. {}", "fig. {}", "fig. {}"),
    ("vol. {}", "Bd. {}", "vol. {}", "vol. {}", "vol. {}"),
    ("ch. {}", "Kap. {}", "cap. {}", "chap. {}", "cap. {}"),
    ("art. {}", "Art. {}", "art. {}", "art. {}", "art. {}"),
    ("sec. {}", "Abschn. {}", "secc. {}", "sect. {}", "seç. {}"),
    ("para. {}", "Abs. {}", "párr. {}", "par. {}", "par. {}"),
    ("ed. {}", "Aufl. {}", "ed. {}", "éd. {}", "ed. {}"),
    ("ext. {}", "Durchwahl {}", "ext. {}", "poste {}", "ramal {}"),
    ("§ {}", "§ {}", "§ {}", "§ {}", "§ {}"),
]
REFERENCES = [
    ("See {}.", "Siehe {}.", "Véase {}.", "Voir {}.", "Ver {}."),
    ("See {} and {}.", "Siehe {} und {}.", "Véase {} y {}.", "Voir {} et {}.", "Veja {} e {}."),
    ("({})", "({})", "({})", "({})", "({})"),
    ("as in {}", "wie in {}", "como en {}", "comme dans {}", "como em {}"),
    ("See {} on the next page.", "Siehe {} auf der nächsten Seite.",
     "Véase {} en la página siguiente.", "Voir {} à la page suivante.",
     "Veja {} na próxima página."),
    ("{} of the book", "{} des Buches", "{} del libro", "{} du livre", "{} do livro"),
    ("According to {}, this is allowed.", "Nach {} ist das erlaubt.",
     "Según {}, está permitido.", "Selon {}, c'est autorisé.", "Segundo {}, isso é permitido."),
    ("{} was not changed.", "{} wurde nicht geändert.", "{} no se modificó.",
     "{} n'a pas été modifié.", "{} não foi alterado."),
]  # fmt: skip
ROUGHLY = [
    ("about {}", "etwa {}", "unas {}", "environ {}", "cerca de {}"),
    ("approx. {}", "ca. {}", "aprox. {}", "env. {}", "aprox. {}"),
    ("max. {}", "max. {}", "máx. {}", "max. {}", "máx. {}"),
    ("min. {}", "mind. {}", "mín. {}", "min. {}", "mín. {}"),
]
COUNTED_THINGS = [
    ("{} people", "{} Personen", "{} personas", "{} personnes", "{} pessoas"),
    ("{} chairs", "{} Stühle", "{} sillas", "{} chaises", "{} cadeiras"),
    ("We need {} pages.", "Wir brauchen {} Seiten.", "Necesitamos {} páginas.",
     "Il nous faut {} pages.", "Precisamos de {} páginas."),
    ("There are {} houses here.", "Hier stehen {} Häuser.", "Aquí hay {} casas.",
     "Il y a {} maisons ici.", "Há {} casas aqui."),
]  # fmt: skip
AT_A_TIME = [
    ("The train leaves at {}.", "Der Zug fährt um {} ab.", "El tren sale a las {}.",
     "Le train part à {}.", "O trem parte às {}."),
    ("The film begins at {}.", "Der Film beginnt um {}.", "La película empieza a las {}.",
     "Le film commence à {}.", "O filme começa às {}."),
    ("We are open from {} to {}.", "Wir haben von {} bis {} geöffnet.",
     "Abrimos de {} a {}.", "Nous sommes ouverts de {} à {}.", "Abrimos das {} às {}."),
    ("at {}", "um {}", "a las {}", "à {}", "às {}"),
]  # fmt: skip
TIMES = {  # of 24 hours and of 12
    "en": ("{0}:{1:02}", "{2}:{1:02} {3}"), "de": ("{0}:{1:02} Uhr", "{0}.{1:02} Uhr"),
    "es": ("{0}:{1:02}", "{0}:{1:02} h"), "fr": ("{0} h {1:02}", "{0}h{1:02}"),
    "pt": ("{0}h{1:02}", "{0}:{1:02}"),
}  # fmt: skip
UNITS = ("length-kilometer", "length-meter", "length-centimeter", "mass-kilogram", "mass-gram",
         "volume-liter", "volume-milliliter", "duration-minute", "duration-hour", "duration-day",
         "duration-week", "duration-month", "duration-year", "temperature-celsius",
         "speed-kilometer-per-hour", "digital-gigabyte", "area-square-meter")  # fmt: skip


def formats(source: str, target: str, rng: random.Random) -> Iterator[Pair]:
    """Dates, times, amounts and units in both languages' own forms."""
    for _ in range(FORMATS):
        if rng.random() < 0.3:
            yield in_a_sentence(source, target, rng)
            continue
        locales = [rng.choice(LOCALES[language]) for language in (source, target)]
        values = formatted(rng, locales)
        row = rng.choice(CARRIERS[:1] * 6 + CARRIERS[1:])
        carriers = [row[LANGUAGES.index(language)] for language in (source, target)]
        a, b = (
            carrier.format(value).replace("\xa0", " ").replace("\u202f", " ")
            for carrier, value in zip(carriers, values, strict=True)
        )
        yield a, b


def in_a_sentence(source: str, target: str, rng: random.Random) -> Pair:
    """References with abbreviations, counted things and times, in short sentences."""
    sides = [LANGUAGES.index(language) for language in (source, target)]
    kind = rng.randrange(3)
    if kind == 0:
        row, used = rng.choice(REFERENCES), rng.sample(ABBREVIATIONS, 2)
        values = [str(rng.randrange(1, 400)) for _ in used]
        filled = [
            [form[side].format(value) for form, value in zip(used, values, strict=True)]
            for side in sides
        ]
    elif kind == 1:
        row, roughly = rng.choice(COUNTED_THINGS), rng.choice(ROUGHLY)
        value = str(rng.randrange(11, 999))
        filled = [[roughly[side].format(value)] for side in sides]
    else:
        row, width = rng.choice(AT_A_TIME), [rng.randrange(2), rng.randrange(2)]
        moments = [(rng.randrange(24), rng.choice((0, 15, 30, rng.randrange(60)))) for _ in "12"]
        filled = [
            [
                TIMES[LANGUAGES[side]][width[number]].format(
                    hour, minute, (hour + 11) % 12 + 1, "am" if hour < 12 else "pm"
                )
                for hour, minute in moments
            ]
            for number, side in enumerate(sides)
        ]
    a, b = (row[side].format(*values) for side, values in zip(sides, filled, strict=True))
    return tuple(text[:1].upper() + text[1:] for text in (a, b))  # type: ignore[return-value]


def formatted(rng: random.Random, locales: list[str]) -> list[str]:
    kind = rng.randrange(6)
    if kind == 0:
        day = datetime.date(1900, 1, 1) + datetime.timedelta(days=rng.randrange(60_000))
        width = rng.choice(("long", "full", "long", "full", "medium"))
        return [dates.format_date(day, width, locale=locale) for locale in locales]
    if kind == 1:
        amount = round(10 ** rng.uniform(0, 6), rng.choice((0, 2, 2)))
        currency = rng.choice(("EUR", "USD", "GBP", "BRL", "CHF", "MXN"))
        return [numbers.format_currency(amount, currency, locale=locale) for locale in locales]
    if kind == 2:
        unit, value = rng.choice(UNITS), round(10 ** rng.uniform(0, 3.5), rng.choice((0, 0, 1)))
        value = int(value) if value == int(value) else value
        length: Literal["long", "short"] = "short" if rng.random() < 0.33 else "long"
        return [units.format_unit(value, unit, length, locale=locale) for locale in locales]
    if kind == 3:
        value = round(10 ** rng.uniform(0, 8), rng.choice((0, 0, 1, 2)))
        return [numbers.format_decimal(value, locale=locale) for locale in locales]
    if kind == 4:
        value = round(rng.random(), 3)
        return [
            numbers.format_percent(value, locale=locale, decimal_quantization=False)
            for locale in locales
        ]
    moment = datetime.time(rng.randrange(24), rng.choice((0, 15, 30, 45, rng.randrange(60))))
    return [dates.format_time(moment, "short", locale=locale) for locale in locales]


def noise(rng: random.Random) -> Iterator[Pair]:
    """Codes, addresses and gibberish: both sides are the same."""
    letters = string.ascii_letters + string.digits
    for _ in range(NOISE):
        kind = rng.randrange(5)
        word = "".join(rng.choices(letters, k=rng.randint(4, 12)))
        if kind == 0:
            text = f"{word[:3].upper()}-{rng.randrange(10**6)}"
        elif kind == 1:
            text = f"{word.lower()}@{word[::-1].lower()}.com"
        elif kind == 2:
            text = f"https://{word.lower()}.org/{word[:4].lower()}/{rng.randrange(999)}"
        elif kind == 3:
            text = "".join(rng.choices(string.punctuation + string.digits, k=rng.randint(2, 12)))
        else:
            text = word
        yield text, text


def base_pairs(corpora: Path, a: str, b: str) -> list[Pair]:
    """Pairs of two languages from all corpora, in runs of lines that follow each other."""
    made = corpora / "pretraining"
    rng = random.Random(7)
    blocks: list[list[Pair]] = []
    for name, most in SOURCES.items():
        paths = [made / f"{name}.{a}-{b}.{side}.gz" for side in (a, b)]
        if name == "europarl":
            paths = [corpora / "real" / f"europarl.{side}.bz2" for side in (a, b)]
        if name == "train" and b == "en":
            paths = [corpora / "tatoeba" / f"{a}-en" / f"train.{side}.gz" for side in (a, b)]
        if not paths[0].exists():
            continue
        pairs = [*islice(zip(*map(read, paths), strict=True), 4 * most)]
        runs = [pairs[i : i + 50] for i in range(0, len(pairs), 50)]
        rng.shuffle(runs)
        blocks += runs[: most // 50]
    rng.shuffle(blocks)
    return [pair for block in blocks for pair in block]


def read(path: Path) -> Iterator[str]:
    with OPENED[path.suffix](path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def make_both_ways(corpora: Path, a: str, b: str) -> None:
    pairs = base_pairs(corpora, a, b)
    lexicon = Lexicon(pairs[:COUNTED])
    most = WITH_ENGLISH if b == "en" else BETWEEN_OTHERS
    for source, target in ((a, b), (b, a)):
        seed = 1 + [*permutations(LANGUAGES, 2)].index((source, target))
        rng = random.Random(seed)
        some = pairs if source == a else [(y, x) for x, y in pairs]
        made = [
            *Maker(source, target, lexicon, some[:most], seed).make(),
            *formats(source, target, rng),
            *noise(rng),
        ]
        rng.shuffle(made)
        write(corpora / "pretraining", f"behaviors.{source}-{target}", made)


def main(corpora: Path, languages: list[tuple[str, str]]) -> None:
    with multiprocessing.Pool() as pool:
        pool.starmap(make_both_ways, [(corpora, a, b) for a, b in languages], chunksize=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--pairs", nargs="*", help="such as de-en; all without it")
    options = parser.parse_args()
    every = [(a, "en") for a in OTHERS] + [(a, b) for a in OTHERS for b in OTHERS if a < b]
    chosen = [tuple(pair.split("-")) for pair in options.pairs] if options.pairs else every
    main(options.corpora, [(a, b) for a, b in chosen])
