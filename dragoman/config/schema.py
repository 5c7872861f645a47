"""All settings, as frozen dataclasses.

`[section]` and `key` of a TOML file become `section.key=value` on the command line.

Values come from four sources, the later ones winning: the defaults here, a preset, a TOML file,
`--set`. Each field carries its documentation and rules, and is checked when it is set. The model's
defaults are from "Attention Is All You Need" (Vaswani et al., 2017).

The names of variants (`choices`) are listed here because this module must not import the code that
they name; a test compares them with the tables next to that code.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from dragoman.config.old_names import with_current_names
from dragoman.config.plugins import import_lab
from dragoman.config.presets import DEFAULT_PRESET, PRESETS
from dragoman.config.settings import (
    build,
    describe,
    did_you_mean,
    leaves,
    merge,
    nesting_errors,
    put_all,
    read_toml,
    setting,
    to_tree,
    toml_lines,
)
from dragoman.config.variants import (
    ARCHITECTURES,
    DECODER_SUBLAYERS,
    HEADS_LAYOUTS,
    JOINS,
    MEMORIES,
    OBJECTIVES,
    POSITIONS,
    SIMILARITIES,
    SIZES,
    SPANS,
    TABLES,
    incompatible_settings,
)
from dragoman.errors import ConfigError

MOST_HYPOTHESES = 1000  # largest beam, and largest number of translations in a request


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus: two files with the same number of lines, or one `.tsv` file (empty
    `target`).

    A name with a * matches many files: `train.*.de.gz`.
    """

    source: str = setting(
        "", "file with source sentences, one a line (.gz, .bz2), or a .tsv file with both sides"
    )
    target: str = setting(
        "", "file with target sentences, line by line the translations of `source`"
    )
    source_language: str = setting("", "language code of the source", key="from")
    target_language: str = setting("", "language code of the target", key="to")
    weight: float = setting(
        1.0, "how often each pair is seen in an epoch, on average", at_least=0.0
    )


@dataclass(frozen=True)
class TextConfig:
    tokenizer: str = setting(
        "bpe",
        "how text is split into pieces (marian: like the converted model)",
        choices=("bpe", "word", "character", "marian"),
    )
    vocab_size: int = setting(
        8000, "pieces to learn; fewer if the corpus gives fewer", at_least=1, at_most=1_000_000
    )
    shared: bool = setting(True, "one vocabulary for both languages")
    bpe_dropout: float = setting(
        0.0, "BPE-dropout: chance that a merge is skipped in training", at_least=0.0, below=1.0
    )
    character_coverage: float = setting(
        0.9999,
        "share of characters that get a piece; others are spelled in bytes",
        at_least=0.5,
        at_most=1.0,
    )
    normalization: str = setting(
        "nmt_nfkc",
        "SentencePiece's rule for the characters of a text",
        choices=("nmt_nfkc", "nfkc", "identity"),
    )


@dataclass(frozen=True)
class DataConfig:
    corpora: tuple[Corpus, ...] = setting((), "parallel text to train on")
    valid: tuple[Corpus, ...] = setting(
        (), "parallel text to validate on; held out from `corpora` if empty"
    )
    test: tuple[Corpus, ...] = setting((), "parallel text to score the finished model on")
    exclude: tuple[Corpus, ...] = setting(
        (),
        "parallel text that no training pair may share a sentence with, ignoring case and "
        "punctuation",
    )
    prepared: str = setting("", "folder made by `dragoman prepare`, used instead of corpora")
    temperature: float = setting(
        1.0,
        "evens out corpora: each gets a share of n^(1/temperature), n its pairs times its weight",
        at_least=1.0,
    )
    valid_size: int = setting(1000, "pairs to hold out at most (never over 5% of them)", at_least=0)
    max_length: int = setting(256, "pieces: a longer sentence is kept out of training", at_least=1)


