"""Translation parameters: a `Request`, or the same as keyword arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

from dragoman.config import DecodingConfig
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.search.task import Observer, Sampling
from dragoman.text.glossary import NO_TERMS, Glossary
from dragoman.text.translation_memory import Memory


def call(function: Callable[[], None]) -> None:
    function()


@dataclass(frozen=True)
class Request:
    """The parameters of a translation.

    Attributes:
        to: The target language, for models with several.
        source_language: The source language; detected if empty.
        decoding: The settings of the search; None uses the model's own.
        nbest: The number of translations of each text.
        prefix: A forced prefix of each translation.
        alignments: Whether to link the words of source and translation.
        sampling: How to sample translations; None searches for the best.
        glossary: Terms with their required translations.
        observer: Called with every step of the search.
        on_step: Called before every step of every search; an exception from it ends the search.
        on_text: Called between steps of long work on texts; an exception from it ends the work.
        memory: A translation memory: exact matches replace translations, near ones are reported.
        outside: Runs a function that waits for another program, so that others may work meanwhile.
    """

    to: str = ""
    source_language: str = ""
    decoding: DecodingConfig | None = None
    nbest: int = 1
    prefix: str = ""
    alignments: bool = False
    sampling: Sampling | None = None
    glossary: Glossary = NO_TERMS
    observer: Observer | None = None
    on_step: OnStep | None = field(default=None, compare=False)
    on_text: OnStep | None = field(default=None, compare=False)
    memory: Memory | None = field(default=None, compare=False)
    outside: Callable[[Callable[[], None]], None] = field(default=call, compare=False)

    def pause(self) -> None:
        """Call `on_text`."""
        if self.on_text is not None:
            self.on_text()


class Options(TypedDict, total=False):
    """The keyword arguments of a translation: `translator("Guten Tag!", to="en", nbest=3)`."""

    to: str  # the target language
    source: str  # the source language; detected by default
    beam: int  # beam size; 1 is greedy search
    nbest: int  # number of translations of each text
    prefix: str  # forced prefix of every translation
    alignments: bool  # link the words of source and translation
    sampling: Sampling  # sample instead of searching
    glossary: Glossary  # terms with their required translations
