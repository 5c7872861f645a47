"""What training costs: floating-point operations, memory, and the micro-batch that fits."""

import os
import time

import torch

from dragoman.config import Config
from dragoman.config.variants import OBJECTIVES
from dragoman.data.batches import Batch
from dragoman.model.build import Model, parameter_count

_BYTES_PER_WEIGHT = 16  # float32 weight, gradient and Adam's two moments
# The estimates below are rough, and other programs may need memory later.
_SHARE_OF_FREE_MEMORY = 0.4


def training_flops(model: Model, batch: Batch) -> float:
    """Return the floating-point operations of the forward and backward passes on a batch."""
    # A multiply-add is two operations, and the backward pass costs twice the forward pass.
    return 6.0 * model.multiplications(batch.source_lengths, batch.target_lengths)


def matrix_ceiling(device: torch.device) -> float | None:
    """Measure the operations per second of a large bf16 product; None on a CPU."""
    if device.type != "cuda":
        return None
    matrix = torch.randn(8192, 8192, dtype=torch.bfloat16, device=device)
    best = 0.0
    for _ in range(4):  # the first run warms up
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(10):
            matrix @ matrix
        torch.cuda.synchronize()
        best = max(best, 10 * 2 * 8192**3 / (time.perf_counter() - started))
    return best


def bytes_per_position(config: Config, target_vocabulary: int) -> float:
    """Estimate, generously, the bytes that one position keeps in memory until backward."""
    model = config.model
    layers = max(model.num_encoder_layers, model.num_decoder_layers * 1.5)
    activations = 4 * layers * (20 * model.d_model + 3 * model.d_ff)
    copies = OBJECTIVES[config.training.objective].copies(config.training)
    # half of the positions are target positions, with logits
    return copies * (activations + 4 * 4 * target_vocabulary / 2)


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    # Only Linux reports free memory; elsewhere take half of all memory.
    pages = os.sysconf_names.get("SC_AVPHYS_PAGES")
    free = os.sysconf("SC_AVPHYS_PAGES") if pages else os.sysconf("SC_PHYS_PAGES") // 2
    return free * os.sysconf("SC_PAGE_SIZE")


def fitting_micro_batch(config: Config, target_vocabulary: int, device: torch.device) -> int:
    """Return the number of padded positions that fit into memory."""
    if config.training.micro_batch_tokens:
        return config.training.micro_batch_tokens
    fits = (
        _SHARE_OF_FREE_MEMORY * _free_memory(device) / bytes_per_position(config, target_vocabulary)
    )
    return max(1024, int(fits))


def memory_estimate(
    model: Model, config: Config, target_vocabulary: int, micro_batch_tokens: int
) -> float:
    """Estimate the bytes of weights, optimizer and one micro-batch."""
    # both sides, and a little padding
    positions = min(micro_batch_tokens, 2.2 * config.training.batch_tokens)
    return _BYTES_PER_WEIGHT * parameter_count(model) + positions * bytes_per_position(
        config, target_vocabulary
    )
