"""Named starting points: settings on top of the defaults.

The small ones train with Muon and linear decay to zero, which reaches the same loss in fewer steps
(docs/LOG.md). `base` and `big` are the models of "Attention Is All You Need", with Adam.
"""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "text.vocab_size": 4000,
        "model.d_model": 128, "model.num_heads": 4, "model.d_ff": 512,
        "model.num_encoder_layers": 2, "model.num_decoder_layers": 2, "model.norm_position": "pre",
        "training.batch_tokens": 1000, "training.max_steps": 3000,
        "training.optimizer": "muon", "training.schedule": "linear",
        "training.learning_rate": 4e-3, "training.warmup_steps": 100,
        "training.validate_every": 500, "training.checkpoint_every": 250,
    },
    "small": {
        "text.vocab_size": 8000,
        "model.d_model": 256, "model.num_heads": 4, "model.d_ff": 1024,
        "model.num_encoder_layers": 4, "model.num_decoder_layers": 4, "model.norm_position": "pre",
        "training.batch_tokens": 4000, "training.max_steps": 20_000,
        "training.optimizer": "muon", "training.schedule": "linear",
        "training.learning_rate": 4e-3, "training.warmup_steps": 1000,
    },
    "base": {
        "text.vocab_size": 37_000,
        "training.schedule": "noam", "training.learning_rate": 1.0, "training.clip_norm": 0.0,
    },
    "big": {
        "text.vocab_size": 37_000,
        "model.d_model": 1024, "model.num_heads": 16, "model.d_ff": 4096,
        "model.dropout": 0.3,
        "training.schedule": "noam", "training.learning_rate": 1.0, "training.clip_norm": 0.0,
        "training.max_steps": 300_000, "training.average_checkpoints": 20,
    },
}  # fmt: skip
# A deep encoder and a shallow decoder: less work per target piece (Kasai et al. 2021).
PRESETS |= {
    f"{name}-fast": PRESETS[name]
    | {"model.num_encoder_layers": encoder, "model.num_decoder_layers": 1}
    for name, encoder in {"tiny": 4, "small": 8, "base": 12}.items()
}
DEFAULT_PRESET = "small"
# Settings for fine-tuning: the rates of the presets would destroy what the model has learned.
FINE_TUNING: dict[str, Any] = {
    "training.schedule": "inverse-sqrt",
    "training.learning_rate": 2e-4,
    "training.warmup_steps": 200,
}
