"""Glossaries on real text: how many terms appear, what they do to BLEU, and what they cost.

python benchmarks/glossary.py --corpora corpora
python benchmarks/glossary.py --corpora corpora --unlikely --sentences 15
python benchmarks/glossary.py --corpora corpora --dictionary
python benchmarks/glossary.py --corpora corpora --aligned
python benchmarks/glossary.py --inflected benchmarks/inflected.tsv
python benchmarks/glossary.py --wmt wmt25-terminology/ranking/references/track1

The first command takes terms from references: a source word and the reference word that translates
it, where IBM model 1, learned from training text in both directions, is sure of the pair. A
sentence has up to two. They are translated without and with their terms, and with a glossary that
has none of their words. These terms are forms that stand in a reference, so they are exact. Time is
CPU time of one thread, so other processes matter little. `--write FILE` keeps what was chosen, and
`--terms FILE` scores it.

With `--unlikely`, the terms are synonyms that the model would not say (`unlikely.tsv`), one in a
sentence of Tatoeba whose translation has the usual word once. A term that is tacked on to a
translation does not count there: its usual word must be gone, and nothing may be said twice. A form
of the term will do.

With `--inflected`, 200 sentences (`inflected.tsv`) ask for a term in the plural, the genitive or
the dative, with articles and adjectives; a pattern says what is grammatical.

With `--wmt`, the sentences of WMT25's terminology task (CC BY-NC: to measure, not to choose by),
with the glossary that it calls proper. A term counts as in the task's own script if the text or its
lemmas hold it, upper and lower case aside; lemmas are those of simplemma and, for German nouns, of
german-nouns (both from PyPI), not of stanza. Neither knows rare adjectives, so terms are counted by
the lemmas of a German tagger too, if there is one: HanTa, from PyPI. Only totals are printed.
With `--submissions ranking/submissions/track1`, what other systems said is counted instead: their
published figures tell how well this is done.

With `--dictionary`, sentences of Tatoeba's validation sets, the first half of FLORES dev and, if
`newsdev` is among the corpora, news of 2013 take the form of that task: terms are entries of
Wiktionary's dictionary whose lemmas stand in the sentence and in its reference. With `--show`, what
is missed is printed: this is text to find mistakes in. `--write FOLDER` keeps it for `--wmt`.

With `--aligned`, the terms of such sentences (FLORES dev's first half, then Tatoeba's validation
sets) are lemmas of source and reference that IBM model 1, learned from lemmas of training text,
links in both directions. The reference often has another form of them.

Settings were chosen on the first half of FLORES dev and on Tatoeba's validation sets, in other
directions than those scored here: on the second half, and on Tatoeba's test sets.
"""

import argparse
import bz2
import csv
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import sacrebleu

import dragoman
from dragoman.data.batches import pad
from dragoman.decode.request import Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.text.glossary import Glossary, Term
from dragoman.text.lexicon import Model1
from dragoman.text.parallel import read_lines

WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
LEARNED = 60_000  # pairs
SURE = 0.3  # probability of a pair of words, in both directions
SHORTEST = 4  # letters of a term
DIRECTIONS = ("de-en", "en-fr", "es-en", "en-pt")
UNLIKELY = Path(__file__).parent / "unlikely.tsv"
SENTENCE_END = re.compile(r"[.!?…]+")
LIKELY = 0.12  # probability of a pair of lemmas, in both directions
COMMON = 200  # lemmas that are no terms, being the most frequent ones
CHOSEN_ON = 498  # sentences of FLORES dev on which settings were chosen


def words(text: str) -> list[str]:
    return WORD.findall(text)


def lexicon(
    sources: list[str], targets: list[str], least: float = SURE
) -> dict[tuple[str, str], float]:
    """t(target word | source word), where it is at least so large."""
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
    sure = model.t >= least
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
    """Match a word by itself; its first letter may be a capital."""
    return any(
        re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text)
        for form in (term, term[:1].upper() + term[1:])
    )


def form_appears(term: str, text: str) -> bool:
    """The same, but with an ending, or with other vowels in German plurals."""
    if appears(term, text):
        return True
    stem = re.escape(term[:-1] if term[-1] in "aeo" else term)
    return bool(re.search(rf"(?<!\w)(?i:{stem})\w{{0,3}}(?!\w)", text))


class Chosen(NamedTuple):
    """A sentence, with terms as pairs of words."""

    source: str
    reference: str
    terms: list[tuple[str, str]]


