"""Write a bundle as a folder that `transformers` loads.

MarianMT is the Transformer with the norm after the sublayer, sinusoidal positions, and one matrix
for all embeddings and the output. Pegasus is the same with the norm before the sublayer. Other
models are refused.
"""

import json
from pathlib import Path

import numpy as np
import torch

from dragoman.bundle.folder import Bundle
from dragoman.convert.marian import interleaved, layers_to_marian, refuse_unknown
from dragoman.errors import ConversionError, needs_package
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.text.languages import LANGUAGES_FILE

_LONGEST = 512  # positions in their table


def to_huggingface(bundle: Bundle, folder: Path) -> None:
    with needs_package("transformers", "convert"):
        from transformers import (
            GenerationConfig,
            MarianConfig,
            MarianMTModel,
            MarianTokenizer,
            PegasusConfig,
            PegasusForConditionalGeneration,
        )
    _refuse_unsupported(bundle)
    config = bundle.config.model
    make_config, make_model = (
        (MarianConfig, MarianMTModel)
        if config.norm_position == "post"
        else (PegasusConfig, PegasusForConditionalGeneration)
    )
    target = bundle.codec.target
    weights = bundle.float_weights()
    theirs = layers_to_marian(weights, config)
    # The features go back to their order: all sines, then all cosines.
    words = weights["source_embedding.words.weight"][:, np.argsort(interleaved(config.d_model))]
    theirs["final_logits_bias"] = weights.get(
        "output.bias", np.zeros(len(target), dtype=np.float32)
    )[None]
    their_config = make_config(
        vocab_size=len(target), d_model=config.d_model, activation_function=config.activation,
        encoder_layers=config.num_encoder_layers, decoder_layers=config.num_decoder_layers,
        encoder_attention_heads=config.num_heads, decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
        dropout=config.dropout, max_position_embeddings=_LONGEST, scale_embedding=True,
        pad_token_id=target.pad, eos_token_id=target.eos, decoder_start_token_id=target.bos,
    )  # fmt: skip
    model = make_model(their_config)
    # strict=False, because positions and shared embeddings are not among our weights.
    missing, unexpected = model.load_state_dict(
        {n: torch.from_numpy(a) for n, a in theirs.items()}, strict=False
    )
    assert not unexpected, unexpected
    assert all(
        "embed" in name or name in ("model.shared.weight", "lm_head.weight") for name in missing
    ), missing
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(torch.from_numpy(words))
    decoding = bundle.config.decoding
    model.generation_config = GenerationConfig(
        num_beams=decoding.beam_size, max_length=_LONGEST,
        # Pieces that our search never outputs.
        bad_words_ids=[[i] for i in sorted({*target.never})],
        pad_token_id=target.pad, eos_token_id=target.eos, decoder_start_token_id=target.bos,
    )  # fmt: skip
    with storage_errors(f"writing {folder}"):
        model.save_pretrained(folder)
        for name, raw in bundle.codec.to_files().items():
            if name.endswith(".spm"):
                # MarianTokenizer needs a file for each side, even if they are equal.
                for side in ("source.spm", "target.spm") if name == "shared.spm" else (name,):
                    write_atomically(folder / side, raw)
        write_atomically(folder / "vocab.json", json.dumps(target.ids, ensure_ascii=False).encode())
        write_atomically(folder / LANGUAGES_FILE, bundle.codec.languages.to_bytes())
        paths = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
        MarianTokenizer(*paths).save_pretrained(folder)


def _refuse_unsupported(bundle: Bundle) -> None:
    config, codec = bundle.config.model, bundle.codec
    refuse_unknown(config, "Hugging Face")
    vocabularies = "one vocabulary" if codec.shared else "two vocabularies"
    reasons = {
        f"text.tokenizer={bundle.config.text.tokenizer}": bundle.config.text.tokenizer == "word",
        f"model.positions.kind={config.positions.kind}": config.positions.kind != "sinusoidal",
        f"model.positions.base={config.positions.base}": config.positions.base != 10000.0,
        f"model.share_embeddings={config.share_embeddings} with {vocabularies}": (
            config.share_embeddings not in ("all", "auto")
            or (config.share_embeddings == "auto" and not codec.shared)
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise ConversionError(
                "MarianMT and Pegasus are Transformers with sinusoidal positions and one embedding "
                f"for both languages; this model has {reason}."
            )