@dataclass(frozen=True)
class AttentionConfig:
    # Variants other than the defaults are mostly for experiments (docs/variants.md).
    similarity: str = setting("scaled-dot", "how well a key fits a query", choices=SIMILARITIES)
    pattern: str = setting("soft", "which keys a query may attend to", choices=SPANS)
    window: int = setting(8, "keys on either side that local attention sees", at_least=0)
    heads_layout: str = setting("paper", "how heads split the input", choices=HEADS_LAYOUTS)
    groups: int = setting(
        2, "sets of keys and values, with heads_layout=grouped", at_least=1, at_most=1000
    )
    projections: bool = setting(
        True, "project queries, keys and values; false: use the input itself"
    )
    cross_attention_layer: str = setting(
        "last", "the encoder layer that a decoder layer attends to", choices=MEMORIES
    )


@dataclass(frozen=True)
class PositionsConfig:
    kind: str = setting("sinusoidal", "how a position is represented", choices=POSITIONS)
    join: str = setting("add", "how a position's vector joins the word's", choices=JOINS)
    every_layer: bool = setting(
        False, "positions are added again to the queries, keys and values of every layer"
    )
    base: float = setting(
        10000.0, "base of the wavelengths of sinusoidal and rotary positions", at_least=1.0
    )
    max_length: int = setting(512, "number of learned positions", at_least=1, at_most=1_000_000)


@dataclass(frozen=True)
class ModelConfig:
    architecture: str = setting("transformer", "the kind of model", choices=ARCHITECTURES)
    d_model: int = setting(512, "model dimension (D)", at_least=1, at_most=65_536)
    num_heads: int = setting(8, "attention heads (H)", at_least=1, at_most=1024)
    d_ff: int = setting(
        2048, "inner dimension of the feed-forward network", at_least=1, at_most=262_144
    )
    num_encoder_layers: int = setting(6, "layers of the encoder", at_least=1, at_most=1000)
    num_decoder_layers: int = setting(6, "layers of the decoder", at_least=1, at_most=1000)
    cell: str = setting("lstm", "recurrent cell of rnn and rnn-attention", choices=("lstm", "gru"))
    kernel_width: int = setting(
        3, "positions that a convolution of convs2s sees", at_least=1, at_most=1000
    )
    activation: str = setting(
        "relu",
        "nonlinearity of the feed-forward network",
        choices=("relu", "gelu", "swish", "geglu", "swiglu"),
    )
    norm_position: str = setting(
        "post",
        "normalize after the residual sum (post) or before the sublayer (pre)",
        choices=("post", "pre"),
    )
    norm_type: str = setting(
        "layer",
        "normalization over a position's features (layer, rms) or over the batch",
        choices=("layer", "rms", "batch", "none"),
    )
    residual: bool = setting(True, "a sublayer's output is added to its input")
    feed_forward: bool = setting(True, "a feed-forward network in every layer")
    experts: int = setting(
        1,
        "feed-forward networks in every layer; of several, each word takes the two that fit best",
        at_least=1,
        at_most=256,
    )
    decoder_attention: bool = setting(
        True, "decoder positions see earlier ones; false: only themselves"
    )
    decoder_self_attention: str = setting(
        "attention",
        "how a decoder layer attends to earlier target words",
        choices=DECODER_SUBLAYERS,
    )
    dropout: float = setting(
        0.1, "on embeddings and on every sublayer's output", at_least=0.0, below=1.0
    )
    attention_dropout: float = setting(0.0, "on attention weights", at_least=0.0, below=1.0)
    activation_dropout: float = setting(
        0.0, "inside the feed-forward network", at_least=0.0, below=1.0
    )
    share_embeddings: str = setting(
        "auto",
        "embeddings that share weights: source, target and output; target and output; none",
        choices=("auto", "all", "target", "none"),
    )
    output_bias: bool = setting(False, "a learned bias for each target piece")
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)


# The values that make a plain Transformer, which our kernels, ONNX graphs and other systems
# support. The tables of `variants` say the same of their own settings.
PLAIN = {
    "architecture": ("transformer",),
    "activation": ("relu", "gelu", "swish"),
    "norm_type": ("layer",),
    "residual": (True,),
    "feed_forward": (True,),
    "experts": (1,),
    "decoder_attention": (True,),
    "attention.projections": (True,),
    "positions.every_layer": (False,),
}


