"""A language made by a function of a seed: systems are compared on it if there is no corpus.

`toy_pairs` is a language of clauses, small enough to be learned in seconds and built so that word
by word will not do:

    source   name|noun [adjective] [plural]   object   verb    ... joiner ...   tense
    target   [adjective] noun [plural]   verb (agrees with its subject; tense as told last)   object

so objects and verbs change places, adjectives change sides, and the verb's ending is decided by a
noun at the other end of its clause and by the last word of the sentence. Names are respelled
syllable by syllable: an open vocabulary.
"""

import random
from itertools import product
from pathlib import Path

from dragoman.lab.compare.corpora import Files, Pairs
from dragoman.storage.files import write_atomically

_ONSETS, _VOWELS = "bdfgklmnprst", "aeiou"
_SYLLABLES = [onset + vowel for onset, vowel in product(_ONSETS, _VOWELS)]
_CODAS = ("n", "l", "sh", "x")
_NOUNS, _VERBS, _ADJECTIVES = 8, 5, 2


def _lexicon(seed: int) -> dict[str, list[tuple[str, str]]]:
    """Source and target words of each kind, all different."""
    draw = random.Random(seed)
    stems = draw.sample(
        [a + b for a, b in product(_SYLLABLES, _SYLLABLES)], 2 * (_NOUNS + _VERBS + _ADJECTIVES)
    )
    words = [
        (stems[2 * i] + draw.choice(_CODAS), stems[2 * i + 1] + draw.choice(_CODAS))
        for i in range(len(stems) // 2)
    ]
    ends = (_NOUNS, _NOUNS + _VERBS)
    return {
        "noun": words[: ends[0]],
        "verb": words[ends[0] : ends[1]],
        "adjective": words[ends[1] :],
    }


def toy_pairs(count: int, seed: int, clauses: int = 3) -> Pairs:
    """Sentences of up to so many clauses, short ones the most frequent; none is given twice."""
    words = _lexicon(7)
    draw = random.Random(seed)
    weights = [1.0 / (1 + n) ** 1.5 for n in range(clauses)]
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        source, target = _sentence(words, draw, draw.choices(range(1, clauses + 1), weights)[0])
        pairs[source] = target
    return list(pairs.items())


def _sentence(
    words: dict[str, list[tuple[str, str]]], draw: random.Random, clauses: int
) -> tuple[str, str]:
    tense, ending = draw.choice([("nu", ""), ("lo", "ed"), ("vi", "il")])
    sources, targets = [], []
    for _ in range(clauses):
        subject, subject_said, plural = _phrase(words, draw)
        thing, thing_said, _ = _phrase(words, draw)
        verb, verb_said = draw.choice(words["verb"])
        sources.append(f"{subject} {thing} {verb}")
        targets.append(f"{subject_said} {verb_said}{ending}{'' if plural else 'es'} {thing_said}")
    return f"{' ma '.join(sources)} {tense}", " and ".join(targets)


def _phrase(words: dict[str, list[tuple[str, str]]], draw: random.Random) -> tuple[str, str, bool]:
    if draw.random() < 0.1:
        syllables = draw.choices(_SYLLABLES, k=2)
        return (
            "".join(syllables).capitalize(),
            "".join(s[::-1] for s in syllables).capitalize(),
            False,
        )
    (noun, noun_said) = draw.choice(words["noun"])
    plural = draw.random() < 0.5
    source, said = [noun], [noun_said + "s" if plural else noun_said]
    if draw.random() < 0.35:
        adjective, adjective_said = draw.choice(words["adjective"])
        source, said = [noun, adjective], [adjective_said, *said]
    return " ".join([*source, "ki"] if plural else source), " ".join(said), plural


def toy_files(folder: Path, count: int) -> Files:
    """The language written down, so many pairs of it, unless it is there."""
    source, target = folder / "the toy language", folder / "the toy language.target"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pairs = toy_pairs(count, seed=1)
        for side, path in enumerate((source, target)):
            write_atomically(path, "".join(f"{pair[side]}\n" for pair in pairs).encode())
    return str(source), str(target)
