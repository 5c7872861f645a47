"""A corpus of attacks through a MarianMT folder: none runs code, reads private files, hangs or
fills memory."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from dragoman.convert.from_huggingface import from_huggingface
from dragoman.errors import ConversionError
from tests.forging import marian_folder, nothing_hangs

DEEP = b"[" * 100_000 + b"]" * 100_000
ESCAPE = "\x1b]0;owned\x07"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return marian_folder(tmp_path / "marian")


def entries(name: str, **changes: object) -> Callable[[Path], object]:
    def attack(folder: Path) -> None:
        told = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps(told | changes))

    return attack


def contents(name: str, raw: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(raw)


def replaced_by(make: Callable[[Path], object], name: str) -> Callable[[Path], object]:
    def attack(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return attack


def link_to_secret(path: Path) -> None:
    secret = path.parent.parent / "secret.json"
    secret.write_text(json.dumps({"auth": "hunter2"}))
    path.symlink_to(secret)


def in_shards(weight_map: object) -> Callable[[Path], object]:
    """An index of several files of weights in the place of one file."""

    def attack(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        entries("model.safetensors.index.json", weight_map=weight_map)(folder)

    return attack


def weights(**changes: np.ndarray) -> Callable[[Path], object]:
    def attack(folder: Path) -> None:
        stored = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
        (folder / "model.safetensors").write_bytes(safetensors.numpy.save(stored | changes))

    return attack


def pickled(
    change: Callable[[dict[str, torch.Tensor]], object], packed: bool = False
) -> Callable[[Path], object]:
    """The weights as a pickle, after a change; `packed`: its archive compressed."""

    def attack(folder: Path) -> None:
        stored = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
        tensors = {name: torch.from_numpy(array.copy()) for name, array in stored.items()}
        change(tensors)
        file = io.BytesIO()
        torch.save(tensors, file)
        if packed:
            small = io.BytesIO()
            with (
                zipfile.ZipFile(file) as before,
                zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as after,
            ):
                for name in before.namelist():
                    after.writestr(name, before.read(name))
            file = small
        (folder / "pytorch_model.bin").write_bytes(file.getvalue())
        (folder / "model.safetensors").unlink()

    return attack


def one_number_for_all(tensors: dict[str, torch.Tensor]) -> None:
    """Each tensor is one number, repeated by strides of 0."""
    for name, tensor in tensors.items():
        tensors[name] = torch.zeros(1).expand(tensor.shape)


def huge_by_strides(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.shared.weight"] = torch.zeros(1).expand(10**7, 10**6)


def one_tensor_under_many_names(tensors: dict[str, torch.Tensor]) -> None:
    large = torch.zeros(2**18, dtype=torch.float16)
    tensors |= {f"w{number}": large for number in range(200)}


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def that_runs_code(folder: Path) -> None:
    raw = pickle.dumps({"model.shared.weight": Command(folder / "owned")}, protocol=2)
    (folder / "pytorch_model.bin").write_bytes(raw)
    (folder / "model.safetensors").unlink()


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a huge vocabulary": (entries("config.json", vocab_size=10**12), "vocab_size is 1000000000000"),
    "a vocabulary of words": (entries("config.json", vocab_size="many"), "vocab_size is many"),
    "a huge width": (entries("config.json", d_model=2 * 10**9), "at most 65536"),
    "another width": (
        entries("config.json", d_model=65_536, encoder_attention_heads=2),
        "too small",
    ),
    "a width of text": (entries("config.json", d_model="wide"), "expected a whole number"),
    "many layers": (entries("config.json", encoder_layers=10**9), "at most 1000"),
    "more layers than are stored": (entries("config.json", decoder_layers=2), "is missing"),
    "an inner width that is not stored": (
        entries("config.json", encoder_ffn_dim=64, decoder_ffn_dim=64),
        "has shape",
    ),
    "an activation that is a list": (
        entries("config.json", activation_function=["relu"]),
        "is unknown",
    ),
    "dropout of text": (entries("config.json", dropout="some"), "expected a number"),
    "an endless beam": (entries("generation_config.json", num_beams=10**9), "at most 1000"),
    "nothing in the settings": (contents("config.json", b'{"model_type": "marian"}'), "activation"),
    "nested settings": (contents("config.json", DEEP), "nested too deeply"),
    "settings in a list": (contents("config.json", b"[1]"), "cannot be read"),
    "nested search settings": (contents("generation_config.json", DEEP), "nested too deeply"),
    "a nested vocabulary": (contents("vocab.json", DEEP), "nested too deeply"),
    "a vocabulary beyond its end": (entries("vocab.json", more=10**12), "a number outside 0"),
    "a vocabulary without numbers": (
        entries("vocab.json", more="hunter2"),
        "a number outside 0",
    ),
    "a vocabulary without an end": (contents("vocab.json", b"{}"), "no piece"),
    "a language that speaks to the terminal": (
        entries("tokenizer_config.json", source_lang=ESCAPE),
        "is not a language code",
    ),
    "a language that is a list": (
        entries("tokenizer_config.json", target_lang=["en"]),
        "is not a language code",
    ),
    "settings that are a pipe": (replaced_by(os.mkfifo, "config.json"), "not a regular file"),
    "pieces that are a pipe": (replaced_by(os.mkfifo, "source.spm"), "not a regular file"),
    "weights that are a pipe": (replaced_by(os.mkfifo, "model.safetensors"), "not a regular file"),
    "pieces that are a folder": (replaced_by(Path.mkdir, "target.spm"), "not a regular file"),
    "a link to a private file": (
        replaced_by(link_to_secret, "vocab.json"),
        "leads out of the folder",
    ),
    "a link to a device": (
        replaced_by(lambda path: path.symlink_to("/dev/zero"), "source.spm"),
        "leads out",
    ),
    "sparse weights": (lambda folder: os.truncate(folder / "model.safetensors", 10**12), "at most"),
    "forged pieces": (contents("source.spm", b"\x0a\xff"), "SentencePiece model cannot be read"),
    "invalid weights": (contents("model.safetensors", b"\xff" * 40), "cannot be read"),
    "flat embeddings": (
        weights(**{"model.shared.weight": np.zeros(59, np.float32)}),
        "has shape (59,)",
    ),
    "a bias for others": (
        weights(final_logits_bias=np.zeros((1, 3), np.float32)),
        "has shape (1, 3)",
    ),
    "a flat matrix": (
        weights(**{"model.encoder.layers.0.fc1.weight": np.zeros(9, np.float32)}),
        "has shape (9,)",
    ),
    "positions for others": (
        weights(**{"model.encoder.embed_positions.weight": np.zeros((4, 3), np.float32)}),
        "its positions have shape",
    ),
    "positions that are no numbers": (
        weights(**{"model.encoder.embed_positions.weight": np.full((4, 16), np.nan, np.float32)}),
        "not sinusoidal",
    ),
    "an index that leads out": (in_shards({"a": "../model-1.safetensors"}), "does not say which"),
    "an index without files": (in_shards({}), "does not say which"),
    "an index of lists": (in_shards({"a": ["model-1.safetensors"]}), "does not say which"),
    "an index of other kinds of files": (in_shards({"a": "config.json"}), "does not say which"),
    "an index of what is not there": (in_shards({"a": "model-2.safetensors"}), "No such file"),
    "a pickle that runs code": (that_runs_code, "contains more than tensors."),
    "one tensor under many names": (pickled(one_tensor_under_many_names), "larger than their"),
    "a pickle of numbers without an end": (pickled(huge_by_strides), "larger than its stored data"),
    "a pickle of one number": (pickled(one_number_for_all), "larger than its stored data"),
    "a compressed pickle": (pickled(lambda tensors: None, packed=True), "compressed"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_in_one_line(
    dragoman, folder: Path, tmp_path: Path, name: str
) -> None:
    attack, words = ATTACKS[name]
    attack(folder)
    with nothing_hangs():
        answer = dragoman("convert", "from-huggingface", folder, tmp_path / "out")
    assert (answer.code, answer.out) == (1, "")
    assert words in answer.err
    assert "hunter2" not in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.removesuffix("\n").isprintable()
    assert not (tmp_path / "out").exists()
    assert not (folder / "owned").exists()


def test_an_intact_folder_is_converted(folder: Path) -> None:
    """Else the attacks above would test nothing."""
    honest = from_huggingface(folder)
    pickled(lambda tensors: None)(folder)
    again = from_huggingface(folder)
    assert all(np.array_equal(again.weights[name], array) for name, array in honest.weights.items())


def test_links_into_a_hugging_face_cache_are_followed_and_no_others(
    folder: Path, tmp_path: Path
) -> None:
    """There a model is MODEL/snapshots/REVISION, its files links into MODEL/blobs."""
    model, revision = tmp_path / "models--a", tmp_path / "models--a" / "snapshots" / "1234"
    revision.mkdir(parents=True)
    (model / "blobs").mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(model / "blobs" / str(number))
        (revision / path.name).symlink_to(f"../../blobs/{number}")
    from_huggingface(revision)
    (revision / "vocab.json").unlink()
    (tmp_path / "vocab.json").write_text("{}")
    (revision / "vocab.json").symlink_to("../../../vocab.json")
    with pytest.raises(ConversionError, match="leads out of the folder"):
        from_huggingface(revision)
