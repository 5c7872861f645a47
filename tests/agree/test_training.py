"""Two code paths to one gradient, one cost, one run."""

import copy
import json
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.cli.loading import load_model
from dragoman.config import Corpus, make_config
from dragoman.data.batches import collate, split_batch
from dragoman.data.prepare import prepare
from dragoman.decode.translator import Translator
from dragoman.errors import RunError
from dragoman.model.build import build_model, get_weights
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.cost import training_flops
from dragoman.training.distributed import DistContext
from dragoman.training.journal import Journal, NoJournal
from dragoman.training.loss import smoothed_cross_entropy
from dragoman.training.run import Outcome, _Interruption, train
from dragoman.training.trainer import Trainer
from tests.conftest import QUICK_RUN, SMALL, small_model, toy_pairs, vocabulary, write_corpus
from tests.processes import Running


def make_trainer(folder: Path, micro_batch_tokens: int, **settings: object) -> Trainer:
    source, target = write_corpus(folder, "t", toy_pairs(200))
    named = {name.replace("__", "."): value for name, value in settings.items()}
    corpora = [{"source": str(source), "target": str(target)}]
    config = make_config(
        "tiny", settings={**SMALL, "text.vocab_size": 400, "data.corpora": corpora, **named}
    )
    data = prepare(config, folder / f"data{micro_batch_tokens}")
    model = build_model(config.model, data.codec.source, data.codec.target, data.codec.shared, 1)
    progress = Progress(micro_batch_tokens=micro_batch_tokens)
    return Trainer(
        config, data, model, torch.device("cpu"), Checkpoints(folder / "checkpoints", 2), progress
    )


def test_micro_batches_do_not_change_the_gradient(tmp_path) -> None:
    gradients = []
    for micro_batch_tokens in (100_000, 200):
        trainer = make_trainer(tmp_path, micro_batch_tokens, model__dropout=0.0)
        batches = trainer.loader.step_at(trainer.progress.position)
        assert (len(batches) > 1) == (micro_batch_tokens == 200)
        trainer.accumulate(batches, 1, sum(batch.tokens for batch in batches))
        gradients.append({name: p.grad.clone() for name, p in trainer.model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-6, rtol=1e-4)


def test_ranks_that_share_a_model_pass_through_it_equally_often(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 200)
    batches = trainer.loader.step_at(trainer.progress.position)[:3]
    tokens = [batch.tokens for batch in batches]

    def dealt(rank: int) -> list[int]:
        trainer.ranks = DistContext(rank=rank, size=2)
        return [batch.tokens for batch in trainer._dealt(batches)]

    assert (dealt(0), dealt(1)) == ([tokens[0], tokens[2]], [tokens[1]])
    trainer.model = copy.deepcopy(trainer.unsharded_model)  # as if it were sharded
    assert (dealt(0), dealt(1)) == ([tokens[0], tokens[2]], [tokens[1], 0])


def test_a_step_that_does_not_fit_is_split_and_keeps_its_gradient(tmp_path, monkeypatch) -> None:
    trainer = make_trainer(tmp_path, 100_000, model__dropout=0.0)
    batches = trainer.loader.step_at(trainer.progress.position)
    tokens = sum(batch.tokens for batch in batches)
    trainer.accumulate(batches, 1, tokens)
    whole = trainer.gradients.sums.tolist()
    gradients = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}
    add, said = trainer.gradients.accumulate, []

    def too_large(batch, tokens):
        if len(batch.indices) > len(batches[0].indices) // 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        add(batch, tokens)

    monkeypatch.setattr(trainer.gradients, "accumulate", too_large)
    journal = Journal(tmp_path, _quiet(), 0, 10, 5)
    monkeypatch.setattr(journal, "say", said.append)
    trainer._accumulate_with_retry(batches, 1, tokens, journal)
    assert trainer.gradients.sums.tolist() == pytest.approx(whole, rel=1e-5)
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-6, rtol=1e-4)
    assert said == [
        "step 1: out of memory; retrying in 2 parts",
        "step 1: out of memory; retrying in 4 parts",
    ]
    monkeypatch.setattr(
        trainer.gradients, "accumulate", lambda batch, tokens: too_large(batches[0], tokens)
    )
    with pytest.raises(RunError, match="a single sentence does not fit"):
        trainer._accumulate_with_retry(batches, 1, tokens, journal)
    journal.close()


