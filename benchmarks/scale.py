"""Estimate the cost of training and bulk translation on more machines, for docs/scale.md, from
figures measured on one.

python benchmarks/scale.py > docs/scale.md                # with the measured figures
python benchmarks/scale.py --price 2.50 --big-speed 300e3 # with others
python benchmarks/scale.py --log runs/base/log.jsonl      # compare the one-GPU row with a real run
"""

import argparse
import json
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import torch

from dragoman.config import Config, from_tree, make_config
from dragoman.config.settings import read_toml
from dragoman.decode.bulk.job import RETRIES
from dragoman.decode.translator import WINDOW_LINES
from dragoman.model.build import Model, build_model, parameter_count
from dragoman.text.vocabulary import Vocabulary

LENGTH = 25  # tokens of a sentence, as in benchmarks/gpu.py
PAIRS = 4_500_000  # of WMT14 English-German, the paper, section 5.1
PIECES = 37_000  # of the paper, section 5.1
STEPS = {"base": 100_000, "big": 300_000}  # the paper, section 5.2
BYTES_OF_A_GRADIENT = 4
# float32 weight, gradient and two moments read, all but the gradient written
BYTES_OF_AN_UPDATE = 28


def assumed(default: float, text: str) -> float:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Assumptions:
    base_speed: float = assumed(
        993e3, "target tokens/s of bare steps, base, one H200 (`benchmarks/gpu.py train`)"
    )
    base_pieces: float = assumed(32_000, "pieces of the vocabulary in that measurement")
    big_speed: float = assumed(
        0, "the same for big; 0: as many operations a second as base, not measured"
    )
    share: float = assumed(
        0.80, "speed of real training as a share of bare steps (`benchmarks/gpu.py real`)"
    )
    batch: float = assumed(
        25_000, "target tokens in a step, however many GPUs share them (the paper, section 5.1)"
    )
    node: float = assumed(8, "GPUs in a node")
    memory: float = assumed(4.8e12, "bytes/s of a GPU's memory (NVIDIA's data sheet of the H200)")
    nvlink: float = assumed(
        450e9, "bytes/s out of a GPU within its node (same sheet: 900 GB/s, both ways counted)"
    )
    infiniband: float = assumed(
        400e9,
        "bytes/s out of a node (NVIDIA's data sheet of the DGX H200: eight adapters of 400 Gb/s)",
    )
    links: float = assumed(0.8, "share of those speeds that is reached; assumed")
    hop: float = assumed(5e-6, "seconds before a message's first byte; assumed")
    price: float = assumed(4.0, "dollars for a GPU and hour; assumed")
    cpu_greedy: float = assumed(
        1546, "target tokens/s, base, int8, greedy, two Neoverse-N1 cores (`benchmarks/cpu.py`)"
    )
    cpu_beam: float = assumed(571, "the same with beam 4")
    cpu_cores: float = assumed(64, "Neoverse-N1 cores in a CPU node")
    cpu_price: float = assumed(2.18, "dollars for such a node and hour; assumed")
    sentences: float = assumed(1e9, "sentences to translate")
    sentence_tokens: float = assumed(30, "target tokens of each, as in `benchmarks/cpu.py`")
    sentence_bytes: float = assumed(150, "bytes of a sentence, on either side; assumed")


def model_of(config: Config, pieces: int) -> Model:
    """Shapes without weights."""
    vocabulary = Vocabulary(tuple(map(str, range(pieces))))
    with torch.device("meta"):
        return build_model(config.model, vocabulary, vocabulary, config.text.shared)


def flops_per_token(model: Model) -> float:
    """Return the FLOPs of forward and backward for each target token."""
    return 6.0 * model.multiplications(np.array([LENGTH]), np.array([LENGTH])) / LENGTH


def tokens_per_s(model: Model, given: Assumptions) -> float:
    """Bare steps on one GPU: as many operations a second as in the measurement."""
    measured = model_of(make_config("base"), int(given.base_pieces))
    return given.base_speed * flops_per_token(measured) / flops_per_token(model)


def all_reduce_s(size: float, gpus: int, given: Assumptions) -> float:
    """A ring: 2(n-1) messages of a n-th each, at the speed of the slowest link."""
    speed = given.links * (
        given.nvlink if gpus <= given.node else min(given.nvlink, given.infiniband)
    )
    return 2 * (gpus - 1) * (given.hop + size / gpus / speed)


def step_s(model: Model, speed: float, gpus: int, given: Assumptions) -> tuple[float, float, float]:
    """Seconds of a step in computing, updating weights and summing gradients."""
    update = BYTES_OF_AN_UPDATE * parameter_count(model) / given.memory
    computing = (given.batch / speed - update) / gpus
    return (
        computing,
        update,
        all_reduce_s(BYTES_OF_A_GRADIENT * parameter_count(model), gpus, given),
    )


def training_rows(given: Assumptions) -> list[str]:
    rows = []
    for name, steps in STEPS.items():
        model = model_of(make_config(name), PIECES)
        speed = (given.big_speed if name == "big" else 0) or tokens_per_s(model, given)
        for gpus in (1, 8, 64):
            parts = step_s(model, speed, gpus, given)
            hours = steps * sum(parts) / given.share / 3600
            times = " | ".join(f"{1000 * part:.2f}" for part in parts)
            efficiency = sum(step_s(model, speed, 1, given)) / sum(parts) / gpus
            cost = hours * gpus * given.price
            rows.append(
                f"| {name} | {gpus} | {times} | {efficiency:.0%} | {hours:.2f} | {cost:,.2f} |"
            )
    return rows


