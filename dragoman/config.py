"""All settings, as frozen dataclasses: `[section]` and `key` of a TOML file, `section.key=value` on the command line.

Values come from four places, the later ones winning: the defaults here, a preset, a TOML file, `--set`. Each field
carries its own documentation and its own rule, and is checked when it is set. The defaults of the model are those of
"Attention Is All You Need" (Vaswani et al., 2017).

The names of variants (`choices`) are spelled out here because this module must not import the code that they name; a
test holds them against the tables beside that code.
"""

import dataclasses
import difflib
import json
import math
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError


def _setting(default: Any, doc: str, **rules: Any) -> Any:
    """A field with its documentation and rules: `choices`, `at_least`, `at_most`, `below`, `key` (name in TOML)."""
    return field(default=default, metadata={"doc": doc, **rules})


@dataclass(frozen=True)
class Corpus:
    """Two files of the same number of lines, or one `.tsv` file with both sides (then `target` is empty)."""

    source: str = _setting("", "file with source sentences, one a line (.gz allowed), or a .tsv file with both sides")
    target: str = _setting("", "file with target sentences, line by line the translations of `source`")
    source_language: str = _setting("", "language code of the source", key="from")
    target_language: str = _setting("", "language code of the target", key="to")
    weight: float = _setting(1.0, "how often each pair is seen in an epoch, on average", at_least=0.0)


@dataclass(frozen=True)
class TextConfig:
    vocabulary: str = _setting("bpe", "how text is cut into pieces", choices=("bpe",))
    size: int = _setting(8000, "pieces to learn; fewer if the corpus gives fewer", at_least=1, at_most=1_000_000)
    shared: bool = _setting(True, "one vocabulary for both languages")
    dropout: float = _setting(0.0, "BPE-dropout: chance that a merge is skipped in training", at_least=0.0, below=1.0)
    coverage: float = _setting(
        0.9999, "share of characters that get a piece; others are spelled in bytes", at_least=0.5, at_most=1.0
    )
    normalisation: str = _setting(
        "nmt_nfkc", "SentencePiece's rule for the characters of a text", choices=("nmt_nfkc", "nfkc", "identity")
    )


@dataclass(frozen=True)
class DataConfig:
    corpora: tuple[Corpus, ...] = _setting((), "parallel text to train on")
    valid: tuple[Corpus, ...] = _setting((), "parallel text to validate on; held out from `corpora` if there is none")
    test: tuple[Corpus, ...] = _setting((), "parallel text to score the finished model on")
    valid_size: int = _setting(1000, "pairs to hold out at most (never over 5% of them)", at_least=0)
    max_length: int = _setting(256, "pieces: a longer sentence is kept out of training", at_least=1)


@dataclass(frozen=True)
class AttentionConfig:
    similarity: str = _setting("scaled-dot", "how well a key fits a query", choices=("scaled-dot",))
    span: str = _setting("soft", "which keys a query sees", choices=("soft",))
    heads_layout: str = _setting("paper", "what each head gets of the input", choices=("paper",))
    memory: str = _setting("last", "encoder layer that the decoder looks at", choices=("last",))


@dataclass(frozen=True)
class PositionsConfig:
    kind: str = _setting("sinusoidal", "how a position becomes a vector", choices=("sinusoidal", "learned"))
    join: str = _setting("add", "how that vector joins the word's", choices=("add",))
    base: float = _setting(10000.0, "base of the wavelengths of sinusoidal positions", at_least=1.0)
    max_length: int = _setting(512, "largest length of learned positions", at_least=1, at_most=1_000_000)


@dataclass(frozen=True)
class ModelConfig:
    architecture: str = _setting("transformer", "the kind of model", choices=("transformer",))
    width: int = _setting(512, "features of a position (D, d_model)", at_least=1, at_most=65_536)
    heads: int = _setting(8, "attention heads (H)", at_least=1, at_most=1024)
    feed_forward_width: int = _setting(2048, "inner features of the feed-forward network", at_least=1, at_most=262_144)
    encoder_layers: int = _setting(6, "layers of the encoder", at_least=1, at_most=1000)
    decoder_layers: int = _setting(6, "layers of the decoder", at_least=1, at_most=1000)
    activation: str = _setting("relu", "nonlinearity of the feed-forward network", choices=("relu", "gelu", "swish"))
    norm: str = _setting("post", "normalise after the residual sum or before the sublayer", choices=("post", "pre"))
    norm_kind: str = _setting("layer", "what is normalised over", choices=("layer",))
    dropout: float = _setting(0.1, "on embeddings and on every sublayer's output", at_least=0.0, below=1.0)
    attention_dropout: float = _setting(0.0, "on attention weights", at_least=0.0, below=1.0)
    activation_dropout: float = _setting(0.0, "inside the feed-forward network", at_least=0.0, below=1.0)
    tied: str = _setting(
        "auto",
        "embeddings that share weights: source, target and output; target and output; none",
        choices=("auto", "all", "target", "none"),
    )
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)


