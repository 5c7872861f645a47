"""Read a CTranslate2 folder, or an Argos package that contains one, as a bundle.

`model.bin` is a list of named arrays, little-endian. A string is preceded by its length and
followed by a NUL, which the length includes:

    u32 version | string kind | u32 revision
    u32 arrays:  string name | u8 rank | u32 dimensions... | u8 type | u32 bytes | the numbers
    u32 aliases: string alias | string name

A matrix in int8 has a scale for each row, one in int16 a single scale; a number divided by its
scale is the weight. `config.json` and the vocabularies are in the same folder, SentencePiece models
often elsewhere. All of these files are untrusted.
"""

import io
import lzma
import math
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dragoman.bundle.folder import LARGEST_VOCABULARY, Bundle
from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import Config, make_config
from dragoman.convert.from_huggingface import marian_languages, named_languages
from dragoman.convert.marian import interleaved, layers_from_marian, weight_maps
from dragoman.convert.source_folder import SourceFolder
from dragoman.errors import BundleError, ConfigError, ConversionError
from dragoman.storage.binary import Cursor
from dragoman.storage.safe_read import memory_bytes, parse_json, read_regular
from dragoman.text.codec import ZEROS, Codec, Framing
from dragoman.text.languages import Languages

MODEL, CONFIG, METADATA, BYTE_PAIRS = "model.bin", "config.json", "metadata.json", "bpe.model"
# Versions of the file format that have the layout above.
VERSIONS = (4, 5, 6)
TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
# By CTranslate2's numbers.
ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu"}
# Names of SentencePiece models in folders of different origin, for source and target.
SPM = (
    ("source.spm", "target.spm"),
    ("shared.spm",) * 2,
    ("sentencepiece.model",) * 2,
    ("sentencepiece.bpe.model",) * 2,
    ("spm.model",) * 2,
)
SIDES = ("shared", "source", "target")
SIDES_OF_MODEL = ("encoder", "decoder")
# Flags and arrays that do not change a translation.
IGNORED = ("alignment_layer", "alignment_heads", "embeddings_merge")
WITHOUT_TABLE = 1024  # positions of a model that leaves them to CTranslate2
# CTranslate2's names of MarianMT's modules (`marian.weight_maps`). A module may be one of several
# equal shares of the rows: self-attention has one matrix for queries, keys and values,
# cross-attention one for queries and one for keys and values.
_NAMES = {
    "self_attn.q_proj": ("self_attention/linear_0", 0, 3),
    "self_attn.k_proj": ("self_attention/linear_0", 1, 3),
    "self_attn.v_proj": ("self_attention/linear_0", 2, 3),
    "self_attn.out_proj": ("self_attention/linear_1", 0, 1),
    "self_attn_layer_norm": ("self_attention/layer_norm", 0, 1),
    "encoder_attn.q_proj": ("attention/linear_0", 0, 1),
    "encoder_attn.k_proj": ("attention/linear_1", 0, 2),
    "encoder_attn.v_proj": ("attention/linear_1", 1, 2),
    "encoder_attn.out_proj": ("attention/linear_2", 0, 1),
    "encoder_attn_layer_norm": ("attention/layer_norm", 0, 1),
    "fc1": ("ffn/linear_0", 0, 1),
    "fc2": ("ffn/linear_1", 0, 1),
    "final_layer_norm": ("ffn/layer_norm", 0, 1),
    "layer_norm": ("layer_norm", 0, 1),
}


_MOST_COPIED = 20  # times the file: int8 becomes float32, and three matrices share one array


