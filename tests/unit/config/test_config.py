import tomllib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import (
    Config,
    Corpus,
    DataConfig,
    by_current_name,
    describe_settings,
    explicit_settings,
    flatten,
    from_tree,
    make_config,
    parse_set,
    replace,
    variants,
    write_toml,
)
from dragoman.config.old_names import OLD_KEYS, OLD_VALUES
from dragoman.config.presets import PRESETS
from dragoman.config.settings import build, leaves, to_tree, toml_lines
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES
from dragoman.errors import ConfigError
from dragoman.lab.architectures.recurrent import CELLS
from dragoman.model.attention import SIMILARITIES, SPANS
from dragoman.model.build import ARCHITECTURES, build_model, parameter_count
from dragoman.model.heads import HEADS
from dragoman.model.layers import ACTIVATIONS, GATES, NORMS, PLACEMENTS
from dragoman.model.positions import DISTANCES, JOINS, POSITIONS
from dragoman.model.transformer import MEMORIES
from dragoman.text.subword import SEGMENTERS
from dragoman.training.gradients import GRADIENTS
from dragoman.training.optimizer import SCHEDULES
from tests.conftest import vocabulary

TABLES = {
    "model.cell": CELLS,
    "model.activation": ACTIVATIONS | GATES,
    "model.norm_position": PLACEMENTS,
    "model.norm_type": NORMS,
    "text.tokenizer": SEGMENTERS,
    "training.schedule": SCHEDULES,
    "decoding.length_penalty": LENGTH_PENALTIES,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_choices_of_a_setting_are_the_entries_of_its_table(name: str) -> None:
    doc = next(doc for setting, _, doc in describe_settings() if setting == name)
    choices = doc.rpartition("(")[2].rstrip(")").split(", ")
    assert set(choices) == set(TABLES[name])


CODE = [
    (variants.ARCHITECTURES, ARCHITECTURES),
    (variants.OBJECTIVES, GRADIENTS),
    (variants.SIMILARITIES, SIMILARITIES),
    (variants.SPANS, SPANS),
    (variants.HEADS_LAYOUTS, HEADS),
    (variants.MEMORIES, MEMORIES),
    (variants.JOINS, JOINS),
    ({name: one for name, one in variants.POSITIONS.items() if one.vector}, POSITIONS),
    ({name: one for name, one in variants.POSITIONS.items() if one.in_attention}, DISTANCES),
]


@pytest.mark.parametrize(("names", "code"), CODE)
def test_every_variant_has_code_and_all_code_is_a_variant(names, code) -> None:
    """A name without code could not be built, code without a name could not be chosen."""
    assert all(code[name] for name in names)
    assert code.keys() == names.keys()


def test_the_help_of_a_setting_lists_its_variants() -> None:
    docs = {name: doc for name, _, doc in describe_settings()}
    for name, table in variants.TABLES.items():
        for choice, variant in table.items():
            assert f"{choice} ({variant.help})" in docs[name]


@given(st.text(max_size=20), st.floats(0, 1e6), st.integers(1, 10**6))
def test_a_configuration_round_trips_through_toml(name: str, weight: float, steps: int) -> None:
    config = Config(data=DataConfig(corpora=(Corpus(name, name, "de", "en", weight),)))
    tree = tomllib.loads(write_toml(config))
    tree["training"]["max_steps"] = steps
    again = from_tree(tree)
    assert again.data == config.data
    assert again.training.max_steps == steps


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("model.d_modle=64", "did you mean model.d_model?"),
        ("model.warmup=5", "did you mean training.warmup_steps?"),
        ("model.norm_position=prenorm", "post, pre"),
        ("model.d_model=wide", "expected a whole number"),
        ("model.d_model=true", "expected a whole number"),
        ("model.dropout=1.0", "must be below 1.0"),
        ("training.max_steps=0", "must be at least 1"),
        ("training.learning_rate=nan", "expected a finite number"),
        ("model=3", "expected a table"),
        ("model.width.x=3", "not a table"),
        ("data.corpora=3", "list of tables"),
        ("model.num_heads=3", "not a multiple"),
        ("model", "section.key=value"),
    ],
)
def test_an_error_names_the_wrong_setting_with_a_hint(assignment: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config("tiny", settings=parse_set([assignment]))
    assert words in str(caught.value)


def test_rejects_conflicting_settings() -> None:
    with pytest.raises(ConfigError, match=r"text\.shared"):
        make_config(settings={"text.shared": False, "model.share_embeddings": "all"})
    with pytest.raises(ConfigError, match=r"data\.max_length"):
        make_config(settings={"model.positions.kind": "learned", "model.positions.max_length": 100})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"model.positions.kind": "rotary", "model.d_model": 36, "model.num_heads": 4},
            "pairs of features, but a head has 9",
        ),
        ({"model.positions.kind": "rotary", "model.positions.join": "concat"}, "no vector to join"),
        (
            {"model.positions.kind": "relative", "model.positions.every_layer": True},
            "acts in every layer anyway",
        ),
        ({"model.positions.kind": "none", "model.positions.every_layer": True}, "adds nothing"),
        ({"model.positions.kind": "index"}, "set model.positions.join=concat"),
        (
            {"model.attention.cross_attention_layer": "same-layer", "model.num_encoder_layers": 3},
            "set model.num_encoder_layers=2",
        ),
        (
            {"model.attention.projections": False, "model.attention.heads_layout": "wide"},
            "describes projections",
        ),
        (
            {"model.attention.projections": False, "model.attention.heads_layout": "multi-query"},
            "describes projections",
        ),
        ({"model.d_model": 33, "model.num_heads": 1}, "pairs of sine and cosine"),
    ],
)
def test_rejects_conflicting_variants(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config("tiny", settings=settings)
    assert words in str(caught.value)


def test_later_sources_of_settings_win(tmp_path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('preset = "tiny"\n[model]\nd_model = 64\ndropout = 0.2\n')
    config = make_config(None, file, {"model.dropout": 0.4})
    assert config.model.num_encoder_layers == PRESETS["tiny"]["model.num_encoder_layers"]
    assert (config.model.d_model, config.model.dropout) == (64, 0.4)
    assert flatten(config)["training.warmup_steps"] <= 100


@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_base_and_big_have_the_papers_sizes(preset: str, millions: int) -> None:
    pieces = vocabulary(37_000)
    with torch.device("meta"):  # shapes are enough
        model = build_model(make_config(preset).model, pieces, pieces, shared=True)
    count = parameter_count(model)
    assert count / 1e6 == pytest.approx(millions, rel=0.035)


def test_tables_override_a_preset_like_dotted_names() -> None:
    """A table used to wipe the preset's whole section: tiny with 45 million parameters."""
    nested = make_config("tiny", settings={"model": {"norm_position": "post"}})
    assert nested == make_config("tiny", settings={"model.norm_position": "post"})
    assert nested.model.d_model == make_config("tiny").model.d_model
    deep = make_config("tiny", settings={"model": {"positions": {"kind": "rotary"}}})
    assert deep == make_config("tiny", settings={"model.positions": {"kind": "rotary"}})


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [
        ("model.positions.kind", "rotery", "rotary"),
        ("model.d_modell", 512, "model.d_model"),
        ("model.label_smoothing", 0.1, "training.label_smoothing"),
        ("training.optimizer", "adamw", "adam"),
        ("beam_size", 5, "decoding.beam_size"),
    ],
)
def test_an_unknown_name_gets_a_hint(setting: str, value: object, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}[?]"):
        make_config("tiny", settings={setting: value})


def test_old_names_map_to_existing_settings() -> None:
    current = dict(leaves(to_tree(Config())))
    for table, renamed in OLD_KEYS.items():
        for old, new in renamed.items():
            assert f"{table}.{new}" in current
            assert f"{table}.{old}" not in current
    for name, renamed in OLD_VALUES.items():
        for old, new in renamed.items():
            assert flatten(make_config("tiny", settings={name: new} | NEEDED))[name] == new
            with pytest.raises(ConfigError):
                build(Config, {"training": {"objective": old}})


NEEDED = {"training.init": "a trained model"}


@pytest.mark.parametrize("read", ["tree", "settings", "file", "replace"])
def test_reads_settings_by_their_old_names(read: str, tmp_path: Path) -> None:
    old = {
        "model": {"attention": {"heads_layout": "shared"}, "width": 64, "heads": 4},
        "training": {"optimiser": "muon"},
    }
    if read == "tree":
        config = from_tree(old)
    elif read == "settings":
        config = make_config("tiny", settings=old)
    elif read == "file":
        (tmp_path / "old.toml").write_text("\n".join(toml_lines(old)))
        config = make_config("tiny", tmp_path / "old.toml")
        assert explicit_settings(tmp_path / "old.toml") == by_current_name(old)
    else:
        config = replace(Config(), {"model.width": 64, "model.heads": 4, **old})
    assert (config.model.d_model, config.model.num_heads) == (64, 4)
    assert config.model.attention.heads_layout == "multi-query"
    assert config.training.optimizer == "muon"
    assert "\nwidth" not in write_toml(config)


def test_rejects_a_setting_under_both_of_its_names() -> None:
    with pytest.raises(ConfigError, match=r"model\.width is the old name of model\.d_model"):
        make_config("tiny", settings={"model.width": 64, "model.d_model": 128})


def test_rejects_a_number_instead_of_a_table() -> None:
    with pytest.raises(ConfigError, match=r"model\.attention is 3"):
        from_tree({"model": {"attention": 3}})
