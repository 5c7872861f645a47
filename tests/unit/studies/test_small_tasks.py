"""Small tasks ask for what they say, and a trial is run once, with the rate that is best for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.batches import rng
from studies import tasks
from studies.tasks import PAD, SPECIAL, TASKS, Outcome, Trial, right_by_group, run_trial

COPY = Trial(
    "copy", {"symbols": 4, "shortest": 1, "longest": 3}, {"d_model": 16, "num_heads": 2}, 3
)


def test_copying_asks_for_the_words_and_nothing_after_them() -> None:
    made = TASKS["copy"](rng(1), 50, symbols=5, shortest=2, longest=6)
    for source, target, group in zip(made.source, made.target, made.group, strict=True):
        words = [w for w in source if w >= SPECIAL]
        assert target[group >= 0].tolist() == words
        assert set(group[group >= 0]) == {len(words)}
    assert made.target_in is not None
    assert (made.target_in[:, 1:] == made.target[:, :-1]).all()


def test_a_neighbour_is_the_word_so_far_before() -> None:
    made = TASKS["neighbour"](rng(1), 20, symbols=5, shortest=4, longest=6, distance=2)
    for source, target, group in zip(made.source, made.target, made.group, strict=True):
        length = int((source != PAD).sum())
        assert np.flatnonzero(group >= 0).tolist() == list(range(2, length))
        assert target[2:length].tolist() == source[: length - 2].tolist()


def test_lookups_have_the_requested_distances() -> None:
    made = TASKS["lookups"](rng(1), 5, symbols=5, length=7, distances=[1, 3])
    for place in range(7):
        assert (made.target[:, place, 0] + SPECIAL == made.source[:, (place + 1) % 7]).all()
        assert (made.target[:, place, 1] + SPECIAL == made.source[:, (place + 3) % 7]).all()


def test_pointers_are_followed_the_requested_number_of_times() -> None:
    made = TASKS["pointers"](rng(1), 10, length=6, hops=3)
    x = made.source - SPECIAL
    for row in range(10):
        for t in range(6):
            assert made.target[row, t] - SPECIAL == x[row, x[row, x[row, t]]]


def test_a_tables_entry_depends_on_the_first_two_words_only() -> None:
    made = TASKS["table"](rng(1), 500, symbols=3, length=4)
    asked = made.group >= 0
    assert asked.sum(axis=1).tolist() == [1] * 500
    answers: dict[tuple[int, ...], set[int]] = {}
    for source, target in zip(made.source, made.target, strict=True):
        answers.setdefault(tuple(source[:2]), set()).add(int(target[-1]))
    assert len(answers) == 9
    assert all(len(values) == 1 for values in answers.values())


def test_any_item_that_was_not_named_yet_is_right() -> None:
    made = TASKS["each_once"](rng(1), 20, symbols=8, items=4)
    assert made.allowed is not None
    for source, target, allowed in zip(made.source, made.target, made.allowed, strict=True):
        items = {int(w) for w in source if w >= SPECIAL}
        assert len(items) == 4
        for place in range(4):
            left = items - set(target[:place].tolist())
            assert set(np.flatnonzero(allowed[place]).tolist()) == left


def dictionary(cut: str, **size: object) -> tasks.Examples:
    return TASKS["dictionary"](rng(1), 400, length=5, cut=cut, symbols=tasks.SYMBOLS[cut], **size)


def test_a_dictionary_is_the_same_in_words_pieces_and_characters() -> None:
    words, pieces, letters = (dictionary(cut, evenly=True) for cut in tasks.SYMBOLS)
    assert [made.parts for made in (words, pieces, letters)] == [1, 2, 4]
    for spelled in (pieces, letters):
        by_word = spelled.target.reshape(2000, spelled.parts)
        said: dict[int, set[tuple[int, ...]]] = {}
        for whole, parts in zip(words.target.reshape(-1).tolist(), by_word.tolist(), strict=True):
            said.setdefault(whole, set()).add(tuple(parts))
        assert all(len(spellings) == 1 for spellings in said.values())
        assert len(set.union(*said.values())) == len(said)
        assert (spelled.group.reshape(2000, -1) == words.group.reshape(2000, 1)).all()


def test_training_never_shows_the_words_that_are_unknown() -> None:
    assert (dictionary("words").group > 0).all()
    everything = dictionary("words", evenly=True)
    assert ((everything.source < SPECIAL) == (everything.group == 0)).all()
    assert set(np.unique(everything.group)) == {0, 1, 2, 3}


def test_a_rule_makes_a_first_syllable_always_the_same_and_no_rule_does_not() -> None:
    for regular in (True, False):
        made = dictionary("pieces", evenly=True, regular=regular)
        firsts = zip(made.source[:, ::2].flat, made.target[:, ::2].flat, strict=True)
        assert (len(set(firsts)) == tasks.SYLLABLES) == regular


def test_an_answer_in_parts_is_right_if_all_of_them_are() -> None:
    trial = Trial("dictionary", {"length": 5, "cut": "pieces", "symbols": 40}, {"d_model": 16}, 1)
    model = tasks.model_for(trial)
    made = dictionary("pieces", evenly=True)
    said = tasks.logits_of(model, made).argmax(dim=-1).numpy()
    assert set(right_by_group(model, replace(made, target=said)).values()) == {1.0}
    said[:, ::2] += 1  # every first part is wrong now
    assert set(right_by_group(model, replace(made, target=said)).values()) == {0.0}


def test_a_trial_depends_only_on_its_settings() -> None:
    assert run_trial(COPY) == run_trial(COPY)
    assert run_trial(COPY) != run_trial(replace(COPY, seed=1))


def test_a_short_training_learns_an_easy_task_and_is_tested_on_other_sizes() -> None:
    easy = Trial(
        "copy", {"symbols": 4, "shortest": 1, "longest": 1}, {"d_model": 16, "num_heads": 2}, 60,
        1e-2,
        tested={"longest": 2},
    )  # fmt: skip
    outcome = run_trial(easy)
    assert outcome.right[1] > 0.9
    assert set(outcome.right) == {1, 2}


def test_shares_are_counted_by_group() -> None:
    model = tasks.model_for(COPY)
    examples = TASKS["copy"](rng(1), 30, symbols=4, shortest=1, longest=3)
    said = tasks.logits_of(model, examples).argmax(dim=-1).numpy()
    found = right_by_group(model, replace(examples, target=said))
    assert found == {1: 1.0, 2: 1.0, 3: 1.0}
    wrong = replace(examples, target=np.where(examples.group == 2, -1, said))
    assert right_by_group(model, wrong) == {1: 1.0, 2: 0.0, 3: 1.0}


def fake(trial: Trial) -> Outcome:
    """Better, the nearer the rate is to what the model's width wants."""
    wanted = {16: 1e-3, 32: 1e-2}[trial.model["d_model"]]
    share = 1.0 - abs(np.log10(trial.rate / wanted)) / 4
    return Outcome(share, {0: share - 0.01 * trial.seed}, [(1, share)], 0.0)


def test_each_system_gets_its_own_best_rate_and_the_same_number_of_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Trial] = []

    def run(trial: Trial) -> Outcome:
        ran.append(trial)
        return fake(trial)

    monkeypatch.setattr(tasks, "run_trial", run)
    systems = {"a": COPY, "b": replace(COPY, model={"d_model": 32})}
    found = tasks.tune(tmp_path, systems, (1e-3, 1e-2), seeds=3)
    assert found["a"].rate == 1e-3
    assert found["b"].rate == 1e-2
    assert [len(one.outcomes) for one in found.values()] == [3, 3]
    widths = [trial.model["d_model"] for trial in ran]
    assert widths.count(16) == widths.count(32) == 2 + 2
    assert tasks.tune(tmp_path, systems, (1e-3, 1e-2), seeds=3) == found
    assert len(ran) == 8  # all outcomes were kept
    shown = tasks.tuning_table(found)
    assert shown.folded
    assert [row[-1] for row in shown.rows] == ["0.001", "0.01"]
