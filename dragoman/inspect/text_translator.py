"""A translator whose texts go to a text engine: an LLM or an API."""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from dragoman.decode.request import Request
from dragoman.decode.text_engine.engine import TextEngine
from dragoman.decode.text_engine.pipeline import TextPipeline
from dragoman.decode.text_engine.settings import engine_settings
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Window
from dragoman.errors import ConfigError, TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.text.languages import Languages, known_code

T = TypeVar("T")


class TextTranslator(InspectableTranslator):
    """Translates with a text engine, and with a model of the package where the engine fails.

    It has the interface of any other translator, so documents, the service and the command line
    work with it.
    """

    text_engine: TextEngine

    @classmethod
    def of(
        cls, where: str, model: str | Path, device: str, changes: Mapping[str, Any] = {}
    ) -> Self:
        """Load the model, and use the engine at `where`: an address, or a TOML file."""
        settings = engine_settings(where, **changes)
        self = super().load(model, device)
        engine = TextEngine(settings)
        codec = self.codec
        codes = settings.languages
        languages = Languages(codes, codes) if codes else codec.languages
        self.text_engine = engine
        self.pipeline = TextPipeline(self.pipeline, codec, languages, engine)
        # Documents and the service choose languages by the codec. The pipeline has the model's own.
        self.codec = replace(codec, languages=languages)
        return self

    def check(self, request: Request) -> Request:
        """Raise if the engine cannot fulfill a request."""
        if request.nbest > 1 or request.sampling or request.prefix or request.observer:
            raise ConfigError(
                "a text engine gives one translation: leave out nbest, sampling and prefix."
            )
        sources, targets = self.codec.languages.sources, self.codec.languages.targets
        request = replace(
            request,
            to=known_code(request.to, targets),
            source_language=known_code(request.source_language, sources),
        )
        if not request.to and len(targets) > 2:
            raise TranslationError("a text engine must be told the target language (--to).")
        return request

    def windows(
        self,
        windows: Iterable[Window],
        request: Request,
        show: Callable[[Translation], T],
        processes: int = 0,
        ahead: int = 0,
    ) -> Generator[list[T], None, None]:
        """Translate window by window: the engine works at several texts at once anyway."""
        for first, lines in windows:
            yield [show(one) for one in self.stream(lines, request, len(lines), first)]

    @property
    def shows_attention(self) -> bool:
        return False
