"""Inspections of a model, which routes pass to the service (`dragoman.lab.explain.routes`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.config import ModelConfig
from dragoman.decode.request import Request
from dragoman.inspect.translator import InspectableTranslator


@dataclass(frozen=True)
class Inspection:
    """An inspection of a model on one text.

    `run` takes a translator, a text, a translation or None, and a request, and returns JSON.
    `check` refuses results with too many numbers, given the lengths of both sides in subwords.
    `passes` is the cost in forward passes.
    """

    run: Callable[[InspectableTranslator, str, str | None, Request], dict[str, Any]]
    check: Callable[[ModelConfig, int, int], None]
    passes: Callable[[ModelConfig], int] = lambda model: 1


def stay_on_one_core() -> None:
    """Leave the other cores to the other workers; PyTorch would take them all."""
    import torch

    torch.set_num_threads(1)