def test_a_step_with_a_single_sentence_and_a_batch_too_large_splits_only_the_batch(
    tmp_path, monkeypatch
) -> None:
    trainer = make_trainer(tmp_path, 100_000, model__dropout=0.0)
    (whole,) = trainer.loader.step_at(trainer.progress.position)
    one, rest = whole, []
    while len(one.indices) > 1:
        one, half = split_batch(one)
        rest.append(half)
    trainer.step([one, *rest], NoJournal())
    gradients = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}

    trainer = make_trainer(tmp_path / "again", 100_000, model__dropout=0.0)
    add = trainer.gradients.accumulate

    def too_large(batch, tokens):
        if len(batch.indices) > max(len(half.indices) for half in rest) // 2 + 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        add(batch, tokens)

    monkeypatch.setattr(trainer.gradients, "accumulate", too_large)
    trainer.step([one, *rest], NoJournal())
    assert trainer.progress.step == 1
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-6, rtol=1e-4)


def test_processes_and_a_thread_make_the_same_batches(tmp_path, monkeypatch) -> None:
    trainer = make_trainer(tmp_path, 300, text__bpe_dropout=0.3)
    made = []
    for cores in (10**6, 1):  # more than there are: a thread; one is enough: processes
        monkeypatch.setattr("dragoman.training.loader.CORES_FOR_PROCESSES", cores)
        steps = trainer.loader.from_position(trainer.progress.position)
        made.append([next(steps) for _ in range(5)])
        steps.close()
    for (position, batches), (again, same) in zip(*made, strict=True):
        assert position == again
        for batch, other in zip(batches, same, strict=True):
            assert np.array_equal(batch.source, other.source)
            assert np.array_equal(batch.target_in, other.target_in)


def test_killed_loaders_are_replaced_once_then_it_is_one_clear_line(tmp_path, monkeypatch) -> None:
    """A stop asked of a whole group of processes reaches the loader's too: the run must still get
    to its checkpoint."""
    monkeypatch.setattr("dragoman.training.loader.CORES_FOR_PROCESSES", 1)
    trainer = make_trainer(tmp_path, 300, text__bpe_dropout=0.3)
    unbroken = trainer.loader.from_position(trainer.progress.position)
    expected = list(islice(unbroken, 60))
    unbroken.close()
    steps = trainer.loader.from_position(trainer.progress.position)
    seen = [next(steps)]
    _kill_children()
    seen += islice(steps, 59)
    for (position, batches), (there, same) in zip(seen, expected, strict=True):
        assert position == there
        assert all(np.array_equal(a.source, b.source) for a, b in zip(batches, same, strict=True))
    _kill_children()
    with pytest.raises(RunError, match="prepares batches was killed"):
        list(islice(steps, 100))


def _kill_children() -> None:
    # until the batches ahead are made: killed while it writes one, a process would keep the pool
    # waiting
    time.sleep(1)
    for process in multiprocessing.active_children():
        process.kill()


