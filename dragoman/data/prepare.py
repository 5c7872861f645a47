"""Prepare text files for training: a codec, a store of ids, and a held-out validation set.

Each file is read, checked and encoded once, even if it is part of several corpora. In order:

    copy        copy the lines of all files into the store, side after side
    look        check each sentence: is it empty, has it flaws; compute a key to find held-out text
    examine     check each corpus by the looks at its sides; draw pairs for validation
    learn       learn pieces from words, unless a codec is given
    encode      encode each sentence
    pair        select the lines of each corpus that training may see

Work on text runs on all cores (`prepare_workers`); work on corpora is arithmetic on arrays.
Everything is written into a temporary folder, which is renamed at the end. So a folder under its
final name is always complete.
"""

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from dragoman.config import Config, Corpus, TextConfig, write_toml
from dragoman.data.dataset import (
    FACTS,
    SETTINGS,
    Dataset,
    Sentences,
    name_languages,
    open_prepared,
    read_sentences,
)
from dragoman.data.prepare_workers import (
    CopyJob,
    SentenceRange,
    Workers,
    are_worth_processes,
    count_in,
    look_at,
    spans_of,
)
from dragoman.data.store import (
    IDS,
    SOURCE_IDS,
    TARGET_IDS,
    TEXT,
    RaggedFile,
    RaggedFileWriter,
    Side,
    StoreWriter,
    is_marked,
    line_of,
    map_array,
    type_of_ids,
)
from dragoman.errors import ConfigError, CorpusError
from dragoman.text.alignment import find_alarms, places_of_blocks
from dragoman.text.codec import Codec
from dragoman.text.doctor import (
    LOOK,
    CorpusReport,
    add_repeats,
    are_usable,
    held_out_key,
    normalised,
    observe,
)
from dragoman.text.languages import Languages
from dragoman.text.parallel import (
    Pair,
    paired_shards,
    shards,
    where_the_sides_part,
)
from dragoman.text.repeats import Repeats

_HELD_OUT_SHARE = 0.05
SENTENCES_TO_LEARN_FROM = 1_000_000
_BLOCK = 2**20  # sentences or pairs in memory
_BYTE = np.dtype(np.uint8)
_DRAWN = np.dtype([("draw", np.float64), ("corpus", np.int64), ("line", np.int64)])


