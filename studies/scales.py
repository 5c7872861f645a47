"""How large the studies are: minutes on two CPU cores, or a GPU's quarter of an hour."""

from typing import Any

from dragoman.lab.compare.systems import Scale, System

_COMMON: dict[str, Any] = {
    "model.norm_position": "pre", "data.max_length": 200, "data.valid_size": 0,
    "decoding.beam_size": 1, "decoding.max_length_ratio": 1.5, "decoding.max_length_extra": 10,
    "training.optimizer": "adam", "training.schedule": "linear", "training.patience": 0,
    "training.average_checkpoints": 1, "training.log_every": 1_000_000,
}  # fmt: skip
QUICK = Scale(
    name="quick",
    flops=4.5e10,
    settings={
        **_COMMON,
        "text.vocab_size": 500, "model.d_model": 64, "model.num_heads": 4, "model.d_ff": 128,
        "model.num_encoder_layers": 2, "model.num_decoder_layers": 2, "model.dropout": 0.0,
        "training.batch_tokens": 80, "training.learning_rate": 3e-3,
    },
    test_pairs=150,
    valid_pairs=40,
    toy_pairs=8000,
    validations=2,
    budgets=(0.08, 0.22),
    rates=(3e-3,),
    seeds=2,
    corpora=(500,),
    dropouts=(0.0,),
    patience=2,
)  # fmt: skip
FULL = Scale(
    name="full",
    flops=4e14,
    settings={
        **_COMMON,
        "text.vocab_size": 8000, "model.d_model": 256, "model.num_heads": 4, "model.d_ff": 1024,
        "model.num_encoder_layers": 3, "model.num_decoder_layers": 3, "model.dropout": 0.1,
        "training.batch_tokens": 8000, "training.learning_rate": 1.5e-3,
    },
    test_pairs=2000,
    valid_pairs=400,
    toy_pairs=100_000,
    validations=2,
    budgets=(0.15, 0.6, 2.4, 9.6),
    rates=(1e-3, 2.5e-3, 6e-3, 1.5e-2),
    finalists=2,
    seeds=5,
    corpora=(5_000, 20_000),
    dropouts=(0.1, 0.3),
)  # fmt: skip


def architecture(name: str, share: float = 1.0, corpus: str = "all") -> System:
    """One of the table's systems; with another corpus it bears that corpus in its name."""
    called = name if corpus == "all" else f"{name}.{corpus}"
    return System(called, {"model.architecture": name}, corpus, share, corpus == "all")


def variant(name: str, share: float = 1.0, corpus: str = "all", **settings: Any) -> System:
    """The Transformer with other settings: `model__norm_position="post"` sets that key."""
    return System(
        name, {key.replace("__", "."): value for key, value in settings.items()}, corpus, share
    )