@dataclass(frozen=True)
class TrainingConfig:
    seed: int = _setting(1, "everything random follows from it", at_least=0, below=2**63)
    init: str = _setting("", "folder of a trained model whose weights and pieces to start from")
    max_steps: int = _setting(100_000, "optimiser steps", at_least=1)
    max_epochs: float = _setting(0.0, "passes over the corpus; 0: as many as max_steps needs", at_least=0.0)
    batch_tokens: int = _setting(25_000, "target tokens in an optimiser step, over all ranks", at_least=1)
    micro_batch_tokens: int = _setting(
        0, "source and target positions computed at once, padding included; 0: from free memory", at_least=0
    )
    label_smoothing: float = _setting(0.1, "probability spread over the vocabulary", at_least=0.0, below=1.0)
    schedule: str = _setting(
        "inverse-sqrt", "course of the learning rate", choices=("inverse-sqrt", "noam", "constant")
    )
    learning_rate: float = _setting(
        5e-4, "peak rate; with noam a factor on the paper's (width*warm-up)^-0.5", at_least=0.0
    )
    warmup_steps: int = _setting(4000, "steps until the peak", at_least=0)
    beta1: float = _setting(0.9, "Adam: decay of the mean", at_least=0.0, below=1.0)
    beta2: float = _setting(0.98, "Adam: decay of the squares", at_least=0.0, below=1.0)
    epsilon: float = _setting(1e-9, "Adam: added to the root of the squares", at_least=0.0)
    weight_decay: float = _setting(0.0, "AdamW: share of a weight taken off per step and unit rate", at_least=0.0)
    clip_norm: float = _setting(1.0, "largest norm of the gradient; 0: not clipped", at_least=0.0)
    precision: str = _setting("auto", "auto: bf16 on a GPU that has it", choices=("auto", "float32", "bf16"))
    validate_every: int = _setting(1000, "steps between validations; 0: only at the end", at_least=0)
    validation_beam: int = _setting(1, "beam of the validation's translations", at_least=1)
    patience: int = _setting(10, "validations without a better BLEU before stopping; 0: never stop early", at_least=0)
    checkpoint_every: int = _setting(1000, "steps between checkpoints; each validation writes one too", at_least=1)
    average: int = _setting(5, "last checkpoints to average at the end; 1: no averaging", at_least=1)
    log_every: int = _setting(50, "steps between lines of the log", at_least=1)


@dataclass(frozen=True)
class DecodingConfig:
    beam: int = _setting(4, "hypotheses kept per sentence; 1: greedy", at_least=1, at_most=1000)
    length_penalty: str = _setting(
        "gnmt", "divides a score by ((5+n)/6)^alpha, by n^alpha, or by nothing", choices=("gnmt", "power", "none")
    )
    alpha: float = _setting(0.6, "strength of the length penalty", at_least=0.0, at_most=10.0)
    coverage_penalty: float = _setting(0.0, "beta of the coverage penalty (needs attention)", at_least=0.0)
    max_length_ratio: float = _setting(2.0, "target pieces per source piece at most ...", at_least=0.0, at_most=1000.0)
    max_length_extra: int = _setting(20, "... plus this many", at_least=1)
    min_length_ratio: float = _setting(0.0, "target pieces per source piece at least", at_least=0.0)
    no_repeat_ngram: int = _setting(0, "no run of this many pieces occurs twice; 0: any may", at_least=0)
    patience: float = _setting(1.0, "a sentence is done when patience*beam hypotheses have ended", at_least=0.1)
    max_source_length: int = _setting(512, "pieces: a longer text is split at sentence ends", at_least=2)
    batch_tokens: int = _setting(4096, "source pieces translated at once", at_least=1)


