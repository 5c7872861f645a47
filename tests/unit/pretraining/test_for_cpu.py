"""The shortlist by language that the bundled model comes with."""

import numpy as np
from for_cpu import language_lists

from tests.agree.test_listed import SIZE, TaggedCodec


def test_a_language_has_its_most_frequent_pieces_up_to_a_share() -> None:
    counts = {"de": np.zeros(SIZE, dtype=int), "fr": np.zeros(SIZE, dtype=int)}
    # Piece 0 is padding: it takes part of the share, but no translation contains it.
    counts["de"][[20, 21, 22, 0]] = 1000, 100, 10, 5000
    counts["fr"][[30, 31]] = 7, 7
    lists = language_lists(TaggedCodec(), counts, 0.998)
    assert lists.of([4, 9, 3]).tolist() == [3, 20, 21]
    assert lists.of([5, 9, 3]).tolist() == [3, 30, 31]
    assert lists.bringing == {4, 5}
