"""Compare the numbers of `dragoman explain` with a Transformer in NumPy with its weights."""

import base64
import json
import math
import re
import xml.etree.ElementTree
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman
from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig, replace
from dragoman.config.variants import ARCHITECTURES
from dragoman.decode.request import Request
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.lab.explain import explanation as module
from dragoman.lab.explain.explanation import BLOCK, TEMPERATURES, explain, page, payload
from dragoman.lab.explain.panel import statement
from dragoman.lab.explain.panels import panels
from dragoman.lab.explain.trace import trace_pair
from dragoman.model.attention import plain_attention
from dragoman.model.build import build_model, get_weights
from tests.conftest import small_config
from tests.variants import VARIANTS

TEXT = "eins zwei drei vier"


@pytest.fixture(scope="module")
def translator(trained) -> InspectableTranslator:
    return dragoman.load(trained, device="cpu")


@pytest.fixture(scope="module")
def explained(translator) -> dict:
    return explain(translator, TEXT)


def untrained(translator: InspectableTranslator, **settings: object) -> InspectableTranslator:
    """Build another model with random weights and the same vocabulary; its searches are short."""
    short = {
        "decoding__beam_size": 2,
        "decoding__max_length_ratio": 0.2,
        "decoding__max_length_extra": 1,
    }
    config = small_config(**short, **settings)
    codec = translator.codec
    model = build_model(config.model, codec.source, codec.target, codec.shared, seed=3).eval()
    engine = TorchEngine(model, codec.source, codec.target, torch.device("cpu"))
    return InspectableTranslator(engine, codec, config)


def unpacked(packed: dict) -> np.ndarray:
    """Decode an array like the page's script."""
    if "halves" in packed:
        values = np.frombuffer(base64.b64decode(packed["halves"]), "<f2").astype(float)
    else:
        scales = np.frombuffer(base64.b64decode(packed["scales"]), "<f4")
        rounded = np.frombuffer(base64.b64decode(packed["bytes"]), "i1")
        values = rounded.reshape(-1, packed["block"]) * scales[:, None]
    return values.reshape(packed["shape"])


class ByHand:
    """The Transformer of the lectures, one word after the other where that is simpler."""

    def __init__(self, translator: InspectableTranslator):
        self.weights = {
            name: tensor.detach().double().numpy()
            for name, tensor in get_weights(translator.engine.model).items()
        }
        self.config: ModelConfig = translator.config.model
        self.shown: dict[str, list[dict[str, np.ndarray]]] = {}

    def __call__(self, source: list[int], target_in: list[int]) -> np.ndarray:
        memory = self.stack("encoder", self.embed("source", source), None)
        self.memory = memory
        hidden = self.stack("decoder", self.embed("target", target_in), memory)
        return hidden @ self.table("target").T

    def table(self, side: str) -> np.ndarray:
        """Return the table of vectors, which both sides and the output share."""
        return self.weights["source_embedding.words.weight"]

    def embed(self, side: str, ids: list[int]) -> np.ndarray:
        width = self.config.d_model
        return self.table(side)[ids] * math.sqrt(width) + sinusoids(len(ids), width)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        if (
            f"{name}.weight" not in self.weights
        ):  # a post-norm stack has no norm after its last layer
            return x
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def stack(self, side: str, x: np.ndarray, memory: np.ndarray | None) -> np.ndarray:
        layers = (
            self.config.num_encoder_layers if memory is None else self.config.num_decoder_layers
        )
        for number in range(layers):
            name = f"{side}.{number}"
            x = self.around(f"{name}.around_attention", x, side, f"{name}.attention", None)
            if memory is not None:
                x = self.around(f"{name}.around_cross", x, "cross", f"{name}.cross", memory)
            x = self.around(f"{name}.around_feed_forward", x, "", f"{name}.feed_forward", None)
        return self.norm(f"{side}_norm", x)

    def around(self, around: str, x: np.ndarray, kind: str, name: str, memory) -> np.ndarray:
        pre = self.config.norm_position == "pre"
        inside = self.norm(f"{around}.norm", x) if pre else x
        seen = self.attend(kind, name, inside, memory) if kind else self.transform(name, inside)
        seen["x"] = x
        self.shown.setdefault(kind or name.split(".")[0] + " network", []).append(seen)
        total = x + seen["f"]
        return total if pre else self.norm(f"{around}.norm", total)

    def attend(self, kind: str, name: str, x: np.ndarray, memory) -> dict[str, np.ndarray]:
        width, heads = self.config.d_model, self.config.num_heads
        matrices = self.weights[f"{name}.project.to_qkv.weight"].reshape(3, width, width)
        biases = self.weights[f"{name}.project.to_qkv.bias"].reshape(3, width)
        inputs = (x, x, x) if memory is None else (x, memory, memory)
        q, k, v = (
            np.stack(np.split(given @ matrix.T + bias, heads, axis=-1))
            for given, matrix, bias in zip(inputs, matrices, biases, strict=True)
        )
        scores = np.einsum("htd,hsd->hts", q, k) / math.sqrt(width / heads)
        masked = scores.copy()
        if kind == "decoder":
            for row in range(len(x)):
                masked[:, row, row + 1 :] = -np.inf
        weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        joined = np.concatenate(list(np.einsum("hts,hsd->htd", weights, v)), axis=-1)
        matrix = self.weights[f"{name}.project.to_out.weight"]
        f = joined @ matrix.T + self.weights[f"{name}.project.to_out.bias"]
        return {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "f": f}

    def transform(self, name: str, x: np.ndarray) -> dict[str, np.ndarray]:
        linear = [
            (self.weights[f"{name}.{which}.weight"], self.weights[f"{name}.{which}.bias"])
            for which in ("inner", "outer")
        ]
        hidden = np.maximum(0, x @ linear[0][0].T + linear[0][1])
        return {"hidden": hidden, "f": hidden @ linear[1][0].T + linear[1][1]}


