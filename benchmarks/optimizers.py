"""Measure the cost of an optimizer: floating-point operations until a validation loss is reached,
with Adam and with Muon.

    dragoman prepare SRC TGT --out runs/data ...
    python benchmarks/optimizers.py runs/data --steps 500 1000 2000 4000

For each optimizer every rate is tried on the fewest steps; the best one serves the longer runs.
Each run is complete: a warm-up of a tenth of its steps, then down in a line to zero, so that the
last loss of each is its best. Loss is the mean negative log-likelihood of a target piece of the
validation set. The operations of Muon's own products are counted.
"""

import argparse
import json
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dragoman.config import make_config
from dragoman.data.dataset import Dataset, open_prepared, prepared_settings
from dragoman.model.build import build_model, parameter_count, pick_device
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.cost import fitting_micro_batch
from dragoman.training.journal import NoJournal
from dragoman.training.trainer import Trainer


@dataclass(frozen=True)
class Run:
    optimizer: str
    rate: float
    steps: int
    batch_tokens: int
    loss: float
    flops: float
    seconds: float
    tokens: int


def train(args: argparse.Namespace, data: Dataset, optimizer: str, rate: float, steps: int) -> Run:
    settings = {
        **prepared_settings(Path(args.prepared)),
        **dict(assignment.split("=", 1) for assignment in args.set),
        "training.optimizer": optimizer,
        "training.learning_rate": rate,
        "training.max_steps": steps,
        "training.warmup_steps": max(1, steps // 10),
        "training.schedule": "linear",
        "training.batch_tokens": args.batch_tokens,
        "training.validate_every": 0,
    }
    config = make_config(
        args.preset, settings={name: _plain(value) for name, value in settings.items()}
    )
    device = pick_device(args.device)
    codec = data.codec
    model = build_model(
        config.model, codec.source, codec.target, codec.shared, config.training.seed
    )
    progress = Progress(micro_batch_tokens=fitting_micro_batch(config, len(codec.target), device))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, data, model, device, Checkpoints(Path(folder), 1), progress)
        steps_of_data = trainer.loader.from_position(progress.position)
        started = time.monotonic()
        while progress.step < steps:
            progress.position, batches = next(steps_of_data)
            trainer.step(batches, NoJournal())
        trainer.log_pending_step(NoJournal())
        seconds = time.monotonic() - started
        steps_of_data.close()
        loss = trainer.validator.nll(data.valid)
    run = Run(
        optimizer,
        rate,
        steps,
        args.batch_tokens,
        loss,
        progress.flops,
        seconds,
        progress.target_tokens,
    )
    print(
        f"{optimizer:5} rate {rate:<8g} {steps:6,} steps  {progress.flops:.3g} FLOPs  "
        f"{seconds:6.1f} s  "
        f"{progress.target_tokens / seconds:10,.0f} tokens/s  loss {loss:.4f}  "
        f"({parameter_count(model):,} parameters)",
        flush=True,
    )
    return run


def _plain(value: object) -> object:
    """A value from the command line, read as JSON where it is some."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def flops_to(loss: float, runs: list[Run]) -> float:
    """Operations until a loss, from complete runs of several lengths, on a line between their
    logarithms."""
    points = sorted((run.loss, math.log(run.flops)) for run in runs)
    return math.exp(
        float(np.interp(loss, [x for x, _ in points], [y for _, y in points], math.nan, math.nan))
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prepared")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--steps", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument(
        "--adam", type=float, nargs="*", default=[5e-4, 1e-3, 2e-3], help="rates to try"
    )
    parser.add_argument(
        "--muon", type=float, nargs="*", default=[1e-3, 2e-3, 4e-3], help="rates to try"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", help="JSON lines with every run are added here")
    args = parser.parse_args()
    config = make_config(settings=prepared_settings(Path(args.prepared)))
    data = open_prepared(config, Path(args.prepared))
    shortest, *longer = sorted(args.steps)
    found: dict[str, list[Run]] = {}
    for optimizer, rates in (("adam", args.adam), ("muon", args.muon)):
        if not rates:
            continue
        tried = [train(args, data, optimizer, rate, shortest) for rate in rates]
        best = min(tried, key=lambda run: run.loss)
        found[optimizer] = [
            best,
            *(train(args, data, optimizer, best.rate, steps) for steps in longer),
        ]
        if args.out:
            with open(args.out, "a", encoding="utf-8") as file:
                file.writelines(
                    json.dumps(vars(run)) + "\n" for run in [*tried, *found[optimizer][1:]]
                )
    if len(found) < 2:
        return
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(
        f"\n{where}, {args.preset} {' '.join(args.set)}, {args.batch_tokens:,} target tokens a "
        f"step\n"
    )
    print(
        "| loss of Adam after | loss | Adam, FLOPs | Muon, FLOPs | ratio |\n|---|---|---|---|---|"
    )
    for run in found["adam"]:
        muon = flops_to(run.loss, found["muon"])
        print(
            f"| {run.steps:,} steps | {run.loss:.3f} | {run.flops:.3g} | {muon:.3g} | "
            f"{run.flops / muon:.2f} |"
        )


if __name__ == "__main__":
    main()
