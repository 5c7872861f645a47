"""Settings: defined, documented, checked against each other, read and written."""

from dragoman.config.schema import (
    MOST_HYPOTHESES,
    Config,
    Corpus,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    TextConfig,
    TrainingConfig,
    beyond_plain,
    by_current_name,
    describe_settings,
    explicit_settings,
    flatten,
    from_tree,
    make_config,
    model_summary,
    parse_set,
    replace,
    write_toml,
)

__all__ = [
    "MOST_HYPOTHESES", "Config", "Corpus", "DataConfig", "DecodingConfig", "ModelConfig",
    "TextConfig", "TrainingConfig", "beyond_plain", "by_current_name", "describe_settings",
    "explicit_settings", "flatten", "from_tree", "make_config", "model_summary", "parse_set",
    "replace", "write_toml",
]  # fmt: skip
