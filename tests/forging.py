"""Forge model folders: copies of the kept bundle with a matching manifest, and MarianMT folders."""

import hashlib
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from dragoman.config import ModelConfig
from dragoman.convert.marian import layers_of_marian
from dragoman.text.subword import BytePairs

KEPT = Path(__file__).parent / "kept" / "format-1"
SAID = json.loads((KEPT.parent / "format-1.said.json").read_text())
PATIENCE_S = 60  # for what must not hang: long, because a busy machine is slow


def copy_of_kept(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(KEPT, folder))


def forge(folder: Path, name: str, raw: bytes) -> None:
    """Write a file of a bundle, and its size and hash into the manifest."""
    (folder / name).write_bytes(raw)
    manifest = json.loads((KEPT / "manifest.json").read_text())
    listed = folder / "manifest.json"
    if listed.is_file():
        manifest = json.loads(listed.read_text())
    manifest["files"][name] = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    listed.write_text(json.dumps(manifest))


def change_json(folder: Path, name: str, **changes: Any) -> None:
    raw = json.dumps({**json.loads((folder / name).read_bytes()), **changes}).encode()
    if name == "manifest.json":
        (folder / name).write_bytes(raw)
    else:
        forge(folder, name, raw)


def change_settings(folder: Path, old: str, new: str) -> None:
    text = (folder / "config.toml").read_text()
    assert old in text
    forge(folder, "config.toml", text.replace(old, new).encode())


@contextmanager
def nothing_hangs() -> Iterator[None]:
    """Fail a test that waits forever."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def marian_folder(folder: Path) -> Path:
    """A small MarianMT folder as `transformers` writes one, with random weights."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spm = (KEPT / "shared.spm").read_bytes()
    pieces = [*BytePairs(spm).vocabulary.pieces[4:60], "</s>", "<unk>", "<pad>"]
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": len(pieces)}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_attention_heads": 2, f"{side}_ffn_dim": 32}
    pad = len(pieces) - 1
    settings = {
        "model_type": "marian",
        "activation_function": "swish",
        "scale_embedding": True,
        **sizes,
    }
    settings |= {"pad_token_id": pad, "decoder_start_token_id": pad, "max_position_embeddings": 64}
    config = ModelConfig(
        d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1
    )
    draw = np.random.default_rng(1)
    shapes = {
        "model.shared.weight": (len(pieces), 16),
        "final_logits_bias": (1, len(pieces)),
        **layers_of_marian(config),
    }
    weights = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "de", "target_lang": "en"})
    )
    (folder / "model.safetensors").write_bytes(safetensors.numpy.save(weights))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(spm)
    return folder
