"""Small tasks, each made to show one thing, and a loop that trains our models on them.

    N examples, S source, T target positions, V symbols.

A task generates any number of examples from random numbers, so that no example is seen twice. Most
tasks are translations: a source and a target, learned by teacher forcing. Tagging tasks have an
answer at every word of the source, and only use the encoder.

Most models are so small that a CPU core is as fast as a GPU: each trial has a core, and many run in
parallel. A trial only depends on its settings; its outcome is kept in DIR/tasks and never computed
twice.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.config import make_config
from dragoman.data.batches import rng
from dragoman.lab.compare.figures import Series, Table
from dragoman.lab.compare.runs import Study
from dragoman.lab.compare.seed_statistics import interval
from dragoman.lab.compare.training_pool import worker_pool
from dragoman.model.build import Model, build_model
from dragoman.storage.files import write_atomically
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.optimizer import Adam, optimizer_step
from studies.scales import FULL, QUICK

SPECIAL = 4  # padding, unknown, begin, end: symbols follow
PAD, _UNKNOWN, BEGIN, END = range(SPECIAL)
_TESTED, _VALIDATED = 512, 256  # examples


@dataclass(frozen=True)
class Examples:
    """Positions whose `group` is not negative have an answer; accuracy is reported by group."""

    source: np.ndarray  # (N, S)
    target: np.ndarray  # (N, T), or (N, S, k) for k answers at each position
    group: np.ndarray  # (N, T)
    target_in: np.ndarray | None = None  # (N, T); None: a tagging task
    # Where several answers are right, all of them: (N, T, V). One of them is the target.
    allowed: np.ndarray | None = None
    parts: int = 1  # so many positions are one answer, right if all of them are


Task = Callable[..., Examples]


def copy(draw: np.random.Generator, count: int, *, symbols: int, shortest: int, longest: int,
         by: str = "length") -> Examples:  # fmt: skip
    """Say the sequence again. Grouped by its length, or by the place in it."""
    lengths = draw.integers(shortest, longest + 1, count)
    words = draw.integers(SPECIAL, SPECIAL + symbols, (count, longest))
    places = np.arange(longest)
    real = places < lengths[:, None]
    words = np.where(real, words, PAD)
    source = np.concatenate([words, np.full((count, 1), PAD)], axis=1)
    source[np.arange(count), lengths] = END
    group = np.where(real, lengths[:, None] if by == "length" else places + 1, -1)
    return Examples(source, words, group, _shifted(words))


def first(draw: np.random.Generator, count: int, *, symbols: int, between: int) -> Examples:
    """Say the first word of a sequence in which so many others follow."""
    words = draw.integers(SPECIAL, SPECIAL + symbols, (count, 1 + between))
    source = np.concatenate([words, np.full((count, 1), END)], axis=1)
    target = words[:, :1]
    return Examples(source, target, np.full_like(target, between), _shifted(target))


def last(draw: np.random.Generator, count: int, *, symbols: int, between: int) -> Examples:
    """Say the last word instead."""
    made = first(draw, count, symbols=symbols, between=between)
    target = made.source[:, -2:-1]  # followed by the end
    return replace(made, target=target, target_in=_shifted(target))


def neighbour(draw: np.random.Generator, count: int, *, symbols: int, shortest: int, longest: int,
              distance: int) -> Examples:  # fmt: skip
    """Tag each word with the one so many places before it. Grouped by place."""
    lengths = draw.integers(shortest, longest + 1, count)
    words = draw.integers(SPECIAL, SPECIAL + symbols, (count, longest))
    places = np.arange(longest)
    source = np.where(places < lengths[:, None], words, PAD)
    target = np.roll(source, distance, axis=1)
    asked = (places >= distance) & (places < lengths[:, None])
    return Examples(source, np.where(asked, target, PAD), np.where(asked, places + 1, -1))


def lookups(draw: np.random.Generator, count: int, *, symbols: int, length: int,
            distances: Sequence[int]) -> Examples:  # fmt: skip
    """Tag each word with the words at several distances from it, in a ring."""
    source = draw.integers(SPECIAL, SPECIAL + symbols, (count, length))
    target = np.stack([np.roll(source, -d, axis=1) for d in distances], axis=-1) - SPECIAL
    return Examples(source, target, np.zeros_like(source))


def pointers(draw: np.random.Generator, count: int, *, length: int, hops: int) -> Examples:
    """Every word names a place. Follow it so many times: x[x[x[t]]] for three."""
    words = draw.integers(0, length, (count, length))
    reached = np.broadcast_to(np.arange(length), words.shape)
    for _ in range(hops):
        reached = np.take_along_axis(words, reached, axis=1)
    return Examples(words + SPECIAL, reached + SPECIAL, np.zeros_like(words))


def table(draw: np.random.Generator, count: int, *, symbols: int, length: int) -> Examples:
    """The last word asks for an entry of a fixed random table, row and column being the first two.

    The question is always the same word, so the model must combine the two words that it looks up.
    """
    entries = rng(11, symbols).integers(SPECIAL, SPECIAL + symbols, (symbols, symbols))
    words = draw.integers(0, symbols, (count, length))
    source = np.concatenate([words + SPECIAL, np.full((count, 1), END)], axis=1)
    target = np.full_like(source, PAD)
    target[:, -1] = entries[words[:, 0], words[:, 1]]
    group = np.full_like(source, -1)
    group[:, -1] = 0
    return Examples(source, target, group)


def each_once(draw: np.random.Generator, count: int, *, symbols: int, items: int) -> Examples:
    """Name every item of a set once, in any order. Right is any item that was not named yet."""
    drawn = draw.permuted(np.tile(np.arange(symbols), (count, 1)), axis=1)[:, :items] + SPECIAL
    source = np.concatenate([drawn, np.full((count, 1), END)], axis=1)
    target = draw.permuted(drawn, axis=1)
    allowed = np.zeros((count, items, SPECIAL + symbols), bool)
    rows = np.arange(count)
    for place in range(items):
        for later in range(place, items):
            allowed[rows, place, target[:, later]] = True
    group = np.broadcast_to(np.arange(items) + 1, target.shape)
    return Examples(source, target, group, _shifted(target), allowed)


# The words of the dictionary below: so many of each kind, and the share of the text that they make.
# Together they are all pairs of syllables.
_CONSONANTS, _VOWELS = 5, 4
SYLLABLES = _CONSONANTS * _VOWELS
DICTIONARY = ((60, 0.0), (100, 0.002), (120, 0.024), (120, 0.974))
SYMBOLS = {
    "words": SYLLABLES**2,
    "pieces": 2 * SYLLABLES,
    "characters": 2 * (_CONSONANTS + _VOWELS),
}


def dictionary(draw: np.random.Generator, count: int, *, length: int, cut: str, symbols: int,
               regular: bool = True, evenly: bool = False) -> Examples:  # fmt: skip
    """Translate words of two syllables each. Grouped by how often a word is seen in training.

    A `regular` translation follows from the syllables: the first becomes another one, and so does
    the second, which of two depends on the first (as vowels agree in some languages). Otherwise
    each word becomes any other. The units that a model sees depend on how text is `cut`: into whole
    words (those never seen in training are unknown), syllables, or letters. `evenly` asks for all
    words alike.
    """
    assert symbols == SYMBOLS[cut]
    fixed = rng(12)
    known = fixed.permutation(SYLLABLES**2)  # by frequency, unseen ones first
    firsts, seconds = fixed.permutation(SYLLABLES), fixed.permutation(SYLLABLES)
    sizes = [size for size, _ in DICTIONARY]
    kind = np.repeat(np.arange(len(sizes)), sizes)
    chances = np.repeat([share / size for size, share in DICTIONARY], sizes)
    ranks = draw.choice(len(known), (count, length), p=None if evenly else chances)
    words = known[ranks]
    first, second = words // SYLLABLES, words % SYLLABLES
    said = firsts[first] * SYLLABLES + seconds[(second + first % 2) % SYLLABLES]
    if not regular:
        said = fixed.permutation(SYLLABLES**2)[words]
    group = kind[ranks]
    if cut == "words":
        return Examples(np.where(group == 0, _UNKNOWN, SPECIAL + words), SPECIAL + said, group)
    source, target = (np.stack(_letters(spelled, cut), axis=-1) for spelled in (words, said))
    parts = source.shape[-1]
    flat = (count, length * parts)
    return Examples(
        source.reshape(flat), target.reshape(flat), np.repeat(group, parts, axis=1), parts=parts
    )


def _letters(words: np.ndarray, cut: str) -> list[np.ndarray]:
    """Return the symbols of words; first and second syllables have different ones."""
    first, second = np.divmod(words, SYLLABLES)
    if cut == "pieces":
        return [SPECIAL + first, SPECIAL + SYLLABLES + second]
    letters = []
    for start, syllable in ((SPECIAL, first), (SPECIAL + _CONSONANTS + _VOWELS, second)):
        letters += [start + syllable // _VOWELS, start + _CONSONANTS + syllable % _VOWELS]
    return letters


def _shifted(target: np.ndarray) -> np.ndarray:
    """Return the decoder's input: the target shifted right by one, after the beginning symbol."""
    return np.concatenate([np.full((len(target), 1), BEGIN), target[:, :-1]], axis=1)


