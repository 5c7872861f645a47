"""Translations as lines of output."""

import pytest

import dragoman.decode.translation as translation_module
from dragoman.cli.options import show_result
from dragoman.cli.translating import Shown
from dragoman.decode.translation import Candidate, Translation

BEST = Candidate("Hello.", -0.5, ("▁Hello", "."), (-0.1, -0.1, -0.1), alignment=((0, 0),))
MADE = Translation("Guten Tag.", (BEST,))


def test_columns_keep_their_order() -> None:
    everything = Shown(2, True, False, matches=True, confidence=True, second=True)
    score, text, links, match, confidence, by = everything(MADE).rstrip("\n").split("\t")
    assert (score, text, links, match, by) == ("-0.5000", "Hello.", "0-0", "", "")
    assert confidence == f"{MADE.confidence:.3f}"
    assert Shown(1, False, False)(MADE) == "Hello.\n"


def test_confidences_are_estimated_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate takes half as long as all other work with a line's text."""

    def refuse() -> None:
        raise AssertionError("an estimate was made")

    monkeypatch.setattr(translation_module, "estimator", refuse)
    assert Shown(1, False, False)(MADE) == "Hello.\n"
    with pytest.raises(AssertionError):
        Shown(1, False, False, confidence=True)(MADE)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_attend_and_explain_send_no_commands_to_a_terminal(
    capsys, monkeypatch, is_terminal: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    show_result("red \x1b[31m and \u202e", {})
    shown = "red \\u001b[31m and \\u202e" if is_terminal else "red \x1b[31m and \u202e"
    assert capsys.readouterr().out == f"{shown}\n"
