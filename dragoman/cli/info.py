"""`dragoman info`"""

import json
import platform
from importlib import util
from typing import Annotated, Any

import typer

from dragoman.bundle import CARD, Bundle, bundled_models, read_bundle
from dragoman.cli.options import Json
from dragoman.config import describe_settings
from dragoman.errors import BundleError, escaped
from dragoman.version import __version__

LIBRARIES = ("torch", "onnxruntime", "sentencepiece", "sacrebleu", "safetensors", "numpy")


def command(
    model: Annotated[str, typer.Argument(metavar="[M]", help="Folder of a trained model.")] = "",
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its default.")
    ] = False,
    json_: Json = False,
) -> None:
    """Show a model's card; without one, the installation and the cards of the package's own models.

    Example: `dragoman info`
    """
    if settings:
        for name, default, doc in describe_settings():
            print(f"{name} = {default!r}  # {doc}")
        return
    names = [part for part in model.split(",") if part]
    installation = [] if names else [_installation()]
    for facts in [*installation, *map(_model, names or bundled_models())]:
        if json_:
            print(escaped(json.dumps(facts, ensure_ascii=False)))
            continue
        for name, value in facts.items():
            print(escaped(f"{name}: {value}"))


def _model(name: str) -> dict[str, Any]:
    bundle = read_bundle(name)
    try:
        return _facts(name, bundle)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BundleError(
            f"{name}: {CARD} is not a card ({type(error).__name__}: {error})."
        ) from None


def _facts(name: str, bundle: Bundle) -> dict[str, Any]:
    card = dict(bundle.card)
    config = bundle.config.model
    size = sum(array.nbytes for array in bundle.weights.values())
    facts: dict[str, Any] = {
        "model": name,
        "languages": f"{'/'.join(card.pop('from', [])) or '?'} → "
        f"{'/'.join(card.pop('to', [])) or '?'}",
        "architecture": f"{config.architecture}, {config.encoder_layers}+{config.decoder_layers} "
        f"layers, "
        f"width {config.width}, {config.heads} heads, norm {config.norm}",
        "vocabulary": f"{len(bundle.codec.source):,} source and {len(bundle.codec.target):,} "
        f"target pieces",
        "size": f"{size / 2**20:.1f} MiB of weights",
    }
    scores = card.pop("scores", [])
    scored_on = card.pop("scored_on", "")
    for entry in scores:
        facts[f"{scored_on} {entry['name']}"] = f"{entry['value']:.2f} ({entry['signature']})"
    for name, value in card.items():
        facts[name.replace("_", " ")] = f"{value:.4g}" if isinstance(value, float) else value
    return facts


def _installation() -> dict[str, Any]:
    from importlib import metadata  # slow to import, and every command imports this module

    facts: dict[str, Any] = {
        "dragoman": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    for library in LIBRARIES:
        facts[library] = metadata.version(library) if util.find_spec(library) else "not installed"
    if util.find_spec("onnxruntime"):
        from dragoman.engine.onnx.kernels import describe_kernels

        facts["int8 kernels"] = describe_kernels()
    return facts
