"""Cutting text into pieces: byte-pair encoding by SentencePiece (Sennrich et al. 2016; Kudo & Richardson 2018).

Characters too rare for a piece of their own are spelled in UTF-8 bytes ("byte fallback"), so no text is unknown. The
other choices are the two ends between which byte-pair encoding stands: characters (no merge is made; nothing is unknown
there either) and whole words (all that the vocabulary has no room for is `<unk>`).

BPE-dropout (Provilkov et al. 2020) skips merges at random. SentencePiece has it too, but its draws differ from process
to process whatever the seed, and a resumed run must see what an unbroken one sees. So it is done here:
each word has a stock of variants, each a function of the word and its number, and the seed decides which are taken.
"""

import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self

import sentencepiece

from dragoman.config import TextConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.text.vocabulary import Vocabulary
from dragoman.untrusted import parsed_json

SENTENCES_TO_LEARN_FROM = 2_000_000
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark for a space
VARIANTS = 32  # segmentations of a word to draw from
VARIANTS_REMEMBERED = 2_000_000
LONGEST_REMEMBERED = 30  # characters
LONGEST_REPLACEMENT = 256  # bytes, of a rule of normalisation; the longest of Unicode's (U+FDFA) has 33
LONGEST_PIECE = 1000  # characters; SentencePiece makes none of more than 16
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_WORDS = re.compile(f"{WORD_START}[^{WORD_START}]*|[^{WORD_START}]+")
_MARKS = r"!-/:-@\[-`{-~¡-¿‐-⁞।॥、。〈-】"  # punctuation of ASCII, Latin, typography, Devanagari, Chinese and Japanese
_WORDS_AND_MARKS = re.compile(f"{WORD_START}?(?:[^{_MARKS}{WORD_START}]+|[{_MARKS}])")


class Segmenter(Protocol):
    """What cuts and joins text; the ids are those of its own vocabulary. `suffix`: of the file that keeps it."""

    @property
    def suffix(self) -> str: ...
    @property
    def vocabulary(self) -> Vocabulary: ...
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def to_bytes(self) -> bytes: ...


class BytePairs:
    """A learned SentencePiece model."""

    suffix, model_type = "spm", "bpe"

    def __init__(self, model: bytes):
        self._model, self._processor = model, _processor(model)
        p, pieces = self._processor, _pieces(self._processor)
        self.vocabulary = Vocabulary(pieces, pad=p.pad_id(), unk=p.unk_id(), bos=p.bos_id(), eos=p.eos_id())
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary.pieces) if self._is_text(i)}
        self._variants: dict[tuple[str, int, float], tuple[int, ...]] = {}

    @classmethod
    def learn(cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()) -> Self:
        """Merges learned from sentences; the vocabulary shrinks to what a small corpus gives."""
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type=cls.model_type,
                vocab_size=settings.size,
                hard_vocab_limit=False,
                byte_fallback=True,
                character_coverage=settings.coverage,
                normalization_rule_name=settings.normalisation,
                control_symbols=list(tags),
                input_sentence_size=SENTENCES_TO_LEARN_FROM,
                shuffle_input_sentence=True,
                pad_id=0,
                unk_id=1,
                bos_id=2,
                eos_id=3,
                minloglevel=2,
            )
        except RuntimeError as error:
            if "required_chars" in str(error):
                needed = str(error).partition(" vs ")[2].partition(".")[0]
                raise ConfigError(
                    f"text.size={settings.size} is too small: bytes and characters alone need {needed} pieces."
                ) from None
            if "vocab_size" in str(error):
                raise ConfigError(f"text.size={settings.size} is too small: bytes alone need 256 pieces.") from None
            raise ConfigError(f"text.vocabulary={settings.vocabulary} could not be learned ({error}).") from None
        return cls(model.getvalue())

    def _is_text(self, i: int) -> bool:
        p = self._processor
        return not (p.is_byte(i) or p.is_control(i) or p.is_unknown(i) or p.is_unused(i))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return list(self._processor.encode(list(texts)))

    def encode_with_dropout(self, texts: Sequence[str], rate: float, seed: int) -> list[list[int]]:
        words = [_WORDS.findall(text) for text in self._processor.normalize(list(texts))]
        draw = random.Random(seed)
        if len(self._variants) > VARIANTS_REMEMBERED:
            self._variants.clear()
        return [[i for word in sentence for i in self._variant(word, draw.getrandbits(31), rate)] for sentence in words]

    def _variant(self, word: str, number: int, rate: float) -> tuple[int, ...]:
        """A word's segmentation by dropout, as its number says; those of short words are few and remembered."""
        if len(word) > LONGEST_REMEMBERED:  # a whole sentence, where a script has no spaces
            return self._spell(self.merge(word, rate, random.Random(number)))
        key = (word, number % VARIANTS, rate)
        if (found := self._variants.get(key)) is None:
            found = self._variants[key] = self._spell(self.merge(word, rate, random.Random(f"{key[1]} {word}")))
        return found

    def merge(self, word: str, rate: float, draw: random.Random) -> list[str]:
        """Join neighbours by the best merge, over and over; each merge that could be made is dropped at random."""
        parts = list(word)
        while True:
            best, place = len(self.vocabulary), -1
            for i in range(len(parts) - 1):
                rank = self._ids.get(parts[i] + parts[i + 1], best)  # the ids of pieces are the order of their merges
                if rank < best and draw.random() >= rate:
                    best, place = rank, i
            if place < 0:
                return parts
            parts[place : place + 2] = [parts[place] + parts[place + 1]]

    def _spell(self, parts: list[str]) -> tuple[int, ...]:
        ids: list[int] = []
        for part in parts:
            known = self._ids.get(part)
            ids += [known] if known is not None else [self.vocabulary.ids[f"<0x{byte:02X}>"] for byte in part.encode()]
        return tuple(ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode(list(ids)))

    def to_bytes(self) -> bytes:
        return self._model


