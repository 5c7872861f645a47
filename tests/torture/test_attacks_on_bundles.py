"""A corpus of attacks through a model folder: none reads a file, none hangs, each refusal is one
line.

The forgers know the format: sizes and hashes in the manifest match.
"""

import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy
import sentencepiece
from onnx import TensorProto, helper, numpy_helper

import dragoman as package
from dragoman.bundle.folder import read_bundle
from dragoman.engine.onnx.graphs import encoder_graph, step_graph
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.errors import DragomanError
from tests.forging import (
    KEPT,
    SAID,
    change_json,
    change_settings,
    copy_of_kept,
    forge,
    nothing_hangs,
)

SECRET = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI"


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    return copy_of_kept(tmp_path / "forged")


# Graphs that came with a model.


def as_once_stored(raw: bytes, weights_file: bytes) -> onnx.ModelProto:
    """A graph of ours as bundles kept it before: its weights are places in model.safetensors."""
    model = onnx.load_from_string(raw)
    model.model_version = 2
    (length,) = struct.unpack_from("<Q", weights_file)
    header = json.loads(weights_file[8 : 8 + length])
    for tensor in model.graph.initializer:
        place = {entry.key: entry for entry in tensor.external_data}
        if place:
            begin, _ = header[place["location"].value]["data_offsets"]
            place["offset"].value = str(8 + length + begin + int(place["offset"].value))
            place["location"].value = "model.safetensors"
    return model


def that_says_a_file(
    step: onnx.ModelProto, name: str, size: int, first_byte: int
) -> onnx.ModelProto:
    """The step with a branch of `If` that reads a file as a weight, its bytes the tokens that come
    next.

    `first_byte` is the id of the piece <0x00>.
    """
    secret = TensorProto(
        name="secret", data_type=TensorProto.UINT8, dims=[size], data_location=TensorProto.EXTERNAL
    )
    secret.external_data.add(key="location", value=name)
    said = helper.make_tensor_value_info("branch", TensorProto.UINT8, [size])
    branch = helper.make_graph(
        [helper.make_node("Identity", ["secret"], ["branch"])], "b", [], [said], [secret]
    )
    for array, label in (
        (np.array(True), "always"),
        (np.array(first_byte), "first_byte"),
        (np.array(1, dtype=np.int32), "one"),
        (np.array(size - 1), "last"),
    ):
        step.graph.initializer.append(numpy_helper.from_array(array, label))
    (top,) = (node for node in step.graph.node if node.op_type == "TopK")
    top.output[1] = "true_tokens"
    step.graph.node.extend(
        [
            helper.make_node("If", ["always"], ["file"], then_branch=branch, else_branch=branch),
            helper.make_node("Cast", ["file"], ["bytes"], to=TensorProto.INT64),
            helper.make_node("Add", ["bytes", "first_byte"], ["tokens_of_file"]),
            helper.make_node("Sub", ["total", "one"], ["now"]),
            helper.make_node("Cast", ["now"], ["unbounded"], to=TensorProto.INT64),
            helper.make_node("Min", ["unbounded", "last"], ["place"]),
            helper.make_node("Gather", ["tokens_of_file", "place"], ["token"], axis=0),
            helper.make_node("Shape", ["true_tokens"], ["shape"]),
            helper.make_node("Expand", ["token", "shape"], ["best_tokens"]),
        ]
    )
    return step


def with_a_graph_that_reads(folder: Path, name: str, size: int) -> None:
    bundle = read_bundle(folder)
    raw = (folder / "model.safetensors").read_bytes()
    config, weights, target = bundle.config.model, bundle.weights, bundle.codec.target
    encoder = as_once_stored(encoder_graph(config, weights), raw)
    step = as_once_stored(step_graph(config, weights, target), raw)
    forge(folder, "encoder.onnx", encoder.SerializeToString())
    forge(
        folder,
        "step.onnx",
        that_says_a_file(step, name, size, target.ids["<0x00>"]).SerializeToString(),
    )


