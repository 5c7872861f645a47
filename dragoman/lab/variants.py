"""The names of the lab's variants, with their rules, for the tables of `config/variants.py`.

The code is in the modules that the entries name; it is imported when a model is built.
"""

from collections.abc import Iterator

from dragoman.config.variants import (
    ARCHITECTURES,
    BLOCK,
    NEURAL,
    OBJECTIVES,
    Architecture,
    Given,
    Objective,
)

_CODE = "dragoman.lab.architectures"


def _decoder_only(settings: Given) -> Iterator[str]:
    positions, longest = settings["model.positions.max_length"], settings["data.max_length"]
    if settings["model.positions.kind"] == "learned" and positions <= 2 * longest:
        yield (
            f"model.positions.max_length={positions} has no room for two sentences of "
            f"data.max_length={longest} and their ends: raise one or lower the other."
        )


def _bidirectional(settings: Given) -> Iterator[str]:
    if settings["model.width"] % 2:
        yield (
            f"model.width={settings['model.width']} is odd: the encoder needs half of it for each "
            "direction."
        )


def _gnmt(settings: Given) -> Iterator[str]:
    yield from _bidirectional(settings)
    if settings["model.decoder_layers"] < 2:
        yield (
            "gnmt passes its attention to the layers above the first: set "
            "model.decoder_layers=2 or more."
        )


def _convs2s(settings: Given) -> Iterator[str]:
    positions, longest = settings["model.positions.max_length"], settings["data.max_length"]
    if positions <= longest:
        yield (
            f"convs2s learns its positions, but model.positions.max_length={positions} does not "
            f"reach beyond data.max_length={longest}: raise one or lower the other."
        )


def _lexical(settings: Given) -> Iterator[str]:
    if settings["training.objective"] == "risk":
        yield "training.objective=risk needs a gradient, but model.architecture=lexical has none."


def _risk(settings: Given) -> Iterator[str]:
    if not settings["training.init"]:
        yield "training.objective=risk fine-tunes a trained model: name one with --init."
    if settings["training.sharded"]:
        yield "training.objective=risk samples from the whole model: set training.sharded=false."
    if settings["training.consistency"]:
        yield (
            f"training.consistency={settings['training.consistency']} belongs to "
            "training.objective=likelihood: set training.consistency=0."
        )


ARCHITECTURES |= {
    "decoder-only": Architecture(
        "one stack for both sides, a language model",
        needs=_decoder_only,
        module=f"{_CODE}.decoder_only",
        has_heads=True,
        reads=(
            *NEURAL, *BLOCK,
            "attention.similarity", "attention.span", "attention.window", "attention.heads_layout",
            "attention.groups", "attention.projections",
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
OBJECTIVES["risk"] = Objective(
    "minimum risk: fine-tune on the score of sampled translations",
    needs=_risk,
    module="dragoman.lab.minimum_risk",
    copies=lambda training: 1 + training.risk_samples,
)
