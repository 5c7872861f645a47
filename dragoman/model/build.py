"""Build a model with random weights from a configuration."""

from collections.abc import Callable
from dataclasses import replace

import torch

from dragoman.config import ModelConfig, variants
from dragoman.model.base import Model as Model
from dragoman.model.implementations import Implementations
from dragoman.model.transformer import Transformer
from dragoman.text.vocabulary import Vocabulary

ARCHITECTURES: Implementations[Callable[[ModelConfig, Vocabulary, Vocabulary], Model]] = (
    Implementations(variants.ARCHITECTURES, {"transformer": Transformer})
)


def build_model(
    config: ModelConfig, source: Vocabulary, target: Vocabulary, shared: bool, seed: int = 0
) -> Model:
    """Return a model with random weights; equal seeds give equal weights."""
    if config.share_embeddings == "auto":
        config = replace(config, share_embeddings="all" if shared else "target")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ARCHITECTURES[config.architecture](config, source, target)


def parameter_count(model: torch.nn.Module) -> int:
    """Count the parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
