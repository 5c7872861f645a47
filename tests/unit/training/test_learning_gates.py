"""Training the gate that recognizes the user's sentences."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle.folder import Bundle, read_bundle
from dragoman.training import train_gate
from dragoman.training.train_gate import EMBEDDING, fit_gate, logistic_regression
from tests.conftest import toy_pairs

SENTENCES = [source for source, _ in toy_pairs(300, seed=4)]


@pytest.fixture(scope="module")
def bundle(trained: Path) -> Bundle:
    return read_bundle(trained)


def test_the_regression_minimizes_its_loss() -> None:
    draw = np.random.default_rng(2)
    x = draw.normal(size=(300, 4))
    y = x[:, 0] + 0.5 * x[:, 1] + draw.normal(size=300) > 0.8
    found = np.array([*logistic_regression(x, y)[0], logistic_regression(x, y)[1]])

    def loss(w: np.ndarray) -> float:
        margin = np.where(y, 1, -1) * (x @ w[:-1] + w[-1])
        bce = np.log1p(np.exp(-margin))
        return float(
            (bce[y].mean() + bce[~y].mean()) / 2 + train_gate.PENALTY * (w[:-1] ** 2).sum()
        )

    assert found[0] > 2 * abs(found[2])
    for step in 0.01 * np.vstack([np.eye(5), -np.eye(5)]):
        assert loss(found + step) > loss(found)


def test_the_gate_separates_the_users_sentences_from_others(bundle: Bundle) -> None:
    own = [text for text in SENTENCES if "drei" in text]
    others = [text for text in SENTENCES if "drei" not in text]
    encode = bundle.codec.encode_source
    half, rest = len(own) // 2, len(others) // 2
    learned = fit_gate(
        bundle, encode(own[:half]), encode(own[half : half + 20]), encode(others[:rest]), ("", "")
    )
    assert learned is not None
    assert np.mean([learned(ids) for ids in encode(own[half + 20 :])]) > 0.9
    assert np.mean([learned(ids) for ids in encode(others[rest:])]) < 0.2


def test_nearly_all_held_out_sentences_pass(bundle: Bundle) -> None:
    """Even if they do not differ from the others."""
    ids = bundle.codec.encode_source(SENTENCES)
    learned = fit_gate(bundle, ids[:100], ids[100:200], ids[200:], ("", ""))
    assert learned is not None
    assert np.mean([learned(one) for one in ids[100:200]]) >= 0.97


def test_a_gate_needs_other_sentences_and_word_vectors(bundle: Bundle) -> None:
    ids = bundle.codec.encode_source(SENTENCES[:20])
    assert fit_gate(bundle, ids, ids, [], ("", "")) is None
    weights = {name: array for name, array in bundle.weights.items() if name != EMBEDDING}
    assert fit_gate(replace(bundle, weights=weights), ids, ids, ids, ("", "")) is None


def test_the_gate_rejects_other_target_languages() -> None:
    bundle = read_bundle("pentaglot")
    texts = ["Open the file.", "Close the window.", "Print this page."]
    encode = bundle.codec.encode_source
    learned = fit_gate(
        bundle, encode(texts, "es"), encode(texts, "es"), encode(["Hello."], "es"), ("en", "es")
    )
    assert learned is not None
    assert [learned(ids) for ids in encode(texts, "es")] == [True, True, True]
    for other in ("de", "fr", "pt"):
        assert not any(learned(ids) for ids in encode(texts, other))
