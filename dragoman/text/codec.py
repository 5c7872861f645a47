"""Text to ids and back, for both sides of a model.

It has segmenters, and adds language tags and the ends of sentences.

A source is its pieces and `</s>`, behind `>>xx<<` where the model knows several target languages. A
target is its pieces alone; whoever shifts it adds `<s>` and `</s>`.

Models of other systems frame their sentences in other ways (`Framing`).

A source that a model made begins with `<BT>` in its text (Caswell et al. 2019), and its ids with
`<s>`: a piece that no other source holds, and that every vocabulary has. A target's `<BT>` is left
out.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

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
from dragoman.text.vocabulary import Vocabulary, language_tag

_PIECES_FILE = "pieces.json"  # of a vocabulary that is not SentencePiece's own
_SHARED, _SOURCE, _TARGET = "shared", "source", "target"
_MOST_FRAMING = 4  # pieces before a sentence, or behind it
ZEROS = "<zeros>"  # what is given first to a decoder that begins with a vector of zeros
UNUSED = "<free "  # begins the names of ids that another system's vocabulary has no piece for
CODEC_FILES = {LANGUAGES_FILE, _PIECES_FILE} | {
    f"{side}.{segmenter.suffix}"
    for side in (_SHARED, _SOURCE, _TARGET)
    for segmenter in SEGMENTERS.values()
}


@dataclass(frozen=True)
class Framing:
    """The pieces around a sentence. `{from}` and `{to}` stand for the codes of languages.

    `start`: what a target begins with. The decoder is given the first piece, and search is forced
    to say the others.
    """

    before: tuple[str, ...] = (">>{to}<<",)
    after: tuple[str, ...] = ("</s>",)
    start: tuple[str, ...] = ("<s>",)

    @property
    def names_source(self) -> bool:
        """Whether a source must say its own language."""
        return any("{from}" in piece for piece in self.before + self.after)

    @property
    def is_own(self) -> bool:
        """Whether sentences are framed as `dragoman train` does it, but for the start."""
        return replace(self, start=Framing.start) == Framing() and len(self.start) == 1

    @property
    def tags(self) -> list[str]:
        """The pieces that name a language."""
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

    @classmethod
    def of_another_system(
        cls,
        models: tuple[bytes, bytes],
        pieces: tuple[Sequence[str], Sequence[str]],
        framing: Framing,
        languages: Languages,
    ) -> "Codec":
        """SentencePiece models and vocabularies of both sides; equal ones are shared."""
        codes = languages.sources + languages.targets
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
        """From how often each word occurs.

        If the vocabulary is shared, the words of both sides are in the first.
        """
        learn = SEGMENTERS[settings.tokenizer].learn_from_words
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
        """The ids of texts that are to be translated `to` a language; some models must also be told
        that of the `source`."""
        made, texts = _without_marks(texts)
        return self._frame(
            self.source_segmenter.encode([*map(_valid, texts)]), made, [to] * len(texts), source
        )

    def forced_start(self, to: str) -> list[int]:
        """What a target must begin with behind the piece that the decoder is given first."""
        return [self._tag_id(tag, self.target, "", to) for tag in self.framing.start[1:]]

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
            files[_PIECES_FILE] = _foreign_pieces(self).encode()
        sides = {_SOURCE: self.source_segmenter, _TARGET: self.target_segmenter}
        sides = {_SHARED: self.source_segmenter} if self.shared else sides
        return files | {
            f"{side}.{segmenter.suffix}": segmenter.to_bytes() for side, segmenter in sides.items()
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], kind: str = "bpe") -> "Codec":
        try:
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
            read = cast(Callable[[bytes], Segmenter], SEGMENTERS[kind])
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
        """Refuse languages that the vocabulary has no pieces for."""
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
        """The pieces before and behind a source; the target's tag only where there are several."""
        pieces = self.framing.before + self.framing.after
        return [piece for piece in pieces if self.languages.tagged or "{to}" not in piece]

    def _frame(
        self,
        sequences: Sequence[list[int]],
        made: Sequence[bool],
        tos: Sequence[str],
        source: str = "",
    ) -> list[list[int]]:
        mark = [] if self.mark is None else [self.mark]
        used = self._around_source
        before = {to: self._tag_ids(self.framing.before, used, source, to) for to in set(tos)}
        after = {to: self._tag_ids(self.framing.after, used, source, to) for to in set(tos)}
        nothing = [self.source.unk]  # where a model frames nothing, something must be there to read
        return [
            [*before[to], *(mark if marked else ()), *ids, *after[to]] or nothing
            for ids, marked, to in zip(sequences, made, tos, strict=True)
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
                f"this model must be told the language of the text, and {source!r} is none that "
                f"it reads: {known}."
            )
        return vocabulary.ids[_filled(tag, source, to)]

    @property
    def mark(self) -> int | None:
        """What stands before a source that a model made; the vocabularies of other systems have no
        piece to spare for it."""
        return None if isinstance(self.source_segmenter, MarianPieces) else self.source.bos

    def tag(self, to: str) -> int | None:
        """What a source begins with that is to be translated into this language."""
        tags = self._tag_ids([">>{to}<<"], self._around_source, "", to)
        return tags[0] if tags else None


def _foreign_pieces(codec: Codec) -> str:
    """The vocabularies of another system, and how it frames a sentence."""
    sides = {_SOURCE: codec.source.pieces}
    if codec.target.pieces != codec.source.pieces:
        sides[_TARGET] = codec.target.pieces
    return json.dumps(asdict(codec.framing) | sides, ensure_ascii=False)


def _read_foreign_pieces(
    raw: bytes,
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], Framing]:
    """Vocabularies of both sides and the framing; older bundles have MarianMT's list of pieces."""
    try:
        content = parse_json(raw)
    except ValueError as error:
        raise BundleError(f"{_PIECES_FILE} cannot be read ({error}).") from None
    if isinstance(content, list):
        content = {_SOURCE: content} | asdict(MARIAN)
    if isinstance(content, dict):
        content.setdefault(_TARGET, content.get(_SOURCE))
    lists = dict[str, tuple[str, ...]]()
    for name in (_SOURCE, _TARGET, "before", "after", "start"):
        pieces = content.get(name) if isinstance(content, dict) else None
        if not isinstance(pieces, list | tuple) or not all(
            isinstance(text, str) for text in pieces
        ):
            raise BundleError(f"{_PIECES_FILE} is no list of texts.")
        lists[name] = tuple(pieces)
    framing = Framing(lists["before"], lists["after"], lists["start"])
    longest = max(len(framing.before), len(framing.after), len(framing.start))
    if not framing.start or longest > _MOST_FRAMING:
        raise BundleError(f"{_PIECES_FILE} frames a sentence in a way that no model has.")
    return (lists[_SOURCE], lists[_TARGET]), framing


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
