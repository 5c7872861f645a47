"""Search on the device finds what the reference finds; its kernels do what their plain twins do."""

from dataclasses import replace

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.decode.device_search import DeviceSearch
from dragoman.decode.search import beam_search
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model import incremental
from tests.conftest import small_engine

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SOURCES = [
    [5, 6, 7, 3],
    [8, 3],
    [9, 10, 11, 12, 13, 14, 3],
    [4, 3],
    [15] * 6 + [3],
    [16, 17, 3],
    [18, 3],
    [19, 20, 3],
]
SETTINGS = DecodingConfig(beam=3, max_length_ratio=1.0, max_length_extra=6, precision="float32")


def engine_here(**model: object) -> TorchEngine:
    """On a GPU with all our kernels, elsewhere with their plain twins. Some sentences end, others
    are cut off."""
    engine = small_engine(end=7.0, **model)
    return TorchEngine(engine.model.to(DEVICE), engine.source, engine.target, DEVICE)


def assert_same_hypotheses(
    settings: DecodingConfig,
    nbest: int = 1,
    sources: list[list[int]] = SOURCES,
    times: int = 2,
    **model: object,
) -> None:
    engine = engine_here(**model)
    expected = beam_search(engine, sources, settings, nbest=nbest)
    search = DeviceSearch(engine, settings, nbest)
    for _ in range(times):  # what is left of the first search must not show in the second
        for ours, theirs in zip(search(sources), expected, strict=True):
            assert [h.tokens for h in ours] == [h.tokens for h in theirs]
            assert [h.complete for h in ours] == [h.complete for h in theirs]
            for a, b in zip(ours, theirs, strict=True):
                assert a.score == pytest.approx(b.score, abs=1e-4)
                assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_device_finds_what_the_reference_finds(beam: int, norm: str) -> None:
    assert_same_hypotheses(replace(SETTINGS, beam=beam), model__norm=norm)


@pytest.mark.parametrize(
    "changes",
    [
        {"length_penalty": "none"},
        {"length_penalty": "power", "alpha": 1.5},
        {"patience": 2.0},
        {"patience": 0.4},
        {"min_length_ratio": 1.0},
        {"min_length_ratio": 9.0},  # a forced length
        {"max_length_extra": 40},
    ],
    ids=str,
)
def test_every_setting_of_the_search_means_the_same_on_the_device(
    changes: dict[str, object],
) -> None:
    assert_same_hypotheses(replace(SETTINGS, **changes))
    assert_same_hypotheses(replace(SETTINGS, **changes), nbest=2, seed=8)


@pytest.mark.parametrize(
    "changes", [{}, {"beam": 2, "max_length_extra": 1}, {"min_length_ratio": 1.0}], ids=str
)
def test_our_kernels_choose_the_next_words_as_the_reference_does(
    changes: dict[str, object], monkeypatch
) -> None:
    """Without a GPU in Triton's interpreter, which takes its time: two sentences, few words."""
    pytest.importorskip("triton")
    monkeypatch.setattr("dragoman.decode.device_search.usable", lambda tensor: True)
    monkeypatch.setattr("dragoman.kernels.search._CHUNK", 16)  # two chunks of so few words,
    monkeypatch.setattr("dragoman.kernels.search._GROUP", 4)  # six groups
    settings = replace(SETTINGS, max_length_ratio=0.5, max_length_extra=3)
    assert_same_hypotheses(replace(settings, **changes), nbest=2, sources=SOURCES[:2], times=1)


def test_the_best_words_are_the_first_of_a_stable_sort(monkeypatch) -> None:
    """Few different values, so that many words are equal: then the first comes first."""
    pytest.importorskip("triton")
    from dragoman.kernels.search import best_words

    monkeypatch.setattr("dragoman.kernels.search._CHUNK", 64)
    monkeypatch.setattr("dragoman.kernels.search._GROUP", 8)
    generator = torch.Generator().manual_seed(6)
    logits = torch.randint(5, (4, 150), generator=generator).float().to(DEVICE)
    bias = torch.zeros(150, device=DEVICE)
    bias[[0, 2, 149]] = -torch.inf
    steps = torch.tensor([1], dtype=torch.int32, device=DEVICE)
    # two sentences of two hypotheses; the second may not end yet
    end_from = torch.tensor([0, 2], device=DEVICE)
    expected = torch.log_softmax(logits, dim=1) + bias
    expected[2:, 3] = -torch.inf
    values, words = expected.sort(dim=1, descending=True, stable=True)
    ours, log_probs = best_words(logits, bias, end_from, steps, 3, 5)
    assert torch.equal(ours[:, :5], words[:, :5])
    torch.testing.assert_close(log_probs[:, :5], values[:, :5])


def test_several_hypotheses_and_learned_positions() -> None:
    assert_same_hypotheses(SETTINGS, nbest=5)
    assert_same_hypotheses(
        SETTINGS, model__positions__kind="learned", model__positions__max_length=300
    )


def test_sentences_that_are_done_make_way_for_those_that_are_not(monkeypatch) -> None:
    """Looking after every step, the search must move to smaller rooms several times."""
    from dragoman.decode import device_search

    monkeypatch.setattr(device_search, "STEPS_BETWEEN_LOOKS", 1)
    monkeypatch.setattr(device_search, "SHRINK", 2)
    monkeypatch.setattr(device_search, "FEWEST", 1)
    rooms = []
    original = device_search.Beams.take
    monkeypatch.setattr(
        device_search.Beams,
        "take",
        lambda self, *a: (rooms.append(self.room.sentences), original(self, *a))[1],
    )
    assert_same_hypotheses(replace(SETTINGS, max_length_ratio=3.0, max_length_extra=3))
    assert len(rooms) > 2


def test_a_model_that_has_learned_meanwhile_is_searched_as_it_is_now() -> None:
    engine = engine_here()
    search = DeviceSearch(engine, replace(SETTINGS, precision="bf16"), 1)
    search(SOURCES)
    for parameter in engine.model.parameters():
        parameter.data = parameter.data.flip(0)
    fresh = DeviceSearch(engine, replace(SETTINGS, precision="bf16"), 1)
    assert [h[0].tokens for h in search(SOURCES)] == [h[0].tokens for h in fresh(SOURCES)]


def test_the_kernels_of_a_decoding_step_do_what_their_twins_do() -> None:
    pytest.importorskip("triton")
    from dragoman.kernels import decoding

    generator = torch.Generator().manual_seed(4)
    sentences, hypotheses, places, heads, width, sources = 3, 4, 64, 2, 32, 50

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    origin = torch.randint(
        hypotheses, (sentences, hypotheses, places), generator=generator, dtype=torch.int32
    ).to(DEVICE)
    for step in (0, 1, 37):
        steps = torch.tensor([step], dtype=torch.int32, device=DEVICE)
        qkv = random(sentences * hypotheses, 3 * width)
        cache = random(sentences, hypotheses, places, 2 * width)
        twin = cache.clone()
        torch.testing.assert_close(
            decoding.attend_to_past(qkv, cache, origin, steps, heads),
            incremental.attend_to_past(qkv, twin, origin, steps, heads),
            atol=1e-4,
            rtol=1e-4,
        )
        assert torch.equal(cache, twin)
    memory, q = random(sentences, sources, 2 * width), random(sentences * hypotheses, width)
    lengths = torch.tensor([50, 0, 7], dtype=torch.int32, device=DEVICE)
    torch.testing.assert_close(
        decoding.attend_to_memory(q, memory, lengths, heads),
        incremental.attend_to_memory(q, memory, lengths, heads),
        atol=1e-4,
        rtol=1e-4,
    )
