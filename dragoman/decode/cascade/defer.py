"""Doubtful translations go to a second translator: another model here, or an endpoint.

Nothing leaves the machine unless an address is named. What the second one says is kept, so that no
text is paid for twice; what it does not answer stays as it was.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dragoman.decode.cascade.endpoint import endpoint_of
from dragoman.decode.request import Request
from dragoman.decode.translation import Candidate, Translation
from dragoman.decode.translator import Translator
from dragoman.errors import ConfigError
from dragoman.storage.files import storage_errors

_Key = tuple[str, str, str, str]  # who, from, to, text


class Second(Protocol):
    @property
    def name(self) -> str: ...

    def translate(self, texts: Sequence[str], source: str, to: str) -> Sequence[str | Exception]:
        """Each text translated, or why it is not."""
        ...


@dataclass(frozen=True)
class SecondModel:
    """A model on this machine."""

    translator: Translator
    name: str

    def translate(self, texts: Sequence[str], source: str, to: str) -> Sequence[str]:
        return self.translator.translate(texts, source=source, to=to)


def second_of(where: str, source: str = "", to: str = "", timeout_s: float = 30.0) -> Second:
    """The translator that a name, a folder or an address stands for."""
    if where.startswith(("http://", "https://")):
        return endpoint_of(where, timeout_s)
    return SecondModel(Translator.load(where, source=source, target=to), where)


def wrong_words(translation: Translation) -> float:
    """How many of its words are to be expected wrong; none where no model has searched."""
    estimate = translation.estimate
    return estimate.wrong_words if estimate else 0.0


@dataclass
class Deferral:
    """Sends what is less sure than `below` to the second translator, or a share of all texts.

    Attributes:
        share: How many of all texts to send, from 0 to 1, whatever their confidence; those go
            first of which the most words are expected to be wrong.
        budget: Characters that may be sent in all; None: any number.
        cache: A file that keeps what the second one said, for the next run too.
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
    _due: float = 0.0  # of the share, what windows before have left: lines may come one by one

    def __post_init__(self) -> None:
        if not 0 <= self.below <= 1:
            raise ConfigError(f"a confidence lies between 0 and 1, and {self.below} does not.")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ConfigError(f"a share lies between 0 and 1, and {self.share} does not.")
        if self.cache and self.cache.exists():
            with storage_errors(f"reading {self.cache}"):
                lines = self.cache.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, 1):
                try:
                    who, source, to, text, said = json.loads(line)
                except (ValueError, TypeError):
                    raise ConfigError(f"{self.cache}, line {number}: this is no cache.") from None
                self._known[who, source, to, text] = said

    def __call__(self, translations: Sequence[Translation], request: Request) -> list[Translation]:
        """The translations, doubtful ones as the second translator says them.

        The most doubtful go first, as long as the budget lasts.
        """
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
                said = (Candidate(self._known[key], 0.0),)
                result[row] = Translation(key[3], said, by=self.second.name)
        return result

    def _below(self, translations: Sequence[Translation]) -> list[int]:
        sure = [one.confidence for one in translations]
        doubtful = [row for row in range(len(sure)) if sure[row] < self.below]
        return sorted(doubtful, key=lambda row: sure[row])

    def _share(self, translations: Sequence[Translation], share: float) -> list[int]:
        wrong = [wrong_words(one) for one in translations]
        searched = [row for row in range(len(wrong)) if wrong[row] > 0]
        self._due += share * len(translations)
        count = min(int(self._due + 1e-9), len(searched))  # 10 times 0.3 is not quite 3
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
        """Who translated what, in one line."""
        failed = (
            f", {len(self.failed):,} without an answer ({self.failed[0]})" if self.failed else ""
        )
        return (
            f"{self.sent:,} doubtful texts ({self.characters:,} characters) went to "
            f"{self.second.name}{failed}"
        )
