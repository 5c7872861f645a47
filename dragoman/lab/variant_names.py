"""The names of the lab's variants, with their rules, for the tables of `config/variants.py`.

The code is in the modules that the entries name; it is imported when a model is built.
"""

from collections.abc import Iterator

from dragoman.config.variants import (
    ARCHITECTURES,
    BLOCK,
    HEADS_LAYOUTS,
    JOINS,
    NEURAL,
    OBJECTIVES,
    POSITIONS,
    SIMILARITIES,
    SPANS,
    Architecture,
    Objective,
    Position,
    Settings,
    Variant,
    even_width,
)

_CODE, _VARIANTS = "dragoman.lab.architectures", "dragoman.lab.transformer_variants"


def _decoder_only(settings: Settings) -> Iterator[str]:
    positions, longest = settings["model.positions.max_length"], settings["data.max_length"]
    # The positions of the target continue after the source's.
    if settings["model.positions.kind"] == "learned" and positions <= 2 * longest:
        yield (
            f"model.positions.max_length={positions} has no room for two sentences of "
            f"data.max_length={longest} and their ends: raise one or lower the other."
        )


def _bidirectional(settings: Settings) -> Iterator[str]:
    if settings["model.d_model"] % 2:
        yield (
            f"model.d_model={settings['model.d_model']} is odd: the encoder needs half of it for "
            "each direction."
        )


def _gnmt(settings: Settings) -> Iterator[str]:
    yield from _bidirectional(settings)
    if settings["model.num_decoder_layers"] < 2:
        yield (
            "gnmt passes its attention to the layers above the first: set "
            "model.num_decoder_layers=2 or more."
        )


def _convs2s(settings: Settings) -> Iterator[str]:
    positions, longest = settings["model.positions.max_length"], settings["data.max_length"]
    # The end of the sentence needs a position too, hence <=.
    if positions <= longest:
        yield (
            f"convs2s learns its positions, but model.positions.max_length={positions} does not "
            f"reach beyond data.max_length={longest}: raise one or lower the other."
        )


def _lexical(settings: Settings) -> Iterator[str]:
    # Its weights are counts, so there is nothing to differentiate.
    if settings["training.objective"] == "mrt":
        yield (
            "training.objective=mrt needs a gradient, which model.architecture=lexical does not "
            "have: leave training.objective=likelihood."
        )


def _mrt(settings: Settings) -> Iterator[str]:
    if not settings["training.init"]:
        yield "training.objective=mrt fine-tunes a trained model: name one with --init."
    if settings["training.sharded"]:
        yield "training.objective=mrt samples from the whole model: set training.sharded=false."
    if settings["training.r_drop_alpha"]:
        yield (
            f"training.r_drop_alpha={settings['training.r_drop_alpha']} belongs to "
            "training.objective=likelihood: set training.r_drop_alpha=0."
        )


def _projections(settings: Settings) -> Iterator[str]:
    # Without projections a head has its chunk of the input, whatever the layout says.
    if not settings["model.attention.projections"]:
        yield (
            f"model.attention.heads_layout={settings['model.attention.heads_layout']} describes "
            "projections, but model.attention.projections=false removes them: set "
            "heads_layout=paper."
        )


_KEYS_PER_HEAD = ("additive", "concat")  # each head makes keys of its own


def _groups(settings: Settings) -> Iterator[str]:
    yield from _projections(settings)
    heads, groups = settings["model.num_heads"], settings["model.attention.groups"]
    if heads % groups:
        yield (
            f"model.attention.groups={groups} does not divide model.num_heads={heads}: change one "
            "of them."
        )
    similarity = settings["model.attention.similarity"]
    # A cache keeps the keys of each head, so nothing could be shared.
    if similarity in _KEYS_PER_HEAD:
        yield (
            f"model.attention.similarity={similarity} has weights for the keys of every head, "
            "which heads_layout=grouped shares: set similarity=scaled-dot."
        )


def _concat(settings: Settings) -> Iterator[str]:
    kind = settings["model.positions.kind"]
    if not POSITIONS[kind].vector:
        yield f"model.positions.kind={kind} has no vector to join: leave model.positions.join=add."


