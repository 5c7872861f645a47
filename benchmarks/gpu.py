"""Training and decoding speed on one NVIDIA GPU, with torch.nn.Transformer and Hugging Face for
comparison, in one run.

    python benchmarks/gpu.py [train] [decode] [real] [curves] [--no-peers] [--profile]

Training: random token batches of mean length 25, lengths within 3 of each other in a batch, label
smoothing and dropout 0.1, fused AdamW, bf16. All systems do whole steps (forward, loss, backward,
clipping, optimizer) on the same batches. Counted are real target tokens per second, and the share
of the ceiling (a large bf16 product, measured in the same run) that goes into the products the
model needs (MFU).

Decoding: the base shape with random weights, the same in Hugging Face's Marian, sentences of 20 to
30 tokens, 32 tokens out of each, no length penalty. First both search in float32 and their outputs
are held against each other, token for token; then both are timed in bf16, and counted are the
tokens of the best hypothesis per second.

Real: a thousand steps of the base shape on the examples, with everything that `dragoman train` does
in its loop (making batches, logging, a validation, a checkpoint), beside the speed of the bare
steps on the same batches, and where the rest of the time went.

Curves: the loss of the same run in float32 and in bf16, and of two more runs in float32 from other
seeds, whose distance from the first says how much of a difference is chance.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from peers import TRAINING_PEERS, marian_with_weights_of, peer_step
from rich.console import Console
from torch import nn

from dragoman.config import Config, DecodingConfig, make_config
from dragoman.data.batches import Batch, collate, pad
from dragoman.data.prepare import prepare
from dragoman.decode.search.device import DeviceSearch
from dragoman.engine.torch_engine import TorchEngine
from dragoman.model.build import Model, build_model, pick_device
from dragoman.model.transformer import Transformer
from dragoman.text.subword import Flat
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.cost import matrix_ceiling, training_flops
from dragoman.training.gradients import make_gradients
from dragoman.training.journal import Journal
from dragoman.training.optimizer import make_optimizer
from dragoman.training.run import train as run_training
from dragoman.training.trainer import Trainer

WARM_UP = 100  # steps of real training: they compile kernels and record shapes
EXAMPLES = Path(__file__).parent.parent / "examples"


@dataclass(frozen=True)
class Shape:
    settings: dict[str, object]
    vocabulary: int
    tokens: int


SHAPES = {
    "base": Shape({}, 32_000, 25_000),
    "iwslt": Shape({"model.d_ff": 1024, "model.num_heads": 4}, 10_000, 16_000),
}


Step = Callable[[Batch], None]
Work = Callable[[], list[list[int]]]


def vocabulary(size: int) -> Vocabulary:
    return Vocabulary(("<pad>", "<unk>", "<s>", "</s>", *(f"w{i}" for i in range(4, size))))


def random_batches(pieces: Vocabulary, tokens: int, count: int) -> list[Batch]:
    """Each of sentences whose lengths, drawn around one centre, are within 3 of each other."""
    generator = np.random.default_rng(7)
    batches = []
    for _ in range(count):
        centre = generator.integers(12, 37)  # the end included: 13 to 37, mean 25
        rows = tokens // (centre + 1)
        left, right = (
            [
                generator.integers(4, len(pieces), size=n).tolist()
                for n in generator.integers(centre - 1, centre + 2, rows)
            ]
            for _ in range(2)
        )
        batches.append(collate(left, right, pieces, pieces))
    return batches


@dataclass(frozen=True)
class Speed:
    first_step_s: float
    tokens_per_s: float


def measure(step: Step, batches: list[Batch], rounds: int) -> Speed:
    """Time the first step, then two rounds to warm up, then the median round."""
    started = time.perf_counter()
    step(batches[0])
    torch.cuda.synchronize()
    first = time.perf_counter() - started
    for batch in batches * 2:
        step(batch)
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for batch in batches:
            step(batch)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return Speed(first, sum(batch.tokens for batch in batches) / statistics.median(times))


def our_step(config: Config, pieces: Vocabulary, device: torch.device) -> tuple[Model, Step]:
    model = build_model(config.model, pieces, pieces, shared=True).to(device).train()
    gradients = make_gradients(model, config, device)
    optimizer = make_optimizer(model, config.training, device)

    def step(batch: Batch) -> None:
        gradients.zero()
        gradients.accumulate(batch, batch.tokens)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return model, step


def their_step(
    kind: type[nn.Module], config: Config, pieces: Vocabulary, device: torch.device
) -> Step:
    peer = kind(config.model, len(pieces)).to(device).train()
    optimizer = make_optimizer(cast(Model, peer), config.training, device)
    ready: dict[int, list[torch.Tensor]] = {}

    def step(batch: Batch) -> None:
        arrays = ready.setdefault(
            id(batch),
            [
                torch.from_numpy(a).to(device)
                for a in (batch.source, batch.target_in, batch.target_out)
            ],
        )
        with torch.autocast("cuda", dtype=torch.bfloat16):
            source, target_in, target_out = arrays
            smoothing = config.training.label_smoothing
            peer_step(peer, optimizer, source, target_in, target_out, smoothing)

    return step


def train(arguments: argparse.Namespace) -> None:
    device = pick_device("cuda")
    ceiling = matrix_ceiling(device) or math.nan
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, ceiling {ceiling / 1e12:.0f} "
        f"TFLOP/s"
    )
    for name in arguments.shape:
        shape = SHAPES[name]
        config = make_config(
            "base",
            settings={
                **shape.settings,
                "training.batch_tokens": shape.tokens,
                "training.learning_rate": 0.01,
            },
        )
        pieces = vocabulary(shape.vocabulary)
        batches = random_batches(pieces, shape.tokens, arguments.batches)
        model, step = our_step(config, pieces, device)
        flops = sum(training_flops(model, batch) for batch in batches) / sum(
            batch.tokens for batch in batches
        )
        rows = {"dragoman": measure(step, batches, arguments.rounds)}
        if arguments.profile:
            profile(step, batches)
        del model, step
        for peer, kind in TRAINING_PEERS.items() if arguments.peers else ():
            torch.cuda.empty_cache()
            rows[peer] = measure(
                their_step(kind, config, pieces, device), batches, arguments.rounds
            )
        best = max(
            (speed.tokens_per_s for peer, speed in rows.items() if peer != "dragoman"),
            default=float("nan"),
        )
        print(f"\n{name}: {shape.tokens:,} tokens a step, vocabulary {shape.vocabulary:,}")
        for peer, speed in rows.items():
            share = speed.tokens_per_s * flops / ceiling
            print(
                f"{peer:22} {speed.tokens_per_s / 1000:7.0f} k tokens/s  MFU {share:4.0%}  first "
                f"step after "
                f"{speed.first_step_s:5.1f} s  {speed.tokens_per_s / best:5.2f} x the best peer"
            )


def profile(step: Callable[[Any], object], batches: list[Any]) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for batch in batches[:4]:
            step(batch)
        torch.cuda.synchronize()
    print(
        found.key_averages().table(
            sort_by="self_cuda_time_total", row_limit=28, max_name_column_width=70
        )
    )


TOKENS_OUT = 32


def sentences(pieces: Vocabulary, count: int) -> list[list[int]]:
    generator = np.random.default_rng(3)
    return [
        [*generator.integers(4, len(pieces), size=n).tolist(), pieces.eos]
        for n in generator.integers(19, 30, count)
    ]


def decode(arguments: argparse.Namespace) -> None:
    device = pick_device("cuda")
    pieces = vocabulary(32_000)
    config = make_config("base")
    model = build_model(config.model, pieces, pieces, shared=True).eval().requires_grad_(False)
    with torch.no_grad():
        cast(Transformer, model).target_embedding.words.weight.mul_(
            4
        )  # outputs that differ by more than rounding
    engine = TorchEngine(model.to(device), pieces, pieces, device)
    marian = marian_with_weights_of(model, len(pieces)).to(device) if arguments.peers else None
    rows = []
    for precision in ("float32", "bf16"):
        if marian is not None and precision == "bf16":
            marian = marian.bfloat16()
        for beam in (1, 4):
            settings = DecodingConfig(
                beam_size=beam, length_penalty="none", max_length_ratio=0.0,
                max_length_extra=TOKENS_OUT,
                min_length_ratio=100.0, precision=precision,
            )  # fmt: skip
            search = DeviceSearch(engine, settings, 1)
            for count in (128, 512):
                given = sentences(pieces, count)
                theirs = partial(generate, marian, given, beam) if marian is not None else None
                rows.append(
                    compare(precision, beam, count, partial(best_tokens, search, given), theirs)
                )
                if arguments.profile and precision == "bf16":
                    profile(partial(best_tokens, search), [given])
    print("\n".join(rows))


def best_tokens(search: DeviceSearch, sources: list[list[int]]) -> list[list[int]]:
    return search(Flat.of(sources)).tokens.lists()


def compare(precision: str, beam: int, count: int, ours: Work, theirs: Work | None) -> str:
    """Equal outputs in float32, speeds in bf16."""
    name = f"{'greedy' if beam == 1 else f'beam {beam}':7} batch {count}"
    if precision == "float32":
        if theirs is None:
            return f"{name}  float32: {len(ours())} sentences searched"
        equal = sum(a == b for a, b in zip(ours(), theirs(), strict=True))
        return f"{name}  float32: {equal} of {count} sentences equal, token for token"
    ours()
    speed = count * TOKENS_OUT / fastest(ours, 5)
    line = f"{name}  bf16: dragoman {speed / 1000:7.0f} k tokens/s"
    if theirs is not None:
        theirs()
        peer = count * TOKENS_OUT / fastest(theirs, 2)
        line += f"  Hugging Face {peer / 1000:6.1f} k tokens/s  ratio {speed / peer:5.2f}"
    return line


def fastest(work: Work, times: int) -> float:
    """Seconds of the median run."""
    found = []
    for _ in range(times):
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


@torch.inference_mode()
def generate(marian: Any, sources: list[list[int]], beam: int) -> list[list[int]]:
    ids = torch.from_numpy(pad(sources, 0)).to(marian.device)
    found = marian.generate(
        input_ids=ids, attention_mask=(ids != 0).long(), num_beams=beam, do_sample=False,
        length_penalty=0.0,
        min_new_tokens=TOKENS_OUT - 1, max_new_tokens=TOKENS_OUT, suppress_tokens=[0, 1, 2],
        early_stopping=False,
    )  # fmt: skip
    return [[token for token in row if token not in (0, 2, 3)] for row in found.tolist()]


CORPORA = [{"source": str(EXAMPLES / "tatoeba.de.gz"), "target": str(EXAMPLES / "tatoeba.en.gz")}]
VALID = [{"source": str(EXAMPLES / "valid.de.gz"), "target": str(EXAMPLES / "valid.en.gz")}]


class TimedTrainer(Trainer):
    """Records where its time goes. Timed parts other than steps begin when the GPU is idle."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.seconds: dict[str, float] = defaultdict(float)
        self.ends: list[float] = []  # of each step, and how many tokens there were by then
        self.tokens: list[int] = []

    def step(self, *arguments: Any) -> None:
        started = time.perf_counter()
        super().step(*arguments)
        self.ends.append(time.perf_counter())
        self.tokens.append(self.progress.target_tokens)
        if len(self.ends) <= WARM_UP:
            self.seconds[f"first {WARM_UP} steps"] += self.ends[-1] - started

    def validate(self, *arguments: Any) -> None:
        with self.timed("validation"):
            super().validate(*arguments)

    def save(self, *arguments: Any, **named: Any) -> None:
        with self.timed("checkpoint"):
            super().save(*arguments, **named)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        torch.cuda.synchronize()
        started = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - started

    def show(self, bare: float) -> None:
        tokens = self.tokens[-1] - self.tokens[WARM_UP]
        rate = tokens / (self.ends[-1] - self.ends[WARM_UP])
        print(f"steps after the first {WARM_UP}: {rate / 1000:.0f} k tokens/s, {rate / bare:.2f}")
        print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items()))