def close(shown: np.ndarray, expected: np.ndarray) -> None:
    """Compare up to the precision of 16-bit floats and of the model's float32."""
    assert shown.shape == expected.shape
    np.testing.assert_allclose(shown, expected, rtol=2**-10, atol=2e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_number_equals_a_transformer_computed_by_hand(translator, norm) -> None:
    """The numbers pass through JSON and base64 on their way to the page."""
    if translator.config.model.norm_position != norm:
        translator = untrained(translator, model__norm_position=norm, model__activation="relu")
    shown = json.loads(json.dumps(payload(explain(translator, TEXT, "one two three"))))
    source, target = shown["axes"]["source"]["ids"], shown["axes"]["target"]["ids"]
    by_hand = ByHand(translator)
    logits = by_hand(source, [translator.codec.target.bos, *target[:-1]])
    for side in ("source", "target"):
        ids = source if side == "source" else [translator.codec.target.bos, *target[:-1]]
        embedded = shown["embedding"][side]
        close(unpacked(embedded["x"]), by_hand.embed(side, ids))
        words = by_hand.table(side)[ids] * math.sqrt(translator.config.model.d_model)
        close(unpacked(embedded["words"]), words)
    close(unpacked(shown["memory"][0]), by_hand.memory)
    parts = {part["title"].lower(): part for part in shown["parts"]}
    assert set(parts) == {"encoder", "decoder", "cross"}
    for name, part in parts.items():
        assert len(part["layers"]) == len(by_hand.shown[name])
        for layer, expected in zip(part["layers"], by_hand.shown[name], strict=True):
            for letter in ("q", "k", "v", "scores", "weights", "f"):
                close(unpacked(layer[letter]), expected[letter])
            if name != "cross":
                close(unpacked(layer["x"]), expected["x"])
    for side, name in (("source", "encoder network"), ("target", "decoder network")):
        for layer, expected in zip(shown["feedForward"][side], by_hand.shown[name], strict=True):
            close(unpacked(layer["hidden"]), expected["hidden"])
            close(unpacked(layer["f"]), expected["f"])
    for step, row in zip(shown["output"]["steps"], logits, strict=True):
        best = np.argsort(-row)[: len(step["logits"])]
        np.testing.assert_allclose(sorted(step["logits"])[1:], sorted(row[best])[1:], atol=1e-3)
        for temperature, normaliser in zip(TEMPERATURES, step["normalisers"], strict=True):
            scaled = row / temperature
            total = scaled.max() + np.log(np.exp(scaled - scaled.max()).sum())
            assert normaliser == pytest.approx(total, abs=2e-3)


def test_masks_hide_later_positions_only(explained) -> None:
    masks = [layer["mask"] for part in explained["parts"] for layer in part["layers"]]
    size = len(explained["axes"]["target"]["pieces"])
    shown = [mask for mask in masks if mask is not None]
    assert len(shown) == 2  # one for each layer of the decoder
    for mask in shown:
        assert np.array_equal(mask, np.tril(np.ones((size, size), dtype=bool)))


def test_the_probabilities_of_the_translation_equal_its_score(translator, explained) -> None:
    scores = translator.score([TEXT], [explained["translation"]])[0]
    at_one = TEMPERATURES.index(1.0)
    for step, expected in zip(explained["output"]["steps"], scores, strict=True):
        log_prob = step["logits"][step["chosen"]] - step["normalisers"][at_one]
        assert log_prob == pytest.approx(float(expected), abs=1e-3)


def test_the_best_of_the_finished_sentences_is_the_translation(translator, explained) -> None:
    candidate = translator.translate([TEXT])[0].candidates[0]
    best = explained["finished"][0]
    assert explained["beam"][best["node"]]["best"]
    assert best["score"] == pytest.approx(candidate.score, abs=1e-3)
    assert best["length"] == len(candidate.pieces) + 1


def test_merges_end_in_the_pieces_of_the_sentence(translator) -> None:
    segmenter = translator.codec.source_segmenter
    text = "eins zweiundzwanzig drei sieben"
    ways = segmenter.merges(text)
    pieces = [piece for way in ways for piece in way[-1]]
    expected = [segmenter.vocabulary.pieces[i] for i in segmenter.encode([text])[0]]
    assert pieces == expected
    for way in ways:
        assert all(len(part) == 1 for part in way[0])
        for before, after in pairwise(way):
            assert len(after) == len(before) - 1
            assert "".join(after) == "".join(before)


def test_a_long_sentence_is_stored_in_eight_bits_and_loses_half_a_step(
    explained, monkeypatch
) -> None:
    exact = explained["parts"][0]["layers"][0]
    monkeypatch.setattr(module, "MAX_BYTES", 0)
    packed = payload(explained)["parts"][0]["layers"][0]
    assert "bytes" in packed["q"]
    assert "halves" in packed["scores"]
    width = exact["q"].shape[-1]
    assert packed["q"]["block"] == (BLOCK if width % BLOCK == 0 else width)
    largest = np.abs(exact["q"]).max(axis=-1, keepdims=True)
    assert (np.abs(unpacked(packed["q"]) - exact["q"]) <= 0.501 * largest / 127).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_a_page_and_says_what_it_leaves_out(
    translator, architecture
) -> None:
    model = untrained(translator, model__architecture=architecture)
    explained = explain(model, TEXT, "one two")
    shown = {panel["name"]: panel for panel in explained["panels"]}
    assert len(shown) == 12
    for panel in shown.values():
        assert bool(panel["leftOut"]) != bool(panel["formulas"])
        assert not panel["leftOut"] or panel["leftOut"].endswith(".")
    attends = model.engine.has_attention
    assert bool(explained["parts"]) == attends == (not shown["scores"]["leftOut"])
    block = architecture in ("transformer", "decoder-only")
    assert block == (not shown["norm"]["leftOut"]) == bool(explained["feedForward"]["target"])
    for part in explained["parts"]:
        for layer in part["layers"]:
            np.testing.assert_allclose(layer["weights"].sum(axis=-1), 1.0, atol=1e-5)
    assert "</html>" in page(explained)


def test_the_guide_names_the_panels_that_an_architecture_leaves_out() -> None:
    guide = (Path(__file__).parents[4] / "docs/explain.md").read_text(encoding="utf-8")
    named: dict[str, set[int]] = {}
    for names, said in re.findall(r"^\| (`.*?) \| (.*?) \|$", guide, re.M):
        numbers = set()
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", said):
            numbers |= set(range(int(first), int(last or first) + 1))
        named |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), numbers)
    for architecture in ARCHITECTURES:
        config = small_config(model__architecture=architecture).model
        left_out = {n for n, panel in enumerate(panels(config), 1) if panel.left_out}
        assert named.pop(architecture) == left_out
    assert not named