class Variables:
    """The arrays of `model.bin` by name, in float32. It records which ones were read."""

    def __init__(self, folder: Path, raw: bytes):
        self._folder, self._file = folder, Cursor(raw)
        self._arrays: dict[str, np.ndarray] = {}
        self._aliases: dict[str, str] = {}
        self._used: set[str] = set()
        self._size, self._copied = len(raw), 0  # bytes, and those of the weights in float32
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
                raise self._refused(f"has {name!r} in an unknown type, {number}")
            raw = file.take(size)
            # NumPy lacks bfloat16, which is the upper half of float32.
            dtype = np.dtype(np.uint16 if TYPES[number] == "bfloat16" else TYPES[number])
            if math.prod(shape) * dtype.itemsize != size:
                raise self._refused(f"has {name!r} of shape {shape} in {size} bytes")
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
        """Resolve an alias."""
        return self._aliases.get(name, name)

    def has(self, name: str) -> bool:
        return self.own_name(name) in self._arrays

    def value(self, name: str, default: float) -> float:
        """Return a single number."""
        self._used |= {name, self.own_name(name)}
        array = self._arrays.get(self.own_name(name))
        if array is None:
            return default
        if array.size != 1 or not np.isfinite(array).all():
            raise self._refused(f"has {name!r}, which should be a number")
        return float(array.reshape(()))

    def is_flag(self, name: str) -> bool:
        array = self._arrays.get(self.own_name(name))
        return array is None or array.dtype == np.int8

    def weight(self, name: str) -> np.ndarray:
        """Return a vector or matrix in float32."""
        own = self.own_name(name)
        self._used |= {name, own, own + "_scale", name + "_scale"}
        array = self._arrays.get(own)
        if array is None:
            raise self._refused(f"lacks {name!r}")
        # An array may have any number of other names, and becomes a copy for each.
        self._copied += 4 * array.size
        if self._copied > _MOST_COPIED * self._size:
            raise self._refused("has too many names for the same arrays")
        if array.dtype.kind != "i":
            return array.astype(np.float32)
        # int8 has a scale for each row, int16 one for the whole matrix.
        scale = self._arrays.get(self.own_name(own + "_scale"))
        if scale is None or scale.size not in (1, len(array)) or array.ndim != 2:
            raise self._refused(f"has {name!r} in integers without scales")
        return array.astype(np.float32) / scale.astype(np.float32).reshape(-1, 1)

    def linear_or_norm(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return weight and bias; a linear layer without a bias gets zeros."""
        if name.endswith("layer_norm"):
            return self.weight(f"{name}/gamma"), self.weight(f"{name}/beta")
        weight = self.weight(f"{name}/weight")
        if weight.ndim != 2:
            raise ConversionError(f"{name} has shape {weight.shape}; a matrix was expected.")
        has_bias = self.has(f"{name}/bias")
        return weight, self.weight(f"{name}/bias") if has_bias else np.zeros(len(weight), "f4")

    def refuse_unread(self) -> None:
        """Refuse arrays that were not read, unless they are flags that are off: they belong to
        another kind of model.
        """
        for name in [*self._arrays, *self._aliases]:
            if name in self._used or name.rpartition("/")[2] in IGNORED:
                continue
            # An alias without an array counts as an unknown array.
            array = self._arrays[self.own_name(name)] if self.has(name) else np.ones(1)
            if array.size > 1 or array.any():
                raise self._refused(f"has {name!r}, which dragoman does not support")


def from_ctranslate2(
    folder: Path,
    spm: Sequence[str] = (),
    languages: Languages = Languages(),
    source_end: bool = False,
    target_prefix: str = "",
) -> Bundle:
    """Read a folder of CTranslate2.

    `spm`: the SentencePiece model, or one for each side, if it is not in the folder. `source_end`:
    sources end with `</s>`, although `config.json` leaves that to the caller. `target_prefix`: a
    piece that every target begins with.
    """
    theirs = SourceFolder(folder)
    try:
        return _read_folder(theirs, spm, languages, source_end, target_prefix)
    except (ConfigError, BundleError) as error:
        raise ConversionError(f"{folder}: {error}") from None
    except (IndexError, ValueError):  # NumPy raises these for shapes that do not fit
        raise ConversionError(f"{folder}: the shapes of its weights do not fit.") from None


def from_argos(path: Path) -> Bundle:
    """Read an `.argosmodel` file, or the folder that it was unpacked to."""
    if path.is_dir():
        return _read_package(path)
    with tempfile.TemporaryDirectory() as name:
        _unpack(path, Path(name))
        return _read_package(Path(name))


def _read_package(folder: Path) -> Bundle:
    theirs = SourceFolder(folder)
    metadata = theirs.read_json(METADATA)
    codes = [metadata.get(key, "") for key in ("from_code", "to_code")]
    if not all(isinstance(code, str) and code for code in codes):
        raise ConversionError(f"{folder / METADATA} lacks from_code or to_code.")
    if not theirs.has("sentencepiece.model"):
        # bpe.model needs the words of Moses' tokenizer, which has rules for each language.
        why = " but bpe.model, which needs Moses' tokenizer" if theirs.has(BYTE_PAIRS) else ""
        raise ConversionError(f"{folder} has no sentencepiece.model{why}: use another package.")
    spm = [str(folder / "sentencepiece.model")]
    languages = Languages((codes[0],), (codes[1],))
    prefix = metadata.get("target_prefix") or ""
    bundle = from_ctranslate2(folder / "model", spm, languages, target_prefix=str(prefix))
    card = dict(bundle.card) | {"converted_from": f"an Argos package, {codes[0]} to {codes[1]}"}
    return replace(bundle, card=card)


# Zip shrinks weights to a half, lists of words to a fifth, a zip bomb to a thousandth.
_MOST_TIMES = 10
_HARMLESS = 2**24
_CHUNK = 2**20


def _unpack(path: Path, folder: Path) -> None:
    """Unpack the files that we read from the package's one folder, to names of our own choice."""
    vocabularies = [f"{side}_vocabulary.{end}" for side in SIDES for end in ("json", "txt")]
    wanted = {f"model/{name}" for name in (MODEL, CONFIG, *vocabularies)}
    wanted |= {METADATA, "sentencepiece.model", BYTE_PAIRS}
    # The content must fit into memory twice.
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
                # The size in an entry's header may be wrong, so bytes are counted.
                with archive.open(entry) as file, (folder / name).open("wb") as copy:
                    while chunk := file.read(_CHUNK):
                        limit -= len(chunk)
                        if limit < 0:
                            raise ConversionError(f"{path}: {name} unpacks to too many bytes.")
                        copy.write(chunk)
    except OSError as error:
        raise ConversionError(f"{path}: {error.strerror or error}.") from None
    # A broken archive raises different errors with each kind of compression.
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError),
        *(ValueError, NotImplementedError),
    ) as error:
        raise ConversionError(f"{path} is not an Argos package ({error}).") from None


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
            f"{theirs.path} is a {stored.kind!r}; dragoman reads 'TransformerSpec'."
        )
    text_settings = _text_settings(theirs, stored)
    # Marian's decoder starts from a zero vector instead of a piece.
    zero_start = bool(stored.value("decoder/start_from_zero_embedding", 0))
    framing, pieces, languages = _text(theirs, text_settings, zero_start, languages, source_end)
    if target_prefix:
        if target_prefix not in pieces[1]:
            raise ConversionError(
                f"{theirs.path} has no piece {target_prefix!r}, the target prefix."
            )
        framing = replace(framing, start=(*framing.start, target_prefix))
    config, weights = _weights(stored, zero_start)
    shared = weights["source_embedding.words.weight"]
    for side, vocabulary in zip(SIDES[1:], pieces, strict=True):
        count = len(weights.get(f"{side}_embedding.words.weight", shared))
        if count != len(vocabulary):
            raise ConversionError(
                f"{theirs.path}: the {side} vocabulary has {len(vocabulary)} pieces, but there are "
                f"{count} embeddings."
            )
    stored.refuse_unread()
    codec = Codec.of_another_system(_spm(theirs, spm), pieces, framing, languages)
    return theirs.to_bundle("CTranslate2", config, codec, weights)


