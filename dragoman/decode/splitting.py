"""Split lines into parts that the model can take at once, and encode them."""

import re
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, TypeAlias

from dragoman.config import DecodingConfig
from dragoman.decode.request import Request
from dragoman.errors import TranslationError
from dragoman.text.codec import Codec
from dragoman.text.detect import WORDS as DETECTED
from dragoman.text.detect import detect
from dragoman.text.glossary import Demand
from dragoman.text.languages import NOUNS_IN_CAPITALS
from dragoman.text.masks import Mask, annotated, masked, words_as_masks
from dragoman.text.numbers import in_24_hours
from dragoman.text.segments import (
    begins_with_capital,
    ends_sentence,
    is_in_capitals,
    sentence_case,
    split_sentences,
    split_to_fit,
)
from dragoman.text.subword import pieces_of_names
from dragoman.text.vocabulary import MASKS

_DIGIT = re.compile(r"\d")
_CHARACTERS_BETWEEN_PAUSES = 5000
Listed: TypeAlias = Callable[[Sequence[int]], Container[int] | None]
"""Returns the target pieces that a translation of a source may contain; None means all."""


class Part(NamedTuple):
    """A line, or a piece of a longer one, on its way to the model."""

    line: int
    number: int
    ids: list[int]
    to: str
    text: str
    demands: tuple[Demand, ...] = ()  # of the glossary
    source: str = ""  # its language, if the model needs to know it
    in_capitals: bool = False  # the model reads lower case, and its output is converted to capitals
    capital: bool = False  # its translation begins with a capital
    left_out: tuple[int, ...] = ()  # words of the line that the text omits, such as "pm"
    all_pieces: bool = False  # it needs pieces that the shortlist leaves out
    masks: tuple[Mask, ...] = ()  # in the text that the model reads
    is_cut: bool = False  # it ends within a sentence, which is too long for the model