def beyond_plain(model: ModelConfig, in_graphs: bool = False) -> list[str]:
    """List the settings that differ from the plain Transformer.

    With `in_graphs`, skip settings that our ONNX graphs support.

    >>> beyond_plain(ModelConfig(residual=False))
    ['model.residual=false']
    """
    # Settings are either in PLAIN or in a table of variants.
    values = {f"model.{name}": value for name, value in leaves(to_tree(model))}
    other = [name for name in PLAIN if values[f"model.{name}"] not in PLAIN[name]]
    beyond = [f"model.{name}" for name in other]
    for name, table in TABLES.items():
        variant = table[values[name]]
        if not (variant.plain or (in_graphs and variant.in_graphs)):
            beyond.append(name)
    return [f"{name}={str(values[name]).lower()}" for name in beyond]


def model_summary(model: ModelConfig) -> str:
    """Describe a model in one line: its sizes, and every setting that is not the default.

    >>> model_summary(ModelConfig(positions=PositionsConfig(kind="rotary")))
    'transformer, 6+6 layers, d_model 512, 8 heads, post-norm, positions.kind=rotary'
    """
    # The sizes come first in any case; other settings only if they are unusual.
    default = dict(leaves(to_tree(ModelConfig())))
    named = (*SIZES, "norm_position")
    unusual = [
        f"{name}={str(value).lower()}"
        for name, value in leaves(to_tree(model))
        if value != default[name] and name not in named
    ]
    sizes = (
        f"{model.architecture}, {model.num_encoder_layers}+{model.num_decoder_layers} layers, "
        f"d_model {model.d_model}, {model.num_heads} heads, {model.norm_position}-norm"
    )
    return ", ".join([sizes, *unusual])


@dataclass(frozen=True)
class TrainingConfig:
    seed: int = setting(1, "seed of all randomness", at_least=0, below=2**63)
    # Initial weights; the pieces and the sizes of that model are kept, too.
    init: str = setting("", "folder of a trained model whose weights and pieces to start from")
    max_steps: int = setting(100_000, "optimizer steps", at_least=1)
    max_epochs: float = setting(
        0.0, "passes over the corpus; 0: as many as max_steps needs", at_least=0.0
    )
    batch_tokens: int = setting(
        25_000, "target tokens in an optimizer step, over all ranks", at_least=1
    )
    micro_batch_tokens: int = setting(
        0,
        "source and target positions per forward pass, padding included; 0: from free memory",
        at_least=0,
    )
    label_smoothing: float = setting(
        0.1, "probability spread over the vocabulary", at_least=0.0, below=1.0
    )
    r_drop_alpha: float = setting(
        0.0,
        "R-Drop: weight of the divergence between two passes with different dropout (usually 2.5)",
        at_least=0.0,
    )
    # mrt: minimum risk training (Shen et al. 2016)
    objective: str = setting("likelihood", "what training minimizes", choices=OBJECTIVES)
    mrt_samples: int = setting(
        8, "mrt: translations sampled for each sentence", at_least=2, at_most=1000
    )
    mrt_sharpness: float = setting(
        0.05, "mrt: exponent of their probabilities (alpha)", at_least=1e-6
    )
    mrt_likelihood: float = setting(0.1, "mrt: weight of the likelihood added to it", at_least=0.0)
    schedule: str = setting(
        "inverse-sqrt",
        "schedule of the learning rate (linear, cosine, wsd: to zero at max_steps)",
        choices=("inverse-sqrt", "noam", "linear", "cosine", "wsd", "constant"),
    )
    learning_rate: float = setting(
        5e-4, "peak rate; with noam a factor on the paper's (width*warm-up)^-0.5", at_least=0.0
    )
    warmup_steps: int = setting(4000, "steps until the peak rate", at_least=0)
    optimizer: str = setting(
        "adam",
        "adam, or muon: orthogonal steps for the matrices inside the model, Adam for the rest",
        choices=("adam", "muon"),
    )
    momentum: float = setting(0.95, "Muon: decay of the summed gradient", at_least=0.0, below=1.0)
    # beta2 and epsilon are the paper's; torch's defaults are 0.999 and 1e-8.
    beta1: float = setting(0.9, "Adam: decay of the mean", at_least=0.0, below=1.0)
    beta2: float = setting(0.98, "Adam: decay of the squares", at_least=0.0, below=1.0)
    epsilon: float = setting(1e-9, "Adam: added to the root of the squares", at_least=0.0)
    weight_decay: float = setting(
        0.0, "AdamW: share of a weight subtracted per step, times the learning rate", at_least=0.0
    )
    clip_norm: float = setting(1.0, "largest norm of the gradient; 0: not clipped", at_least=0.0)
    precision: str = setting(
        "auto", "auto: bf16 on a GPU that supports it", choices=("auto", "float32", "bf16")
    )
    sharded: bool = setting(
        False, "under torchrun: spread weights and optimizer state over the ranks"
    )
    validate_every: int = setting(1000, "steps between validations; 0: only at the end", at_least=0)
    validation_beam_size: int = setting(
        1, "beam size for validation", at_least=1, at_most=MOST_HYPOTHESES
    )
    patience: int = setting(
        10, "validations without a better BLEU before stopping; 0: never stop early", at_least=0
    )
    # The window to average counts these checkpoints, too.
    checkpoint_every: int = setting(
        1000, "steps between checkpoints; each validation writes one too", at_least=1
    )
    average_checkpoints: int = setting(
        5, "number of last checkpoints to average at the end; 1: no averaging", at_least=1
    )
    log_every: int = setting(50, "steps between lines of the log", at_least=1)


