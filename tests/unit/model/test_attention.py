import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.model.attention import causal_mask, fused_attention, plain_attention
from dragoman.model.transformer import Transformer
from tests.conftest import small_model

B, H, T, S, K = 2, 3, 5, 7, 4


def inputs(
    seed: int = 1, queries: int = T, keys: int = S
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shapes = ((B, H, queries, K), (B, H, keys, K), (B, H, keys, K))
    q, k, v = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)
    return q, k, v


def by_hand(q: np.ndarray, k: np.ndarray, v: np.ndarray, may_look: np.ndarray) -> np.ndarray:
    """softmax(q·k/√K) v written as sums over single words."""
    y = np.zeros_like(q)
    for b, h, t in np.ndindex(q.shape[:3]):
        exponentials = [
            math.exp(sum(q[b, h, t] * k[b, h, s]) / math.sqrt(K)) if may_look[b, t, s] else 0.0
            for s in range(k.shape[2])
        ]
        y[b, h, t] = sum(e / sum(exponentials) * v[b, h, s] for s, e in enumerate(exponentials))
    return y


MASKS = {
    "everything": np.ones((B, T, S), dtype=bool),
    "padding": np.array([[[True] * 7] * T, [[True] * 4 + [False] * 3] * T]),
    "random": np.random.default_rng(3).random((B, T, S)) < 0.5,
}
MASKS["random"][:, :, 0] = True


@pytest.mark.parametrize("name", MASKS)
def test_attention_is_its_formula(name: str) -> None:
    q, k, v = inputs()
    expected = by_hand(q.numpy(), k.numpy(), v.numpy(), MASKS[name])
    mask = torch.from_numpy(MASKS[name])[:, None]
    plain, weights = plain_attention(q, k, v, mask)
    np.testing.assert_allclose(plain.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(fused_attention(q, k, v, mask).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(weights.sum(-1).numpy(), 1.0, atol=1e-12)
    assert float(weights[~mask.expand_as(weights)].abs().sum()) == 0.0


def test_plain_and_fused_have_the_same_gradient() -> None:
    gradients = []
    for fused in (False, True):
        q, k, v = (tensor.requires_grad_() for tensor in inputs(queries=S))
        y = (
            fused_attention(q, k, v, causal=True)
            if fused
            else plain_attention(q, k, v, causal_mask(S, S))[0]
        )
        y.square().sum().backward()
        gradients.append([tensor.grad for tensor in (q, k, v)])
    for plain, fused in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, fused, atol=1e-12, rtol=1e-10)


def test_three_ways_to_mask_are_one() -> None:
    """Scores of -∞, exponentials of 0, and weights times 0 renormalised."""
    q, k, v = inputs(queries=S)
    mask = causal_mask(S, S)
    scores = q @ k.transpose(-2, -1) / math.sqrt(K)
    infinite = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
    exponentials = torch.exp(scores) * mask
    zeroed = torch.softmax(scores, dim=-1) * mask
    torch.testing.assert_close(infinite, exponentials / exponentials.sum(-1, keepdim=True))
    torch.testing.assert_close(infinite, zeroed / zeroed.sum(-1, keepdim=True))
    torch.testing.assert_close(infinite @ v, plain_attention(q, k, v, mask)[0])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_no_position_sees_a_later_one_in_any_layer(norm: str) -> None:
    model = small_model(model__norm_position=norm)
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9, 10, 11]])
    changed = target.clone()
    changed[0, 3] = 15
    before, after = model(source, target), model(source, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])
    words = model.target_embedding.words(target).detach().requires_grad_()
    model.target_embedding.words.forward = lambda ids: words  # type: ignore[method-assign]
    model(source, target)[0, 1].sum().backward()
    assert float(words.grad[0, 2:].abs().sum()) == 0.0
    assert float(words.grad[0, :2].abs().sum()) > 0.0


def test_the_decoder_looks_at_the_encoders_last_layer() -> None:
    model = small_model()
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8]])
    memory, mask = model.encoder_states(source)
    torch.testing.assert_close(
        looking_at(model, target, [memory, memory], mask), model(source, target)
    )
    assert not torch.allclose(
        looking_at(model, target, [memory, memory + 1.0], mask), model(source, target)
    )


def test_a_decoder_layer_looks_at_the_encoder_layer_of_its_number() -> None:
    """The first memory equals the output of an encoder that has only the first layer."""
    model = small_model(model__attention__cross_attention_layer="same-layer")
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8]])
    mask = torch.ones(1, 1, 1, 4, dtype=torch.bool)
    first = model.encoder[0](model.source_embedding(source), model.encoder[0].attention)
    second = model.encoder[1](first, model.encoder[1].attention)
    torch.testing.assert_close(
        looking_at(model, target, [first, second], mask), model(source, target)
    )
    assert not torch.allclose(
        looking_at(model, target, [second, second], mask), model(source, target)
    )


def looking_at(model: Transformer, target: Tensor, memories: list[Tensor], mask: Tensor) -> Tensor:
    """The decoder's output where each of its layers is given a memory."""
    given = [
        tensor
        for layer, x in zip(model.decoder, memories, strict=True)
        for tensor in layer.cross.keys_values(x)
    ]
    return model.decode(target, 0, [tensor[:, :, :0] for tensor in given], [*given, mask])[0]