def _index(settings: Settings) -> Iterator[str]:
    if settings["model.positions.join"] == "add":
        yield (
            "model.positions.kind=index is a single number, not a vector to add: set "
            "model.positions.join=concat."
        )
    if settings["model.architecture"] == "decoder-only":
        yield (
            "model.positions.kind=index does not go with model.architecture=decoder-only: set "
            "sinusoidal."
        )


ARCHITECTURES |= {
    "decoder-only": Architecture(
        "one stack for both sides, a language model",
        needs=_decoder_only,
        module=f"{_CODE}.decoder_only",
        has_heads=True,
        reads=(
            *NEURAL, *BLOCK,
            "attention.similarity", "attention.pattern", "attention.window",
            "attention.heads_layout", "attention.groups", "attention.projections",
            "positions.kind", "positions.join", "positions.base", "positions.max_length",
        ),
    ),
    "rnn": Architecture(
        "recurrent, without attention", module=f"{_CODE}.recurrent", reads=(*NEURAL, "cell")
    ),
    "rnn-attention": Architecture(
        "recurrent, with attention",
        needs=_bidirectional,
        module=f"{_CODE}.recurrent",
        reads=(*NEURAL, "cell", "attention.similarity", "attention_dropout"),
    ),
    "gnmt": Architecture(
        "deep residual LSTMs with attention",
        needs=_gnmt,
        module=f"{_CODE}.recurrent",
        reads=(*NEURAL, "attention.similarity", "attention_dropout"),
    ),
    "convs2s": Architecture(
        "gated convolutions with attention",
        needs=_convs2s,
        module=f"{_CODE}.convolutional",
        reads=(*NEURAL, "kernel_width", "positions.max_length"),
    ),
    "lexical": Architecture(
        "IBM model 1, word by word",
        needs=_lexical,
        module=f"{_CODE}.lexical",
        trainer=f"{_CODE}.lexical_training",
    ),
}  # fmt: skip
OBJECTIVES["mrt"] = Objective(
    "minimum risk: fine-tune on the score of sampled translations",
    needs=_mrt,
    module="dragoman.lab.minimum_risk",
    # A batch has the reference and all samples of each sentence.
    copies=lambda training: 1 + training.mrt_samples,
)
SIMILARITIES |= {
    "dot": Variant("q·k", module=_VARIANTS),
    "mean-dot": Variant("q·k/K", module=_VARIANTS),
    "cosine": Variant("the cosine, times a factor that each head learns", module=_VARIANTS),
    "plain-cosine": Variant("the cosine itself", module=_VARIANTS),
    "general": Variant("qᵀ W k", module=_VARIANTS),
    "qk-norm": Variant(
        "q·k/√K of queries and keys that are normalized first",
        module=_VARIANTS,
    ),
    "additive": Variant("vᵀ tanh(W q + U k)", fused=False, module=_VARIANTS),
    "concat": Variant("vᵀ[q; k]", fused=False, module=_VARIANTS),
}
SPANS |= {
    "hard": Variant("only the best key", fused=False, module=_VARIANTS),
    "local": Variant("keys near the query's own position", module=_VARIANTS),
}
HEADS_LAYOUTS |= {
    "narrow": Variant("each head gets a chunk of the input", module=_VARIANTS),
    "wide": Variant(
        "each head gets all of the input, as D features", needs=_projections, module=_VARIANTS
    ),
    "multi-query": Variant(
        "heads share keys and values",
        needs=_projections,
        module=_VARIANTS,
    ),
    "grouped": Variant(
        "groups of heads share keys and values (GQA)",
        needs=_groups,
        module=_VARIANTS,
    ),
}
POSITIONS |= {
    "index": Position("the number of the position", vector=True, needs=_index, module=_VARIANTS),
    "sinusoidal-from-1": Position(
        "sinusoidal, with exponents that start at 2/D instead of 0",
        vector=True,
        needs=even_width,
        module=_VARIANTS,
    ),
}
JOINS["concat"] = Variant("W [x; p]", needs=_concat, module=_VARIANTS)
