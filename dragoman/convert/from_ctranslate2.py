"""A CTranslate2 folder, or an Argos package that holds one, as a bundle.

`model.bin` is a list of named arrays, little-endian; a string has its length in front and a NUL
behind it, both counted:

    u32 version | string kind | u32 revision
    u32 arrays:  string name | u8 rank | u32 dimensions... | u8 type | u32 bytes | the numbers
    u32 aliases: string alias | string name

A matrix in int8 has a scale for each row, one in int16 a single one: the numbers divided by it are
the weights. Beside `model.bin` lie `config.json`, the vocabularies, and somewhere the SentencePiece
models. Anybody may have made all of these.
"""

import io
import lzma
import math
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dragoman.bundle.folder import LARGEST_VOCABULARY, Bundle
from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import make_config
from dragoman.convert.from_huggingface import marian_languages, named_languages
from dragoman.convert.marian import interleaved
from dragoman.convert.source_folder import SourceFolder
from dragoman.errors import BundleError, ConfigError, ConversionError
from dragoman.storage.binary import Cursor
from dragoman.storage.safe_read import memory_bytes, parse_json, read_regular
from dragoman.text.codec import ZEROS, Codec, Framing
from dragoman.text.languages import Languages

MODEL, CONFIG, METADATA, BYTE_PAIRS = "model.bin", "config.json", "metadata.json", "bpe.model"
VERSIONS = (4, 5, 6)
TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu"}
SPM = (
    ("source.spm", "target.spm"),
    ("shared.spm",) * 2,
    ("sentencepiece.model",) * 2,
    ("sentencepiece.bpe.model",) * 2,
    ("spm.model",) * 2,
)
SIDES = ("shared", "source", "target")
SIDES_OF_MODEL = ("encoder", "decoder")
IGNORED = ("alignment_layer", "alignment_heads", "embeddings_merge")
WITHOUT_TABLE = 1024  # positions of a model that leaves them to CTranslate2


class Variables:
    """The arrays of `model.bin` by name, each in float32; what was not asked for can be told."""

    def __init__(self, folder: Path, raw: bytes):
        self._folder, self._file = folder, Cursor(raw)
        self._arrays: dict[str, np.ndarray] = {}
        self._aliases: dict[str, str] = {}
        self._used: set[str] = set()
        try:
            self._parse()
        except ValueError as error:
            raise self._refused(f"is damaged: {error}") from None

    def _parse(self) -> None:
        file = self._file
        self.version = file.number("I")
        if self.version not in VERSIONS:
            raise self._refused(f"has version {self.version}; dragoman reads 4 to 6")
        self.kind = self._string()
        file.number("I")  # the revision of the kind
        for _ in range(file.number("I")):
            name = self._string()
            shape = tuple(file.number("I") for _ in range(file.number("B")))
            number, size = file.number("B"), file.number("I")
            if number >= len(TYPES):
                raise self._refused(f"holds {name!r} in a type that is unknown, {number}")
            raw = file.take(size)
            # bfloat16 is the upper half of float32
            dtype = np.dtype(np.uint16 if TYPES[number] == "bfloat16" else TYPES[number])
            if math.prod(shape) * dtype.itemsize != size:
                raise self._refused(f"holds {name!r} of shape {shape} in {size} bytes")
            array = np.frombuffer(raw, dtype.newbyteorder("<")).reshape(shape)
            if TYPES[number] == "bfloat16":
                array = (array.astype(np.uint32) << 16).view(np.float32)
            self._arrays[name] = array
        for _ in range(file.number("I")):
            alias = self._string()
            self._aliases[alias] = self._string()

    def _string(self) -> str:
        raw = bytes(self._file.take(self._file.number("H")))
        return raw.rstrip(b"\0").decode("utf-8", "replace")

    def _refused(self, why: str) -> ConversionError:
        return ConversionError(f"{self._folder / MODEL} {why}.")

    def own_name(self, name: str) -> str:
        """The name that an array is stored under."""
        return self._aliases.get(name, name)

    def has(self, name: str) -> bool:
        return self.own_name(name) in self._arrays

    def value(self, name: str, default: float) -> float:
        """A single number."""
        self._used |= {name, self.own_name(name)}
        array = self._arrays.get(self.own_name(name))
        if array is None:
            return default
        if array.size != 1 or not np.isfinite(array).all():
            raise self._refused(f"holds {name!r}, which should be a number")
        return float(array.reshape(()))

    def is_flag(self, name: str) -> bool:
        found = self._arrays.get(self.own_name(name))
        return found is None or found.dtype == np.int8

    def weight(self, name: str) -> np.ndarray:
        """A vector or matrix in float32."""
        own = self.own_name(name)
        self._used |= {name, own, own + "_scale", name + "_scale"}
        array = self._arrays.get(own)
        if array is None:
            raise self._refused(f"lacks {name!r}")
        if array.dtype.kind != "i":
            return array.astype(np.float32)
        scale = self._arrays.get(self.own_name(own + "_scale"))
        if scale is None or scale.size not in (1, len(array)) or array.ndim != 2:
            raise self._refused(f"holds {name!r} in whole numbers without their scales")
        return array.astype(np.float32) / scale.astype(np.float32).reshape(-1, 1)

    def refuse_the_rest(self) -> None:
        """What was not asked for belongs to another kind of model, unless it is a flag that is
        off."""
        for name in [*self._arrays, *self._aliases]:
            if name in self._used or name.rpartition("/")[2] in IGNORED:
                continue
            array = self._arrays[self.own_name(name)] if self.has(name) else np.ones(1)
            if array.size > 1 or array.any():
                raise self._refused(f"holds {name!r}: a kind of model that dragoman has not")