@pytest.mark.parametrize("engine", ["auto", "onnx", "torch"])
@pytest.mark.parametrize("name", [".env", "../../secret"])
def test_a_forged_graph_reads_no_file(
    dragoman, forged: Path, tmp_path: Path, monkeypatch, engine: str, name
) -> None:
    """A branch of an `If` names a private file of the user as a weight, which would be printed as
    the translation."""
    here = tmp_path / "home" / "work"
    here.mkdir(parents=True)
    (here / name).write_text(SECRET)
    with_a_graph_that_reads(forged, name, len(SECRET))
    monkeypatch.chdir(here)
    answer = dragoman(
        "translate", *SAID, "--model", forged, "--engine", engine, "--device", "cpu", "--beam", 1
    )
    assert (answer.code, answer.out) == (0, "".join(f"{said}\n" for said in SAID.values()))
    assert not any(part in answer.out + answer.err for part in (SECRET, SECRET[:9]))


def test_an_old_bundles_graphs_select_the_onnx_engine_and_are_never_opened(
    forged: Path,
) -> None:
    for name in ("encoder.onnx", "step.onnx", "listed_step.onnx"):
        forge(forged, name, b"no graph at all")
        (forged / name).unlink()
    (forged / "encoder.onnx").mkdir()
    os.mkfifo(forged / "step.onnx")
    with nothing_hangs():
        translator = package.load(forged)
    assert isinstance(translator.engine, OnnxEngine)
    assert translator(list(SAID)) == list(SAID.values())


# Each other file, and the manifest.


def replaced_by(
    make: Callable[[Path], object], name: str = "manifest.json"
) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return attack


def listed_and_replaced_by(make: Callable[[Path], object], name: str) -> Callable[[Path], None]:
    """The manifest says that the file is empty, as pipes and devices are."""

    def attack(folder: Path) -> None:
        forge(folder, name, b"")
        replaced_by(make, name)(folder)

    return attack


def contents(name: str, raw: bytes) -> Callable[[Path], None]:
    return lambda folder: forge(folder, name, raw)


def settings(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: change_settings(folder, old, new)


def json_entries(name: str, **changes: object) -> Callable[[Path], None]:
    return lambda folder: change_json(folder, name, **changes)


def listed_as(name: str, facts: object) -> Callable[[Path], None]:
    files = json.loads((KEPT / "manifest.json").read_text())["files"]
    return json_entries("manifest.json", files=files | {name: facts})


def weights(**changes: np.ndarray) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        stored = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
        forge(folder, "model.safetensors", safetensors.numpy.save(stored | changes))

    return attack


def sparse(folder: Path) -> None:
    """100 GB that take no room on the disk."""
    with open(folder / "model.safetensors", "r+b") as file:
        file.truncate(10**11)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["model.safetensors"]["size"] = 10**11
    (folder / "manifest.json").write_text(json.dumps(manifest))


def growing_rules(folder: Path) -> None:
    """A SentencePiece model that writes 20 kB for each letter a."""
    model = io.BytesIO()
    rules = folder.parent / "rules.tsv"
    rules.write_text("61\t" + " ".join(["62"] * 20_000) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["eins zwei drei"] * 50), model_writer=model, vocab_size=300,
        hard_vocab_limit=False,
        byte_fallback=True, normalization_rule_tsv=str(rules), pad_id=0, unk_id=1, bos_id=2,
        eos_id=3, minloglevel=2,
    )  # fmt: skip
    forge(folder, "shared.spm", model.getvalue())


