"""From text files to what training reads: languages, a held-out validation set, a codec, a store of ids.

Everything is written into a folder beside its final place, which is then renamed: what bears the final name is whole.
"""

import heapq
import json
import math
import random
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from dragoman.config import Config, Corpus, TextConfig, flatten, from_tree, write_toml
from dragoman.data.encoding import Encoder, encode, is_held_out, read_chunks
from dragoman.data.store import Store, StoreWriter, type_of_ids
from dragoman.errors import BundleError, ConfigError, CorpusError, RunError
from dragoman.settings import read_toml
from dragoman.text.codec import Codec, Languages
from dragoman.text.doctor import Report, examine, is_usable, normalised
from dragoman.text.parallel import Pair, language_of, languages_of_tsv, read_lines, read_pairs

HELD_OUT_SHARE = 0.05
PAIRS_TO_LEARN_FROM = 500_000
SETTINGS = "prepared.toml"


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
    reports, valid = _examined(corpora, config)
    if not sum(report.usable for report in reports):
        raise CorpusError(f"{', '.join(c.source for c in corpora)}: there is no pair to train on.")
    excluded = read_sentences(config.data.exclude)
    texts = frozenset(map(normalised, chain(valid.sources, valid.targets, excluded.sources, excluded.targets)))
    aside = folder.with_name(folder.name + ".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    if codec is None:
        codec = _learn(corpora, texts, sum(report.usable for report in reports), config.text, languages, aside)
    encoder = Encoder(codec, tuple(c.target_language for c in corpora), config.data.max_length, texts)
    kept_out, too_long, longest = _encode(corpora, encoder, aside / "train")
    notes = [f"{c.source}: {finding}" for c, r in zip(corpora, reports, strict=True) for finding in r.findings]
    if config.data.exclude:
        notes += [
            f"{corpus.source}: {count:,} pairs share a sentence with data.exclude, and are left out"
            for corpus, count in zip(corpora, kept_out, strict=True) if count
        ]  # fmt: skip
    elif shared := sum(kept_out) - len(valid.sources):
        notes.append(f"{shared:,} more pairs share a sentence with those held out for validation, and are left out")
    if too_long:
        notes.append(
            f"{too_long:,} pairs longer than data.max_length={config.data.max_length} pieces (the longest {longest:,}) "
            f"are kept out of training"
        )
    facts = {"too_long": too_long, "notes": notes, "valid": [valid.sources, valid.targets, valid.tos]}
    for name, raw in codec.to_files().items():
        (aside / name).write_bytes(raw)
    (aside / "prepared.json").write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
    (aside / SETTINGS).write_text(write_toml(config), encoding="utf-8")
    aside.rename(folder)
    return open_prepared(config, folder)


def prepared_settings(folder: Path) -> dict[str, Any]:
    """The dotted settings of text and data with which a folder was prepared."""
    if not (folder / SETTINGS).is_file():
        raise ConfigError(f"{folder} holds no prepared data: make it with dragoman prepare --out {folder}.")
    settings = flatten(from_tree(read_toml(folder / SETTINGS)))
    return {key: value for key, value in settings.items() if key.startswith(("text.", "data."))}


def open_prepared(config: Config, folder: Path) -> Prepared:
    """What an earlier `prepare` left in a folder."""
    try:
        facts = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        codec, train = Codec.from_files(files, config.text.vocabulary), Store(folder / "train")
    except (OSError, ValueError, BundleError, RecursionError) as error:
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


def _examined(corpora: tuple[Corpus, ...], config: Config) -> tuple[list[Report], Sentences]:
    """What is wrong with each corpus, and pairs drawn for validation on the way: those with the lowest lots."""
    lots, wanted = random.Random(config.training.seed), 0 if config.data.valid else config.data.valid_size
    drawn: list[tuple[float, int, Pair]] = []  # a heap, the highest lot first

    def passing(number: int, pairs: Iterator[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            lot = (-lots.random(), number, pair)
            if wanted and (len(drawn) < wanted or lot > drawn[0]) and is_usable(pair):
                heapq.heappush(drawn, lot)
                if len(drawn) > wanted:
                    heapq.heappop(drawn)
            yield pair

    reports = [examine(passing(n, read_pairs(c.source, c.target)), quick=True) for n, c in enumerate(corpora)]
    size = min(wanted, int(sum(report.pairs for report in reports) * HELD_OUT_SHARE))
    held = sorted((number, pair) for _, number, pair in sorted(drawn)[len(drawn) - min(size, len(drawn)) :])
    tos = [corpora[number].target_language for number, _ in held]
    return reports, Sentences([pair.source for _, pair in held], [pair.target for _, pair in held], tos)


def _learn(
    corpora: tuple[Corpus, ...],
    held_out: frozenset[str],
    pairs: int,
    settings: TextConfig,
    languages: Languages,
    folder: Path,
) -> Codec:
    """Pieces from all pairs, or from one in so many, which wait in files: learning takes memory enough."""
    every, files = math.ceil(pairs / PAIRS_TO_LEARN_FROM), [folder / "sample.source", folder / "sample.target"]
    with open(files[0], "wb") as left, open(files[1], "wb") as right:
        for number, pair in enumerate(_training_pairs(corpora, held_out)):
            if number % every == 0:
                left.write(f"{pair.source}\n".encode())
                right.write(f"{pair.target}\n".encode())
    if not files[0].stat().st_size:
        raise CorpusError(
            f"{corpora[0].source}: no pair is left to train on: all share a sentence with those held out."
        )
    codec = Codec.learn(read_lines(files[0]), read_lines(files[1]), settings, languages)
    for file in files:
        file.unlink()
    return codec


def _training_pairs(corpora: tuple[Corpus, ...], held_out: frozenset[str]) -> Iterator[Pair]:
    for corpus in corpora:
        for pair in read_pairs(corpus.source, corpus.target):
            if is_usable(pair) and not is_held_out(pair, held_out):
                yield pair


def _encode(corpora: tuple[Corpus, ...], encoder: Encoder, folder: Path) -> tuple[list[int], int, int]:
    """Write the store; how many pairs of each corpus were held out, how many were too long, the longest of them."""
    held_out, too_long, longest = [0] * len(corpora), 0, 0
    vocabulary = max(len(encoder.codec.source), len(encoder.codec.target))
    with StoreWriter(folder, type_of_ids(vocabulary), len(corpora)) as store:
        for encoded in encode(read_chunks(corpora), encoder):
            store.add(encoded.pairs)
            held_out[encoded.pairs.corpus] += encoded.held_out
            too_long, longest = too_long + encoded.too_long, max(longest, encoded.longest)
    return held_out, too_long, longest
