"""Minimum risk makes a half-trained model better on sequences that it has not seen, and is resumed
exactly."""

import numpy as np
import torch

from dragoman.config import Corpus, DecodingConfig
from dragoman.data.batches import collate
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.engine.torch_engine import TorchEngine
from dragoman.lab.minimum_risk import MinimumRiskGradients
from dragoman.model.build import build_model
from dragoman.text.metrics import gleu
from dragoman.training.gradients import Gradients
from dragoman.training.run import train
from tests.conftest import small_config, toy_pairs, vocabulary, write_corpus

WORDS = vocabulary(9)
CPU = torch.device("cpu")


def copies(draw: np.random.Generator, count: int) -> list[list[int]]:
    return [draw.integers(4, 9, size=draw.integers(2, 5)).tolist() for _ in range(count)]


def test_risk_raises_the_score_of_unseen_sequences() -> None:
    """Likelihood teaches copying until half is right, then risk improves it, and the loss falls."""
    torch.manual_seed(1)
    config = small_config(
        training__objective="mrt", training__init="a half-trained model",
        training__mrt_likelihood=0.0,
        training__label_smoothing=0.0,
    )  # fmt: skip
    model = build_model(config.model, WORDS, WORDS, shared=True, seed=1)
    engine = TorchEngine(model, WORDS, WORDS, CPU)
    draw = np.random.default_rng(1)
    unseen = copies(np.random.default_rng(2), 100)

    def score() -> float:
        model.eval()
        found = beam_search(
            engine, [[*words, WORDS.eos] for words in unseen], Task(DecodingConfig(beam_size=1))
        )
        return float(
            np.mean(
                [gleu(best[0].tokens, words) for best, words in zip(found, unseen, strict=True)]
            )
        )

    def learn(gradients: Gradients, steps: int, rate: float) -> list[float]:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
        losses = []
        for _ in range(steps):
            words = copies(draw, 32)
            batch = collate([[*one, WORDS.eos] for one in words], words, WORDS, WORDS)
            model.train()
            gradients.zero()
            gradients.accumulate(batch, batch.tokens)
            optimizer.step()
            losses.append(gradients.sums[0].item() / batch.tokens)
        return losses

    learn(Gradients(model, config, CPU), 60, 5e-3)
    before = score()
    risks = learn(MinimumRiskGradients(model, config, CPU, WORDS), 30, 1e-3)
    assert 0.4 < before < 0.8
    assert score() > before + 0.03
    assert np.mean(risks[-10:]) < np.mean(risks[:10]) - 0.05


def test_a_resumed_run_by_risk_equals_the_unbroken_one(trained, tmp_path) -> None:
    source, target = write_corpus(tmp_path, "t", toy_pairs(100))
    settings = {
        "training.objective": "mrt", "training.batch_tokens": 100,
        "training.average_checkpoints": 1,
        "training.validate_every": 0,
        "model.dropout": 0.1, "training.learning_rate": 1e-3, "data.valid_size": 2,
    }  # fmt: skip

    def run(name: str, steps: int, resume: bool = False) -> bytes:
        corpora = (Corpus(str(source), str(target)),)
        given = settings | {"training.max_steps": steps}
        train(
            tmp_path / name,
            corpora=corpora,
            settings=given,
            init=trained,
            device="cpu",
            resume=resume,
        )
        return (tmp_path / name / "model.safetensors").read_bytes()

    assert run("cut", 2) != run("whole", 4)
    assert run("cut", 4, resume=True) == run("whole", 4, resume=True)
