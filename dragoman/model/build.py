"""Build a model with random weights from a configuration, and choose its device."""

from collections.abc import Callable
from dataclasses import replace

import torch

from dragoman.config import ModelConfig, variants
from dragoman.config.variants import Implementations
from dragoman.errors import ConfigError
from dragoman.model.base import Model as Model
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


def pick_device(name: str = "auto") -> torch.device:
    """Return the device of this name; "auto" prefers a GPU."""
    if name == "auto":
        name = (
            "cuda"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name not in available:
        raise ConfigError(f"device {name!r} is unknown; it can be auto, cpu, cuda, mps.")
    if not available[name]:
        raise ConfigError(f"device {name!r} is not available here; try --device auto.")
    # cuDNN's attention seems to cost time for each new shape, and our batches have thousands
    # (docs/LOG.md).
    if name == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(name)
