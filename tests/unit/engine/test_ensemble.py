"""Ensembles against probabilities that were averaged by hand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import dragoman
from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import DecodingConfig
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from dragoman.engine.ensemble import Ensemble
from dragoman.engine.protocol import Step, top_k
from dragoman.errors import BundleError
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from tests.conftest import vocabulary

WORDS = vocabulary(6)
BOS, EOS, A, B = 2, 3, 4, 5


class Table:
    """An engine with a table of next-word probabilities, which ignores the source."""

    target = WORDS
    has_attention = False
    max_length = None
    searches_on_device = False
    batch_tokens = 100

    def __init__(self, rows: Mapping[int, Mapping[int, float]]):
        self._log_probs = np.full((len(WORDS), len(WORDS)), -np.inf)
        for before, following in rows.items():
            for word, probability in following.items():
                self._log_probs[before, word] = math.log(probability)

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        return None

    def step(self, state, parents, tokens, k, *, attention=False, banned=None) -> Step:
        found = self._log_probs[tokens]
        return Step(None, None, found, None) if k is None else Step(None, *top_k(found, k), None)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        steps = [zip([BOS, *words], [*words, EOS], strict=True) for words in targets]
        return [np.array([self._log_probs[pair] for pair in of_one]) for of_one in steps]


MEMBERS = [
    Table({BOS: {A: 0.6, B: 0.4}, A: {EOS: 0.9, B: 0.1}, B: {EOS: 0.5, A: 0.5}}),
    Table({BOS: {A: 0.1, B: 0.9}, A: {EOS: 0.3, B: 0.7}, B: {EOS: 0.7, A: 0.3}}),
]
MEAN = {"b": 0.65 * 0.6, "a": 0.35 * 0.6, "ba": 0.65 * 0.4 * 0.6, "ab": 0.35 * 0.4 * 0.6}


def test_each_step_averages_the_probabilities() -> None:
    ensemble = Ensemble(MEMBERS)
    step = ensemble.step(ensemble.start([[A]]), np.array([0, 0, 0]), np.array([BOS, A, B]), None)
    by_hand = [[0, 0, 0, 0, 0.35, 0.65], [0, 0, 0, 0.6, 0, 0.4], [0, 0, 0, 0.6, 0.4, 0]]
    np.testing.assert_allclose(np.exp(step.log_probs), by_hand, atol=1e-12)


def test_search_and_scores_use_the_mean_of_the_members() -> None:
    settings = DecodingConfig(
        beam_size=4, length_penalty="none", max_length_ratio=0.0, max_length_extra=4
    )
    found = beam_search(Ensemble(MEMBERS), [[A]], Task(settings, nbest=4))[0]
    said = {"".join("ab"[token - A] for token in h.tokens): math.exp(h.score) for h in found}
    assert {words: said[words] for words in ("b", "a", "ba")} == pytest.approx(
        {w: MEAN[w] for w in ("b", "a", "ba")}
    )
    assert found[0].tokens == (B,)
    assert beam_search(MEMBERS[0], [[A]], Task(settings))[0][0].tokens == (A,)
    scores = Ensemble(MEMBERS).score([[A]], [[B, A]])[0]
    np.testing.assert_allclose(np.exp(scores), [0.65, 0.4, 0.6])


def test_rejects_models_with_different_vocabularies(trained, tmp_path) -> None:
    bundle = read_bundle(trained)
    other = Codec.learn(
        ["zehn elf"], ["ten eleven"], bundle.config.text, Languages(("de",), ("en",))
    )
    words = {
        name: array[: len(other.source)]
        for name, array in bundle.weights.items()
        if "words" in name
    }
    write_bundle(
        tmp_path / "other", replace(bundle, codec=other, weights={**bundle.weights, **words})
    )
    with pytest.raises(BundleError, match="different vocabularies"):
        dragoman.load(f"{trained},{tmp_path / 'other'}", device="cpu")
