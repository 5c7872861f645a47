"""Attacks through a CTranslate2 folder, an Argos package or a Marian folder: each is refused in
one line, and nothing is written."""

import json
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dragoman.convert.from_ctranslate2 import Variables, from_argos, from_ctranslate2
from dragoman.convert.from_marian import from_marian
from dragoman.convert.to_ctranslate2 import to_ctranslate2
from dragoman.errors import ConversionError, DragomanError
from tests.agree.test_converters import random_bundle
from tests.agree.test_imports import argos_package, marian_folder
from tests.forging import nothing_hangs

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    bundle = random_bundle()
    to_ctranslate2(bundle, folder / "ctranslate2")
    marian_folder(folder / "marian", bundle)
    model = folder / "ctranslate2"
    argos_package(folder / "a.argosmodel", model, model / "shared.spm")
    return folder


def refused(dragoman: Callable, command: str, path: Path, words: str) -> None:
    out = path.parent / "out"
    with nothing_hangs():
        answer = dragoman("convert", command, path, out)
    assert (answer.code, answer.out) == (1, ""), answer
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.removesuffix("\n").isprintable()
    assert not out.exists()


def string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def head(version: int = 6, kind: str = "TransformerSpec", arrays: int = 1) -> bytes:
    return struct.pack("<I", version) + string(kind) + struct.pack("<II", 7, arrays)


def array(shape: tuple[int, ...], size: int, kind: int = 0, name: str = "a") -> bytes:
    shaped = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return string(name) + shaped + struct.pack("<BI", kind, size)


MODELS = {
    "nothing": (b"", "is truncated"),
    "another version": (head(version=99), "has version 99"),
    "another kind": (head(kind="WhisperSpec", arrays=0) + b"\0" * 4, "'WhisperSpec'"),
    "endless arrays": (head(arrays=2**32 - 1), "is truncated"),
    "an endless array": (head() + array((2**31,), 2**32 - 4), "is truncated"),
    "an array of another size": (head() + array((2**31, 2**31), 4) + b"\0" * 4, "of shape"),
    "an unknown type": (head() + array((1,), 4, kind=9) + b"\0" * 4, "an unknown type"),
    "no weights": (head(arrays=0) + struct.pack("<I", 0), "lacks"),
    "an alias of nothing": (
        head(arrays=0) + struct.pack("<I", 1) + string("a") + string("b"),
        "lacks",
    ),
}


def copied(honest: Path, tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(honest / name, tmp_path / name))


@pytest.mark.parametrize("name", MODELS)
def test_a_forged_model_bin_is_refused(dragoman, honest: Path, tmp_path: Path, name: str) -> None:
    folder = copied(honest, tmp_path, "ctranslate2")
    raw, words = MODELS[name]
    (folder / "model.bin").write_bytes(raw)
    refused(dragoman, "from-ctranslate2", folder, words)


