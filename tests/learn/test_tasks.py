"""The Transformer learns to copy and to reverse, held-out sequences included, in under a minute."""

import time

import numpy as np
import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.data.batches import collate
from dragoman.decode.search import beam_search
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.build import build_model
from dragoman.training.loss import smoothed_cross_entropy
from tests.conftest import small_config, vocabulary

TASKS = {"copy": lambda words: words, "reverse": lambda words: words[::-1]}
LONGEST, WORDS = 8, vocabulary(14)


def examples(count: int, draw: np.random.Generator, task: str) -> tuple[list[list[int]], list[list[int]]]:
    sequences = [draw.integers(4, 14, size=draw.integers(1, LONGEST + 1)).tolist() for _ in range(count)]
    return [[*words, WORDS.eos] for words in sequences], [TASKS[task](words) for words in sequences]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("task", TASKS)
def test_the_task_is_learned(task: str, norm: str) -> None:
    torch.manual_seed(1)
    started, draw = time.monotonic(), np.random.default_rng(1)
    model = build_model(small_config(model__norm=norm).model, WORDS, WORDS, shared=True, seed=1)
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    engine = TorchEngine(model, WORDS, WORDS, torch.device("cpu"))
    sources, targets = examples(100, np.random.default_rng(2), task)
    settings = DecodingConfig(beam=1)
    right = 0.0
    for step in range(1, 1501):
        batch = collate(*examples(64, draw, task), WORDS, WORDS)
        hidden = model.train()(torch.from_numpy(batch.source), torch.from_numpy(batch.target_in)).flatten(0, 1)
        real = torch.from_numpy(batch.real)
        targets_out = torch.from_numpy(batch.target_out).flatten()[real]
        loss, _ = smoothed_cross_entropy(model.logits(hidden[real]), targets_out, 0.0)
        optimiser.param_groups[0]["lr"] = 3e-3 * min(step / 50, (50 / step) ** 0.5)
        optimiser.zero_grad()
        (loss / batch.tokens).backward()
        optimiser.step()
        if step % 100 == 0:
            model.eval()
            found = beam_search(engine, sources, settings)
            right = np.mean([list(h[0].tokens) == y for h, y in zip(found, targets, strict=True)])
            if right >= 0.98:
                break
    assert right >= 0.98
    assert time.monotonic() - started < 60
