"""A bundle: the folder of a trained translator, read and written without torch.

    manifest.json       format, dragoman's version, size and SHA-256 of each file; written last
    model.safetensors   weights
    config.toml         every setting used
    shared.spm          text to ids; or source.spm and target.spm; word lists end in .json
    languages.json      its languages
    pieces.json         the vocabulary, if it comes from another system
    card.json           its origin: corpus, scores, cost
    shortlist.safetensors       which pieces may translate which
    ranges.json         ranges of the inputs of its products, for int8
    adapter.safetensors low-rank matrices and their gate, from `dragoman adapt`

Loading runs no code and opens no file outside this list. A file's type, size, links and hash are
checked before it is parsed, then its content, then whether all files fit together. ONNX graphs are
not part of a bundle: `engine/onnx` builds them. Graphs listed by older bundles are never opened.

A model is named by its folder, or by the name of a bundled one (`pretrained/`); `hub` adds the
names of the Hugging Face hub.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import safetensors.numpy

from dragoman.bundle.adapter import Gate, adapted, factors
from dragoman.bundle.int8 import SCALES, dequantize, misfit
from dragoman.bundle.plain_weights import check_plain_weights, plain_weights
from dragoman.config import Config, beyond_plain, from_tree, write_toml
from dragoman.errors import BundleError, ConfigError
from dragoman.storage.binary import tensors
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.storage.prefetch import PRETRAINED as PRETRAINED
from dragoman.storage.prefetch import WEIGHTS, Content, take_prefetched
from dragoman.storage.safe_read import (
    escapes_folder,
    memory_bytes,
    parse_json,
    parse_toml,
    read_regular,
)
from dragoman.storage.version import __version__
from dragoman.text.codec import CODEC_FILES, Codec
from dragoman.text.languages import AUTO, LANGUAGES_FILE, Languages, choose_model

if TYPE_CHECKING:
    from dragoman.text.shortlist import Shortlist

_FORMAT = 1
MANIFEST, _CONFIG, CARD = "manifest.json", "config.toml", "card.json"
# Listed by bundles of versions that stored graphs; ignored.
_OLD_GRAPHS = {"encoder.onnx", "step.onnx", "listed_step.onnx"}
# The first of these that a model has is its output matrix.
OUTPUT_MATRICES = (
    "output.weight",
    "target_embedding.words.weight",
    "source_embedding.words.weight",
)
OUTPUT_BIAS = "output.bias"
SHORTLIST = "shortlist.safetensors"
ADAPTER = "adapter.safetensors"
RANGES = "ranges.json"
_KNOWN_FILES = {WEIGHTS, _CONFIG, CARD, SHORTLIST, ADAPTER, RANGES} | CODEC_FILES
_ENGINE, ONNX = "engine", "onnx"  # in the manifest of a bundle for this engine
_MIB = 2**20
_LARGEST = {MANIFEST: _MIB, _CONFIG: 4 * _MIB, CARD: 4 * _MIB}  # bytes
# All other files but the weights may have the size of a vocabulary.
_LARGEST |= {LANGUAGES_FILE: _MIB, RANGES: _MIB}
LARGEST_VOCABULARY = 32 * _MIB  # and shortlist
_LARGEST_HEADER = 16 * _MIB  # of the weights
UNFINISHED = "unfinished"
"""Entry of a card that describes the progress of an unfinished training."""


@dataclass(frozen=True)
class Bundle:
    config: Config
    codec: Codec
    weights: Mapping[str, np.ndarray]  # as stored: matrices in float, or in int8 with their scales
    card: Mapping[str, Any]
    shortlist: "Shortlist | None" = None
    # "onnx" if it was made for that engine, which then runs it by default.
    engine: str = "auto"
    # Low-rank matrices to be added to the weights, and perhaps a gate (`adapter.py`).
    adapter: Mapping[str, np.ndarray] | None = None
    # The largest output of each norm and attention, by name; empty if not measured.
    ranges: Mapping[str, float] = field(default_factory=dict)

    @property
    def gate(self) -> Gate | None:
        """Return the gate of the adapter; None if the adapter is for all sentences."""
        return Gate.of(self.adapter, len(self.codec.source)) if self.adapter else None

    def merged(self) -> "Bundle":
        """Return the bundle with its adapter merged into the weights, for all sentences."""
        if self.adapter is None:
            return self
        weights = adapted(self.weights, self.adapter)
        # The ranges were measured without the adapter.
        return replace(self, weights=weights, adapter=None, ranges={})

    def float_weights(self) -> dict[str, np.ndarray]:
        """Return the weights in float with the adapter merged; writable, as PyTorch requires."""
        floats = dequantize(self.merged().weights)
        return {name: np.require(array, requirements="W") for name, array in floats.items()}

    def dequantized(self) -> "Bundle":
        """Return the bundle with its adapter merged and its weights in float."""
        merged = self.merged()
        return replace(merged, weights=dequantize(merged.weights))


def parameters_by_part(weights: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Count the numbers of each part of a model. A shared output counts with the embeddings.

    >>> parameters_by_part({"encoder.0.norm": np.zeros(3), "source_embedding.w": np.zeros((2, 2))})
    {'embeddings': 4, 'encoder': 3, 'decoder': 0, 'output': 0}
    """
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0, "output": 0}
    for name, array in weights.items():
        first = name.partition(".")[0]
        part = "embeddings" if first.endswith("embedding") else first.removesuffix("_norm")
        if not name.endswith(SCALES):  # of int8 matrices
            counts[part] = counts.get(part, 0) + array.size
    return counts


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.name for path in PRETRAINED.iterdir() if (path / MANIFEST).exists())


