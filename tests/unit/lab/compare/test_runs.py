"""Texts that do not leak, runs that spend their budget, results that are computed once."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import RunError
from dragoman.lab.compare import runs
from dragoman.lab.compare.corpora import CorpusFiles, CorpusFolder
from dragoman.lab.compare.runs import Result, Study, _keep, run_all
from dragoman.lab.compare.systems import Scale, System
from studies.language import toy_files
from studies.scales import QUICK, architecture, variant
from tests.conftest import SHORT_SEARCH, write_corpus

SMALL: Scale = replace(
    QUICK,
    flops=1.5e8,
    settings={
        **QUICK.settings, **SHORT_SEARCH,
        "text.vocab_size": 300, "model.d_model": 16, "model.d_ff": 32,
        "model.num_heads": 2,
        "model.num_encoder_layers": 1, "model.num_decoder_layers": 1,
    },
    toy_pairs=400, test_pairs=12, valid_pairs=10,
)  # fmt: skip
QUIET = Console(quiet=True)


def toy(folder: Path) -> CorpusFiles:
    return CorpusFiles(toy_files(folder / "toy", SMALL.toy_pairs))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    study = Study(tmp_path, SMALL, "cpu")
    study.texts.write(toy(tmp_path), SMALL, ["pairs-95"])
    return study


def test_training_and_test_texts_share_no_sentence(tmp_path: Path) -> None:
    texts = CorpusFolder(tmp_path)
    texts.write(toy(tmp_path), SMALL, ["pairs-100"])
    held = [texts.sentences(name) for name in ("test", "valid")]
    for name in ("all", "pairs-100"):
        trained = texts.sentences(name)
        for test in held:
            assert not set(trained.sources) & set(test.sources)
            assert not set(trained.targets) & set(test.targets)
    assert len(held[0].sources) == SMALL.test_pairs


def test_a_given_test_file_is_used(tmp_path: Path) -> None:
    pairs = [(f"eins {n} zwei", f"one {n} two") for n in range(60)]
    train = write_corpus(tmp_path, "train", pairs)
    test = write_corpus(tmp_path, "test", pairs[:5])
    texts = CorpusFolder(tmp_path / "text")
    texts.write(CorpusFiles(tuple(map(str, train)), None, tuple(map(str, test))), SMALL, [])
    assert texts.sentences("test").sources == [source for source, _ in pairs[:5]]
    assert set(texts.sentences("all").sources) <= {source for source, _ in pairs[5:]}


def test_a_smaller_draw_of_pairs_is_part_of_a_larger_one(tmp_path: Path) -> None:
    texts = CorpusFolder(tmp_path)
    texts.write(toy(tmp_path), SMALL, ["pairs-20", "pairs-50"])
    small, large, whole = (
        set(texts.sentences(name).sources) for name in ("pairs-20", "pairs-50", "all")
    )
    assert len(small) == 20
    assert small < large < whole


def test_a_second_corpus_has_its_own_held_out_parts(tmp_path: Path) -> None:
    pairs = [(f"eins {n} zwei", f"one {n} two") for n in range(200)]
    also = write_corpus(tmp_path, "other", pairs)
    texts = CorpusFolder(tmp_path / "text")
    texts.write(replace(toy(tmp_path), also=tuple(map(str, also))), SMALL, [])
    assert texts.name_of("also") == "other.de"
    assert texts.name_of("all") == "the toy language"
    test = texts.test_of("also")
    assert set(test.sources) < {source for source, _ in pairs}
    assert not set(test.sources) & set(texts.sentences("also").sources)
    assert texts.valid_of("also") != texts.valid_of("all")


def test_a_system_that_has_converged_stops_before_its_budget_is_spent(study: Study) -> None:
    patient = replace(study, scale=replace(SMALL, flops=1e10, patience=1))
    settings = {
        "training.learning_rate": 0.0, "training.batch_tokens": 1000,
        "decoding.max_length_ratio": 0.1, "decoding.max_length_extra": 2,
    }  # fmt: skip
    system = System("stops", settings, "pairs-95", converged=True)
    run_all(patient, [system], 1, QUIET)
    result = patient.result(system)
    assert result.flops < 0.9 * 1e10
    assert result.curve


def test_an_ensemble_costs_the_sum_of_its_members(study: Study) -> None:
    members = (variant("one", 0.2), variant("two", 0.2, training__seed=2))
    run_all(study, members, 1, QUIET)
    shutil.rmtree(study.run_of(members[1]))  # a folder copied without its models
    study.run_of(members[1]).mkdir()
    _keep(study.run_of(members[1]), Result(flops=7.0))
    together = System("together", members=members)
    run_all(study, [together], 1, QUIET)
    result = study.result(together)
    assert result.flops == study.result(members[0]).flops + 7.0
    assert len(result.outputs) == SMALL.test_pairs


def test_no_run_starts_after_the_time_limit(study: Study) -> None:
    systems = [variant("one", 0.2), variant("two", 0.2, training__seed=2)]
    assert not run_all(study, systems, 1, QUIET, stop_at=0.0)
    assert not any(study.has_result(system) for system in systems)
    assert run_all(study, systems, 1, QUIET)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_system_stops_within_a_step_of_its_share_of_the_budget(
    study: Study, share: float
) -> None:
    system = variant("one", share)
    run_all(study, [system], 1, QUIET)
    result = study.result(system)
    assert abs(result.flops - share * SMALL.flops) <= 1.5 * result.flops / result.steps
    assert len(result.outputs) == SMALL.test_pairs


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_few_steps_stay_within_the_budget(study: Study, optimizer: str) -> None:
    """The cost includes the optimizer's own work, which is large for Muon."""
    few = replace(study, scale=replace(SMALL, flops=1.5e7))
    system = variant("few", training__optimizer=optimizer)
    run_all(few, [system], 1, QUIET)
    assert few.result(system).steps < 12
    assert few.result(system).flops < 1.2 * 1.5e7


