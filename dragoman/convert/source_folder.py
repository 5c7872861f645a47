"""Read the untrusted folder of another system.

Files are read whole, up to a limit. Pipes, devices and links that lead out of the folder are
refused, except links into a Hugging Face cache.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.bundle.folder import LARGEST_VOCABULARY, Bundle
from dragoman.bundle.plain_weights import Shape, check_plain_weights
from dragoman.config import Config
from dragoman.errors import ConversionError
from dragoman.storage.safe_read import escapes_folder, memory_bytes, parse_json, read_regular
from dragoman.text.codec import Codec


class SourceFolder:
    """A folder of another system's model, and the checks of what is read from it."""

    def __init__(self, path: Path):
        self.path = path
        if not path.is_dir():
            raise ConversionError(f"{path}: no such folder.")

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def first(self, *names: str) -> str | None:
        """Return the first of these files that exists."""
        return next((name for name in names if self.has(name)), None)

    def read(self, name: str, limit: int = LARGEST_VOCABULARY) -> bytes:
        path = self.path / name
        # A link could point to a private file of the user.
        if escapes_folder(path, self.path) and not _in_cache(path, self.path):
            raise ConversionError(f"{path} is a link that leads out of the folder.")
        try:
            return read_regular(path, limit)
        except OSError as error:
            raise ConversionError(f"{path}: {error.strerror}.") from None

    def read_weights(self, name: str) -> bytes:
        """Read a file of weights, which may take half of the memory: a copy must fit, too."""
        return self.read(name, memory_bytes() // 2)

    def read_json(self, name: str) -> dict[str, Any]:
        try:
            return dict(parse_json(self.read(name)))
        except (ValueError, TypeError) as error:
            raise ConversionError(f"{self.path / name} cannot be read ({error}).") from None

    def settings(self, *names: str) -> dict[str, Any]:
        """Merge several JSON files, as far as they exist; later ones win."""
        settings = dict[str, Any]()
        for name in names:
            settings |= self.read_json(name) if self.has(name) else {}
        return settings

    def require(self, settings: Mapping[str, Any], supported: Mapping[str, Any]) -> None:
        """Raise a ConversionError if a setting differs from its only supported value."""
        for name, value in supported.items():
            # A missing setting has its default, which is the supported value.
            if settings.get(name, value) != value:
                raise ConversionError(
                    f"{self.path}: dragoman does not support {name}={settings[name]!r}."
                )

    def checked(self, name: str, array: np.ndarray | None, shape: Shape) -> np.ndarray:
        """Return a weight in float32; raise a ConversionError unless it has the expected shape."""
        if array is None:
            raise ConversionError(f"{self.path}: weight {name} is missing.")
        if array.shape != shape:
            raise ConversionError(
                f"{self.path}: weight {name} has shape {array.shape}, but its settings say {shape}."
            )
        return array.astype(np.float32)

    def to_bundle(
        self, system: str, config: Config, codec: Codec, weights: Mapping[str, np.ndarray]
    ) -> Bundle:
        """Return the bundle, if weights, pieces and settings fit together."""
        codec.check_tags()
        sides = len(codec.source), len(codec.target)
        # A mistake of the converter shows here, and not as a bad translation.
        check_plain_weights(weights, config.model, *sides, codec.shared)
        card = {
            "from": list(codec.languages.sources),
            "to": list(codec.languages.targets),
            "converted_from": f"{system}, {self.path.name}",
            "parameters": sum(array.size for array in weights.values()),
        }
        return Bundle(config, codec, weights, card)


def _in_cache(path: Path, folder: Path) -> bool:
    """True if a link leads to a blob of Hugging Face's cache: MODEL/snapshots/REVISION/x to
    MODEL/blobs/y.
    """
    revisions = Path(os.path.realpath(folder)).parent
    target = Path(os.path.realpath(path))
    return revisions.name == "snapshots" and target.parent == revisions.parent / "blobs"
