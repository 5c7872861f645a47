"""Sinusoidal positions ("Attention Is All You Need", section 3.5) as plain numbers: no torch is
needed to translate."""

import numpy as np


def sinusoids(length: int, width: int, base: float = 10000.0) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / base^(2i/D)), PE(pos, 2i+1) = cos(the same). (length, D)"""
    angles = np.arange(length)[:, None] / base ** (np.arange(0, width, 2) / width)  # (length, D/2)
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        .reshape(length, width)
        .astype(np.float32)
    )
