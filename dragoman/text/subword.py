"""Segment text into subwords: byte-pair encoding with SentencePiece.

(Sennrich et al. 2016; Kudo & Richardson 2018.)

Characters too rare for a piece of their own are spelled in UTF-8 bytes ("byte fallback"), so no
text is unknown. There are two more tokenizers, at both ends of byte-pair encoding: characters (no
merges; nothing is unknown there either) and whole words (words outside the vocabulary are `<unk>`).

BPE-dropout (Provilkov et al. 2020) skips merges at random.
"""

import io
import json
import random
import re
import zlib
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, count, islice, pairwise, repeat
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar

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

_FEW = 16  # texts to segment one by one
_SENTENCES_AT_ONCE = 10_000  # sentences whose words are counted together
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark for a space
_VARIANTS = 32  # segmentations of a word to draw from
WORDS_REMEMBERED = 400_000  # 200 bytes each, or a little more
_VARIANTS_REMEMBERED = 1_000_000
_LONGEST_REMEMBERED = 30  # characters
# Limits on models from strangers: a normalization rule that expands a character without end, or
# huge pieces, would exhaust memory.
_LONGEST_REPLACEMENT = 256  # bytes; the longest rule of Unicode (U+FDFA) has 33
_LONGEST_PIECE = 1000  # characters; SentencePiece learns at most 16
_NORMAL, _CONTROL = 1, 3  # types of pieces in SentencePiece's format
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
# Punctuation of ASCII, Latin, typography, Devanagari, Chinese and Japanese
_MARKS = r"!-/:-@\[-`{-~¡-¿‐-⁞।॥、。〈-】"
_WORDS_AND_MARKS = re.compile(f"{WORD_START}?(?:[^{_MARKS}{WORD_START}]+|[{_MARKS}])")


class Flat(NamedTuple):
    """The ids of several texts, concatenated."""

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
        """The start of each text, and the end of the last one.

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
        """Select texts, in the given order.

        >>> Flat.of([[1, 2], [], [3, 4, 5]]).take(np.array([2, 0])).lists()
        [[3, 4, 5], [1, 2]]
        """
        lengths = self.lengths[rows]
        taken = Flat(np.arange(lengths.sum()), lengths)
        # The distance between old and new start of its text, for each id.
        shifts = (self.starts[rows] - taken.starts[:-1]).repeat(lengths)
        return taken._replace(ids=self.ids[taken.ids + shifts])

    def part(self, start: int, end: int) -> "Flat":
        """Return the texts `start` to `end` - 1 as views, without copying.

        >>> Flat.of([[1, 2], [], [3, 4, 5], [6]]).part(1, 3).lists()
        [[], [3, 4, 5]]
        """
        first, last = self.starts[[start, end]]
        return Flat(self.ids[first:last], self.lengths[start:end])

    def padded(self, filler: int) -> np.ndarray:
        """Return a row for each text, padded on the right.

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


