"""Every variant of the Transformer keeps the promises of the plain one."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.base import AttentionRecorder
from dragoman.model.build import Model, build_model, get_weights, set_weights
from tests.conftest import small_config, small_model, vocabulary
from tests.variants import VARIANTS

SOURCES = torch.tensor([[5, 6, 7, 3, 0, 0], [9, 3, 0, 0, 0, 0], [11, 4, 8, 6, 12, 3]])
every_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)


def precise_model(settings: dict) -> Model:
    """Build the model in 64 bits: batch norms and hard choices amplify rounding."""
    return small_model(**settings).double()


@every_variant
def test_cached_steps_equal_the_full_pass(settings: dict) -> None:
    model = precise_model(settings)
    target = torch.from_numpy(np.random.default_rng(2).integers(4, 23, size=(3, 9)))
    full = model(SOURCES, target)
    state = model.start(SOURCES)
    for t in range(9):
        hidden, _ = model.step(state, target[:, t])
        torch.testing.assert_close(hidden, full[:, t])


@every_variant
def test_no_position_sees_a_later_one(settings: dict) -> None:
    model = small_model(**settings)
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9, 10, 11]])
    changed = target.clone()
    changed[0, 3] = 15
    before, after = model(source, target), model(source, changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])
    words = model.target_embedding.words(target).detach().requires_grad_()
    model.target_embedding.words.forward = lambda ids: words  # type: ignore[method-assign]
    model(source, target)[0, 1].square().sum().backward()
    assert float(words.grad[0, 2:].abs().sum()) == 0.0
    assert float(words.grad[0, :2].abs().sum()) > 0.0


@every_variant
def test_padding_never_changes_a_result(settings: dict) -> None:
    model = precise_model(settings)
    source, target = torch.tensor([[5, 9, 11, 3]]), torch.tensor([[2, 7, 12]])
    padded_source = torch.cat([source, torch.zeros(1, 9, dtype=torch.long)], dim=1)
    padded_target = torch.cat([target, torch.zeros(1, 5, dtype=torch.long)], dim=1)
    # a norm over the batch must not count padding as words
    for mode in (model.eval(), model.train()):
        alone = mode(source, target)
        padded = mode(padded_source, padded_target)[:, :3]
        torch.testing.assert_close(padded, alone)


@every_variant
def test_the_weights_we_show_are_the_weights_we_use(settings: dict) -> None:
    """Recording takes the plain code path: its outputs equal the fast path's, and its weights sum
    to one."""
    model = precise_model(settings)
    source = torch.tensor([[5, 9, 11, 3], [6, 3, 0, 0]])
    target = torch.tensor([[2, 7, 12], [2, 8, 9]])
    shown = model.attention_weights(source, target)
    torch.testing.assert_close(recorded(model, source, target), model(source, target))
    for name, queries, keys in (("encoder", 4, 4), ("decoder", 3, 3), ("cross", 3, 4)):
        if name == "decoder" and model.config.decoder_self_attention == "ssru":
            assert name not in shown  # a recurrence has no weights to show
            continue
        for weights in shown[name]:
            assert weights.shape == (2, model.config.num_heads, queries, keys)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    for weights in (*shown["encoder"], *shown["cross"]):
        assert float(weights[1, :, :, 2:].detach().abs().sum()) == 0.0
    for number in range(model.attention_layers):
        state = model.start(source)
        for t in range(3):
            _, stepped = model.step(state, target[:, t], attention_layer=number)
            torch.testing.assert_close(stepped, shown["cross"][number][:, :, t].mean(1))


@every_variant
def test_weights_survive_being_saved_by_name(settings: dict) -> None:
    model = small_model(**settings).train()
    pieces = vocabulary(23)
    source, target = torch.tensor([[5, 9, 11, 3]]), torch.tensor([[2, 7, 12]])
    model(source, target)  # a norm over the batch remembers what it has seen
    other = build_model(small_config(**settings).model, pieces, pieces, shared=True, seed=9)
    set_weights(other, get_weights(model))
    torch.testing.assert_close(other.eval()(source, target), model.eval()(source, target))


@every_variant
def test_every_weight_but_a_cancelled_one_has_a_gradient(settings: dict) -> None:
    """Only concat's weights for the query get no gradient: the softmax cancels them."""
    model = precise_model(settings)
    hidden = model(SOURCES, torch.tensor([[2, 7, 12, 9, 4]]).expand(3, -1))
    model.logits(hidden)[..., 5].square().sum().backward()
    for name, parameter in model.named_parameters():
        if ".experts." in name and not parameter.grad.any():
            continue  # no word chose this one
        cancelled = settings.get("model__attention__similarity") == "concat" and name.endswith(
            "similarity.of_query"
        )
        norm = float(parameter.grad.norm())
        assert (norm < 1e-8) == cancelled, (name, norm)


@every_variant
def test_only_the_plain_transformer_takes_the_packed_road(settings: dict) -> None:
    pytest.importorskip("triton")
    model = small_model(**{**settings, "model__d_model": 64, "model__num_heads": 2})
    plain = {"model__norm_position": "pre"}, {"model__positions__kind": "learned"}, {}
    assert model.can_be_packed == (settings in plain)
    engine = TorchEngine(model, vocabulary(23), vocabulary(23), torch.device("cpu"))
    assert not engine.searches_on_device


@every_variant
def test_our_count_of_multiplications_matches_torchs(settings: dict) -> None:
    """One target word, so that nothing is masked; what local attention leaves out is masked, and
    torch counts it."""
    model = small_model(**{**settings, "model__attention__window": 9})
    with FlopCounterMode(display=False) as counter:
        # the plain code path: torch counts no other
        model.logits(recorded(model, torch.tensor([[5, 6, 7, 3]] * 2), torch.tensor([[2]] * 2)))
    counted = model.multiplications(np.array([4, 4]), np.array([1, 1]))
    assert counted == pytest.approx(counter.get_total_flops() / 2)


def recorded(model: Model, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The outputs of a pass that shows its attention."""
    recorder = AttentionRecorder()
    past, given = model.encode(source, recorder)
    return model.decode(target, 0, past, given, recorder)[0]