def from_ctranslate2(
    folder: Path,
    spm: Sequence[str] = (),
    languages: Languages = Languages(),
    source_end: bool = False,
    target_prefix: str = "",
) -> Bundle:
    """`spm`: the SentencePiece model, or one for each side, where the folder holds none.

    `source_end`: sources end with `</s>`, although `config.json` leaves that to the caller.
    `target_prefix`: a piece that every target begins with.
    """
    theirs = SourceFolder(folder)
    try:
        return _read_folder(theirs, spm, languages, source_end, target_prefix)
    except (ConfigError, BundleError) as error:
        raise ConversionError(f"{folder}: {error}") from None
    except (IndexError, ValueError):  # of arrays whose shapes do not go together
        raise ConversionError(f"{folder}: the shapes of its weights do not fit.") from None


def from_argos(path: Path) -> Bundle:
    """An `.argosmodel`, or the folder that it was unpacked to."""
    if path.is_dir():
        return _read_package(path)
    with tempfile.TemporaryDirectory() as name:
        _unpack(path, Path(name))
        return _read_package(Path(name))


def _read_package(folder: Path) -> Bundle:
    theirs = SourceFolder(folder)
    told = theirs.read_json(METADATA)
    codes = [told.get(key, "") for key in ("from_code", "to_code")]
    if not all(isinstance(code, str) and code for code in codes):
        raise ConversionError(f"{folder / METADATA} names no from_code and to_code.")
    if not theirs.has("sentencepiece.model"):
        # its words are those of Moses' normaliser and tokeniser, a rule book for each language
        why = "bpe.model, which needs Moses' tokeniser," if theirs.has(BYTE_PAIRS) else "no pieces"
        raise ConversionError(
            f"{folder} holds {why} where dragoman reads sentencepiece.model: take another package."
        )
    spm = [str(folder / "sentencepiece.model")]
    languages = Languages((codes[0],), (codes[1],))
    prefix = told.get("target_prefix") or ""
    bundle = from_ctranslate2(folder / "model", spm, languages, target_prefix=str(prefix))
    card = dict(bundle.card) | {"converted_from": f"an Argos package, {codes[0]} to {codes[1]}"}
    return replace(bundle, card=card)


