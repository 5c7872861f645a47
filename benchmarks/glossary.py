"""Glossaries on real text: how many terms appear, what they do to BLEU, and what they cost.

python benchmarks/glossary.py --corpora corpora

Terms are taken from the references: a source word and the reference word that translates it, where
IBM model 1, learned from training text in both directions, is sure of the pair. A sentence has up
to two. Time is CPU time of one thread, so other processes matter little.

"""

import argparse
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sacrebleu

import dragoman
from dragoman.data.batches import pad
from dragoman.decode.glossary import Glossary, Term
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.lexicon import Model1
from dragoman.text.parallel import read_lines

WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
LEARNED = 60_000  # pairs
SURE = 0.3  # probability of a pair of words, in both directions
SHORTEST = 4  # letters of a term


def words(text: str) -> list[str]:
    return WORD.findall(text)


def lexicon(sources: list[str], targets: list[str]) -> dict[tuple[str, str], float]:
    """t(target word | source word)."""
    source_ids: dict[str, int] = {"": 0}
    target_ids: dict[str, int] = {"": 0}

    def encoded(texts: list[str], ids: dict[str, int]) -> list[list[int]]:
        return [[ids.setdefault(word.lower(), len(ids)) for word in words(text)] for text in texts]

    left, right = encoded(sources, source_ids), encoded(targets, target_ids)
    order = sorted(range(len(left)), key=lambda i: len(left[i]) + len(right[i]))
    batches = [
        (pad([left[i] for i in group], 0), pad([right[i] for i in group], 0))
        for group in np.array_split(order, max(1, len(order) // 1000))
    ]
    model = Model1(batches, 0)
    for _ in range(4):
        model.improve()
    source_words, target_words = list(source_ids), list(target_ids)
    sure = model.t >= SURE
    return {
        (source_words[x], target_words[y]): t
        for x, y, t in zip(model.x[sure], model.y[sure], model.t[sure], strict=True)
    }


def terms(
    source: str, reference: str, there: dict, back: dict, draw: random.Random
) -> list[tuple[str, str]]:
    """Up to two pairs of words of a sentence, each word once on its side."""
    left, right = words(source), words(reference)
    pairs = [
        (s, t)
        for s in left
        for t in right
        if min(len(s), len(t)) >= SHORTEST
        and left.count(s) == right.count(t) == 1
        and (s.lower(), t.lower()) in there
        and (t.lower(), s.lower()) in back
    ]
    draw.shuffle(pairs)
    return pairs[:2]


def appears(term: str, text: str) -> bool:
    """As a word of its own; its first letter may be a capital."""
    return any(
        re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text)
        for form in (term, term[:1].upper() + term[1:])
    )


def timed(
    translator: Translator, sources: list[str], requests: list[Request]
) -> tuple[list[str], float]:
    """All sentences in batches; each has a glossary of its own, so parts are made one by one."""
    start = time.process_time()
    parts = []
    for row, (source, request) in enumerate(zip(sources, requests, strict=True)):
        parts += [part._replace(line=row) for part in translator.split([source], request)]
    plain = Request(to=requests[0].to, source_language=requests[0].source_language)
    found = translator.repair(parts, translator.search(parts, plain), plain)
    texts = [translation.text for translation in translator.join(sources, parts, found)]
    return texts, time.process_time() - start


def test_sets(corpora: Path, to: str) -> Iterator[tuple[str, list[str], list[str]]]:
    tatoeba = corpora / "tatoeba" / f"{to}-en"
    yield (
        "Tatoeba test",
        list(read_lines(str(tatoeba / "test.en.gz"))),
        list(read_lines(str(tatoeba / f"test.{to}.gz"))),
    )
    flores = corpora / "flores"
    yield (
        "FLORES dev",
        list(read_lines(str(flores / "dev.en.gz"))),
        list(read_lines(str(flores / f"dev.{to}.gz"))),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=Path("corpora"))
    parser.add_argument("--model", default="")
    parser.add_argument("--to", default="de")
    parser.add_argument("--sentences", type=int, default=1000, help="Of each set.")
    parser.add_argument("--names", action="store_true")
    arguments = parser.parse_args()
    to = arguments.to
    translator = dragoman.load(arguments.model)
    translator = type(translator)(
        translator.engine.on_one_core, translator.codec, translator.config
    )
    train = arguments.corpora / "tatoeba" / f"{to}-en"
    learned = [list(read_lines(str(train / f"train.{code}.gz")))[:LEARNED] for code in ("en", to)]
    there, back = lexicon(*learned), lexicon(*learned[::-1])
    draw = random.Random(1)
    for name, sources, references in test_sets(arguments.corpora, to):
        chosen = []
        for number in draw.sample(range(len(sources)), len(sources)):
            found = terms(sources[number], references[number], there, back, draw)
            if found and len(chosen) < arguments.sentences:
                chosen.append((sources[number], references[number], found))
        report(translator, to, name, chosen)


def report(translator: Translator, to: str, name: str, chosen: list) -> None:
    sources = [source for source, _, _ in chosen]
    references = [reference for _, reference, _ in chosen]
    plain = Request(to=to, source_language="en")
    demanding = [
        Request(
            to=to,
            source_language="en",
            glossary=Glossary(tuple(Term(s, (t,), case=True) for s, t in found)),
        )
        for _, _, found in chosen
    ]
    timed(translator, sources[:20], [plain] * 20)  # graphs are built with the first sentences
    before, seconds_before = timed(translator, sources, [plain] * len(sources))
    after, seconds_after = timed(translator, sources, demanding)
    demanded = [(t, i) for i, (_, _, found) in enumerate(chosen) for _, t in found]
    shares = [
        100 * sum(appears(t, texts[i]) for t, i in demanded) / len(demanded)
        for texts in (before, after)
    ]
    bleus = [sacrebleu.corpus_bleu(texts, [references]).score for texts in (before, after)]
    print(
        f"{name}, en-{to}, {len(chosen):,} sentences, {len(demanded):,} terms: appear "
        f"{shares[0]:.1f}% -> {shares[1]:.1f}%, BLEU {bleus[0]:.2f} -> {bleus[1]:.2f}, time "
        f"{seconds_before:.1f} s -> {seconds_after:.1f} s (x{seconds_after / seconds_before:.2f})"
    )
    for i in [i for t, i in demanded if not appears(t, after[i])][:3]:
        print(f"   missed {chosen[i][2]}: {sources[i]!r} -> {after[i]!r}")


if __name__ == "__main__":
    main()