TASKS: dict[str, Task] = {
    task.__name__: task
    for task in (copy, first, last, neighbour, lookups, pointers, table, each_once, dictionary)
}


@dataclass(frozen=True)
class Trial:
    """One training: a task, a model, a learning rate, a seed."""

    task: str
    size: Mapping[str, Any]  # of the task in training, and in tests unless `tested` says otherwise
    model: Mapping[str, Any]  # settings, e.g. {"d_model": 64, "positions.kind": "rotary"}
    steps: int
    rate: float = 1e-3
    seed: int = 0
    batch: int = 64
    tested: Mapping[str, Any] = field(default_factory=dict)
    looks: int = 1  # how often accuracy is measured on the way, evenly spaced
    gpu: bool = False  # large enough for one, where there is one


@dataclass(frozen=True)
class Outcome:
    """Shares of right answers on examples that were never trained on."""

    valid: float  # on examples like those in training: the learning rate is chosen by it
    right: Mapping[int, float]  # by group, in the test
    course: Sequence[tuple[int, float]]  # (step, share right in the test)
    loss: float  # mean over the last tenth of the training

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.right.values())))


_SMALL = {
    "d_model": 64, "num_heads": 4, "d_ff": 128, "num_encoder_layers": 1, "num_decoder_layers": 1,
    "dropout": 0.0, "norm_position": "pre", "share_embeddings": "none",
}  # fmt: skip