# Weights are packed to a half, lists of words to a fifth; a bomb to a thousandth.
_MOST_TIMES = 10
_HARMLESS = 2**24
_CHUNK = 2**20


def _unpack(path: Path, folder: Path) -> None:
    """The files of a package that we read, out of the one folder that it holds. Nothing of it
    decides where a file is written."""
    vocabularies = [f"{side}_vocabulary.{end}" for side in SIDES for end in ("json", "txt")]
    wanted = {f"model/{name}" for name in (MODEL, CONFIG, *vocabularies)}
    wanted |= {METADATA, "sentencepiece.model", BYTE_PAIRS}
    limit = memory_bytes() // 2
    try:
        raw = read_regular(path, limit)
        limit = min(limit, _HARMLESS + _MOST_TIMES * len(raw))
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            (folder / "model").mkdir()
            for entry in archive.infolist():
                inside = PurePosixPath(entry.filename.replace("\\", "/"))
                if inside.is_absolute() or ".." in inside.parts:
                    raise ConversionError(
                        f"{path} has an entry that leads out of it: {entry.filename!r}."
                    )
                name = "/".join(inside.parts[1:])
                if name not in wanted or stat.S_ISLNK(entry.external_attr >> 16):
                    continue
                # what an entry says about its size need not be true
                with archive.open(entry) as file, (folder / name).open("wb") as copy:
                    while chunk := file.read(_CHUNK):
                        limit -= len(chunk)
                        if limit < 0:
                            raise ConversionError(f"{path}: {name} unpacks to too many bytes.")
                        copy.write(chunk)
    except OSError as error:
        raise ConversionError(f"{path}: {error.strerror or error}.") from None
    # a broken archive fails in as many ways as there are kinds of compression
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError),
        *(ValueError, NotImplementedError),
    ) as error:
        raise ConversionError(f"{path} is no Argos package ({error}).") from None


def _read_folder(
    theirs: SourceFolder,
    spm: Sequence[str],
    languages: Languages,
    source_end: bool,
    target_prefix: str,
) -> Bundle:
    stored = Variables(theirs.path, theirs.read_weights(MODEL))
    if stored.kind != "TransformerSpec":
        raise ConversionError(
            f"{theirs.path} holds a {stored.kind!r}; dragoman reads 'TransformerSpec'."
        )
    told = _told(theirs, stored)
    zero_start = bool(stored.value("decoder/start_from_zero_embedding", 0))
    framing, pieces, languages = _text(theirs, told, zero_start, languages, source_end)
    if target_prefix:
        if target_prefix not in pieces[1]:
            raise ConversionError(f"{theirs.path} has no piece {target_prefix!r} to begin with.")
        framing = replace(framing, start=(*framing.start, target_prefix))
    settings, weights = _weights(stored, zero_start)
    for side, embeddings, vocabulary in zip(
        ("source", "target"), (_embedding(weights, side) for side in SIDES[1:]), pieces, strict=True
    ):
        if len(embeddings) != len(vocabulary):
            raise ConversionError(
                f"{theirs.path}: the {side} vocabulary has {len(vocabulary)} pieces, there are "
                f"{len(embeddings)} embeddings."
            )
    stored.refuse_the_rest()
    settings["decoding.length_penalty"], settings["decoding.length_penalty_alpha"] = "power", 1.0
    config = make_config("base", settings={"text.tokenizer": "marian", **settings})
    codec = Codec.of_another_system(_spm(theirs, spm), pieces, framing, languages)
    return theirs.converted("CTranslate2", config, codec, weights)


def _embedding(weights: Mapping[str, np.ndarray], side: str) -> np.ndarray:
    shared = weights["source_embedding.words.weight"]
    return weights.get(f"{side}_embedding.words.weight", shared)