def test_the_operations_we_count_are_those_that_torch_counts() -> None:
    """There is no padding, and the counts include every product: torch counts all of causal
    attention, we count the visible part."""
    model = small_model()
    sources, targets = [[5, 6, 7, 3]] * 2, [[8, 9, 4, 5, 7]] * 2
    batch = collate(sources, targets, vocabulary(23), vocabulary(23))
    with FlopCounterMode(display=False) as counter:
        hidden = model(torch.from_numpy(batch.source), torch.from_numpy(batch.target_in))
        logits = model.logits(hidden.flatten(0, 1))
        smoothed_cross_entropy(logits, torch.from_numpy(batch.target_out).flatten(), 0.1)[
            0
        ].backward()
    # multiply-adds, both sentences, one layer each: projections, feed-forward; and the vocabulary
    linear = {
        "encoder": 8 * (4 * 32 * 32 + 2 * 32 * 64) * 2,
        "decoder": (12 * (4 + 2) + 8 * 2) * 32 * 32 * 2 + 12 * 2 * 32 * 64 * 2,
        "vocabulary": 12 * 32 * 23,
    }
    attention = 2 * 2 * 2 * 32 * (4 * 4 + 6 * 7 / 2 + 6 * 4)  # layers, sentences, two products
    assert training_flops(model, batch) == pytest.approx(6 * (sum(linear.values()) + attention))
    whole = 6 * (sum(linear.values()) + 2 * 2 * 2 * 32 * (4 * 4 + 6 * 6 + 6 * 4))
    # kernels differ in what they recompute
    assert counter.get_total_flops() == pytest.approx(whole, rel=0.15)


def test_a_loss_that_is_not_finite_stops_the_run_with_its_lines(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 100_000)
    trainer.checkpoints.save(trainer.model, trainer.optimizer, Progress(step=5))
    with torch.no_grad():
        trainer.model.output.weight[7] = torch.nan
    journal = Journal(tmp_path, _quiet(), 0, 10, 5)
    batches = trainer.loader.step_at(trainer.progress.position)
    with pytest.raises(RunError) as caught:
        trainer.step(batches, journal)
    journal.close()
    message = str(caught.value)
    lines = sorted(int(trainer.data.train.lines[i]) for i in batches[0].indices)
    assert "step 1: the loss is nan" in message
    assert "checkpoint of step 5 is intact" in message
    assert f"t.de lines {lines[0]}, {lines[1]}" in message
    assert trainer.checkpoints.steps() == [5]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_gradient_that_is_not_finite_stops_the_run_with_its_parameter(
    tmp_path, value, optimizer
) -> None:
    trainer = make_trainer(tmp_path, 100_000, training__optimizer=optimizer)
    trainer.step(trainer.loader.step_at(trainer.progress.position), NoJournal())
    name = "encoder.0.feed_forward.outer.weight"
    bad = dict(trainer.model.named_parameters())[name]
    bad.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor(0), value))
    with pytest.raises(RunError, match=f"step 2: the gradient of {re.escape(name)} is not finite"):
        trainer.step(trainer.loader.step_at(trainer.progress.position), NoJournal())
    with pytest.raises(RunError, match=r"weight .* is not finite"):
        trainer.save(NoJournal())
    assert trainer.checkpoints.steps() == []


def test_a_weight_that_is_not_finite_is_never_saved(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 100_000)
    trainer.step(trainer.loader.step_at(trainer.progress.position), NoJournal())
    trainer.save(NoJournal())
    for name, weight in get_weights(trainer.model).items():
        before = weight.clone()
        weight.view(-1)[-1] = -torch.inf
        with pytest.raises(RunError, match=f"step 1: the weight {re.escape(name)} is not finite"):
            trainer.save(NoJournal())
        weight.copy_(before)
    (step,) = trainer.checkpoints.steps()
    assert all(weight.isfinite().all() for weight in trainer.checkpoints.weights(step).values())


def test_an_average_of_a_batch_norm_that_is_not_finite_is_never_saved(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 100_000, model__norm_type="batch")
    buffers = {name for name, _ in trainer.model.named_buffers()} & {*get_weights(trainer.model)}
    name = min(name for name in buffers if name.endswith("mean"))
    get_weights(trainer.model)[name][0] = torch.nan
    with pytest.raises(RunError, match=f"the weight {re.escape(name)} is not finite"):
        trainer.save(NoJournal())
    assert trainer.checkpoints.steps() == []


