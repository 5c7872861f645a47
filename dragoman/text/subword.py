"""Cutting text into pieces: byte-pair encoding by SentencePiece.

(Sennrich et al. 2016; Kudo & Richardson 2018.)

Characters too rare for a piece of their own are spelled in UTF-8 bytes ("byte fallback"), so no
text is unknown. The other choices are the two ends between which byte-pair encoding stands:
characters (no merge is made; nothing is unknown there either) and whole words (all that the
vocabulary has no room for is `<unk>`).

No piece reaches over a space, so a word is cut the same way wherever it stands, and most words of a
text stood in it before. `encode_flat` and `learn` make use of that: each word is cut once, and a
corpus is a count of its words.

BPE-dropout (Provilkov et al. 2020) skips merges at random. SentencePiece has it too, but its draws
differ from process to process whatever the seed, and a resumed run must see what an unbroken one
sees. So it is done here: each word has a stock of variants, each a function of the word and its
number, and the seed decides which are taken.
"""

import io
import json
import random
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, count, islice, pairwise, repeat
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import sentencepiece

from dragoman.config import TextConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.storage.protobuf import (
    bytes_field,
    float_field,
    int_field,
    message_fields,
    text_field,
)
from dragoman.storage.safe_read import parse_json
from dragoman.text.vocabulary import Vocabulary

_FEW = 16  # texts
_SENTENCES_AT_ONCE = 10_000  # whose words are counted
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark for a space
_VARIANTS = 32  # segmentations of a word to draw from
WORDS_REMEMBERED = 400_000  # 200 bytes each, or a little more
_VARIANTS_REMEMBERED = 1_000_000
_LONGEST_REMEMBERED = 30  # characters
# bytes, of a rule of normalisation; the longest of Unicode's (U+FDFA) has 33
_LONGEST_REPLACEMENT = 256
_NORMAL, _CONTROL = 1, 3  # kinds of pieces in SentencePiece's format
_LONGEST_PIECE = 1000  # characters; SentencePiece makes none of more than 16
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
# punctuation of ASCII, Latin, typography, Devanagari, Chinese and Japanese
_MARKS = r"!-/:-@\[-`{-~¡-¿‐-⁞।॥、。〈-】"
_WORDS_AND_MARKS = re.compile(f"{WORD_START}?(?:[^{_MARKS}{WORD_START}]+|[{_MARKS}])")


class Flat(NamedTuple):
    """Ids of several texts end to end."""

    ids: np.ndarray
    lengths: np.ndarray  # of each text

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Flat":
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        return cls(
            np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum())), lengths
        )

    @classmethod
    def joined(cls, several: "Sequence[Flat]") -> "Flat":
        ids, lengths = zip(*several, strict=True)
        return cls(np.concatenate(ids), np.concatenate(lengths))

    @property
    def starts(self) -> np.ndarray:
        """Where each text starts, and where the last one ends.

        >>> Flat.of([[1, 2], [], [3, 4, 5]]).starts.tolist()
        [0, 2, 2, 5]
        """
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def at(self) -> np.ndarray:
        """The position of each id in its text.

        >>> Flat.of([[1, 2], [], [3, 4, 5]]).at.tolist()
        [0, 1, 0, 1, 2]
        """
        places: np.ndarray = np.arange(len(self.ids)) - self.starts[:-1].repeat(self.lengths)
        return places

    def take(self, rows: np.ndarray) -> "Flat":
        """These texts, in this order.

        >>> Flat.of([[1, 2], [], [3, 4, 5]]).take(np.array([2, 0])).lists()
        [[3, 4, 5], [1, 2]]
        """
        lengths = self.lengths[rows]
        taken = Flat(np.arange(lengths.sum()), lengths)
        # Where a text starts there and where it does here, for each of its ids.
        shifts = (self.starts[rows] - taken.starts[:-1]).repeat(lengths)
        return taken._replace(ids=self.ids[taken.ids + shifts])

    def part(self, start: int, end: int) -> "Flat":
        """The texts from this one up to that one, in the same memory.

        >>> Flat.of([[1, 2], [], [3, 4, 5], [6]]).part(1, 3).lists()
        [[], [3, 4, 5]]
        """
        first, last = self.starts[[start, end]]
        return Flat(self.ids[first:last], self.lengths[start:end])

    def padded(self, filler: int) -> np.ndarray:
        """A row for each text, filled up on the right.

        >>> Flat.of([[1, 2], [], [3, 4, 5]]).padded(0).tolist()
        [[1, 2, 0], [0, 0, 0], [3, 4, 5]]
        """
        inside = np.arange(self.lengths.max(initial=0)) < self.lengths[:, None]
        rows = np.full(inside.shape, filler, self.ids.dtype)
        rows[inside] = self.ids
        return rows

    def lists(self) -> list[list[int]]:
        ids = self.ids.tolist()
        return [ids[start:end] for start, end in pairwise(self.starts.tolist())]