def choose(corpora: Path, sentences: int) -> Iterator[tuple[str, list[Chosen]]]:
    """Return the sentences with terms of each direction and test set."""
    for direction in DIRECTIONS:
        source, target = direction.split("-")
        other = target if source == "en" else source
        tatoeba, flores = corpora / "tatoeba" / f"{other}-en", corpora / "flores"
        left, right = (
            list(read_lines(str(tatoeba / f"train.{code}.gz")))[:LEARNED]
            for code in (source, target)
        )
        there, back = lexicon(left, right), lexicon(right, left)
        draw = random.Random(1)
        for name, folder, stem, start in (
            ("Tatoeba test", tatoeba, "test", 0),
            ("FLORES dev", flores, "dev", CHOSEN_ON),
        ):
            pairs = [
                list(read_lines(str(folder / f"{stem}.{code}.gz")))[start:]
                for code in (source, target)
            ]
            chosen: list[Chosen] = []
            for text, reference in draw.sample([*zip(*pairs, strict=True)], len(pairs[0])):
                found = terms(text, reference, there, back, draw)
                if found and len(chosen) < sentences:
                    chosen.append(Chosen(text, reference, found))
            yield f"{direction} {name}", chosen


class Unlikely(NamedTuple):
    """A synonym that is demanded, and the beginnings of the words that it takes the place of."""

    direction: str
    source: str
    usual: re.Pattern[str]
    target: str


def unlikely_terms() -> list[Unlikely]:
    found = []
    for line in UNLIKELY.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            direction, source, usual, target = line.split("\t")
            pattern = re.compile(rf"(?<!\w)(?:{usual})\w{{0,3}}(?!\w)", re.IGNORECASE)
            found.append(Unlikely(direction, source, pattern, target))
    return found