def model_folders(
    model: str | Path, source: str = "", target: str = "", text: str = ""
) -> list[str]:
    """Return the folders of models separated by commas.

    Without a name, or with a folder that contains several models, choose the model for these
    languages. If no source language is given, it is detected from the text.
    """
    named = [_folder(part) for part in str(model).split(",") if part]
    # One folder may contain a model for each language pair.
    models = models_in(Path(named[0])) if len(named) == 1 else []
    if named and not models:
        return named
    models = models or models_in(PRETRAINED)
    if not models:
        raise BundleError(f"{PRETRAINED} has no model: name one.")
    if len(models) == 1:  # loading it will check the languages, with better messages
        return [str(models[0])]
    languages = [_read_languages(folder) for folder in models]
    source = source or (AUTO if text else "")
    return [str(models[choose_model(languages, text, source, target).number])]


def models_in(folder: Path) -> list[Path]:
    """Return the bundles inside a folder that is not a bundle itself."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return []
    return sorted(path for path in folder.iterdir() if (path / MANIFEST).exists())


def _read_languages(folder: Path) -> Languages:
    facts = read_manifest(folder).files.get(LANGUAGES_FILE, {})
    with _errors_in(folder):
        raw = _verified(folder / LANGUAGES_FILE, facts, _LARGEST[LANGUAGES_FILE])
        return Languages.from_bytes(raw)


@contextmanager
def _errors_in(folder: Path) -> Iterator[None]:
    """Make errors name the folder."""
    try:
        yield
    except (ConfigError, BundleError) as error:
        raise BundleError(f"{folder}: {error}") from None
    except MemoryError:
        raise BundleError(f"{folder}: this machine has too little memory for the model.") from None


def _folder(name: str) -> str:
    """Resolve the name of a bundled model; a folder of that name takes precedence."""
    bundled = PRETRAINED / name
    is_bundled = name == Path(name).name and not Path(name).exists() and bundled.is_dir()
    return str(bundled) if is_bundled else name


def write_bundle(folder: Path, bundle: Bundle) -> None:
    """Write each file atomically, the manifest last: a folder without one is not a bundle."""
    files = {
        WEIGHTS: safetensors.numpy.save(dict(bundle.weights)),
        _CONFIG: write_toml(bundle.config).encode(),
        CARD: (json.dumps(dict(bundle.card), indent=2, ensure_ascii=False) + "\n").encode(),
        **bundle.codec.to_files(),
    }
    if bundle.shortlist:
        files[SHORTLIST] = bundle.shortlist.to_bytes()
    if bundle.ranges:
        files[RANGES] = (json.dumps(dict(bundle.ranges), indent=1) + "\n").encode()
    if bundle.adapter:
        files[ADAPTER] = safetensors.numpy.save(dict(bundle.adapter))
    facts = {
        name: {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        for name, raw in files.items()
    }
    manifest: dict[str, Any] = {"format": _FORMAT, "dragoman": __version__}
    manifest |= {_ENGINE: ONNX} if bundle.engine == ONNX else {}
    manifest["files"] = facts
    with storage_errors(f"writing the model into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        # Without its manifest, a half-written folder is never mistaken for the old bundle.
        (folder / MANIFEST).unlink(missing_ok=True)
        for name, raw in files.items():
            write_atomically(folder / name, raw)
        # The manifest comes last: it makes the folder a bundle.
        write_atomically(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def read_bundle(folder: str | Path) -> Bundle:
    """Read and verify a bundle; each kind of damage has its own message."""
    folder = Path(_folder(str(folder)))
    manifest = read_manifest(folder)
    with _errors_in(folder):
        for name in (WEIGHTS, _CONFIG):
            if name not in manifest.files:
                raise BundleError(f"{MANIFEST} does not list {name}: the bundle is incomplete.")
        files = {
            name: _verified(folder / name, facts, _LARGEST.get(name, LARGEST_VOCABULARY))
            for name, facts in manifest.files.items()
            if name != WEIGHTS
        }
        config = _config(files[_CONFIG])
        codec = Codec.from_files(files, config.text.tokenizer)
        weights = read_weights(
            _verified(folder / WEIGHTS, manifest.files[WEIGHTS], _most_weights(config, codec))
        )
        _check_weights(config, codec, weights)
        adapter = read_tensors(files[ADAPTER]) if ADAPTER in files else None
        if adapter is not None:  # raise an error if it does not fit
            factors(weights, adapter)
            Gate.of(adapter, len(codec.source))
        shortlist = None
        if SHORTLIST in files:
            from dragoman.text.shortlist import Shortlist  # few bundles have one

            shortlist = Shortlist.from_tensors(
                read_tensors(files[SHORTLIST]), codec.source, codec.target
            )
        return Bundle(
            config,
            codec,
            weights,
            _card(files.get(CARD, b"{}")),
            shortlist,
            manifest.engine,
            adapter,
            _ranges(files.get(RANGES, b"{}")),
        )


def read_config(folder: str | Path) -> Config:
    """Read only the settings of a bundle."""
    folder = Path(_folder(str(folder)))
    files = read_manifest(folder).files
    with _errors_in(folder):
        if _CONFIG not in files:
            raise BundleError(f"{MANIFEST} does not list {_CONFIG}: the bundle is incomplete.")
        return _config(_verified(folder / _CONFIG, files[_CONFIG], _LARGEST[_CONFIG]))


def read_card(folder: Path) -> dict[str, Any]:
    """Read only the card of a bundle."""
    facts = read_manifest(folder).files.get(CARD)
    with _errors_in(folder):
        return _card(_verified(folder / CARD, facts, _LARGEST[CARD]) if facts else b"{}")


def read_weights(raw: bytes) -> dict[str, np.ndarray]:
    """Read tensors like `read_tensors`, but as read-only views of `raw`."""
    try:
        return tensors(raw)
    except ValueError as error:
        raise BundleError(f"the tensors cannot be read ({error}).") from None


def read_tensors(raw: bytes) -> dict[str, np.ndarray]:
    """Read the tensors of a safetensors file."""
    try:
        return dict(safetensors.numpy.load(raw))
    # KeyError is raised for an unknown type of numbers.
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise BundleError(f"the tensors cannot be read ({error}).") from None


class Manifest(NamedTuple):
    files: dict[str, dict[str, Any]]  # size and hash by name
    engine: str


def read_manifest(folder: Path) -> Manifest:
    """Return the files of a bundle, and the engine that it was made for."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such model folder.")
    if escapes_folder(path, folder):
        raise BundleError(f"{path} is a link that leads out of the bundle.")
    try:
        manifest = parse_json(read_regular(path, _LARGEST[MANIFEST]))
        version = manifest["format"]
        files = manifest["files"]
        engine = manifest.get(_ENGINE, "auto")
        if not isinstance(files, dict):
            raise TypeError("it lists no files")
    except FileNotFoundError:
        # A folder of a run gets its manifest with the first validation.
        unfinished = (folder / "run.toml").exists()
        remedy = (
            "its training has not reached a validation yet: continue it with dragoman train "
            "--resume."
            if unfinished
            else "not a model folder."
        )
        raise BundleError(f"{folder} has no {MANIFEST}: {remedy}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path} cannot be read ({error}).") from None
    if version != _FORMAT:
        raise BundleError(
            f"{path} has format {version!r}; dragoman {__version__} reads format {_FORMAT}."
        )
    if engine not in ("auto", ONNX):
        raise BundleError(f"{path} names the engine {engine!r}; only {ONNX!r} is possible.")
    # Graphs in a bundle meant that it was made for the ONNX engine.
    if _OLD_GRAPHS & files.keys():
        engine = ONNX
    if unknown := sorted(files.keys() - _KNOWN_FILES - _OLD_GRAPHS):
        raise BundleError(f"{path} lists {unknown[0]!r}, which is not part of a bundle.")
    return Manifest({name: files[name] for name in sorted(files.keys() - _OLD_GRAPHS)}, engine)


