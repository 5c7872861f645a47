"""Text to ids and back, for both sides of a model.

It has segmenters, and adds language tags and the ends of sentences.

A source is its pieces and `</s>`, behind `>>xx<<` where the model knows several target languages. A
target is its pieces alone; whoever shifts it adds `<s>` and `</s>`.

A source that a model made begins with `<BT>` in its text (Caswell et al. 2019), and its ids with
`<s>`: a piece that no other source holds, and that every vocabulary has. A target's `<BT>` is left
out.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from dragoman.config import TextConfig
from dragoman.errors import BundleError, TranslationError
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
from dragoman.text.vocabulary import Vocabulary, language_tag
from dragoman.untrusted import parsed_json

_PIECES_FILE = "pieces.json"  # of a vocabulary that is not SentencePiece's own
_SHARED, _SOURCE, _TARGET = "shared", "source", "target"
CODEC_FILES = {LANGUAGES_FILE, _PIECES_FILE} | {
    f"{side}.{segmenter.suffix}"
    for side in (_SHARED, _SOURCE, _TARGET)
    for segmenter in SEGMENTERS.values()
}


@dataclass(frozen=True)
class Codec:
    source_segmenter: Segmenter
    target_segmenter: Segmenter
    languages: Languages

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
            count_words(map(without_mark, side), settings.normalisation) for side in sides
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
        """From how often each word occurs.

        If the vocabulary is shared, the words of both sides are in the first.
        """
        learn = SEGMENTERS[settings.vocabulary].learn_from_words
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

    def encode_source(self, texts: Sequence[str], to: str = "") -> list[list[int]]:
        made, texts = _without_marks(texts)
        return self._frame(
            self.source_segmenter.encode([*map(_valid, texts)]), made, [to] * len(texts)
        )

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        return self.target_segmenter.encode([_valid(without_mark(text)) for text in texts])

    def encode_sides(self, texts: Sequence[str], target: bool = False) -> Flat:
        """Many sentences, without what depends on the pair: tag and end.

        `<s>` stands before those that a model made.

        They are sources, or targets too if the vocabulary is shared; or targets alone, which have
        no mark.
        """
        if target:
            return self.target_segmenter.encode_flat([*map(without_mark, texts)])
        ids, lengths = self.source_segmenter.encode_flat([*map(without_mark, texts)])
        made = np.array([text.startswith(MADE) for text in texts], dtype=bool)
        if self.mark is None or not made.any():
            return Flat(ids, lengths)
        return Flat(np.insert(ids, (np.cumsum(lengths) - lengths)[made], self.mark), lengths + made)

    def encode_with_dropout(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        tos: Sequence[str],
        rate: float,
        seed: int,
        longest: int,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Both sides of some pairs, segmented anew from the seed.

        A sentence that would become too long keeps its usual pieces.
        """
        made, sources = _without_marks(sources)
        # tags and the end come with it
        left = _dropped(self.source_segmenter, sources, rate, 2 * seed, longest - 3)
        right = _dropped(
            self.target_segmenter, _without_marks(targets)[1], rate, 2 * seed + 1, longest
        )
        return self._frame(left, made, tos), right

    def decode_target(self, ids: Sequence[int]) -> str:
        return self.target_segmenter.decode(ids)

    def to_files(self) -> dict[str, bytes]:
        """What a bundle keeps of this."""
        files = {LANGUAGES_FILE: self.languages.to_bytes()}
        if isinstance(self.source_segmenter, MarianPieces):
            files[_PIECES_FILE] = json.dumps(self.source.pieces, ensure_ascii=False).encode()
        sides = {_SOURCE: self.source_segmenter, _TARGET: self.target_segmenter}
        sides = {_SHARED: self.source_segmenter} if self.shared else sides
        return files | {
            f"{side}.{segmenter.suffix}": segmenter.to_bytes() for side, segmenter in sides.items()
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], kind: str = "bpe") -> "Codec":
        try:
            read = _reader(files, kind)
            shared_file, source_file, target_file = (
                f"{s}.{SEGMENTERS[kind].suffix}" for s in (_SHARED, _SOURCE, _TARGET)
            )
            languages = Languages.from_bytes(files[LANGUAGES_FILE])
            if shared_file in files:
                source = target = read(files[shared_file])
            else:
                source, target = read(files[source_file]), read(files[target_file])
        except KeyError as error:
            raise BundleError(f"{error.args[0]} is missing.") from None
        for tag in map(language_tag, languages.targets if languages.tagged else ()):
            if tag not in source.vocabulary.ids:
                raise BundleError(
                    f"the vocabulary has no piece {tag}, which {LANGUAGES_FILE} needs."
                )
        return cls(source, target, languages)

    def _frame(
        self, sequences: Sequence[list[int]], made: Sequence[bool], tos: Sequence[str]
    ) -> list[list[int]]:
        mark, end = [] if self.mark is None else [self.mark], self.source.eos
        tags = {to: [] if (tag := self.tag(to)) is None else [tag] for to in set(tos)}
        return [
            [*tags[to], *(mark if marked else ()), *ids, end]
            for ids, marked, to in zip(sequences, made, tos, strict=True)
        ]

    @property
    def mark(self) -> int | None:
        """What stands before a source that a model made.

        MarianMT's vocabularies have no piece to spare for it.
        """
        return self.source.bos if self.source.bos != self.source.pad else None

    def tag(self, to: str) -> int | None:
        """What a source begins with that is to be translated into this language."""
        if not self.languages.tagged:
            return None
        if to not in self.languages.targets:
            known = ", ".join(self.languages.targets)
            raise TranslationError(
                f"this model does not translate into {to or 'an unnamed language'!r}; it can: "
                f"{known}."
            )
        return self.source.ids[language_tag(to)]


