"""What is asked of a translator: a `Request`, or the same in keywords."""

from dataclasses import dataclass, field
from typing import TypedDict

from dragoman.config import DecodingConfig
from dragoman.decode.promises.glossary import NO_TERMS, Glossary
from dragoman.decode.search.hypotheses import OnStep
from dragoman.decode.search.task import Observer, Sampling
from dragoman.text.translation_memory import Memory


@dataclass(frozen=True)
class Request:
    """How to translate.

    Attributes:
        to: Target language, for models with several.
        source_language: Source language; without it, the model guesses.
        decoding: Settings of the search; without them, those of the model.
        nbest: Number of translations of each text.
        prefix: What each translation must begin with.
        alignments: Whether to link the words of source and translation.
        sampling: Draw translations instead of searching for the best.
        glossary: Terms that must be translated as it says.
        observer: Sees every step of the search.
        on_step: Called before every step of every search; what it raises ends the search.
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
    # what was translated before: exact matches are taken over, near ones are shown
    memory: Memory | None = field(default=None, compare=False)


class Options(TypedDict, total=False):
    """What can be said in keywords, as in `translator("Guten Tag!", to="en", nbest=3)`."""

    to: str  # the target language
    source: str  # the source language; detected if it is not given
    beam: int  # hypotheses that search keeps; 1 is greedy
    nbest: int  # translations of each text
    prefix: str  # what every translation must begin with
    alignments: bool  # link words
    sampling: Sampling  # draw instead of searching
    glossary: Glossary  # terms that must be translated as it says