class Splitter:
    """Splits and encodes lines.

    `decoding` are the model's own settings, and `max_length` is the number of pieces that its
    engine takes at once. `listed` returns the pieces that a translation may contain.
    """

    def __init__(
        self, codec: Codec, decoding: DecodingConfig, max_length: int | None, listed: Listed
    ):
        self._codec, self._decoding, self._max_length = codec, decoding, max_length
        self._listed = listed

    def __call__(self, lines: Sequence[str], request: Request, first: int = 0) -> list[Part]:
        """Return the parts of lines: several for a long line, none for an empty one.

        `first` is the number of the first line.
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
        """Convert the times of an English part to 24 hours."""
        text, left_out = in_24_hours(part.text, "en", part.to)
        unchanged = not left_out and text == part.text
        if unchanged or not self._settings(request).keep_numbers:
            return part
        # Detecting the language takes longer than finding no time, so it comes last.
        if self.language(part.text, request) != "en":
            return part
        return part._replace(text=text, left_out=left_out)

    def encode(
        self, parts: Sequence[Part], request: Request, lost_by: str | None = None
    ) -> list[Part]:
        """Add ids, masks and terms to parts of the same language pair.

        `lost_by` is a translation of the only part that has lost something: more is masked then,
        with words as masks if the model has none.
        """
        if not parts:
            return []
        parts = [self._with_hours(part, request) for part in parts]
        keeps = self._settings(request).keep_capitals
        loud = [keeps and is_in_capitals(part.text) for part in parts]
        # Few sentences of the training data are in capitals.
        read = [
            sentence_case(part.text) if in_capitals else part.text
            for part, in_capitals in zip(parts, loud, strict=True)
        ]
        masks: list[tuple[Mask, ...]] = [()] * len(parts)
        demands = [
            request.glossary.demands(part.text, part.source or request.source_language, part.to)
            for part in parts
        ]
        # A forced prefix may hold what would be masked, and an observer watches plain text.
        has_masks = self._codec.has_masks
        if (has_masks or lost_by is not None) and not (request.prefix or request.observer):
            for row, (part, text, own) in enumerate(zip(parts, read, demands, strict=True)):
                symbols = MASKS if has_masks else words_as_masks(text)
                language = self.language_of_numbers(part, request)
                spells = self._codec.spells
                text, masks[row] = masked(text, spells, language, part.to, symbols, lost_by)
                terms = [(one.source, one.targets[0]) for one in own] if has_masks else []
                read[row] = annotated(text, terms)
        encoded = self._encoded(read, parts[0].to, parts[0].source, request)
        whole: list[Part] = []
        every = zip(parts, encoded, loud, masks, demands, strict=True)
        for part, ids, in_capitals, own_masks, own_demands in every:
            # Terms and prefixes keep the spelling of the user.
            free = keeps and not own_demands and not request.prefix
            capital = free and begins_with_capital(part.text)
            whole.append(
                part._replace(
                    ids=ids,
                    demands=own_demands,
                    in_capitals=in_capitals,
                    capital=capital,
                    all_pieces=bool(own_masks) or self._has_unlisted_name(part, ids, request),
                    masks=own_masks,
                )
            )
        return whole

    def _encoded(
        self, texts: Sequence[str], to: str, source: str, request: Request
    ) -> list[list[int]]:
        """Encode texts, with pauses between long ones."""
        encoded: list[list[int]] = []
        start = characters = 0
        for end, text in enumerate(texts, 1):
            characters += len(text)
            if characters >= _CHARACTERS_BETWEEN_PAUSES or end == len(texts):
                encoded += self._codec.encode_source(texts[start:end], to, source)
                start, characters = end, 0
                request.pause()
        return encoded

    def _has_unlisted_name(self, part: Part, ids: Sequence[int], request: Request) -> bool:
        """Tell whether a name has pieces that the shortlist omits.

        German nouns look like names, so in German only pieces count that German does not use.
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

    def language_of_numbers(self, part: Part, request: Request) -> str:
        """Return the language of a part with digits; other texts need none, and detection takes
        long."""
        return self.language(part.text, request) if _DIGIT.search(part.text) else ""

    def changed(self, part: Part, text: str, request: Request) -> Part:
        """Return the part with another text."""
        return self.encode([part._replace(text=text)], request)[0]

    def speaks(self, language: str) -> bool:
        """Tell whether the model translates from and into a language."""
        languages = self._codec.languages
        return language in languages.sources and language in languages.targets

    def spells(self, character: str) -> bool:
        """Tell whether the vocabulary has a character."""
        return self._codec.spells(character)

    def can_spell(self, part: Part, word: str) -> bool:
        """Tell whether the shortlist of a part's search has all pieces of a word."""
        listed = None if part.all_pieces else self._listed(part.ids)
        return listed is None or all(i in listed for i in self._codec.encode_target([word])[0])

    def encode_whole(self, text: str, request: Request) -> list[int]:
        """Encode a text that must fit the model as a whole."""
        to, source = self.target(text, request), self.source(text, request)
        ids = self._codec.encode_source([text], to, source)[0]
        longest = self.longest(request)
        if len(ids) > longest:
            raise TranslationError(
                f"the text has {len(ids)} pieces, the model looks at {longest} at once: shorten it."
            )
        return ids

    def longest(self, request: Request) -> int:
        """Return the maximum number of source pieces, including the end."""
        limit = self._settings(request).max_source_length
        return limit if self._max_length is None else min(limit, self._max_length)

    def target(self, text: str, request: Request) -> str:
        """Return the language to translate a text into; by default it depends on the text's own."""
        languages, source = self._codec.languages, request.source_language
        if languages.tagged and not (request.to or source):
            source = detect(text, languages.sources)[0].language
        return request.to or languages.default_target(source)

    def source(self, text: str, request: Request) -> str:
        """Return the language of a text, if the model needs to know it."""
        if request.source_language or not self._codec.framing.names_source:
            return request.source_language
        known = [code for code in self._codec.languages.sources if code in DETECTED]
        return detect(text, known)[0].language if known else ""

    def language(self, text: str, request: Request) -> str:
        """Return the language of a text, or an empty string if it is unknown."""
        codes = [request.source_language] if request.source_language else []
        known = codes or [code for code in self._codec.languages.sources if code in DETECTED]
        return detect(text, known)[0].language if len(known) > 1 else "".join(known)

    def _settings(self, request: Request) -> DecodingConfig:
        return request.decoding or self._decoding

    def _pieces(self, whole: Part, texts: Sequence[str], request: Request) -> list[Part]:
        """Split a line into its sentences, and long sentences into pieces that fit."""
        longest = self.longest(request)

        def fits(text: str) -> bool:
            request.pause()  # splitting a long text tests many pieces
            return self._fits(whole, longest, text)

        fitting: list[tuple[str, bool]] = []
        for text in texts:
            own = [piece for piece in split_to_fit(text, fits) if piece.strip()]
            fitting += [(piece, not ends_sentence(piece)) for piece in own[:-1]]
            fitting += [(piece, False) for piece in own[-1:]]
        # Words that the whole line omits are found again in their piece.
        pieces = [
            whole._replace(number=n, text=text, left_out=(), is_cut=is_cut)
            for n, (text, is_cut) in enumerate(fitting)
        ]
        return self.encode(pieces, request)

    def _fits(self, whole: Part, longest: int, text: str) -> bool:
        return len(self._codec.encode_source([text], whole.to, whole.source)[0]) <= longest
