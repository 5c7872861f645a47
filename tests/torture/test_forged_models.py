"""Model folders with random changes that respect their formats give our own errors or a
translation, nothing else.

Each case is a function of its number. `make test` runs a few dozen of each kind, `make torture`
10,000 of each.
"""

import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.numpy

import dragoman as package
from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import DecodingConfig
from dragoman.convert.from_huggingface import from_huggingface
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from dragoman.engine.onnx.graphs import beyond_graphs, encoder_graph, step_graph
from dragoman.errors import DragomanError
from tests.forging import KEPT, SAID, copy_of_kept, forge, marian_folder, nothing_hangs

CASES = int(os.environ.get("DRAGOMAN_CASES", "30"))
TEXTS = ["eins zwei", "ﷺ ½ é\u200b😀 x", ""]
QUICK = Request(decoding=DecodingConfig(beam_size=2, max_length_ratio=0.0, max_length_extra=4))
AWKWARD: list[Any] = [
    None, True, 0, 1, -1, 2, 3, 2**31, 2**63, 10**12, 10**30, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", "a",
    "\x1b[2J", "\ud800", "../../etc/passwd", "/dev/zero", "x" * 5000, [], [1], ["en", "de"], {},
    {"a": 1}, [[[]]],
]  # fmt: skip
TOML_VALUES = [
    "0", "1", "-1", "2", "1000", "65536", "1000000", "10000000000000", "1e308", "nan", "inf",
    "0.5", "true", "false",
    '""', '"post"', '"pre"', '"learned"', '"none"', '"lexical"', '"rnn"', '"decoder-only"',
    '"marian"', '"word"',
    '"character"', "[]", "[[[]]]", "{}", "{a.b = 1}", "1979-05-27", '"""\n\n"""', '"\\u001b[2J"',
    "= =",
]  # fmt: skip


# How trees, protocol buffers and tensors are changed.


def nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in nested JSON: (container, key)."""
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in list(items):
        yield tree, key
        yield from nodes(value)


def change_tree(draw: random.Random, tree: Any) -> Any:
    for _ in range(draw.randint(1, 3)):
        places = list(nodes(tree))
        if not places or draw.random() < 0.03:
            return deepcopy(draw.choice(AWKWARD))
        container, key = draw.choice(places)
        chance = draw.random()
        if chance < 0.6:
            container[key] = deepcopy(draw.choice(AWKWARD))
        elif chance < 0.7:
            del container[key]
        elif chance < 0.85 and isinstance(container, dict):
            container[
                draw.choice(["", "a", "\x1b", "model.safetensors", "step.onnx", str(key) + "x"])
            ] = container[key]
        else:
            other, place = draw.choice(places)
            container[key] = deepcopy(other.get(place) if isinstance(other, dict) else other[-1:])
    return tree


def to_json(draw: random.Random, tree: Any) -> bytes:
    raw = json.dumps(tree).encode()
    if draw.random() < 0.05:
        deep = draw.choice([60, 3000])
        raw = b"[" * deep + raw + b"]" * deep
    return raw


def change_bytes(draw: random.Random, raw: bytes, first: int = 0) -> bytes:
    changed = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(first, max(first + 1, len(changed)))
        length = draw.choice([0, 1, 1, 1, 4])
        changed[place : place + length] = draw.randbytes(draw.choice([length, length, 0, 3]))
    return bytes(changed)


def change_message(draw: random.Random, raw: bytes, depth: int = 3) -> bytes:
    """A protocol-buffer message with one field changed, doubled, moved or dropped, or a field of a
    field."""
    fields = list(message_fields(raw))
    if not fields:
        return draw.randbytes(3)
    number = draw.choice(
        [draw.randrange(len(fields)), len(fields) - 1 - draw.randrange(min(4, len(fields)))]
    )
    key, value = fields[number]
    chance = draw.random()
    if chance < 0.1:
        fields[number : number + 1] = []
    elif chance < 0.2:
        fields.insert(draw.randrange(len(fields)), (key, value))
    elif isinstance(value, int):
        fields[number] = (key, draw.choice([0, 1, 2, 5, 300, 2**31 - 1, 2**32, 2**63, 2**64 - 1]))
    elif len(value) == 4 and key & 7 == 5:
        fields[number] = (
            key,
            struct.pack("<f", draw.choice([0.0, -1e30, float("nan"), float("inf")])),
        )
    else:
        inner = depth > 0 and chance < 0.7
        try:
            changed = change_message(draw, value, depth - 1) if inner else change_bytes(draw, value)
        except (ValueError, IndexError):  # it was no message
            changed = change_bytes(draw, value)
        fields[number] = (key, changed)
    return b"".join(written(key, value) for key, value in fields)


def message_fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0

    def varint() -> int:
        nonlocal place
        number = shift = 0
        while True:
            byte = raw[place]
            number |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                return number

    while place < len(raw):
        key = varint()
        if key & 7 == 0:
            yield key, varint()
            continue
        if key & 7 not in (1, 2, 5):
            raise ValueError
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        if place + size > len(raw):
            raise ValueError
        yield key, raw[place : place + size]
        place += size


def written(key: int, value: int | bytes) -> bytes:
    def varint(number: int) -> bytes:
        low, high = number & 0x7F, number >> 7
        return bytes([low | 0x80]) + varint(high) if high else bytes([low])

    if isinstance(value, int):
        return varint(key) + varint(value)
    return varint(key) + (varint(len(value)) if key & 7 == 2 else b"") + value


def change_header(draw: random.Random, raw: bytes) -> bytes:
    """A safetensors file whose header says something else."""
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    data = raw[8 + length :]
    if draw.random() < 0.3:
        facts = header[draw.choice(list(header))]
        facts["dtype"] = draw.choice(
            ["F64", "F32", "F16", "BF16", "I32", "U8", "F8_E4M3", "BOOL", "C64", "X"]
        )
    else:
        header = change_tree(draw, header)
    text = json.dumps(header).encode()
    size = len(text) if draw.random() < 0.9 else draw.choice([0, 1, 2**30, 2**63, 2**64 - 1])
    return struct.pack("<Q", size) + text + data[: len(data) - draw.choice([0, 0, 0, 1, 400])]


def change_array(draw: random.Random, array: np.ndarray) -> np.ndarray:
    kinds = [np.float64, np.float16, np.int32, np.uint8, np.uint32]
    changed = [
        array.T,
        array.reshape(-1),
        array[: draw.choice([0, 1, len(array) - 1])],
        array.astype(draw.choice(kinds)),
        np.full_like(array, draw.choice([0, 1, 127])),
        array * np.array(100, dtype=array.dtype),
        np.full_like(array, np.nan) if array.dtype == np.float32 else array,
    ]
    return draw.choice(changed)


def change_tensors(draw: random.Random, raw: bytes) -> bytes:
    """A safetensors file that is right in itself, with other tensors in it."""
    tensors = safetensors.numpy.load(raw)
    for _ in range(draw.randint(1, 2)):
        name = draw.choice(list(tensors))
        tensors[name] = change_array(draw, tensors[name])
        other = draw.choice(
            [name, name, name, name + ".scales", "more", draw.choice(list(tensors))]
        )
        tensors[other] = tensors[name]
        if draw.random() < 0.1:
            del tensors[name]
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    )


# The forgeries, and the outcome that each must have.


def in_our_words(error: DragomanError) -> None:
    assert str(error).isprintable(), repr(str(error))
    assert len(str(error)) < 1100


def translate(folder: Path) -> list[str] | None:
    """Translate the texts with a bundle; return None if it is refused."""
    try:
        bundle = read_bundle(folder)
        engine = "torch" if beyond_graphs(bundle.config.model) else "onnx"
        translator = Translator(
            make_engine(bundle, "cpu", engine), bundle.codec, bundle.config, bundle
        )
        said = translator(TEXTS, QUICK)
    except DragomanError as error:
        in_our_words(error)
        return None
    assert len(said) == len(TEXTS)
    return said


def forged_manifest(draw: random.Random, folder: Path) -> None:
    raw = to_json(draw, change_tree(draw, json.loads((folder / "manifest.json").read_text())))
    (folder / "manifest.json").write_bytes(raw)


def forged_json(name: str) -> Callable[[random.Random, Path], None]:
    return lambda draw, folder: forge(
        folder, name, to_json(draw, change_tree(draw, json.loads((KEPT / name).read_text())))
    )


def forged_settings(draw: random.Random, folder: Path) -> None:
    lines = (KEPT / "config.toml").read_text().splitlines()
    for _ in range(draw.randint(1, 3)):
        number = draw.randrange(len(lines))
        key, equals, _ = lines[number].partition(" = ")
        lines[number : number + 1] = draw.choice(
            [
                [f"{key}{equals}{draw.choice(TOML_VALUES)}"],
                [f"{key}{equals}{draw.choice(TOML_VALUES)}"],
                [],
                [lines[number]] * 2,
                [
                    f"{draw.choice(['', 'a', 'a.b', '[a', '[[model]]', '[model]', chr(27)])} = 1",
                    lines[number],
                ],
            ]
        )
    forge(folder, "config.toml", "\n".join(lines).encode())


def forged_file(
    name: str, change: Callable[[random.Random, bytes], bytes]
) -> Callable[[random.Random, Path], None]:
    return lambda draw, folder: forge(folder, name, change(draw, (KEPT / name).read_bytes()))


def forged_shortlist(draw: random.Random, folder: Path) -> None:
    target = read_bundle(KEPT).codec.target  # both sides have the same pieces
    allowed = np.setdiff1d(np.arange(len(target)), target.never)
    ends = 2 * np.arange(1, len(target) + 1)
    arrays = {
        "always": allowed[:20],
        "candidates": np.tile(allowed[-2:], len(target)),
        "ends": ends,
    }
    raw = safetensors.numpy.save({name: array.astype(np.uint32) for name, array in arrays.items()})
    change = draw.choice([change_tensors, change_tensors, change_header])
    forge(folder, "shortlist.safetensors", change(draw, raw))


FORGERS: dict[str, Callable[[random.Random, Path], None]] = {
    "manifest": forged_manifest,
    "languages": forged_json("languages.json"),
    "settings": forged_settings,
    "safetensors header": forged_file("model.safetensors", change_header),
    "tensors": forged_file("model.safetensors", change_tensors),
    "SentencePiece model": forged_file("shared.spm", change_message),
    "shortlist": forged_shortlist,
}


def counted(capsys: pytest.CaptureFixture[str], kind: str, loaded: int) -> None:
    with capsys.disabled():
        print(f"\n{CASES} {kind}: {CASES - loaded} refused")


@pytest.mark.parametrize("kind", FORGERS)
def test_a_forged_bundle_is_refused_in_our_words_or_translates(
    kind: str, tmp_path: Path, capsys
) -> None:
    loaded = 0
    for number in range(CASES):
        folder = copy_of_kept(tmp_path / "forged")
        FORGERS[kind](random.Random(f"{kind} {number}"), folder)
        try:
            with nothing_hangs():
                loaded += translate(folder) is not None
        except Exception as error:
            raise AssertionError(f"case {number} of {kind}: {error!r}") from error
    counted(capsys, f"bundles with a forged {kind}", loaded)
    assert loaded < CASES


def test_a_forged_card_is_refused_in_our_words_or_shown(dragoman, tmp_path: Path, capsys) -> None:
    loaded = 0
    for number in range(CASES):
        folder = copy_of_kept(tmp_path / "forged")
        forged_json("card.json")(random.Random(f"card {number}"), folder)
        answer = dragoman("info", folder)
        assert answer.code == 0 or answer.err.count("\n") == 1, f"case {number}"
        loaded += answer.code == 0
    counted(capsys, "bundles with a forged card", loaded)


def test_forged_graphs_of_an_old_bundle_change_nothing(tmp_path: Path, capsys) -> None:
    bundle = read_bundle(KEPT)
    config, weights, target = bundle.config.model, bundle.weights, bundle.codec.target
    graphs = {
        "encoder.onnx": encoder_graph(config, weights),
        "step.onnx": step_graph(config, weights, target),
        "listed_step.onnx": step_graph(config, weights, target),
    }
    wanted = translate(KEPT)
    folder = copy_of_kept(tmp_path / "old")
    read = 0
    for number in range(CASES):
        draw = random.Random(f"graph {number}")
        name = draw.choice(list(graphs))
        forged = change_message(draw, graphs[name], depth=4)
        try:
            onnx.load_from_string(forged)
            read += 1
        except Exception:  # what onnx cannot read is a weaker forgery
            pass
        forge(folder, name, forged)
        # the others would show the same: nothing looks at them
        if number < 30 or number % 100 == 0:
            assert translate(folder) == wanted
        assert read_bundle(folder).engine == "onnx"
    counted(capsys, f"bundles with forged graphs, {read} of which onnx reads", CASES)


MARIAN_FORGERS: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "config.json": lambda draw, raw: to_json(draw, change_tree(draw, json.loads(raw))),
    "vocab.json": lambda draw, raw: to_json(draw, change_tree(draw, json.loads(raw))),
    "tokenizer_config.json": lambda draw, raw: to_json(draw, change_tree(draw, json.loads(raw))),
    "source.spm": change_message,
    "model.safetensors": lambda draw, raw: draw.choice([change_header, change_tensors])(draw, raw),
}


def test_a_forged_marian_folder_is_refused_in_our_words_or_converted(
    tmp_path: Path, capsys
) -> None:
    folder = marian_folder(tmp_path / "marian")
    loaded = 0
    honest = {name: (folder / name).read_bytes() for name in MARIAN_FORGERS}
    for number in range(CASES):
        draw = random.Random(f"marian {number}")
        name = draw.choice(list(MARIAN_FORGERS))
        (folder / name).write_bytes(MARIAN_FORGERS[name](draw, honest[name]))
        try:
            with nothing_hangs():
                write_bundle(tmp_path / "out", to_onnx(from_huggingface(folder)))
                assert translate(tmp_path / "out") is not None  # what we wrote we read
                loaded += 1
        except DragomanError as error:
            in_our_words(error)
        except Exception as error:
            raise AssertionError(f"case {number}, {name}: {error!r}") from error
        (folder / name).write_bytes(honest[name])
    counted(capsys, "forged MarianMT folders", loaded)


def test_the_honest_ones_translate(tmp_path: Path) -> None:
    """Else the cases above would test nothing."""
    assert package.load(KEPT, device="cpu", engine="onnx")(list(SAID)) == list(SAID.values())
    write_bundle(tmp_path / "out", to_onnx(from_huggingface(marian_folder(tmp_path / "marian"))))
    assert translate(tmp_path / "out") is not None
