"""Compare changed models with a Transformer in NumPy that has the same change."""

import numpy as np
import pytest

import dragoman
from dragoman.decode.request import Request
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.lab.explain.explanation import explain
from dragoman.lab.explain.interventions import (
    Intervention,
    clone_engine,
    gradient_step,
    head_importance,
    intervened,
    logit_lens,
    regenerate,
)
from dragoman.lab.explain.trace import trace_pair
from tests.unit.lab.explain.test_explanation import TEXT, ByHand, untrained

TARGET = "one two three"


@pytest.fixture(scope="module")
def translator(trained) -> InspectableTranslator:
    return dragoman.load(trained, device="cpu")


class ChangedByHand(ByHand):
    """The same Transformer with parts switched off and subwords at other positions."""

    def __init__(self, translator: InspectableTranslator, change: Intervention):
        super().__init__(translator)
        self.change = change

    def embed(self, side: str, ids: list[int]) -> np.ndarray:
        x = super().embed(side, ids)
        if side == "source":
            zeros = [0] * 40
            places = super().embed(side, zeros) - self.table(side)[zeros] * self.config.d_model**0.5
            for piece, place in self.change.places.items():
                x[piece] += places[place] - places[piece]
        return x

    def stack(self, side: str, x: np.ndarray, memory: np.ndarray | None) -> np.ndarray:
        layers = (
            self.config.num_encoder_layers if memory is None else self.config.num_decoder_layers
        )
        self.lens = []
        for number in range(layers):
            name = f"{side}.{number}"
            before = x
            x = self.around(f"{name}.around_attention", x, side, f"{name}.attention", None)
            if memory is not None:
                x = self.around(f"{name}.around_cross", x, "cross", f"{name}.cross", memory)
            x = self.around(f"{name}.around_feed_forward", x, "", f"{name}.feed_forward", None)
            x = before if name in self.change.off else x
            self.lens.append(self.norm(f"{side}_norm", x) @ self.table("target").T)
        return self.norm(f"{side}_norm", x)

    def attend(self, kind: str, name: str, x: np.ndarray, memory) -> dict[str, np.ndarray]:
        seen = super().attend(kind, name, x, memory)
        layer = name.split(".")[1]
        y = np.einsum("hts,hsd->htd", seen["weights"], seen["v"])
        for head in range(self.config.num_heads):
            if f"{kind}.{layer}.head.{head}" in self.change.off:
                y[head] = 0
        matrix = self.weights[f"{name}.project.to_out.weight"]
        joined = np.concatenate(list(y), axis=-1)
        return {**seen, "f": joined @ matrix.T + self.weights[f"{name}.project.to_out.bias"]}

    def transform(self, name: str, x: np.ndarray) -> dict[str, np.ndarray]:
        seen = super().transform(name, x)
        off = name.replace("feed_forward", "network") in self.change.off
        return {**seen, "f": 0 * seen["f"]} if off else seen


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def pair(translator: InspectableTranslator) -> tuple[list[int], list[int]]:
    return translator.encode_pair(TEXT, TARGET, Request())


def of_pieces(rows: np.ndarray, said: list[int]) -> np.ndarray:
    return rows[np.arange(len(said)), said]


CHANGES = {
    "a head of the encoder": Intervention(off=("encoder.0.head.1",)),
    "a head of the decoder": Intervention(off=("decoder.1.head.0",)),
    "a head that looks at the source": Intervention(off=("cross.0.head.1",)),
    "a layer of the encoder": Intervention(off=("encoder.1",)),
    "a layer of the decoder": Intervention(off=("decoder.0",)),
    "a network": Intervention(off=("encoder.0.network", "decoder.1.network")),
    "two positions": Intervention(places={0: 7, 2: 30}),
    "several things": Intervention(off=("encoder.0", "cross.1.head.0"), places={1: 3}),
}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_equals_numpy_with_the_same_change(
    translator, name: str, norm: str
) -> None:
    change = CHANGES[name]
    model = untrained(translator, model__norm_position=norm, model__activation="relu")
    source, target = pair(model)
    engine = clone_engine(model.inspector_of(source))
    vocabulary = model.codec.target
    by_hand = ChangedByHand(model, change)
    expected = by_hand(source, [vocabulary.bos, *target])
    said = [*target, vocabulary.eos]
    with intervened(engine.model, change):
        seen = trace_pair(engine, source, target)
        scores = engine.score([source], [target])[0]
        lens = logit_lens(engine, seen, said)
    np.testing.assert_allclose(seen.logits[0].numpy(), expected, atol=1e-4)
    np.testing.assert_allclose(scores, of_pieces(log_softmax(expected), said), atol=1e-4)
    for layer, logits in zip(lens, by_hand.lens, strict=True):
        chances = np.exp(log_softmax(logits))
        np.testing.assert_allclose(layer["said"], of_pieces(chances, said), atol=2e-5)
        best = [row[0] for row in layer["chances"]]
        np.testing.assert_allclose(best, chances.max(axis=-1), atol=2e-5)
    unchanged = ByHand(model)(source, [vocabulary.bos, *target])
    assert np.abs(unchanged - expected).max() > 1e-3
    # the hooks are gone afterwards
    np.testing.assert_allclose(trace_pair(engine, source, target).logits[0], unchanged, atol=1e-4)