def test_a_run_that_is_interrupted_in_a_step_ends_with_that_step(tmp_path, monkeypatch) -> None:
    trainer = make_trainer(tmp_path, 100_000)
    asked = []
    accumulate = trainer.accumulate

    def interrupt_the_third(batches, step, tokens):
        if step == 3:
            asked.append(step)
        accumulate(batches, step, tokens)

    monkeypatch.setattr(trainer, "accumulate", interrupt_the_third)
    assert not trainer.run(NoJournal(), lambda: bool(asked))
    assert trainer.progress.step == 3
    assert trainer.checkpoints.steps() == [3]


def _quiet():
    from rich.console import Console

    return Console(file=open(os.devnull, "w"))


def arguments(corpus: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    dropout = ["--set", "text.bpe_dropout=0.1", "--set", "model.dropout=0.2"]
    return ["train", *map(str, corpus), "--out", str(out), *QUICK_RUN, *dropout, *more]


def started(corpus: tuple[Path, Path], out: Path, *more: str) -> Running:
    """Start training in its own process, so that a signal can hit it."""
    return Running(out.parent / "said", arguments(corpus, out, *more))


def without_times(log: Path) -> list[dict]:
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        {key: value for key, value in entry.items() if key != "tokens_per_s"} for entry in entries
    ]


def wait_until(is_so: Callable[[], object], process: Running) -> None:
    """Wait for what a run is about to do; fail if it ends before, or hangs."""
    deadline = time.monotonic() + 300  # far more than a busy machine takes
    while not is_so():
        assert not process.has_ended(), "the run ended too early"
        assert time.monotonic() < deadline, "the run hangs"
        time.sleep(0.002)


def test_a_killed_and_resumed_run_equals_the_unbroken_one(dragoman, tmp_path) -> None:
    """SIGKILL in the middle of training, dropout and BPE-dropout on: same weights to the bit, same
    log."""
    corpus = write_corpus(tmp_path, "t", toy_pairs(300))
    assert dragoman(*arguments(corpus, tmp_path / "whole")).code == 0
    process = started(corpus, tmp_path / "killed")
    wait_until(lambda: list((tmp_path / "killed").glob("checkpoints/step-0000000[3-9]")), process)
    process.send(signal.SIGKILL)
    assert process.answer().code == -signal.SIGKILL
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    assert dragoman(*arguments(corpus, tmp_path / "killed", "--resume")).code == 0
    for name in (
        "model.safetensors",
        "shared.spm",
        "checkpoints/step-00000012/optimiser.safetensors",
    ):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert without_times(tmp_path / "killed" / "log.jsonl") == without_times(
        tmp_path / "whole" / "log.jsonl"
    )


def test_sigterm_saves_and_exits_cleanly(tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(300))
    endless = ["--set", "training.max_steps=100000", "--set", "training.patience=0"]
    process = started(corpus, tmp_path / "run", *endless)
    wait_until(lambda: list((tmp_path / "run").glob("checkpoints/step-*[1-9]")), process)
    process.send(signal.SIGTERM)
    code, _, said = process.answer()
    assert code == 0
    assert "--resume" in said
    assert "Traceback" not in said
    newest = Checkpoints(tmp_path / "run" / "checkpoints", 5).newest()
    assert newest is not None
    assert f"step {newest.step:,} is saved" in said


def test_a_signal_whose_exception_is_lost_is_not(capsys) -> None:
    """Python drops what is raised in a finaliser; the wish to stop outlives it."""

    class Finalised:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    with _Interruption(patient=False) as interruption:
        Finalised()
        assert interruption.requested()
    assert "Traceback" not in capsys.readouterr().err


