"""The verdicts on C7, C9 and C10 follow from the runs, whether they support or refute them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.lab.compare.corpora import CorpusFiles
from dragoman.lab.compare.figures import LineChart, Table
from dragoman.lab.compare.runs import Result, Study, _keep
from studies import corpus_size, table, vocabulary
from studies.grid import (
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
from studies.judge import Judgement, judge
from studies.language import toy_files
from studies.scales import FULL, QUICK
from studies.vocabulary import RareWords, recalled


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
    by_cost = {peer: {1.0: judged} for peer in PEERS}
    return table.Field(corpus, systems, by_cost, {"lexical": result(5.0)})


def test_c7_is_seen_if_the_transformer_is_ahead_of_every_system_before_it() -> None:
    assert table.finding([field(AHEAD)], {}).verdict == "seen"
    assert table.finding([field(BEHIND)], {}).verdict == "not seen"
    assert table.finding([field(AHEAD), field(BEHIND, "b")], {}).verdict == "not seen"
    one_behind = replace(field(AHEAD), judged={"rnn": {1.0: AHEAD}, "gnmt": {1.0: BEHIND}})
    assert table.finding([one_behind], {}).verdict == "not seen"


def seeds(bleu: float, outputs: list[str], count: int = table.MANY) -> list[Result]:
    return [replace(result(bleu), outputs=outputs)] * count


GOOD, BAD = ["a b c"] * 9, ["a d"] * 9


def test_c7_is_undecided_if_no_model_has_learned_to_translate() -> None:
    few, fewer = {0.5: seeds(5.0, ["a b"] * 9)}, {0.5: seeds(1.0, ["c"] * 9)}
    judged = table.judged_by_cost("tatoeba.de", "rnn", few, fewer, GOOD)[0.5]
    assert judged.verdict == "undecided"
    finding = table.finding([field(judged)], {})
    assert finding.verdict == "undecided"
    assert "translates on tatoeba.de" in finding.conditions


def test_c7_is_judged_at_every_cost_that_both_were_trained_at() -> None:
    ours = {0.5: seeds(50.0, BAD), 1.0: seeds(60.0, GOOD)}
    theirs = {0.5: seeds(60.0, GOOD), 1.0: seeds(56.0, BAD)}
    judged = table.judged_by_cost("x", "rnn", ours, theirs, GOOD)
    assert {share: one.verdict for share, one in judged.items()} == {0.5: "not seen", 1.0: "seen"}
    assert list(table.judged_by_cost("x", "rnn", ours, {0.5: theirs[0.5]}, GOOD)) == [0.5]
    one = table.Field("x", {"transformer": ours, "rnn": theirs}, {"rnn": judged})
    finding = table.finding([one], {})
    assert finding.verdict == "not seen"  # the claim says it of every cost
    assert [verdict for _, verdict in finding.parts] == ["not seen", "seen"]
    assert "It overtakes rnn at" in finding.sentences[0]


def test_c7_decides_nothing_with_fewer_than_five_seeds() -> None:
    ours, theirs = {1.0: seeds(60.0, GOOD, 4)}, {0.5: seeds(56.0, BAD), 1.0: seeds(56.0, BAD)}
    judged = table.judged_by_cost("x", "rnn", {0.5: ours[1.0], **ours}, theirs, GOOD)[1.0]
    assert judged.verdict == "undecided"
    assert "at least 5 seeds" in judged.why


def test_curves_cross_where_their_difference_is_nothing() -> None:
    def costs(*bleu: tuple[float, float]) -> dict[float, list[Result]]:
        """Return results at 1e10 and at 1e12 FLOPs, one seed per column."""
        return {
            share: [replace(result(b), flops=1e10 * share) for b in (pair[i] for pair in bleu)]
            for i, share in enumerate((1.0, 100.0))
        }

    theirs = costs((20.0, 30.0), (20.0, 30.0))
    even = table.crossing(costs((10.0, 40.0), (10.0, 40.0)), theirs)
    assert even is not None
    assert even.flops == pytest.approx(1e11)
    assert even.low == pytest.approx(even.high)
    apart = table.crossing(costs((10.0, 40.0), (15.0, 45.0)), theirs)
    assert apart is not None
    assert apart.low < apart.flops < 1e11 < apart.high
    alone = table.crossing(costs((10.0, 40.0)), theirs)
    assert alone is not None
    assert (alone.low, alone.high) == pytest.approx((1e10, 1e12))
    assert table.crossing(theirs, costs((10.0, 20.0), (10.0, 20.0))) is None


def test_c7_is_undecided_while_the_one_behind_still_gains_much() -> None:
    for before, decided in ((30.0, False), (46.0, True)):
        behind = {0.5: seeds(before, BAD), 1.0: seeds(50.0, BAD)}
        ahead = {0.5: seeds(20.0, BAD), 1.0: seeds(60.0, GOOD)}
        judged = table.judged_by_cost("x", "gnmt", behind, ahead, GOOD)[1.0]
        assert judged.verdict == ("not seen" if decided else "undecided")
        judged = table.judged_by_cost("x", "gnmt", ahead, behind, GOOD)[1.0]
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


def test_c7_shows_each_ablation_next_to_the_papers_row() -> None:
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
    assert isinstance(lead, LineChart)
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
    """Frequent words occur in short and long sentences, rare ones only in long sentences: the
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
    corpus = CorpusFiles(toy_files(tmp_path / "toy", 50))
    study.texts.write(corpus, replace(FULL, test_pairs=2, valid_pairs=2), [])
    for name in NEURAL:
        for rate, system in candidates(FULL, name).items():
            wanted = max(FULL.rates) if name == "convs2s" else min(FULL.rates)
            study.run_of(system).mkdir(parents=True)
            _keep(study.run_of(system), result(30.0 if rate == wanted else 20.0))
    return study


def test_every_architecture_continues_with_the_rate_that_validated_best(tuned: Study) -> None:
    systems = {system.name: system for system in table.then(tuned)}
    for name, rate in (("convs2s", max(FULL.rates)), ("gnmt", min(FULL.rates))):
        assert cell(FULL, name, rate, FULL.budgets[0]).name in systems


def test_the_best_and_the_transformer_continue_to_the_highest_cost(tuned: Study) -> None:
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
    assert [system.optional for system in costs[FULL.budgets[-1]]] == [False, *[True] * 4]


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
    """The second corpus requires only the Transformer and the best other architecture."""
    also = replace(FULL, toy_pairs=50, test_pairs=2, valid_pairs=2)
    names = [tuned.folder / f"also.{end}" for end in ("de", "en")]
    for name in names:
        name.write_text("".join(f"eins {n} zwei\n" for n in range(60)))
    tuned.texts.write(CorpusFiles(also=(str(names[0]), str(names[1]))), also, [])
    for _ in range(2):  # what comes next is known when the third cost is trained
        for system in [*table.CLAIM.systems(FULL), *table.then(tuned)]:
            if not system.optional:
                said = tuned.texts.test_of(system.corpus).sources
                tuned.run_of(system).mkdir(parents=True, exist_ok=True)
                _keep(tuned.run_of(system), replace(result(20.0), outputs=said))
    finding = table.show(tuned)
    on_second = [f for f in finding.figures if isinstance(f, LineChart)][1]
    assert [series.name for series in on_second.series] == finalists(tuned)[:2]