def _told(theirs: SourceFolder, stored: Variables) -> dict[str, Any]:
    """What the model says about text; before version 6 it stood in flags."""
    told: dict[str, Any] = {"unk_token": "<unk>", "eos_token": "</s>", "bos_token": "<s>"}
    if stored.version < 6:
        begins = stored.value("with_target_bos", 1)
        told |= {
            "add_source_bos": bool(stored.value("with_source_bos", 0)),
            "add_source_eos": bool(stored.value("with_source_eos", 0)),
            "decoder_start_token": "<s>" if begins else "</s>",
        }
    told |= theirs.settings(CONFIG)
    if told.get("layer_norm_epsilon") not in (None, 1e-5):
        raise ConversionError(
            f"{theirs.path}: layer_norm_epsilon={told['layer_norm_epsilon']!r} is a kind of model "
            f"that dragoman has not."
        )
    return told


def _text(
    theirs: SourceFolder,
    told: dict[str, Any],
    zero_start: bool,
    languages: Languages,
    source_end: bool,
) -> tuple[Framing, tuple[list[str], list[str]], Languages]:
    vocabularies = [_vocabulary(theirs, side) for side in SIDES[1:]]
    for pieces in vocabularies:
        # a vocabulary's own names for what we look for by name
        for name, ours in (("unk_token", "<unk>"), ("eos_token", "</s>")):
            if ours not in pieces and told[name] in pieces:
                pieces[pieces.index(told[name])] = ours
        if zero_start:
            pieces.append(ZEROS)
    source = vocabularies[0]
    framing, codes = named_languages(source)
    if codes:
        return framing, (source, vocabularies[1]), Languages(codes, codes)
    start = ZEROS if zero_start else str(told.get("decoder_start_token"))
    begins = (str(told["bos_token"]),) if told.get("add_source_bos") else ()
    before = (*begins, ">>{to}<<")
    ends = told.get("add_source_eos") or source_end or zero_start  # Marian's sources always end so
    framing = Framing(before, ("</s>",) if ends else (), (start,))
    if languages == Languages():
        languages = marian_languages(source, "", "")
    return framing, (source, vocabularies[1]), languages


def _vocabulary(theirs: SourceFolder, side: str) -> list[str]:
    names = [f"{which}_vocabulary.{end}" for which in (side, "shared") for end in ("json", "txt")]
    name = theirs.first(*names)
    if name is None:
        raise ConversionError(f"{theirs.path} holds no {names[0]} and no {names[2]}.")
    raw = theirs.read(name)
    try:
        pieces = parse_json(raw) if name.endswith("json") else raw.decode().split("\n")
    except ValueError as error:
        raise ConversionError(f"{theirs.path / name} cannot be read ({error}).") from None
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise ConversionError(f"{theirs.path / name} is no list of texts.")
    return pieces[:-1] if name.endswith("txt") and pieces[-1:] == [""] else pieces


def _spm(theirs: SourceFolder, named: Sequence[str]) -> tuple[bytes, bytes]:
    """The SentencePiece models of both sides."""
    if named:
        try:
            raw = [read_regular(Path(name), LARGEST_VOCABULARY) for name in named]
        except OSError as error:
            raise ConversionError(f"{error.filename}: {error.strerror}.") from None
        return raw[0], raw[-1]
    for source, target in SPM:
        if theirs.has(source) and theirs.has(target):
            return theirs.read(source), theirs.read(target)
    raise ConversionError(
        f"{theirs.path} holds no SentencePiece model: name it with --pieces SRC.spm[,TGT.spm]."
    )


