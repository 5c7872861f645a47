"""Lines become parts, as ids, that the model can take at once."""

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from dragoman.config import DecodingConfig
from dragoman.decode.promises.glossary import Demand
from dragoman.decode.request import Request
from dragoman.errors import TranslationError
from dragoman.text.codec import Codec
from dragoman.text.detect import WORDS as DETECTED
from dragoman.text.detect import detect
from dragoman.text.names import NOUNS_IN_CAPITALS, pieces_of_names
from dragoman.text.numbers import in_24_hours
from dragoman.text.segments import (
    begins_with_capital,
    is_in_capitals,
    sentence_case,
    split_sentences,
    split_to_fit,
)

Listed: TypeAlias = Callable[[Sequence[int]], Container[int] | None]
"""The target pieces that a translation of a source may hold; None: all."""


class Part(NamedTuple):
    """A line, or a piece of one too long, on its way to the model."""

    line: int
    number: int
    ids: list[int]
    to: str
    text: str
    demands: tuple[Demand, ...] = ()  # of the glossary
    source: str = ""  # its language, where the model must be told
    in_capitals: bool = False  # the model reads small letters, and its answer is put in capitals
    capital: bool = False  # its translation begins with one
    left_out: tuple[int, ...] = ()  # words of the line that are not in the text: pm
    all_pieces: bool = False  # a name in it has pieces that the shortlist leaves out


