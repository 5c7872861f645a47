"""A time limit: reserved time, remaining time, and stopping in time."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.bundle.folder import Bundle, read_bundle
from dragoman.convert.to_onnx import to_onnx
from dragoman.errors import ConfigError
from dragoman.training import adapt, lora, time_budget
from dragoman.training.lora import LoraConfig, LoraTrainer, PairEncoder
from dragoman.training.time_budget import Clock
from tests.conftest import toy_pairs


class Time:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    for module in (time_budget, lora, adapt):
        monkeypatch.setattr(module, "now", time)
    return time


@pytest.fixture(scope="module")
def int8(trained: Path) -> Bundle:
    return to_onnx(read_bundle(trained), int8=True)


def test_reserved_time_is_not_available(time: Time) -> None:
    promised = Clock(100)
    time.seconds += 20
    assert (promised.left, promised.share) == (80, 0.2)
    promised.reserve(50)
    assert (promised.left, promised.share) == (30, 0.4)
    assert promised.is_past(0.19)
    assert not promised.is_past(0.21)
    assert promised.needed(40) == 110


def test_time_before_the_start_counts(time: Time) -> None:
    assert Clock(100, time.seconds - 30).left == 70


def test_a_line_is_due_after_some_silence(time: Time) -> None:
    promised = Clock(100)
    assert not promised.line_is_due()
    time.seconds += time_budget.QUIET
    assert promised.line_is_due()
    assert not promised.line_is_due()


def slow_steps(monkeypatch: pytest.MonkeyPatch, time: Time, seconds: float) -> None:
    """Each batch takes half of a step's time, because one batch is timed before training."""
    loss, step = LoraTrainer._pair_loss, lora.optimizer_step

    def pair_loss(self, batch):
        time.seconds += seconds / 2
        return loss(self, batch)

    def take(*arguments, **options):
        time.seconds += seconds / 2
        return step(*arguments, **options)

    monkeypatch.setattr(LoraTrainer, "_pair_loss", pair_loss)
    monkeypatch.setattr(lora, "optimizer_step", take)


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_training_ends_in_time_with_slow_steps(
    int8: Bundle, time: Time, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    slow_steps(monkeypatch, time, seconds)
    trainer = LoraTrainer(int8, LoraConfig(patience=1000, least_steps=1000))
    examples = PairEncoder(int8.codec, "", "", 100)(toy_pairs(20))
    promised = Clock(100)
    promised.reserve(30)  # for work after training
    steps = trainer.train(examples, [], examples, promised, lambda line: None)
    assert 70 - 2 * seconds <= promised.passed <= 70
    assert steps == pytest.approx((70 - 2 * seconds) / seconds, abs=2)


def test_too_little_time_is_reported_before_training(
    int8: Bundle, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_steps(monkeypatch, time, 8.0)
    monkeypatch.setattr(lora, "has_bf16_products", lambda: False)  # on any CPU
    trainer = LoraTrainer(int8, LoraConfig(minutes=1))
    examples = PairEncoder(int8.codec, "", "", 100)(toy_pairs(20))
    # 8 s to time a batch twice and 80 s for ten steps are 88 s, 3/4 of the time
    with pytest.raises(ConfigError, match=r"--minutes 1 is too little.*--minutes 2 would do"):
        trainer.train(examples, [], examples, Clock(60), lambda line: None)


def test_the_first_and_slowest_evaluation_does_not_set_the_reserved_time(
    int8: Bundle, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first evaluation takes five times as long as a later one."""
    looked: list[int] = []
    nll = LoraTrainer.nll

    def slow(self, batches):
        time.seconds += len(batches) * (2 if looked else 10)
        looked.append(len(batches))
        return nll(self, batches)

    monkeypatch.setattr(LoraTrainer, "nll", slow)
    trainer = LoraTrainer(int8, LoraConfig(batch_tokens=40, epochs=0, least_steps=1))
    examples = PairEncoder(int8.codec, "", "", 100)(toy_pairs(20))
    promised = Clock(10_000)
    trainer.train(examples, [], examples, promised, lambda line: None, evaluations=3)
    batches = looked[0]
    assert batches > 1
    reserved = 10_000 - promised.passed - promised.left
    assert reserved == 3 * 2 * batches


class Slow:
    """A translator that takes a fixed time for each sentence."""

    def __init__(self, time: Time, seconds: float = 1.0):
        self._time, self._seconds = time, seconds

    def __call__(self, texts, request):
        self._time.seconds += self._seconds * len(texts)
        return [text.upper() for text in texts]


def test_replay_stops_at_its_share(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "outside_sentences", lambda *_: ([f"{i}."] * 5 for i in range(30)))
    monkeypatch.setattr(adapt, "replayed_pairs", lambda slow, texts, _: slow(texts, None) and [])
    adapt._replay(Slow(time), [], None, replace(LoraConfig(), replay_share=0.25), Clock(100), print)
    assert time.seconds == 1000 + 30


def test_scoring_stops_at_its_share_and_gains_compare_the_same_sentences(time: Time) -> None:
    test = adapt._Test("here", [(f"{i}.", f"{i}.") for i in range(200)], None)
    before = test.translate(Slow(time), Clock(300), print, share=0.35)
    assert len(before) == 125
    after = test.translate(Slow(time, 0.1), Clock(300), print)
    assert len(after) == 200
    assert test.gain(before, after).sentences == 125


def test_a_slow_start_is_an_error(int8: Bundle, time: Time) -> None:
    late = Clock(60, time.seconds - 30)
    with pytest.raises(ConfigError, match=r"--minutes 1 is too little.*--minutes 2 would do"):
        adapt.adapt(int8, toy_pairs(20), config=LoraConfig(minutes=1), clock=late)
