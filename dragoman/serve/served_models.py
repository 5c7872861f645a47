"""The models of a service, and the choice among them by languages."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.bundle.folder import models_in
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.detect import Detected, detect
from dragoman.text.languages import Languages, choose_model, known_languages, pairs_of


@dataclass(frozen=True)
class ServedModel:
    name: str
    translator: InspectableTranslator

    @property
    def sources(self) -> tuple[str, ...]:
        return self.translator.codec.languages.sources

    @property
    def targets(self) -> tuple[str, ...]:
        return self.translator.codec.languages.targets


@dataclass(frozen=True)
class Route:
    """The model and the languages for a text."""

    model: ServedModel
    source: str
    target: str
    detected: Detected | None
    note: str = ""  # why the text is not translated, if it is not


class Models:
    def __init__(self, models: Sequence[ServedModel]):
        self.models = list(models)
        self._languages: list[Languages] = [m.translator.codec.languages for m in self.models]

    @classmethod
    def load(cls, folders: Sequence[str], device: str = "auto", engine: str = "auto") -> "Models":
        """Load bundles from folders; a folder of several models means all of them.

        Clients see the names of models, not their paths.
        """
        each: list[str] = []
        for folder in folders:
            each += [str(bundle) for bundle in models_in(Path(folder))] or [folder]
        load = InspectableTranslator.load
        return cls([ServedModel(_name(folder), load(folder, device, engine)) for folder in each])

    @property
    def languages(self) -> dict[str, list[str]]:
        """Map each language to its target languages."""
        return pairs_of(self._languages)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """List all pairs of source and target."""
        return [(source, into) for source, targets in self.languages.items() for into in targets]

    @property
    def targets(self) -> list[str]:
        """List all target languages in order."""
        return sorted({target for _, target in self.pairs})

    def detect(self, text: str) -> list[Detected]:
        """Guess among the languages that the models read or write, most likely first."""
        return detect(text, known_languages(self._languages))

    def route(self, text: str, source: str, target: str) -> Route:
        chosen = choose_model(self._languages, text, source, target)
        return Route(self.models[chosen.number], *chosen[1:])


def _name(folder: str) -> str:
    # An ensemble's folders are joined by commas.
    return ",".join(Path(part).resolve().name for part in folder.split(","))
