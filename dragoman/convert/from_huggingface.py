"""A MarianMT folder, such as the OPUS-MT translators, as a bundle.

It holds `config.json`, `source.spm`, `target.spm`, `vocab.json`, and weights in `model.safetensors` or
`pytorch_model.bin`; the latter is the one pickle that dragoman ever reads, and of it tensors alone.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from dragoman.bundle import Bundle
from dragoman.config import Config, make_config
from dragoman.convert.marian import interleaved, layers_from_marian
from dragoman.errors import ConversionError, needs_torch
from dragoman.model.sinusoids import sinusoids
from dragoman.text.codec import Codec, Languages
from dragoman.text.subword import MarianPieces

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
MUST_BE = {  # settings of older folders that change the model
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}


def from_huggingface(folder: Path) -> Bundle:
    settings = _read_json(folder, "config.json")
    if (folder / "generation_config.json").exists():  # where newer folders keep what concerns search
        settings = _read_json(folder, "generation_config.json") | settings
    _refuse_what_we_cannot(folder, settings)
    pieces = _pieces(folder, settings)
    theirs, scaled, width = _weights(folder), bool(settings.get("scale_embedding")), int(settings["d_model"])
    bias = theirs.get("final_logits_bias", np.zeros((1, len(pieces)), dtype=np.float32))[0]
    words = theirs["model.shared.weight"][:, interleaved(width)]
    if words.shape[0] != len(pieces):
        raise ConversionError(f"{folder}: {words.shape[0]} embeddings and {len(pieces)} pieces do not go together.")
    try:
        weights = layers_from_marian(theirs, settings["encoder_layers"], settings["decoder_layers"], width)
    except KeyError as error:
        raise ConversionError(f"{folder}: weight {error} is missing.") from None
    weights["source_embedding.words.weight"] = words
    if not scaled:  # we always multiply by √D
        smaller = words / np.float32(width**0.5)
        weights |= {f"{side}_embedding.words.weight": smaller for side in ("source", "target")}
        weights["output.weight"] = words
    if bias.any():
        weights["output.bias"] = bias
    config = _config(settings, tied="all" if scaled else "none", output_bias=bool(bias.any()))
    spm = [_read(folder, name) for name in ("source.spm", "target.spm")]
    languages = _languages(folder, pieces)
    codec = Codec(MarianPieces(spm[0], pieces), MarianPieces(spm[1], pieces), languages)
    card = {
        "from": list(languages.sources),
        "to": list(languages.targets),
        "converted_from": f"MarianMT, {folder.name}",
        "parameters": sum(array.size for array in weights.values()),
    }
    contiguous = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}
    return Bundle(config, codec, contiguous, card)


def _config(settings: dict[str, Any], tied: str, output_bias: bool) -> Config:
    return make_config(
        "base",
        settings={
            "text.vocabulary": "marian",
            "model.width": settings["d_model"],
            "model.heads": settings["encoder_attention_heads"],
            "model.feed_forward_width": settings["encoder_ffn_dim"],
            "model.encoder_layers": settings["encoder_layers"],
            "model.decoder_layers": settings["decoder_layers"],
            "model.activation": ACTIVATIONS[settings["activation_function"]],
            "model.dropout": float(settings.get("dropout", 0.1)),
            "model.tied": tied,
            "model.output_bias": output_bias,
            "decoding.beam": settings.get("num_beams", 4),
            "decoding.length_penalty": "power",
            "decoding.alpha": float(settings.get("length_penalty", 1.0)),
            "decoding.max_source_length": settings.get("max_position_embeddings", 512),
        },
    )


def _refuse_what_we_cannot(folder: Path, settings: dict[str, Any]) -> None:
    if settings.get("model_type") != "marian":
        raise ConversionError(f"{folder} holds a model of type {settings.get('model_type')!r}, not of type 'marian'.")
    for name, wanted in MUST_BE.items():
        if settings.get(name, wanted) != wanted:
            raise ConversionError(f"{folder}: {name}={settings[name]} is a kind of MarianMT that dragoman has not.")
    for name in ("attention_heads", "ffn_dim"):
        both = settings[f"encoder_{name}"], settings[f"decoder_{name}"]
        if both[0] != both[1]:
            raise ConversionError(f"{folder}: encoder and decoder differ in {name}, {both[0]} and {both[1]}.")
    if settings.get("activation_function") not in ACTIVATIONS:
        raise ConversionError(f"{folder}: activation {settings.get('activation_function')!r} is unknown.")
    if settings.get("decoder_start_token_id") != settings.get("pad_token_id"):
        raise ConversionError(f"{folder}: targets do not begin with <pad>, as MarianMT's do.")


def _pieces(folder: Path, settings: dict[str, Any]) -> list[str]:
    """In the order of their ids; numbers that no piece has are kept free."""
    pieces = [f"<free {i}>" for i in range(int(settings["vocab_size"]))]
    for piece, number in _read_json(folder, "vocab.json").items():
        if not 0 <= int(number) < len(pieces):
            raise ConversionError(f"{folder / 'vocab.json'}: {piece!r} has number {number} of {len(pieces)}.")
        pieces[int(number)] = piece
    return pieces


def _languages(folder: Path, pieces: list[str]) -> Languages:
    """From the tags, where a model has several targets; else from the tokenizer's settings, which may say nothing."""
    tags = tuple(piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<"))
    told = _read_json(folder, "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    source, target = (told.get(key) or "" for key in ("source_lang", "target_lang"))
    return Languages((source,) if source else (), tags if len(tags) > 1 else ((target,) if target else ()))


def _weights(folder: Path) -> dict[str, np.ndarray]:
    if (folder / "model.safetensors").exists():
        try:
            found = dict(safetensors.numpy.load(_read(folder, "model.safetensors")))
        except safetensors.SafetensorError as error:
            raise ConversionError(f"{folder / 'model.safetensors'} cannot be read ({error}).") from None
    elif (folder / "pytorch_model.bin").exists():
        with needs_torch():
            import torch
        try:
            tensors = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
        except Exception as error:  # unpickling fails in as many ways as there are files
            raise ConversionError(f"{folder / 'pytorch_model.bin'} cannot be read ({error}).") from None
        found = {name: tensor.float().numpy() for name, tensor in tensors.items()}
    else:
        raise ConversionError(f"{folder} holds neither model.safetensors nor pytorch_model.bin.")
    weights = {name: array.astype(np.float32) for name, array in found.items()}
    if "model.shared.weight" not in weights and "lm_head.weight" in weights:
        weights["model.shared.weight"] = weights["lm_head.weight"]
    for side in ("encoder", "decoder"):
        _check_positions(folder, weights.get(f"model.{side}.embed_positions.weight"))
    return weights


def _check_positions(folder: Path, table: np.ndarray | None) -> None:
    """Some folders store them; they must be the sinusoids that everybody computes."""
    if table is not None:
        ours = sinusoids(len(table), table.shape[1])
        if np.abs(table[:, interleaved(table.shape[1])] - ours).max() > 1e-2:  # half precision is coarse
            raise ConversionError(f"{folder}: its positions are not sinusoidal.")


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise ConversionError(f"{folder / name}: {error.strerror}.") from None


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        return dict(json.loads(_read(folder, name)))
    except (ValueError, TypeError) as error:
        raise ConversionError(f"{folder / name} cannot be read ({error}).") from None
