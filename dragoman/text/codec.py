"""Convert text to ids and back, for both sides of a model, with language tags and end tokens.

A source is its pieces and `</s>`; if the model has several target languages, the tag `>>xx<<` comes
first. A target is only its pieces; training and search add `<s>` and `</s>`. In models of other
systems, sentences have other special pieces around them (`Framing`).

Synthetic sources, which a model back-translated from their targets, are marked (Caswell et al.
2019): their text begins with `<BT>`, their ids with `<s>`, a piece that every vocabulary has and no
other source contains. The mark of a target is dropped.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from dragoman.config import TextConfig
from dragoman.errors import BundleError, TranslationError
from dragoman.storage.safe_read import parse_json
from dragoman.text.languages import LANGUAGES_FILE, Languages
from dragoman.text.parallel import MADE
from dragoman.text.subword import (
    SEGMENTERS,
    WORD_START,
    BytePairs,
    Flat,
    MarianPieces,
    Segmenter,
    count_words,
)
from dragoman.text.vocabulary import SYMBOLS, Vocabulary, language_tag

_PIECES_FILE = "pieces.json"  # a vocabulary separate from SentencePiece's
_SHARED, _SOURCE, _TARGET = "shared", "source", "target"
_MOST_FRAMING = 4  # pieces before or after a sentence
ZEROS = "<zeros>"  # first input of a decoder that starts with a vector of zeros
UNUSED = "<free "  # prefix of the names of ids without a piece, in vocabularies of other systems
CODEC_FILES = {LANGUAGES_FILE, _PIECES_FILE} | {
    f"{side}.{segmenter.suffix}"
    for side in (_SHARED, _SOURCE, _TARGET)
    for segmenter in SEGMENTERS.values()
}


@dataclass(frozen=True)
class Framing:
    """The special pieces around a sentence; `{from}` and `{to}` are replaced by language codes.

    `before` and `after` surround a source. `start` begins a target: its first piece is the
    decoder's first input, the others are forced in search.
    """

    before: tuple[str, ...] = (">>{to}<<",)
    after: tuple[str, ...] = ("</s>",)
    start: tuple[str, ...] = ("<s>",)

    @property
    def names_source(self) -> bool:
        """True if a source contains the tag of its own language."""
        return any("{from}" in piece for piece in self.before + self.after)

    @property
    def is_own(self) -> bool:
        """True if `dragoman train` can train a model with this framing."""
        # The start may differ: it is only a matter of ids.
        return replace(self, start=Framing.start) == Framing() and len(self.start) == 1

    @property
    def tags(self) -> list[str]:
        """The pieces that contain a language code."""
        return [piece for piece in self.before + self.after + self.start if "{" in piece]


MARIAN = Framing(start=("<pad>",))
M2M = Framing(("__{from}__",), ("</s>",), ("</s>", "__{to}__"))
NLLB = Framing(("{from}",), ("</s>",), ("</s>", "{to}"))


def _filled(tag: str, source: str, target: str) -> str:
    """
    >>> _filled("__{from}__", "de", "en")
    '__de__'
    """
    return tag.replace("{from}", source).replace("{to}", target)


@dataclass(frozen=True)
class Codec:
    source_segmenter: Segmenter
    target_segmenter: Segmenter
    languages: Languages
    framing: Framing = Framing()

    @cached_property
    def has_masks(self) -> bool:
        """Whether the model knows masks and annotated terms (`masks.py`)."""
        return all(symbol in side.ids for symbol in SYMBOLS for side in (self.source, self.target))

    def spells(self, character: str) -> bool:
        """Tell whether the vocabulary has a character, other than as bytes or as another one."""
        # Cached: every odd character of every text is asked about.
        if character not in self._spelled:
            (ids,) = self.source_segmenter.encode([character])
            pieces = "".join(self.source.pieces[i] for i in ids)
            self._spelled[character] = pieces.replace(WORD_START, "") == character
        return self._spelled[character]

    @cached_property
    def _spelled(self) -> dict[str, bool]:
        return {}

    @classmethod
    def of_another_system(
        cls,
        models: tuple[bytes, bytes],
        pieces: tuple[Sequence[str], Sequence[str]],
        framing: Framing,
        languages: Languages,
    ) -> "Codec":
        """Create a codec from SentencePiece models and vocabularies; equal sides are shared."""
        codes = languages.sources + languages.targets
        # Search must not predict tags, nor special pieces that only the other system uses.
        barred = [_filled(tag, code, code) for tag in framing.tags for code in codes]
        barred += ["<s>", "<mask>"]
        barred += [piece for side in pieces for piece in side if piece.startswith(UNUSED)]
        source = MarianPieces(models[0], pieces[0], framing.start[0], barred)
        if models[0] == models[1] and pieces[0] == pieces[1]:
            return cls(source, source, languages, framing)
        target = MarianPieces(models[1], pieces[1], framing.start[0], barred)
        return cls(source, target, languages, framing)

    @classmethod
    def learn(
        cls,
        source_sentences: Iterable[str],
        target_sentences: Iterable[str],
        settings: TextConfig,
        languages: Languages,
    ) -> "Codec":
        sides = (source_sentences, target_sentences)
        source, target = (
            count_words(map(without_mark, side), settings.normalization) for side in sides
        )
        if settings.shared:
            source += target
        return cls.learn_from_words(source, target, settings, languages)

    @classmethod
    def learn_from_words(
        cls,
        source_words: Mapping[str, int],
        target_words: Mapping[str, int],
        settings: TextConfig,
        languages: Languages,
    ) -> "Codec":
        """Learn a codec from the counts of words.

        With a shared vocabulary, `source_words` contains the words of both sides.
        """
        learn = SEGMENTERS[settings.tokenizer].learn_from_words
        # Only sources have tags.
        tags = (
            [language_tag(language) for language in languages.targets] if languages.tagged else []
        )
        source = learn(source_words, settings, tags)
        return cls(source, source if settings.shared else learn(target_words, settings), languages)

    @property
    def shared(self) -> bool:
        return self.source_segmenter is self.target_segmenter

    @property
    def source(self) -> Vocabulary:
        return self.source_segmenter.vocabulary

    @property
    def target(self) -> Vocabulary:
        return self.target_segmenter.vocabulary

    def encode_source(
        self, texts: Sequence[str], to: str = "", source: str = ""
    ) -> list[list[int]]:
        """Encode sources for a translation `to` a language; some models need the `source`."""
        synthetic, texts = _without_marks(texts)
        ids = self.source_segmenter.encode([*map(_valid, texts)])
        return self._frame(ids, synthetic, [to] * len(texts), source)

    def forced_start(self, to: str) -> list[int]:
        """Return the ids that a target must begin with, after the decoder's first input."""
        return [self._tag_id(tag, self.target, "", to) for tag in self.framing.start[1:]]

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        return self.target_segmenter.encode([_valid(without_mark(text)) for text in texts])

    def encode_sides(self, texts: Sequence[str], target: bool = False) -> Flat:
        """Encode many sentences without tag and end token, which depend on the pair.

        With `target`, encode with the target's vocabulary and without marks. Otherwise use the
        source's, and insert `<s>` before synthetic sentences.
        """
        if target:
            return self.target_segmenter.encode_flat([*map(without_mark, texts)])
        ids, lengths = self.source_segmenter.encode_flat([*map(without_mark, texts)])
        synthetic = np.array([text.startswith(MADE) for text in texts], dtype=bool)
        if self.mark is None or not synthetic.any():
            return Flat(ids, lengths)
        # Insert all marks with one call instead of a loop over sentences.
        starts = (np.cumsum(lengths) - lengths)[synthetic]
        return Flat(np.insert(ids, starts, self.mark), lengths + synthetic)

    def encode_with_dropout(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        tos: Sequence[str],
        rate: float,
        seed: int,
        longest: int,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode pairs with BPE-dropout.

        A sentence that would become too long is segmented without dropout.
        """
        synthetic, sources = _without_marks(sources)
        targets = [*map(without_mark, targets)]
        # Tag, mark and end token are added to a source later.
        # Different seeds: equal words on both sides must not get the same segmentation.
        left = _dropped(self.source_segmenter, sources, rate, 2 * seed, longest - 3)
        right = _dropped(self.target_segmenter, targets, rate, 2 * seed + 1, longest)
        return self._frame(left, synthetic, tos), right

    def decode_target(self, ids: Sequence[int]) -> str:
        return self.target_segmenter.decode(ids)

    def to_files(self) -> dict[str, bytes]:
        """Return the files that a bundle stores, by name."""
        files = {LANGUAGES_FILE: self.languages.to_bytes()}
        if isinstance(self.source_segmenter, MarianPieces):
            files[_PIECES_FILE] = _foreign_pieces(self).encode()
        sides = {_SOURCE: self.source_segmenter, _TARGET: self.target_segmenter}
        sides = {_SHARED: self.source_segmenter} if self.shared else sides
        return files | {
            f"{side}.{segmenter.suffix}": segmenter.to_bytes() for side, segmenter in sides.items()
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], kind: str = "bpe") -> "Codec":
        try:
            # Equal sides are stored once, as "shared".
            shared_file, source_file, target_file = (
                f"{s}.{SEGMENTERS[kind].suffix}" for s in (_SHARED, _SOURCE, _TARGET)
            )
            languages = Languages.from_bytes(files[LANGUAGES_FILE])
            if kind == "marian":
                models = [
                    files.get(shared_file) or files[name] for name in (source_file, target_file)
                ]
                pieces, framing = _read_foreign_pieces(files[_PIECES_FILE])
                codec = cls.of_another_system((models[0], models[1]), pieces, framing, languages)
                codec.check_tags()
                return codec
            read = SEGMENTERS[kind]
            if shared_file in files:
                source = target = read(files[shared_file])
            else:
                source, target = read(files[source_file]), read(files[target_file])
        except KeyError as error:
            raise BundleError(f"{error.args[0]} is missing.") from None
        codec = cls(source, target, languages)
        codec.check_tags()
        return codec

    def check_tags(self) -> None:
        """Raise a BundleError if the vocabulary lacks the tag of a language."""
        # A file may name languages that its vocabulary does not know.
        for tags, vocabulary in (
            (self._around_source, self.source),
            (self.framing.start, self.target),
        ):
            for tag in tags:
                of_source = "{from}" in tag
                codes = self.languages.sources if of_source else self.languages.targets
                for piece in [_filled(tag, code, code) for code in codes] if "{" in tag else [tag]:
                    if piece not in vocabulary.ids:
                        raise BundleError(
                            f"the vocabulary has no piece {piece}, which {LANGUAGES_FILE} needs."
                        )

    @property
    def _around_source(self) -> list[str]:
        """The special pieces around a source; no tag if there is only one target language."""
        pieces = self.framing.before + self.framing.after
        return [piece for piece in pieces if self.languages.tagged or "{to}" not in piece]

    def _frame(
        self,
        sequences: Sequence[list[int]],
        synthetic: Sequence[bool],
        tos: Sequence[str],
        source: str = "",
    ) -> list[list[int]]:
        """Add tags, marks and end tokens to sources."""
        # Tags depend only on languages, so look them up once for each target.
        mark = [] if self.mark is None else [self.mark]
        used = self._around_source
        before = {to: self._tag_ids(self.framing.before, used, source, to) for to in set(tos)}
        after = {to: self._tag_ids(self.framing.after, used, source, to) for to in set(tos)}
        # An empty source without special pieces would have nothing to attend to.
        nothing = [self.source.unk]
        return [
            [*before[to], *(mark if marked else ()), *ids, *after[to]] or nothing
            for ids, marked, to in zip(sequences, synthetic, tos, strict=True)
        ]

    def _tag_ids(self, tags: Sequence[str], used: Sequence[str], source: str, to: str) -> list[int]:
        return [self._tag_id(tag, self.source, source, to) for tag in tags if tag in used]

    def _tag_id(self, tag: str, vocabulary: Vocabulary, source: str, to: str) -> int:
        if "{to}" in tag and to not in self.languages.targets:
            known = ", ".join(self.languages.targets)
            raise TranslationError(
                f"this model does not translate into {to or 'an unnamed language'!r}; it can: "
                f"{known}."
            )
        if "{from}" in tag and source not in self.languages.sources:
            known = ", ".join(self.languages.sources)
            raise TranslationError(
                f"this model needs the language of the text, and does not read {source!r}; it "
                f"reads: {known}."
            )
        return vocabulary.ids[_filled(tag, source, to)]

    @property
    def mark(self) -> int | None:
        """The id that marks synthetic sources; vocabularies of other systems have none to spare."""
        return None if isinstance(self.source_segmenter, MarianPieces) else self.source.bos

    def tag(self, to: str) -> int | None:
        """Return the id of a target language's tag, or None if sources have no tag."""
        tags = self._tag_ids([">>{to}<<"], self._around_source, "", to)
        return tags[0] if tags else None


def _foreign_pieces(codec: Codec) -> str:
    """Write the vocabularies and the framing of another system as JSON."""
    sides = {_SOURCE: codec.source.pieces}
    if codec.target.pieces != codec.source.pieces:
        sides[_TARGET] = codec.target.pieces
    return json.dumps(asdict(codec.framing) | sides, ensure_ascii=False)


def _read_foreign_pieces(raw: bytes) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], Framing]:
    """Read the vocabularies of both sides, and the framing."""
    try:
        content = parse_json(raw)
    except ValueError as error:
        raise BundleError(f"{_PIECES_FILE} cannot be read ({error}).") from None
    # Older bundles have a plain list: MarianMT's pieces.
    if isinstance(content, list):
        content = {_SOURCE: content} | asdict(MARIAN)
    if isinstance(content, dict):
        # A shared vocabulary is stored once.
        content.setdefault(_TARGET, content.get(_SOURCE))
    lists = dict[str, tuple[str, ...]]()
    for name in (_SOURCE, _TARGET, "before", "after", "start"):
        pieces = content.get(name) if isinstance(content, dict) else None
        if not isinstance(pieces, list | tuple) or not all(
            isinstance(text, str) for text in pieces
        ):
            raise BundleError(f"{_PIECES_FILE}: {name} must be a list of strings.")
        lists[name] = tuple(pieces)
    framing = Framing(lists["before"], lists["after"], lists["start"])
    # A limit, because every sentence pays for it: the file may come from a stranger.
    longest = max(len(framing.before), len(framing.after), len(framing.start))
    if not framing.start or longest > _MOST_FRAMING:
        raise BundleError(
            f"{_PIECES_FILE}: a sentence needs a start piece, and has at most {_MOST_FRAMING} "
            "special pieces on either side."
        )
    return (lists[_SOURCE], lists[_TARGET]), framing


