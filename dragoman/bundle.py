"""A bundle: the folder that holds a trained translator. Read and written without torch.

    manifest.json       format, dragoman's version, size and SHA-256 of each file; written last
    model.safetensors   weights
    config.toml         every setting used
    shared.spm (or source.spm, target.spm), languages.json      text to ids; lists of words end in .json instead
    pieces.json         the vocabulary, where it is another system's
    card.json           where it comes from: corpus, scores, cost
    encoder.onnx, step.onnx     graphs for ONNX Runtime, if converted: they refer into the weights
    shortlist.safetensors, listed_step.onnx     which pieces may translate which, and a step over these alone

Loading runs no code and opens no name that is not in the list above.

A model is named by its folder, or by the name of one that comes with the package (`pretrained/`).
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from dragoman.config import Config, from_tree, write_toml
from dragoman.errors import BundleError, ConfigError
from dragoman.files import storage_errors, write_atomically
from dragoman.int8 import dequantise
from dragoman.text.codec import CODEC_FILES, Codec
from dragoman.text.shortlist import Shortlist
from dragoman.version import __version__

FORMAT = 1
MANIFEST, WEIGHTS, CONFIG, CARD = "manifest.json", "model.safetensors", "config.toml", "card.json"
ENCODER_GRAPH, STEP_GRAPH, LISTED_STEP_GRAPH = "encoder.onnx", "step.onnx", "listed_step.onnx"
GRAPHS = {ENCODER_GRAPH, STEP_GRAPH, LISTED_STEP_GRAPH}
GRAPH_VERSION = 2  # what graphs take and give; the engine runs those of its own version
OUTPUT_MATRICES = ("output.weight", "target_embedding.words.weight", "source_embedding.words.weight")  # the first there
OUTPUT_BIAS = "output.bias"
SHORTLIST = "shortlist.safetensors"
KNOWN_FILES = {WEIGHTS, CONFIG, CARD, SHORTLIST} | CODEC_FILES | GRAPHS
UNFINISHED = "unfinished"
"""Says on a card how far the training has come, while it goes on."""
PRETRAINED = Path(__file__).parent / "pretrained"
BUNDLED = "tatoeba"
"""The model of the package, for whoever names none."""


@dataclass(frozen=True)
class Bundle:
    config: Config
    codec: Codec
    weights: Mapping[str, np.ndarray]  # as stored: matrices in float, or in int8 with their scales
    card: Mapping[str, Any]
    graphs: Mapping[str, bytes] = field(default_factory=dict)  # by file name
    weights_file: bytes = field(default=b"", repr=False)  # what the graphs refer into
    shortlist: Shortlist | None = None

    def float_weights(self) -> dict[str, np.ndarray]:
        return dequantise(self.weights)


def model_folders(model: str | Path) -> list[str]:
    """The folders that a comma joins, that of the package's own model where none is named."""
    return [_folder(part) for part in str(model).split(",") if part] or [_folder(BUNDLED)]


def _folder(name: str) -> str:
    inside = PRETRAINED / name
    return str(inside) if name == Path(name).name and not Path(name).exists() and inside.is_dir() else name


def write_bundle(folder: Path, bundle: Bundle) -> None:
    """Each file atomically, the manifest last: without it the folder does not count as a bundle."""
    files = {
        WEIGHTS: safetensors.numpy.save(dict(bundle.weights)),
        CONFIG: write_toml(bundle.config).encode(),
        CARD: (json.dumps(dict(bundle.card), indent=2, ensure_ascii=False) + "\n").encode(),
        **bundle.codec.to_files(),
        **bundle.graphs,
        **({SHORTLIST: bundle.shortlist.to_bytes()} if bundle.shortlist else {}),
    }
    facts = {name: {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()} for name, raw in files.items()}
    manifest = {"format": FORMAT, "dragoman": __version__, "files": facts}
    with storage_errors(f"writing the model into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        for name, raw in files.items():
            write_atomically(folder / name, raw)
        write_atomically(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def read_bundle(folder: str | Path) -> Bundle:
    """Read and verify a bundle; every way in which it can be wrong has its own words."""
    folder = Path(_folder(str(folder)))
    files = {name: _verified(folder / name, facts) for name, facts in read_manifest(folder).items()}
    for name in (WEIGHTS, CONFIG):
        if name not in files:
            raise BundleError(f"{folder / MANIFEST} does not list {name}: the bundle is incomplete.")
    try:
        config = _config(files[CONFIG])
        codec = Codec.from_files(files, config.text.vocabulary)
        weights = safetensors.numpy.load(files[WEIGHTS])
        card = dict(json.loads(files.get(CARD, b"{}")))
        raw = files.get(SHORTLIST)
        shortlist = Shortlist.from_bytes(raw, codec.source, codec.target) if raw is not None else None
    except (ConfigError, BundleError) as error:
        raise BundleError(f"{folder}: {error}") from None
    except (ValueError, TypeError, safetensors.SafetensorError) as error:
        raise BundleError(f"{folder}: a file of the bundle cannot be read ({error}).") from None
    graphs = {name: raw for name, raw in files.items() if name in GRAPHS}
    return Bundle(config, codec, weights, card, graphs, files[WEIGHTS] if graphs else b"", shortlist)


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """The files that a bundle lists, with size and hash."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such model folder.")
    try:
        manifest = json.loads(path.read_bytes())
        version, files = manifest["format"], dict(manifest["files"])
    except FileNotFoundError:
        unfinished = (folder / "run.toml").exists()
        remedy = (
            "its training has not come to a validation yet: go on with dragoman train --resume."
            if unfinished
            else "not a model folder."
        )
        raise BundleError(f"{folder} holds no {MANIFEST}: {remedy}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path} cannot be read ({error}).") from None
    if version != FORMAT:
        raise BundleError(f"{path} has format {version!r}; dragoman {__version__} reads format {FORMAT}.")
    if unknown := sorted(files.keys() - KNOWN_FILES):
        raise BundleError(f"{path} lists {unknown[0]!r}, which is not part of a bundle.")
    return files


def _verified(path: Path, facts: Mapping[str, Any]) -> bytes:
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        raise BundleError(f"{path} is a link that leads out of the bundle.")
    try:
        raw = path.read_bytes()
        size, digest = int(facts["size"]), str(facts["sha256"])
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror}.") from None
    except (KeyError, TypeError, ValueError):
        raise BundleError(f"{path.parent / MANIFEST} says neither size nor hash of {path.name}.") from None
    if len(raw) != size:
        raise BundleError(f"{path} has {len(raw):,} bytes, its manifest says {size:,}: the file is damaged.")
    if hashlib.sha256(raw).hexdigest() != digest:
        raise BundleError(f"{path} does not match its SHA-256 in the manifest: the file is damaged.")
    return raw


def _config(raw: bytes) -> Config:
    return from_tree(tomllib.loads(raw.decode()))