@dataclass(frozen=True)
class Config:
    """The full set of settings of a run."""

    text: TextConfig = field(default_factory=TextConfig)
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)

    def __post_init__(self) -> None:
        """Settings that do not go together are refused here, before anything is computed."""
        model = self.model
        if model.width % model.heads:
            raise ConfigError(
                f"model.width={model.width} is not a multiple of model.heads={model.heads}: "
                f"each head gets width/heads features."
            )
        if model.positions.kind == "sinusoidal" and model.width % 2:
            raise ConfigError(
                f"model.width={model.width} is odd: sinusoidal positions come in pairs of sine and cosine."
            )
        if model.tied == "all" and not self.text.shared:
            raise ConfigError(
                "model.tied=all needs one vocabulary for both languages: set text.shared=true or model.tied=target."
            )
        if model.positions.kind == "learned" and model.positions.max_length <= self.data.max_length:
            raise ConfigError(
                f"model.positions.max_length={model.positions.max_length} does not reach beyond "
                f"data.max_length={self.data.max_length} (a sentence and its end): raise the one or lower the other."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "text.size": 4000,
        "model.width": 128, "model.heads": 4, "model.feed_forward_width": 512,
        "model.encoder_layers": 2, "model.decoder_layers": 2, "model.norm": "pre",
        "training.batch_tokens": 1000, "training.max_steps": 3000,
        "training.learning_rate": 3e-3, "training.warmup_steps": 100,
        "training.validate_every": 500, "training.checkpoint_every": 250,
    },
    "small": {
        "text.size": 8000,
        "model.width": 256, "model.heads": 4, "model.feed_forward_width": 1024,
        "model.encoder_layers": 4, "model.decoder_layers": 4, "model.norm": "pre",
        "training.batch_tokens": 4000, "training.max_steps": 20_000,
        "training.learning_rate": 1e-3, "training.warmup_steps": 1000,
    },
    "base": {
        "text.size": 37_000,
        "training.schedule": "noam", "training.learning_rate": 1.0, "training.clip_norm": 0.0,
    },
    "big": {
        "text.size": 37_000,
        "model.width": 1024, "model.heads": 16, "model.feed_forward_width": 4096, "model.dropout": 0.3,
        "training.schedule": "noam", "training.learning_rate": 1.0, "training.clip_norm": 0.0,
        "training.max_steps": 300_000, "training.average": 20,
    },
}  # fmt: skip
DEFAULT_PRESET = "small"