# The defaults are the paper's: beam 4 and a length penalty of 0.6.
@dataclass(frozen=True)
class DecodingConfig:
    beam_size: int = setting(
        4, "hypotheses per sentence; 1: greedy", at_least=1, at_most=MOST_HYPOTHESES
    )
    length_penalty: str = setting(
        "gnmt",
        "divide scores by ((5+n)/6)^alpha, by n^alpha, or not at all",
        choices=("gnmt", "power", "none"),
    )
    length_penalty_alpha: float = setting(
        0.6, "strength of the length penalty", at_least=0.0, at_most=10.0
    )
    coverage_penalty: float = setting(
        0.0, "beta of the coverage penalty (needs attention)", at_least=0.0
    )
    max_length_ratio: float = setting(
        2.0, "target pieces per source piece at most ...", at_least=0.0, at_most=1000.0
    )
    max_length_extra: int = setting(20, "... plus this many", at_least=0, at_most=10_000)
    min_length_ratio: float = setting(0.0, "target pieces per source piece at least", at_least=0.0)
    no_repeat_ngram_size: int = setting(
        0, "no n-gram of this many pieces occurs twice; 0: no limit", at_least=0
    )
    patience: float = setting(
        1.0,
        "a sentence is done when patience*beam_size hypotheses are complete",
        at_least=0.1,
        at_most=1000.0,
    )
    shrink_beam_on_eos: bool = setting(
        False, "a finished hypothesis shrinks the beam by one, as in Marian"
    )
    max_source_length: int = setting(
        512, "pieces: a longer text is split at sentence ends", at_least=2, at_most=100_000
    )
    split_sentences: bool = setting(False, "translate each sentence of a text separately")
    keep_capitals: bool = setting(
        False,
        "translate sentences in capitals as ordinary ones, and put the result in capitals; begin "
        "a translation with a capital if its source does",
    )
    keep_numbers: bool = setting(
        False,
        "search once more, with masks, for translations that lose numbers, signs, units, symbols, "
        "addresses or placeholders, or invent digits",
    )
    keep_names: bool = setting(
        True,
        "repair names that a translation misspells; search all pieces for names that the shortlist "
        "cannot spell",
    )
    short_lines: bool = setting(
        False,
        "translate lines of up to three words in several ways, also by way of English, and take "
        "the result that most agree on",
    )
    shortlist: bool = setting(True, "search only the model's shortlist, if it has one")
    batch_tokens: int = setting(
        0, "source pieces per batch; 0: chosen for the device", at_least=0, at_most=10_000_000
    )
    precision: str = setting(
        "auto",
        "precision of a search on a GPU; auto: bf16 if the GPU supports it",
        choices=("auto", "float32", "bf16"),
    )


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    text: TextConfig = field(default_factory=TextConfig)
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)

    def __post_init__(self) -> None:
        """Raise a ConfigError for settings that conflict, before anything is computed."""
        # The first conflict is enough for an error; the others may follow from it.
        for reason in incompatible_settings(flatten(self), _defaults()):
            raise ConfigError(reason)


