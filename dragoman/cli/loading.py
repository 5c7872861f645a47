"""The model of a command and its settings of search."""

import dataclasses
import sys
from collections.abc import Mapping

from dragoman.bundle.folder import read_config
from dragoman.config import Config, DecodingConfig, parse_set, replace
from dragoman.convert.hub import model_folders
from dragoman.decode.search.task import Sampling
from dragoman.errors import ConfigError
from dragoman.inspect.translator import InspectableTranslator


def load_model(
    model: str,
    device: str,
    engine: str,
    source: str = "",
    target: str = "",
    text: str = "",
    engine_settings: Mapping[str, object] = {},
) -> InspectableTranslator:
    """Load a translator, and print its notes to standard error.

    If no model is named, languages and text choose among the bundled ones.
    """
    translator = InspectableTranslator.load(
        model,
        device,
        engine,
        source=source,
        target=target,
        text=text,
        engine_settings=engine_settings,
    )
    for note in translator.notes:
        print(f"dragoman: {note}", file=sys.stderr)
    return translator


def one_model(model: str) -> str:
    """Return the name of a model, and refuse an ensemble."""
    if "," in model:
        raise ConfigError(f"--model {model}: this command takes one model, not an ensemble.")
    return model


def one_folder(model: str, source: str = "", target: str = "") -> str:
    """Return the folder of a model, and refuse an ensemble."""
    return model_folders(one_model(model), source, target)[0]


def config_of(model: str, source: str, target: str) -> Config:
    """Read a model's settings without loading it; for an ensemble, its first model's."""
    return read_config(model_folders(model, source, target)[0])


def sampling_settings(
    sample: bool, temperature: float, top_k: int, top_p: float, seed: int, beam: int | None
) -> Sampling | None:
    """Return settings of sampling, or None for a search.

    Options that the chosen one would ignore are refused.
    """
    sampling = Sampling(temperature, top_k, top_p, seed)
    if sample:
        if beam is not None:
            raise ConfigError("--beam is for a search: leave out --sample, or --beam.")
        return sampling
    for name in ("temperature", "top_k", "top_p", "seed"):
        if getattr(sampling, name) != getattr(Sampling, name):
            raise ConfigError(f"--{name.replace('_', '-')} is for sampling: add --sample.")
    return None


def decoding_settings(
    config: Config, assignments: list[str] | None, beam: int | None
) -> DecodingConfig:
    """Return the model's settings of search, changed by the command line.

    Other settings are fixed once a model is trained.
    """
    settings = parse_set(assignments or []) | (
        {"decoding.beam_size": beam} if beam is not None else {}
    )
    for name in settings:
        if not name.startswith("decoding."):
            raise ConfigError(
                f"{name} cannot be set here: for a trained model, set only decoding.*"
            )
    # Without the corpora, which may be hundreds: `replace` checks all settings again.
    data = dataclasses.replace(config.data, corpora=())
    return replace(dataclasses.replace(config, data=data), settings).decoding