def make_config(
    preset: str | None = None,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Config:
    """Defaults, then a preset, then a TOML file (which may name its own `preset`), then dotted settings.

    >>> make_config("tiny", settings={"model.dropout": 0.3}).model.dropout
    0.3
    """
    from_file: dict[str, Any] = read_toml(file) if file is not None else {}
    own_preset = from_file.pop("preset", DEFAULT_PRESET if file is None else None)
    name = preset or own_preset
    tree: dict[str, Any] = {}
    if name is not None:
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(f"preset {name!r} is unknown{_near(name, PRESETS)}; it can be {', '.join(PRESETS)}.")
        for key, value in PRESETS[name].items():
            _put(tree, key, value)
    _merge(tree, from_file)
    for key, value in (settings or {}).items():
        _put(tree, key, value)
    return from_tree(tree)


def explicit_settings(file: str | Path | None) -> dict[str, Any]:
    """The dotted settings that a TOML file names."""
    tree = read_toml(file) if file is not None else {}
    tree.pop("preset", None)
    return dict(_leaves(tree, ""))


def parse_set(assignments: list[str]) -> dict[str, Any]:
    """`["a.b=c", ...]` as given to --set, values read as TOML and, failing that, as plain strings.

    >>> parse_set(["model.norm=pre", "model.dropout=0.3"])
    {'model.norm': 'pre', 'model.dropout': 0.3}
    """
    settings = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {assignment!r} is not of the form section.key=value.")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        settings[key.strip()] = value
    return settings


def from_tree(tree: Mapping[str, Any]) -> Config:
    """Nested dictionaries, as TOML gives them, to a checked configuration."""
    return typing.cast(Config, _build(Config, tree, ""))


def to_tree(value: Any) -> Any:
    """The reverse of `from_tree`: nested dictionaries of plain values, every setting spelled out."""
    if is_dataclass(value):
        return {_key(f): to_tree(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_tree(item) for item in value]
    return value


def read_toml(file: str | Path) -> dict[str, Any]:
    """A TOML file as nested dictionaries, or a `ConfigError` that says where it is wrong."""
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}.") from None


def write_toml(config: Config) -> str:
    """The whole configuration as TOML that `make_config` reads back to an equal one."""
    return "\n".join(_toml_table(to_tree(config), "")) + "\n"


def flatten(config: Config) -> dict[str, Any]:
    """`{"model.width": 512, ...}`: one entry per setting, for comparing two configurations.

    >>> flatten(Config())["model.positions.kind"]
    'sinusoidal'
    """
    return dict(_leaves(to_tree(config), ""))


def replace(config: Config, settings: Mapping[str, Any]) -> Config:
    """The same configuration with some dotted settings changed, checked again."""
    tree = to_tree(config)
    for key, value in settings.items():
        _put(tree, key, value)
    return from_tree(tree)


def describe_settings() -> Iterator[tuple[str, Any, str]]:
    """(dotted name, default, documentation) of every setting, in order."""
    yield from _describe(Config, "")


def _describe(kind: type, path: str) -> Iterator[tuple[str, Any, str]]:
    for f in fields(kind):
        hint = typing.get_type_hints(kind)[f.name]
        if is_dataclass(hint):
            yield from _describe(typing.cast(type, hint), f"{path}{_key(f)}.")
        else:
            choices = f.metadata.get("choices")
            doc = f.metadata["doc"] + (f" ({', '.join(choices)})" if choices else "")
            yield f"{path}{_key(f)}", f.default, doc


def _key(f: "dataclasses.Field[Any]") -> str:
    return str(f.metadata.get("key", f.name))


def _build(kind: type, tree: Any, path: str) -> Any:
    """One dataclass from one table, its fields checked."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{path.rstrip('.')} is {tree!r}: expected a table of settings.")
    by_key = {_key(f): f for f in fields(kind)}
    hints = typing.get_type_hints(kind)
    for key in tree:
        if key not in by_key:
            raise ConfigError(f"setting {path}{key} is unknown{_near_setting(path, key, by_key)}.")
    return kind(
        **{f.name: _value(hints[f.name], tree[key], f, f"{path}{key}") for key, f in by_key.items() if key in tree}
    )


def _value(hint: Any, value: Any, f: "dataclasses.Field[Any]", path: str) -> Any:
    """One value, checked against its type and its rules."""
    if is_dataclass(hint):
        return _build(typing.cast(type, hint), value, f"{path}.")
    if isinstance(hint, types.GenericAlias):  # tuple[Corpus, ...]
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path} is {value!r}: expected a list of tables, [[{path}]].")
        return tuple(_build(hint.__args__[0], item, f"{path}.") for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not hint:
        raise ConfigError(f"{path} is {value!r}: expected {_type_name(hint)}.")
    rules = f.metadata
    if "choices" in rules and value not in rules["choices"]:
        choices = rules["choices"]
        raise ConfigError(f"{path} is {value!r}{_near(value, choices)}; it can be {', '.join(choices)}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{path} is {value}: expected a finite number.")
    if "at_least" in rules and value < rules["at_least"]:
        raise ConfigError(f"{path} is {value}: it must be at least {rules['at_least']}.")
    if "at_most" in rules and value > rules["at_most"]:
        raise ConfigError(f"{path} is {value}: it must be at most {rules['at_most']}.")
    if "below" in rules and value >= rules["below"]:
        raise ConfigError(f"{path} is {value}: it must be below {rules['below']}.")
    return value


def _type_name(hint: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[hint]


def _near(name: Any, names: Any) -> str:
    close = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _near_setting(path: str, key: str, siblings: Mapping[str, Any]) -> str:
    """A hint from the same table first, then from anywhere: `model.warmup` means `training.warmup_steps`."""
    near = difflib.get_close_matches(key, list(siblings), n=1, cutoff=0.6)
    if near:
        return f" (did you mean {path}{near[0]}?)"
    everywhere = {name.rsplit(".", 1)[-1]: name for name, _, _ in describe_settings()}
    near = difflib.get_close_matches(key, list(everywhere), n=1, cutoff=0.6)
    return f" (did you mean {everywhere[near[0]]}?)" if near else ""


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *tables, key = dotted.split(".")
    for name in tables:
        child = tree.setdefault(name, {})
        if not isinstance(child, dict):
            raise ConfigError(f"setting {dotted} is unknown: {name} is not a table.")
        tree = child
    tree[key] = value


def _merge(tree: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _leaves(tree: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _toml_table(tree: Mapping[str, Any], path: str) -> Iterator[str]:
    """Lines of one table: plain values first, then tables and lists of tables, as TOML wants it."""
    nested = {k: v for k, v in tree.items() if isinstance(v, Mapping) or (isinstance(v, list) and v)}
    for key, value in tree.items():
        if key not in nested:
            yield f"{key} = {_toml_value(value)}"
    for key, value in nested.items():
        for table in [value] if isinstance(value, Mapping) else value:
            brackets = "[{}]" if isinstance(value, Mapping) else "[[{}]]"
            yield ""
            yield brackets.format(path + key)
            yield from _toml_table(table, f"{path}{key}.")


def _toml_value(value: Any) -> str:
    if isinstance(value, str):  # JSON's escapes are TOML's, but for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)  # numbers, and the empty list