class Splitter:
    """`decoding`: the model's own settings; `max_length`: pieces that its engine takes at once;
    `listed`: those that a translation of a source may hold."""

    def __init__(
        self, codec: Codec, decoding: DecodingConfig, max_length: int | None, listed: Listed
    ):
        self._codec, self._decoding, self._max_length = codec, decoding, max_length
        self._listed = listed

    def __call__(self, lines: Sequence[str], request: Request, first: int = 0) -> list[Part]:
        """The parts of the lines, several of a long one, none of an empty one.

        `first`: the number of the first line.
        """
        rows_of_pair: dict[tuple[str, str], list[int]] = {}
        for row, text in enumerate(lines):
            if text.strip():
                pair = self.target(text, request), self.source(text, request)
                rows_of_pair.setdefault(pair, []).append(row)
        parts: list[Part] = []
        by_sentence = self._settings(request).split_sentences
        for (to, source), rows in rows_of_pair.items():
            wholes = [Part(first + row, 0, [], to, lines[row], source=source) for row in rows]
            for whole in self.encode(wholes, request):
                line = lines[whole.line - first]
                texts = split_sentences(line, request.source_language)[0] if by_sentence else [line]
                if len(texts) == 1 and len(whole.ids) <= self.longest(request):
                    parts.append(whole)
                else:
                    parts += self._pieces(whole, texts, request)
        return parts

    def _with_hours(self, part: Part, request: Request) -> Part:
        """A part whose times the model understands."""
        text, left_out = in_24_hours(part.text, "en", part.to)
        unchanged = not left_out and text == part.text
        if unchanged or not self._settings(request).keep_numbers:
            return part
        # The language last: it takes longer to detect than to find no time.
        if self.language(part.text, request) != "en":
            return part
        return part._replace(text=text, left_out=left_out)

    def encode(self, parts: Sequence[Part], request: Request) -> list[Part]:
        """The parts with the ids, and the terms, of their texts; all are of one language pair."""
        if not parts:
            return []
        parts = [self._with_hours(part, request) for part in parts]
        keeps = self._settings(request).keep_capitals
        loud = [keeps and is_in_capitals(part.text) for part in parts]
        # Few sentences that the model learned from were in capitals.
        read = [
            sentence_case(part.text) if in_capitals else part.text
            for part, in_capitals in zip(parts, loud, strict=True)
        ]
        encoded = self._codec.encode_source(read, parts[0].to, parts[0].source)
        whole: list[Part] = []
        for part, ids, in_capitals in zip(parts, encoded, loud, strict=True):
            language = part.source or request.source_language
            demands = request.glossary.demands(part.text, language, part.to)
            # What a user demands, a term or a prefix, is written as the user writes it.
            free = keeps and not demands and not request.prefix
            capital = free and begins_with_capital(part.text)
            whole.append(
                part._replace(
                    ids=ids,
                    demands=demands,
                    in_capitals=in_capitals,
                    capital=capital,
                    all_pieces=self._has_unlisted_name(part, ids, request),
                )
            )
        return whole

    def _has_unlisted_name(self, part: Part, ids: Sequence[int], request: Request) -> bool:
        """Whether a name has pieces that the shortlist leaves out.

        German nouns look like names. There, only pieces count that German does not use either.
        """
        settings = self._settings(request)
        listed = self._listed(ids) if settings.keep_names and settings.shortlist else None
        if listed is None:
            return False
        numbers = self._codec.target.ids
        of_names = pieces_of_names([*map(self._codec.source.pieces.__getitem__, ids)])
        said = [numbers[piece] for pieces in of_names for piece in pieces if piece in numbers]
        unlisted = [number for number in said if number not in listed]
        if not unlisted:
            return False
        language = self.language(part.text, request)
        if language not in NOUNS_IN_CAPITALS:
            return True
        tag = self._codec.tag(language) if language in self._codec.languages.targets else None
        own = self._listed([tag]) if tag is not None else None
        return own is not None and any(number not in own for number in unlisted)

    def changed(self, part: Part, text: str, request: Request) -> Part:
        """The part with another text."""
        return self.encode([part._replace(text=text)], request)[0]

    def speaks(self, language: str) -> bool:
        """Whether the model translates from a language and into it."""
        languages = self._codec.languages
        return language in languages.sources and language in languages.targets

    def can_spell(self, part: Part, word: str) -> bool:
        """Whether the search for a part was free to say all pieces of a word."""
        listed = None if part.all_pieces else self._listed(part.ids)
        return listed is None or all(i in listed for i in self._codec.encode_target([word])[0])

    def encode_whole(self, text: str, request: Request) -> list[int]:
        """A text's ids, where the model can look at all of it at once."""
        to, source = self.target(text, request), self.source(text, request)
        ids = self._codec.encode_source([text], to, source)[0]
        longest = self.longest(request)
        if len(ids) > longest:
            raise TranslationError(
                f"the text has {len(ids)} pieces, the model looks at {longest} at once: shorten it."
            )
        return ids

    def longest(self, request: Request) -> int:
        """The most source pieces taken at once, their end included."""
        limit = self._settings(request).max_source_length
        return limit if self._max_length is None else min(limit, self._max_length)

    def target(self, text: str, request: Request) -> str:
        """The language to translate a text into.

        If nobody names one, it depends on that of the text.
        """
        languages, source = self._codec.languages, request.source_language
        if languages.tagged and not (request.to or source):
            source = detect(text, languages.sources)[0].language
        return request.to or languages.default_target(source)

    def source(self, text: str, request: Request) -> str:
        """The language of a text, where the model must be told it."""
        if request.source_language or not self._codec.framing.names_source:
            return request.source_language
        known = [code for code in self._codec.languages.sources if code in DETECTED]
        return detect(text, known)[0].language if known else ""

    def language(self, text: str, request: Request) -> str:
        """The language of a text, whether or not the model must be told; empty if nobody knows."""
        codes = [request.source_language] if request.source_language else []
        known = codes or [code for code in self._codec.languages.sources if code in DETECTED]
        return detect(text, known)[0].language if len(known) > 1 else "".join(known)

    def _settings(self, request: Request) -> DecodingConfig:
        return request.decoding or self._decoding

    def _pieces(self, whole: Part, texts: Sequence[str], request: Request) -> list[Part]:
        """The sentences of a line as parts, with those that are too long cut to fit."""
        fits = partial(self._fits, whole, self.longest(request))
        fitting = [piece for text in texts for piece in split_to_fit(text, fits) if piece.strip()]
        # What the whole line leaves out is some piece's, whose own look finds it again.
        pieces = [
            whole._replace(number=n, text=text, left_out=()) for n, text in enumerate(fitting)
        ]
        return self.encode(pieces, request)

    def _fits(self, whole: Part, longest: int, text: str) -> bool:
        return len(self._codec.encode_source([text], whole.to, whole.source)[0]) <= longest
