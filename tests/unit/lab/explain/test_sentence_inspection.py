import base64
import html
import json
import re
import xml.etree.ElementTree

import numpy as np
import pytest

import dragoman
from dragoman.config import replace
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.errors import ConfigError, TranslationError
from dragoman.inspect.translator import InspectableTranslator
from dragoman.inspect.words import Axis
from dragoman.lab.explain.attention_figure import draw, to_png, to_svg
from dragoman.lab.explain.html_page import FULL, page, payload
from dragoman.lab.explain.sentence_inspection import (
    ATTENTION_MAPS,
    SentenceInspection,
    inspect_sentence,
    join_words,
)
from tests.conftest import small_engine

TEXT = "eins zwei drei vier"


@pytest.fixture(scope="module")
def translator(trained) -> InspectableTranslator:
    return dragoman.load(trained, device="cpu")


@pytest.fixture(scope="module")
def seen(translator) -> SentenceInspection:
    return inspect_sentence(translator, TEXT)


def data_of(written: str) -> dict:
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', written, re.S)[1])


def test_a_model_that_splits_sentences_gets_the_whole_text(translator) -> None:
    text = "eins zwei. Drei vier."
    by_sentence = replace(translator.config, {"decoding.split_sentences": True}).decoding
    whole = inspect_sentence(translator, text)
    splitting = inspect_sentence(translator, text, None, Request(decoding=by_sentence))
    assert splitting.translation == whole.translation == translator(text)
    assert splitting.beam == whole.beam
    assert np.array_equal(splitting.maps["cross"], whole.maps["cross"])


def test_the_weights_on_the_page_are_those_used_in_the_search(translator, seen) -> None:
    shown = {entry["name"]: entry for entry in data_of(page(seen))["maps"]}
    for name, weights in translator.attention(TEXT).items():
        if name in ATTENTION_MAPS:
            raw = np.frombuffer(base64.b64decode(shown[name]["weights"]), dtype="<u2").reshape(
                weights.shape
            )
            np.testing.assert_allclose(raw / FULL, weights, atol=0.51 / FULL)
    engine = translator.engine
    used = beam_search(
        engine,
        translator.codec.encode_source([TEXT]),
        Task(translator.config.decoding, attention=True),
    )
    np.testing.assert_allclose(
        used[0][0].attention, seen.maps["cross"][engine.attention_layer].mean(axis=0), atol=1e-5
    )


def test_every_map_of_the_engine_is_on_the_page(translator, seen) -> None:
    source = translator.codec.encode_source([TEXT])[0]
    assert set(seen.maps) == set(translator.engine.attention_weights(source, source[:-1]))
    for name, weights in seen.maps.items():
        rows, columns = (
            seen.axes[ATTENTION_MAPS[name].rows],
            seen.axes[ATTENTION_MAPS[name].columns],
        )
        assert weights.shape[2:] == (len(rows.pieces), len(columns.pieces))
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)


def test_the_subwords_shown_come_from_the_search(
    translator,
) -> None:
    spelled = [piece for piece in "▁" + "one" if piece in translator.codec.target.ids]
    shown = translator.attention("eins", spelled)
    assert shown["target"] == [*spelled, "</s>"]
    assert shown["target"] != translator.attention("eins", "one")["target"]


def test_rows_of_joined_words_still_sum_to_one(seen) -> None:
    for name in seen.maps:
        joined = seen.joined(name)
        rows, columns = (
            seen.axes[ATTENTION_MAPS[name].rows],
            seen.axes[ATTENTION_MAPS[name].columns],
        )
        assert joined.shape[2:] == (len(rows.labels), len(columns.labels))
        np.testing.assert_allclose(joined.sum(axis=-1), 1.0, atol=1e-5)
    draws = np.random.default_rng(1).dirichlet(np.ones(4), size=3)
    rows, columns = [0, 0, 1], [0, 1, 1, 2]
    by_hand = np.zeros((2, 3))
    for row in range(2):
        for column in range(3):
            sums = [draws[i, np.equal(columns, column)].sum() for i in range(3) if rows[i] == row]
            by_hand[row, column] = np.mean(sums)
    np.testing.assert_allclose(join_words(draws, rows, columns), by_hand)


def test_an_axis_joins_pieces_and_leaves_special_ones_alone() -> None:
    axis = Axis.of([">>en<<", "▁Gut", "en", "▁Tag", "<0xC3>", "<0xA9>", "</s>"])
    assert axis.words == (0, 1, 1, 2, 2, 2, 3)
    assert axis.labels == (">>en<<", "Guten", "Tagé", "</s>")


def test_the_tree_equals_the_search(translator, seen) -> None:
    nodes, beam = seen.beam, translator.config.decoding.beam_size
    for number, node in enumerate(nodes):
        if node.parent >= 0:
            assert node.parent < number
            assert nodes[node.parent].fate == "kept"
            assert nodes[node.parent].step == node.step - 1
            assert nodes[node.parent].total >= node.total
        else:
            assert node.step == 0
    for step in range(nodes[-1].step + 1):
        assert sum(node.fate == "kept" for node in nodes if node.step == step) <= beam
    best = [node for node in nodes if node.best]
    candidate = translator.translate([TEXT])[0].candidates[0]
    assert [node.piece for node in best] == [*candidate.pieces, "</s>"]
    assert best[-1].fate == "ended"
    assert best[-1].total == pytest.approx(sum(candidate.log_probs), abs=1e-4)


