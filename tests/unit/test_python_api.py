"""The first calls of a new user work from Python."""

import asyncio
import gc
import inspect
import pickle
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import dragoman
from dragoman.bundle.folder import PRETRAINED, parameters_by_part
from dragoman.decode.request import Options
from dragoman.errors import ConfigError, TranslationError


@pytest.fixture(scope="module")
def translator(trained):
    return dragoman.load(trained, device="cpu")


def test_a_translation_is_a_string_that_knows_more(translator) -> None:
    found = translator("eins zwei", to="en", nbest=2, alignments=True, beam=5)
    assert found == "one two"
    assert isinstance(found, str)
    assert isinstance(found, dragoman.Translation)
    assert found.source == "eins zwei"
    assert found.score == found.candidates[0].score < 0
    assert len(found.log_probs) == len(found.tokens) + 1
    assert found.alignment == ((0, 0), (1, 1))
    assert found.alternatives == [found.candidates[1].text]
    assert repr(found).startswith("Translation('one two', score=-")
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.candidates, again.source) == (found, found.candidates, found.source)


def test_keywords_are_a_request(translator) -> None:
    request = dragoman.Request(to="en", nbest=3)
    assert translator.translate(["drei"], request) == translator.translate(["drei"], to="en")
    assert len(translator("drei", request).candidates) == 3
    assert len(translator("drei", request, nbest=2).candidates) == 2
    assert translator("eins", prefix="nine").startswith("nine")
    assert translator("eins", source="DE") == "one"
    with pytest.raises(TypeError, match="colour"):
        translator("eins", colour="red")
    with pytest.raises(ConfigError, match="beam is 0"):
        translator("eins", beam=0)
    with pytest.raises(TranslationError, match="into 'fr'"):
        translator("eins", to="fr")


def test_a_string_is_one_text_everywhere(translator) -> None:
    assert translator.translate("eins zwei") == "one two"
    assert translator.embed("eins zwei").shape == (32,)
    np.testing.assert_array_equal(translator.embed("eins zwei"), translator.embed(["eins zwei"])[0])
    (log_probs,) = translator.score("eins zwei", "one two")
    assert log_probs.sum() == pytest.approx(sum(translator("eins zwei").log_probs), abs=1e-3)


def test_streams_come_line_by_line(translator) -> None:
    taken = []

    def lines():
        for line in ("eins", "zwei", "drei"):
            taken.append(line)
            yield line

    stream = translator.stream(lines(), window=1)
    assert next(stream) == "one"
    assert taken == ["eins"]
    assert list(stream) == ["two", "three"]

    async def slowly():
        for line in ("vier", "fünf"):
            yield line

    async def gather() -> list[str]:
        return [found async for found in translator.stream_async(slowly(), to="en")]

    assert asyncio.run(gather()) == ["four", "five"]


def test_the_inside_is_open(translator) -> None:
    pieces = translator.tokenize("eins zwei")
    assert "".join(pieces).replace("▁", " ") == " eins zwei</s>"
    shown = translator.outputs("eins zwei", "one two")
    target = len(translator.codec.encode_target(["one two"])[0]) + 1
    assert shown["encoder"].shape == (len(pieces), 32)
    assert shown["decoder"].shape == (target, 32)
    probabilities = torch.log_softmax(torch.from_numpy(shown["logits"]), dim=-1)
    ids = [*translator.codec.encode_target(["one two"])[0], translator.codec.target.eos]
    said = probabilities[range(target), ids].numpy()
    np.testing.assert_allclose(said, translator.score("eins zwei", "one two")[0], atol=1e-4)
    assert isinstance(translator.model, torch.nn.Module)
    parts = translator.parameters_by_part()
    assert sum(parts.values()) == sum(p.numel() for p in translator.model.parameters())
    assert parts == parameters_by_part(translator.bundle.weights)


def test_text_that_needs_no_translation_can_still_be_inspected(translator) -> None:
    shown = translator.attention("Где находится вокзал?")
    assert len(shown["target"]) >= 1
    assert shown["cross"].shape[2] == len(shown["target"])


def test_every_public_name_is_typed_and_says_what_it_does() -> None:
    for name in dragoman.__all__:
        assert getattr(dragoman, name).__doc__, name
    for name, method in inspect.getmembers(dragoman.Translator, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, name
            assert "return" in method.__annotations__, name
    for name in ("translate", "stream", "stream_async", "score", "attention", "outputs", "embed"):
        assert "translator." in getattr(dragoman.Translator, name).__doc__, name
    assert "nbest" in Options.__annotations__
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dragoman.nonsense


def test_a_translator_frees_its_engine_when_its_block_ends(trained) -> None:
    with dragoman.load(trained, device="cpu") as translator:
        assert translator("eins zwei") == "one two"
        assert translator.shows_attention
        engine = weakref.ref(translator.engine)
    gc.collect()
    assert engine() is None
    with pytest.raises(TranslationError, match="closed"):
        translator("eins zwei")
    translator.close()  # once more does no harm
    assert not hasattr(dragoman.load(trained, device="cpu"), "colour")


def test_a_folder_of_several_models_selects_the_one_for_the_languages(trained, tmp_path) -> None:
    for name, folder in (("a", trained), ("b", PRETRAINED / "pentaglot")):
        shutil.copytree(folder, tmp_path / name, ignore=shutil.ignore_patterns("check*", "data"))
    assert dragoman.load(tmp_path, source="de", target="en")("eins zwei") == "one two"
    french = dragoman.load(tmp_path, source="de", target="fr")
    assert "fr" in french.codec.languages.targets
    shutil.rmtree(tmp_path / "b")
    assert dragoman.load(tmp_path)("eins zwei") == "one two"


def test_threads_share_a_translator(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    texts = ["eins", "zwei drei", "vier", "fünf sechs eins"] * 3
    expected = [translator(text) for text in texts]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(translator, texts)) == expected
