"""Every architecture keeps the promises that search and training build on."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dragoman.config import DecodingConfig
from dragoman.config.variants import ARCHITECTURES
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.engine.ensemble import Ensemble
from dragoman.engine.torch_engine import TorchEngine
from dragoman.errors import TranslationError
from dragoman.model.build import Model, build_model
from dragoman.text.lexicon import Lexicon
from tests.conftest import small_config, small_model, vocabulary

PEERS = sorted(ARCHITECTURES.keys() - {"transformer"})
LEARNING = [name for name in PEERS if name != "lexical"]
LOOKING = [name for name in LEARNING if name != "rnn"]
VARIANTS = [
    *({"model__architecture": name} for name in PEERS),
    *({"model__architecture": name, "model__cell": "gru"} for name in ("rnn", "rnn-attention")),
    {"model__architecture": "rnn-attention", "model__num_encoder_layers": 1,
    "model__num_decoder_layers": 3},
    {"model__architecture": "gnmt", "model__num_encoder_layers": 1, "model__num_decoder_layers": 3,
    "model__share_embeddings": "none"},
    {"model__architecture": "convs2s", "model__kernel_width": 4},
    {"model__architecture": "convs2s", "model__kernel_width": 1},
    {"model__architecture": "decoder-only", "model__norm_position": "pre",
    "model__share_embeddings": "target"},
    {"model__architecture": "decoder-only", "model__positions__kind": "learned",
    "model__positions__max_length": 600},
    *(
        {"model__architecture": "decoder-only", f"model__{name}": value}
        for name, value in (
            ("positions__kind", "rotary"), ("positions__kind", "relative"),
            ("positions__join", "concat"),
            ("positions__kind", "none"), ("attention__span", "hard"), ("attention__span", "local"),
            ("attention__similarity", "additive"), ("attention__heads_layout", "multi-query"),
            ("feed_forward", False),
        )
    ),
    *(
        {"model__architecture": name, "model__attention__similarity": kind}
        for name, kind in (("rnn-attention", "additive"), ("gnmt", "cosine"))
    ),
]  # fmt: skip
SOURCES = [[5, 6, 7, 3], [9, 3], [11, 4, 8, 6, 12, 3]]


def make_model(size: int = 23, seed: int = 5, **settings: object) -> Model:
    """Build the model in double precision, where rounding cannot explain a difference."""
    if settings["model__architecture"] != "lexical":
        return small_model(size, seed, **settings).double()
    draw = np.random.default_rng(seed)
    words = vocabulary(size)
    model = build_model(small_config(**settings).model, words, words, shared=True)
    kept = model.translations.shape[1]
    targets = draw.integers(3, size, size=(size, kept)).astype(np.int32)
    model.set_counts(
        Lexicon(targets, draw.dirichlet(np.ones(kept), size).astype(np.float32), 0),
        draw.random(size),
    )
    return model.double()


def make_engine(size: int = 23, seed: int = 5, **settings: object) -> TorchEngine:
    return TorchEngine(
        make_model(size, seed, **settings), vocabulary(size), vocabulary(size), torch.device("cpu")
    )


def padded(rows: list[list[int]], more: int = 0) -> torch.Tensor:
    longest = max(map(len, rows)) + more
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_steps_equal_the_full_pass(settings: dict) -> None:
    model = make_model(**settings)
    source = padded(SOURCES)
    target = torch.tensor([[2, 7, 12, 9, 9, 4], [2, 8, 5, 5, 20, 6], [2, 4, 10, 22, 11, 15]])
    full = model(source, target)
    state = model.start(source)
    for t in range(target.shape[1]):
        state = state.select(np.arange(3))
        hidden, _ = model.step(state, target[:, t])
        torch.testing.assert_close(hidden, full[:, t], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("architecture", PEERS)
def test_rows_may_be_reordered_repeated_and_left_out(architecture: str) -> None:
    """However rows are shuffled, each row's next step depends on its own history only."""
    model = make_model(model__architecture=architecture)
    draw = np.random.default_rng(4)
    state = model.start(padded(SOURCES))
    histories = [(s, [2]) for s in range(3)]
    parents = np.arange(3)
    for _ in range(6):
        histories = [(histories[p][0], [*histories[p][1]]) for p in parents]
        state = state.select(parents)
        hidden, _ = model.step(state, torch.tensor([said[-1] for _, said in histories]))
        for row, (sentence, said) in enumerate(histories):
            alone = model(padded([SOURCES[sentence]]), torch.tensor([said]))[0, -1]
            torch.testing.assert_close(hidden[row], alone, atol=1e-9, rtol=1e-9)
        parents = draw.integers(0, len(histories), size=draw.integers(1, 6))
        said = draw.integers(4, 23, size=len(histories)).tolist()
        histories = [
            (sentence, [*before, new])
            for (sentence, before), new in zip(histories, said, strict=True)
        ]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_neither_padding_nor_company_changes_a_result(settings: dict) -> None:
    model = make_model(**settings)
    targets = [[2, 7, 12], [2, 8], [2, 4, 10, 22]]
    together = model(padded(SOURCES, 5), padded(targets, 3))
    for row, (source, target) in enumerate(zip(SOURCES, targets, strict=True)):
        alone = model(padded([source]), padded([target]))[0]
        # rotary's table is float
        torch.testing.assert_close(together[row, : len(target)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_no_architecture_peeks_at_the_future(settings: dict) -> None:
    model = make_model(**settings)
    source = padded(SOURCES)
    target = torch.randint(4, 23, (3, 6))
    before = model(source, target)
    for t in range(1, 6):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] - 3) % 19 + 4
        torch.testing.assert_close(
            model(source, changed)[:, :t], before[:, :t], atol=1e-12, rtol=1e-12
        )


