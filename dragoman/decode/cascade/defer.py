"""Sends doubtful translations to a second translator: another local model, or an endpoint.

Nothing leaves the machine unless the user names an address. Answers are cached, so that no text is
paid for twice. A text without an answer keeps its first translation.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dragoman.convert.hub import is_text_engine
from dragoman.decode.request import Request
from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import Translator
from dragoman.errors import ConfigError
from dragoman.storage.files import storage_errors

if TYPE_CHECKING:
    from dragoman.decode.text_engine.engine import TextEngine

_Key = tuple[str, str, str, str]  # translator, source language, target language, text


class Second(Protocol):
    """The interface of a second translator."""

    @property
    def name(self) -> str: ...

    def translate(self, texts: Sequence[str], source: str, to: str) -> Sequence[str | Exception]:
        """Return a translation of each text, or the error that prevented it."""
        ...


@dataclass(frozen=True)
class SecondModel:
    """A model on this machine."""

    translator: Translator
    name: str

    def translate(self, texts: Sequence[str], source: str, to: str) -> Sequence[str]:
        return self.translator.translate(texts, source=source, to=to)


@dataclass(frozen=True)
class SecondEngine:
    """An LLM or an API. An answer that breaks a promise counts as none."""

    engine: "TextEngine"

    @property
    def name(self) -> str:
        return self.engine.name

    def translate(self, texts: Sequence[str], source: str, to: str) -> Sequence[str | Exception]:
        from dragoman.decode.text_engine.client import EngineError
        from dragoman.decode.text_engine.engine import segment_of

        segments = [segment_of(text, source, to) for text in texts]
        try:
            self.engine.translate(segments)
        except EngineError as error:
            return [error] * len(texts)
        return [
            EngineError(" ".join(fault.words for fault in one.said[-1][1]))
            if one.answer is None
            else one.restored(one.answer)
            for one in segments
        ]


def second_of(where: str, source: str = "", to: str = "", timeout_s: float = 30.0) -> Second:
    """Create the second translator from a model's name, a folder, an address or a TOML file."""
    if is_text_engine(where):
        # Imported late: a model needs nothing of it.
        from dragoman.decode.text_engine.engine import TextEngine
        from dragoman.decode.text_engine.settings import engine_settings

        return SecondEngine(TextEngine(engine_settings(where, timeout_s=timeout_s)))
    return SecondModel(Translator.load(where, source=source, target=to), where)


def wrong_words(translation: Translation) -> float:
    """Estimate how many words of a translation are wrong; 0 for texts that no model translated."""
    estimate = translation.estimate
    return estimate.wrong_words if estimate else 0.0


@dataclass
class Deferral:
    """Sends texts to the second translator: those less confident than `below`, or a fixed share.

    Attributes:
        share: The fraction of all texts to send, from 0 to 1, instead of using `below`. Texts with
            the most expected wrong words go first.
        budget: The most characters to send in total; None sends any number.
        cache: A file that keeps the answers for later runs.
    """

    second: Second
    below: float = 0.0
    budget: int | None = None
    cache: Path | None = None
    share: float | None = None
    sent: int = 0  # texts
    characters: int = 0
    failed: list[str] = field(default_factory=list)
    _known: dict[_Key, str] = field(default_factory=dict)
    _due: float = 0.0  # texts of the share that earlier windows were too small to send

    def __post_init__(self) -> None:
        if not 0 <= self.below <= 1:
            raise ConfigError(f"a confidence must be from 0 to 1, not {self.below}.")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ConfigError(f"a share must be from 0 to 1, not {self.share}.")
        if self.cache and self.cache.exists():
            with storage_errors(f"reading {self.cache}"):
                lines = self.cache.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, 1):
                try:
                    name, source, to, text, answer = json.loads(line)
                except (ValueError, TypeError):
                    raise ConfigError(f"{self.cache}, line {number}: not a cache file.") from None
                self._known[name, source, to, text] = answer

    def __call__(self, translations: Sequence[Translation], request: Request) -> list[Translation]:
        """Replace doubtful translations, the most doubtful first, until the budget is spent."""
        source, to = request.source_language, request.to
        if self.share is None:
            doubtful = self._below(translations)
        else:
            doubtful = self._share(translations, self.share)
        keys: dict[int, _Key] = {
            row: (self.second.name, source, to, translations[row].source) for row in doubtful
        }
        self._ask([key for key in dict.fromkeys(keys.values()) if key not in self._known])
        result = [*translations]
        for row, key in keys.items():
            if key in self._known:
                candidates = (Candidate(self._known[key], 0.0),)
                result[row] = Translation(key[3], candidates, by=self.second.name)
        return result

    def _below(self, translations: Sequence[Translation]) -> list[int]:
        confidences = [one.confidence for one in translations]
        doubtful = [row for row, value in enumerate(confidences) if value < self.below]
        return sorted(doubtful, key=lambda row: confidences[row])

    def _share(self, translations: Sequence[Translation], share: float) -> list[int]:
        wrong = [wrong_words(one) for one in translations]
        searched = [row for row in range(len(wrong)) if wrong[row] > 0]
        self._due += share * len(translations)
        # Lines may arrive one by one, so the fractions of a text add up in `_due`. The epsilon is
        # needed because 0.3 added ten times is slightly less than 3.
        count = min(int(self._due + 1e-9), len(searched))
        self._due -= count
        return sorted(searched, key=lambda row: -wrong[row])[:count]

    def _ask(self, keys: Sequence[_Key]) -> None:
        paid = [*self._affordable(keys)]
        if not paid:
            return
        _, source, to, _ = paid[0]
        answers = self.second.translate([key[3] for key in paid], source, to)
        new = []
        for key, answer in zip(paid, answers, strict=True):
            if isinstance(answer, Exception):
                self.failed.append(str(answer))
            else:
                self._known[key] = str(answer)
                new.append(json.dumps([*key, str(answer)], ensure_ascii=False) + "\n")
        self.sent += len(paid)
        if self.cache and new:
            with (
                storage_errors(f"writing {self.cache}"),
                open(self.cache, "a", encoding="utf-8", newline="\n") as file,
            ):
                file.writelines(new)

    def _affordable(self, keys: Sequence[_Key]) -> Iterator[_Key]:
        for key in keys:
            characters = len(key[3])
            if self.budget is None or self.characters + characters <= self.budget:
                self.characters += characters
                yield key

    @property
    def summary(self) -> str:
        """One line that says how much went to the second translator."""
        failed = (
            f", {len(self.failed):,} without an answer ({self.failed[0]})" if self.failed else ""
        )
        return (
            f"{self.sent:,} doubtful texts ({self.characters:,} characters) went to "
            f"{self.second.name}{failed}"
        )
