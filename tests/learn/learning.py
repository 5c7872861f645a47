"""Small tasks on sequences, and a training loop that ends when a model can do one on sequences that
it has not seen."""

from collections.abc import Callable

import numpy as np
import torch

from dragoman.config import DecodingConfig
from dragoman.data.batches import collate
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.build import build_model
from dragoman.training.loss import smoothed_cross_entropy
from tests.conftest import small_config, vocabulary

TASKS: dict[str, Callable[[list[int]], list[int]]] = {
    "copy": lambda words: words,
    "reverse": lambda words: words[::-1],
    # the output does not depend on the order of the words
    "sort": lambda words: sorted(set(words)),
}
WORDS = vocabulary(14)


def examples(
    count: int, draw: np.random.Generator, task: str, longest: int
) -> tuple[list[list[int]], list[list[int]]]:
    sequences = [
        draw.integers(4, 14, size=draw.integers(1, longest + 1)).tolist() for _ in range(count)
    ]
    return [[*words, WORDS.eos] for words in sequences], [TASKS[task](words) for words in sequences]


def share_learned(
    task: str, longest: int = 8, rate: float = 3e-3, steps: int = 1500, **settings: object
) -> float:
    """The share of unseen sequences that a small model does right after training, which ends when
    that is 98%."""
    torch.manual_seed(1)
    draw = np.random.default_rng(1)
    model = build_model(small_config(**settings).model, WORDS, WORDS, shared=True, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    engine = TorchEngine(model, WORDS, WORDS, torch.device("cpu"))
    sources, targets = examples(100, np.random.default_rng(2), task, longest)
    right = 0.0
    for step in range(1, steps + 1):
        batch = collate(*examples(64, draw, task, longest), WORDS, WORDS)
        hidden = model.train()(
            torch.from_numpy(batch.source), torch.from_numpy(batch.target_in)
        ).flatten(0, 1)
        real = torch.from_numpy(batch.real)
        targets_out = torch.from_numpy(batch.target_out).flatten()[real]
        loss, _ = smoothed_cross_entropy(model.logits(hidden[real]), targets_out, 0.0)
        optimizer.param_groups[0]["lr"] = rate * min(step / 50, (50 / step) ** 0.5)
        optimizer.zero_grad()
        (loss / batch.tokens).backward()
        optimizer.step()
        if step % 50 == 0:
            model.eval()
            found = beam_search(engine, sources, Task(DecodingConfig(beam_size=1)))
            right = float(
                np.mean([list(h[0].tokens) == y for h, y in zip(found, targets, strict=True)])
            )
            if right >= 0.98:
                break
    return right
