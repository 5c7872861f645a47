"""A probe reports the values that the model computes."""

import pytest
import torch

from studies.growth import kept_for_backward
from studies.probe import gradient_by_position, longest_chain, timings
from tests.conftest import small_model

SOURCE = torch.tensor([[5, 6, 7, 3]])
SHIFTED = torch.tensor([[2, 8, 9]])
TARGET = torch.tensor([[8, 9, 3]])


@pytest.mark.parametrize("architecture", ["transformer", "rnn", "rnn-attention", "convs2s"])
def test_the_gradient_at_a_word_matches_its_row_of_the_embedding(architecture: str) -> None:
    """No word occurs twice in the source, and no other part shares its vectors."""
    model = small_model(model__architecture=architecture, model__share_embeddings="none")
    log_probs = torch.log_softmax(model.logits(model(SOURCE, SHIFTED)), dim=-1)
    log_probs.gather(2, TARGET[..., None]).sum().backward()
    rows = model.source_embedding.words.weight.grad[SOURCE[0]]
    found = gradient_by_position(model.requires_grad_(False), SOURCE, SHIFTED, TARGET)
    torch.testing.assert_close(found[0], rows.norm(dim=-1))


def test_what_a_layer_keeps_is_counted_once_and_without_its_weights() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Identity(), torch.nn.ReLU())
    x = torch.randn(1, 16, 8, requires_grad=True)
    # the product's input and the ReLU's output
    assert kept_for_backward(layer, x) == 2 * 16 * 8 * 4


def test_a_chain_is_as_long_as_the_operations_that_wait_for_each_other() -> None:
    x = torch.ones(3, requires_grad=True)
    side = x.exp()
    y = x.sin().cos().tan()
    # the leaf's accumulation, three operations in a row, and the sum; the other branch is shorter
    assert longest_chain((y + side).sum()) == 1 + 3 + 1 + 1


def test_a_time_is_the_faster_of_two_runs_and_the_first_of_all_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    lasts = iter([0.5, 5.0, 3.0, 2.0, 7.0])

    def work() -> None:
        clock[0] += next(lasts)

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    assert timings(work, torch.device("cpu"), repeats=2) == [3.0, 2.0]