def _text_settings(theirs: SourceFolder, stored: Variables) -> dict[str, Any]:
    """Return the settings of text processing; before version 6 they are flags in `model.bin`."""
    settings: dict[str, Any] = {"unk_token": "<unk>", "eos_token": "</s>", "bos_token": "<s>"}
    if stored.version < 6:
        begins = stored.value("with_target_bos", 1)
        settings |= {
            "add_source_bos": bool(stored.value("with_source_bos", 0)),
            "add_source_eos": bool(stored.value("with_source_eos", 0)),
            "decoder_start_token": "<s>" if begins else "</s>",
        }
    settings |= theirs.settings(CONFIG)
    if settings.get("layer_norm_epsilon") is not None:  # null means the default
        theirs.require(settings, {"layer_norm_epsilon": 1e-5})
    return settings


def _text(
    theirs: SourceFolder,
    settings: dict[str, Any],
    zero_start: bool,
    languages: Languages,
    source_end: bool,
) -> tuple[Framing, tuple[list[str], list[str]], Languages]:
    vocabularies = [_vocabulary(theirs, side) for side in SIDES[1:]]
    for pieces in vocabularies:
        # Our code finds special pieces by these names.
        for name, ours in (("unk_token", "<unk>"), ("eos_token", "</s>")):
            if ours not in pieces and settings[name] in pieces:
                pieces[pieces.index(settings[name])] = ours
        if zero_start:
            pieces.append(ZEROS)
    source = vocabularies[0]
    framing, codes = named_languages(source)
    if codes:
        return framing, (source, vocabularies[1]), Languages(codes, codes)
    start = ZEROS if zero_start else str(settings.get("decoder_start_token"))
    begins = (str(settings["bos_token"]),) if settings.get("add_source_bos") else ()
    before = (*begins, ">>{to}<<")
    # Sources of Marian, whose decoder starts from zeros, always end with </s>.
    ends = settings.get("add_source_eos") or source_end or zero_start
    framing = Framing(before, ("</s>",) if ends else (), (start,))
    if languages == Languages():
        languages = marian_languages(source, "", "")
    return framing, (source, vocabularies[1]), languages


