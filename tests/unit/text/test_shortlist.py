import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import BundleError
from dragoman.text.shortlist import Shortlist
from tests.conftest import vocabulary

SIZE = 23
PIECES = vocabulary(SIZE)
words = st.lists(st.integers(3, SIZE - 1), max_size=6)
sources = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=5)


def shortlist(candidates: list[list[int]], always: list[int]) -> Shortlist:
    flat = np.array([y for of_one in candidates for y in of_one], dtype=np.int64)
    return Shortlist(np.array(always), flat, np.cumsum([len(of_one) for of_one in candidates]))


@given(st.lists(words, min_size=SIZE, max_size=SIZE), words.map(lambda ids: [3, *ids]), sources)
def test_a_shortlist_combines_candidates_of_the_source_with_common_pieces(
    candidates: list[list[int]], always: list[int], source: list[int]
) -> None:
    made = shortlist(candidates, always)
    wanted = sorted({*always, *(y for x in source for y in candidates[x])})
    assert made.of(source).tolist() == wanted
    assert (
        Shortlist.from_tensors(safetensors.numpy.load(made.to_bytes()), PIECES, PIECES)
        .of(source)
        .tolist()
        == wanted
    )


GOOD = {"always": [3, 5], "candidates": [7, 8, 9], "ends": [0] * 20 + [1, 2, 3]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"always": [3, SIZE]}, "names piece 23"),
        ({"candidates": [7, 8, 2**32 - 1]}, "names piece 4294967295"),
        ({"always": [5]}, "lacks the end"),
        ({"candidates": [7, 8, 0]}, "no translation may contain"),
        ({"ends": [3] * 22}, "each of 23 source pieces"),
        ({"ends": [0] * 20 + [2, 1, 3]}, "each of 23 source pieces"),
        ({"ends": [0] * 20 + [1, 2, 9]}, "each of 23 source pieces"),
        ({"ends": [0] * 23}, "each of 23 source pieces"),
        ({"more": [1]}, "must consist of"),
        ({"always": np.array([3.0], dtype=np.float32)}, "must consist of"),
        ({"always": np.array([[3]], dtype=np.uint32)}, "must consist of"),
    ],
)
def test_rejects_a_forged_shortlist(change: dict, words: str) -> None:
    def raw(entries: dict) -> bytes:
        arrays = {
            k: v if isinstance(v, np.ndarray) else np.array(v, dtype=np.uint32)
            for k, v in entries.items()
        }
        return safetensors.numpy.save(arrays)

    assert Shortlist.from_tensors(safetensors.numpy.load(raw(GOOD)), PIECES, PIECES).of(
        [22]
    ).tolist() == [3, 5, 9]
    with pytest.raises(BundleError, match=words):
        Shortlist.from_tensors(safetensors.numpy.load(raw(GOOD | change)), PIECES, PIECES)