def _verified(path: Path, facts: Mapping[str, Any], limit: int) -> bytes:
    """Return the content of a file after comparing it with the manifest.

    Size and type are checked before it is read.
    """
    if escapes_folder(path, path.parent):
        raise BundleError(f"{path.name} is a link that leads out of the bundle.")
    try:
        size, digest = facts["size"], facts["sha256"]
    except (KeyError, TypeError):
        raise BundleError(f"{MANIFEST} lacks the size or hash of {path.name}.") from None
    try:
        # Checked first: a wrong size is the most common damage, and costs nothing to find.
        actual = path.stat().st_size
        if actual != size:
            raise BundleError(
                f"{path.name} has {actual:,} bytes, its manifest says {size}: the file is damaged."
            )
        # The weights may have been read and hashed during the imports.
        content = take_prefetched(path)
        if content is None or len(content.raw) > limit:
            raw = read_regular(path, limit)
            content = Content(raw, hashlib.sha256(raw).hexdigest())
    except OSError as error:
        raise BundleError(f"{path.name}: {error.strerror}.") from None
    if content.sha256 != digest:
        raise BundleError(
            f"{path.name} does not match its SHA-256 in the manifest: the file is damaged."
        )
    return content.raw


def _config(raw: bytes) -> Config:
    try:
        return from_tree(parse_toml(raw))
    except ValueError as error:
        raise BundleError(f"{_CONFIG} cannot be read ({error}).") from None


