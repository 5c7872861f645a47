"""Cutting text into pieces: byte-pair encoding by SentencePiece (Sennrich et al. 2016; Kudo & Richardson 2018).

Characters too rare for a piece of their own are spelled in UTF-8 bytes ("byte fallback"), so no text is unknown.
BPE-dropout (Provilkov et al. 2020) skips merges at random. SentencePiece draws from one generator per thread and reads
its seed only when the thread first draws; its encoder of lists starts a fresh thread for each call, which makes the
segmentation of a list a function of the seed given (with one thread: several share the list as they come).
"""

import io
from collections.abc import Iterable, Sequence
from typing import Protocol

import sentencepiece

from dragoman.config import TextConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.text.vocabulary import Vocabulary

SENTENCES_TO_LEARN_FROM = 2_000_000
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's mark for a space


class Segmenter(Protocol):
    """What cuts and joins text; the ids are those of its own vocabulary."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...
    def encode_with_dropout(self, texts: Sequence[str], rate: float, seed: int) -> list[list[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def to_bytes(self) -> bytes: ...


class BytePairs:
    """A learned SentencePiece model."""

    def __init__(self, model: bytes):
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(model)
        except RuntimeError as error:
            raise BundleError(f"the SentencePiece model cannot be read ({error}).") from None
        count = self._processor.get_piece_size()
        self.vocabulary = Vocabulary(
            tuple(self._processor.id_to_piece(list(range(count)))),
            pad=self._processor.pad_id(),
            unk=self._processor.unk_id(),
            bos=self._processor.bos_id(),
            eos=self._processor.eos_id(),
        )

    @classmethod
    def learn(cls, sentences: Iterable[str], settings: TextConfig, tags: Sequence[str] = ()) -> "BytePairs":
        """Merges learned from sentences; the vocabulary shrinks to what a small corpus gives."""
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                model_type="bpe",
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
            raise ConfigError(f"byte-pair encoding could not be learned ({error}).") from None
        return cls(model.getvalue())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return list(self._processor.encode(list(texts)))

    def encode_with_dropout(self, texts: Sequence[str], rate: float, seed: int) -> list[list[int]]:
        sentencepiece.set_random_generator_seed(seed % 2**32)
        return list(self._processor.encode(list(texts), enable_sampling=True, alpha=rate, nbest_size=-1, num_threads=1))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode(list(ids)))

    def to_bytes(self) -> bytes:
        return self._model


SEGMENTERS: dict[str, type[BytePairs]] = {"bpe": BytePairs}
