"""Languages of models, and the choice of a model for a text."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.errors import BundleError, TranslationError
from dragoman.storage.safe_read import parse_json
from dragoman.text.detect import COVERED, Detected, detect, surely_none_of

AUTO = "auto"  # as a source language: detect it
NOUNS_IN_CAPITALS = ("de",)  # languages that capitalize all nouns
LANGUAGES_FILE = "languages.json"
_LONGEST_CODE = 99  # characters of a language's code
# fmt: off
NAMES = {
    "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian",
    "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian",
    "lv": "Latvian", "mk": "Macedonian", "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sr": "Serbian", "sv": "Swedish", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}
# fmt: on


@dataclass(frozen=True)
class Languages:
    """The languages that a model reads and writes; empty if they are unknown."""

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for code in self.sources + self.targets:
            if not isinstance(code, str) or not code.isprintable() or len(code) > _LONGEST_CODE:
                shown = repr(code)[:_LONGEST_CODE]
                raise BundleError(
                    f"{shown} is not a language code (expected e.g. 'de', 'zh_Hant')."
                )

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
        """True if a source begins with a tag of the target language."""
        return len(self.targets) > 1

    def default_target(self, source: str = "") -> str:
        """Return the model's first target language that is not the source."""
        # A model with a single target translates into it in any case.
        others = [target for target in self.targets if target != source]
        return (others or [*self.targets, ""])[0]

    def takes(self, source: str, target: str) -> bool:
        """True if the model translates between these languages; an empty code means any.

        A model with unknown languages takes every text.
        """
        # A model may write its source language, too, but would only copy the text.
        reads = not (source and self.sources) or source in self.sources
        writes = not (target and self.targets) or target in self.targets
        return reads and writes and not (self.sources and source and source == target)


def known_code(code: str, codes: Iterable[str]) -> str:
    """Return the equivalent of a language code among `codes`, or else the code itself.

    >>> [known_code(code, ["en", "pt", "zh_Hant"]) for code in ("EN", "pt-BR", "zh-hant", "xx")]
    ['en', 'pt', 'zh_Hant', 'xx']
    """
    known = [*codes]
    if code in known:
        return code
    by_plain_code = {one.lower().replace("_", "-"): one for one in known}
    plain = code.lower().replace("_", "-")
    # Without an exact match, ignore the region: pt for pt-BR.
    return by_plain_code.get(plain) or by_plain_code.get(plain.partition("-")[0]) or code


def reason_to_keep(text: str, sources: Sequence[str], target: str) -> str:
    """Return the reason why a text is not translated, or an empty string if it is.

    It may already be in the target language, or in a language other than the sources.
    """
    language = kept_language(text, sources, target)
    if not language:
        return ""
    # Detection uses its own codes: compare with the target's equivalent.
    if language == known_code(target, COVERED):
        return f"this text is already in {target!r} and is not translated"
    return f"this text seems to be in {language!r}, which is not translated here"


def kept_language(text: str, sources: Sequence[str], target: str) -> str:
    """Return the language of a text that is not translated, or an empty string if it is."""
    into = known_code(target, COVERED)
    expected = [known_code(code, COVERED) for code in sources]
    return surely_none_of(text, [code for code in expected if code != into]) if sources else ""


class ModelChoice(NamedTuple):
    """The model and the languages for a text. `note`: why it is not translated, if so."""

    number: int  # index of the model
    source: str
    target: str
    detected: Detected | None
    note: str = ""


def choose_model(models: Sequence[Languages], text: str, source: str, target: str) -> ModelChoice:
    """Choose the first model that translates between these languages.

    The source language `AUTO` means the most likely language of the text that a model reads. If the
    text is already in the target language, or in a language that no model reads, the choice has a
    note.
    """
    known = known_languages(models)
    source, target = known_code(source, [AUTO, *known]), known_code(target, known)
    # Without detection, there is a single guess: the named source language.
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
                    other = kept_language(text, sources, into)
                    guess = Detected(other, dict(detect(text)).get(other, 100.0))
                return ModelChoice(number, language, into, guess, note)
    pairs = "; ".join(
        f"{code} to {', '.join(targets)}" for code, targets in pairs_of(models).items() if targets
    )
    language = detected[0].language if detected else source
    direction = f"{language!r} to {target!r}" if target else repr(language)
    raise TranslationError(f"no model here translates {direction}; available: {pairs}.")


def _sources(models: Sequence[Languages], target: str) -> list[str]:
    """Return the languages that can be translated into a target; empty if a model's are unknown."""
    # One model with unknown languages takes every text.
    writing = [languages for languages in models if languages.takes("", target)]
    if not all(languages.sources for languages in writing):
        return []
    return [code for each in writing for code in each.sources]


def known_languages(models: Sequence[Languages]) -> list[str]:
    """Return all languages that these models read or write."""
    return [code for languages in models for code in (*languages.sources, *languages.targets)]


def pairs_of(models: Sequence[Languages]) -> dict[str, list[str]]:
    """Return every language with its possible targets; the list of a mere target is empty."""
    pairs: dict[str, list[str]] = {}
    for languages in models:
        for source in languages.sources:
            pairs.setdefault(source, []).extend(t for t in languages.targets if t != source)
    # Afterwards, so that languages that are sources come first.
    for languages in models:
        for target in languages.targets:
            pairs.setdefault(target, [])
    return {source: list(dict.fromkeys(targets)) for source, targets in pairs.items()}
