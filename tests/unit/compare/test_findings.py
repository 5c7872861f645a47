"""C7, C9 and C10: what is said follows from the runs, whichever way they point."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.compare import corpus_size, table, vocabulary
from dragoman.compare.figures import Lines, Table
from dragoman.compare.grid import (
    NEURAL,
    best,
    candidates,
    cell,
    compared,
    finalists,
    judge_sentences,
    sentence_scores,
    tuned_again,
)
from dragoman.compare.judge import Judgement, judge
from dragoman.compare.runs import Result, Study, _keep
from dragoman.compare.systems import FULL, QUICK
from dragoman.compare.texts import Given
from dragoman.compare.vocabulary import RareWords, recalled


def result(bleu: float, flops: float = 5e9) -> Result:
    return Result(
        parameters=1000, steps=10, flops=flops, seconds=3, bleu=bleu, chrf=2 * bleu, valid=bleu
    )


AHEAD, BEHIND = judge([3.0, 4.0, 5.0]), judge([-3.0, -4.0, -5.0])
PEERS = ("rnn", "rnn-attention", "gnmt", "convs2s")


def field(judged: Judgement, corpus: str = "tatoeba.de") -> table.Field:
    systems = {
        name: {0.5: [result(10.0, 1e9)], 1.0: [result(20.0), result(20.5)]} for name in NEURAL
    }
    return table.Field(corpus, systems, dict.fromkeys(PEERS, judged), {"lexical": result(5.0)})


def test_c7_is_seen_if_the_transformer_is_ahead_of_every_system_before_it() -> None:
    assert table.finding([field(AHEAD)], {}).verdict == "seen"
    assert table.finding([field(BEHIND)], {}).verdict == "not seen"
    assert table.finding([field(AHEAD), field(BEHIND, "b")], {}).verdict == "not seen"
    one_behind = replace(field(AHEAD), judged={"rnn": AHEAD, "gnmt": BEHIND})
    assert table.finding([one_behind], {}).verdict == "not seen"


def test_c7_is_undecided_where_nobody_has_learned_to_translate() -> None:
    few = {0.5: [replace(result(5.0), outputs=["a b"] * 9)]}
    fewer = {0.5: [replace(result(1.0), outputs=["c"] * 9)]}
    judged = table._judged("tatoeba.de", "rnn", few, fewer, ["a b c"] * 9)
    assert judged.verdict == "undecided"
    finding = table.finding([field(judged)], {})
    assert finding.verdict == "undecided"
    assert "translates on tatoeba.de" in finding.conditions


def test_c7_compares_two_systems_at_the_highest_cost_that_both_reached() -> None:
    good = replace(result(50.0), outputs=["a b c"] * 9)
    bad = replace(result(50.0), outputs=["a d"] * 9)
    ours, wanted = {0.5: [good], 1.0: [bad]}, ["a b c"] * 9
    assert table._judged("x", "rnn", ours, {0.5: [bad]}, wanted).verdict == "seen"
    theirs = {0.5: [bad], 1.0: [good]}
    assert table._judged("x", "rnn", ours, theirs, wanted).verdict == "not seen"


def test_c7_is_undecided_while_the_one_behind_still_gains_much() -> None:
    good, bad = ["a b c"] * 9, ["a d"] * 9
    for before, decided in ((30.0, False), (46.0, True)):
        behind = {0.5: [result(before)], 1.0: [replace(result(50.0), outputs=bad)]}
        ahead = {0.5: [result(20.0)], 1.0: [replace(result(60.0), outputs=good)]}
        judged = table._judged("x", "gnmt", behind, ahead, good)
        assert judged.verdict == ("not seen" if decided else "undecided")
        judged = table._judged("x", "gnmt", ahead, behind, good)
        assert judged.verdict == ("seen" if decided else "undecided")
        assert decided or "gnmt, which is behind" in judged.why


def test_c7_tells_who_leads_at_which_cost() -> None:
    one = field(AHEAD)
    systems = dict(one.systems)
    systems["gnmt"] = {0.5: [result(12, 1e9)], 1.0: [result(19)]}
    systems["transformer"] = {0.5: [result(11, 1e9)], 1.0: [result(30)]}
    one = replace(one, systems=systems)
    assert one.leaders() == [(1e9, "gnmt"), (5e9, "transformer")]
    said = " ".join(table.finding([one], {}).sentences)
    assert "gnmt at 1e+09 FLOPs, then transformer at 5e+09 FLOPs" in said


def test_c7_tells_whether_the_ensemble_is_better_and_does_not_rest_on_it() -> None:
    ensemble = {"lexical": result(5.0), "ensemble": result(26.0)}
    for together, told in ((AHEAD, "it is better still"), (BEHIND, "it is no better than")):
        one = replace(field(AHEAD), others=ensemble, together=together)
        finding = table.finding([one], {})
        assert finding.verdict == "seen"
        assert told in finding.sentences[0]


def test_c7_puts_each_ablation_beside_the_papers_row() -> None:
    ablated = {"nothing": [result(20.0), result(20.4)], "1 head": [result(18.0), result(18.4)],
               "no dropout": [result(21.0), result(21.4)]}  # fmt: skip
    finding = table.finding([field(AHEAD)], ablated)
    (shown,) = [
        f for f in finding.figures if isinstance(f, Table) and f.title.startswith("One thing")
    ]
    row = next(row for row in shown.rows if row[0] == "1 head")
    assert row[2].startswith("-2.00")
    assert row[3] == "-0.9"
    assert "1 head costs the most (-2.0 BLEU); 1 of 2 go the same way" in finding.sentences[1]


def gaps(first: float, last: float) -> dict[str, list[list[float]]]:
    peer = [[10.0, 10.5, 11.0], [30.0, 30.5, 31.0]]
    ours = [[value + gap for value in row] for row, gap in zip(peer, (first, last), strict=True)]
    return {"transformer": ours, "convs2s": peer}


def test_c9_says_what_was_judged_and_draws_the_lead_first() -> None:
    for judged in (AHEAD, BEHIND):
        finding = corpus_size.finding([100, 900], gaps(-3.0, 2.0), judged)
        assert finding.verdict == judged.verdict
        assert judged.interval("+.1f") in finding.sentences[1]
    lead = finding.figures[0]
    assert isinstance(lead, Lines)
    assert lead.series[0].y == pytest.approx([-3.0, 2.0])


def test_sentences_decide_only_if_every_seed_agrees() -> None:
    rows = np.array([[3.0, 4.0, 5.0], [1.0, 2.0, 3.0]])
    assert judge_sentences(rows).verdict == "seen"
    assert judge_sentences(-rows).verdict == "not seen"
    assert judge_sentences(np.array([[9.0, 9.0, 9.0], [-1.0, -1.0, -1.0]])).verdict == "undecided"


def test_systems_are_compared_sentence_by_sentence_in_points_of_gleu() -> None:
    references = ["a b c d", "e f g h"]
    right, half = replace(result(1), outputs=references), replace(result(1), outputs=["a b", "e f"])
    assert sentence_scores([right, half], references).tolist() == [[100.0, 100.0], [30.0, 30.0]]
    judged = compared([right, right], [half], references)
    assert (judged.verdict, judged.mean) == ("seen", 70.0)


def test_a_word_is_recalled_as_often_as_it_is_said() -> None:
    assert recalled(["a b", ""], ["b a a!", "c"]) == [[True, True, False], [False]]


def test_words_are_grouped_by_how_often_training_had_them() -> None:
    rare = RareWords(["often often " * 3 + "once"], ["often once never"])
    assert [vocabulary.NAMES[group] for group in rare.group] == ["6-20", "1-5", "0"]


def test_recall_is_matched_by_sentence_length() -> None:
    """Frequent words stand in short and long sentences, rare ones in long sentences alone: the
    frequent words of short sentences do not count."""
    long = " ".join(["often"] * 12)
    rare = RareWords(["often " * 10], ["often", f"{long} never"])
    found = np.concatenate(recalled(["", f"{long} never"], ["often", f"{long} never"]))
    recall = rare.recall(found)
    assert recall[vocabulary.NAMES.index("6-20")] == 1.0
    assert recall[0] == 1.0
    assert found.mean() < 1.0


@pytest.fixture
def tuned(tmp_path: Path) -> Study:
    """A study in which convs2s is best with the highest rate, all others with the lowest."""
    study = Study(tmp_path, FULL, "cpu")
    study.texts.write(Given(), replace(FULL, toy_pairs=50, test_pairs=2, valid_pairs=2), [])
    for name in NEURAL:
        for rate, system in candidates(FULL, name).items():
            wanted = max(FULL.rates) if name == "convs2s" else min(FULL.rates)
            study.run_of(system).mkdir(parents=True)
            _keep(study.run_of(system), result(30.0 if rate == wanted else 20.0))
    return study


def test_every_architecture_goes_on_with_the_rate_that_validated_best(tuned: Study) -> None:
    systems = {system.name: system for system in table.then(tuned)}
    for name, rate in (("convs2s", max(FULL.rates)), ("gnmt", min(FULL.rates))):
        assert cell(FULL, name, rate, FULL.budgets[0]).name in systems


def test_the_best_and_the_transformer_go_on_to_the_highest_cost(tuned: Study) -> None:
    ahead = candidates(FULL, "gnmt")[min(FULL.rates)]
    _keep(tuned.run_of(ahead), result(35.0))
    assert finalists(tuned)[:2] == ["transformer", "gnmt"]
    assert len(finalists(tuned)) == 1 + FULL.finalists
    needed = [s for s in table.then(tuned) if s.share > FULL.budgets[1] and not s.optional]
    assert {s.settings["model.architecture"] for s in needed} == set(finalists(tuned))


def test_a_finalist_is_tuned_again_at_the_third_cost(tuned: Study) -> None:
    """convs2s, whose rate is the highest, may get a lower one; any finalist another dropout."""
    rates = FULL.rates[-2:]
    _keep(tuned.run_of(candidates(FULL, "convs2s")[rates[1]]), result(35.0))
    tried = tuned_again(tuned, "convs2s")
    assert set(tried) == {(rate, dropout) for rate in rates for dropout in FULL.dropouts}
    assert not [system for system in tried.values() if system not in table.then(tuned)]
    assert FULL.budgets[-1] not in table.by_cost(tuned, "convs2s")
    for what, system in tried.items():
        tuned.run_of(system).mkdir(parents=True)
        _keep(tuned.run_of(system), result(31.0 if what == (rates[0], FULL.dropouts[-1]) else 30.0))
    costs = table.by_cost(tuned, "convs2s")
    assert costs[FULL.budgets[-2]][0] == tried[rates[0], FULL.dropouts[-1]]
    for system in costs[FULL.budgets[-1]]:
        assert system.settings["training.learning_rate"] == rates[0]
        assert system.settings["model.dropout"] == FULL.dropouts[-1]
    assert [system.optional for system in costs[FULL.budgets[-1]]] == [False, True]


def test_nothing_follows_before_all_is_tuned(tmp_path: Path) -> None:
    study = Study(tmp_path, FULL, "cpu")
    assert best(study, candidates(FULL, "rnn")) is None
    assert table.then(study) == corpus_size.then(study) == vocabulary.then(study) == []


def test_where_there_is_one_rate_nothing_is_trained_to_choose_it(tmp_path: Path) -> None:
    study = Study(tmp_path, QUICK, "cpu")
    assert best(study, candidates(QUICK, "rnn")) == QUICK.rates[0]
    assert corpus_size.CLAIM.systems(QUICK) == vocabulary.CLAIM.systems(QUICK) == []
    assert len(table.CLAIM.systems(FULL)) == 1 + len(NEURAL) * len(FULL.rates)


def test_c7_is_shown_without_what_is_optional(tuned: Study) -> None:
    """On the second corpus only the Transformer and the best of the others have to be trained."""
    also = replace(FULL, toy_pairs=50, test_pairs=2, valid_pairs=2)
    names = [tuned.folder / f"also.{end}" for end in ("de", "en")]
    for name in names:
        name.write_text("".join(f"eins {n} zwei\n" for n in range(60)))
    tuned.texts.write(Given(also=(str(names[0]), str(names[1]))), also, [])
    for _ in range(2):  # what comes next is known when the third cost is trained
        for system in [*table.CLAIM.systems(FULL), *table.then(tuned)]:
            if not system.optional:
                said = tuned.texts.test_of(system.corpus).sources
                tuned.run_of(system).mkdir(parents=True, exist_ok=True)
                _keep(tuned.run_of(system), replace(result(20.0), outputs=said))
    finding = table.show(tuned)
    on_second = [f for f in finding.figures if isinstance(f, Lines)][1]
    assert [series.name for series in on_second.series] == finalists(tuned)[:2]