def test_swapped_words_are_read_in_the_other_order(translator) -> None:
    shown = explain(translator, "eins zwei drei", change=Intervention(swap=(0, 2)))
    plain = explain(translator, "drei zwei eins")
    assert shown["axes"]["source"]["ids"] == plain["axes"]["source"]["ids"]
    with pytest.raises(TranslationError, match="words 0 and 9"):
        explain(translator, "eins zwei", change=Intervention(swap=(0, 9)))


def test_a_forced_word_is_kept_and_the_rest_is_generated(translator) -> None:
    vocabulary = translator.codec.target
    piece = [p for p in vocabulary.pieces if p.startswith("▁")][3]
    shown = explain(translator, TEXT, change=Intervention(say=(piece,)))
    first = shown["axes"]["target"]["ids"][0]
    assert vocabulary.pieces[first] == piece
    source, _ = pair(translator)
    generated = shown["axes"]["target"]["ids"][:-1]
    # each piece is the likeliest after those before it, in NumPy too
    logits = ByHand(translator)(source, [vocabulary.bos, *generated])
    logits[:, vocabulary.never] = -np.inf
    assert logits[1 : len(generated)].argmax(axis=-1).tolist() == generated[1:]
    with pytest.raises(TranslationError, match="not in the model"):
        explain(translator, TEXT, change=Intervention(say=("nowhere to be found",)))


def test_sampling_follows_temperature_and_top_k(translator) -> None:
    source, _ = pair(translator)
    engine = translator.inspector_of(source)
    greedy = regenerate(engine, source, [], Intervention(), 8)
    assert regenerate(engine, source, [], Intervention(temperature=1e-4), 8) == greedy
    assert regenerate(engine, source, [], Intervention(temperature=5.0, top_k=1), 8) == greedy
    drawn = [
        tuple(regenerate(engine, source, [], Intervention(temperature=50.0, seed=seed), 8))
        for seed in range(4)
    ]
    assert len(set(drawn)) == 4


def test_the_importance_of_a_head_is_the_loss_without_it(translator) -> None:
    source, target = pair(translator)
    losses = head_importance(translator.inspector_of(source), source, target)
    vocabulary = translator.codec.target
    said = [*target, vocabulary.eos]

    def score(change: Intervention) -> float:
        rows = ChangedByHand(translator, change)(source, [vocabulary.bos, *target])
        return float(of_pieces(log_softmax(rows), said).sum())

    whole = score(Intervention())
    for kind in ("encoder", "decoder", "cross"):
        for layer, row in enumerate(losses[kind]):
            for head, value in enumerate(row):
                off = Intervention(off=(f"{kind}.{layer}.head.{head}",))
                assert value == pytest.approx(whole - score(off), abs=2e-3)


def test_a_gradient_step_lowers_the_loss(translator) -> None:
    """Finite differences of the loss in NumPy agree with the gradient's norm."""
    source, target = pair(translator)
    engine = translator.inspector_of(source)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    step = gradient_step(engine, source, target, 0.01)
    for name, value in engine.model.state_dict().items():
        assert (value == before[name]).all()  # the model itself has learned nothing
    vocabulary = translator.codec.target
    said = [*target, vocabulary.eos]
    by_hand = ByHand(translator)

    def loss() -> float:
        by_hand.shown = {}
        rows = log_softmax(by_hand(source, [vocabulary.bos, *target]))
        return -float(of_pieces(rows, said).mean())

    assert step["loss"][0] == pytest.approx(loss(), abs=1e-4)
    assert -np.mean(step["before"]) == pytest.approx(step["loss"][0], abs=1e-4)
    assert step["loss"][1] < step["loss"][0]
    # all weights of the encoder's first layer moved along a random direction
    layer = [name for name in by_hand.weights if name.startswith("encoder.0.")]
    generator = np.random.default_rng(1)
    directions = {name: generator.standard_normal(by_hand.weights[name].shape) for name in layer}
    length = sum(float((direction**2).sum()) for direction in directions.values()) ** 0.5
    ends = []
    for sign in (1, -1):
        for name in layer:
            by_hand.weights[name] += sign * 1e-4 * directions[name]
        ends.append(loss())
        for name in layer:
            by_hand.weights[name] -= sign * 1e-4 * directions[name]
    slope = (ends[0] - ends[1]) / 2e-4 / length
    assert abs(slope) <= step["norms"]["encoder.0"]  # no direction is steeper than the gradient's
    # to first order the loss falls by the rate times the square of the gradient's norm
    total = sum(norm**2 for norm in step["norms"].values())
    small = gradient_step(engine, source, target, 1e-3 / total)
    assert small["loss"][0] - small["loss"][1] == pytest.approx(1e-3, rel=0.1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("encoder.9.head.0", "layers"),
        ("encoder.0.head.9", "heads"),
        ("cross.0", "needs a head"),
        ("memory.1", "not a part"),
    ],
)
def test_an_unknown_part_is_rejected_by_name(translator, name: str, words: str) -> None:
    with pytest.raises(TranslationError, match=words):
        explain(translator, TEXT, change=Intervention(off=(name,)))


def test_an_intervention_leaves_the_shared_model_unchanged(translator) -> None:
    """Other requests use the shared model in the meantime."""
    source, target = pair(translator)
    engine = translator.inspector_of(source)
    assert isinstance(engine, TorchEngine)
    before = engine.score([source], [target])[0]
    explain(translator, TEXT, change=Intervention(off=("encoder.0",), study=True))
    np.testing.assert_array_equal(engine.score([source], [target])[0], before)
    assert not any(module._forward_hooks for module in engine.model.modules())