def bulk_rows(given: Assumptions) -> list[str]:
    rows = []
    for name, speed in (("greedy", given.cpu_greedy), ("beam 4", given.cpu_beam)):
        per_core = speed / 2 / given.sentence_tokens  # sentences a second
        for nodes in (1, 10, 100):
            rate = per_core * given.cpu_cores * nodes
            hours = given.sentences / rate / 3600
            traffic = 2 * rate * given.sentence_bytes / 1e6
            cost = hours * nodes * given.cpu_price
            rows.append(
                f"| {name} | {nodes} | {rate:,.0f} | {traffic:.2f} | {hours:,.1f} | {cost:,.0f} |"
            )
    return rows


def check(log: Path, given: Assumptions) -> str:
    """Compare a run's seconds without validations, from its log, with the estimate."""
    config = from_tree(read_toml(log.parent / "run.toml"))
    entries = [
        entry
        for line in log.read_text().splitlines()
        if (entry := json.loads(line))["kind"] == "train"
    ]
    tokens = sum(entry["tokens"] for entry in entries)
    measured = sum(entry["tokens"] / entry["tokens_per_s"] for entry in entries)
    passes = 2 if config.training.r_drop_alpha else 1
    predicted = (
        passes
        * tokens
        / tokens_per_s(model_of(config, config.text.vocab_size), given)
        / given.share
    )
    return (
        f"{log}: {entries[-1]['step']:,} steps, {tokens:,} target tokens; predicted "
        f"{predicted:.1f} s, "
        f"measured {measured:.1f} s, ratio {measured / predicted:.2f}"
    )


def document(given: Assumptions) -> str:
    options = (
        (f"--{f.name.replace('_', '-')}", getattr(given, f.name), f.metadata["help"])
        for f in fields(given)
    )
    epochs = [steps * given.batch / LENGTH / PAIRS for steps in STEPS.values()]
    return DOCUMENT.format(
        assumptions="\n".join(f"| `{name}` | {value:,g} | {text} |" for name, value,
        text in options),
        epochs=" and ".join(f"{count:.0f}" for count in epochs),
        training="\n".join(training_rows(given)),
        bulk="\n".join(bulk_rows(given)), lines=WINDOW_LINES, tries=RETRIES + 1,
    )  # fmt: skip


DOCUMENT = """\
# What more machines would give

`python benchmarks/scale.py` prints this page. It starts from figures that were measured on one
machine (see the [benchmarks](benchmarks.md)) and from the assumptions below. Nothing on this
page was measured on more than one GPU or on more than two cores. Every figure is an option of the
script.

| option | value | what it is |
|---|---|---|
{assumptions}

## Training

The paper's recipe on data of WMT14's size, 4.5 million pairs: 100,000 steps for base and 300,000
for big. They see each pair about {epochs} times if it has 25 target tokens. With $n$ GPUs, $P$
parameters, $N$ target tokens per step, $v$ target tokens per second on one GPU, the links' speed
$w$ and a delay of $h$ for each message:

| time | formula | |
|---|---|---|
| update | $u = 28 P / \\text{{memory}}$ | weights, gradients and moments, on every GPU |
| computing | $k(n) = (N / v - u) / n$ | each GPU takes an $n$-th of the tokens |
| summing | $c(n) = 2 (n - 1) (h + 4 P / (n w))$ | ring all-reduce of float32 gradients |
| hours | $T(n) = \\text{{steps}} \\cdot (k(n) + u + c(n)) / (3600 \\cdot \\text{{share}})$ | |

Within a node, the link is NVLink. Beyond a node, it is the slower of NVLink and all adapters of a
node together, because rings can leave a node over each of them. Two simplifications pull in
opposite directions. Summing does not overlap with computing, which makes the figures for many GPUs
too high. A 64th of a batch is assumed to be computed as efficiently as a whole one, which makes
them too low. "Efficiency" is the speed-up over one GPU divided by the number of GPUs.

| model | GPUs | computing, ms | update, ms | summing, ms | efficiency | hours | dollars |
|---|---|---|---|---|---|---|---|
{training}

With the paper's batch, 64 GPUs spend most of a step on summing gradients. Many GPUs need larger
batches and fewer steps (Ott et al. 2018), which is another recipe.

## A billion sentences on CPU nodes

The base shape in int8, {lines:,} sentences at a time (`dragoman translate --workers`). Shards do
not wait for each other, so cores add up. The driver could limit that, because all text passes
through it. A node with all cores busy is assumed to be as fast per pair of cores as a machine
with only two; its memory may not allow that.

| search | nodes | sentences/s | driver, MB/s | hours | dollars |
|---|---|---|---|---|---|
{bulk}

A worker that dies costs the shard that it was working on, which is tried up to {tries} times. A
driver that dies costs one shard per worker.

## Checked against a real run

`python benchmarks/scale.py --log RUN/log.jsonl` compares the one-GPU prediction with the seconds in
a run's log, without validations. The prediction is $1 / (v \\cdot \\text{{share}})$ seconds per
target token. For the run of `configs/tatoeba.de-en.toml` on one H200 ([log](LOG.md); 184,694,514
target tokens, each computed twice for R-Drop) it predicts 291.6 s; the run took 475.1 s, a ratio of
1.63. The prediction assumes as many operations per second as base reaches with sentences of 25
tokens. That model is smaller, its sentences have nine pieces, and it used 23% of the device where
base used 43% in bare steps. A run of base on sentences of 25 tokens, whose speed the prediction
rests on, has not been compared with it.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in fields(Assumptions):
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            type=float,
            default=option.default,
            help=option.metadata["help"],
        )
    parser.add_argument(
        "--log", type=Path, help="hold the one-GPU prediction against this run's log.jsonl"
    )
    arguments = vars(parser.parse_args())
    log = arguments.pop("log")
    given = Assumptions(**arguments)
    print(check(log, given) if log else document(given), end="" if not log else "\n")


if __name__ == "__main__":
    main()
