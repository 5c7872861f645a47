"""Which settings do not go together.

They are refused, with the reason, before anything is computed.

Settings come by dotted name: `given["model.width"]`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.config.variants import ARCHITECTURES, OBJECTIVES, POSITIONS, TABLES

SIZES = (
    "architecture",
    "width",
    "heads",
    "feed_forward_width",
    "encoder_layers",
    "decoder_layers",
)
# presets set these for every architecture, and older runs have kept them so
_OF_PRESETS = ("norm", "dropout")


def misfits(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """Why settings do not go together, if they do not."""
    yield from _not_of_this_architecture(settings, default)
    yield from _sizes(settings)
    yield from _variants(settings)
    yield from _text(settings)
    yield from _optimiser(settings, default)
    yield from OBJECTIVES[settings["training.objective"]].needs(settings)


def _not_of_this_architecture(
    settings: Mapping[str, Any], default: Mapping[str, Any]
) -> Iterator[str]:
    architecture = settings["model.architecture"]
    for name, value in settings.items():
        read = not name.startswith("model.") or _within(
            name, (*SIZES, *_OF_PRESETS, *ARCHITECTURES[architecture].reads)
        )
        if value != default[name] and not read:
            yield (
                f"{name}={value} is not used by model.architecture={architecture}: leave it at "
                f"{default[name]}."
            )
    yield from ARCHITECTURES[architecture].needs(settings)


def _within(name: str, names: Iterable[str]) -> bool:
    return any(name == f"model.{each}" or name.startswith(f"model.{each}.") for each in names)


def _sizes(settings: Mapping[str, Any]) -> Iterator[str]:
    width, heads = settings["model.width"], settings["model.heads"]
    if ARCHITECTURES[settings["model.architecture"]].has_heads and width % heads:
        yield (
            f"model.width={width} is not a multiple of model.heads={heads}: each head gets "
            "width/heads features."
        )


def _variants(settings: Mapping[str, Any]) -> Iterator[str]:
    """What the variants of the parts that this architecture reads say of the other settings."""
    for name, table in TABLES.items():
        if _within(name, ARCHITECTURES[settings["model.architecture"]].reads):
            yield from table[settings[name]].needs(settings)
    kind, every_layer = (settings[f"model.positions.{name}"] for name in ("kind", "every_layer"))
    if not POSITIONS[kind].vector and every_layer:
        reason = "acts in every layer anyway" if POSITIONS[kind].in_attention else "adds nothing"
        yield f"model.positions.kind={kind} {reason}: leave model.positions.every_layer=false."


def _text(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings["model.tied"] == "all" and not settings["text.shared"]:
        yield (
            "model.tied=all needs one vocabulary for both languages: set text.shared=true or "
            "model.tied=target."
        )
    if settings["text.dropout"] and settings["text.vocabulary"] != "bpe":
        yield (
            f"text.dropout={settings['text.dropout']} skips merges of byte-pair encoding, and "
            f"text.vocabulary={settings['text.vocabulary']} has none: set text.dropout=0."
        )


def _optimiser(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    if settings["training.optimiser"] == "muon" and settings["training.sharded"]:
        yield (
            "training.optimiser=muon needs whole matrices: set training.sharded=false or "
            "training.optimiser=adam."
        )
    if (
        settings["training.optimiser"] != "muon"
        and settings["training.momentum"] != default["training.momentum"]
    ):
        yield "training.momentum is Muon's: set training.optimiser=muon."