def test_an_array_with_many_names_is_refused_before_each_is_copied() -> None:
    names = b"".join(string(f"b{number}") + string("a") for number in range(50))
    raw = head() + array((100,), 400) + bytes(400) + struct.pack("<I", 50) + names
    stored = Variables(Path("folder"), raw)
    with pytest.raises(ConversionError, match="too many names"):
        [stored.weight(f"b{number}") for number in range(50)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_model_bin_is_refused(dragoman, honest, tmp_path: Path, share: float) -> None:
    folder = copied(honest, tmp_path, "ctranslate2")
    size = (folder / "model.bin").stat().st_size
    os.truncate(folder / "model.bin", int(size * share))
    refused(dragoman, "from-ctranslate2", folder, "is truncated")


def test_a_vocabulary_of_another_size_is_refused(dragoman, honest, tmp_path: Path) -> None:
    folder = copied(honest, tmp_path, "ctranslate2")
    path = folder / "shared_vocabulary.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:-3]))
    refused(dragoman, "from-ctranslate2", folder, "the source vocabulary has")
    path.write_bytes(DEEP)
    refused(dragoman, "from-ctranslate2", folder, "nested too deeply")
    path.write_text('{"a": 1}')
    refused(dragoman, "from-ctranslate2", folder, "is not a list of strings")


def test_flipped_bytes_never_crash(honest: Path, tmp_path: Path) -> None:
    folder = copied(honest, tmp_path, "ctranslate2")
    raw = bytearray((folder / "model.bin").read_bytes())
    draw = np.random.default_rng(3)
    for _ in range(40):
        forged = raw.copy()
        for place in draw.integers(0, 400, 3):
            forged[place] = draw.integers(0, 256)
        (folder / "model.bin").write_bytes(forged)
        with suppress(DragomanError):
            from_ctranslate2(folder)


PIECES = st.sampled_from(
    [
        *(
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            '"a"',
            "a: ",
            "- ",
            "&x ",
            "*x ",
            "!!int 'x'",
            "|\n  ",
            "'",
        ),
        *("2020-99-99", "1e999", "-1", "null", "true", "\n", "\ufeff", "\0", "é", "9" * 400),
        *('"model_spec"', '"unk_token"', "dim-emb: ", "dec-depth: ", "models:\n  - ", "vocabs:\n"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map(lambda all_: "".join(all_).encode())
# Where in the first part of a file, or how far from its end.
PLACES = st.integers(0, 4000)


@pytest.mark.parametrize("kind", ["ctranslate2", "marian"])
def test_a_changed_foreign_model_is_refused_with_a_message_or_converted(
    kind: str, honest: Path, tmp_path: Path
) -> None:
    convert = {"ctranslate2": from_ctranslate2, "marian": from_marian}[kind]
    originals = {path.name: path.read_bytes() for path in sorted((honest / kind).iterdir())}

    @given(name=st.sampled_from(sorted(originals)), place=PLACES, new=TEXTS, how=st.integers(0, 3))
    def attempt(name: str, place: int, new: bytes, how: int) -> None:
        raw = originals[name]
        forged = [new, raw[:place] + new, raw[:place] + new + raw[place:], raw[: -1 - place]][how]
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for other, content in originals.items():
            (folder / other).write_bytes(forged if other == name else content)
        with suppress(DragomanError):
            convert(folder)
        shutil.rmtree(folder)

    attempt()


def test_a_package_with_paths_out_of_it_is_refused(dragoman, honest: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("../out.txt", "/tmp/out.txt", "a/../../out.txt")):
        path = tmp_path / f"{number}.argosmodel"
        path.write_bytes((honest / "a.argosmodel").read_bytes())
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, "owned")
        refused(dragoman, "from-argos", path, "leads out of it")
        assert not (tmp_path / "out.txt").exists()


def test_a_file_that_is_not_a_package_is_refused(dragoman, honest: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.argosmodel"
    path.write_bytes(b"PK" + b"\xff" * 100)
    refused(dragoman, "from-argos", path, "is not an Argos package")
    path.write_bytes((honest / "a.argosmodel").read_bytes()[:2000])
    refused(dragoman, "from-argos", path, "is not an Argos package")
    refused(dragoman, "from-argos", tmp_path / "nowhere", "No such file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/metadata.json", json.dumps({"from_code": "de", "to_code": 3}))
    refused(dragoman, "from-argos", path, "lacks from_code")


def test_a_pipe_or_a_device_is_no_package_and_nothing_waits_for_it(dragoman, tmp_path) -> None:
    path = tmp_path / "b.argosmodel"
    os.mkfifo(path)
    refused(dragoman, "from-argos", path, "not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(dragoman, "from-argos", path, "not a regular file")


METADATA = {
    "nested deeply": (DEEP, "nested too deeply"),
    "a list": (b"[3]", "cannot be read"),
    "a number": (b"3", "cannot be read"),
    "truncated": (b'{"from_code": ', "cannot be read"),
    "a lone surrogate": (rb'{"from_code": "\ud800", "to_code": "en"}', "cannot be read"),
}


@pytest.mark.parametrize("name", METADATA)
def test_forged_metadata_of_a_package_is_refused(dragoman, tmp_path: Path, name: str) -> None:
    raw, words = METADATA[name]
    path = tmp_path / "b.argosmodel"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/metadata.json", raw)
        archive.writestr("a/sentencepiece.model", b"")
    refused(dragoman, "from-argos", path, words)


def test_an_unsupported_package_is_refused(dragoman, honest, tmp_path: Path) -> None:
    with zipfile.ZipFile(honest / "a.argosmodel") as archive:
        archive.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    metadata = folder / "metadata.json"
    told = json.loads(metadata.read_text())
    metadata.write_text(json.dumps(told | {"target_prefix": "nowhere"}))
    refused(dragoman, "from-argos", folder, "has no piece 'nowhere'")
    (folder / "sentencepiece.model").rename(folder / "bpe.model")
    refused(dragoman, "from-argos", folder, "needs Moses' tokenizer")
    (folder / "bpe.model").unlink()
    refused(dragoman, "from-argos", folder, "has no sentencepiece.model")


def change_npz(folder: Path, change: Callable[[dict], object], save=np.savez) -> None:
    with np.load(folder / "model.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    change(arrays)
    save(folder / "model.npz", **arrays)


def settings_changed(**changes: object) -> Callable[[dict], None]:
    def change(arrays: dict) -> None:
        told = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0"))
        raw = yaml.dump(told | {n.replace("_", "-"): v for n, v in changes.items()}).encode()
        arrays["special:model.yml"] = np.frombuffer(raw + b"\0", np.int8)

    return change


def objects(arrays: dict) -> None:
    arrays["Wemb"] = np.array([os.mkdir], dtype=object)


NPZ = {
    "another kind of model": (settings_changed(type="amun"), "type='amun'"),
    "another decoder": (settings_changed(transformer_decoder_autoreg="rnn"), "autoreg='rnn'"),
    "a huge width": (settings_changed(dim_emb=2 * 10**9), "at most 65536"),
    "many layers": (settings_changed(enc_depth=10**9), "at most 1000"),
    "more layers than there are": (settings_changed(dec_depth=7), "is missing"),
    "another activation": (settings_changed(transformer_ffn_activation="gelu"), "is unknown"),
    "no settings": (lambda arrays: arrays.pop("special:model.yml"), "have no settings"),
    "a pickle inside": (objects, "cannot be read"),
    "embeddings of another size": (
        lambda arrays: arrays.update(Wemb=arrays["Wemb"][:-2]),
        "has shape (298, 32)",
    ),
}


@pytest.mark.parametrize("name", NPZ)
def test_a_forged_npz_is_refused(dragoman, honest: Path, tmp_path: Path, name: str) -> None:
    folder = copied(honest, tmp_path, "marian")
    change, words = NPZ[name]
    change_npz(folder, change)
    refused(dragoman, "from-marian", folder, words)


def test_arrays_of_an_npz_that_lie_in_each_other_are_refused(
    dragoman, honest: Path, tmp_path: Path
) -> None:
    folder = copied(honest, tmp_path, "marian")
    with zipfile.ZipFile(folder / "model.npz", "a") as archive:
        archive.writestr("last.npy", b"")  # so that the directory is written anew
        archive.filelist += archive.filelist[:1] * 50
    refused(dragoman, "from-marian", folder, "larger than the file")


def test_a_forged_marian_folder_is_refused(dragoman, honest: Path, tmp_path: Path) -> None:
    folder = copied(honest, tmp_path, "marian")
    change_npz(folder, lambda arrays: None, save=np.savez_compressed)
    refused(dragoman, "from-marian", folder, "is compressed")
    (folder / "model.npz").write_bytes(b"\xff" * 99)
    refused(dragoman, "from-marian", folder, "cannot be read")
    named = {"models": ["/etc/../etc/passwd"], "vocabs": ["vocab.yml"]}
    (folder / "decoder.yml").write_text(yaml.dump(named))
    refused(dragoman, "from-marian", folder, "passwd: No such file")
    (folder / "decoder.yml").write_bytes(DEEP)
    refused(dragoman, "from-marian", folder, "cannot be read")
    (folder / "decoder.yml").write_text("a: [")
    refused(dragoman, "from-marian", folder, "cannot be read")
    (folder / "decoder.yml").unlink()
    os.mkfifo(folder / "decoder.yml")
    refused(dragoman, "from-marian", folder, "not a regular file")


def test_aliases_and_impossible_values_in_settings_are_refused(
    dragoman, honest: Path, tmp_path: Path
) -> None:
    folder = copied(honest, tmp_path, "marian")
    (decoder,) = folder.glob("decoder.yml")
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    decoder.write_text("\n".join(lines))  # expands to 9 to the power of 11 values
    refused(dragoman, "from-marian", folder, "aliases")
    for value in ("!!int 'x'", "2020-99-99"):
        decoder.write_text(f"models: {value}")
        refused(dragoman, "from-marian", folder, "cannot be read")


def test_a_package_that_expands_too_much_or_is_damaged_is_refused(dragoman, tmp_path: Path) -> None:
    path = tmp_path / "b.argosmodel"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/model/model.bin", bytes(50_000_000))
    refused(dragoman, "from-argos", path, "too many bytes")
    for kind in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(path, "w", kind) as archive:
            archive.writestr("a/metadata.json", "{}" * 500)
        raw = bytearray(path.read_bytes())
        raw[60:70] = b"\xff" * 10
        path.write_bytes(raw)
        refused(dragoman, "from-argos", path, "argosmodel")


def test_intact_models_are_converted(honest: Path) -> None:
    """Else the attacks above would test nothing."""
    from_ctranslate2(honest / "ctranslate2")
    from_argos(honest / "a.argosmodel")
    from_marian(honest / "marian")