def choose_unlikely(
    corpora: Path, sentences: int, stem: str
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Return the sentences with the source word of a term for each direction."""
    terms = unlikely_terms()
    for direction in dict.fromkeys(term.direction for term in terms):
        source, target = direction.split("-")
        other = target if source == "en" else source
        texts = list(read_lines(str(corpora / "tatoeba" / f"{other}-en" / f"{stem}.{source}.gz")))
        draw = random.Random(1)
        chosen: list[tuple[str, str]] = []
        for term in (term for term in terms if term.direction == direction):
            fitting = [text for text in dict.fromkeys(texts) if words(text).count(term.source) == 1]
            draw.shuffle(fitting)
            chosen += [(text, term.source) for text in fitting[:sentences]]
        yield direction, chosen


def score_unlikely(
    translator: Translator, direction: str, chosen: list[tuple[str, str]], show: bool = False
) -> None:
    """Print how many terms are in the right place, and the wrong ones; `show`: all."""
    source, target = direction.split("-")
    terms = {term.source: term for term in unlikely_terms() if term.direction == direction}
    plain = Request(to=target, source_language=source)
    before, _ = timed(translator, [text for text, _ in chosen], [plain] * len(chosen))
    # If the model uses another word anyway, its absence proves nothing.
    rows = [
        row
        for row, (_, word) in enumerate(chosen)
        if len(terms[word].usual.findall(before[row])) == 1
        and not form_appears(terms[word].target, before[row])
    ]
    sources = [chosen[row][0] for row in rows]
    wanted = [terms[chosen[row][1]] for row in rows]
    said = [before[row] for row in rows]
    demanding = [
        replace(plain, glossary=Glossary((Term(term.source, (term.target,)),))) for term in wanted
    ]
    ratios = []
    for _ in range(3):  # in turns, since what else runs on a machine changes
        _, seconds = timed(translator, sources, [plain] * len(rows))
        after, seconds_after = timed(translator, sources, demanding)
        ratios.append(seconds_after / seconds)
    there = gone = once = brief = good = 0
    put_in = []
    for term, text, was, now in zip(wanted, sources, said, after, strict=True):
        put_in.append(term.usual.sub(term.target, was))
        is_there = form_appears(term.target, now)
        is_gone = not term.usual.search(now.replace(term.target, ""))
        is_once = len(SENTENCE_END.findall(now)) <= len(SENTENCE_END.findall(was)) and (
            now.lower().count(term.target.lower()) == 1
        )
        is_brief = len(now.split()) <= max(1.3 * len(was.split()), len(was.split()) + 1)
        there, gone, once = there + is_there, gone + is_gone, once + is_once
        brief += is_brief
        good += is_there and is_gone and is_once and is_brief
        mark = "ok " if is_there and is_gone and is_once and is_brief else "BAD"
        if show or mark == "BAD":
            print(f"   {mark} {text} [{term.target}] {was} -> {now}")
    ratio = sum(len(now.split()) for now in after) / sum(len(was.split()) for was in said)
    bleu = sacrebleu.corpus_bleu(after, [put_in]).score
    count = len(rows)
    print(
        f"{direction}, {count} sentences: term appears {there / count:.1%}, usual word gone "
        f"{gone / count:.1%}, nothing twice {once / count:.1%}, not long {brief / count:.1%}, all "
        f"of these {good / count:.1%}; length x{ratio:.2f}, BLEU against the usual word replaced "
        f"{bleu:.1f}, time x{median(ratios):.2f}",
        flush=True,
    )


def timed(
    translator: Translator, sources: list[str], requests: list[Request]
) -> tuple[list[Translation], float]:
    """Translate each sentence with a glossary of its own."""
    start = time.process_time()
    pairs = zip(sources, requests, strict=True)
    translations = [translator.translate(source, request) for source, request in pairs]
    return translations, time.process_time() - start


class Score(NamedTuple):
    terms: int
    before: int  # terms that appear without a glossary
    after: int
    bleu: float
    bleu_after: float
    seconds: float
    seconds_after: float


def score(translator: Translator, direction: str, chosen: list[Chosen]) -> Score:
    source, target = direction.split("-")
    sources = [one.source for one in chosen]
    references = [one.reference for one in chosen]
    plain = Request(to=target, source_language=source)
    demanding = [
        replace(
            plain,
            glossary=Glossary(tuple(Term(s, (t,), case=True, exact=True) for s, t in one.terms)),
        )
        for one in chosen
    ]
    idle = replace(plain, glossary=Glossary.of([("qwertz", "azerty")]))
    timed(translator, sources[:20], [plain] * 20)  # graphs are built with the first sentences
    before, seconds = timed(translator, sources, [plain] * len(sources))
    after, seconds_after = timed(translator, sources, demanding)
    unasked, _ = timed(translator, sources[:100], [idle] * len(sources[:100]))
    for one, other in zip(before, unasked, strict=False):
        assert one.candidates == other.candidates, "a glossary changed a text without its terms"
    demanded = [(t, i) for i, one in enumerate(chosen) for _, t in one.terms]
    for t, i in demanded:
        if not appears(t, after[i]):
            print(f"   missed {t!r}: {sources[i]!r} -> {after[i]!r}")
    return Score(
        len(demanded),
        sum(appears(t, before[i]) for t, i in demanded),
        sum(appears(t, after[i]) for t, i in demanded),
        sacrebleu.corpus_bleu(before, [references]).score,
        sacrebleu.corpus_bleu(after, [references]).score,
        seconds,
        seconds_after,
    )


def score_inflected(translator: Translator, file: Path) -> None:
    """Prints what is not grammatical, and how many sentences of each language are."""
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    requests = [
        Request(to=to, source_language="en", glossary=Glossary.of([(source, target)]))
        for to, _, source, target, _ in rows
    ]
    translations, _ = timed(translator, [row[1] for row in rows], requests)
    right: dict[str, list[bool]] = {}
    for (to, text, _, target, pattern), translation in zip(rows, translations, strict=True):
        good = bool(re.search(pattern, translation))
        right.setdefault(to, []).append(good)
        if not good:
            print(f"   {text} [{target}] {translation}")
    for to, of_language in right.items():
        print(f"en-{to}, {len(of_language)} sentences: {fmean(of_language):.1%} grammatical")
    print(f"all: {fmean(good for some in right.values() for good in some):.1%} grammatical")


def choose_listed(corpora: Path, to: str, sentences: int) -> Iterator[dict]:
    """Sentences with up to three entries of a dictionary, longest ones first, that their reference
    has; in the form of WMT25's task."""
    entries: dict[str, dict[str, list[tuple[str, str]]]] = {}  # by first lemma and all lemmas
    with bz2.open(corpora / "real" / f"wiktdict.{to}-en.tsv.bz2", "rt", encoding="utf-8") as file:
        for line in file:
            target, source = line.rstrip("\n").split("\t")[:2]
            source = source.removeprefix("to ").removeprefix("the ")
            plain = re.fullmatch(r"[^\W\d_][\w' -]{3,}", source) and "(" not in target
            if plain and len(source.split()) <= 4 and len(target) >= SHORTEST:
                key = lemmas(source, "en")
                of_first = entries.setdefault(key.split()[0], {})
                of_first.setdefault(key, []).append((source, target))
    texts = [
        (corpora / "flores" / "dev.{}.gz", CHOSEN_ON),
        (corpora / "tatoeba" / f"{to}-en" / "valid.{}.gz", None),
    ]
    pairs: list[tuple[str, str]] = []
    for path, end in texts:
        sides = [list(read_lines(str(path).format(code)))[:end] for code in ("en", to)]
        pairs += zip(*sides, strict=True)
    news = corpora / "newsdev" / f"newstest2013.{to}-en.tsv.gz"
    if news.exists():
        rows = [line.split("\t") for line in read_lines(str(news))]
        pairs += [(english, other) for other, english in rows]
    random.Random(1).shuffle(pairs)
    count = 0
    for english, reference in pairs:
        found = listed_terms(english, reference, to, entries)
        if found and count < sentences:
            count += 1
            yield {"en": english, to: reference, "proper": found}


def choose_aligned(corpora: Path, to: str, sentences: int) -> Iterator[dict]:
    """Sentences with up to three pairs of lemmas that belong together, in the form of WMT25's
    task."""
    tatoeba = corpora / "tatoeba" / f"{to}-en"
    learned: dict[str, list[str]] = {}
    for code in ("en", to):
        texts = list(read_lines(str(tatoeba / f"train.{code}.gz")))[:LEARNED]
        learned[code] = [" ".join(base_forms(text, code)) for text in texts]
    there = lexicon(learned["en"], learned[to], LIKELY)
    back = lexicon(learned[to], learned["en"], LIKELY)
    counts = Counter(word for text in learned["en"] for word in text.lower().split())
    common = {word for word, _ in counts.most_common(COMMON)}
    draw = random.Random(1)
    count = 0
    for path, end in (
        (corpora / "flores" / "dev.{}.gz", CHOSEN_ON),
        (tatoeba / "valid.{}.gz", None),
    ):
        sides = [list(read_lines(str(path).format(code)))[:end] for code in ("en", to)]
        for english, reference in draw.sample([*zip(*sides, strict=True)], len(sides[0])):
            left, right = base_forms(english, "en"), base_forms(reference, to)
            pairs = [
                (s, t)
                for s in left
                for t in right
                if min(len(s), len(t)) >= SHORTEST
                and s.lower() not in common
                and left.count(s) == right.count(t) == 1
                and (s.lower(), t.lower()) in there
                and (t.lower(), s.lower()) in back
            ]
            if pairs and count < sentences:
                count += 1
                chosen = draw.sample(pairs, min(3, len(pairs)))
                yield {"en": english, to: reference, "proper": dict(chosen)}


def base_forms(text: str, language: str) -> list[str]:
    return [base_form(word, language) for word in words(text)]


@cache
def base_form(word: str, language: str) -> str:
    from simplemma import lemmatize

    if language == "de" and word in noun_lemmas():
        return noun_lemmas()[word]
    return str(lemmatize(word, lang=language))


def write_listed(corpora: Path, folder: Path, sentences: int, aligned: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chosen = choose_aligned if aligned else choose_listed
    for to in ("de", "es", "fr", "pt"):
        rows = [json.dumps(row, ensure_ascii=False) for row in chosen(corpora, to, sentences)]
        (folder / f"full_data.en{to}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


def listed_terms(
    english: str, reference: str, to: str, entries: dict[str, dict[str, list[tuple[str, str]]]]
) -> dict[str, str]:
    there, other = (f" {lemmas(text, code)} " for text, code in ((english, "en"), (reference, to)))
    fitting = [
        (source, target)
        for word in dict.fromkeys(there.split())
        for key, pairs in entries.get(word, {}).items()
        if f" {key} " in there
        for source, target in pairs
        if f" {lemmas(target, to)} " in other
    ]
    fitting.sort(key=lambda pair: (-len(pair[0].split()), -len(pair[1])))
    chosen: dict[str, str] = {}
    for source, target in fitting:
        taken = " ".join([*chosen, *chosen.values()]).lower()
        if source.lower() not in taken and target.lower() not in taken and len(chosen) < 3:
            chosen[source] = target
    return chosen


def score_submissions(folder: Path, submissions: Path) -> None:
    """Prints matches of terms in what others said with the proper glossary."""
    for to in ("de", "es"):
        lines = (folder / f"full_data.en{to}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        for file in sorted(submissions.glob(f"*/*.en{to}.proper.jsonl")):
            said = [json.loads(line)[to] for line in file.read_text(encoding="utf-8").splitlines()]
            counts = matches(rows, said, to)
            print(f"en-{to} {file.parent.name}: {shares(counts)}", flush=True)


def shares(counts: "Matches") -> str:
    text = f"{counts.all} terms, surface {counts.surface / counts.all:.1%}, "
    text += f"surface or lemma {counts.either / counts.all:.1%}"
    if counts.tagged:
        text += f", surface or lemma by a tagger {counts.tagged / counts.all:.1%}"
    return text


def score_wmt(translator: Translator, folder: Path, sentences: int | None, show: bool) -> None:
    """Prints matches of terms, chrF++ and BLEU without and with the proper glossary."""
    for to in ("de", "es", "fr", "pt"):
        file = folder / f"full_data.en{to}.jsonl"
        if not file.exists():
            continue
        lines = file.read_text(encoding="utf-8").splitlines()[:sentences]
        rows = [json.loads(line) for line in lines]
        sources, references = [row["en"] for row in rows], [row[to] for row in rows]
        plain = Request(to=to, source_language="en")
        demanding = [replace(plain, glossary=Glossary.of(row["proper"].items())) for row in rows]
        timed(translator, sources[:20], [plain] * 20)
        for name, requests in (("without", [plain] * len(rows)), ("with", demanding)):
            said, seconds = timed(translator, sources, requests)
            counts = matches(rows, said, to, show and name == "with")
            chrf = sacrebleu.corpus_chrf(said, [references], word_order=2).score
            bleu = sacrebleu.corpus_bleu(said, [references]).score
            print(
                f"en-{to} {name} terms: {shares(counts)}, chrF++ {chrf:.1f}, BLEU {bleu:.1f}, "
                f"{seconds:.1f} s",
                flush=True,
            )


def lemmas(text: str, language: str) -> str:
    from simplemma import lemmatize

    return " ".join(lemmatize(word, lang=language) for word in WORD.findall(text)).lower()


class Matches(NamedTuple):
    """Counts of terms: those that a text has literally, those that it has also as lemmas, or as
    lemmas of a tagger (0 without a tagger), and all terms."""

    surface: int = 0
    either: int = 0
    tagged: int = 0
    all: int = 0


def matches(rows: list[dict], said: Sequence[str], to: str, show: bool = False) -> Matches:
    """`show`: terms that are missed are printed."""

    def nouns(text: str) -> str:
        return " ".join(noun_lemmas().get(word, word) for word in WORD.findall(text)).lower()

    surface = either = tagged = count = 0
    for row, text in zip(rows, said, strict=True):
        for source, target in row["proper"].items():
            in_source = source.lower() in row["en"].lower()
            if in_source or lemmas(source, "en") in lemmas(row["en"], "en"):
                count += 1
                same = target.lower() in text.lower()
                surface += same
                lemma = lemmas(target, to) in lemmas(text, to)
                lemma = lemma or (to == "de" and nouns(target) in nouns(text))
                either += same or lemma
                if to == "de" and tagger():
                    tagged += same or tagged_lemmas(target) in tagged_lemmas(text)
                if show and not (same or lemma):
                    print(f"   missed {source!r} = {target!r}: {row['en']!r} -> {text!r}")
    return Matches(surface, either, tagged, count)


@cache
def tagger() -> Any:
    """HanTa's for German, if it is installed."""
    try:
        from HanTa.HanoverTagger import HanoverTagger
    except ImportError:
        return None
    return HanoverTagger("morphmodel_ger.pgz")


@cache
def tagged_lemmas(text: str) -> str:
    return " ".join(lemma for _, lemma, _ in tagger().tag_sent(WORD.findall(text))).lower()


@cache
def noun_lemmas() -> dict[str, str]:
    """The lemma of each form of a German noun, as Wiktionary has it."""
    import german_nouns

    lemmas: dict[str, str] = {}
    table = Path(german_nouns.__path__[0]) / "nouns.csv"
    with table.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    forms = [i for i, name in enumerate(header) if name.split()[-1:] != ["lemma"] and i > 6]
    for row in rows:
        for i in forms:
            if row[i]:
                lemmas.setdefault(row[i], row[0])
    return lemmas


def report(name: str, sentences: int, scores: list[Score]) -> None:
    terms = sum(one.terms for one in scores)
    before = 100 * sum(one.before for one in scores) / terms
    after = 100 * sum(one.after for one in scores) / terms
    bleu, bleu_after = fmean(one.bleu for one in scores), fmean(one.bleu_after for one in scores)
    seconds = sum(one.seconds for one in scores)
    seconds_after = sum(one.seconds_after for one in scores)
    print(
        f"{name}, {sentences:,} sentences, {terms:,} terms: appear {before:.1f}% -> {after:.1f}%, "
        f"BLEU {bleu:.2f} -> {bleu_after:.2f}, time {seconds:.1f} s -> {seconds_after:.1f} s "
        f"(x{seconds_after / seconds:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=Path("corpora"))
    parser.add_argument("--model", default="")
    parser.add_argument(
        "--sentences", type=int, help="Of each direction and set: 250, of --wmt's all."
    )
    parser.add_argument("--write", type=Path, help="Choose sentences, and write them here.")
    parser.add_argument("--terms", type=Path, help="Sentences that were chosen before.")
    parser.add_argument("--unlikely", action="store_true", help="Synonyms instead of references.")
    parser.add_argument("--inflected", type=Path, help="Sentences that need terms in other forms.")
    parser.add_argument("--wmt", type=Path, help="WMT25's sentences, a folder of jsonl files.")
    parser.add_argument("--submissions", type=Path, help="With --wmt: what others said, a folder.")
    parser.add_argument("--dictionary", action="store_true", help="Terms from a dictionary.")
    parser.add_argument("--aligned", action="store_true", help="Terms from word alignment.")
    parser.add_argument("--show", action="store_true", help="Print what is missed.")
    parser.add_argument(
        "--stem", default="test", help="Tatoeba's set to take synonyms' words from."
    )
    arguments = parser.parse_args()
    most: int = arguments.sentences or 250
    listed = arguments.dictionary or arguments.aligned
    if listed and arguments.write:
        write_listed(arguments.corpora, arguments.write, most, arguments.aligned)
        return
    if arguments.terms:
        lines = arguments.terms.read_text(encoding="utf-8").splitlines()
    elif listed or arguments.inflected or arguments.wmt:
        lines = []
    else:
        sets = (
            choose_unlikely(arguments.corpora, most, arguments.stem)
            if arguments.unlikely
            else choose(arguments.corpora, most)
        )
        lines = [json.dumps([name, chosen], ensure_ascii=False) for name, chosen in sets]
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    if arguments.submissions:
        score_submissions(arguments.wmt, arguments.submissions)
        return
    translator = dragoman.load(arguments.model)
    engine = translator.engine.single_threaded or translator.engine
    translator = type(translator)(engine, translator.codec, translator.config)
    if arguments.inflected:
        score_inflected(translator, arguments.inflected)
        return
    if arguments.wmt:
        score_wmt(translator, arguments.wmt, arguments.sentences, arguments.show)
        return
    if listed:
        with TemporaryDirectory() as folder:
            write_listed(arguments.corpora, Path(folder), most, arguments.aligned)
            score_wmt(translator, Path(folder), None, arguments.show)
        return
    if arguments.unlikely:
        for line in lines:
            direction, chosen_terms = json.loads(line)
            score_unlikely(translator, direction, chosen_terms, arguments.show)
        return
    scores: dict[str, list[Score]] = {"Tatoeba test": [], "FLORES dev": []}
    counts = dict.fromkeys(scores, 0)
    for line in lines:
        name, rows = json.loads(line)
        chosen = [Chosen(*row) for row in rows][:most]
        direction, corpus = name.split(" ", 1)
        scores[corpus].append(score(translator, direction, chosen))
        counts[corpus] += len(chosen)
        report(name, len(chosen), scores[corpus][-1:])
    for corpus, of_corpus in scores.items():
        report(corpus, counts[corpus], of_corpus)
    everything = [one for of_corpus in scores.values() for one in of_corpus]
    report("all", sum(counts.values()), everything)


if __name__ == "__main__":
    main()