def test_a_decoder_only_model_attends_to_both_sides_together(translator) -> None:
    model = untrained(translator, model__architecture="decoder-only")
    shown = explain(model, TEXT, "one two")
    source, target = shown["parts"]
    both = len(shown["axes"]["both"]["pieces"])
    for layer in target["layers"]:
        assert layer["weights"].shape[-1] == layer["k"].shape[1] == both
        seen = np.where(layer["mask"], layer["scores"], -np.inf)
        expected = torch.softmax(torch.from_numpy(seen), dim=-1).numpy()
        np.testing.assert_allclose(layer["weights"], expected, atol=1e-6)
    # the same layers read the source before the first target subword
    first = source["layers"][0]
    np.testing.assert_allclose(first["k"], target["layers"][0]["k"][:, : first["k"].shape[1]])


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_shows_its_own_formula_and_code(translator, name) -> None:
    config = small_config(**VARIANTS[name]).model
    for panel in panels(config):
        for formula in panel.formulas:
            for element in xml.etree.ElementTree.fromstring(formula.math).iter():
                if element.tag.rpartition("}")[2] in ("msub", "msup", "munder", "mfrac"):
                    assert len(element) == 2, formula.math
        assert panel.left_out or panel.code
        for function, words in panel.code:
            code, where = statement(function, words)
            assert words in code
            assert re.fullmatch(r"dragoman/[\w/]+\.py:\d+", where)
        if not panel.left_out:  # the tour has exactly two sentences for each panel
            assert len(re.findall(r"\.(?:\s|$)", panel.tour)) == 2, panel.tour
    shown = payload(explain(untrained(translator, **VARIANTS[name]), TEXT, "one two"))
    assert len(shown["panels"]) == 12


