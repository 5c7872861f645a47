"""Write a bundle as a folder that `ctranslate2.Translator` opens, with the SentencePiece models.

Its vocabulary consists of our pieces. Sources must end with `</s>`, as `Codec.encode_source`
returns them.
"""

from pathlib import Path
from typing import Any

import numpy as np

from dragoman.bundle.folder import Bundle
from dragoman.bundle.plain_weights import sinusoids
from dragoman.config import ModelConfig
from dragoman.convert.marian import refuse_unknown
from dragoman.errors import needs_package
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.languages import LANGUAGES_FILE

_LONGEST = 2048  # positions in CTranslate2's table; longer inputs are refused


def to_ctranslate2(bundle: Bundle, folder: Path) -> None:
    with needs_package("ctranslate2", "convert"):
        import ctranslate2.specs as specs
    config = bundle.config.model
    weights = bundle.float_weights()
    refuse_unknown(config, "CTranslate2")
    activation = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}[config.activation]
    spec = specs.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers), config.num_heads,
        pre_norm=config.norm_position == "pre", activation=getattr(specs.common_spec.Activation,
        activation),
    )  # fmt: skip
    source = weights["source_embedding.words.weight"]
    target = weights.get("target_embedding.words.weight", source)
    _stack(spec.encoder, config, weights, "encoder", source)
    _stack(spec.decoder, config, weights, "decoder", target)
    spec.decoder.projection.weight = weights.get("output.weight", target)
    if "output.bias" in weights:
        spec.decoder.projection.bias = weights["output.bias"]
    spec.register_source_vocabulary(list(bundle.codec.source.pieces))
    spec.register_target_vocabulary(list(bundle.codec.target.pieces))
    pieces = bundle.codec.target.pieces
    spec.config.unk_token = pieces[bundle.codec.target.unk]
    spec.config.eos_token = pieces[bundle.codec.target.eos]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[bundle.codec.target.bos]
    # We add special pieces ourselves.
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    with storage_errors(f"writing {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        spec.save(str(folder))
        for name, raw in bundle.codec.to_files().items():
            if name != LANGUAGES_FILE:
                write_atomically(folder / name, raw)


def _stack(
    spec: Any, config: ModelConfig, weights: dict[str, np.ndarray], name: str, words: np.ndarray
) -> None:
    """Fill in the encoder or the decoder: embeddings, positions, layers, and the last norm."""
    side = "source" if name == "encoder" else "target"
    embeddings = spec.embeddings[0] if name == "encoder" else spec.embeddings
    embeddings.weight = words
    # Multiply by √D, as our model does.
    spec.scale_embeddings = True
    # CTranslate2's own positions begin at 1 and have other wavelengths.
    table = weights.get(f"{side}_embedding.positions.table")
    spec.position_encodings.encodings = (
        sinusoids(_LONGEST, config.d_model, config.positions.base) if table is None else table
    )
    if config.norm_position == "pre":
        _norm(spec.layer_norm, weights, f"{name}_norm")
    for number, layer in enumerate(spec.layer):
        ours = f"{name}.{number}"
        _linear(layer.self_attention.linear[0], weights, f"{ours}.attention.project.to_qkv")
        _linear(layer.self_attention.linear[1], weights, f"{ours}.attention.project.to_out")
        _norm(layer.self_attention.layer_norm, weights, f"{ours}.around_attention.norm")
        if name == "decoder":
            # CTranslate2 has one matrix for the queries, and one for keys and values.
            qkv, queries = f"{ours}.cross.project.to_qkv", config.d_model
            _linear(layer.attention.linear[0], weights, qkv, slice(queries))
            _linear(layer.attention.linear[1], weights, qkv, slice(queries, None))
            _linear(layer.attention.linear[2], weights, f"{ours}.cross.project.to_out")
            _norm(layer.attention.layer_norm, weights, f"{ours}.around_cross.norm")
        _linear(layer.ffn.linear_0, weights, f"{ours}.feed_forward.inner")
        _linear(layer.ffn.linear_1, weights, f"{ours}.feed_forward.outer")
        _norm(layer.ffn.layer_norm, weights, f"{ours}.around_feed_forward.norm")


def _linear(
    spec: Any, weights: dict[str, np.ndarray], name: str, rows: slice = slice(None)
) -> None:
    spec.weight, spec.bias = weights[f"{name}.weight"][rows], weights[f"{name}.bias"][rows]


def _norm(spec: Any, weights: dict[str, np.ndarray], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
