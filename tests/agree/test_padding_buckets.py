"""A training step in a shape that comes back, recorded on a GPU, against the plain one."""

import pytest
import torch

from dragoman.data.batches import Batch, collate
from dragoman.data.packing import pad_to_bucket
from dragoman.training.gradients import BucketedGradients, Gradients, make_gradients
from tests.conftest import small_config, small_model, vocabulary

PIECES = vocabulary(23)
FILLED = ("rnn", "rnn-attention", "gnmt", "convs2s", "decoder-only")


def batch_of(lengths: list[int]) -> Batch:
    sources = [[4 + (i * 7 + n) % 19 for n in range(length)] for i, length in enumerate(lengths)]
    targets = [[4 + (i * 5 + n) % 19 for n in range(length + i % 3)] for i, length in
               enumerate(lengths)]  # fmt: skip
    return collate(sources, targets, PIECES, PIECES)


def gradient(
    way: type[Gradients], device: str, batches: list[Batch], precision: str, **settings: object
) -> dict[str, torch.Tensor]:
    """Add up the gradients of all batches; a shape is replayed when it comes a third time."""
    model = small_model(**settings).train().to(device)
    config = small_config(training__batch_tokens=100, training__precision=precision, **settings)
    gradients = way(model, config, torch.device(device))
    gradients.zero()
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        gradients.accumulate(batch, batch.tokens)
    found = {name: p.grad.clone() for name, p in model.named_parameters()}
    return found | {"sums": gradients.sums.clone()}


@pytest.mark.parametrize("architecture", FILLED)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_gradient_of_a_filled_batch_matches_the_plain_one(
    architecture: str, device: str
) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    batches = [batch_of(lengths) for lengths in ([2, 5, 9], [4, 4, 11], [1, 7, 10])] * 2
    with torch.backends.cudnn.flags(allow_tf32=False):
        plain, filled = (
            gradient(way, device, batches, "float32", model__architecture=architecture)
            for way in (Gradients, BucketedGradients)
        )
    # cuDNN chooses its algorithm by the shape
    tolerance = {"rtol": 1e-3, "atol": 1e-5} if device == "cpu" else {"rtol": 1e-2, "atol": 1e-3}
    for name, expected in plain.items():
        torch.testing.assert_close(
            filled[name], expected, **tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU records")
@pytest.mark.parametrize("architecture", FILLED)
def test_a_replayed_step_draws_the_dropout_of_its_own_seed(architecture: str) -> None:
    batch = batch_of([2, 5, 9])
    settings = {"model__architecture": architecture, "model__dropout": 0.3}
    model = small_model(**settings).train().cuda()
    config = small_config(training__batch_tokens=100, **settings)
    gradients = BucketedGradients(model, config, torch.device("cuda"))
    losses = []
    for seed in (1, 1, 1, 2, 1):  # computed, recorded and replayed, replayed ...
        gradients.zero()
        torch.manual_seed(seed)
        gradients.accumulate(batch, batch.tokens)
        losses.append(gradients.sums[0].item())
    assert losses[2] == losses[4] != losses[3]
    assert losses[0] == pytest.approx(losses[2], rel=1e-3)


def test_a_filled_batch_holds_every_token_once() -> None:
    batch = batch_of([2, 5, 9])
    filled = pad_to_bucket(batch, 64, PIECES.pad, PIECES.pad)
    assert filled.shape == (3, 12, 12, 64)
    source, target_in, real, target_out = (
        part.tolist() for part in torch.from_numpy(filled.ints).split(filled.shape.sizes)
    )
    assert [token for token in source if token != PIECES.pad] == batch.source[
        batch.source != PIECES.pad
    ].tolist()
    assert [target_in[place] for place in real[: batch.tokens]] == batch.target_in.ravel()[
        batch.real
    ].tolist()
    assert target_out[: batch.tokens] == batch.target_out.ravel()[batch.real].tolist()
    assert target_out[batch.tokens :] == [-1] * (64 - batch.tokens)


def test_sentences_that_fill_a_batch_are_copies_of_its_first() -> None:
    batch = batch_of([3] * 17)
    filled = pad_to_bucket(batch, 64, PIECES.pad, PIECES.pad)
    assert filled.shape.sentences == 18
    source = torch.from_numpy(filled.ints)[: 18 * 4].view(18, 4)
    assert torch.equal(source[17], source[0])


def test_only_a_gpu_fills() -> None:
    model = small_model(model__architecture="rnn")
    config = small_config(model__architecture="rnn")
    assert type(make_gradients(model, config, torch.device("cpu"))) is Gradients