def _most_weights(config: Config, codec: Codec) -> int:
    """Return the largest possible size of the weights in bytes: what the settings call for, and
    half of the memory, so that a copy fits.
    """
    # Only of a plain Transformer the sizes follow from the settings without torch.
    if beyond_plain(config.model, in_graphs=True):
        return memory_bytes() // 2
    # Four bytes a number, and room for the header: int8 needs less.
    shapes = plain_weights(config.model, len(codec.source), len(codec.target), codec.shared)
    return min(
        memory_bytes() // 2, _LARGEST_HEADER + sum(4 * math.prod(shape) for _, shape in shapes)
    )


def _check_weights(config: Config, codec: Codec, weights: Mapping[str, np.ndarray]) -> None:
    """Run all checks that need no torch; it checks the names and shapes of other architectures."""
    if wrong := misfit(weights):
        raise BundleError(f"{wrong}.")
    if not beyond_plain(config.model, in_graphs=True):
        check_plain_weights(
            weights, config.model, len(codec.source), len(codec.target), codec.shared
        )
    for name, array in weights.items():
        if array.dtype not in (np.float32, np.uint8, np.int32):
            raise BundleError(f"weight {name} is stored as {array.dtype}, which no model uses.")


def _ranges(raw: bytes) -> dict[str, float]:
    try:
        ranges = dict(parse_json(raw))
    except (ValueError, TypeError) as error:
        raise BundleError(f"{RANGES} cannot be read ({error}).") from None
    # A scale of zero, infinity or NaN would make every product useless.
    for name, largest in ranges.items():
        if not isinstance(largest, float) or not 0 < largest < math.inf:
            raise BundleError(f"{RANGES}: the range of {name!r} is not a positive number.")
    return ranges


def _card(raw: bytes) -> dict[str, Any]:
    """Parse a card and check the types of the entries that get printed."""
    try:
        card = dict(parse_json(raw))
        # Only entries that are printed or compared are checked.
        texts = [*card.get("from", []), *card.get("to", []), card.get("scored_on", "")]
        for score in card.get("scores", []):
            texts += [score["name"], score["signature"]]
            if not isinstance(score["value"], int | float) or not math.isfinite(score["value"]):
                raise TypeError("a score is not a number")
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise BundleError(f"{CARD} cannot be read ({error}).") from None
    if not all(isinstance(text, str) for text in texts):
        raise BundleError(f"{CARD} has a language or a score whose name is not a string.")
    return card
