"""Each kernel of ours against its plain twin, forward and backward; without a GPU in Triton's
interpreter."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from dragoman.data.batches import collate
from dragoman.data.packing import pack
from dragoman.model.attention import causal_mask, plain_attention
from dragoman.model.kernels import copies_at_hand, near
from dragoman.model.kernels import product as products
from dragoman.model.kernels.cross_entropy import linear_cross_entropy
from dragoman.model.kernels.linear import linear
from dragoman.model.kernels.noise import draw_seed, seeds_at_hand
from dragoman.model.kernels.packed_attention import packed_attention
from dragoman.model.kernels.product import LARGEST, TILES, Tile, product, product_by_accelerator
from dragoman.model.kernels.residual import dropout_add, residual_norm
from dragoman.training.gradients import Gradients, PackedGradients
from dragoman.training.loss import smoothed_cross_entropy
from tests.conftest import small_config, small_model, vocabulary

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE, requires_grad=True)


def assert_same(ours: Tensor, plain: Tensor, leaves: list[Tensor]) -> None:
    """The same values, and the same gradients for a random direction."""
    torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4)
    direction = torch.randn_like(plain)
    for a, b in zip(
        torch.autograd.grad(ours, leaves, direction),
        torch.autograd.grad(plain, leaves, direction),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def starts_of(lengths: list[int]) -> Tensor:
    return F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int().to(DEVICE)


def one_by_one(
    q: Tensor, k: Tensor, v: Tensor, lengths: tuple[list[int], list[int]], heads: int, causal: bool
) -> Tensor:
    """The formula, sentence by sentence."""
    outputs = []
    for a, b, c in zip(q.split(lengths[0]), k.split(lengths[1]), v.split(lengths[1]), strict=True):
        split = [x.view(len(x), heads, x.shape[1] // heads).transpose(0, 1) for x in (a, b, c)]
        mask = causal_mask(len(a), len(b), q.device) if causal else None
        out = plain_attention(*split, mask)[0] if len(b) else torch.zeros_like(split[0])
        outputs.append(out.transpose(0, 1).flatten(1))
    return torch.cat(outputs)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_self_attention_equals_attention_of_each_sentence(causal: bool) -> None:
    lengths, heads, width = [3, 1, 0, 33, 7], 2, 32
    joined = random(sum(lengths), 3 * width)
    starts = starts_of(lengths)
    ours = packed_attention(joined, None, starts, starts, heads, 33, causal)
    q, k, v = joined.chunk(3, dim=1)
    assert_same(ours, one_by_one(q, k, v, (lengths, lengths), heads, causal), [joined])


def test_packed_cross_attention_equals_attention_of_each_pair() -> None:
    queries, keys, heads, width = [3, 5, 2, 0], [4, 0, 17, 3], 2, 32
    q, kv = random(sum(queries), width), random(sum(keys), 2 * width)
    ours = packed_attention(q, kv, starts_of(queries), starts_of(keys), heads, 17)
    k, v = kv.chunk(2, dim=1)
    assert_same(ours, one_by_one(q, k, v, (queries, keys), heads, False), [q, kv])


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_attention_without_gradients_takes_sentences_of_any_length(causal: bool) -> None:
    lengths, heads, width = [3, 0, 70, 130, 33], 2, 32
    joined, starts = random(sum(lengths), 3 * width), starts_of(lengths)
    ours = packed_attention(joined, None, starts, starts, heads, 130, causal)
    q, k, v = joined.chunk(3, dim=1)
    plain = one_by_one(q, k, v, (lengths, lengths), heads, causal)
    torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4)
    queries, keys = [70, 5, 2, 0], [4, 0, 67, 3]
    q, kv = random(sum(queries), width), random(sum(keys), 2 * width)
    ours = packed_attention(q, kv, starts_of(queries), starts_of(keys), heads, 70)
    plain = one_by_one(q, *kv.chunk(2, dim=1), (queries, keys), heads, False)
    torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the order of sums is the GPU's own")
@torch.no_grad()
def test_attention_to_a_sentence_does_not_depend_on_its_batch() -> None:
    heads, width, lengths = 8, 512, [9, 200, 31, 64, 97, 1, 128, 33]
    joined = random(sum(lengths), 3 * width).bfloat16()
    starts = starts_of(lengths)
    for causal in (False, True):
        whole = packed_attention(joined, None, starts, starts, heads, 200, causal)
        for one, together in zip(joined.split(lengths), whole.split(lengths), strict=True):
            own = starts_of([len(one)])
            alone = packed_attention(one, None, own, own, heads, len(one), causal)
            assert torch.equal(alone, together)


def test_attention_dropout_is_linear_in_the_values_and_right_on_average() -> None:
    """If all scores are equal, the output is a mean of values, each kept with probability 1-p and
    divided by it."""
    rows, heads = 128, 2
    joined = torch.zeros(rows, 96, device=DEVICE)
    joined[:, 64:] = 1.0
    joined.requires_grad_()
    starts = torch.arange(0, rows + 1, 32, dtype=torch.int32, device=DEVICE)
    torch.manual_seed(3)
    out = packed_attention(joined, None, starts, starts, heads, 32, dropout=0.25)
    assert out.mean().item() == pytest.approx(1.0, abs=0.02)
    assert out.std().item() == pytest.approx((0.25 / 0.75 / 32) ** 0.5, rel=0.15)
    (grad,) = torch.autograd.grad(out.sum(), joined)
    # linear: f(v) = <df/dv, v>
    torch.testing.assert_close((grad[:, 64:] * joined[:, 64:]).sum(), out.sum())
    torch.manual_seed(3)
    assert torch.equal(out, packed_attention(joined, None, starts, starts, heads, 32, dropout=0.25))
    assert not torch.equal(
        out, packed_attention(joined, None, starts, starts, heads, 32, dropout=0.25)
    )


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start few programs: the interpreter is slow for each, even if it has nothing to do."""
    monkeypatch.setattr("dragoman.model.kernels.linear._PROGRAMS", 8)


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("relu", [False, True])
def test_our_linear_layer_is_the_linear_layer(relu: bool) -> None:
    x, weight, bias = random(7, 90, 24), random(140, 24), random(140)
    plain = F.linear(x, weight, bias)
    assert_same(linear(x, weight, bias, relu), F.relu(plain) if relu else plain, [x, weight, bias])


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("rows", [None, slice(10, 60)])
@pytest.mark.parametrize("relu", [False, True])
def test_our_linear_layer_adds_to_gradients_that_are_there(relu: bool, rows: slice | None) -> None:
    x, weight, bias = random(90, 24), random(140, 24), random(140)
    part = rows or slice(None)
    plain = F.linear(x, weight[part], bias[part])
    plain = F.relu(plain) if relu else plain
    direction = torch.randn_like(plain)
    expected = torch.autograd.grad(plain, [x, weight, bias], direction)
    weight.grad, bias.grad = torch.ones_like(weight), torch.full_like(bias, 2.0)
    ours = linear(x, weight, bias, relu, rows)
    torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4)
    ours.backward(direction)
    for leaf, gradient, before in zip((x, weight, bias), expected, (0, 1, 2), strict=True):
        torch.testing.assert_close(leaf.grad, gradient + before, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="tensor cores are the GPU's own")
