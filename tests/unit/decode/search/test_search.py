from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dragoman.config import DecodingConfig
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.hypotheses import coverage_penalty
from dragoman.decode.search.sampling import sample
from dragoman.decode.search.task import Sampling, Task
from dragoman.engine.ensemble import Ensemble
from dragoman.engine.torch_engine import TorchEngine
from tests.conftest import small_engine

SOURCES = [[5, 6, 7, 3], [9, 3], [11, 4, 8, 6, 3]]
SETTINGS = DecodingConfig(beam_size=4, max_length_extra=6, max_length_ratio=1.0)


def ending_engine(seed: int = 5) -> TorchEngine:
    """A model with random weights that ends some sentences and not others."""
    return small_engine(seed=seed, end=7.0)


def scored(engine, source: list[int], tokens: tuple[int, ...]) -> float:
    return float(engine.score([source], [list(tokens)])[0].sum())


@pytest.mark.parametrize("penalty", ["gnmt", "power", "none"])
def test_the_score_of_a_hypothesis_equals_forced_decoding(penalty: str) -> None:
    engine = ending_engine()
    settings = replace(SETTINGS, length_penalty=penalty, length_penalty_alpha=0.8)
    for source, found in zip(
        SOURCES, beam_search(engine, SOURCES, Task(settings, nbest=3)), strict=True
    ):
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for h in found:
            n = len(h.log_probs)
            divisor = {"gnmt": ((5 + n) / 6) ** 0.8, "power": n**0.8, "none": 1.0}[penalty]
            forced = engine.score([source], [list(h.tokens)])[0][:n].sum()
            assert h.score == pytest.approx(forced / divisor, abs=1e-4)


def test_greedy_search_takes_the_best_token_at_every_step() -> None:
    engine = ending_engine()
    for source, found in zip(
        SOURCES, beam_search(engine, SOURCES, Task(replace(SETTINGS, beam_size=1))), strict=True
    ):
        said: list[int] = []
        state = engine.start([source])
        parents = np.zeros(1, dtype=np.int64)
        last = np.array([engine.target.bos])
        while len(said) < 6 + len(source):
            step = engine.step(state, parents, last, 1)
            state, last = step.state, step.tokens[:, 0]
            if last[0] == engine.target.eos:
                break
            said.append(int(last[0]))
        assert found[0].tokens == tuple(said)


def test_a_forced_prefix_is_kept_and_the_rest_is_searched() -> None:
    engine = ending_engine()
    prefixes = [[8, 9], [10], []]
    free = beam_search(engine, SOURCES, Task(SETTINGS))
    found = beam_search(engine, SOURCES, Task(SETTINGS, prefixes=prefixes))
    for prefix, hypotheses in zip(prefixes, found, strict=True):
        assert list(hypotheses[0].tokens[: len(prefix)]) == prefix
    assert found[2][0].tokens == free[2][0].tokens


def test_lengths_stay_within_their_limits() -> None:
    engine = ending_engine()
    settings = replace(SETTINGS, min_length_ratio=1.5, max_length_ratio=1.0, max_length_extra=5)
    for source, found in zip(
        SOURCES, beam_search(engine, SOURCES, Task(settings, nbest=4)), strict=True
    ):
        for h in found:
            assert int(1.5 * len(source)) <= len(h.tokens) <= len(source) + 5


def test_no_ngram_occurs_twice() -> None:
    engine = ending_engine(seed=8)
    settings = replace(SETTINGS, no_repeat_ngram_size=2, max_length_extra=30, min_length_ratio=8.0)
    for found in beam_search(engine, SOURCES, Task(settings)):
        pairs = Counter(zip(found[0].tokens, found[0].tokens[1:], strict=False))
        assert max(pairs.values()) == 1


def test_coverage_is_added_to_the_score() -> None:
    engine = ending_engine()
    plain = replace(SETTINGS, beam_size=1, length_penalty="none")
    without = beam_search(engine, SOURCES, Task(plain, attention=True))
    with_it = beam_search(engine, SOURCES, Task(replace(plain, coverage_penalty=0.3)))
    for source, a, b in zip(SOURCES, without, with_it, strict=True):
        assert a[0].tokens == b[0].tokens
        assert b[0].score == pytest.approx(
            a[0].score + coverage_penalty(a[0].attention[:, : len(source)], 0.3), abs=1e-4
        )
        assert b[0].attention.sum(axis=1) == pytest.approx(1.0, abs=1e-5)


def test_samples_follow_the_models_distribution() -> None:
    engine = ending_engine()
    source = [5, 6, 3]
    step = engine.step(engine.start([source]), np.array([0]), np.array([engine.target.bos]), None)
    probabilities = np.exp(step.log_probs[0])
    probabilities /= probabilities.sum()  # <pad>, <unk> and <s> never come
    drawn = sample(engine, [source], Task(SETTINGS, sampling=Sampling(seed=3), nbest=4000))[0]
    first = Counter(h.tokens[0] if h.tokens else engine.target.eos for h in drawn)
    for token in np.argsort(-probabilities)[:3]:
        expected, spread = 4000 * probabilities[token], 4 * np.sqrt(4000 * probabilities[token])
        assert abs(first[int(token)] - expected) < spread + 5


def test_sampling_obeys_top_k_top_p_and_seed() -> None:
    engine = ending_engine()
    greedy = [
        found[0].tokens
        for found in beam_search(engine, SOURCES, Task(replace(SETTINGS, beam_size=1)))
    ]
    for sampling in (Sampling(top_k=1), Sampling(top_p=1e-6), Sampling(temperature=0.0)):
        assert [
            found[0].tokens for found in sample(engine, SOURCES, Task(SETTINGS, sampling=sampling))
        ] == greedy
    once, again, other = (
        sample(engine, SOURCES, Task(SETTINGS, sampling=Sampling(seed=s))) for s in (1, 1, 2)
    )
    assert (
        [h[0].tokens for h in once] == [h[0].tokens for h in again] != [h[0].tokens for h in other]
    )


def test_an_ensemble_averages_probabilities() -> None:
    members = [small_engine(seed=1), small_engine(seed=2)]
    start, bos = np.array([0]), np.array([2])
    alone = [np.exp(m.step(m.start(SOURCES[:1]), start, bos, None).log_probs) for m in members]
    ensemble = Ensemble(members)
    step = ensemble.step(ensemble.start(SOURCES[:1]), start, bos, None)
    np.testing.assert_allclose(np.exp(step.log_probs), (alone[0] + alone[1]) / 2, atol=1e-6)
    twice = Ensemble([members[0], members[0]])
    assert [h[0].tokens for h in beam_search(twice, SOURCES, Task(SETTINGS))] == [
        h[0].tokens for h in beam_search(members[0], SOURCES, Task(SETTINGS))
    ]