def test_a_learning_curve_ends_at_the_cost_of_the_run(study: Study) -> None:
    system = architecture("transformer")
    run_all(study, [system], 1, QUIET)
    result = study.result(system)
    assert len(result.curve) == SMALL.validations
    assert result.curve[-1][0] == pytest.approx(result.flops)


def test_a_result_is_never_computed_twice_and_data_is_prepared_once(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = variant("one", 0.2), variant("two", 0.2, model__norm_position="post")
    run_all(study, [first], 1, QUIET)
    before = study.result(first)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("done before")

    monkeypatch.setattr(runs, "prepare", never)
    run_all(study, [first, second], 1, QUIET)
    monkeypatch.setattr(runs, "train", never)
    run_all(study, [first, second], 1, QUIET)
    assert study.result(first) == before


def test_an_interrupted_run_continues(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    system = variant("one", 0.2)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(runs, "measure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_all(study, [system], 1, QUIET)
    assert not study.has_result(system)
    run_all(study, [system], 1, QUIET)
    assert study.result(system).steps > 0


def test_a_run_that_diverges_is_a_result(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RunError("step 3: the gradient is not finite")

    monkeypatch.setattr(runs, "train", fails)
    system = System("lost")
    run_all(study, [system], 1, QUIET)
    assert study.result(system).failure == "step 3: the gradient is not finite"
    assert study.result(system).bleu == 0


@pytest.mark.slow
def test_parallel_runs_give_the_results_of_sequential_runs(study: Study, tmp_path: Path) -> None:
    systems = [variant("one", 0.2), variant("two", 0.2, training__seed=2)]
    run_all(study, systems, 1, QUIET)
    other = replace(study, folder=tmp_path / "other")
    other.texts.write(toy(tmp_path), SMALL, [])
    run_all(other, systems, 2, QUIET)
    for system in systems:
        one, two = (replace(s.result(system), seconds=0.0) for s in (study, other))
        assert one == two
