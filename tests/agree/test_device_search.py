"""Search on the device finds what the NumPy search finds; its kernels do what their twins do.

Without a GPU the kernels run in Triton's interpreter, which takes milliseconds for each line: there
the sentences are few and short, and a plain sort replaces the top-k kernel except in its own tests.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from dragoman.config import DecodingConfig
from dragoman.data.batches import collate
from dragoman.decode.query import Query, SearchOptions
from dragoman.decode.search import device as device_search
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.device import DeviceSearch
from dragoman.decode.search.task import Phrase, Task
from dragoman.decode.searcher import Searcher
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model import incremental
from dragoman.model.kernels import search as kernels
from dragoman.text.subword import Flat
from tests.conftest import small_engine

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
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
SETTINGS = DecodingConfig(
    beam_size=3, max_length_ratio=1.0, max_length_extra=6, precision="float32"
)
if not ON_GPU:
    SOURCES = SOURCES[:2]
    SETTINGS = replace(SETTINGS, max_length_ratio=0.5, max_length_extra=3)


def sorted_words(
    logits: Tensor, bias: Tensor, end_from: Tensor, steps: Tensor, end: int, k: int
) -> tuple[Tensor, Tensor]:
    """What `best_words` finds, by a stable sort."""
    log_probs = torch.log_softmax(logits.float(), dim=1) + bias
    too_early = (steps < end_from).repeat_interleave(len(logits) // len(end_from))
    log_probs[too_early, end] = -torch.inf
    values, words = log_probs.sort(dim=1, descending=True, stable=True)
    slots = 1 << (k - 1).bit_length()
    return words[:, :slots].contiguous(), values[:, :slots].contiguous()


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch, request) -> None:
    """Shrink the search where there is no GPU: no empty sentences, and one kernel less."""
    if not ON_GPU:
        monkeypatch.setattr(device_search, "FEWEST", 1)
        if "all_kernels" not in request.fixturenames:
            monkeypatch.setattr(kernels, "best_words", sorted_words)


@pytest.fixture
def all_kernels(monkeypatch) -> None:
    """Two chunks of few words, six groups."""
    monkeypatch.setattr(kernels, "_CHUNK", 16)
    monkeypatch.setattr(kernels, "_GROUP", 4)


def engine_here(**model: object) -> TorchEngine:
    """Some of its sentences end, others are cut off."""
    engine = small_engine(end=7.0, **model)
    return TorchEngine(engine.model.to(DEVICE), engine.source, engine.target, DEVICE)


def assert_same_hypotheses(
    settings: DecodingConfig,
    nbest: int = 1,
    sources: list[list[int]] = SOURCES,
    times: int = 1,
    **model: object,
) -> None:
    engine = engine_here(**model)
    expected = beam_search(engine, sources, Task(settings, nbest=nbest))
    search = DeviceSearch(engine, settings, nbest)
    for _ in range(times):
        for ours, theirs in zip(search(Flat.of(sources)).unpacked(), expected, strict=True):
            assert [h.tokens for h in ours] == [h.tokens for h in theirs]
            assert [h.complete for h in ours] == [h.complete for h in theirs]
            for a, b in zip(ours, theirs, strict=True):
                assert a.score == pytest.approx(b.score, abs=1e-4)
                assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)


@pytest.mark.parametrize(("beam", "norm"), [(1, "post"), (2, "pre"), (5, "post")])
def test_the_device_finds_what_the_reference_finds(beam: int, norm: str) -> None:
    assert_same_hypotheses(replace(SETTINGS, beam_size=beam), model__norm_position=norm)


def test_a_search_leaves_no_trace_in_the_next() -> None:
    assert_same_hypotheses(replace(SETTINGS, beam_size=2), nbest=2, times=2)


@pytest.mark.parametrize(
    "changes",
    [
        {"length_penalty": "none"},
        {"length_penalty": "power", "length_penalty_alpha": 3.0, "patience": 2.0},  # later ends win
        {"patience": 2.0},
        {"patience": 0.4},
        {"min_length_ratio": 1.0},
        {"min_length_ratio": 9.0},  # a forced length
    ],
    ids=str,
)
def test_every_setting_of_the_search_means_the_same_on_the_device(
    changes: dict[str, object],
) -> None:
    assert_same_hypotheses(replace(SETTINGS, beam_size=2, **changes), nbest=2, seed=8)


def test_a_hypothesis_may_be_longer_than_a_block_of_the_ancestor_table() -> None:
    """The kernel copies the table in blocks of 32 places."""
    long = replace(SETTINGS, beam_size=2, max_length_extra=34, min_length_ratio=99.0, patience=9.0)
    assert_same_hypotheses(long, sources=SOURCES[1:2])


def test_all_kernels_together_choose_the_next_words_as_the_reference_does(all_kernels) -> None:
    settings = replace(SETTINGS, max_length_extra=1, min_length_ratio=0.5)
    assert_same_hypotheses(settings, nbest=2, sources=SOURCES[:2])


def test_the_best_words_are_the_first_of_a_stable_sort(all_kernels, monkeypatch) -> None:
    """Few different values, so that many words are equal: then the first comes first."""
    monkeypatch.setattr(kernels, "_CHUNK", 64)
    monkeypatch.setattr(kernels, "_GROUP", 8)
    generator = torch.Generator().manual_seed(6)
    logits = torch.randint(5, (4, 150), generator=generator).float().to(DEVICE)
    logits[:, 3] = 9.0  # the end would be the best
    bias = torch.zeros(150, device=DEVICE)
    bias[[0, 2, 149]] = -torch.inf
    steps = torch.tensor([1], dtype=torch.int32, device=DEVICE)
    # two sentences of two hypotheses; the second may not end yet
    end_from = torch.tensor([0, 2], device=DEVICE)
    words, values = sorted_words(logits, bias, end_from, steps, 3, 5)
    ours, log_probs = kernels.best_words(logits, bias, end_from, steps, 3, 5)
    assert torch.equal(ours[:, :5], words[:, :5])
    torch.testing.assert_close(log_probs[:, :5], values[:, :5])


def test_several_hypotheses_and_learned_positions() -> None:
    assert_same_hypotheses(replace(SETTINGS, beam_size=2), nbest=3)
    assert_same_hypotheses(
        replace(SETTINGS, beam_size=2),
        model__positions__kind="learned",
        model__positions__max_length=300,
    )


def test_learned_positions_may_end_within_a_room() -> None:
    """A source of 129 words has room for 256."""
    assert_same_hypotheses(
        replace(SETTINGS, beam_size=2, max_length_ratio=0.0, max_length_extra=2),
        sources=[[5] * 128 + [3]],
        model__positions__kind="learned",
        model__positions__max_length=130,
        data__max_length=129,
    )


def test_finished_sentences_make_way_for_unfinished_ones(monkeypatch) -> None:
    """Looking after every step, the search must move to smaller rooms several times."""
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
    settings = replace(SETTINGS, beam_size=2, max_length_ratio=1.5, max_length_extra=1)
    assert_same_hypotheses(settings, sources=[[5, 3], [6, 7, 3], [8, 9, 10, 3], [11] * 5 + [3]])
    assert len(rooms) > 1


def test_a_search_uses_the_current_weights_of_a_model() -> None:
    engine = engine_here()
    search = DeviceSearch(engine, replace(SETTINGS, precision="bf16"), 1)
    sources = Flat.of(SOURCES)
    search(sources)
    for parameter in engine.model.parameters():
        parameter.data = parameter.data.flip(0)
    fresh = DeviceSearch(engine, replace(SETTINGS, precision="bf16"), 1)
    assert search(sources).tokens.lists() == fresh(sources).tokens.lists()


def test_what_the_host_leads_is_computed_with_the_precision_of_the_search(monkeypatch) -> None:
    """Scoring, a forced prefix and a forced phrase run at the precision of the search."""
    monkeypatch.setattr(TorchEngine, "searches_on_device", True)
    engine = engine_here()
    assert engine.at_precision("bf16") is engine  # in training a copy would become stale
    engine.model.requires_grad_(False)
    assert engine.at_precision("float32") is engine
    halved = engine.at_precision("bf16")
    assert {parameter.dtype for parameter in halved.model.parameters()} == {torch.bfloat16}
    scores = {}
    for precision in ("float32", "bf16"):
        options = SearchOptions(replace(SETTINGS, precision=precision))
        queries = [
            Query(SOURCES[0], options, outputs=[[5, 6], [7]]),
            Query(SOURCES[1], options, prefix=[8]),
            Query(SOURCES[1], options, phrases=(Phrase(((9,),)),)),
        ]
        given, (behind_prefix,), (with_phrase,) = Searcher(engine)(queries)
        assert behind_prefix.tokens[0] == 8
        assert 9 in with_phrase.tokens
        scores[precision] = [one.score for one in (*given, behind_prefix, with_phrase)]
    assert scores["bf16"] == pytest.approx(scores["float32"], rel=0.05)
    for near, exact in zip(scores["bf16"], scores["float32"], strict=True):
        assert near != exact


def test_translations_are_scored_end_to_end_as_they_are_padded() -> None:
    engine = engine_here()
    targets = [[5, 6], [7], [], [8, 9, 10], *[[11]] * len(SOURCES)][: len(SOURCES)]
    batch = collate(SOURCES, targets, engine.source, engine.target)
    source, before, after = (
        torch.from_numpy(array).to(DEVICE)
        for array in (batch.source, batch.target_in, batch.target_out)
    )
    with torch.no_grad():
        log_probs = engine.model.logits(engine.model(source, before)).log_softmax(-1)
    padded = log_probs.gather(2, after[..., None])[..., 0].tolist()
    for found, row, target in zip(
        engine.score_packed(SOURCES, targets), padded, targets, strict=True
    ):
        assert found.tolist() == pytest.approx(row[: len(target) + 1], abs=1e-4)


def test_the_kernels_of_a_decoding_step_do_what_their_twins_do() -> None:
    from dragoman.model.kernels import decoding

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
