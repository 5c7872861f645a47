"""Names that settings and their values had in earlier versions.

Every reader of settings (TOML files, `--set`, bundles, run folders) passes through
`with_current_names`, so old files keep working. A setting never moves to another table.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.errors import ConfigError

# By table: old key -> current key
OLD_KEYS: dict[str, dict[str, str]] = {
    "text": {
        "vocabulary": "tokenizer",
        "size": "vocab_size",
        "dropout": "bpe_dropout",
        "coverage": "character_coverage",
        "normalisation": "normalization",
    },
    "model": {
        "width": "d_model",
        "heads": "num_heads",
        "feed_forward_width": "d_ff",
        "encoder_layers": "num_encoder_layers",
        "decoder_layers": "num_decoder_layers",
        "norm": "norm_position",
        "norm_kind": "norm_type",
        "decoder_sublayer": "decoder_self_attention",
        "tied": "share_embeddings",
    },
    "model.attention": {"span": "pattern", "memory": "cross_attention_layer"},
    "training": {
        "consistency": "r_drop_alpha",
        "risk_samples": "mrt_samples",
        "risk_sharpness": "mrt_sharpness",
        "risk_likelihood": "mrt_likelihood",
        "optimiser": "optimizer",
        "validation_beam": "validation_beam_size",
        "average": "average_checkpoints",
    },
    "decoding": {
        "beam": "beam_size",
        "alpha": "length_penalty_alpha",
        "no_repeat_ngram": "no_repeat_ngram_size",
        "shrinking_beam": "shrink_beam_on_eos",
        "by_sentence": "split_sentences",
    },
}
# By current setting: old value -> current value
OLD_VALUES: dict[str, dict[str, str]] = {
    "model.attention.heads_layout": {"shared": "multi-query"},
    "training.objective": {"risk": "mrt"},
}


def with_current_names(tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return nested tables of settings with old keys and values replaced by the current ones.

    >>> with_current_names({"model": {"width": 256}, "training": {"objective": "risk"}})
    {'model': {'d_model': 256}, 'training': {'objective': 'mrt'}}
    """
    new_keys = OLD_KEYS.get(path, {})
    current: dict[str, Any] = {}
    for old_key, value in tree.items():
        key = new_keys.get(old_key, old_key)
        name = f"{path}.{key}" if path else key
        # Two spellings of one setting have no order that could decide between them.
        if key in current or (key != old_key and key in tree):
            raise ConfigError(
                f"{path}.{old_key} is the old name of {name}: set only one of the two."
            )
        # Only known tables are followed: a stranger's file may be nested without end.
        if isinstance(value, Mapping) and _has_old_names(name):
            value = with_current_names(value, name)
        elif isinstance(value, str):
            value = OLD_VALUES.get(name, {}).get(value, value)
        current[key] = value
    return current


def _has_old_names(table: str) -> bool:
    known = (*OLD_KEYS, *OLD_VALUES)
    return any(one == table or one.startswith(f"{table}.") for one in known)
