import tomllib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import (
    Config,
    Corpus,
    DataConfig,
    describe_settings,
    flatten,
    from_saved,
    from_tree,
    make_config,
    parse_set,
    replace,
    variants,
    write_toml,
)
from dragoman.config.presets import PRESETS
from dragoman.config.settings import aliases_of
from dragoman.decode.search.hypotheses import LENGTH_PENALTIES
from dragoman.errors import ConfigError
from dragoman.lab.architectures.recurrent import CELLS
from dragoman.model.build import ARCHITECTURES, build_model, parameter_count
from dragoman.model.distances import DISTANCES
from dragoman.model.heads import HEADS
from dragoman.model.layers import ACTIVATIONS, GATES, NORMS, PLACEMENTS
from dragoman.model.positions import JOINS, POSITIONS
from dragoman.model.similarities import SIMILARITIES
from dragoman.model.spans import SPANS
from dragoman.model.transformer import MEMORIES
from dragoman.text.subword import SEGMENTERS
from dragoman.training.gradients import GRADIENTS
from dragoman.training.schedule import SCHEDULES
from tests.conftest import vocabulary

TABLES = {
    "model.cell": CELLS,
    "model.activation": ACTIVATIONS | GATES,
    "model.norm": PLACEMENTS,
    "model.norm_kind": NORMS,
    "text.vocabulary": SEGMENTERS,
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


def test_the_help_of_a_setting_tells_its_variants() -> None:
    docs = {name: doc for name, _, doc in describe_settings()}
    for name, table in variants.TABLES.items():
        for choice, variant in table.items():
            assert f"{choice} ({variant.help})" in docs[name]


@given(st.text(max_size=20), st.floats(0, 1e6), st.integers(1, 10**6))
def test_a_configuration_survives_toml(name: str, weight: float, steps: int) -> None:
    config = Config(data=DataConfig(corpora=(Corpus(name, name, "de", "en", weight),)))
    tree = tomllib.loads(write_toml(config))
    tree["training"]["max_steps"] = steps
    again = from_tree(tree)
    assert again.data == config.data
    assert again.training.max_steps == steps


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("model.widht=64", "did you mean model.width?"),
        ("model.warmup=5", "did you mean training.warmup_steps?"),
        ("model.norm=prenorm", "post, pre"),
        ("model.width=wide", "expected a whole number"),
        ("model.width=true", "expected a whole number"),
        ("model.dropout=1.0", "must be below 1.0"),
        ("training.max_steps=0", "must be at least 1"),
        ("training.learning_rate=nan", "expected a finite number"),
        ("model=3", "expected a table"),
        ("model.width.x=3", "not a table"),
        ("data.corpora=3", "list of tables"),
        ("model.heads=3", "not a multiple"),
        ("model", "section.key=value"),
    ],
)
def test_a_wrong_setting_is_named_with_a_hint(assignment: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config("tiny", settings=parse_set([assignment]))
    assert words in str(caught.value)


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"text\.shared"):
        make_config(settings={"text.shared": False, "model.tied": "all"})
    with pytest.raises(ConfigError, match=r"data\.max_length"):
        make_config(settings={"model.positions.kind": "learned", "model.positions.max_length": 100})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"model.positions.kind": "rotary", "model.width": 36, "model.heads": 4},
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
            {"model.attention.memory": "same-layer", "model.encoder_layers": 3},
            "set model.encoder_layers=2",
        ),
        (
            {"model.attention.projections": False, "model.attention.heads_layout": "wide"},
            "describes projections",
        ),
        (
            {"model.attention.projections": False, "model.attention.heads_layout": "multi-query"},
            "describes projections",
        ),
        ({"model.width": 33, "model.heads": 1}, "pairs of sine and cosine"),
    ],
)
def test_variants_that_do_not_go_together_are_refused(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config("tiny", settings=settings)
    assert words in str(caught.value)


def test_later_sources_of_settings_win(tmp_path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('preset = "tiny"\n[model]\nwidth = 64\ndropout = 0.2\n')
    config = make_config(None, file, {"model.dropout": 0.4})
    assert config.model.encoder_layers == PRESETS["tiny"]["model.encoder_layers"]
    assert (config.model.width, config.model.dropout) == (64, 0.4)
    assert flatten(config)["training.warmup_steps"] <= 100


@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_presets_have_the_papers_size_at_its_vocabulary(preset: str, millions: int) -> None:
    pieces = vocabulary(37_000)
    with torch.device("meta"):  # shapes are enough
        model = build_model(make_config(preset).model, pieces, pieces, shared=True)
    count = parameter_count(model)
    assert count / 1e6 == pytest.approx(millions, rel=0.035)


def test_a_table_lies_over_the_preset_as_dotted_names_do() -> None:
    """A table used to wipe the preset's whole section: tiny with 45 million parameters."""
    nested = make_config("tiny", settings={"model": {"norm": "post"}})
    assert nested == make_config("tiny", settings={"model.norm": "post"})
    assert nested.model.width == make_config("tiny").model.width
    deep = make_config("tiny", settings={"model": {"positions": {"kind": "rotary"}}})
    assert deep == make_config("tiny", settings={"model.positions": {"kind": "rotary"}})


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [
        ("model.positions.kind", "rope", "rotary"),
        ("model.attention.heads_layout", "mqa", "multi-query"),
        ("model.attention.similarity", "mqa", "model.attention.heads_layout=multi-query"),
        ("model.mqa", True, "model.attention.heads_layout=multi-query"),
        ("training.lr", 1e-3, "training.learning_rate"),
        ("model.d_model", 512, "model.width"),
        ("label_smoothing", 0.1, "training.label_smoothing"),
        ("training.optimiser", "adamw", "adam"),
        ("beam_size", 5, "decoding.beam"),
    ],
)
def test_the_fields_own_names_lead_to_ours(setting: str, value: object, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}[?]"):
        make_config("tiny", settings={setting: value})


def test_an_alias_is_no_name_of_ours() -> None:
    """Otherwise the hint would lead away from what was written right."""
    ours = {name.rsplit(".", 1)[-1] for name, _, _ in describe_settings()}
    assert not ours & aliases_of(Config).keys()


def test_a_value_that_was_renamed_is_refused_by_its_new_name_but_read_from_what_was_saved() -> None:
    old = {"model": {"attention": {"heads_layout": "shared"}, "width": 64, "heads": 4}}
    with pytest.raises(ConfigError, match="heads_layout=shared is called multi-query now"):
        from_tree(old)
    assert from_saved(old) == replace(
        Config(),
        {"model.attention.heads_layout": "multi-query", "model.width": 64, "model.heads": 4},
    )
    with pytest.raises(ConfigError, match=r"model\.attention is 3"):
        from_saved({"model": {"attention": 3}})