@pytest.mark.parametrize("architecture", LEARNING)
def test_a_later_word_has_no_gradient_from_an_earlier_output(architecture: str) -> None:
    model = make_model(model__architecture=architecture)
    seen = []
    model.target_embedding.register_forward_hook(lambda _, __, output: seen.append(output))
    hidden = model(padded(SOURCES), torch.randint(4, 23, (3, 6)))
    gradient = torch.autograd.grad(hidden[:, 2].sum(), seen[0])[0]  # (B, T, D)
    assert bool((gradient[:, 3:] == 0).all())
    assert bool((gradient[:, :3].abs().amax(dim=-1) > 0).all())


@pytest.mark.parametrize("architecture", LEARNING)
def test_every_weight_is_used_and_every_source_word_counts(architecture: str) -> None:
    model = make_model(model__architecture=architecture, model__share_embeddings="none")
    seen = []
    model.source_embedding.register_forward_hook(lambda _, __, output: seen.append(output))
    hidden = model(padded([SOURCES[0]]), torch.randint(4, 23, (1, 6)))
    (words,) = torch.autograd.grad(hidden[0, -1].sum(), seen[0], retain_graph=True)
    assert bool((words[0].abs().amax(dim=-1) > 0).all())
    (model.logits(hidden) ** 2).sum().backward()
    unused = [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any()
    ]
    assert unused == []


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16 takes another path
@pytest.mark.parametrize("architecture", LEARNING)
def test_half_precision_gives_a_finite_loss_and_gradient(architecture: str) -> None:
    model = small_model(model__architecture=architecture).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (
            model.logits(model(padded(SOURCES), torch.randint(4, 23, (3, 6))))
            .float()
            .logsumexp(-1)
            .sum()
        )
    loss.backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("architecture", LOOKING)
def test_the_attention_of_a_step_matches_the_full_pass(architecture: str) -> None:
    model = make_model(model__architecture=architecture)
    target = torch.tensor([[2, 7, 12, 9]] * 3)
    source = padded(SOURCES)
    shown = model.attention_weights(source, target)["cross"]
    assert len(shown) == model.attention_layers
    for layer, weights in enumerate(shown):
        state = model.start(source)
        for t in range(target.shape[1]):
            _, looked_at = model.step(state, target[:, t], layer)
            torch.testing.assert_close(looked_at, weights[:, :, t].mean(dim=1))
            assert not looked_at[1, 2:].any()  # the second sentence has two words