class Segmenter(ABC):
    """Converts text to the ids of its vocabulary and back. `suffix` is the suffix of its file."""

    suffix: ClassVar[str]
    vocabulary: Vocabulary

    def __init__(self, model: bytes):
        self._model = model  # the content of its file

    @classmethod
    def learn(
        cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self:
        return cls.learn_from_words(count_words(sentences, settings.normalization), settings, tags)

    @classmethod
    @abstractmethod
    def learn_from_words(
        cls, words: Mapping[str, int], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self: ...

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """Encode many texts."""
        return Flat.of(self.encode(texts))

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str: ...

    def to_bytes(self) -> bytes:
        return self._model


def count_words(sentences: Iterable[str], normalization: str) -> Counter[str]:
    """Count words, which are separated by spaces after normalization."""
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=normalization)
    counts = Counter[str]()
    sentences = iter(sentences)
    while batch := list(islice(sentences, _SENTENCES_AT_ONCE)):
        counts.update(" ".join(normalizer.normalize(batch)).replace(WORD_START, " ").split(" "))
    # Two spaces in a row have an empty word between them.
    del counts[""]
    return counts


_Variant = tuple[str, int]  # a word, and the number of its segmentation
_Key = TypeVar("_Key")  # a word or a variant


class _Segmentations(Generic[_Key]):
    """A cache of segmented words, or of variants of words, in one array.

    It is cleared when it exceeds `most` words.
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
        segment: Callable[[list[_Key]], Iterable[Sequence[int]]],
    ) -> Flat:
        """Return the ids of texts, given the keys of all texts and their number in each.

        `segment` is called for keys that are not in the cache.
        """
        # Clearing everything is simpler than evicting, and rare.
        if len(self._numbers) > self._most or len(self._ids) > 10 * self._most:
            self._clear()
        numbers = np.fromiter(map(self._numbers.get, keys, repeat(-1)), np.int64, len(keys))
        unknown = np.flatnonzero(numbers < 0)
        new = list(dict.fromkeys(keys[place] for place in unknown.tolist()))
        for key, pieces in zip(new, segment(new) if new else (), strict=True):
            self._numbers[key] = len(self._starts) - 1
            self._ids.extend(pieces)
            self._starts.append(len(self._ids))
        numbers[unknown] = [self._numbers[keys[place]] for place in unknown.tolist()]
        # Gather without a loop in Python: index `places` counts up from the start of each key.
        starts = np.frombuffer(self._starts, np.int64)
        ids = np.frombuffer(self._ids or array("i", [0]), np.int32)
        lengths = starts[numbers + 1] - starts[numbers]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(ends[-1]) + np.repeat(starts[numbers] - ends[:-1], lengths)
        return Flat(ids[places], np.diff(ends[np.cumsum(keys_of_text)], prepend=0))


class BytePairs(Segmenter):
    """A learned SentencePiece model."""

    suffix, model_type = "spm", "bpe"

    def __init__(self, model: bytes):
        super().__init__(model)
        self._processor = _processor(model)
        p = self._processor
        pieces = _pieces(self._processor)
        self.vocabulary = Vocabulary(
            pieces, pad=p.pad_id(), unk=p.unk_id(), bos=p.bos_id(), eos=p.eos_id()
        )
        self._whole = _Segmentations[str](WORDS_REMEMBERED)
        # Variants depend on the rate of dropout, so they are cached for one rate only.
        self._variants = _Segmentations[_Variant](_VARIANTS_REMEMBERED)
        self._rate = 0.0

    @classmethod
    def learn_from_words(
        cls, words: Mapping[str, int], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self:
        """Learn merges from words and their counts; a small corpus gives a smaller vocabulary."""
        # SentencePiece's input format cannot represent words with tabs; bytes spell them later.
        # Pass a list: SentencePiece would swallow an interrupt that is raised inside a generator.
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
                    f"text.vocab_size={settings.vocab_size} is too small: the bytes and characters "
                    f"need {needed} pieces."
                ) from None
            if "vocab_size" in str(error):
                raise ConfigError(
                    f"text.vocab_size={settings.vocab_size} is too small: bytes need 256 pieces."
                ) from None
            raise ConfigError(
                f"text.tokenizer={settings.tokenizer} could not be learned ({error})."
            ) from None
        return cls(model.getvalue())

    def extended(self, pieces: Sequence[str], tags: Sequence[str] = ()) -> Self:
        """Return the model with additional pieces after its own, and with tags.

        Old merges come first, so a text is segmented as before, unless a new piece can be merged
        from its old pieces. Tags never occur in text.
        """
        # Scores fall with the order of merges, so lower ones come after all old merges.
        scores = [self._processor.get_score(i) for i in range(len(self.vocabulary))]
        lowest = min(scores)
        added = [(piece, _NORMAL) for piece in pieces] + [(tag, _CONTROL) for tag in tags]
        # Elements of a repeated field may be anywhere in a protocol-buffer message, so append them.
        appended = b""
        for number, (piece, kind) in enumerate(added):
            message = (
                text_field(1, piece) + float_field(2, lowest - 1 - number) + int_field(3, kind)
            )
            appended += bytes_field(1, message)
        return type(self)(self._model + appended)

    def ids_of_pieces(self, text: str) -> list[int]:
        """Segment normalized text without spaces, such as the text of another model's piece."""
        return self._spell(self.merge(text))

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Ids of the pieces that occur in text; only needed for our own merging."""
        return {piece: i for i, piece in enumerate(self.vocabulary.pieces) if self.is_text(i)}

    def is_text(self, i: int) -> bool:
        # Bytes and special pieces are never the result of a merge.
        p = self._processor
        return not (p.is_byte(i) or p.is_control(i) or p.is_unknown(i) or p.is_unused(i))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        # SentencePiece starts threads for a list, which takes longer than segmenting a few texts,
        # especially on busy cores.
        if len(texts) <= _FEW:
            return [self._processor.encode(text) for text in texts]
        return list(self._processor.encode(list(texts)))

    @cached_property
    def _words_are_apart(self) -> bool:
        """True if no piece, and no run of unknown letters, crosses a space."""
        pieces = self.vocabulary.pieces
        return (
            self._processor.normalize("a b") == f"{WORD_START}a{WORD_START}b"
            and "<0x00>" in self.vocabulary.ids
            and not any(WORD_START in piece[1:] for piece in pieces)
        )

    def encode_flat(self, texts: Sequence[str]) -> Flat:
        """Encode many texts; faster than `encode`, since each word is segmented once."""
        # No piece crosses a space, so a word is segmented the same way in every context, and most
        # words of a corpus are repeated. Learning uses this, too: it needs only counts of words.
        if not self._words_are_apart:
            return super().encode_flat(texts)
        return self._whole.joined(*self._words_of(texts), self._segment)

    def encode_with_dropout(self, texts: Sequence[str], rate: float, seed: int) -> Flat:
        # SentencePiece implements dropout, but its random numbers differ between processes in spite
        # of a seed, and a resumed run must see the same data as an uninterrupted one. Here, each
        # word has a fixed number of variants, each a function of the word and the variant's number,
        # and the seed decides which are used.
        words, words_of_text = self._words_of(texts)
        # One number per word, drawn in order: the result depends on nothing but the seed.
        draw = random.Random(seed)
        numbers = [draw.getrandbits(31) for _ in words]
        if rate != self._rate:
            self._variants = _Segmentations(_VARIANTS_REMEMBERED)
            self._rate = rate
        # In scripts without spaces, a long word is a whole sentence and will not be repeated.
        keys = [
            (word, number % _VARIANTS if len(word) < _LONGEST_REMEMBERED else number)
            for word, number in zip(words, numbers, strict=True)
        ]
        return self._variants.joined(keys, words_of_text, self._segment_with_dropout)

    def _words_of(self, texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Return the words of all texts without their initial `WORD_START`, and the number of words
        in each text.
        """
        normal = self._processor.normalize(list(texts))
        counts = np.fromiter((text.count(WORD_START) for text in normal), np.int64, len(normal))
        return "".join(normal).split(WORD_START)[1:], counts

    def _segment(self, words: list[str]) -> Iterator[Sequence[int]]:
        """Segment words that are already normalized."""
        # SentencePiece normalizes again. If that changes a word, segment it with our own code.
        normal = self._processor.normalize(words)
        encoded = self.encode(words)
        for word, twice_normal, ids in zip(words, normal, encoded, strict=True):
            marked = f"{WORD_START}{word}"
            yield ids if twice_normal == marked else self._spell(self.merge(marked))

    def _segment_with_dropout(self, keys: list[_Variant]) -> Iterator[Sequence[int]]:
        for word, number in keys:
            # Seeding a generator takes longer than segmenting a word, so all variants share a list
            # of random numbers. Each starts at its own place.
            start = zlib.crc32(f"{number} {word}".encode())
            shared = _draws()
            draws = (shared[i % len(shared)] for i in count(start))
            yield self._spell(self.merge(f"{WORD_START}{word}", self._rate, draws))

    def merge(
        self,
        word: str,
        rate: float = 0.0,
        draws: Iterator[float] = repeat(1.0),
        history: list[list[str]] | None = None,
    ) -> list[str]:
        """Merge neighbors, the best pair first, until no merge is possible.

        Each possible merge is dropped at random with the given rate, anew in every round. The parts
        after each merge are appended to `history`.
        """
        parts = list(word)
        ids = self._ids
        none = len(self.vocabulary)
        # Ids of pieces are in the order of their merges. A merge changes the ranks next to it only.
        ranks = [ids.get(left + right, none) for left, right in pairwise(parts)]
        while (best := min(ranks, default=none)) < none:
            # The best merge that is not dropped counts, so draw from the best one on and stop at
            # the first success.
            remaining = ranks
            while best < none and next(draws) < rate:
                remaining = [*remaining]
                remaining[remaining.index(best)] = none
                best = min(remaining)
            if best == none:
                return parts
            place = remaining.index(best)
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
        """Return for each word of a text its characters, then its parts after each merge."""
        histories = []
        for word in self._words_of([text])[0]:
            history = [list(f"{WORD_START}{word}")]
            self.merge(f"{WORD_START}{word}", history=history)
            histories.append(history)
        return histories

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


class Characters(BytePairs):
    """Byte-pair encoding without merges: each character and each space is a piece."""

    model_type = "char"


class Words(Segmenter):
    """The most frequent words and punctuation marks; any other is `<unk>`.

    A word is a run of anything but spaces and punctuation; each punctuation mark is its own piece.
    The space before it belongs to a piece, as in SentencePiece, so joined pieces give the text.

    >>> Words.learn(["Ja, ja!"], TextConfig()).vocabulary.pieces[4:]
    ('▁Ja', ',', '▁ja', '!')
    """

    suffix = "json"

    def __init__(self, model: bytes):
        super().__init__(model)
        try:
            stored = parse_json(model)
            rule = str(stored["normalisation"])
            pieces = tuple(map(str, stored["pieces"]))
            self._normalizer = sentencepiece.SentencePieceNormalizer(rule_name=rule)
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise BundleError(f"the list of words cannot be read ({error}).") from None
        if pieces[: len(SPECIAL)] != SPECIAL:
            raise BundleError(f"the list of words does not begin with {', '.join(SPECIAL)}.")
        self.vocabulary = Vocabulary(pieces)

    @classmethod
    def learn_from_words(
        cls, words: Mapping[str, int], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self:
        """Take the most frequent words and punctuation marks that fit into the vocabulary."""
        room = settings.vocab_size - len(SPECIAL) - len(tags)
        if room < 1:
            raise ConfigError(
                f"text.vocab_size={settings.vocab_size} is too small: {', '.join(SPECIAL)} and "
                "language tags leave no room for words."
            )
        # A word between spaces may contain punctuation, which becomes pieces of its own.
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
        # `normalize` is SentencePiece's, so all tokenizers see the same characters.
        ids, unk = self.vocabulary.ids, self.vocabulary.unk
        return [
            [ids.get(piece, unk) for piece in _words_and_marks(self._normalizer.normalize(text))]
            for text in texts
        ]

    def decode(self, ids: Sequence[int]) -> str:
        unk, pieces = self.vocabulary.unk, self.vocabulary.pieces
        joined = "".join(f"{WORD_START}{pieces[unk]}" if i == unk else pieces[i] for i in ids)
        return joined.replace(WORD_START, " ").strip()


def _words_and_marks(text: str) -> Iterator[str]:
    for between_spaces in text.split():
        yield from _WORDS_AND_MARKS.findall(WORD_START + between_spaces)


class MarianPieces(Segmenter):
    """SentencePiece with a separate vocabulary, as in models of other systems.

    `start` is the first input of the decoder. `barred` are pieces that no translation may contain,
    such as language tags.
    """

    suffix = "spm"

    def __init__(
        self, model: bytes, pieces: Sequence[str], start: str = "<pad>", barred: Sequence[str] = ()
    ):
        super().__init__(model)
        self._processor = _processor(model)
        _pieces(self._processor)
        ids = {piece: number for number, piece in enumerate(pieces)}
        try:
            unk, eos, bos = ids["<unk>"], ids["</s>"], ids[start]
            # Padding must not occur in text. OpenNMT's vocabularies call it <blank>. If a
            # vocabulary has no such piece, use the start piece, which is never predicted either.
            pad = next(ids[name] for name in ("<pad>", "<blank>", start) if name in ids)
        except KeyError as error:
            raise BundleError(f"the vocabulary has no piece {error}.") from None
        self.vocabulary = Vocabulary(
            tuple(pieces), pad, unk, bos, eos, tuple(ids[piece] for piece in barred if piece in ids)
        )

    @classmethod
    def learn_from_words(
        cls, words: Mapping[str, int], settings: TextConfig, tags: Sequence[str] = ()
    ) -> Self:
        raise ConfigError(
            "text.tokenizer=marian comes with converted models and cannot be learned: use bpe."
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids, unk = self.vocabulary.ids, self.vocabulary.unk
        return [
            [ids.get(piece, unk) for piece in pieces]
            for pieces in self._processor.encode(list(texts), out_type=str)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode_pieces([self.vocabulary.pieces[i] for i in ids]))


@cache
def _draws() -> list[float]:
    """Return random numbers between 0 and 1, the same in every process."""
    draws: list[float] = np.random.Generator(np.random.Philox(0)).random(2**16).tolist()
    return draws


def _processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a SentencePiece model from a file that may come from a stranger."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        longest = max(map(len, _replacements(model)), default=0)
        processor.load_from_serialized_proto(model)
    except (RuntimeError, ValueError) as error:
        raise BundleError(f"the SentencePiece model cannot be read ({error}).") from None
    if longest > _LONGEST_REPLACEMENT:
        raise BundleError(
            f"the SentencePiece model has a normalization rule that expands to {longest:,} bytes."
        )
    return processor


def pieces_of_model(model: bytes) -> tuple[str, ...]:
    """Return the pieces of a SentencePiece model in the order of their ids."""
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
    """Yield the replacement texts of a model's normalization rules.

    In `sentencepiece_model.proto`, a ModelProto has a NormalizerSpec for input (field 3) and one
    for output (field 5). Field 2 of both is `precompiled_charsmap`: the size of a search tree, the
    tree, and the replacements, each terminated by a NUL.
    """
    # The pieces come first (field 1): tens of thousands of messages, most of a few bytes. Skip them
    # without parsing.
    place = 0
    while place + 1 < len(model) and model[place] == 0x0A and model[place + 1] < 0x80:
        place += 2 + model[place + 1]
    for number, rules in message_fields(model[place:]):
        for part, packed in message_fields(rules) if number in (3, 5) else ():
            if part == 2:
                tree = int.from_bytes(packed[:4], "little")
                yield from packed[4 + tree :].split(b"\0")


SEGMENTERS: dict[str, type[Segmenter]] = {
    "bpe": BytePairs, "word": Words, "character": Characters, "marian": MarianPieces,
}  # fmt: skip


def pieces_of_names(pieces: Sequence[str]) -> Iterator[Sequence[str]]:
    """Generate the pieces of each word in mixed case that has more than one piece.

    A frequent word is a single piece, and the model knows how to translate it.

    >>> [*pieces_of_names(["▁Der", "▁al", "te", "▁Dö", "hl", "▁schläft"])]
    [['▁Dö', 'hl']]
    """
    start = 0
    for end in range(1, len(pieces) + 1):
        if end < len(pieces) and not pieces[end].startswith(WORD_START):
            continue
        if end - start > 1:
            word = pieces[start:end]
            letters = "".join(word)
            if letters.lower() != letters != letters.upper():
                yield word
        start = end
