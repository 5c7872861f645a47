"""The model that a command works with, and how it is to search."""

import sys

from dragoman.config import Config, DecodingConfig, parse_set, replace
from dragoman.errors import ConfigError
from dragoman.inspect.translator import InspectableTranslator


def load_model(
    model: str, device: str, engine: str, source: str = "", target: str = "", text: str = ""
) -> InspectableTranslator:
    """The translator, and on standard error what its user should know about it.

    Languages and text choose among the bundled models if none is named.
    """
    translator = InspectableTranslator.load(
        model, device, engine, source=source, target=target, text=text
    )
    for note in translator.notes:
        print(f"dragoman: {note}", file=sys.stderr)
    return translator


def decoding_settings(
    config: Config, assignments: list[str] | None, beam: int | None
) -> DecodingConfig:
    """The model's own settings of search, with those of the command line; a trained model's others
    are fixed."""
    settings = parse_set(assignments or []) | ({"decoding.beam": beam} if beam is not None else {})
    for name in settings:
        if not name.startswith("decoding."):
            raise ConfigError(
                f"{name} cannot be set here: for a trained model, set only decoding.*"
            )
    return replace(config, settings).decoding
