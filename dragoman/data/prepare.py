"""From text files to what training reads: languages, a held-out validation set, a codec, a store of ids.

Everything is written into a folder beside its final place, which is then renamed: what bears the final name is whole.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from dragoman.config import Config, Corpus
from dragoman.data.batches import rng
from dragoman.data.store import Item, Store, StoreWriter
from dragoman.errors import BundleError, ConfigError, CorpusError, RunError
from dragoman.text.codec import Codec, Languages
from dragoman.text.doctor import Report, examine, is_usable
from dragoman.text.parallel import Pair, language_of, languages_of_tsv, read_pairs

HELD_OUT_SHARE = 0.05
PAIRS_ENCODED_AT_ONCE = 10_000


@dataclass(frozen=True)
class Sentences:
    """Parallel text in memory, small: a validation or test set."""

    sources: list[str]
    targets: list[str]
    tos: list[str]  # the target language of each, "" where unknown


@dataclass(frozen=True)
class Prepared:
    codec: Codec
    train: Store
    valid: Sentences
    too_long: int
    notes: list[str]  # what the user should know about the corpus


def name_languages(corpora: Iterable[Corpus]) -> tuple[Corpus, ...]:
    """Corpora with their languages filled in from the file names where they were not given."""
    named = []
    for corpus in corpora:
        if corpus.target:
            source, target = language_of(corpus.source), language_of(corpus.target)
        else:
            source, target = languages_of_tsv(corpus.source)
        named.append(
            replace(
                corpus,
                source_language=corpus.source_language or source,
                target_language=corpus.target_language or target,
            )
        )
    return tuple(named)


def prepare(config: Config, folder: Path, codec: Codec | None = None) -> Prepared:
    """Read, check, hold out, learn pieces (unless a codec is given), encode, write; then open what was written."""
    corpora = name_languages(config.data.corpora)
    languages = languages_of(corpora)
    if codec is not None and not codec.languages.tagged and languages.targets:
        codec = replace(codec, languages=languages)
    reports = [examine(read_pairs(corpus.source, corpus.target), quick=True) for corpus in corpora]
    if not sum(report.usable for report in reports):
        raise CorpusError(f"{', '.join(c.source for c in corpora)}: there is no pair to train on.")
    held_out = set[tuple[int, int]]() if config.data.valid else _hold_out(reports, config)
    valid, valid_texts = _held_out_sentences(corpora, held_out) if held_out else (_EMPTY, set[str]())

    shared = len(valid.sources) and sum(
        _is_held_out(pair, valid_texts) for corpus in corpora for pair in read_pairs(corpus.source, corpus.target)
    ) - len(valid.sources)

    def training_pairs() -> Iterator[tuple[int, Pair]]:
        for number, corpus in enumerate(corpora):
            for pair in read_pairs(corpus.source, corpus.target):
                if is_usable(pair) and not _is_held_out(pair, valid_texts):
                    yield number, pair

    if next(training_pairs(), None) is None:
        raise CorpusError(
            f"{corpora[0].source}: no pair is left to train on: all share a sentence with those held out."
        )

    aside = folder.with_name(folder.name + ".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    if codec is None:
        codec = Codec.learn(
            (pair.source for _, pair in training_pairs()),
            (pair.target for _, pair in training_pairs()),
            config.text,
            languages,
        )
    too_long, longest = _encode(training_pairs(), corpora, codec, config.data.max_length, aside / "train")
    notes = [f"{c.source}: {finding}" for c, r in zip(corpora, reports, strict=True) for finding in r.findings]
    if shared:
        notes.append(f"{shared:,} more pairs share a sentence with those held out for validation, and are left out")
    if too_long:
        notes.append(
            f"{too_long:,} pairs longer than data.max_length={config.data.max_length} pieces (the longest {longest:,}) "
            f"are kept out of training"
        )
    for name, raw in codec.to_files().items():
        (aside / name).write_bytes(raw)
    facts = {"too_long": too_long, "notes": notes, "valid": [valid.sources, valid.targets, valid.tos]}
    (aside / "prepared.json").write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
    aside.rename(folder)
    return open_prepared(config, folder)


def open_prepared(config: Config, folder: Path) -> Prepared:
    """What an earlier `prepare` left in a folder."""
    try:
        facts = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        codec, train = Codec.from_files(files, config.text.vocabulary), Store(folder / "train")
    except (OSError, ValueError, BundleError) as error:
        raise RunError(f"{folder}: the prepared data cannot be read ({error}). Start the run afresh.") from None
    if not len(train):
        raise CorpusError(
            f"there is no pair to train on: all are longer than data.max_length={config.data.max_length} pieces."
        )
    valid = read_sentences(config.data.valid) if config.data.valid else Sentences(*facts["valid"])
    return Prepared(codec, train, valid, facts["too_long"], facts["notes"])


def read_sentences(corpora: Iterable[Corpus]) -> Sentences:
    """A validation or test set as it is, empty sides left out."""
    result = Sentences([], [], [])
    for corpus in name_languages(corpora):
        for pair in read_pairs(corpus.source, corpus.target):
            if is_usable(pair):
                result.sources.append(pair.source)
                result.targets.append(pair.target)
                result.tos.append(corpus.target_language)
    return result


def languages_of(corpora: Iterable[Corpus]) -> Languages:
    """What the corpora hold together; with several target languages each must have a name."""
    corpora = list(corpora)
    targets = list(dict.fromkeys(c.target_language for c in corpora))
    if len(targets) > 1 and not all(targets):
        nameless = next(c for c in corpora if not c.target_language)
        raise ConfigError(f"{nameless.source}: with several target languages each corpus needs `to`.")
    sources = dict.fromkeys(c.source_language for c in corpora if c.source_language)
    return Languages(tuple(sources), tuple(filter(None, targets)))


_EMPTY = Sentences([], [], [])


def _hold_out(reports: list[Report], config: Config) -> set[tuple[int, int]]:
    """(corpus, line) of the pairs drawn for validation."""
    pairs = sum(report.pairs for report in reports)
    size = min(config.data.valid_size, int(pairs * HELD_OUT_SHARE))
    starts = np.cumsum([0, *(report.pairs for report in reports)])
    drawn = rng(config.training.seed).choice(pairs, size=size, replace=False)
    corpus_of = np.searchsorted(starts, drawn, side="right") - 1
    return {(int(c), int(i - starts[c]) + 1) for c, i in zip(corpus_of, drawn, strict=True)}


def _held_out_sentences(corpora: tuple[Corpus, ...], places: set[tuple[int, int]]) -> tuple[Sentences, set[str]]:
    """The held-out pairs, and all their texts: no training pair may share one."""
    held = Sentences([], [], [])
    for number, corpus in enumerate(corpora):
        for pair in read_pairs(corpus.source, corpus.target):
            if (number, pair.line) in places and is_usable(pair):
                held.sources.append(pair.source)
                held.targets.append(pair.target)
                held.tos.append(corpus.target_language)
    return held, {text.strip() for text in held.sources + held.targets}


def _is_held_out(pair: Pair, texts: set[str]) -> bool:
    return pair.source.strip() in texts or pair.target.strip() in texts


def _encode(
    pairs: Iterator[tuple[int, Pair]], corpora: tuple[Corpus, ...], codec: Codec, max_length: int, folder: Path
) -> tuple[int, int]:
    """Write the store; how many pairs were too long for it, and the longest of them."""
    too_long, longest = 0, 0
    with StoreWriter(folder, max(len(codec.source), len(codec.target))) as store:
        while chunk := list(islice(pairs, PAIRS_ENCODED_AT_ONCE)):
            targets = codec.encode_target([pair.target for _, pair in chunk])
            items = []
            for (number, pair), source_ids, target_ids in zip(
                chunk, _encode_sources(chunk, corpora, codec), targets, strict=True
            ):
                length = max(len(source_ids), len(target_ids))
                if length > max_length:
                    too_long, longest = too_long + 1, max(longest, length)
                    continue
                items.append(Item(number, pair.line, pair.source, pair.target, source_ids, target_ids))
            store.add(items)
    return too_long, longest


def _encode_sources(chunk: list[tuple[int, Pair]], corpora: tuple[Corpus, ...], codec: Codec) -> list[list[int]]:
    """Sources with the tag of their corpus."""
    encoded: list[list[int]] = [[]] * len(chunk)
    for number, corpus in enumerate(corpora):
        rows = [row for row, (n, _) in enumerate(chunk) if n == number]
        ids = codec.encode_source([chunk[row][1].source for row in rows], corpus.target_language)
        for row, sequence in zip(rows, ids, strict=True):
            encoded[row] = sequence
    return encoded