def prepare(config: Config, folder: Path, codec: Codec | None = None) -> Dataset:
    """Prepare the corpora of a configuration in a folder, and open the result."""
    # A killed attempt may have left its temporary folder.
    aside = folder.with_name(folder.name + ".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        _fill(aside, config, codec)
    except BaseException:
        # Even an interruption must not leave a half-filled folder.
        shutil.rmtree(aside, ignore_errors=True)
        raise
    aside.rename(folder)
    return open_prepared(config, folder)


def _fill(aside: Path, config: Config, codec: Codec | None) -> None:
    """Write all files of a prepared folder."""
    corpora = name_languages(config.data.corpora)
    languages = _languages_of(corpora)
    # Fine-tuning may name the languages of a model that did not know them.
    if codec is not None and not codec.languages.tagged and languages.targets:
        codec = replace(codec, languages=languages)
    excluded = read_sentences(config.data.exclude)
    with Workers(
        are_worth_processes({name for c in corpora for name in (c.source, c.target) if name})
    ) as workers:
        text = _copy(corpora, aside, workers)
        looks = _look(text, aside / "looks", workers)
        reports, valid = _examine(corpora, text, looks, config)
        alarms = [*_alarms(corpora, text, workers)]
        if not sum(report.usable for report in reports):
            raise CorpusError(
                f"{', '.join(c.source for c in corpora)}: there are no pairs to train on."
            )
        # Every training pair that shares a sentence with the held-out sets is removed, not only the
        # pairs themselves.
        held_out = _find(
            [*valid.sources, *valid.targets, *excluded.sources, *excluded.targets], text, looks
        )
        in_training = _in_training(text, looks, held_out)
        if not in_training.any():
            raise CorpusError(
                f"{corpora[0].source}: no pair is left to train on: all share a sentence with "
                "held-out pairs."
            )
        if codec is None:
            codec = _learn(corpora, text, in_training, config.text, languages, workers)
        for name, raw in codec.to_files().items():
            (aside / name).write_bytes(raw)
        _encode(text, codec, config.text.tokenizer, aside, workers)
    removed, too_long, longest = _pair(
        corpora, text, looks, held_out, codec, config.data.max_length
    )
    (aside / "looks").unlink()  # a temporary file
    notes = alarms + _notes(corpora, reports, removed, len(valid.sources), config)
    if too_long:
        notes.append(
            f"{too_long:,} pairs longer than data.max_length={config.data.max_length} pieces (the "
            f"longest {longest:,}) are kept out of training"
        )
    facts = {
        "too_long": too_long,
        "notes": notes,
        "valid": [valid.sources, valid.targets, valid.tos],
    }
    (aside / FACTS).write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
    (aside / SETTINGS).write_text(write_toml(config), encoding="utf-8")


def _notes(
    corpora: tuple[Corpus, ...],
    reports: list[CorpusReport],
    removed: list[int],
    drawn: int,
    config: Config,
) -> list[str]:
    """Describe problems of the corpora, and how many pairs were removed because of held-out text.

    Both directions of the same two files have the same problems, which are reported once.
    """
    rows = _distinct_files(corpora)
    notes = [
        f"{corpora[row].source}: {finding}" for row in rows for finding in reports[row].findings
    ]
    if config.data.exclude:
        notes += [
            f"{corpora[row].source}: {removed[row]:,} pairs share a sentence with data.exclude, "
            f"and are not used"
            for row in rows
            if removed[row]
        ]
    elif shared := sum(removed) - drawn:
        notes.append(
            f"{shared:,} more pairs share a sentence with held-out pairs, and are not used"
        )
    return notes


def _distinct_files(corpora: tuple[Corpus, ...]) -> list[int]:
    """Return the corpora whose pair of files has not occurred before, in either order."""
    files = [frozenset((corpus.source, corpus.target)) for corpus in corpora]
    return [row for row, pair in enumerate(files) if pair not in files[:row]]


def _alarms(corpora: tuple[Corpus, ...], text: "_StoredText", workers: Workers) -> Iterator[str]:
    """Check a sample of each corpus for shifted lines and swapped languages."""
    numbers = _distinct_files(corpora)
    calls = (
        (text.folder, *(text.sides[side] for side in text.joined[number]), corpora[number])
        for number in numbers
    )
    for number, alarms in zip(numbers, workers.map(_alarms_of, calls), strict=True):
        yield from (f"{corpora[number].source}: {alarm}" for alarm in alarms)


def _alarms_of(folder: Path, source: Side, target: Side, corpus: Corpus) -> list[str]:
    rows = RaggedFile(folder, TEXT, _BYTE)
    # Only a sample is read, however large the corpus is.
    blocks = []
    for place in places_of_blocks(source.sentences):
        left, right = (
            [_sentence(rows, side.first + line) for line in place] for side in (source, target)
        )
        blocks.append([*map(Pair, (line + 1 for line in place), left, right)])
    return [*map(str, find_alarms(blocks, corpus.source_language, corpus.target_language))]


def _languages_of(corpora: Iterable[Corpus]) -> Languages:
    """Collect the languages of the corpora; several target languages must all have names."""
    # Several targets need tags, and a tag needs a name.
    corpora = list(corpora)
    targets = list(dict.fromkeys(c.target_language for c in corpora))
    if len(targets) > 1 and not all(targets):
        nameless = next(c for c in corpora if not c.target_language)
        raise ConfigError(
            f"{nameless.source}: with several target languages each corpus needs `to`."
        )
    sources = dict.fromkeys(c.source_language for c in corpora if c.source_language)
    return Languages(tuple(sources), tuple(filter(None, targets)))


@dataclass(frozen=True)
class _StoredText:
    """A store being written: its folder, its sides, and the two sides of each corpus."""

    folder: Path
    sides: list[Side]
    joined: list[tuple[int, int]]

    @property
    def rows(self) -> RaggedFile:
        return RaggedFile(self.folder, TEXT, _BYTE)

    def spans(self) -> Iterator[SentenceRange]:
        return chain.from_iterable(spans_of(self.folder, side) for side in self.sides)

    def blocks(self, corpus: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the pairs of a corpus in blocks: sentence numbers of both sides, and lines."""
        source, target = (self.sides[side] for side in self.joined[corpus])
        for start in range(0, source.sentences, _BLOCK):
            lines = np.arange(start, min(start + _BLOCK, source.sentences)) + 1
            yield source.first + lines - 1, target.first + lines - 1, lines


_Key = tuple[str, int | None]  # a file of lines, or a .tsv and one of its columns


def _copy(corpora: tuple[Corpus, ...], aside: Path, workers: Workers) -> _StoredText:
    """Copy the lines of all files into a store, each side once.

    The two sides of a corpus must have equally many lines.
    """
    # Several corpora may share a file, and a file may be a source here and a target there.
    keys = [_sides_of(corpus) for corpus in corpora]
    parts: dict[_Key, list[Path]] = {key: [] for pair in keys for key in pair}
    work: list[CopyJob] = []
    for name, is_table in dict.fromkeys((name, column is not None) for name, column in parts):
        columns = (0, 1) if is_table else (None,)
        for file in shards(name):
            places = tuple(aside / "parts" / f"{len(work)}.{column or 0}" for column in columns)
            for column, place in zip(columns, places, strict=True):
                parts[name, column].append(place)
            work.append(CopyJob(file, places))
    # Every file is copied into a part of its own, since workers run in parallel. The parts are then
    # appended to the store in order.
    lines = dict(zip((part.places[0] for part in work), workers.copy(work), strict=True))
    for corpus, (source, target) in zip(corpora, keys, strict=True):
        if corpus.target:
            _check_ends(
                corpus,
                [lines[part] for part in parts[source]],
                [lines[part] for part in parts[target]],
            )
    sides: dict[_Key, Side] = {}
    with RaggedFileWriter(aside / "train", TEXT) as text:
        for key, files in parts.items():
            first = sum(side.sentences for side in sides.values())
            sides[key] = Side(key[0], first, sum(_append(file, text) for file in files))
    (aside / "parts").rmdir()
    numbers = {key: number for number, key in enumerate(sides)}
    return _StoredText(
        aside / "train",
        list(sides.values()),
        [(numbers[source], numbers[target]) for source, target in keys],
    )


def _sides_of(corpus: Corpus) -> tuple[_Key, _Key]:
    if corpus.source == corpus.target == "-":
        raise CorpusError(
            "standard input can be only one side: send one .tsv, or name the other side's file."
        )
    if corpus.target:
        return (corpus.source, None), (corpus.target, None)
    return (corpus.source, 0), (corpus.source, 1)


def _check_ends(corpus: Corpus, source_lines: list[int], target_lines: list[int]) -> None:
    files = paired_shards(corpus.source, corpus.target)
    for (source, target), left, right in zip(files, source_lines, target_lines, strict=True):
        if left != right:
            raise CorpusError(where_the_sides_part(source, target))


def _append(part: Path, text: RaggedFileWriter) -> int:
    """Append the lines of a part; return their number."""
    rows = RaggedFile(part.parent, part.name, _BYTE)
    for start in range(0, len(rows), _BLOCK):
        starts = rows.starts[start : start + _BLOCK + 1]
        text.add(rows.values[starts[0] : starts[-1]], np.diff(starts))
    # The parts together are as large as the corpus: free the space as soon as possible.
    part.unlink()
    part.with_name(f"{part.name}.starts").unlink()
    return len(rows)


def _look(text: _StoredText, file: Path, workers: Workers) -> np.ndarray:
    """Check each sentence; the results are memory-mapped."""
    with open(file, "wb") as looks:
        for part in workers.map(look_at, ((span,) for span in text.spans())):
            looks.write(part.data)
    return map_array(file, LOOK)


def _examine(
    corpora: tuple[Corpus, ...], text: _StoredText, looks: np.ndarray, config: Config
) -> tuple[list[CorpusReport], Sentences]:
    """Check each corpus, and draw pairs for validation."""
    rng = random.Random(config.training.seed)
    count = 0 if config.data.valid else config.data.valid_size
    # Every pair gets a random number, and the pairs with the lowest ones are drawn: a uniform
    # sample of a stream of unknown length, in constant memory.
    drawn = np.zeros(0, dtype=_DRAWN)
    reports = [CorpusReport() for _ in corpora]
    for number, report in enumerate(reports):
        with Repeats() as repeats:
            for sources, targets, lines in text.blocks(number):
                left, right = looks[sources], looks[targets]
                observe(report, repeats, left, right, lines)
                if count:
                    block = np.empty(len(lines), dtype=_DRAWN)
                    block["draw"] = [rng.random() for _ in lines]
                    block["corpus"], block["line"] = number, lines
                    drawn = np.concatenate([drawn, block[are_usable(left, right)]])
                    drawn = drawn[np.argsort(drawn["draw"], kind="stable")[:count]]
            add_repeats(report, repeats)
    size = min(count, int(sum(report.pairs for report in reports) * _HELD_OUT_SHARE))
    # In the order of the files, like a validation set that the user names.
    held = np.sort(drawn[:size], order=["corpus", "line"])
    valid = Sentences([], [], [])
    rows = text.rows
    for number, line in zip(held["corpus"].tolist(), held["line"].tolist(), strict=True):
        source, target = (text.sides[side].first + line - 1 for side in text.joined[number])
        valid.sources.append(_sentence(rows, source))
        valid.targets.append(_sentence(rows, target))
        valid.tos.append(corpora[number].target_language)
    return reports, valid


def _sentence(rows: RaggedFile, number: int) -> str:
    return line_of(rows[number].tobytes().decode())


def _find(sentences: list[str], text: _StoredText, looks: np.ndarray) -> np.ndarray:
    """Mark sentences that equal one of these, ignoring case, spaces and punctuation. (N,)"""
    # Compare keys first, then texts: normalizing every sentence of a corpus would take long.
    present = np.zeros(len(looks), dtype=bool)
    rows = text.rows
    keys = np.unique(np.array([held_out_key(sentence) for sentence in sentences], dtype=np.uint32))
    texts = frozenset(map(normalised, sentences))
    for start in range(0, len(looks), _BLOCK):
        # Few sentences share a key without being equal, so little is normalized in vain.
        for number in (
            np.flatnonzero(np.isin(looks["key"][start : start + _BLOCK], keys)) + start
        ).tolist():
            present[number] = normalised(_sentence(rows, number)) in texts
    return present


def _in_training(text: _StoredText, looks: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Mark sentences of pairs with two sides, neither of them held out. (N,)"""
    present = np.zeros(len(looks), dtype=bool)
    for corpus in range(len(text.joined)):
        for sources, targets, _ in text.blocks(corpus):
            # A sentence may be in several pairs; one of them is enough.
            kept = (
                are_usable(looks[sources], looks[targets]) & ~held_out[sources] & ~held_out[targets]
            )
            present[sources[kept]] = present[targets[kept]] = True
    return present


def _learn(
    corpora: tuple[Corpus, ...],
    text: _StoredText,
    in_training: np.ndarray,
    settings: TextConfig,
    languages: Languages,
    workers: Workers,
) -> Codec:
    """Learn pieces from the training sentences, or from a sample with equally many sentences of
    each language.
    """
    sources = {
        source: c.source_language for c, (source, _) in zip(corpora, text.joined, strict=True)
    }
    targets = {
        target: c.target_language for c, (_, target) in zip(corpora, text.joined, strict=True)
    }

    def count(sides: dict[int, str], sentences: int) -> Counter[str]:
        words = Counter[str]()
        calls = _sampled(text, sides, in_training, sentences, settings.normalization)
        for counts in workers.map(count_in, calls):
            words.update(counts)
        return words

    # With a shared vocabulary, a side that is source and target counts once.
    if settings.shared:
        source_words = count(sources | targets, SENTENCES_TO_LEARN_FROM)
        target_words = Counter[str]()
    else:
        source_words, target_words = (
            count(sides, SENTENCES_TO_LEARN_FROM // 2) for sides in (sources, targets)
        )
    return Codec.learn_from_words(source_words, target_words, settings, languages)


def _sampled(
    text: _StoredText,
    languages: dict[int, str],
    in_training: np.ndarray,
    count: int,
    normalization: str,
) -> Iterator[tuple[SentenceRange, np.ndarray, str]]:
    """Sample about `count` sentences of the sides whose languages are given, none of them twice."""
    sentences = Counter[str]()
    for side, language in languages.items():
        sentences[language] += text.sides[side].sentences
    for side, language in languages.items():
        # Take every n-th sentence of the language, counted over all of its sides.
        every = math.ceil(sentences[language] * len(sentences) / count)
        for span in spans_of(text.folder, text.sides[side]):
            rows = np.arange(-span.first % every, span.last - span.first, every)
            yield span, rows[in_training[span.first + rows]], normalization


def _encode(text: _StoredText, codec: Codec, kind: str, folder: Path, workers: Workers) -> None:
    """Encode each sentence; with two vocabularies, as a source and as a target."""
    sources, targets = {source for source, _ in text.joined}, {target for _, target in text.joined}
    # Both vocabularies have the same type of ids, so a store has only one.
    dtype = type_of_ids(max(len(codec.source), len(codec.target)))
    for name, used in (
        {IDS: sources | targets} if codec.shared else {SOURCE_IDS: sources, TARGET_IDS: targets}
    ).items():
        with RaggedFileWriter(text.folder, name) as ids:
            for number, side in enumerate(text.sides):
                # A side that is never used this way still has its sentence numbers.
                if number not in used:
                    ids.add(np.zeros(0, dtype), np.zeros(side.sentences, np.int64))
                    continue
                for flat in workers.encode(
                    spans_of(text.folder, side), codec, name == TARGET_IDS, folder, kind
                ):
                    ids.add(flat.ids.astype(dtype), flat.lengths)


def _pair(
    corpora: tuple[Corpus, ...],
    text: _StoredText,
    looks: np.ndarray,
    held_out: np.ndarray,
    codec: Codec,
    max_length: int,
) -> tuple[list[int], int, int]:
    """Write the pairs that training may see.

    Return how many pairs of each corpus were removed because of held-out text, how many pairs were
    too long, and the length of the longest.
    """
    removed = [0] * len(corpora)
    too_long = 0
    longest = 0
    dtype = type_of_ids(max(len(codec.source), len(codec.target)))
    sources_ids, targets_ids = (
        RaggedFile(text.folder, IDS if codec.shared else name, dtype)
        for name in (SOURCE_IDS, TARGET_IDS)
    )
    with StoreWriter(text.folder, dtype, text.sides, codec.mark, codec.source.eos) as store:
        for number, corpus in enumerate(corpora):
            tag = codec.tag(corpus.target_language)
            store.begin(*text.joined[number], tag)
            for sources, targets, lines in text.blocks(number):
                usable = are_usable(looks[sources], looks[targets])
                held = held_out[sources] | held_out[targets]
                # A source gets an end token and perhaps a tag; a target loses its mark.
                source_lengths = sources_ids.lengths(sources) + 1 + (tag is not None)
                target_lengths = targets_ids.lengths(targets) - is_marked(
                    targets_ids, targets, codec.mark
                )
                lengths = np.maximum(source_lengths, target_lengths)
                kept = usable & ~held & (lengths <= max_length)
                store.add(lines[kept], source_lengths[kept], target_lengths[kept])
                removed[number] += int((usable & held).sum())
                long = lengths[usable & ~held & ~kept]
                too_long = too_long + len(long)
                longest = max(longest, int(long.max(initial=0)))
    return removed, too_long, longest
