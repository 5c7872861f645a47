import math

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.config import variants
from dragoman.lab import transformer_variants
from dragoman.model.attention import SIMILARITIES, Similarity, plain_attention
from tests.unit.model.test_attention import B, H, K, S, T, inputs


def similarity(kind: str) -> Similarity:
    """Build a similarity and move its weights away from their initial values."""
    measure = SIMILARITIES[kind](H, K).double()
    with torch.no_grad():
        for parameter in measure.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    return measure


def by_hand(measure: Similarity, kind: str, q: np.ndarray, k: np.ndarray, head: int) -> float:
    """Compare one key (K,) with one query (K,) by the formula."""
    of = {name: parameter[head].detach().numpy() for name, parameter in measure.named_parameters()}
    formulas = {
        "dot": lambda: q @ k,
        "scaled-dot": lambda: q @ k / math.sqrt(K),
        "cosine": lambda: (
            np.exp(of["log_scale"][0, 0]) * (q @ k) / (np.sqrt(q @ q) * np.sqrt(k @ k))
        ),
        "mean-dot": lambda: q @ k / K,
        "plain-cosine": lambda: (q @ k) / (np.sqrt(q @ q) * np.sqrt(k @ k)),
        "general": lambda: q @ of["between"] @ k,
        "qk-norm": lambda: (
            (of["gain"][0] * q / np.sqrt(np.mean(q**2) + 1e-6))
            @ (k / np.sqrt(np.mean(k**2) + 1e-6))
            / math.sqrt(K)
        ),
        "additive": lambda: (
            of["of_both"][:, 0] @ np.tanh(of["of_query"].T @ q + of["of_key"].T @ k)
        ),
        "concat": lambda: (
            np.concatenate([of["of_query"], of["of_key"]])[:, 0] @ np.concatenate([q, k])
        ),
    }
    return float(formulas[kind]())


every_similarity = pytest.mark.parametrize("kind", variants.SIMILARITIES)


@every_similarity
def test_the_multiplications_of_a_similarity_equal_torchs_count(kind: str) -> None:
    q, k, _ = inputs()
    measure = similarity(kind)
    with FlopCounterMode(display=False) as counter:
        measure(q, k)
    # torch counts a multiplication and an addition as two
    assert counter.get_total_flops() == 2 * measure.multiplications(B * T, B * S, B * T * S)


@every_similarity
def test_a_similarity_equals_its_formula(kind: str) -> None:
    q, k, _ = inputs()
    measure = similarity(kind)
    expected = np.empty((B, H, T, S))
    for b, h, t, s in np.ndindex(expected.shape):
        expected[b, h, t, s] = by_hand(measure, kind, q[b, h, t].numpy(), k[b, h, s].numpy(), h)
    np.testing.assert_allclose(measure(q, k).detach().numpy(), expected, atol=1e-12)


@every_similarity
def test_the_gradient_of_attention_equals_finite_differences(kind: str) -> None:
    q, k, v = (tensor[:1, :, :3].requires_grad_() for tensor in inputs())
    measure = similarity(kind)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    parts = (q, k, v, *measure.parameters())
    assert torch.autograd.gradcheck(
        lambda q, k, v, *weights: plain_attention(q, k, v, mask, measure)[0], parts
    )


@every_similarity
def test_heads_may_share_their_keys(kind: str) -> None:
    q, k, _ = inputs()
    measure = similarity(kind)
    torch.testing.assert_close(measure(q, k[:, :1]), measure(q, k[:, :1].expand_as(k)))


def test_a_cosine_does_not_see_lengths() -> None:
    q, k, _ = inputs()
    measure = similarity("cosine")
    torch.testing.assert_close(measure(5 * q, 0.1 * k), measure(q, k))


def test_concat_gives_every_query_the_same_weights() -> None:
    """The query adds the same number to the scores of all keys, and the softmax cancels it."""
    q, k, v = inputs()
    weights = plain_attention(q, k, v, similarity=similarity("concat"))[1]
    torch.testing.assert_close(weights, weights[:, :, :1].expand_as(weights))


def test_additive_in_blocks_equals_additive_in_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, _ = (tensor.requires_grad_() for tensor in inputs())
    measure = similarity("additive")
    whole = measure(q, k)
    gradients = torch.autograd.grad(whole.square().sum(), (q, k, *measure.parameters()))
    monkeypatch.setattr(transformer_variants, "MAX_BLOCK", 2 * k.numel())  # two queries at a time
    blocks = measure(q, k)
    torch.testing.assert_close(blocks, whole)
    in_blocks = torch.autograd.grad(blocks.square().sum(), (q, k, *measure.parameters()))
    torch.testing.assert_close(in_blocks, gradients)