@pytest.mark.skipif("dtype_out" not in torch.ops.aten.addmm.overloads(), reason="torch 2.8 can")
def test_gradients_are_added_up_in_float32() -> None:
    """A sum of two thousand products is not rounded to bf16."""
    x, weight, bias = (random(*shape).detach() for shape in ((2048, 64), (32, 64), (32,)))
    weight.requires_grad_()
    bias.requires_grad_()
    weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
    near = x.bfloat16()
    direction = torch.randn(2048, 32, device=DEVICE).bfloat16()
    linear(near, weight, bias).backward(direction)
    torch.testing.assert_close(
        weight.grad, direction.float().T @ near.float(), rtol=1e-4, atol=1e-3
    )
    torch.testing.assert_close(bias.grad, direction.float().sum(0), rtol=1e-4, atol=1e-3)


def test_our_linear_layer_needs_no_bias() -> None:
    x, weight = random(9, 24), random(14, 24)
    assert_same(linear(x, weight, None), F.linear(x, weight), [x, weight])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("features", [64, 40])
def test_the_product_for_translating_is_the_linear_layer(features: int, relu: bool) -> None:
    x, weight, bias = (random(*shape).detach() for shape in ((70, features), (52, features), (52,)))
    plain = F.linear(x, weight, bias)
    tile = Tile(64, 32, 4, 2)
    torch.testing.assert_close(
        product(x, weight, bias, relu, tile), F.relu(plain) if relu else plain
    )
    torch.testing.assert_close(product(x, weight, None, False, tile), F.linear(x, weight))
    if products.TensorDescriptor is not None:
        out = torch.empty_like(plain)
        product_by_accelerator(x, weight, bias, out, relu, tile, 3)
        torch.testing.assert_close(out, F.relu(plain) if relu else plain)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the order of sums is the GPU's own")
