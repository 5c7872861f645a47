"""The reader of Firefox's files, on files written from their layout."""

import struct
from pathlib import Path

import numpy as np
import pytest
import yaml

from dragoman.bundle.int8 import SCALES, ZERO, all_in_bytes
from dragoman.convert.from_marian import from_marian
from dragoman.convert.marian_packed import MAGIC, read_lexical_shortlist, read_packed
from dragoman.convert.to_onnx import to_onnx
from dragoman.errors import ConversionError
from dragoman.text.subword import BytePairs, pieces_of_model
from tests.forging import KEPT
from tests.marian_files import packed_model, packed_shortlist, random_arrays

WIDTH, INNER = 16, 32
SETTINGS = {
    "type": "transformer", "dim-emb": WIDTH, "transformer-heads": 2, "transformer-dim-ffn": INNER,
    "enc-depth": 1, "dec-depth": 1, "transformer-ffn-activation": "relu",
    "transformer-preprocess": "", "transformer-postprocess": "dan",
    "transformer-postprocess-top": "", "transformer-decoder-autoreg": "rnn", "dec-cell": "ssru",
}  # fmt: skip
MODEL, LISTS = "model.deen.intgemm.alphas.bin", "lex.50.50.deen.s2t.bin"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("firefox")
    spm = (KEPT / "shared.spm").read_bytes()
    count = len(pieces_of_model(spm))
    raw = packed_model(random_arrays(count, SETTINGS), yaml.dump(SETTINGS).encode())
    (folder / MODEL).write_bytes(raw)
    for name in ("srcvocab.deen.spm", "trgvocab.deen.spm"):
        (folder / name).write_bytes(spm)
    lists = [[(i + 100) % count, (i + 150) % count] for i in range(count)]
    (folder / LISTS).write_bytes(packed_shortlist(lists, first=40))
    return folder


def test_matrices_keep_the_bytes_that_they_came_in(packed: Path) -> None:
    bundle = from_marian(packed)
    assert all_in_bytes(bundle.weights)
    assert bundle.card["from"] == ["de"]
    assert bundle.config.model.decoder_self_attention == "ssru"
    theirs = random_arrays(len(bundle.codec.source) - 1, SETTINGS)
    for name, place in (("value", "W"), ("forget", "Wf")):
        matrix = theirs[f"decoder_l1_rnn_{place}"]
        factor = 127 / np.abs(matrix).max()
        stored = bundle.weights[f"decoder.0.recurrence.{name}.weight"]
        scales = bundle.weights[f"decoder.0.recurrence.{name}.weight{SCALES}"]
        # transposed, with features in another order: the same numbers, each as often
        expected = np.sort(np.rint(matrix * factor), axis=None)
        assert np.array_equal(np.sort(stored.astype(int) - ZERO, axis=None), expected)
        np.testing.assert_allclose(scales, 1 / factor, rtol=1e-6)


def test_int8_keeps_bytes(packed: Path) -> None:
    bundle = from_marian(packed)
    again = to_onnx(bundle, int8=True)
    for name, array in bundle.weights.items():
        assert np.array_equal(again.weights[name], array)


def test_a_packed_matrix_is_restored_up_to_rounding() -> None:
    matrix = np.random.default_rng(2).normal(size=(8, 24)).astype(np.float32)
    words = np.random.default_rng(3).normal(size=(10, 8)).astype(np.float32)
    raw = packed_model({"a_W1": matrix, "Wemb": words}, b"type: transformer")
    arrays = read_packed(raw, Path("model.bin")).arrays
    for name, array in (("a_W1", matrix), ("Wemb", words)):
        assert arrays[name].shape == array.shape
        step = np.abs(array).max() / 127
        np.testing.assert_allclose(arrays[name], array, atol=0.51 * step)
    assert not any(name.endswith("QuantMultA") for name in arrays)


def test_a_lexical_shortlist_has_the_first_pieces_and_each_source_pieces_candidates(
    packed: Path,
) -> None:
    bundle = from_marian(packed)
    assert bundle.shortlist is not None
    target = bundle.codec.target
    always = set(range(40)) - set(target.never) | {target.eos}
    assert set(bundle.shortlist.of([]).tolist()) == always
    assert set(bundle.shortlist.of([50, 60]).tolist()) == always | {150, 200, 160, 210}