def other_special_pieces(folder: Path) -> None:
    """A SentencePiece model without <pad> and without an end."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["eins zwei drei"] * 50), model_writer=model, vocab_size=300,
        hard_vocab_limit=False,
        byte_fallback=True, pad_id=-1, unk_id=0, bos_id=-1, eos_id=-1, minloglevel=2,
    )  # fmt: skip
    forge(folder, "shared.spm", model.getvalue())


def header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def shortlist(**arrays: list[int]) -> Callable[[Path], None]:
    raw = safetensors.numpy.save(
        {name: np.array(array, dtype=np.uint32) for name, array in arrays.items()}
    )
    return contents("shortlist.safetensors", raw)


DEEP = b"[" * 100_000 + b"]" * 100_000
WIDE = np.zeros((1, 32), dtype=np.uint8), np.ones(100_000, dtype=np.float32)
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "the manifest is a pipe": (replaced_by(os.mkfifo), "not a regular file"),
    "the manifest is a device": (
        replaced_by(lambda path: path.symlink_to("/dev/zero")),
        "leads out",
    ),
    "the manifest is a folder": (replaced_by(Path.mkdir), "not a regular file"),
    "the manifest is a link to elsewhere": (
        replaced_by(lambda path: path.symlink_to("/etc/passwd")),
        "leads out",
    ),
    "the manifest is a link to itself": (
        replaced_by(lambda path: path.symlink_to(path.name)),
        "symbolic links",
    ),
    "the manifest is sparse": (
        lambda folder: os.truncate(folder / "manifest.json", 10**11),
        "at most",
    ),
    "the manifest is nested": (
        lambda folder: (folder / "manifest.json").write_bytes(DEEP),
        "too deeply",
    ),
    "the manifest is a list": (
        lambda folder: (folder / "manifest.json").write_text("[1]"),
        "cannot be read",
    ),
    "files are pairs": (json_entries("manifest.json", files=[[1, 2], ["a", 3]]), "cannot be read"),
    "files are numbers": (listed_as("card.json", 3), "lacks the size or hash"),
    "a size is infinite": (
        listed_as("card.json", {"size": float("inf"), "sha256": ""}),
        "its manifest says inf",
    ),
    "an engine of one's own": (
        json_entries("manifest.json", engine="os.system"),
        "names the engine",
    ),
    "a card is a pipe": (listed_and_replaced_by(os.mkfifo, "card.json"), "not a regular file"),
    "weights are a folder": (replaced_by(Path.mkdir, "model.safetensors"), "model.safetensors"),
    "weights are sparse": (sparse, "at most"),
    "a card is nested": (
        contents("card.json", DEEP),
        "card.json cannot be read (it is nested too deeply)",
    ),
    "languages are nested": (contents("languages.json", DEEP), "languages.json cannot be read"),
    "settings are nested": (contents("config.toml", b"a=" + DEEP), "config.toml cannot be read"),
    "settings take minutes": (contents("config.toml", b".".join([b"a"] * 100_000) + b"=1"), "dots"),
    "settings have many keys": (
        contents("config.toml", b"".join(b"k%d=1\n" % i for i in range(20_000))),
        "setting k0 is unknown",
    ),
    "a setting speaks to the terminal": (
        contents("config.toml", f'"{chr(92)}u001b[2J"=1'.encode()),
        "is unknown",
    ),
    "a pipe's size of settings": (
        listed_and_replaced_by(os.mkfifo, "config.toml"),
        "not a regular file",
    ),
    "a card has scores of text": (json_entries("card.json", scores=[{"name": 1}]), "card.json"),
    "a card scores words": (
        json_entries("card.json", scores=[{"name": "a", "signature": "b", "value": "1.0"}]),
        "a score is not a number",
    ),
    "a card names numbers": (json_entries("card.json", **{"from": [1]}), "card.json"),
    "a card with half a character": (
        contents("card.json", b'{"a": {"\\ud800": 1}}'),
        "surrogates not allowed",
    ),
    "a language speaks to the terminal": (
        json_entries("languages.json", target=[ESCAPE]),
        "is not a language code",
    ),
    "a language is a table": (
        json_entries("languages.json", target=[{"a": 1}]),
        "is not a language code",
    ),
    "languages without tags": (
        json_entries("languages.json", target=["en", "fr"]),
        "no piece >>en<<",
    ),
    "many layers": (settings("encoder_layers = 1", "encoder_layers = 1000000000"), "at most 1000"),
    "more layers than are stored": (
        settings("encoder_layers = 1", "encoder_layers = 1000"),
        "is missing",
    ),
    "a huge width": (settings("width = 32", "width = 2000000000"), "at most 65536"),
    "another width": (settings("width = 32", "width = 65536"), "has shape"),
    "a huge inner width": (
        settings("feed_forward_width = 64", "feed_forward_width = 262144"),
        "has shape",
    ),
    "many positions": (
        settings('kind = "sinusoidal"', 'kind = "learned"'),
        "positions.table is missing",
    ),
    "endless translations": (
        settings("max_length_extra = 20", "max_length_extra = 1000000000000"),
        "at most",
    ),
    "weights of another kind": (
        weights(**{"encoder_norm.bias": np.zeros(32)}),
        "stored as float64",
    ),
    "a weight too many": (weights(more=np.zeros(3, dtype=np.float32)), "not part of this model"),
    "scales that multiply": (
        weights(
            **dict(zip(("encoder_norm.weight", "encoder_norm.weight.scales"), WIDE, strict=True))
        ),
        "does not give each row",
    ),
    "a weight speaks to the terminal": (
        weights(**{ESCAPE: np.zeros(3, dtype=np.float32)}),
        "not part of",
    ),
    "weights in bfloat16": (
        contents(
            "model.safetensors",
            header(b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}') + b"ab",
        ),
        "cannot be read",
    ),
    "a header without an end": (
        contents("model.safetensors", struct.pack("<Q", 2**62)),
        "cannot be read",
    ),
    "a nested header": (contents("model.safetensors", header(DEEP)), "cannot be read"),
    "a shape of 2e9 squared": (
        contents(
            "model.safetensors",
            header(b'{"a":{"dtype":"F32","shape":[2000000000,2000000000],"data_offsets":[0,4]}}')
            + b"abcd",
        ),
        "cannot be read",
    ),
    "a SentencePiece model of nothing": (contents("shared.spm", b""), "forged"),
    "a SentencePiece model cut off": (
        lambda folder: forge(folder, "shared.spm", (KEPT / "shared.spm").read_bytes()[:2000]),
        "forged",
    ),
    "rules that make text grow": (growing_rules, "a normalization rule that expands to 20,000"),
    "no special pieces": (other_special_pieces, "has no valid id for pad"),
    "a shortlist of other pieces": (
        shortlist(always=[3, 2**32 - 1], candidates=[], ends=[0] * 300),
        "shortlist",
    ),
    "a shortlist that ends elsewhere": (
        shortlist(always=[3], candidates=[5], ends=[2**32 - 1] * 300),
        "shortlist",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_in_one_line(dragoman, forged: Path, name: str) -> None:
    attack, words = ATTACKS[name]
    attack(forged)
    with nothing_hangs():
        answer = dragoman(
            "translate", "eins", "--model", forged, "--device", "cpu", "--engine", "onnx"
        )
    assert (answer.code, answer.out) == (1, "")
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.removesuffix("\n").isprintable()
    assert len(answer.err) < 1100


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_weights_of_nan_or_infinity_crash_nothing(forged: Path, value: float, engine: str) -> None:
    stored = safetensors.numpy.load((forged / "model.safetensors").read_bytes())
    broken = {name: np.full_like(array, value) for name, array in stored.items()}
    forge(forged, "model.safetensors", safetensors.numpy.save(broken))
    assert len(package.load(forged, device="cpu", engine=engine)(list(SAID))) == len(SAID)


def test_ids_that_a_lexical_model_keeps_are_pieces(forged: Path) -> None:
    change_settings(forged, 'architecture = "transformer"', 'architecture = "lexical"')
    change_settings(forged, 'norm_kind = "layer"\n', "")
    size = len(read_pieces(forged))
    kept = 32
    tables = {
        "probabilities": np.ones((size, kept), np.float32),
        "output.weight": np.ones((size, 1), np.float32),
    }
    for worst in (size - 1, size, -1):
        tables["translations"] = np.full((size, kept), worst, dtype=np.int32)
        forge(forged, "model.safetensors", safetensors.numpy.save(tables))
        if worst == size - 1:
            assert package.load(forged, device="cpu")("eins") is not None
        else:
            with pytest.raises(DragomanError, match="names a piece that is not in the vocabulary"):
                package.load(forged, device="cpu")


def read_pieces(folder: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=(folder / "shared.spm").read_bytes()
    )
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
