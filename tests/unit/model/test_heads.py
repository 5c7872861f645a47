import numpy as np
import pytest
import torch

from dragoman.config import variants
from dragoman.model.attention import Attention
from tests.conftest import small_config

D, H = 6, 3
LAYOUTS = [*variants.HEADS_LAYOUTS, "bare"]


def attention(layout: str, heads: int = H) -> Attention:
    settings = {"projections": False} if layout == "bare" else {"heads_layout": layout}
    settings |= {"groups": heads}  # fewer are in test_later_parts
    named = {f"model__attention__{name}": value for name, value in settings.items()}
    made = Attention(small_config(model__d_model=D, model__num_heads=heads, **named).model).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
            )
    return made


def softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def matrices(made: Attention, layout: str, head: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Wq, Wk, Wv of a head with their biases, cut from where they are stored."""
    of = {name: parameter.detach().numpy() for name, parameter in made.project.named_parameters()}
    if layout == "narrow":
        return [(of["weight"][i, head].T, of["bias"][i, head, 0]) for i in range(3)]
    size = D if layout == "wide" else D // H
    if layout == "multi-query":
        starts = [head * size, H * size, H * size + size]
    else:
        starts = [(i * H + head) * size for i in range(3)]
    return [(of["to_qkv.weight"][s : s + size], of["to_qkv.bias"][s : s + size]) for s in starts]


def by_hand(made: Attention, layout: str, x: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """One sentence, head by head: x (T, D) asks, memory (S, D) is looked at."""
    outputs = []
    for head in range(H):
        chunk = (
            slice(head * D // H, (head + 1) * D // H)
            if layout in ("narrow", "bare")
            else slice(None)
        )
        if layout == "bare":
            q, k, v = x[:, chunk], memory[:, chunk], memory[:, chunk]
        else:
            parts = zip(matrices(made, layout, head), (x, memory, memory), strict=True)
            q, k, v = (given[:, chunk] @ w.T + b for (w, b), given in parts)
        outputs.append(softmax(q @ k.T / np.sqrt(q.shape[1])) @ v)
    joined = np.concatenate(outputs, axis=1)
    if layout == "bare":
        return joined
    return (
        joined @ made.project.to_out.weight.detach().numpy().T
        + made.project.to_out.bias.detach().numpy()
    )


def sequences() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(2, length, D, dtype=torch.float64, generator=draw) for length in (4, 5)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_its_formula(layout: str) -> None:
    made = attention(layout)
    x, memory = sequences()
    for b in range(2):
        asking = x[b].numpy()
        asked = memory[b].numpy()
        own, other = by_hand(made, layout, asking, asking), by_hand(made, layout, asking, asked)
        np.testing.assert_allclose(made(x)[b].detach().numpy(), own, atol=1e-10)
        np.testing.assert_allclose(
            made(x, made.keys_values(memory))[b].detach().numpy(), other, atol=1e-10
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_its_gradient_is_that_of_finite_differences(layout: str) -> None:
    made = attention(layout)
    x, memory = (tensor[:1].requires_grad_() for tensor in sequences())
    parts = (x, memory, *made.parameters())
    assert torch.autograd.gradcheck(
        lambda x, memory, *weights: made(x, made.keys_values(memory), record=[]), parts
    )


def test_shared_keys_and_values_are_the_same_for_all_heads() -> None:
    k, v = attention("multi-query").keys_values(sequences()[1])
    assert k.shape == v.shape == (2, 1, 5, D // H)


def test_without_projections_there_is_nothing_to_learn_and_one_head_is_the_bare_formula() -> None:
    """w = softmax(x·x) over all words, y = w x."""
    config = small_config(
        model__d_model=D,
        model__num_heads=1,
        model__attention__projections=False,
        model__attention__similarity="dot",
    )
    made = Attention(config.model)
    assert not list(made.parameters())
    x = sequences()[0]
    expected = [softmax(one @ one.T) @ one for one in x.numpy()]
    np.testing.assert_allclose(made(x).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_multiplications_of_a_layout_match_its_matrices(layout: str) -> None:
    """Each query and each key meets every matrix that is used on it once."""
    made = attention(layout)
    sizes = {
        "paper": (D * D, 2 * D * D),
        "wide": (D * H * D, 2 * D * H * D),
        "multi-query": (D * D, 2 * D * D // H),
        "grouped": (D * D, 2 * D * D),
    }
    sizes |= {"narrow": (D * D // H, 2 * D * D // H), "bare": (0, 0)}
    asking, asked = sizes[layout]
    out = sum(p.numel() for name, p in made.project.named_parameters() if name == "to_out.weight")
    features = made.project.features * H
    expected = 7 * (asking + out) + 11 * asked + 2 * features * 70
    assert made.multiplications(queries=7, keys=11, products=70) == expected