def test_the_position_vectors_shown_are_those_added(translator, seen) -> None:
    from dragoman.bundle.plain_weights import sinusoids

    rows, width = seen.positions.shape
    np.testing.assert_allclose(seen.positions, sinusoids(rows, width), atol=1e-6)
    learned = small_engine(model__positions__kind="learned")
    np.testing.assert_array_equal(
        learned.position_vectors(7),
        learned.model.source_embedding.positions.table[:7].detach().numpy(),
    )


def test_a_hostile_text_cannot_inject_markup(translator) -> None:
    text = "</script><script>alert(1)</script><!-- \u2028 {{script}} &amp;"
    written = page(inspect_sentence(translator, text))
    assert written.count("<script") == 2  # the data and the viewer
    assert "<!--" not in written
    assert data_of(written)["text"] == text
    assert html.escape(text[:30]) in written
    figure = to_svg(draw(inspect_sentence(translator, text)))
    assert "<script" not in figure
    xml.etree.ElementTree.fromstring(figure)


def test_the_page_needs_no_network(seen) -> None:
    written = page(seen)
    assert "default-src 'none'" in written
    addresses = set(re.findall(r"https?://[^\s\"'<]+", written))
    # the name of a namespace, which browsers do not fetch
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_a_figure_has_a_cell_for_each_weight(seen) -> None:
    rows, columns = len(seen.axes["target"].labels), len(seen.axes["source"].labels)
    heads = seen.maps["cross"].shape[1]
    assert len(draw(seen).boxes) == heads * (rows * columns + 1)
    one = draw(seen, "encoder", layer=1, head=2, pieces=True)
    assert len(one.boxes) == len(seen.axes["source"].pieces) ** 2 + 1
    darkest = min(one.boxes[1:], key=lambda box: sum(box.colour))
    row, column = divmod(one.boxes[1:].index(darkest), len(seen.axes["source"].pieces))
    assert (row, column) == np.unravel_index(
        seen.maps["encoder"][0, 1].argmax(), seen.maps["encoder"][0, 1].shape
    )
    assert to_png(one).startswith(b"\x89PNG")
    for wrong in ({"kind": "none"}, {"layer": 3}, {"layer": 0}, {"head": 9}):
        with pytest.raises(ConfigError):
            draw(seen, **wrong)


def test_inspection_rejects_texts_that_the_model_cannot_take(translator, trained) -> None:
    with pytest.raises(TranslationError, match="text is empty"):
        inspect_sentence(translator, "  ")
    narrow = InspectableTranslator(
        translator.engine,
        translator.codec,
        replace(translator.config, {"decoding.max_source_length": 4}),
    )
    with pytest.raises(TranslationError, match="pieces, the model looks at 4"):
        inspect_sentence(narrow, TEXT * 3)
    with pytest.raises(TranslationError, match="load one model"):
        inspect_sentence(dragoman.load(f"{trained},{trained}", device="cpu"), TEXT)


def test_inspection_uses_a_given_translation(translator) -> None:
    seen = inspect_sentence(translator, TEXT, "nine nine", Request())
    assert seen.axes["target"].labels == ("nine", "nine", "</s>")
    assert payload(seen)["translation"] == "nine nine"


def test_scores_are_log_probabilities(translator) -> None:
    right, wrong = translator.score(["eins zwei", "eins zwei"], ["one two", "nine nine"])
    assert right.sum() > -1.0 > -5.0 > wrong.sum()
    assert translator.translate(["eins zwei"])[0].candidates[0].log_probs == pytest.approx(
        right.tolist(), abs=1e-4
    )


def test_attention_comes_as_arrays_with_its_axes(translator) -> None:
    shown = translator.attention("eins zwei drei")
    layers, heads = translator.config.model.num_decoder_layers, translator.config.model.num_heads
    assert shown["cross"].shape == (layers, heads, len(shown["target"]), len(shown["source"]))
    assert shown["source"][-1] == shown["target"][-1] == "</s>"


def test_the_beam_shows_the_scores_that_decide(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    seen = inspect_sentence(translator, "eins zwei")
    ended = [node for node in seen.beam if node.fate == "ended"]
    chosen = next(node for node in ended if node.best)
    assert chosen.score == pytest.approx(translator("eins zwei").score, abs=1e-4)
    assert chosen.score == max(node.score for node in ended)
    assert all(node.score is None for node in seen.beam if node.fate != "ended")


def test_a_given_translation_is_not_marked_as_chosen(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    shown = payload(inspect_sentence(translator, "eins zwei", "nine nine"))
    assert (shown["translation"], shown["searched"]) == ("nine nine", "one two")
    assert shown["base"] == 10000.0
    own = payload(inspect_sentence(translator, "eins zwei"))
    assert own["translation"] == own["searched"]
