import math

import numpy as np
import pytest

from dragoman.decode.search.hypotheses import LENGTH_PENALTIES, coverage_penalty


def test_length_penalties_match_their_formulas() -> None:
    assert LENGTH_PENALTIES["gnmt"](7, 0.6) == pytest.approx(((5 + 7) / 6) ** 0.6)
    assert LENGTH_PENALTIES["power"](7, 0.6) == pytest.approx(7**0.6)
    assert LENGTH_PENALTIES["none"](7, 0.6) == 1.0


def test_coverage_penalizes_words_with_too_little_attention() -> None:
    attention = np.array([[0.7, 0.3, 0.0], [0.6, 0.2, 0.2]])  # columns: 1.3 (enough), 0.5, 0.2
    assert coverage_penalty(attention, 0.4) == pytest.approx(0.4 * (math.log(0.5) + math.log(0.2)))
