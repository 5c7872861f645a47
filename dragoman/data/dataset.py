"""Open prepared data: a codec, a store of ids, and a held-out validation set.

`prepare` writes the folder that this module reads. A run that resumes, or starts from a prepared
folder, needs nothing else.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.config import Config, Corpus, flatten, from_tree
from dragoman.config.settings import read_toml
from dragoman.data.store import Store
from dragoman.errors import BundleError, ConfigError, CorpusError, RunError
from dragoman.text.codec import Codec
from dragoman.text.parallel import is_usable, language_of, languages_of_tsv, read_pairs

SETTINGS, FACTS = "prepared.toml", "prepared.json"


@dataclass(frozen=True)
class Sentences:
    """Parallel text in memory: a validation or test set."""

    sources: list[str]
    targets: list[str]
    tos: list[str]  # the target language of each sentence; empty if unknown


@dataclass(frozen=True)
class Dataset:
    codec: Codec
    train: Store
    valid: Sentences
    too_long: int
    notes: list[str]  # problems of the corpus, to be printed


def name_languages(corpora: Iterable[Corpus]) -> tuple[Corpus, ...]:
    """Fill in missing languages of corpora from their file names."""
    # Explicit languages win over file names.
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


def prepared_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of text and data that a folder was prepared with, by dotted name."""
    if not (folder / SETTINGS).is_file():
        raise ConfigError(
            f"{folder} contains no prepared data: run dragoman prepare --out {folder}."
        )
    settings = flatten(from_tree(read_toml(folder / SETTINGS)))
    return {key: value for key, value in settings.items() if key.startswith(("text.", "data."))}


def open_prepared(config: Config, folder: Path) -> Dataset:
    """Open the result of an earlier `prepare`."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        codec = Codec.from_files(files, config.text.tokenizer)
        train = Store(folder / "train")
    except (OSError, ValueError, BundleError, RecursionError) as error:
        raise RunError(
            f"{folder}: the prepared data cannot be read ({error}). Start a new run."
        ) from None
    if not len(train):
        raise CorpusError(
            "there are no pairs to train on: all are longer than "
            f"data.max_length={config.data.max_length} pieces."
        )
    valid = read_sentences(config.data.valid) if config.data.valid else Sentences(*facts["valid"])
    return Dataset(codec, train, valid, facts["too_long"], facts["notes"])


def read_sentences(corpora: Iterable[Corpus]) -> Sentences:
    """Read a validation or test set, dropping pairs with an empty side."""
    result = Sentences([], [], [])
    for corpus in name_languages(corpora):
        for pair in read_pairs(corpus.source, corpus.target):
            if is_usable(pair):
                result.sources.append(pair.source)
                result.targets.append(pair.target)
                result.tos.append(corpus.target_language)
    return result
