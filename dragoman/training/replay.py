"""Replay: sentences from outside a user's text, with the model's own translations of them.

Those that the user gives come first. Then come everyday sentences in English, which a model for
another language translates into it. Last come sentences that the model makes up, if it also
writes the source language.

`everyday.en.gz` holds 6,000 English sentences, unchanged, one of each kind in turn: a random choice
of tatoeba.org's, by way of manythings.org/anki, under CC-BY 2.0 FR, which are short, and one of
Common Voice's (CC0), which people read aloud from books and encyclopaedias. None of them, case and
punctuation aside, is in a validation or test set that this project scores on.
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
    """Sentences from outside the domain, in so many parts with all kinds in each, so that one can
    stop when the time is up. `everyday` and `made_up`: how many there shall be of each kind; those
    given take the place of either."""
    own = [text for text in own_sentences if text.strip()][: everyday + made_up]
    english = everyday_sentences(translator, request, everyday - len(own))
    others = max(0, everyday + made_up - len(own) - len(english))
    for part in range(parts):
        texts = own[part::parts] + in_source_language(translator, english[part::parts], request)
        wanted = len(range(part, others, parts))
        yield texts + made_up_sentences(translator, request, wanted, seed + part)


def everyday_sentences(translator: Translator, request: Request, wanted: int) -> list[str]:
    """Short English sentences, if the model can say them in its source language."""
    source, languages = request.source_language, translator.codec.languages
    known = languages.tagged and ENGLISH in languages.sources and source in languages.targets
    if wanted < 1 or not (source == ENGLISH or known):
        return []
    return gzip.decompress(EVERYDAY.read_bytes()).decode().splitlines()[:wanted]


def in_source_language(
    translator: Translator, english: Sequence[str], request: Request
) -> list[str]:
    """What the model makes of English sentences in its source language."""
    source = request.source_language
    if source == ENGLISH or not english:
        return [*english]
    back = Request(to=source, source_language=ENGLISH)
    texts = translator(list(english), greedy(translator, back))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def made_up_sentences(
    translator: Translator, request: Request, wanted: int, seed: int
) -> list[str]:
    """Sentences of the source language: random words of the vocabulary, translated into it by
    sampling. A round trip through the target language turns most of them into what people say."""
    codec, source, target = translator.codec, request.source_language, request.to
    languages = codec.languages
    words = [piece[1:] for piece in codec.source.pieces if piece[0] == WORD_START]
    words = [word for word in words if len(word) > 1 and word.isalpha()]
    if wanted < 1 or not words or not languages.tagged or source not in languages.targets:
        return []
    draw = rng(seed, 2)
    salads = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(wanted)]
    settings = replace(translator.config.decoding, max_length_ratio=1.5, max_length_extra=10)
    sampled = Request(to=source, decoding=settings, sampling=Sampling(0.8, seed=seed))
    texts = translator(salads, sampled)
    if target in languages.sources:
        there = translator(texts, greedy(translator, request))
        back = Request(to=source, source_language=target)
        texts = translator(there, greedy(translator, back))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def replayed_pairs(
    translator: Translator, sentences: Sequence[str], request: Request
) -> list[tuple[str, str]]:
    """Sentences and the model's own translations."""
    translations = translator(list(sentences), greedy(translator, request))
    return [pair for pair in zip(sentences, translations, strict=True) if pair[1].strip()]


def greedy(translator: Translator, request: Request) -> Request:
    return replace(request, decoding=replace(translator.config.decoding, beam_size=1))
