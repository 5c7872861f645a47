"""The model that a command works with, and how it is to search."""

import dataclasses
import sys

from dragoman.bundle.folder import read_config
from dragoman.config import Config, DecodingConfig, parse_set, replace
from dragoman.convert.hub import model_folders
from dragoman.decode.search.task import Sampling
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


def one_model(model: str) -> str:
    """The name of a model, where an ensemble makes no sense."""
    if "," in model:
        raise ConfigError(f"--model {model}: this command takes one model, not an ensemble.")
    return model


def one_folder(model: str, source: str = "", target: str = "") -> str:
    """The folder of a model, where an ensemble makes no sense."""
    return model_folders(one_model(model), source, target)[0]


def config_of(model: str, source: str, target: str) -> Config:
    """The settings of a model, before it is loaded; an ensemble has those of its first one."""
    return read_config(model_folders(model, source, target)[0])


def sampling_settings(
    sample: bool, temperature: float, top_k: int, top_p: float, seed: int, beam: int | None
) -> Sampling | None:
    """How to draw; None: search. What the other one would ignore is refused."""
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
    """The model's own settings of search, with those of the command line; a trained model's others
    are fixed."""
    settings = parse_set(assignments or []) | (
        {"decoding.beam_size": beam} if beam is not None else {}
    )
    for name in settings:
        if not name.startswith("decoding."):
            raise ConfigError(
                f"{name} cannot be set here: for a trained model, set only decoding.*"
            )
    # Without its corpora, which may be hundreds: all that is replaced is checked again.
    data = dataclasses.replace(config.data, corpora=())
    return replace(dataclasses.replace(config, data=data), settings).decoding