def _reader(files: Mapping[str, bytes], kind: str) -> Callable[[bytes], Segmenter]:
    if kind != "marian":
        return cast(Callable[[bytes], Segmenter], SEGMENTERS[kind])
    try:
        pieces = parsed_json(files[_PIECES_FILE])
    except ValueError as error:
        raise BundleError(f"{_PIECES_FILE} cannot be read ({error}).") from None
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise BundleError(f"{_PIECES_FILE} is no list of texts.")
    return lambda model: MarianPieces(model, pieces)


def _without_marks(texts: Sequence[str]) -> tuple[list[bool], list[str]]:
    """Which texts say that a model made them, and the texts without that."""
    return [text.startswith(MADE) for text in texts], [*map(without_mark, texts)]


def without_mark(text: str) -> str:
    return text.removeprefix(MADE)


def _valid(text: str) -> str:
    """Text that can be written in UTF-8: lone surrogates, as from a broken argument, become "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _dropped(
    segmenter: Segmenter, texts: Sequence[str], rate: float, seed: int, longest: int
) -> list[list[int]]:
    assert isinstance(segmenter, BytePairs), "the settings refuse dropout for any other"
    encoded = segmenter.encode_with_dropout(texts, rate, seed).lists()
    return [
        ids if len(ids) <= longest else segmenter.encode([text])[0]
        for text, ids in zip(texts, encoded, strict=True)
    ]


def words_of_pieces(pieces: Sequence[str]) -> list[int]:
    """For each piece the number of the word that it belongs to; -1 for special pieces.

    >>> words_of_pieces(["▁Guten", "▁Mor", "gen", "</s>"])
    [0, 1, 1, -1]
    """
    words, current = [], -1
    for piece in pieces:
        if piece in {"</s>", "<s>", "<pad>"} or (piece.startswith(">>") and piece.endswith("<<")):
            words.append(-1)
            continue
        if piece.startswith(WORD_START) or current < 0:
            current += 1
        words.append(current)
    return words