class Characters(BytePairs):
    """Byte-pair encoding before its first merge: each character is a piece, and so is the space before a word."""

    model_type = "char"


class Words:
    """The most frequent words and punctuation marks; any other is `<unk>`.

    A word is a run of anything but space and punctuation, and each punctuation mark stands alone. The space in front
    belongs to the piece, as in SentencePiece, so that joining the pieces gives the text back.

    >>> Words.learn(["Ja, ja!"], TextConfig()).vocabulary.pieces[4:]
    ('▁Ja', ',', '▁ja', '!')
    """

    suffix = "json"

    def __init__(self, model: bytes):
        self._model = model
        try:
            stored = parsed_json(model)
            rule, pieces = str(stored["normalisation"]), tuple(map(str, stored["pieces"]))
            self._normaliser = sentencepiece.SentencePieceNormalizer(rule_name=rule)
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise BundleError(f"the list of words cannot be read ({error}).") from None
        if pieces[: len(SPECIAL)] != SPECIAL:
            raise BundleError(f"the list of words does not begin with {', '.join(SPECIAL)}.")
        self.vocabulary = Vocabulary(pieces)

    @classmethod
    def learn(cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()) -> "Words":
        """The words that occur most often, as many as there is room for."""
        room = settings.size - len(SPECIAL) - len(tags)
        if room < 1:
            raise ConfigError(f"text.size={settings.size} is too small: no word has room beside {', '.join(SPECIAL)}.")
        normaliser = sentencepiece.SentencePieceNormalizer(rule_name=settings.normalisation)
        counts = Counter(piece for sentence in sentences for piece in _words_and_marks(normaliser.normalize(sentence)))
        pieces = [*SPECIAL, *tags, *(piece for piece, _ in counts.most_common(room))]
        return cls(json.dumps({"normalisation": settings.normalisation, "pieces": pieces}, ensure_ascii=False).encode())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unk = self.vocabulary.ids, self.vocabulary.unk
        return [[ids.get(piece, unk) for piece in _words_and_marks(self._normaliser.normalize(text))] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        unk, pieces = self.vocabulary.unk, self.vocabulary.pieces
        joined = "".join(f"{WORD_START}{pieces[unk]}" if i == unk else pieces[i] for i in ids)
        return joined.replace(WORD_START, " ").strip()

    def to_bytes(self) -> bytes:
        return self._model


def _words_and_marks(text: str) -> Iterator[str]:
    for between_spaces in text.split():
        yield from _WORDS_AND_MARKS.findall(WORD_START + between_spaces)


class MarianPieces:
    """SentencePiece with a vocabulary from elsewhere, as MarianMT models have it: the same ids for both languages."""

    suffix = "spm"

    def __init__(self, model: bytes, pieces: Sequence[str]):
        self._model, self._processor = model, _processor(model)
        _pieces(self._processor)
        ids = {piece: number for number, piece in enumerate(pieces)}
        try:
            pad, unk, eos = ids["<pad>"], ids["<unk>"], ids["</s>"]
        except KeyError as error:
            raise BundleError(f"the vocabulary has no piece {error}.") from None
        self.vocabulary = Vocabulary(tuple(pieces), pad=pad, unk=unk, bos=pad, eos=eos)  # a target begins with <pad>

    @classmethod
    def learn(cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()) -> "MarianPieces":
        raise ConfigError("text.vocabulary=marian comes with converted models and cannot be learned: use bpe.")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unk = self.vocabulary.ids, self.vocabulary.unk
        return [
            [ids.get(piece, unk) for piece in pieces] for pieces in self._processor.encode(list(texts), out_type=str)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode_pieces([self.vocabulary.pieces[i] for i in ids]))

    def to_bytes(self) -> bytes:
        return self._model


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece with a model from a file that anybody may have written."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        longest = max(map(len, _replacements(model)), default=0)
        processor.load_from_serialized_proto(model)
    except (RuntimeError, ValueError) as error:
        raise BundleError(f"the SentencePiece model cannot be read ({error}).") from None
    if longest > LONGEST_REPLACEMENT:
        raise BundleError(f"the SentencePiece model has a rule that writes {longest:,} bytes in the place of a few.")
    return processor


def _pieces(processor: sentencepiece.SentencePieceProcessor) -> tuple[str, ...]:
    try:
        pieces = tuple(processor.id_to_piece(list(range(processor.get_piece_size()))))
    except UnicodeDecodeError:
        raise BundleError("the SentencePiece model has a piece that is not UTF-8.") from None
    if max(map(len, pieces), default=0) > LONGEST_PIECE:
        raise BundleError(f"the SentencePiece model has a piece of more than {LONGEST_PIECE} characters.")
    return pieces


def _replacements(model: bytes) -> Iterator[bytes]:
    """What a model's rules of normalisation put in the place of other text.

    In `sentencepiece_model.proto` a ModelProto has a NormalizerSpec for text that comes in (field 3) and
    one for text that goes out (field 5). Field 2 of these is `precompiled_charsmap`: the size of a search
    tree, the tree, and the replacements, each with a NUL behind it.
    """
    for number, rules in _fields(model):
        for part, packed in _fields(rules) if number in (3, 5) else ():
            if part == 2:
                tree = int.from_bytes(packed[:4], "little")
                yield from packed[4 + tree :].split(b"\0")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The numbers and contents of a protocol-buffer message's strings and messages; its numbers are passed over."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind, size = key & 7, {1: 8, 5: 4}.get(key & 7, 0)
        if kind == 0:
            _, place = _varint(message, place)
        elif kind == 2:
            size, place = _varint(message, place)
            yield key >> 3, message[place : place + size]
        elif not size:
            raise ValueError("it is no protocol-buffer message")
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    number = shift = 0
    while place < len(message) and shift < 70:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if message[place - 1] < 0x80:
            return number & (2**64 - 1), place
    raise ValueError("it is cut off")


SEGMENTERS: dict[str, type[BytePairs] | type[Words] | type[MarianPieces]] = {
    "bpe": BytePairs, "word": Words, "character": Characters, "marian": MarianPieces,
}  # fmt: skip
