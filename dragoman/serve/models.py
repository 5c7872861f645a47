"""The models that a service offers, and which of them a pair of languages gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.decode.translator import Translator, load
from dragoman.errors import TranslationError
from dragoman.text.detect import Detected, detect

AUTO = "auto"
NAMES = {
    "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek",
    "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "fa": "Persian",
    "fi": "Finnish",
    "fr": "French", "ga": "Irish", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian", "mk": "Macedonian", "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sr": "Serbian",
    "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    name: str
    translator: Translator

    @property
    def sources(self) -> tuple[str, ...]:
        return self.translator.codec.languages.sources

    @property
    def targets(self) -> tuple[str, ...]:
        return self.translator.codec.languages.targets

    def takes(self, source: str, target: str) -> bool:
        """Whether it translates so; a model that does not know its languages takes what it gets."""
        known = (not self.sources or source in self.sources) and (
            not self.targets or target in ("", *self.targets)
        )
        return known and (source != target or not self.sources)


@dataclass(frozen=True)
class Route:
    """How a text will be translated."""

    model: Model
    source: str
    target: str
    detected: Detected | None


class Models:
    def __init__(self, models: Sequence[Model]):
        self.models = list(models)

    @classmethod
    def load(cls, folders: Sequence[str], device: str = "auto", engine: str = "auto") -> "Models":
        """From bundles' folders; a client sees their names, not where they lie."""
        return cls([Model(_name(folder), load(folder, device, engine)) for folder in folders])

    @property
    def languages(self) -> dict[str, list[str]]:
        """Every language and what it can be translated into; nothing, where it is a target only."""
        pairs: dict[str, list[str]] = {}
        for model in self.models:
            for source in model.sources:
                pairs.setdefault(source, []).extend(t for t in model.targets if t != source)
        for model in self.models:
            for target in model.targets:
                pairs.setdefault(target, [])
        return {source: list(dict.fromkeys(targets)) for source, targets in pairs.items()}

    def detect(self, text: str) -> list[Detected]:
        """The languages that the models read or write, most likely first."""
        return detect(
            text, [code for model in self.models for code in (*model.sources, *model.targets)]
        )

    def route(self, text: str, source: str, target: str) -> Route:
        if source != AUTO:
            return self._route(source, target, None)
        found = self.detect(text)
        for guess in found:
            if any(model.takes(guess.language, target) for model in self.models):
                return self._route(guess.language, target, guess)
        return self._route(found[0].language, target, found[0])  # whose error names the pair

    def _route(self, source: str, target: str, detected: Detected | None) -> Route:
        for model in self.models:
            if model.takes(source, target):
                into = target or model.translator.codec.languages.default_target(source)
                return Route(model, source, into, detected)
        pairs = "; ".join(
            f"{code} to {', '.join(targets)}" for code, targets in self.languages.items() if targets
        )
        wanted = f" to {target!r}" if target else ""
        raise TranslationError(f"no model here translates {source!r}{wanted}; there is {pairs}.")


def _name(folder: str) -> str:
    return ",".join(Path(part).resolve().name for part in folder.split(","))