def _weights(stored: Variables, zero_start: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Our settings and weights."""
    words, settings = _words(stored, zero_start)
    width = words["source_embedding.words.weight"].shape[1]
    positions, order = _positions(stored, width)
    settings |= {
        "model.d_model": width,
        "model.num_heads": _same(stored, "num_heads", 8),
        "model.norm_position": "pre" if _same(stored, "pre_norm", 1) else "post",
        "model.activation": _activation(stored),
        "model.num_encoder_layers": _layers(stored, "encoder"),
        "model.num_decoder_layers": _layers(stored, "decoder"),
        "model.positions.kind": "learned" if positions else "sinusoidal",
    }
    if positions:
        longest = min(map(len, positions.values()))
        settings |= {
            "model.positions.max_length": longest,
            "data.max_length": max(1, min(256, longest - 1)),
            "decoding.max_source_length": max(2, min(512, longest)),
        }
        positions = {name: table[:longest] for name, table in positions.items()}
    weights = words | positions
    for name in words:
        if words[name].ndim == 2:
            weights[name] = words[name][:, order]
    for side, attentions in (
        ("encoder", (("self_attention", "attention"),)),
        ("decoder", (("self_attention", "attention"), ("attention", "cross"))),
    ):
        if settings["model.norm_position"] == "pre":
            _norm(weights, stored, f"{side}/layer_norm", f"{side}_norm", order)
        for number in range(int(settings[f"model.num_{side}_layers"])):
            theirs, ours = f"{side}/layer_{number}", f"{side}.{number}"
            for their, our in attentions:
                _attention(weights, stored, f"{theirs}/{their}", f"{ours}.{our}", order)
                norm = f"{ours}.around_{our}.norm"
                _norm(weights, stored, f"{theirs}/{their}/layer_norm", norm, order)
            inner = _linear(stored, f"{theirs}/ffn/linear_0")
            outer = _linear(stored, f"{theirs}/ffn/linear_1")
            _put(weights, f"{ours}.feed_forward.inner", inner[0][:, order], inner[1])
            _put(weights, f"{ours}.feed_forward.outer", outer[0][order], outer[1][order])
            norm = f"{ours}.around_feed_forward.norm"
            _norm(weights, stored, f"{theirs}/ffn/layer_norm", norm, order)
    first = weights.get("encoder.0.feed_forward.inner.weight")
    settings["model.d_ff"] = len(first) if first is not None else 0
    return settings, {name: np.ascontiguousarray(array) for name, array in weights.items()}


def _words(stored: Variables, zero_start: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Embeddings and the output, and which of them are one matrix."""
    of_source = next(
        (n for n in ("encoder/embeddings_0/weight", "encoder/embeddings/weight") if stored.has(n)),
        "encoder/embeddings_0/weight",
    )
    of_target, of_output = "decoder/embeddings/weight", "decoder/projection/weight"
    matrices = {name: stored.weight(name) for name in (of_source, of_target, of_output)}
    for name, matrix in matrices.items():
        if matrix.ndim != 2:
            raise ConversionError(f"{name} has shape {matrix.shape}, not that of a matrix.")
    factors = [_scale(stored, side, matrices[of_source].shape[1]) for side in SIDES_OF_MODEL]
    own = [stored.own_name(name) for name in matrices]
    tied = "none"
    if own[1] == own[2] and factors[1] == 1:
        tied = "all" if own[0] == own[1] and factors[0] == 1 else "target"
    weights = {"source_embedding.words.weight": matrices[of_source] * factors[0]}
    if tied != "all":
        weights["target_embedding.words.weight"] = matrices[of_target] * factors[1]
    if tied == "none":
        weights["output.weight"] = matrices[of_output]
    bias = "decoder/projection/bias"
    if stored.has(bias):
        weights["output.bias"] = stored.weight(bias)
    if zero_start:  # a piece of its own stands for the zeros
        for name, array in weights.items():
            weights[name] = np.concatenate([array, np.zeros_like(array[:1])])
    return weights, {"model.share_embeddings": tied, "model.output_bias": stored.has(bias)}


def _scale(stored: Variables, side: str, width: int) -> float:
    """What embeddings are multiplied by, divided by √D, which we always multiply by."""
    name = f"{side}/scale_embeddings"
    value = stored.value(name, 1)
    if stored.is_flag(name):
        return 1.0 if value else width**-0.5
    return 1.0 if math.isclose(value, width**0.5, rel_tol=1e-4) else value / width**0.5


def _positions(stored: Variables, width: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Tables of positions, and the order of their features in ours. There is no table where they
    are our sinusoids in some order."""
    tables = {}
    for side, ours in zip(SIDES_OF_MODEL, ("source", "target"), strict=True):
        name = f"{side}/position_encodings/encodings"
        table = stored.weight(name) if stored.has(name) else _from_one(WITHOUT_TABLE, width)
        table = table.reshape(-1, table.shape[-1])
        if table.shape[1] != width:
            raise ConversionError(f"positions have {table.shape[1]} features, words {width}.")
        tables[f"{ours}_embedding.positions.table"] = table
    as_they_are = np.arange(width)
    for order in (as_they_are, interleaved(width) if width % 2 == 0 else as_they_are):
        if all(_is_sinusoidal(table[:, order]) for table in tables.values()):
            return {}, order
    return tables, as_they_are


def _is_sinusoidal(table: np.ndarray) -> bool:
    ours = sinusoids(len(table), table.shape[1]) if table.shape[1] % 2 == 0 else table + 1
    return bool(np.abs(table - ours).max(initial=0) <= 1e-3)  # half precision is coarse


def _from_one(length: int, width: int) -> np.ndarray:
    """The positions of a model without a table, as CTranslate2 computes them: from 1 on."""
    half = width // 2
    rates = np.exp(np.arange(half) * (-math.log(10000) / max(1, half - 1)))
    angles = np.arange(1, length + 1)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def _same(stored: Variables, name: str, default: int) -> int:
    """A number that encoder and decoder must share."""
    both = [int(stored.value(f"{side}/{name}", default)) for side in SIDES_OF_MODEL]
    if both[0] != both[1]:
        raise ConversionError(f"encoder and decoder differ in {name}, {both[0]} and {both[1]}.")
    return both[0]


def _activation(stored: Variables) -> str:
    number = _same(stored, "activation", 0)
    if number not in ACTIVATIONS:
        raise ConversionError(f"activation {number} is a kind of model that dragoman has not.")
    return ACTIVATIONS[number]


def _layers(stored: Variables, side: str) -> int:
    number = 0
    while stored.has(f"{side}/layer_{number}/ffn/linear_0/weight"):
        number += 1
    return number


def _linear(stored: Variables, name: str) -> tuple[np.ndarray, np.ndarray]:
    weight = stored.weight(f"{name}/weight")
    if weight.ndim != 2:
        raise ConversionError(f"{name} has shape {weight.shape}, not that of a matrix.")
    if not stored.has(f"{name}/bias"):
        return weight, np.zeros(len(weight), dtype=np.float32)
    return weight, stored.weight(f"{name}/bias")


def _put(weights: dict[str, np.ndarray], name: str, weight: np.ndarray, bias: np.ndarray) -> None:
    weights[f"{name}.weight"], weights[f"{name}.bias"] = weight, bias


def _attention(
    weights: dict[str, np.ndarray], stored: Variables, theirs: str, ours: str, order: np.ndarray
) -> None:
    """Queries, keys and values in one matrix, or the queries apart; then the output."""
    cross = stored.has(f"{theirs}/linear_2/weight")
    projections = [_linear(stored, f"{theirs}/linear_{i}") for i in range(3 if cross else 2)]
    weight = np.concatenate([matrix for matrix, _ in projections[:-1]])
    bias = np.concatenate([vector for _, vector in projections[:-1]])
    _put(weights, f"{ours}.project.to_qkv", weight[:, order], bias)
    out, out_bias = projections[-1]
    _put(weights, f"{ours}.project.to_out", out[order], out_bias[order])


def _norm(
    weights: dict[str, np.ndarray], stored: Variables, theirs: str, ours: str, order: np.ndarray
) -> None:
    gamma, beta = (stored.weight(f"{theirs}/{name}") for name in ("gamma", "beta"))
    _put(weights, ours, gamma[order], beta[order])