def _without_marks(texts: Sequence[str]) -> tuple[list[bool], list[str]]:
    """Return which texts are marked as synthetic, and the texts without marks."""
    return [text.startswith(MADE) for text in texts], [*map(without_mark, texts)]


def without_mark(text: str) -> str:
    return text.removeprefix(MADE)


def _valid(text: str) -> str:
    """Replace lone surrogates by "?": they cannot be encoded, but occur in broken arguments."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _dropped(
    segmenter: Segmenter, texts: Sequence[str], rate: float, seed: int, longest: int
) -> list[list[int]]:
    # The settings reject dropout for other tokenizers.
    assert isinstance(segmenter, BytePairs)
    encoded = segmenter.encode_with_dropout(texts, rate, seed).lists()
    return [
        ids if len(ids) <= longest else segmenter.encode([text])[0]
        for text, ids in zip(texts, encoded, strict=True)
    ]


def words_of_pieces(pieces: Sequence[str]) -> list[int]:
    """Return the number of the word that each piece belongs to; -1 for special pieces.

    >>> words_of_pieces(["▁Guten", "▁Mor", "gen", "</s>"])
    [0, 1, 1, -1]
    """
    words, current = [], -1
    for piece in pieces:
        # Special pieces and language tags belong to no word.
        if piece in {"</s>", "<s>", "<pad>"} or (piece.startswith(">>") and piece.endswith("<<")):
            words.append(-1)
            continue
        if piece.startswith(WORD_START) or current < 0:
            current += 1
        words.append(current)
    return words