def model_for(trial: Trial) -> Model:
    """Build the model of a trial, with as many symbols as its task needs."""
    symbols = trial.size.get("symbols", trial.size.get("length", 0))
    answers = len(trial.size.get("distances", (0,)))
    settings = {**_SMALL, **trial.model}
    named = {f"model.{key}": value for key, value in settings.items()}
    config = make_config("tiny", settings={"data.max_length": 200, **named}).model
    words, said = (
        Vocabulary(tuple(f"s{number}" for number in range(size)))
        for size in (SPECIAL + symbols, SPECIAL + symbols if answers == 1 else answers * symbols)
    )
    return build_model(config, words, said, shared=False, seed=trial.seed)


def logits_of(model: Model, examples: Examples) -> Tensor:
    """(N, T, V), or (N, S, k, V)."""
    device = model.output.weight.device
    source = torch.from_numpy(examples.source).to(device)
    if examples.target_in is None:
        hidden = model.encoder_states(source)[0]
    else:
        hidden = model(source, torch.from_numpy(examples.target_in).to(device))
    logits = model.logits(hidden)
    if examples.target.ndim == 2:
        return logits
    return logits.view(*logits.shape[:-1], examples.target.shape[-1], -1)


def run_trial(trial: Trial) -> Outcome:
    """Train, with Adam and a learning rate that rises for a tenth and then falls in a line."""
    torch.manual_seed(trial.seed)
    make = TASKS[trial.task]
    device = torch.device("cuda" if trial.gpu and torch.cuda.is_available() else "cpu")
    model = model_for(trial).to(device).train()
    optimizer = Adam(
        model.parameters(), trial.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    test = make(rng(3, trial.seed), _TESTED, **{**trial.size, **trial.tested})
    valid = make(rng(2, trial.seed), _VALIDATED, **trial.size)
    looks = {round(trial.steps * (n + 1) / trial.looks) for n in range(trial.looks)}
    losses, course = [], []
    for step in range(1, trial.steps + 1):
        examples = make(rng(1, trial.seed, step), trial.batch, **trial.size)
        asked = examples.group >= 0
        logits = logits_of(model, examples)[torch.from_numpy(asked).to(device)]
        answers = torch.from_numpy(examples.target[asked]).to(device)
        loss = F.cross_entropy(logits.flatten(0, -2), answers.flatten())
        warmth = min(1.0, step / (0.1 * trial.steps))
        left = (trial.steps - step + 1) / trial.steps
        rate = trial.rate * min(warmth, left / 0.9)
        optimizer_step(optimizer, model.parameters(), rate, losses=[loss])
        losses.append(loss.detach())  # reading it would make a GPU wait
        if step in looks:
            course.append((step, _mean(right_by_group(model, test))))
    return Outcome(
        _mean(right_by_group(model, valid)),
        right_by_group(model, test),
        course,
        float(torch.stack(losses[-max(1, trial.steps // 10) :]).mean()),
    )


@torch.no_grad()
def right_by_group(model: Model, examples: Examples) -> dict[int, float]:
    """The share of right answers in each group of places."""
    model.eval()
    said = logits_of(model, examples).argmax(dim=-1).cpu().numpy()
    model.train()
    if examples.allowed is not None:
        right = np.take_along_axis(examples.allowed, said[..., None], axis=-1)[..., 0]
    else:
        right = said == examples.target
    right = right if right.ndim == 2 else right.mean(axis=-1)
    if examples.parts > 1:
        whole = right.reshape(len(right), -1, examples.parts).all(axis=-1)
        right = np.repeat(whole, examples.parts, axis=1)
    groups = np.unique(examples.group[examples.group >= 0])
    return {int(group): float(right[examples.group == group].mean()) for group in groups}


def _mean(right: Mapping[int, float]) -> float:
    return float(np.mean(list(right.values())))


@dataclass(frozen=True)
class Tuned:
    """A system on its task: each learning rate tried once, then all seeds at the best."""

    valid: Mapping[float, float]  # share right in validation, by learning rate
    rate: float
    outcomes: Sequence[Outcome]  # by seed

    @property
    def means(self) -> list[float]:
        """The share right in the test, for each seed."""
        return [outcome.mean for outcome in self.outcomes]

    @property
    def heights(self) -> list[float]:
        """Return the mean of each seed's learning curve: faster learners score higher."""
        return [float(np.mean([share for _, share in one.course])) for one in self.outcomes]

    @property
    def valids(self) -> list[float]:
        """The share right on examples like those in training, for each seed."""
        return [outcome.valid for outcome in self.outcomes]

    def over(self, *groups: int) -> list[float]:
        """The same over some groups, where the test holds them."""
        return [
            float(np.mean([one.right[g] for g in groups if g in one.right]))
            for one in self.outcomes
        ]


def tune(
    folder: Path, systems: Mapping[str, Trial], rates: Sequence[float], seeds: int
) -> dict[str, Tuned]:
    """The same effort for each system: so many rates, then so many seeds."""
    swept = {(name, rate): replace(t, rate=rate) for name, t in systems.items() for rate in rates}
    found = dict(zip(swept, run_trials(folder, list(swept.values())), strict=True))
    best = {
        name: max(rates, key=lambda rate: (found[name, rate].valid, -found[name, rate].loss))
        for name in systems
    }
    again = {
        (name, seed): replace(trial, rate=best[name], seed=seed)
        for name, trial in systems.items()
        for seed in range(1, seeds)
    }
    more = dict(zip(again, run_trials(folder, list(again.values())), strict=True))
    return {
        name: Tuned(
            {rate: found[name, rate].valid for rate in rates},
            best[name],
            [found[name, best[name]], *(more[name, seed] for seed in range(1, seeds))],
        )
        for name in systems
    }


def tuning_table(tuned: Mapping[str, Tuned], title: str = "Learning rates tried") -> Table:
    """Validation accuracy by learning rate; the rate that was taken."""
    rates = list(next(iter(tuned.values())).valid)
    return Table(
        f"{title}: share right in validation",
        ["system", *(f"{rate:g}" for rate in rates), "taken"],
        [
            [name, *(f"{one.valid[rate]:.3f}" for rate in rates), f"{one.rate:g}"]
            for name, one in tuned.items()
        ],
        folded=True,
    )


def curve(name: str, x: Sequence[float], measured: Sequence[Sequence[float]]) -> Series:
    """Means over seeds, with their intervals; `measured` holds the seeds' values for each x."""
    ends = [interval(values) for values in measured]
    return Series(
        name,
        list(x),
        [float(np.mean(values)) for values in measured],
        [low for low, _ in ends],
        [high for _, high in ends],
    )


def course(name: str, tuned: Tuned) -> Series:
    """The learning curve, over seeds."""
    steps = [step for step, _ in tuned.outcomes[0].course]
    shares = [[one.course[i][1] for one in tuned.outcomes] for i in range(len(steps))]
    return curve(name, steps, shares)


_pool: ProcessPoolExecutor | None = None


@contextmanager
def workers(jobs: int) -> Iterator[None]:
    """Provide this many processes of one core each; 1: only this process."""
    global _pool
    if jobs == 1:
        yield
        return
    with worker_pool(jobs, threads=1) as pool:
        _pool = pool
        try:
            yield
        finally:
            _pool = None


def run_trials(folder: Path, trials: Sequence[Trial]) -> list[Outcome]:
    """Compute the trials without an outcome in the workers, the longest first."""
    return [_outcome(tree) for tree in compute(folder, _trial_tree, trials)]


def compute(folder: Path, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Apply `work` to each item, a dataclass; return JSON values, each computed only once."""
    order = sorted(items, key=lambda item: -getattr(item, "steps", 0))
    if _pool is None:
        found = {_name(item): _kept(folder, work, item) for item in order}
    else:
        waiting = {_name(item): _pool.submit(_kept, folder, work, item) for item in order}
        found = {name: future.result() for name, future in waiting.items()}
    return [found[_name(item)] for item in items]


def _name(item: Any) -> str:
    """Return the name of an outcome's file; the device is no part of it."""
    tree = {key: value for key, value in asdict(item).items() if key != "gpu"}
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]


def _kept(folder: Path, work: Callable[[Any], Any], item: Any) -> Any:
    path = folder / f"{work.__name__.strip('_')}.{_name(item)}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        kept = {"of": asdict(item), "found": work(item)}
        write_atomically(path, json.dumps(kept).encode())
    return json.loads(path.read_text(encoding="utf-8"))["found"]


def _trial_tree(trial: Trial) -> dict[str, Any]:
    return asdict(run_trial(trial))


def _outcome(tree: Mapping[str, Any]) -> Outcome:
    right = {int(group): share for group, share in tree["right"].items()}
    course = [(step, share) for step, share in tree["course"]]
    return Outcome(tree["valid"], right, course, tree["loss"])


def effort(study: Study, steps: int) -> int:
    """So many steps, in proportion where `--flops` asks for more or less than usual."""
    usual = {scale.name: scale.flops for scale in (QUICK, FULL)}[study.scale.name]
    return max(2, round(steps * study.scale.flops / usual))