def test_sigterm_before_the_first_step_is_clean_too(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(300))
    process = started(corpus, tmp_path / "run")
    wait_until((tmp_path / "run" / ".lock").exists, process)
    time.sleep(0.1)
    process.send(signal.SIGTERM)
    code, _, said = process.answer()
    prepared = "nothing is saved yet" not in said
    assert code == (0 if prepared else 128 + signal.SIGTERM)
    assert "interrupted" in said
    assert "Traceback" not in said
    assert dragoman(*arguments(corpus, tmp_path / "run", "--resume")).code == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_an_interrupted_and_resumed_run_equals_the_unbroken_one(dragoman, tmp_path) -> None:
    """SIGINT between two checkpoints: the one it writes does not enter the average."""
    corpus = write_corpus(tmp_path, "t", toy_pairs(300))
    longer = ["--set", "training.max_steps=20", "--set", "training.checkpoint_every=8"]
    assert dragoman(*arguments(corpus, tmp_path / "whole", *longer)).code == 0
    process = started(corpus, tmp_path / "cut", *longer)
    log = tmp_path / "cut" / "log.jsonl"
    wait_until(lambda: log.exists() and '"step": 10' in log.read_text(), process)
    process.send(signal.SIGINT)
    assert "is saved" in process.answer().err
    assert dragoman(*arguments(corpus, tmp_path / "cut", *longer, "--resume")).code == 0
    assert (tmp_path / "cut" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_validation_sees_the_running_averages_of_the_model_in_training(tmp_path) -> None:
    """Where ranks share a model, the whole one that is validated gets everything that training
    changes."""
    trainer = make_trainer(tmp_path, 100_000, model__norm_type="batch")
    trainer.model = copy.deepcopy(trainer.unsharded_model)  # as where each rank holds a part
    averages = [name for name, _ in trainer.model.named_buffers() if name.endswith(".mean")]
    assert averages
    with torch.no_grad():
        for tensor in (*trainer.model.parameters(), *map(trainer.model.get_buffer, averages)):
            tensor.add_(1.0)
    trainer._gather_weights()
    for name, expected in get_weights(trainer.model).items():
        assert torch.equal(get_weights(trainer.unsharded_model)[name], expected), name


def test_a_run_that_has_not_ended_can_be_used(tmp_path, monkeypatch, capsys) -> None:
    """Each best validation leaves a bundle, which says of which step it is; the end leaves the last
    one."""
    source, target = write_corpus(tmp_path, "t", toy_pairs(300))
    folder = tmp_path / "run"
    corpora = (Corpus(str(source), str(target)),)
    settings = {
        **SMALL,
        "text.vocab_size": 400,
        "training.batch_tokens": 200,
        "training.validate_every": 2,
    }
    settings |= {"training.patience": 0, "data.valid_size": 10}

    def run(**more: object) -> Outcome:
        return train(
            folder,
            corpora=corpora,
            preset="tiny",
            settings=settings,
            device="cpu",
            console=_quiet(),
            **more,
        )

    # The run is interrupted as soon as its first validation has left a bundle.
    monkeypatch.setattr(
        _Interruption, "requested", lambda self: (folder / "manifest.json").exists()
    )
    assert not run().finished
    step = Checkpoints(folder / "checkpoints", 1).newest().best_step
    assert 0 < step < 100
    (note,) = Translator.load(folder).notes
    assert f"has not ended; this is step {step} of 3,000, validation BLEU" in note
    load_model(str(folder), "cpu", "auto")
    assert note in capsys.readouterr().err
    monkeypatch.setattr(_Interruption, "requested", lambda self: False)
    settings["training.max_steps"] = step + 3
    assert run(resume=True).finished
    assert Translator.load(folder).notes == ()


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path) -> None:
    source, target = write_corpus(tmp_path, "t", toy_pairs(200))
    raw = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = {
            **SMALL,
            "training.max_steps": 3,
            "training.batch_tokens": 200,
            "training.seed": seed,
            "text.vocab_size": 400,
        }
        corpora = (Corpus(str(source), str(target)),)
        train(
            tmp_path / name,
            corpora=corpora,
            preset="tiny",
            settings=settings,
            device="cpu",
            console=_quiet(),
        )
        raw.append((tmp_path / name / "model.safetensors").read_bytes())
    assert raw[0] == raw[1] != raw[2]