def test_a_statement_is_found_with_its_location() -> None:
    code, where = statement(plain_attention, "masked_fill")
    file, line = where.split(":")
    root = Path(dragoman.__file__).parents[1]
    lines = (root / file).read_text(encoding="utf-8").splitlines()
    assert lines[int(line) - 1].strip() == code.splitlines()[0]
    with pytest.raises(LookupError):
        statement(plain_attention, "no such words")


def test_a_hostile_text_cannot_inject_markup(translator) -> None:
    text = "</script><script>alert(1)</script><!-- \u2028 {{script}} &amp;"
    written = page(explain(translator, text, "one"))
    assert written.count("<script") == 2  # the data and the viewer
    assert "<!--" not in written
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', written, re.S)[1])
    assert data["text"] == text


def test_the_page_needs_no_network(explained) -> None:
    written = page(explained)
    assert "default-src 'none'" in written
    addresses = set(re.findall(r"https?://[^\s\"'<\\]+", written))
    # names of namespaces, which browsers do not fetch
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}


def test_explain_rejects_an_empty_text_and_an_ensemble(translator, trained) -> None:
    with pytest.raises(TranslationError, match="text is empty"):
        explain(translator, " ", None, Request())
    with pytest.raises(TranslationError, match="load a single model"):
        explain(dragoman.load(f"{trained},{trained}", device="cpu"), TEXT)


def test_the_command_writes_the_page_and_prints_the_translation(
    dragoman, trained, tmp_path
) -> None:
    out = tmp_path / "new" / "page.html"
    common = ["explain", "eins zwei", "--model", trained, "--device", "cpu"]
    answer = dragoman(*common, "--out", out)
    assert (answer.code, answer.out) == (0, "one two\n")
    assert "openExplanation(" in out.read_text(encoding="utf-8")
    refused = dragoman(*common)
    assert refused.code == 1
    assert refused.err == "dragoman: nothing to write: give --out page.html.\n"


def test_a_trace_changes_nothing_and_leaves_no_hooks(translator) -> None:
    model = translator.engine.model
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]])
    before = model.logits(model(source, target))
    traced = trace_pair(translator.engine, [5, 6, 7, 3], [8, 9])
    torch.testing.assert_close(traced.logits, before)
    assert all(not part._forward_hooks for part in model.modules())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"model.positions.kind": "none"}, "Nothing is added for the position."),
        ({"model.positions.kind": "rotary"}, "Positions act inside attention here"),
        ({"model.architecture": "rnn"}, "reads its words one after the other"),
    ],
    ids=str,
)
def test_the_page_says_why_no_position_is_added(settings, why) -> None:
    config = replace(small_config(), settings).model
    assert any(why in panel.lead for panel in panels(config) if panel.name == "embedding")


def test_the_table_of_positions_goes_beyond_a_short_text(translator) -> None:
    """It has 64 rows or more, unless the model has fewer positions or adds no vectors."""
    sizes = {}
    for kind in ("sinusoidal", "learned", "rotary"):
        settings = {"model__positions__kind": kind, "model__positions__max_length": 40}
        settings["data__max_length"] = 30
        shown = explain(untrained(translator, **settings), TEXT)["embedding"]
        sizes[kind] = len(shown.get("positions", ()))
    assert sizes == {"sinusoidal": 64, "learned": 40, "rotary": 0}
