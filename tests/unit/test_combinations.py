import pytest

from dragoman.combinations import OBEYED
from dragoman.config import describe_settings, make_config
from dragoman.errors import ConfigError
from dragoman.model.build import ARCHITECTURES


def test_every_architecture_says_what_it_obeys_and_obeys_what_there_is() -> None:
    assert OBEYED.keys() == ARCHITECTURES.keys()
    settings = [name for name, _, _ in describe_settings()]
    for name in {name for names in OBEYED.values() for name in names}:
        assert any(f"{setting}.".startswith(f"model.{name}.") for setting in settings), name


@pytest.mark.parametrize(
    ("architecture", "setting", "value", "reason"),
    [
        ("transformer", "model.kernel_width", 5, "says nothing to model.architecture=transformer: leave it at 3"),
        ("transformer", "model.cell", "gru", "says nothing"),
        ("gnmt", "model.cell", "gru", "leave it at lstm"),
        ("rnn", "model.attention.similarity", "dot", "says nothing"),
        ("rnn-attention", "model.attention.span", "hard", "says nothing"),
        ("rnn", "model.positions.kind", "learned", "leave it at sinusoidal"),
        ("lexical", "model.residual", False, "says nothing"),
        ("decoder-only", "model.attention.memory", "same-layer", "says nothing"),
        ("gnmt", "model.decoder_layers", 1, "set model.decoder_layers=2"),
        ("gnmt", "model.width", 33, "half of it for each direction"),
        ("convs2s", "data.max_length", 512, "convs2s learns its positions"),
        ("decoder-only", "model.positions.kind", "learned", "two sentences"),
    ],
)
def test_a_setting_that_does_not_go_with_the_architecture_is_refused(architecture, setting, value, reason) -> None:
    named = {"model.architecture": architecture, "model.heads": 1, setting: value}
    with pytest.raises(ConfigError, match=reason):
        make_config("tiny", settings=named)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_every_preset_can_be_every_architecture(architecture: str, preset: str) -> None:
    assert make_config(preset, settings={"model.architecture": architecture}).model.architecture == architecture