def _vocabulary(theirs: SourceFolder, side: str) -> list[str]:
    names = [f"{which}_vocabulary.{end}" for which in (side, "shared") for end in ("json", "txt")]
    name = theirs.first(*names)
    if name is None:
        raise ConversionError(f"{theirs.path} has neither {names[0]} nor {names[2]}.")
    raw = theirs.read(name)
    try:
        pieces = parse_json(raw) if name.endswith("json") else raw.decode().split("\n")
    except ValueError as error:
        raise ConversionError(f"{theirs.path / name} cannot be read ({error}).") from None
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise ConversionError(f"{theirs.path / name} is not a list of strings.")
    return pieces[:-1] if name.endswith("txt") and pieces[-1:] == [""] else pieces


def _spm(theirs: SourceFolder, named: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the SentencePiece models of both sides."""
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
        f"{theirs.path} has no SentencePiece model: name it with --pieces SRC.spm[,TGT.spm]."
    )


def _weights(stored: Variables, zero_start: bool) -> tuple[Config, dict[str, np.ndarray]]:
    """Return our settings and weights."""
    words, settings = _words(stored, zero_start)
    width = words["source_embedding.words.weight"].shape[1]
    positions, order = _positions(stored, width)
    first = "encoder/layer_0/ffn/linear_0/weight"
    settings |= {
        "text.tokenizer": "marian",
        "decoding.length_penalty": "power",
        "decoding.length_penalty_alpha": 1.0,
        "model.d_model": width,
        "model.d_ff": len(stored.weight(first)) if stored.has(first) else 0,
        "model.num_heads": _same(stored, "num_heads", 8),
        "model.norm_position": "pre" if _same(stored, "pre_norm", 1) else "post",
        "model.activation": _activation(stored),
        "model.num_encoder_layers": _layer_count(stored, "encoder"),
        "model.num_decoder_layers": _layer_count(stored, "decoder"),
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
    config = make_config("base", settings=settings)
    modules: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # several parts are rows of one module
    theirs: dict[str, np.ndarray] = {}
    for part in weight_maps(config.model):
        module, share, shares = _NAMES[part.module]
        layer = "" if part.layer is None else f"layer_{part.layer}/"
        name = f"{part.side}/{layer}{module}"
        if name not in modules:
            modules[name] = stored.linear_or_norm(name)
        for end, array in zip(("weight", "bias"), modules[name], strict=True):
            rows = len(array) // shares
            theirs[f"{part.theirs}.{end}"] = array[share * rows : (share + 1) * rows]
    weights = positions | layers_from_marian(theirs, config.model, order)
    for name, array in words.items():
        weights[name] = array[:, order] if array.ndim == 2 else array
    return config, {name: np.ascontiguousarray(array) for name, array in weights.items()}


def _words(stored: Variables, zero_start: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the embeddings and the output, and the settings that say which of them are shared."""
    source_name = next(
        (n for n in ("encoder/embeddings_0/weight", "encoder/embeddings/weight") if stored.has(n)),
        "encoder/embeddings_0/weight",
    )
    target_name, output_name = "decoder/embeddings/weight", "decoder/projection/weight"
    matrices = {name: stored.weight(name) for name in (source_name, target_name, output_name)}
    for name, matrix in matrices.items():
        if matrix.ndim != 2:
            raise ConversionError(f"{name} has shape {matrix.shape}; a matrix was expected.")
    # Fold the factors of the embeddings into the matrices.
    factors = [_scale(stored, side, matrices[source_name].shape[1]) for side in SIDES_OF_MODEL]
    # Aliases of one array are shared weights. A scaled embedding cannot be shared, though.
    own = [stored.own_name(name) for name in matrices]
    tied = "none"
    if own[1] == own[2] and factors[1] == 1:
        tied = "all" if own[0] == own[1] and factors[0] == 1 else "target"
    weights = {"source_embedding.words.weight": matrices[source_name] * factors[0]}
    if tied != "all":
        weights["target_embedding.words.weight"] = matrices[target_name] * factors[1]
    if tied == "none":
        weights["output.weight"] = matrices[output_name]
    bias = "decoder/projection/bias"
    if stored.has(bias):
        weights["output.bias"] = stored.weight(bias)
    if zero_start:  # the zero vector that targets start from gets a piece of its own
        for name, array in weights.items():
            weights[name] = np.concatenate([array, np.zeros_like(array[:1])])
    return weights, {"model.share_embeddings": tied, "model.output_bias": stored.has(bias)}


def _scale(stored: Variables, side: str, width: int) -> float:
    """Return the factor of the embeddings, divided by √D, which our model always multiplies by."""
    name = f"{side}/scale_embeddings"
    value = stored.value(name, 1)
    # A flag says whether to multiply by √D; a number is the factor itself.
    if stored.is_flag(name):
        return 1.0 if value else width**-0.5
    return 1.0 if math.isclose(value, width**0.5, rel_tol=1e-4) else value / width**0.5


def _positions(stored: Variables, width: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the tables of positions, and the order of their features in ours.

    There are no tables if they are our sinusoids in some order.
    """
    tables = {}
    for side, ours in zip(SIDES_OF_MODEL, ("source", "target"), strict=True):
        name = f"{side}/position_encodings/encodings"
        table = stored.weight(name) if stored.has(name) else _from_one(WITHOUT_TABLE, width)
        table = table.reshape(-1, table.shape[-1])
        if table.shape[1] != width:
            raise ConversionError(f"positions have {table.shape[1]} features, words {width}.")
        tables[f"{ours}_embedding.positions.table"] = table
    unpermuted = np.arange(width)
    # Our sinusoids alternate sines and cosines; other models have all sines first.
    for order in (unpermuted, interleaved(width) if width % 2 == 0 else unpermuted):
        if all(_is_sinusoidal(table[:, order]) for table in tables.values()):
            return {}, order
    return tables, unpermuted


def _is_sinusoidal(table: np.ndarray) -> bool:
    ours = sinusoids(len(table), table.shape[1]) if table.shape[1] % 2 == 0 else table + 1
    return bool(np.abs(table - ours).max(initial=0) <= 1e-3)  # as exact as half precision


def _from_one(length: int, width: int) -> np.ndarray:
    """Return the positions of a model without a table, as CTranslate2 computes them: from 1."""
    # As in CTranslate2 and tensor2tensor: the slowest wavelength is exactly 10000.
    half = width // 2
    rates = np.exp(np.arange(half) * (-math.log(10000) / max(1, half - 1)))
    angles = np.arange(1, length + 1)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def _same(stored: Variables, name: str, default: int) -> int:
    """Return a number that encoder and decoder must share."""
    both = [int(stored.value(f"{side}/{name}", default)) for side in SIDES_OF_MODEL]
    if both[0] != both[1]:
        raise ConversionError(f"encoder and decoder differ in {name}, {both[0]} and {both[1]}.")
    return both[0]


def _activation(stored: Variables) -> str:
    number = _same(stored, "activation", 0)
    if number not in ACTIVATIONS:
        raise ConversionError(f"dragoman does not support activation {number} of CTranslate2.")
    return ACTIVATIONS[number]


def _layer_count(stored: Variables, side: str) -> int:
    number = 0
    while stored.has(f"{side}/layer_{number}/ffn/linear_0/weight"):
        number += 1
    return number
