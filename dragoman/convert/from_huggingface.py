"""A MarianMT folder, such as the OPUS-MT translators, as a bundle; or what `to_huggingface` wrote.

It holds `config.json`, `source.spm`, `target.spm`, `vocab.json`, and weights in `model.safetensors`
or `pytorch_model.bin`; the latter is the one pickle that dragoman ever reads, and of it tensors
alone.

Anybody may have written such a folder. Sizes that `config.json` names are compared with the weights
before anything of these sizes is made, and links may lead into a Hugging Face cache only.
"""

import io
import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.bundle import LARGEST_VOCABULARY, Bundle, read_tensors
from dragoman.config import Config, make_config, replace
from dragoman.convert.marian import interleaved, layers_from_marian, layers_of_marian
from dragoman.errors import BundleError, ConfigError, ConversionError, needs_torch
from dragoman.plain_weights import Shape, check_plain_weights, sinusoids
from dragoman.text.codec import Codec
from dragoman.text.languages import LANGUAGES_FILE, Languages
from dragoman.text.subword import BytePairs, MarianPieces
from dragoman.untrusted import leads_out, memory_bytes, parsed_json, read_regular

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
_MUST_BE = {  # settings of older folders that change the model
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
_SAFETENSORS, _PICKLE = "model.safetensors", "pytorch_model.bin"
_EMBEDDINGS, _OUTPUT, _BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"


# how `transformers` calls what we can read, and how people do
_TYPES = {"marian": "MarianMT", "pegasus": "Pegasus"}
_LARGEST_LANGUAGES = 2**16  # bytes


def from_huggingface(folder: Path) -> Bundle:
    try:
        return _read_folder(folder)
    except (ConfigError, BundleError) as error:
        raise ConversionError(f"{folder}: {error}") from None


def _read_folder(folder: Path) -> Bundle:
    settings = _read_json(folder, "config.json")
    # where newer folders keep what concerns search
    if (folder / "generation_config.json").exists():
        settings = _read_json(folder, "generation_config.json") | settings
    _refuse_what_we_cannot(folder, settings)
    scaled = bool(settings.get("scale_embedding"))
    config = _config(settings, tied="all" if scaled else "none")
    theirs = _weights(folder, config)
    pieces = _pieces(folder, settings, len(theirs[_EMBEDDINGS]))
    weights = layers_from_marian(theirs, config.model)
    words = theirs[_EMBEDDINGS][:, interleaved(config.model.width)]
    weights["source_embedding.words.weight"] = words
    if not scaled:  # we always multiply by √D
        smaller = words / np.float32(config.model.width**0.5)
        weights |= {f"{side}_embedding.words.weight": smaller for side in ("source", "target")}
        weights["output.weight"] = words
    if _BIAS in theirs and theirs[_BIAS].any():
        weights["output.bias"] = theirs[_BIAS][0]
        config = _config(settings, tied="all" if scaled else "none", output_bias=True)
    codec = _codec(folder, settings, pieces)
    if isinstance(codec.source_segmenter, BytePairs):
        config = replace(config, {"text.vocabulary": "bpe", "text.size": len(pieces)})
    languages = codec.languages
    card = {
        "from": list(languages.sources),
        "to": list(languages.targets),
        "converted_from": f"{_TYPES[settings['model_type']]}, {folder.name}",
        "parameters": sum(array.size for array in weights.values()),
    }
    contiguous = {
        name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()
    }
    check_plain_weights(contiguous, config.model, len(pieces), len(pieces), codec.shared)
    return Bundle(config, codec, contiguous, card)


def _config(settings: dict[str, Any], tied: str, output_bias: bool = False) -> Config:
    return make_config(
        "base",
        settings={
            "text.vocabulary": "marian",
            "model.width": settings.get("d_model"),
            "model.heads": settings.get("encoder_attention_heads"),
            "model.feed_forward_width": settings.get("encoder_ffn_dim"),
            "model.encoder_layers": settings.get("encoder_layers"),
            "model.decoder_layers": settings.get("decoder_layers"),
            "model.activation": ACTIVATIONS[settings["activation_function"]],
            "model.dropout": settings.get("dropout", 0.1),
            "model.norm": "post" if settings["model_type"] == "marian" else "pre",
            "model.tied": tied,
            "model.output_bias": output_bias,
            "decoding.beam": settings.get("num_beams", 4),
            "decoding.length_penalty": "power",
            "decoding.alpha": settings.get("length_penalty", 1.0),
            "decoding.max_source_length": settings.get("max_position_embeddings", 512),
        },
    )


def _refuse_what_we_cannot(folder: Path, settings: dict[str, Any]) -> None:
    if settings.get("model_type") not in list(_TYPES):
        raise ConversionError(
            f"{folder} holds a model of type {settings.get('model_type')!r}, not of type 'marian'."
        )
    marian = settings["model_type"] == "marian"
    for name, wanted in _MUST_BE.items() if marian else ():
        if settings.get(name, wanted) != wanted:
            raise ConversionError(
                f"{folder}: dragoman does not support a MarianMT with {name}={settings[name]}."
            )
    for name in ("attention_heads", "ffn_dim"):
        both = settings.get(f"encoder_{name}"), settings.get(f"decoder_{name}")
        if both[0] != both[1]:
            raise ConversionError(
                f"{folder}: encoder and decoder differ in {name}, {both[0]} and {both[1]}."
            )
    if settings.get("activation_function") not in list(ACTIVATIONS):
        raise ConversionError(
            f"{folder}: activation {settings.get('activation_function')!r} is unknown."
        )


def _pieces(folder: Path, settings: dict[str, Any], count: int) -> list[str]:
    """In the order of their ids; numbers that no piece has are kept free.

    `count`: how many have an embedding.
    """
    if settings.get("vocab_size") != count:
        raise ConversionError(
            f"{folder}: vocab_size is {settings.get('vocab_size')}, but there are {count} "
            f"embeddings."
        )
    pieces = [f"<free {i}>" for i in range(count)]
    for piece, number in _read_json(folder, "vocab.json").items():
        if type(number) is not int or not 0 <= number < count:
            raise ConversionError(
                f"{folder / 'vocab.json'}: a piece has a number outside 0 to {count - 1}."
            )
        pieces[number] = piece
    return pieces


def _codec(folder: Path, settings: dict[str, Any], pieces: list[str]) -> Codec:
    """Targets begin with `<pad>` in MarianMT, and with `<s>` in what we exported ourselves.

    There both sides have one SentencePiece model, and ids are its own numbers.
    """
    spm = [_read(folder, name, LARGEST_VOCABULARY) for name in ("source.spm", "target.spm")]
    languages = _languages(folder, pieces)
    start = settings.get("decoder_start_token_id")
    if start == settings.get("pad_token_id"):
        return Codec(MarianPieces(spm[0], pieces), MarianPieces(spm[1], pieces), languages)
    ours = BytePairs(spm[0])
    same = spm[0] == spm[1] and ours.vocabulary.pieces == tuple(pieces)
    if not same or start != ours.vocabulary.bos:
        raise ConversionError(f"{folder}: targets do not begin with <pad>, as MarianMT's do.")
    return Codec(ours, ours, languages)


def _languages(folder: Path, pieces: list[str]) -> Languages:
    """From our own file if we exported the model, from the tags if it has several targets; else
    from the tokenizer's settings, which may say nothing."""
    if (folder / LANGUAGES_FILE).exists():
        return Languages.from_bytes(_read(folder, LANGUAGES_FILE, _LARGEST_LANGUAGES))
    tags = tuple(piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<"))
    named = (
        _read_json(folder, "tokenizer_config.json")
        if (folder / "tokenizer_config.json").exists()
        else {}
    )
    source, target = (named.get(key) or "" for key in ("source_lang", "target_lang"))
    return Languages(
        (source,) if source else (), tags if len(tags) > 1 else ((target,) if target else ())
    )


def _weights(folder: Path, config: Config) -> dict[str, np.ndarray]:
    """Those of a MarianMT model of these sizes, in float32; any others are left in the file."""
    there = [name for name in (_SAFETENSORS, _PICKLE) if (folder / name).exists()]
    if not there:
        raise ConversionError(f"{folder} holds neither {_SAFETENSORS} nor {_PICKLE}.")
    name = there[0]
    raw = _read(folder, name, memory_bytes() // 2)
    found = read_tensors(raw) if name == _SAFETENSORS else _unpickled(folder, raw)
    words = found.get(_EMBEDDINGS, found.get(_OUTPUT))
    if words is None:
        raise ConversionError(f"{folder}: weight {_EMBEDDINGS} is missing.")
    wanted = {
        _EMBEDDINGS: (len(words), config.model.width),
        _BIAS: (1, len(words)),
        **layers_of_marian(config.model),
    }
    # A pickle may hold one small tensor under many names. Twice for half precision, thrice for
    # embeddings.
    if 4 * sum(map(math.prod, wanted.values())) > 6 * len(raw):
        raise ConversionError(
            f"{folder}: {name} is too small for a model of the sizes that config.json names."
        )
    found = {_EMBEDDINGS: words, **found}
    weights = {
        name: _of_shape(folder, name, found.get(name), shape)
        for name, shape in wanted.items()
        if name != _BIAS
    }
    if _BIAS in found:
        weights[_BIAS] = _of_shape(folder, _BIAS, found[_BIAS], wanted[_BIAS])
    for side in ("encoder", "decoder"):
        _check_positions(
            folder, found.get(f"model.{side}.embed_positions.weight"), config.model.width
        )
    return weights


def _of_shape(folder: Path, name: str, array: np.ndarray | None, shape: Shape) -> np.ndarray:
    if array is None:
        raise ConversionError(f"{folder}: weight {name} is missing.")
    if array.shape != shape:
        raise ConversionError(
            f"{folder}: weight {name} has shape {array.shape}, but config.json says {shape}."
        )
    return array.astype(np.float32)


def _unpickled(folder: Path, raw: bytes) -> dict[str, np.ndarray]:
    """The tensors of a pickle.

    Nothing else is made of it, and no tensor is larger than the file.
    """
    with needs_torch():
        import torch
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ConversionError(
                    f"{folder / _PICKLE} is compressed, which PyTorch's files are not."
                )
    except zipfile.BadZipFile:  # as PyTorch wrote it before 1.6
        pass
    try:
        # of pickles that PyTorch did not write; what counts is said below
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensors = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
        plain = {
            str(name): tensor
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor)
        }
    except Exception as error:  # unpickling fails in as many ways as there are files
        raise ConversionError(f"{folder / _PICKLE} cannot be read ({error}).") from None
    for name, tensor in plain.items():
        # One number, repeated by strides of 0, can pretend to be a matrix of any size.
        if tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.nbytes > len(raw):
            raise ConversionError(f"{folder}: weight {name} is larger than its stored data.")
    return {name: tensor.float().numpy() for name, tensor in plain.items()}


def _check_positions(folder: Path, table: np.ndarray | None, width: int) -> None:
    """Some folders store them; they must be the sinusoids that everybody computes."""
    if table is None:
        return
    if table.ndim != 2 or table.shape[1] != width:
        raise ConversionError(
            f"{folder}: its positions have shape {table.shape}, but the model has width {width}."
        )
    ours = sinusoids(len(table), width)
    # half precision is coarse
    if not np.abs(table[:, interleaved(width)] - ours).max(initial=0) <= 1e-2:
        raise ConversionError(f"{folder}: its positions are not sinusoidal.")


def _read(folder: Path, name: str, limit: int) -> bytes:
    path = folder / name
    if leads_out(path, folder) and not _in_cache(path, folder):
        raise ConversionError(f"{path} is a link that leads out of the folder.")
    try:
        return read_regular(path, limit)
    except OSError as error:
        raise ConversionError(f"{path}: {error.strerror}.") from None


def _in_cache(path: Path, folder: Path) -> bool:
    """Whether a link leads to where Hugging Face's cache keeps files.

    That is MODEL/snapshots/REVISION/x -> MODEL/blobs/y.
    """
    revisions = Path(os.path.realpath(folder)).parent
    target = Path(os.path.realpath(path))
    return revisions.name == "snapshots" and target.parent == revisions.parent / "blobs"


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        return dict(parsed_json(_read(folder, name, LARGEST_VOCABULARY)))
    except (ValueError, TypeError) as error:
        raise ConversionError(f"{folder / name} cannot be read ({error}).") from None