def make_config(
    preset: str | None = None,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Config:
    """Combine defaults, a preset, a TOML file, and settings by dotted name or in tables.

    The file may name its own `preset`.

    >>> make_config("tiny", settings={"model.dropout": 0.3}).model.dropout
    0.3
    """
    from_file = with_current_names(read_toml(file)) if file is not None else {}
    own_preset = from_file.pop("preset", DEFAULT_PRESET if file is None else None)
    name = preset or own_preset
    tree: dict[str, Any] = {}
    # A file without `preset` starts from the defaults, a command without a file from a preset.
    if name is not None:
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(
                f"preset {name!r} is unknown{did_you_mean(name, PRESETS)}; it can be "
                f"{', '.join(PRESETS)}."
            )
        put_all(tree, PRESETS[name])
    merge(tree, from_file)
    # --set comes last, so it overrides preset and file.
    with nesting_errors("settings"):
        put_all(tree, by_current_name(settings or {}))
    return from_tree(tree)


def by_current_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, by dotted name or in tables, by their dotted current names."""
    tree: dict[str, Any] = {}
    put_all(tree, settings)
    return dict(leaves(with_current_names(tree)))


def explicit_settings(file: str | Path | None) -> dict[str, Any]:
    """Return the settings that a TOML file sets, by dotted name."""
    # `preset` is not a setting itself.
    tree = with_current_names(read_toml(file)) if file is not None else {}
    tree.pop("preset", None)
    with nesting_errors(str(file)):
        return dict(leaves(tree))


def parse_set(assignments: list[str]) -> dict[str, Any]:
    """Parse the arguments of --set: values are TOML or, failing that, plain strings.

    >>> parse_set(["model.norm_position=pre", "model.dropout=0.3"])
    {'model.norm_position': 'pre', 'model.dropout': 0.3}
    """
    settings = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {assignment!r} is not of the form section.key=value.")
        # Let TOML's parser recognize numbers, booleans, strings and lists.
        try:
            with nesting_errors(f"--set {key}"):
                value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:  # not TOML, or a number with too many digits
            value = text
        settings[key.strip()] = value
    return settings


def from_tree(tree: Mapping[str, Any]) -> Config:
    """Build a checked configuration from nested tables, which may use old names."""
    with nesting_errors("settings"):  # an error quotes the value that it refuses
        return cast(Config, build(Config, with_current_names(tree)))


def write_toml(config: Config) -> str:
    """Write the whole configuration as TOML that `make_config` reads back to an equal one."""
    return "\n".join(toml_lines(to_tree(config))) + "\n"


def flatten(config: Config) -> dict[str, Any]:
    """Return one entry per setting, {"model.d_model": 512, ...}, to compare configurations.

    >>> flatten(Config())["model.positions.kind"]
    'sinusoidal'
    """
    return dict(leaves(to_tree(config)))


def replace(config: Config, settings: Mapping[str, Any]) -> Config:
    """Return the configuration with some settings changed, checked again."""
    tree = to_tree(config)
    with nesting_errors("settings"):
        put_all(tree, by_current_name(settings))
    return from_tree(tree)


# Cached: every new configuration is compared with the defaults.
@cache
def _defaults() -> dict[str, Any]:
    return {name: default for name, default, _ in describe(Config)}


def describe_settings() -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted name, default, documentation) of every setting, in order."""
    import_lab()  # for a full list of choices
    yield from describe(Config)