@pytest.mark.parametrize("shape", [(512, 512), (1536, 512), (512, 2048), (8000, 512), (96, 96)])
def test_a_row_of_the_product_is_the_same_bits_whatever_stands_beside_it(
    shape: tuple[int, int], monkeypatch
) -> None:
    columns, features = shape
    x, weight, bias = (
        random(*size).detach().bfloat16()
        for size in ((2048, features), (columns, features), (columns,))
    )
    whole = product(x, weight, bias)
    for rows in (1, 7, 64, 500, 2000):
        for tile in (None, *TILES.values(), LARGEST):
            assert torch.equal(product(x[:rows], weight, bias, tile=tile), whole[:rows])
    monkeypatch.setattr(products, "_programs", lambda device: 0)  # on other GPUs
    for tile in (*TILES.values(), LARGEST):
        assert torch.equal(product(x, weight, bias, tile=tile), whole)


@pytest.mark.parametrize("width", [32, 48])
def test_residual_norm_is_the_norm_of_the_sum(width: int) -> None:
    x, y, weight, bias = random(5, 3, width), random(5, 3, width), random(width), random(width)
    assert_same(
        residual_norm(x, y, weight, bias, 1e-5),
        F.layer_norm(x + y, (width,), weight, bias, 1e-5),
        [x, y, weight, bias],
    )
    assert_same(
        residual_norm(x, None, weight, bias, 1e-5),
        F.layer_norm(x, (width,), weight, bias, 1e-5),
        [x, weight, bias],
    )


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_what_goes_through_a_sublayer_and_around_it_gets_both_gradients(dropout: float) -> None:
    """Also if it is needed elsewhere, or one of the ways leads nowhere."""
    width = 32
    x, y, weight, bias = random(5, width), random(5, width), random(width), random(width)

    def twice(norm: Callable[..., Tensor]) -> Tensor:
        torch.manual_seed(1)
        once = norm(x, y)
        return norm(once, once * y) + norm(once, y) + once

    kept = []
    torch.manual_seed(1)
    for _ in range(3 if dropout else 0):
        kept.append(dropout_add(None, torch.ones_like(y), dropout))
    shares = iter(kept)
    assert_same(
        twice(lambda x, y: residual_norm(x, y, weight, bias, 1e-5, dropout)),
        twice(lambda x, y: F.layer_norm(x + y * next(shares, 1.0), (width,), weight, bias, 1e-5)),
        [x, y, weight, bias],
    )
    around_alone = residual_norm(residual_norm(x, y, weight, bias, 1e-5), y, weight, bias, 1e-5)
    once = F.layer_norm(x + y, (width,), weight, bias, 1e-5)
    plain = F.layer_norm(once + y, (width,), weight, bias, 1e-5)
    assert_same(around_alone, plain, [x, y, weight, bias])


def test_dropout_keeps_the_right_share_and_backward_draws_the_same() -> None:
    x, y = random(300, 64), random(300, 64)
    torch.manual_seed(1)
    out = dropout_add(x, y, 0.3)
    kept = (out - x).abs() > 0
    torch.testing.assert_close(out[kept], (x + y / 0.7)[kept])
    assert kept.float().mean().item() == pytest.approx(0.7, abs=0.02)
    direction = torch.randn_like(out)
    dx, dy = torch.autograd.grad(out, [x, y], direction)
    torch.testing.assert_close(dx, direction)
    torch.testing.assert_close(dy, torch.where(kept, direction / 0.7, 0.0))
    assert not torch.equal(kept, (dropout_add(None, y, 0.3) != 0))  # another seed, another choice
    neighbours = (kept[:, 1:] & kept[:, :-1]).float().mean().item()
    assert neighbours == pytest.approx(0.49, abs=0.02)  # independent of one another


def test_seeds_at_hand_are_all_different_and_others_follow_when_they_are_used_up() -> None:
    with seeds_at_hand(DEVICE):
        seeds = [draw_seed(DEVICE) for _ in range(200)]
    seeds.append(draw_seed(DEVICE))
    assert all(seed.shape == (1,) for seed in seeds)
    assert len({seed.item() for seed in seeds}) == 201


def test_residual_norm_drops_out_before_the_sum() -> None:
    width = 64
    x, y, weight, bias = random(50, width), random(50, width), random(width), random(width)
    torch.manual_seed(1)
    kept = dropout_add(None, torch.ones_like(y), 0.3) != 0
    torch.manual_seed(1)
    ours = residual_norm(x, y, weight, bias, 1e-5, 0.3)
    plain = F.layer_norm(x + torch.where(kept, y / 0.7, 0.0), (width,), weight, bias, 1e-5)
    assert_same(ours, plain, [x, y, weight, bias])


