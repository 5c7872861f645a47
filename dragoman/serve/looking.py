"""What the page shows of a model's inside, and how much of it is too much."""

from collections.abc import Callable
from typing import Any

from fastapi import HTTPException

from dragoman.config import ModelConfig
from dragoman.decode.request import Request
from dragoman.inspect.explain import explain
from dragoman.inspect.explain import payload as explanation_payload
from dragoman.inspect.page import payload
from dragoman.inspect.sentence import inspect_sentence
from dragoman.inspect.touch import Change
from dragoman.inspect.translator import InspectableTranslator

_MOST_WEIGHTS = 8_000_000  # of attention: 16 MB as the page gets them
_MOST_NUMBERS = 16_000_000  # of vectors, a byte each

Look = Callable[[InspectableTranslator, str, str | None, Request, Change], dict[str, Any]]
"""From a text, and a translation if one is given, to what the page shows of them."""


def attention(
    translator: InspectableTranslator,
    text: str,
    translation: str | None,
    request: Request,
    change: Change,
) -> dict[str, Any]:
    return payload(inspect_sentence(translator, text, translation, request))


def explanation(
    translator: InspectableTranslator,
    text: str,
    translation: str | None,
    request: Request,
    change: Change,
) -> dict[str, Any]:
    return explanation_payload(explain(translator, text, translation, request, change))


def check(look: Look, model: ModelConfig, read: int, said: int) -> None:
    """Refuse what would show too many numbers of so many source and target pieces."""
    weights = model.num_heads * (
        model.num_encoder_layers * read**2 + model.num_decoder_layers * said * (said + read)
    )
    # of each position in each layer up to twelve vectors and the hidden units
    vectors = (model.num_encoder_layers * read + model.num_decoder_layers * said) * (
        12 * model.d_model + model.d_ff
    )
    if vectors > _MOST_NUMBERS and look is explanation:
        raise HTTPException(
            413,
            f"this has up to {vectors:,} numbers in vectors, {_MOST_NUMBERS:,} can be shown: "
            f"send a shorter text.",
        )
    if weights > _MOST_WEIGHTS:
        raise HTTPException(
            413,
            f"this has up to {weights:,} attention weights, but only {_MOST_WEIGHTS:,} can be "
            "shown: send a shorter text.",
        )
