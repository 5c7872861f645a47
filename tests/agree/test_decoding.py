"""Two code paths, one translation: cached steps and the full pass, beam and exhaustive search, one
and many."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import dragoman
from dragoman.config import DecodingConfig
from dragoman.decode.request import Request
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.decode.translator import Translator
from dragoman.model.attention import plain_attention
from tests.conftest import MOST_TIES, small_engine, small_model, toy_pairs

SOURCES = [[5, 6, 7, 3], [9, 3], [11, 4, 8, 6, 12, 3]]
VARIANTS = [
    {},
    {"model__norm_position": "pre"},
    {"model__positions__kind": "learned"},
    {"model__share_embeddings": "none"},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_cached_steps_equal_the_full_pass(settings: dict) -> None:
    engine = small_engine(**settings)
    targets = np.random.default_rng(2).integers(4, 23, size=(3, 6))
    full = engine.score(SOURCES, targets.tolist())
    state = engine.start(SOURCES)
    inputs = np.concatenate([np.full((3, 1), 2), targets], axis=1)
    outputs = np.concatenate([targets, np.full((3, 1), 3)], axis=1)
    for t in range(7):
        step = engine.step(state, np.arange(3), inputs[:, t], None)
        state = step.state
        stepped = step.log_probs[np.arange(3), outputs[:, t]]
        np.testing.assert_allclose(stepped, [row[t] for row in full], atol=1e-5)


def test_rows_may_be_reordered_repeated_and_left_out() -> None:
    """However rows are shuffled, each row's next step depends on its own history only."""
    engine = small_engine()
    draw = np.random.default_rng(4)
    state = engine.start(SOURCES)
    sentences = [0, 1, 2]
    histories: list[list[int]] = [[], [], []]
    parents = np.arange(3)
    last = np.full(3, 2)
    for _ in range(6):
        step = engine.step(state, parents, last, None)
        state = step.state
        for row, (sentence, history) in enumerate(zip(sentences, histories, strict=True)):
            alone = engine.start([SOURCES[sentence]])
            for token in [2, *history]:
                single = engine.step(alone, np.zeros(1, dtype=np.int64), np.array([token]), None)
                alone = single.state
            np.testing.assert_allclose(step.log_probs[row], single.log_probs[0], atol=1e-4)
        parents = draw.integers(0, len(histories), size=draw.integers(1, 6))
        last = draw.integers(4, 23, size=len(parents))
        sentences = [sentences[p] for p in parents]
        histories = [[*histories[p], int(token)] for p, token in zip(parents, last, strict=True)]


@pytest.mark.parametrize("penalty", ["gnmt", "none"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_beam_is_exhaustive_search(penalty: str, seed: int) -> None:
    engine = small_engine(size=7, seed=seed, end=1.0)  # <pad> <unk> <s> </s> and three words
    longest, source = 4, [5, 6, 3]
    settings = DecodingConfig(
        beam_size=400,
        length_penalty=penalty,
        length_penalty_alpha=0.7,
        max_length_ratio=0.0,
        max_length_extra=longest,
    )
    everything = []
    for length in range(longest + 1):
        for words in product([4, 5, 6], repeat=length):
            scores = engine.score([source], [list(words)])[0]
            # a hypothesis of the largest length needs no end of sentence
            kept = scores if length < longest else scores[:length]
            divisor = ((5 + len(kept)) / 6) ** 0.7 if penalty == "gnmt" else 1.0
            everything.append((float(kept.sum()) / divisor, words))
    everything.sort(reverse=True)
    found = beam_search(engine, [source], Task(settings, nbest=10))[0]
    assert len({len(h.tokens) for h in found if h.complete}) > 1
    assert [h.tokens for h in found] == [words for _, words in everything[:10]]
    np.testing.assert_allclose(
        [h.score for h in found], [score for score, _ in everything[:10]], atol=1e-4
    )


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    ("device", "precision"), [("cpu", "float32"), ("cuda", "float32"), ("cuda", "bf16")]
)
def test_a_batch_of_one_is_a_batch_of_many(
    trained, device: str, precision: str, beam: int, capsys
) -> None:
    """A difference is allowed only where two hypotheses tie."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    translator = dragoman.load(trained, device=device)
    count = 500 if device == "cuda" else 150  # one by one they take a CPU long
    lines = [source for source, _ in toy_pairs(count, seed=77, longest=9)]
    settings = DecodingConfig(beam_size=beam, precision=precision, batch_tokens=500)
    many = translator.translate(lines, Request(decoding=settings))
    alone = translator.translate(lines, Request(decoding=replace(settings, batch_tokens=1)))
    ties = 0
    for together, single in zip(many, alone, strict=True):
        if together.text != single.text:
            ties += 1
            assert abs(together.score - single.score) < 1e-4
    assert ties <= MOST_TIES
    with capsys.disabled():
        print(f"\n{device}, {precision}, beam {beam}: {ties} ties in {len(lines)} sentences")


def test_order_does_not_matter(trained) -> None:
    translator = dragoman.load(trained, device="cpu")
    lines = [source for source, _ in toy_pairs(60, seed=5)]
    forwards, backwards = translator(lines), translator(lines[::-1])
    assert forwards == backwards[::-1]


def test_padding_never_changes_a_result() -> None:
    model = small_model()
    source, target = torch.tensor([[5, 9, 11, 3]]), torch.tensor([[2, 7, 12]])
    padded_source = torch.cat([source, torch.zeros(1, 9, dtype=torch.long)], dim=1)
    padded_target = torch.cat([target, torch.zeros(1, 5, dtype=torch.long)], dim=1)
    torch.testing.assert_close(
        model(padded_source, padded_target)[:, :3], model(source, target), atol=1e-5, rtol=1e-5
    )


def test_the_weights_we_show_are_the_weights_we_use() -> None:
    """The recorded weights, put to work on the values, give the fused attention's output."""
    model = small_model()
    source = torch.tensor([[5, 9, 11, 3], [6, 3, 0, 0]])
    target = torch.tensor([[2, 7, 12], [2, 8, 0]])
    shown = model.attention_weights(source, target)
    memory, mask = model.encoder_states(source)
    x = model.target_embedding(target)
    for number, layer in enumerate(model.decoder):
        seen = layer.cross.keys_values(memory)
        x = layer.around_attention(x, lambda h, layer=layer: layer.attention(h, causal=True))
        fused = layer.cross(x, seen, mask=mask)
        torch.testing.assert_close(
            layer.cross.project.join(shown["cross"][number] @ seen.v), fused, atol=1e-5, rtol=1e-4
        )
        q = layer.cross.project.queries(x)
        torch.testing.assert_close(plain_attention(q, *seen, mask)[1], shown["cross"][number])
        x = layer.around_cross(x, lambda h, fused=fused: fused)
        x = layer.around_feed_forward(x, layer.feed_forward)


def test_a_steps_attention_is_the_full_passes(trained) -> None:
    translator: Translator = dragoman.load(trained, device="cpu")
    text = "eins zwei drei vier"
    candidate = translator.translate([text], Request(alignments=True))[0].candidates[0]
    shown = translator.attention(text, candidate.text)["cross"]
    engine = translator.engine
    sources = translator.codec.encode_source([text])
    stepped = beam_search(engine, sources, Task(translator.config.decoding, attention=True))[0][
        0
    ].attention
    np.testing.assert_allclose(stepped, shown[engine.attention_layer].mean(axis=0), atol=1e-5)