@pytest.mark.parametrize("words", [50, 5000])
def test_the_fused_loss_is_the_smoothed_cross_entropy_without_padding(words: int) -> None:
    hidden, weight = random(6, 32), random(words, 32)
    targets = torch.tensor([3, 0, -1, 49, 7, -1], device=DEVICE)
    loss, nll = linear_cross_entropy(hidden, weight, targets, 0.1)
    real = targets >= 0
    plain, plain_nll = smoothed_cross_entropy(hidden[real] @ weight.T, targets[real], 0.1)
    torch.testing.assert_close(nll, plain_nll)
    assert_same(loss, plain, [hidden, weight])


def test_copies_at_hand_are_taken_for_their_own_parameters_in_their_own_type() -> None:
    a, b = random(4, 4), random(4, 4)
    copy = torch.zeros(4, 4, dtype=torch.bfloat16)
    with copies_at_hand({a: copy}):
        assert near(a, torch.bfloat16) is copy
        assert near(a, torch.float32) is a
        assert torch.equal(near(b, torch.bfloat16), b.bfloat16())
    assert torch.equal(near(a, torch.bfloat16), a.bfloat16())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="elsewhere nothing is recorded")
def test_a_recorded_step_reads_the_weights_as_they_are() -> None:
    pieces = vocabulary(23)
    config = small_config(training__batch_tokens=100, training__precision="bf16")
    batch = collate([[5, 6, 7], [8, 3]], [[9, 10, 11, 12], [13]], pieces, pieces)
    models = [small_model().train().to(DEVICE) for _ in range(2)]
    recorded = PackedGradients(models[0], config, DEVICE)
    for factor in (1.0, 1.0, 1.5):  # computed, recorded, replayed with other weights
        with torch.no_grad():
            for parameter in models[0].parameters():
                parameter.mul_(factor)
        recorded.clear()
        recorded.add(batch, batch.tokens)
    models[1].load_state_dict(models[0].state_dict())
    computed = PackedGradients(models[1], config, DEVICE)
    computed.add(batch, batch.tokens)
    for replayed, parameter in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(replayed.grad, parameter.grad)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(
    ("consistency", "layers"), [(0.0, 2), (2.5, 1), pytest.param(2.5, 2, marks=pytest.mark.slow)]
)
def test_the_gradient_of_a_packed_batch_matches_the_padded_one(
    norm: str, consistency: float, layers: int
) -> None:
    """Padding is included. All our kernels run on a GPU; elsewhere only the attention does."""
    pieces = vocabulary(23)
    sizes = {"model__num_encoder_layers": layers, "model__num_decoder_layers": layers}
    config = small_config(
        **sizes,
        model__norm_position=norm,
        training__batch_tokens=100,
        training__precision="float32",
        training__r_drop_alpha=consistency,
    )
    sources = [[5, 6, 7], [8, 3], list(range(4, 22)) * 2]
    targets = [[9, 10, 11, 12], [13], [14] * 30]
    batch = collate(sources, targets, pieces, pieces)
    found = []
    for way in (Gradients, PackedGradients):
        model = small_model(model__norm_position=norm, **sizes).train().to(DEVICE)
        gradients = way(model, config, DEVICE)
        gradients.zero()
        gradients.accumulate(batch, batch.tokens)
        found.append((gradients.sums, {name: p.grad for name, p in model.named_parameters()}))
    torch.testing.assert_close(found[0][0], found[1][0])
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(
            found[1][1][name], gradient, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_a_packed_batch_holds_every_token_once_and_fills_up_to_its_quantum() -> None:
    pieces = vocabulary(60)
    sources, targets = [[5, 6, 7], [8, 3], [9]], [[10, 11], [12], list(range(13, 58))]
    packed = pack(collate(sources, targets, pieces, pieces), 64, pieces.pad, pieces.pad)
    assert packed is not None
    parts = torch.from_numpy(packed.ints).split(packed.shape.sizes)
    source, source_at, target_in, target_at, target_out, source_starts, target_starts = (
        p.tolist() for p in parts
    )
    assert source == [5, 6, 7, 8, 3, 9] + [pieces.pad] * 58
    assert source_at[:6] == [0, 1, 2, 0, 1, 0]
    assert [t for t in target_out if t >= 0] == [t for row in targets for t in [*row, pieces.eos]]
    assert target_in[:5] == [pieces.bos, 10, 11, pieces.bos, 12]
    assert source_starts[:4] == [0, 3, 5, 6]
    assert target_starts[:4] == [0, 3, 5, 51]
    assert source_starts[-1] == target_starts[-1] == 64
    assert max(source_at + target_at) < packed.shape.longest == 64
