"""Check which settings conflict.

Conflicts are refused, with the reason, before anything is computed.

Settings are given by dotted name: `given["model.d_model"]`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.config.variants import ARCHITECTURES, OBJECTIVES, POSITIONS, TABLES

SIZES = ("architecture", "d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")
# Presets set these for every architecture, so saved runs have them.
_OF_PRESETS = ("norm_position", "dropout")


def incompatible_settings(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why settings conflict."""
    yield from _not_of_this_architecture(settings, default)
    yield from _sizes(settings)
    yield from _variants(settings)
    yield from _text(settings)
    yield from _optimizer(settings, default)
    yield from OBJECTIVES[settings["training.objective"]].needs(settings)


def _not_of_this_architecture(
    settings: Mapping[str, Any], default: Mapping[str, Any]
) -> Iterator[str]:
    # A setting without effect is an error: an experiment that varies it would compare equal models.
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
    width, heads = settings["model.d_model"], settings["model.num_heads"]
    if ARCHITECTURES[settings["model.architecture"]].has_heads and width % heads:
        yield (
            f"model.d_model={width} is not a multiple of model.num_heads={heads}: each head gets "
            "width/heads features."
        )


def _variants(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield conflicts with the chosen variants of the parts that this architecture reads."""
    # Architectures that do not read a table keep its default, which conflicts with nothing.
    for name, table in TABLES.items():
        if _within(name, ARCHITECTURES[settings["model.architecture"]].reads):
            yield from table[settings[name]].needs(settings)
    # Only a vector can be added to every layer again.
    kind, every_layer = (settings[f"model.positions.{name}"] for name in ("kind", "every_layer"))
    if not POSITIONS[kind].vector and every_layer:
        reason = "acts in every layer anyway" if POSITIONS[kind].in_attention else "adds nothing"
        yield f"model.positions.kind={kind} {reason}: leave model.positions.every_layer=false."


def _text(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings["model.share_embeddings"] == "all" and not settings["text.shared"]:
        yield (
            "model.share_embeddings=all needs one vocabulary for both languages: set "
            "text.shared=true or model.share_embeddings=target."
        )
    # Characters and whole words have no merges to drop.
    if settings["text.bpe_dropout"] and settings["text.tokenizer"] != "bpe":
        yield (
            f"text.bpe_dropout={settings['text.bpe_dropout']} skips merges of byte-pair encoding, "
            f"but text.tokenizer={settings['text.tokenizer']} does not merge: set "
            "text.bpe_dropout=0."
        )


def _optimizer(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    if settings["training.optimizer"] == "muon" and settings["training.sharded"]:
        yield (
            "training.optimizer=muon needs whole matrices: set training.sharded=false or "
            "training.optimizer=adam."
        )
    # Adam has betas instead of a momentum.
    if (
        settings["training.optimizer"] != "muon"
        and settings["training.momentum"] != default["training.momentum"]
    ):
        yield "training.momentum is Muon's: set training.optimizer=muon."