def real(arguments: argparse.Namespace) -> None:
    device = pick_device("cuda")
    settings = {
        "data.corpora": CORPORA,
        "text.vocab_size": 8000,
        "training.max_steps": 1000,
        "training.validate_every": 1000,
    }
    config = make_config("base", settings=settings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = prepare(config, folder / "data")
        model = build_model(config.model, data.codec.source, data.codec.target, shared=True)
        progress = Progress(micro_batch_tokens=10**6)
        trainer = TimedTrainer(
            config, data, model, device, Checkpoints(folder / "checkpoints", 1), progress
        )
        journal = Journal(folder, Console(quiet=True), 0, trainer.last_step, 50)
        started = time.perf_counter()
        trainer.run(journal, lambda: False)
        torch.cuda.synchronize()
        whole = progress.target_tokens / (time.perf_counter() - started)
        steps = trainer.loader.from_position(progress.position)
        batches = [batch for _ in range(arguments.batches) for batch in next(steps)[1]]
        steps.close()
        bare = measure(
            our_step(config, data.codec.target, device)[1], batches, arguments.rounds
        ).tokens_per_s
    print(
        f"\nreal training: {whole / 1000:.0f} k tokens/s with all around it, bare steps "
        f"{bare / 1000:.0f} k tokens/s"
    )
    print(f"share {whole / bare:.2f}")
    trainer.show(bare)


def curves(arguments: argparse.Namespace) -> None:
    """Training loss and validation perplexity by step, for equal and for unequal runs."""
    runs = {
        name: curve(*name) for name in (("float32", 1), ("bf16", 1), ("float32", 2), ("float32", 3))
    }
    print("\nstep  " + "  ".join(f"{precision:>8} seed {seed}" for precision, seed in runs))
    for step in next(iter(runs.values())):
        print(f"{step:>5} " + "  ".join(f"{losses[step]:>15.4f}" for losses in runs.values()))
    first, *others = (np.array(list(losses.values())) for losses in runs.values())
    apart = [f"{np.abs(other - first).mean():.4f}" for other in others]
    print("mean distance from the first: " + ", ".join(apart))


def curve(precision: str, seed: int) -> dict[str, float]:
    settings = {
        "data.corpora": CORPORA, "data.valid": VALID, "text.vocab_size": 8000,
        "training.precision": precision, "training.seed": seed,
        "training.max_steps": 1000, "training.log_every": 100, "training.validate_every": 500,
        "training.batch_tokens": 8000,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        run_training(
            name, preset="small", settings=settings, device="auto", console=Console(quiet=True)
        )
        entries = [json.loads(line) for line in (Path(name) / "log.jsonl").read_text().splitlines()]
    losses = {str(entry["step"]): entry["loss"] for entry in entries if "loss" in entry}
    return losses | {f"val {e['step']}": math.log(e["perplexity"]) for e in entries if "BLEU" in e}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", help="train, decode, real, curves; all if none is named"
    )
    parser.add_argument("--shape", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="measure dragoman alone"
    )
    parser.add_argument("--batches", type=int, default=24, help="different batches")
    parser.add_argument(
        "--rounds", type=int, default=5, help="times that all batches are taken; the median counts"
    )
    parser.add_argument(
        "--profile", action="store_true", help="print the kernels that take longest"
    )
    arguments = parser.parse_args()
    parts = {"train": train, "decode": decode, "real": real, "curves": curves}
    for name in arguments.parts or parts:
        parts[name](arguments)


if __name__ == "__main__":
    main()
