"""Which settings mean something to which architecture; the others are refused before anything is computed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

OBEYED = {
    "transformer": ("attention", "positions", "norm_kind", "residual", "feed_forward", "decoder_attention"),
    "decoder-only": ("attention.similarity", "attention.span", "attention.window", "attention.heads_layout",
                     "attention.projections", "positions.kind", "positions.join", "positions.base",
                     "positions.max_length", "residual", "feed_forward"),
    "rnn": ("cell",),
    "rnn-attention": ("cell", "attention.similarity"),
    "gnmt": ("attention.similarity",),
    "convs2s": ("kernel_width", "positions.max_length"),
    "lexical": (),
}  # fmt: skip
"""Of the settings of `model` that choose a variant, those (or the tables of those) that an architecture has."""


def not_of_this_architecture(given: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """Why settings do not go with their architecture, if they do not. Both by dotted name."""
    architecture = given["model.architecture"]
    variants = {name for names in OBEYED.values() for name in names}
    for name, value in given.items():
        if value != default[name] and _within(name, variants) and not _within(name, OBEYED[architecture]):
            yield f"{name}={value} says nothing to model.architecture={architecture}: leave it at {default[name]}."
    if architecture in _NEEDS:
        yield from _NEEDS[architecture](given)


def _within(name: str, names: Iterable[str]) -> bool:
    return any(name == f"model.{each}" or name.startswith(f"model.{each}.") for each in names)


def _decoder_only(given: Mapping[str, Any]) -> Iterator[str]:
    kind, places, longest = (given[n] for n in ("model.positions.kind", _PLACES, "data.max_length"))
    if kind == "index":
        yield "model.positions.kind=index does not go with model.architecture=decoder-only: set sinusoidal."
    if kind == "learned" and places <= 2 * longest:
        yield (
            f"{_PLACES}={places} does not hold two sentences of data.max_length={longest} and their ends, "
            f"one behind the other: raise the one or lower the other."
        )


def _two_way(given: Mapping[str, Any]) -> Iterator[str]:
    if given["model.width"] % 2:
        yield f"model.width={given['model.width']} is odd: the encoder has half of it for each direction."


def _gnmt(given: Mapping[str, Any]) -> Iterator[str]:
    yield from _two_way(given)
    if given["model.decoder_layers"] < 2:
        yield "gnmt tells what it sees to the layers above the first: set model.decoder_layers=2 or more."


def _convs2s(given: Mapping[str, Any]) -> Iterator[str]:
    if given[_PLACES] <= given["data.max_length"]:
        yield (
            f"convs2s learns its positions, and {_PLACES}={given[_PLACES]} does not reach beyond "
            f"data.max_length={given['data.max_length']}: raise the one or lower the other."
        )


_PLACES = "model.positions.max_length"
_NEEDS = {"decoder-only": _decoder_only, "rnn-attention": _two_way, "gnmt": _gnmt, "convs2s": _convs2s}
