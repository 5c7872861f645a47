"""`dragoman explain`"""

from typing import Annotated

import typer

from dragoman.cli.loading import decoding_settings, load_model, one_model
from dragoman.cli.options import (
    Beam,
    Device,
    EngineName,
    From,
    OneModel,
    Set,
    To,
    show_result,
)
from dragoman.decode.request import Request
from dragoman.errors import ConfigError, needs_torch


def command(
    text: Annotated[str, typer.Argument(help="A sentence to follow through the model.")],
    model: OneModel = "",
    out: Annotated[str, typer.Option(help="The page to write, for a browser.")] = "",
    translation: Annotated[
        str | None, typer.Option(help="Follow how this translation is said, not the model's own.")
    ] = None,
    from_: From = "",
    to: To = "",
    beam: Beam = None,
    engine: EngineName = "auto",
    device: Device = "auto",
    set_: Set = None,
) -> None:
    """Follow a sentence through the model, step by step, on one page with the model's own numbers.

    Example: `dragoman explain "The dog sleeps." --to de --out runs/explained.html`
    """
    from dragoman.inspect.explain import explain, page

    if not out:
        raise ConfigError("there is nothing to write: give --out page.html.")
    translator = load_model(one_model(model), device, engine, from_, to, text)
    request = Request(
        to=to, source_language=from_, decoding=decoding_settings(translator.config, set_, beam)
    )
    with needs_torch():
        explained = explain(translator, text, translation, request)
    files = {out: page(explained).encode("utf-8", "replace")}
    show_result(explained["translation"], files)