def test_a_settings_file_may_name_the_files(packed: Path, tmp_path: Path) -> None:
    for path in packed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    named = {
        "models": [MODEL], "vocabs": ["srcvocab.deen.spm", "trgvocab.deen.spm"],
        "shortlist": [LISTS, False], "beam-size": 3,
    }  # fmt: skip
    (tmp_path / "config.intgemm8bitalpha.yml").write_text(yaml.dump(named))
    bundle = from_marian(tmp_path)
    assert bundle.config.decoding.beam_size == 3
    assert bundle.shortlist is not None


@pytest.mark.parametrize("name", [MODEL, LISTS])
def test_a_truncated_file_is_refused_in_one_line(packed: Path, tmp_path: Path, name: str) -> None:
    for path in packed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    raw = (packed / name).read_bytes()
    for length in (0, 7, 16, 40, 47, len(raw) // 8, len(raw) // 2, len(raw) - 1000):
        (tmp_path / name).write_bytes(raw[:length])
        with pytest.raises(ConversionError, match=r"truncated|missing|not a|settings") as error:
            from_marian(tmp_path)
        assert "\n" not in str(error.value)


def test_a_file_for_one_kind_of_cpu_is_refused_by_name(packed: Path) -> None:
    raw = bytearray((packed / MODEL).read_bytes())
    struct.pack_into("<Q", raw, 16 + 8, 0x1801)  # the first item's kind: packed for AVX2
    with pytest.raises(ConversionError, match="one kind of CPU"):
        read_packed(bytes(raw), Path("model.bin"))


def test_a_shortlist_of_another_vocabulary_is_refused(packed: Path, tmp_path: Path) -> None:
    for path in packed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / LISTS).write_bytes(packed_shortlist([[1]] * 100_000))
    with pytest.raises(ConversionError, match="source vocabulary"):
        from_marian(tmp_path)
    (tmp_path / LISTS).write_bytes(packed_shortlist([[10**6]]))
    with pytest.raises(ConversionError, match="target vocabulary"):
        from_marian(tmp_path)
    (tmp_path / LISTS).write_bytes(bytes(100))
    with pytest.raises(ConversionError, match="not a binary shortlist"):
        from_marian(tmp_path)


def test_a_folder_of_neither_kind_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"decoder\.yml nor files like model\.deen"):
        from_marian(tmp_path)


@pytest.mark.parametrize(
    "offsets",
    [
        # Modulo 2**64 each exceeds its predecessor by 2**63 - 1, 2**63 - 1 and 2: 0 in total.
        [0, 2**63 - 1, 2**64 - 2, 0],
        [0, 2**62, 2**63, 3 * 2**62, 0],
        [2**64 - 1, 0],
        [1, 0],
        [0, 2],
    ],
)
def test_decreasing_offsets_are_refused_before_use(offsets) -> None:
    raw = struct.pack(f"<6Q{len(offsets)}Q", MAGIC, 0, 4, 4, len(offsets), 0, *offsets)
    vocabulary = BytePairs((KEPT / "shared.spm").read_bytes()).vocabulary
    with pytest.raises(ConversionError, match=r"lex\.bin"):
        read_lexical_shortlist(raw, Path("lex.bin"), vocabulary, vocabulary, shared=False)


@pytest.mark.parametrize("place", range(2, 10))
def test_lengths_beyond_the_file_are_refused(place: int) -> None:
    arrays = {"a": np.ones((1, 2), np.float32), "b": np.ones((1, 2), np.float32)}
    raw = bytearray(packed_model(arrays, b"a: b"))
    for length in (2**64 - 1, 2**63, 2**63 - 1, 2**32):
        raw[8 * place : 8 * place + 8] = struct.pack("<Q", length)
        with pytest.raises(ConversionError, match=r"model\.bin"):
            read_packed(bytes(raw), Path("model.bin"))
