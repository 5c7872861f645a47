"""Every architecture learns a small task on sequences; sequences that it has not seen included.

The RNN's one vector holds little at this width: its sequences are the shortest.
"""

import numpy as np
import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.config.variants import ARCHITECTURES
from dragoman.data.batches import pad
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.build import build_model
from dragoman.text.lexicon import Model1
from tests.conftest import small_config
from tests.learn.learning import WORDS, share_learned

QUICKLY: dict[str, dict] = {
    "decoder-only": {
        "task": "copy",
        "longest": 3,
        "rate": 1e-2,
        "model__norm_position": "pre",
        "model__num_decoder_layers": 1,
    },
    "rnn": {
        "task": "reverse",
        "longest": 3,
        "rate": 1e-2,
        "model__num_encoder_layers": 1,
        "model__num_decoder_layers": 1,
    },
    "rnn-attention": {"task": "reverse", "longest": 4, "rate": 1e-2},
    "gnmt": {"task": "copy", "longest": 4, "rate": 1e-2},
    "convs2s": {"task": "copy", "longest": 4, "rate": 1e-2},
}
SLOWLY: list[dict] = [
    {"task": "copy", "longest": 4, "rate": 5e-3, "model__architecture": "decoder-only",
    "model__norm_position": "pre"},
    *({"task": t, "model__architecture": name} for name in ("rnn-attention",
    "gnmt") for t in ("copy", "reverse")),
    {"task": "reverse", "longest": 4, "rate": 1e-2, "model__architecture": "convs2s"},
    {"task": "reverse", "longest": 3, "rate": 5e-3, "model__architecture": "decoder-only",
    "model__norm_position": "pre"},
    {
        "task": "copy", "longest": 4, "rate": 5e-3, "model__architecture": "decoder-only",
        "model__norm_position": "pre",
        "model__positions__kind": "rotary",
    },
    {
        "task": "copy", "longest": 3, "rate": 1e-2, "model__architecture": "rnn",
        "model__cell": "gru",
        "model__num_encoder_layers": 1, "model__num_decoder_layers": 1,
    },
    {"task": "reverse", "longest": 4, "rate": 1e-2, "model__architecture": "rnn-attention",
    "model__cell": "gru"},
    {
        "task": "reverse", "longest": 4, "rate": 1e-2, "model__architecture": "rnn-attention",
        "model__attention__similarity": "additive",
    },
]  # fmt: skip


@pytest.mark.parametrize("architecture", QUICKLY)
def test_an_architecture_learns(architecture: str) -> None:
    assert share_learned(**QUICKLY[architecture], model__architecture=architecture) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("settings", SLOWLY, ids=str)
def test_it_learns_other_tasks_and_in_its_variants(settings: dict) -> None:
    assert share_learned(**settings) >= 0.98


def test_the_lexical_model_learns_a_language_that_differs_in_its_words_alone() -> None:
    draw = np.random.default_rng(1)
    meaning = dict(zip(range(4, 14), range(13, 3, -1), strict=True))
    sequences = [draw.integers(4, 14, size=draw.integers(1, 9)).tolist() for _ in range(400)]
    pairs = [(words, [meaning[word] for word in words]) for words in sequences]
    known, unseen = pairs[:300], pairs[300:]
    counted = Model1([(pad([x for x, _ in known], 0), pad([y for _, y in known], 0))], pad=0)
    for _ in range(10):
        counted.improve()
    model = build_model(
        small_config(model__architecture="lexical").model, WORDS, WORDS, shared=True
    )
    model.set_counts(counted.lexicon(len(WORDS), empty=0), counted.occurrences(len(WORDS)) + 1)
    engine = TorchEngine(model, WORDS, WORDS, torch.device("cpu"))
    found = beam_search(engine, [[*x, WORDS.eos] for x, _ in unseen], Task(DecodingConfig()))
    assert [list(hypotheses[0].tokens) for hypotheses in found] == [y for _, y in unseen]


def test_none_is_left_out() -> None:
    assert {*QUICKLY, "lexical", "transformer"} == set(ARCHITECTURES)
