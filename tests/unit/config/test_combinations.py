import pytest

from dragoman.config import describe_settings, make_config
from dragoman.config.variants import ARCHITECTURES
from dragoman.errors import ConfigError
from dragoman.model.build import build_model
from tests.conftest import vocabulary


def test_architectures_read_existing_settings() -> None:
    settings = [name for name, _, _ in describe_settings()]
    for name in {name for entry in ARCHITECTURES.values() for name in entry.reads}:
        assert any(f"{setting}.".startswith(f"model.{name}.") for setting in settings), name


@pytest.mark.parametrize(
    ("architecture", "setting", "value", "reason"),
    [
        (
            "transformer",
            "model.kernel_width",
            5,
            "is not used by model.architecture=transformer: leave it at 3",
        ),
        ("transformer", "model.cell", "gru", "is not used by"),
        ("gnmt", "model.cell", "gru", "leave it at lstm"),
        ("rnn", "model.attention.similarity", "dot", "is not used by"),
        ("rnn-attention", "model.attention.pattern", "hard", "is not used by"),
        ("rnn", "model.positions.kind", "learned", "leave it at sinusoidal"),
        ("lexical", "model.residual", False, "is not used by"),
        (
            "rnn",
            "model.activation",
            "gelu",
            "model.activation=gelu is not used by model.architecture=rnn",
        ),
        ("convs2s", "model.attention_dropout", 0.1, "is not used by"),
        ("lexical", "model.output_bias", True, "is not used by"),
        ("decoder-only", "model.attention.cross_attention_layer", "same-layer", "is not used by"),
        ("gnmt", "model.num_decoder_layers", 1, "set model.num_decoder_layers=2"),
        ("gnmt", "model.d_model", 33, "half of it for each direction"),
        ("convs2s", "data.max_length", 512, "convs2s learns its positions"),
        ("decoder-only", "model.positions.kind", "learned", "two sentences"),
    ],
)
def test_rejects_a_setting_that_the_architecture_does_not_use(
    architecture, setting, value, reason
) -> None:
    named = {"model.architecture": architecture, "model.num_heads": 1, setting: value}
    with pytest.raises(ConfigError, match=reason):
        make_config("tiny", settings=named)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_every_preset_works_with_every_architecture(architecture: str, preset: str) -> None:
    assert (
        make_config(preset, settings={"model.architecture": architecture}).model.architecture
        == architecture
    )


@pytest.mark.parametrize("architecture", ["rnn", "convs2s"])
def test_rules_of_heads_and_sinusoids_apply_only_to_models_with_them(architecture: str) -> None:
    """A width that eight heads cannot share, and one that is odd, are nothing to a recurrent
    network."""
    for width in (300, 33):
        named = {"model.architecture": architecture, "model.d_model": width, "model.num_heads": 8}
        config = make_config("tiny", settings=named)
        words = vocabulary(11)
        build_model(config.model, words, words, shared=True)
        with pytest.raises(ConfigError, match=r"not a multiple of model\.num_heads=8"):
            make_config("tiny", settings={**named, "model.architecture": "transformer"})