class Segmenter(Protocol):
    """What cuts and joins text; the ids are those of its own vocabulary.

    `suffix`: of the file that keeps it.
    """

    @property
    def suffix(self) -> str: ...
    @property
    def vocabulary(self) -> Vocabulary: ...
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def encode_flat(self, texts: Sequence[str]) -> Flat: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def to_bytes(self) -> bytes: ...


def count_words(sentences: Iterable[str], normalisation: str) -> Counter[str]:
    """How often each word occurs: all that learning needs to know.

    A word is what stands between spaces, once normalised.
    """
    normaliser = sentencepiece.SentencePieceNormalizer(rule_name=normalisation)
    counts = Counter[str]()
    sentences = iter(sentences)
    while some := list(islice(sentences, _SENTENCES_AT_ONCE)):
        counts.update(" ".join(normaliser.normalize(some)).replace(WORD_START, " ").split(" "))
    del counts[""]
    return counts


_Variant = tuple[str, int]  # a word, and which of its segmentations
_Key = TypeVar("_Key")  # a word or a variant


class _Segmentations(Generic[_Key]):
    """Words that were cut, end to end.

    Each word, or each variant of a word by its number, has its place there.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[_Key, int] = {}
        self._ids, self._starts = array("i"), array("q", [0])

    def joined(
        self,
        keys: Sequence[_Key],
        keys_of_text: np.ndarray,
        cut: Callable[[list[_Key]], Iterable[Sequence[int]]],
    ) -> Flat:
        """The texts that consist of these keys, so many of them to each.

        `cut` does those that are not known yet.
        """
        if len(self._numbers) > self._most or len(self._ids) > 10 * self._most:
            self._clear()
        numbers = np.fromiter(map(self._numbers.get, keys, repeat(-1)), np.int64, len(keys))
        unknown = np.flatnonzero(numbers < 0)
        new = list(dict.fromkeys(keys[place] for place in unknown.tolist()))
        for key, pieces in zip(new, cut(new) if new else (), strict=True):
            self._numbers[key] = len(self._starts) - 1
            self._ids.extend(pieces)
            self._starts.append(len(self._ids))
        numbers[unknown] = [self._numbers[keys[place]] for place in unknown.tolist()]
        starts = np.frombuffer(self._starts, np.int64)
        ids = np.frombuffer(self._ids or array("i", [0]), np.int32)
        lengths = starts[numbers + 1] - starts[numbers]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(ends[-1]) + np.repeat(starts[numbers] - ends[:-1], lengths)
        return Flat(ids[places], np.diff(ends[np.cumsum(keys_of_text)], prepend=0))


class BytePairs:
    """A learned SentencePiece model."""

    suffix, model_type = "spm", "bpe"

    def __init__(self, model: bytes):
        self._model = model
        self._processor = _processor(model)
        p = self._processor
        pieces = _pieces(self._processor)
        self.vocabulary = Vocabulary(
            pieces, pad=p.pad_id(), unk=p.unk_id(), bos=p.bos_id(), eos=p.eos_id()
        )
        self._whole = _Segmentations[str](WORDS_REMEMBERED)
        # those of one rate of dropout
        self._variants = _Segmentations[_Variant](_VARIANTS_REMEMBERED)
        self._rate = 0.0

    @classmethod
    def learn(
        cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self:
        return cls.learn_from_words(count_words(sentences, settings.normalization), settings, tags)

    @classmethod
    def learn_from_words(
        cls, words: Mapping[str, int], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self:
        """Merges learned from words and how often they occur.

        The vocabulary shrinks to what a small corpus gives.
        """
        # SentencePiece's table of counts cannot hold a word with a tab in it; bytes spell those.
        # A list, since SentencePiece would take a signal's exception in a generator for its own.
        table = [f"{word}\t{number}" for word, number in words.items() if "\t" not in word]
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(table),
                input_format="tsv",
                model_writer=model,
                model_type=cls.model_type,
                vocab_size=settings.vocab_size,
                hard_vocab_limit=False,
                byte_fallback=True,
                character_coverage=settings.character_coverage,
                normalization_rule_name=settings.normalization,
                control_symbols=list(tags),
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
                    f"text.vocab_size={settings.vocab_size} is too small: bytes and characters "
                    "alone need "
                    f"{needed} pieces."
                ) from None
            if "vocab_size" in str(error):
                raise ConfigError(
                    f"text.vocab_size={settings.vocab_size} is too small: bytes alone need 256 "
                    "pieces."
                ) from None
            raise ConfigError(
                f"text.tokenizer={settings.tokenizer} could not be learned ({error})."
            ) from None
        return cls(model.getvalue())

    def extended(self, pieces: Sequence[str], tags: Sequence[str] = ()) -> Self:
        """The same model with further pieces behind its own, and tags, which no text holds.

        Old merges come first, so a text is cut as before unless a new piece can be made of what
        it was cut into.
        """
        scores = [self._processor.get_score(i) for i in range(len(self.vocabulary))]
        lowest = min(scores)
        added = [(piece, _NORMAL) for piece in pieces] + [(tag, _CONTROL) for tag in tags]
        # What is repeated in a protocol-buffer message may stand anywhere: it is appended.
        more = b""
        for number, (piece, kind) in enumerate(added):
            message = (
                text_field(1, piece) + float_field(2, lowest - 1 - number) + int_field(3, kind)
            )
            more += bytes_field(1, message)
        return type(self)(self._model + more)

    def ids_of_pieces(self, text: str) -> list[int]:
        """What a normalised text without spaces is cut into: the text of another model's piece."""
        return self._spell(self.merge(text))

    @cached_property
    def _ids(self) -> dict[str, int]:
        """The pieces that text is cut into. Translating does without: it asks SentencePiece."""
        return {piece: i for i, piece in enumerate(self.vocabulary.pieces) if self.is_text(i)}

    def is_text(self, i: int) -> bool:
        p = self._processor
        return not (p.is_byte(i) or p.is_control(i) or p.is_unknown(i) or p.is_unused(i))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        # SentencePiece starts threads for a list. A few texts are done sooner than these begin,
        # above all on busy cores.
        if len(texts) <= _FEW:
            return [self._processor.encode(text) for text in texts]
        return list(self._processor.encode(list(texts)))

    @cached_property
    def _words_are_apart(self) -> bool:
        """Whether text can be cut word by word.

        No piece reaches over a space, and no run of unknown letters does.
        """
        pieces = self.vocabulary.pieces
        return (
            self._processor.normalize("a b") == f"{WORD_START}a{WORD_START}b"
            and "<0x00>" in self.vocabulary.ids
            and not any(WORD_START in piece[1:] for piece in pieces)
        )

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """What `encode` gives; faster where words come back, since each is cut once."""
        if not self._words_are_apart:
            return Flat.of(self.encode(texts))
        return self._whole.joined(*self._words_of(texts), self._cut)

    def encode_with_dropout(self, texts: Sequence[str], rate: float, seed: int) -> Flat:
        words, words_of_text = self._words_of(texts)
        draw = random.Random(seed)
        numbers = [draw.getrandbits(31) for _ in words]
        if rate != self._rate:
            self._variants = _Segmentations(_VARIANTS_REMEMBERED)
            self._rate = rate
        # A long word is a whole sentence where a script has no spaces, and is not met again: it
        # needs no stock.
        keys = [
            (word, number % _VARIANTS if len(word) < _LONGEST_REMEMBERED else number)
            for word, number in zip(words, numbers, strict=True)
        ]
        return self._variants.joined(keys, words_of_text, self._cut_with_dropout)

    def _words_of(self, texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """The words of all texts, and how many each text has.

        They come without the mark of the space before them.
        """
        normal = self._processor.normalize(list(texts))
        counts = np.fromiter((text.count(WORD_START) for text in normal), np.int64, len(normal))
        return "".join(normal).split(WORD_START)[1:], counts

    def _cut(self, words: list[str]) -> Iterator[Sequence[int]]:
        """Words that were normalised before.

        SentencePiece does it again; if that changes a word, we cut it here.
        """
        normal = self._processor.normalize(words)
        encoded = self.encode(words)
        for word, again, ids in zip(words, normal, encoded, strict=True):
            marked = f"{WORD_START}{word}"
            yield ids if again == marked else self._spell(self.merge(marked))

    def _cut_with_dropout(self, keys: list[_Variant]) -> Iterator[Sequence[int]]:
        for word, number in keys:
            # Seeding a generator takes longer than cutting a word: all share a list, each from its
            # own place on.
            place = zlib.crc32(f"{number} {word}".encode())
            shared = _draws()
            draws = (shared[i % len(shared)] for i in count(place))
            yield self._spell(self.merge(f"{WORD_START}{word}", self._rate, draws))

    def merge(
        self,
        word: str,
        rate: float = 0.0,
        draws: Iterator[float] = repeat(1.0),
        history: list[list[str]] | None = None,
    ) -> list[str]:
        """Join neighbours by the best merge, over and over; each merge that could be made is
        dropped at random. `history` gets the parts after each merge."""
        parts = list(word)
        ids = self._ids
        none = len(self.vocabulary)
        # The ids of pieces are the order of their merges. Only those beside a merge change with it.
        ranks = [ids.get(left + right, none) for left, right in pairwise(parts)]
        while (best := min(ranks, default=none)) < none:
            # Whether a merge is dropped matters only if no better one is kept: draw for the best
            # one first.
            kept = ranks
            while best < none and next(draws) < rate:
                kept = [*kept]
                kept[kept.index(best)] = none
                best = min(kept)
            if best == none:
                return parts
            place = kept.index(best)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
            if history is not None:
                history.append([*parts])
            del ranks[place]
            if place > 0:
                ranks[place - 1] = ids.get(parts[place - 1] + parts[place], none)
            if place < len(ranks):
                ranks[place] = ids.get(parts[place] + parts[place + 1], none)
        return parts

    def merges(self, text: str) -> list[list[list[str]]]:
        """Each word of a text on its way: its characters, then its parts after each merge."""
        ways = []
        for word in self._words_of([text])[0]:
            way = [list(f"{WORD_START}{word}")]
            self.merge(f"{WORD_START}{word}", history=way)
            ways.append(way)
        return ways

    def _spell(self, parts: list[str]) -> list[int]:
        ids: list[int] = []
        for part in parts:
            known = self._ids.get(part)
            ids += (
                [known]
                if known is not None
                else [self.vocabulary.ids[f"<0x{byte:02X}>"] for byte in part.encode()]
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode(list(ids)))

    def to_bytes(self) -> bytes:
        return self._model


class Characters(BytePairs):
    """Byte-pair encoding before its first merge.

    Each character is a piece, and so is the space before a word.
    """

    model_type = "char"


class Words:
    """The most frequent words and punctuation marks; any other is `<unk>`.

    A word is a run of anything but space and punctuation, and each punctuation mark stands alone.
    The space in front belongs to the piece, as in SentencePiece, so that joining the pieces gives
    the text back.

    >>> Words.learn(["Ja, ja!"], TextConfig()).vocabulary.pieces[4:]
    ('▁Ja', ',', '▁ja', '!')
    """

    suffix = "json"

    def __init__(self, model: bytes):
        self._model = model
        try:
            stored = parse_json(model)
            rule = str(stored["normalisation"])
            pieces = tuple(map(str, stored["pieces"]))
            self._normaliser = sentencepiece.SentencePieceNormalizer(rule_name=rule)
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise BundleError(f"the list of words cannot be read ({error}).") from None
        if pieces[: len(SPECIAL)] != SPECIAL:
            raise BundleError(f"the list of words does not begin with {', '.join(SPECIAL)}.")
        self.vocabulary = Vocabulary(pieces)

    @classmethod
    def learn(
        cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()
    ) -> "Words":
        return cls.learn_from_words(count_words(sentences, settings.normalization), settings, tags)

    @classmethod
    def learn_from_words(
        cls, words: Mapping[str, int], settings: TextConfig, tags: Sequence[str] = ()
    ) -> "Words":
        """The words and punctuation marks that occur most often, as many as there is room for."""
        room = settings.vocab_size - len(SPECIAL) - len(tags)
        if room < 1:
            raise ConfigError(
                f"text.vocab_size={settings.vocab_size} is too small: no word has room beside "
                f"{', '.join(SPECIAL)}."
            )
        counts = Counter[str]()
        for word, occurrences in words.items():
            for piece in _words_and_marks(word):
                counts[piece] += occurrences
        pieces = [*SPECIAL, *tags, *(piece for piece, _ in counts.most_common(room))]
        return cls(
            json.dumps(
                {"normalisation": settings.normalization, "pieces": pieces}, ensure_ascii=False
            ).encode()
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unk = self.vocabulary.ids, self.vocabulary.unk
        return [
            [ids.get(piece, unk) for piece in _words_and_marks(self._normaliser.normalize(text))]
            for text in texts
        ]

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        return Flat.of(self.encode(texts))

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
    """SentencePiece with a vocabulary from elsewhere, as the models of other systems have it.

    `start` is the piece that the decoder is given first. `barred` are pieces that no translation
    holds, such as the names of languages.
    """

    suffix = "spm"

    def __init__(
        self,
        model: bytes,
        pieces: Sequence[str],
        start: str = "<pad>",
        barred: Sequence[str] = (),
    ):
        self._model = model
        self._processor = _processor(model)
        _pieces(self._processor)
        ids = {piece: number for number, piece in enumerate(pieces)}
        try:
            unk, eos, bos = ids["<unk>"], ids["</s>"], ids[start]
            # What fills up a batch must not occur in a text. OpenNMT's vocabularies call it
            # <blank>; some have none, and there the start serves, which is never said either.
            pad = next(ids[name] for name in ("<pad>", "<blank>", start) if name in ids)
        except KeyError as error:
            raise BundleError(f"the vocabulary has no piece {error}.") from None
        self.vocabulary = Vocabulary(
            tuple(pieces), pad, unk, bos, eos, tuple(ids[piece] for piece in barred if piece in ids)
        )

    @classmethod
    def learn(
        cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()
    ) -> "MarianPieces":
        raise ConfigError(
            "text.tokenizer=marian comes with converted models and cannot be learned: use bpe."
        )

    learn_from_words = learn

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unk = self.vocabulary.ids, self.vocabulary.unk
        return [
            [ids.get(piece, unk) for piece in pieces]
            for pieces in self._processor.encode(list(texts), out_type=str)
        ]

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        return Flat.of(self.encode(texts))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode_pieces([self.vocabulary.pieces[i] for i in ids]))

    def to_bytes(self) -> bytes:
        return self._model


@cache
def _draws() -> list[float]:
    """The same numbers for everybody, between 0 and 1; made when they are first needed."""
    drawn: list[float] = np.random.Generator(np.random.Philox(0)).random(2**16).tolist()
    return drawn


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece with a model from a file that anybody may have written."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        longest = max(map(len, _replacements(model)), default=0)
        processor.load_from_serialized_proto(model)
    except (RuntimeError, ValueError) as error:
        raise BundleError(f"the SentencePiece model cannot be read ({error}).") from None
    if longest > _LONGEST_REPLACEMENT:
        raise BundleError(
            f"the SentencePiece model has a rule that replaces a few bytes by {longest:,}."
        )
    return processor


def pieces_of_model(model: bytes) -> tuple[str, ...]:
    """The pieces of a SentencePiece model in the order of their ids."""
    return _pieces(_processor(model))


def _pieces(processor: sentencepiece.SentencePieceProcessor) -> tuple[str, ...]:
    try:
        pieces = tuple(processor.id_to_piece(list(range(processor.get_piece_size()))))
    except UnicodeDecodeError:
        raise BundleError("the SentencePiece model has a piece that is not UTF-8.") from None
    if max(map(len, pieces), default=0) > _LONGEST_PIECE:
        raise BundleError(
            f"the SentencePiece model has a piece of more than {_LONGEST_PIECE} characters."
        )
    return pieces


def _replacements(model: bytes) -> Iterator[bytes]:
    """What a model's rules of normalisation put in the place of other text.

    In `sentencepiece_model.proto` a ModelProto has a NormalizerSpec for text that comes in (field
    3) and one for text that goes out (field 5). Field 2 of these is `precompiled_charsmap`: the
    size of a search tree, the tree, and the replacements, each with a NUL behind it.
    """
    # The pieces come first: tens of thousands of messages (field 1), most of a few bytes.
    place = 0
    while place + 1 < len(model) and model[place] == 0x0A and model[place + 1] < 0x80:
        place += 2 + model[place + 1]
    for number, rules in message_fields(model[place:]):
        for part, packed in message_fields(rules) if number in (3, 5) else ():
            if part == 2:
                tree = int.from_bytes(packed[:4], "little")
                yield from packed[4 + tree :].split(b"\0")


SEGMENTERS: dict[str, type[BytePairs] | type[Words] | type[MarianPieces]] = {
    "bpe": BytePairs, "word": Words, "character": Characters, "marian": MarianPieces,
}  # fmt: skip
