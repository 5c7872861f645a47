"""Replay: sentences outside the user's domain, with the model's own translations.

The sentences come from three sources, in this order: sentences that the user gives; everyday
sentences in English, which the model first translates into its source language; and sentences that
the model makes up, if it also writes its source language.

`everyday.en.gz` holds 6,000 English sentences, unchanged, alternating between two sources: short
ones from tatoeba.org (by way of manythings.org/anki, CC-BY 2.0 FR), and sentences from books and
encyclopedias that people read aloud for Common Voice (CC0). Both were drawn at random. None of
them, ignoring case and punctuation, is in a validation or test set that this project scores on.
"""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.data.batches import rng
from dragoman.decode.request import Request
from dragoman.decode.search.task import Sampling
from dragoman.decode.translator import Translator
from dragoman.text.subword import WORD_START

EVERYDAY = Path(__file__).with_name("everyday.en.gz")
ENGLISH = "en"


def outside_sentences(
    translator: Translator,
    own_sentences: Sequence[str],
    request: Request,
    everyday: int,
    made_up: int,
    seed: int,
    parts: int = 1,
) -> Iterator[list[str]]:
    """Yield sentences outside the domain in parts that mix all sources, so that a caller can stop
    when the time is up.

    `everyday` and `made_up` are the numbers of sentences from these sources. The user's own
    sentences replace everyday ones first, then made-up ones.
    """
    # Every kind is dealt out over the parts in turn: [part::parts].
    own = [text for text in own_sentences if text.strip()][: everyday + made_up]
    english = everyday_sentences(translator, request, everyday - len(own))
    missing = max(0, everyday + made_up - len(own) - len(english))
    for part in range(parts):
        texts = own[part::parts] + in_source_language(translator, english[part::parts], request)
        count = len(range(part, missing, parts))
        yield texts + made_up_sentences(translator, request, count, seed + part)


def everyday_sentences(translator: Translator, request: Request, count: int) -> list[str]:
    """Return English sentences, if the model reads English or can translate it into its source
    language.
    """
    source, languages = request.source_language, translator.codec.languages
    known = languages.tagged and ENGLISH in languages.sources and source in languages.targets
    if count < 1 or not (source == ENGLISH or known):
        return []
    return gzip.decompress(EVERYDAY.read_bytes()).decode().splitlines()[:count]


def in_source_language(
    translator: Translator, english: Sequence[str], request: Request
) -> list[str]:
    """Translate English sentences into the model's source language."""
    source = request.source_language
    if source == ENGLISH or not english:
        return [*english]
    back = Request(to=source, source_language=ENGLISH)
    texts = translator(list(english), greedy(translator, back))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def made_up_sentences(translator: Translator, request: Request, count: int, seed: int) -> list[str]:
    """Make up sentences in the source language.

    Random words of the vocabulary are translated into it by sampling. A round trip through the
    target language then turns most of the results into natural sentences.
    """
    codec, source, target = translator.codec, request.source_language, request.to
    languages = codec.languages
    # Pieces that begin a word and have only letters are mostly whole words.
    words = [piece[1:] for piece in codec.source.pieces if piece[0] == WORD_START]
    words = [word for word in words if len(word) > 1 and word.isalpha()]
    if count < 1 or not words or not languages.tagged or source not in languages.targets:
        return []
    draw = rng(seed, 2)
    salads = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(count)]
    # Nonsense may be translated without end, so keep the length close to the source's.
    settings = replace(translator.config.decoding, max_length_ratio=1.5, max_length_extra=10)
    # Sampling, since beam search would give the same few sentences again and again.
    sampled = Request(to=source, decoding=settings, sampling=Sampling(0.8, seed=seed))
    texts = translator(salads, sampled)
    if target in languages.sources:
        translated = translator(texts, greedy(translator, request))
        back = Request(to=source, source_language=target)
        texts = translator(translated, greedy(translator, back))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def replayed_pairs(
    translator: Translator, sentences: Sequence[str], request: Request
) -> list[tuple[str, str]]:
    """Return sentences with the model's own translations; drop empty translations."""
    # Greedy search is faster, and time is limited.
    translations = translator(list(sentences), greedy(translator, request))
    return [pair for pair in zip(sentences, translations, strict=True) if pair[1].strip()]


def greedy(translator: Translator, request: Request) -> Request:
    return replace(request, decoding=replace(translator.config.decoding, beam_size=1))
