"""Learns the vocabulary of the bundled model.

    python pretraining/vocabulary.py corpora corpora/pretraining/shared.spm --size 32000

Byte-pair encoding over words counted in all corpora, each language with the same share. The corpora
speak more of parliaments and programs than people do, so most of a word's count is how often people
use it (wordfreq), spread over the forms, with or without capitals, that the corpora have. Digits
are split one by one, so that a number is copied digit by digit; rare characters are spelled in
bytes. The model's own symbols (behaviors.py) are pieces that are never merged with their neighbors.
"""

import argparse
import io
import string
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import sentencepiece
import wordfreq
from behaviors import read
from data import LANGUAGES, OTHERS
from own_symbols import SYMBOLS

from dragoman.text.subword import count_words
from dragoman.text.vocabulary import language_tag

PUNCTUATION = string.punctuation + "«»„“”‚‘’¿¡…–—"
SIGNS = "€£¥$%°§©®™&@#+=<>[]{}|\\/*_~^…–—„“”‚‘’«»¿¡²³½×→"
COUNTED = 250_000  # lines of a file at most
WEIGHTS = {
    "train": 2.0, "life": 2.0, "more": 2.0, "tales": 1.0, "general": 1.0,
    "ding": 0.5, "docs": 0.5, "words": 0.5,
}  # fmt: skip
WORDS = 20_000_000  # of each language, after weighting
USED = 0.6  # the share of wordfreq's counts
FREQUENT = 60_000  # words of wordfreq


def main(corpora: Path, out: Path, size: int) -> None:
    counts = Counter[str]()
    for language in LANGUAGES:
        words = words_of(corpora, language)
        print(f"{language}: {len(words):,} different words", flush=True)
        for word, number in as_used(words, language).items():
            if number >= 1:
                counts[word] += round(number)
    out.write_bytes(learn(counts, size))


def as_used(words: "Counter[str]", language: str) -> dict[str, float]:
    """Counts of a language that are a mixture of the corpora's and of what people say and write."""
    scale = (1 - USED) * WORDS / words.total()
    mixed = {word: number * scale for word, number in words.items() if number > 1}
    letters: dict[str, list[str]] = defaultdict(list)  # the forms of a word in small letters
    for word in mixed:
        letters[word.strip(PUNCTUATION).lower()].append(word)
    for word in wordfreq.top_n_list(language, FREQUENT):
        forms = letters.get(word, [])
        total = sum(words[form] for form in forms)
        used = USED * WORDS * wordfreq.word_frequency(word, language)
        for form in forms:
            mixed[form] += used * words[form] / total
    return mixed


def words_of(corpora: Path, language: str) -> "Counter[str]":
    counts = Counter[str]()
    for weight, lines in texts(corpora, language):
        for word, number in count_words(lines, "nmt_nfkc").items():
            counts[word] += round(2 * weight * number)
    return counts


def texts(corpora: Path, language: str) -> Iterator[tuple[float, Iterator[str]]]:
    yield 0.5, islice(read(corpora / "real" / f"europarl.{language}.bz2"), COUNTED)
    for other in OTHERS if language == "en" else (language,):
        share = 1 / len(OTHERS) if language == "en" else 1.0
        for name, weight in WEIGHTS.items():
            path = corpora / "pretraining" / f"{name}.{other}-en.{language}.gz"
            if name == "train":
                path = corpora / "tatoeba" / f"{other}-en" / f"train.{language}.gz"
            if path.exists():
                yield weight * share, islice(read(path), COUNTED)
    for path in sorted(corpora.glob(f"*/*.{language}.txt.*")):
        yield 0.5, islice(read(path), COUNTED // 5)


def learn(counts: "Counter[str]", size: int) -> bytes:
    model = io.BytesIO()
    table = [f"{word}\t{number}" for word, number in counts.items() if "\t" not in word]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(table),
        input_format="tsv",
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        byte_fallback=True,
        split_digits=True,
        character_coverage=0.9999,
        required_chars="".join(sorted(set(SIGNS) & set("".join(counts)))),
        normalization_rule_name="nmt_nfkc",
        control_symbols=[language_tag(language) for language in LANGUAGES],
        user_defined_symbols=SYMBOLS,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    return model.getvalue()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=32_000)
    options = parser.parse_args()
    main(options.corpora, options.out, options.size)