@pytest.mark.parametrize("architecture", LOOKING)
def test_looking_changes_nothing_and_shares_sum_to_one(architecture: str) -> None:
    engine = make_engine(model__architecture=architecture)
    shown = engine.attention_weights(SOURCES[0], [7, 12, 9])
    asked = shown["cross"].sum(axis=-1)
    if architecture == "decoder-only":  # one softmax over both sides
        asked = asked + shown["decoder"].sum(axis=-1)
    np.testing.assert_allclose(asked, 1.0, atol=1e-6)
    source = padded(SOURCES)
    target = torch.tensor([[2, 7, 12]] * 3)
    plain, looking = engine.model.start(source), engine.model.start(source)
    for t in range(3):
        torch.testing.assert_close(
            engine.model.step(plain, target[:, t])[0],
            engine.model.step(looking, target[:, t], 0)[0],
        )


@pytest.mark.parametrize("architecture", ["rnn", "lexical"])
def test_a_model_without_attention_says_so(architecture: str) -> None:
    engine = make_engine(model__architecture=architecture)
    with pytest.raises(
        TranslationError, match=f"model.architecture={architecture} has no attention"
    ):
        engine.attention_weights(SOURCES[0], [7])
    with pytest.raises(TranslationError, match="no attention"):
        beam_search(engine, SOURCES, Task(DecodingConfig(coverage_penalty=0.2)))


@pytest.mark.parametrize("architecture", PEERS)
def test_a_wide_beam_is_exhaustive_search(architecture: str) -> None:
    # <pad> <unk> <s> </s> and three words
    engine = make_engine(size=7, seed=2, model__architecture=architecture)
    longest, source = 3, [5, 6, 3]
    settings = DecodingConfig(
        beam_size=100, length_penalty="none", max_length_ratio=0.0, max_length_extra=longest
    )
    everything = []
    for length in range(longest + 1):
        for words in product([4, 5, 6], repeat=length):
            scores = engine.score([source], [list(words)])[0]
            everything.append((float(scores[: min(length + 1, longest)].sum()), words))
    everything.sort(reverse=True)
    found = beam_search(engine, [source], Task(settings, nbest=5))[0]
    assert [h.tokens for h in found] == [words for _, words in everything[:5]]
    np.testing.assert_allclose(
        [h.score for h in found], [score for score, _ in everything[:5]], atol=1e-4
    )


def test_an_ensemble_of_all_architectures_averages_their_probabilities() -> None:
    members = [make_engine(model__architecture=name) for name in ARCHITECTURES]
    said = [7, 12]
    together = Ensemble(members).score([SOURCES[0]], [said])[0]
    by_hand = np.mean([np.exp(member.score([SOURCES[0]], [said])[0]) for member in members], axis=0)
    np.testing.assert_allclose(np.exp(together), by_hand, rtol=1e-5)
    hypothesis = beam_search(
        Ensemble(members), [SOURCES[0]], Task(DecodingConfig(length_penalty="none"))
    )[0][0]
    forced = Ensemble(members).score([SOURCES[0]], [list(hypothesis.tokens)])[0]
    assert hypothesis.score == pytest.approx(forced[: len(hypothesis.log_probs)].sum(), abs=1e-3)


@pytest.mark.parametrize("architecture", LEARNING)
def test_the_operations_we_count_are_those_that_torch_counts(architecture: str) -> None:
    """Products of matrices; torch counts all of causal attention, we count what is seen."""
    model = make_model(model__architecture=architecture, model__d_model=64)
    source, target = torch.randint(4, 23, (2, 12)), torch.randint(4, 23, (2, 9))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model.logits(model(source, target))
    ours = 2 * model.multiplications(np.array([12, 12]), np.array([9, 9]))
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.05)
