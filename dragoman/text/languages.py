"""Languages of models: what each reads and writes, and which model a text goes to."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.errors import BundleError, TranslationError
from dragoman.storage.safe_read import parse_json
from dragoman.text.detect import COVERED, Detected, detect, surely_none_of

AUTO = "auto"
"""The source language that is to be detected."""
LANGUAGES_FILE = "languages.json"
_LONGEST_CODE = 99  # characters of a language's code


@dataclass(frozen=True)
class Languages:
    """Codes of what a model reads and writes; empty if nobody named them."""

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for code in self.sources + self.targets:
            if not isinstance(code, str) or not code.isprintable() or len(code) > _LONGEST_CODE:
                shown = repr(code)[:_LONGEST_CODE]
                raise BundleError(f"the language {shown} is no code such as de or zh_Hant.")

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Languages":
        try:
            named = parse_json(raw)
            return cls(tuple(named["source"]), tuple(named["target"]))
        except (ValueError, TypeError, KeyError) as error:
            raise BundleError(f"{LANGUAGES_FILE} cannot be read ({error}).") from None

    def to_bytes(self) -> bytes:
        return (json.dumps({"source": self.sources, "target": self.targets}) + "\n").encode()

    @property
    def tagged(self) -> bool:
        """Whether a source begins with a tag that names the target language."""
        return len(self.targets) > 1

    def default_target(self, source: str = "") -> str:
        """The target if nobody names one: the model's first that is not the source itself."""
        others = [target for target in self.targets if target != source]
        return (others or [*self.targets, ""])[0]

    def takes(self, source: str, target: str) -> bool:
        """Whether the model translates so; an empty code stands for any language.

        A model that does not know its languages takes every text.
        """
        reads = not (source and self.sources) or source in self.sources
        writes = not (target and self.targets) or target in self.targets
        return reads and writes and not (self.sources and source and source == target)


def known_code(code: str, codes: Iterable[str]) -> str:
    """The one of these codes that is meant by another way to write it; else the code itself.

    >>> [known_code(code, ["en", "pt", "zh_Hant"]) for code in ("EN", "pt-BR", "zh-hant", "xx")]
    ['en', 'pt', 'zh_Hant', 'xx']
    """
    known = [*codes]
    if code in known:
        return code
    plain = {one.lower().replace("_", "-"): one for one in known}
    wanted = code.lower().replace("_", "-")
    return plain.get(wanted) or plain.get(wanted.partition("-")[0]) or code


def reason_to_keep(text: str, sources: Sequence[str], target: str) -> str:
    """Why a text is not to be translated but stays as it is; "" if nothing speaks against it.

    It is in the target language already, or in one that is none of the sources.
    """
    language = kept_language(text, sources, target)
    if not language:
        return ""
    if language == known_code(target, COVERED):
        return f"this text is in {target!r} already, and stays as it is"
    return f"this text seems to be in {language!r}, which is not translated here: it stays as it is"


def kept_language(text: str, sources: Sequence[str], target: str) -> str:
    """The language of a text that is not to be translated; "" if it is."""
    into = known_code(target, COVERED)
    expected = [known_code(code, COVERED) for code in sources]
    return surely_none_of(text, [code for code in expected if code != into]) if sources else ""


class ModelChoice(NamedTuple):
    """Which of several models a text goes to, and from which language into which.

    `note`: why the text stays as it is, if it does.
    """

    number: int  # of the model
    source: str
    target: str
    detected: Detected | None
    note: str = ""


def choose_model(models: Sequence[Languages], text: str, source: str, target: str) -> ModelChoice:
    """The first model that translates so.

    If the source is `AUTO`, it is the most likely language of the text that any model takes. A
    text that is in the target language already, or that no model reads, comes with a note.
    """
    known = known_languages(models)
    source, target = known_code(source, [AUTO, *known]), known_code(target, known)
    detected = detect(text, known) if source == AUTO else []
    if not text.strip():
        detected = [guess._replace(confidence=0.0) for guess in detected]
    guesses: list[Detected | None] = [*detected] or [None]
    for guess in guesses:
        language = guess.language if guess else source
        for number, languages in enumerate(models):
            if languages.takes(language, target):
                into = target or languages.default_target(language)
                sources = _sources(models, into) if guess else []
                note = reason_to_keep(text, sources, into)
                if note:
                    kept = kept_language(text, sources, into)
                    # A script tells a language that is never counted.
                    guess = Detected(kept, dict(detect(text)).get(kept, 100.0))
                return ModelChoice(number, language, into, guess, note)
    pairs = "; ".join(
        f"{code} to {', '.join(targets)}" for code, targets in pairs_of(models).items() if targets
    )
    language = detected[0].language if detected else source
    wanted = f" to {target!r}" if target else ""
    raise TranslationError(f"no model here translates {language!r}{wanted}; there is {pairs}.")


def _sources(models: Sequence[Languages], target: str) -> list[str]:
    """What can be translated into a language; nothing if a model does not say what it reads."""
    writing = [languages for languages in models if languages.takes("", target)]
    if not all(languages.sources for languages in writing):
        return []
    return [code for each in writing for code in each.sources]


def known_languages(models: Sequence[Languages]) -> list[str]:
    """All languages that these models read or write."""
    return [code for languages in models for code in (*languages.sources, *languages.targets)]


def pairs_of(models: Sequence[Languages]) -> dict[str, list[str]]:
    """Every language and what it can be translated into: nothing, if it is only a target."""
    pairs: dict[str, list[str]] = {}
    for languages in models:
        for source in languages.sources:
            pairs.setdefault(source, []).extend(t for t in languages.targets if t != source)
    for languages in models:
        for target in languages.targets:
            pairs.setdefault(target, [])
    return {source: list(dict.fromkeys(targets)) for source, targets in pairs.items()}
