"""Training speed of recurrent and convolutional models on a GPU, step by step and recorded.

    python benchmarks/recurrent.py [--device cuda] [--widths 256,512] [--steps 60]
                                   [--words 9,30] [--architectures rnn,gnmt]

Both sides compute the gradient of the same batches of random words. "before" is the plain code
path with torch's packed sequences, whose lengths the host has to know; "after" is what `dragoman
train` does now: batches filled up to few shapes, each recorded as a CUDA graph. One line of JSON a
measurement; `difference` is the largest of any weight's gradient, over its norm, without dropout.
"""

import argparse
import json
import time
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.config import Config, make_config
from dragoman.data.batches import Batch, BatchPlan, collate
from dragoman.lab.architectures.recurrent import Recurrence
from dragoman.model.build import Model, build_model
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.cost import training_flops
from dragoman.training.gradients import BucketedGradients, Gradients, make_gradients

_WORDS = 8000
_FILLED = ("rnn", "rnn-attention", "gnmt", "convs2s", "decoder-only")


def packed_read(self: Recurrence, x: Tensor, real: Tensor) -> Tensor:
    """Sentences of several lengths as torch's documentation has it."""
    with torch.autocast(x.device.type, enabled=False):
        lengths = real.sum(dim=1).cpu()
        sequence = pack_padded_sequence(
            x.to(self.dtype), lengths, batch_first=True, enforce_sorted=False
        )
        y, _ = pad_packed_sequence(self.rnn(sequence)[0], batch_first=True, total_length=x.shape[1])
    return y


def random_batches(words: float, tokens: int, count: int, pieces: Vocabulary) -> list[Batch]:
    """Sentences with so many words on average, batched as training does."""
    draw = np.random.default_rng(1)
    lengths = np.clip(draw.lognormal(np.log(words) - 0.08, 0.4, 60_000), 2, 150).astype(int)
    targets = np.clip(lengths * draw.normal(1, 0.15, len(lengths)), 1, 150).astype(int)
    plan = BatchPlan(lengths, targets, tokens, 1)
    batches = []
    for rows in islice(plan.epoch(0), count):
        left, right = (
            [draw.integers(4, _WORDS, length).tolist() for length in side[rows]]
            for side in (lengths, targets)
        )
        batches.append(collate(left, right, pieces, pieces))
    return batches


def steps(gradients: Gradients, model: Model, batches: list[Batch], device: torch.device) -> float:
    """Steps a second over these batches, with Adam."""
    adam = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        gradients.zero()
        gradients.accumulate(batch, batch.tokens)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return len(batches) / (time.perf_counter() - started)


def gradient(gradients: Gradients, model: Model, batch: Batch) -> dict[str, Tensor]:
    gradients.zero()
    gradients.accumulate(batch, batch.tokens)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def difference(way: type[Gradients], config: Config, model: Model, batch: Batch) -> float:
    """Between the plain gradient in float32 and this one, without dropout."""
    device = next(model.parameters()).device
    exact = gradient(Gradients(model, config, device), model, batch)
    ours = way(model, config, device)
    for _ in range(3):  # computed, recorded, replayed
        found = gradient(ours, model, batch)
    return max(float((found[n] - exact[n]).norm() / exact[n].norm().clamp(min=1e-9)) for n in exact)


def measure(architecture: str, width: int, words: float, args: argparse.Namespace) -> None:
    device = torch.device(args.device)
    pieces = Vocabulary(("<pad>", "<unk>", "<s>", "</s>", *(f"w{i}" for i in range(4, _WORDS))))
    settings = {
        "model.architecture": architecture, "model.d_model": width, "model.num_heads": width // 64,
        "model.num_encoder_layers": 3, "model.num_decoder_layers": 3, "model.dropout": args.dropout,
        "model.d_ff": 4 * width, "model.norm_position": "pre",
        "training.batch_tokens": args.tokens,
    }  # fmt: skip
    config = make_config("tiny", settings=settings)
    batches = random_batches(words, args.tokens, args.steps, pieces)

    def fresh() -> Model:
        return build_model(config.model, pieces, pieces, shared=True).to(device).train()

    found: dict[str, Any] = {
        "architecture": architecture, "width": width, "words": words,
        "flops_per_step": float(np.mean([training_flops(fresh(), batch) for batch in batches[:3]])),
    }  # fmt: skip
    if architecture in _FILLED and not args.only_after:
        with patch.object(Recurrence, "read", packed_read):
            model = fresh()
            plain = Gradients(model, config, device)
            for _ in range(2):  # kernels are compiled for new shapes on this side too
                steps(plain, model, batches, device)
            found["before"] = round(steps(plain, model, batches, device), 2)
    model = fresh()
    ours = make_gradients(model, config, device)
    for _ in range(2):  # compiled, recorded
        steps(ours, model, batches, device)
    found["after"] = round(steps(ours, model, batches, device), 2)
    found["tflops"] = round(found["after"] * found["flops_per_step"] / 1e12, 2)
    if architecture in _FILLED and not args.only_after:
        exact = make_config(
            "tiny", settings={**settings, "model.dropout": 0.0, "training.precision": "float32"}
        )
        still = build_model(exact.model, pieces, pieces, shared=True).to(device).train()
        found["difference"] = difference(BucketedGradients, exact, still, batches[0])
        found["shapes"] = len(getattr(ours, "_graphs", ()))
    if device.type == "cuda":
        found["gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
    print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--widths", default="256,512")
    parser.add_argument("--words", default="9,30")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--architectures", default=",".join([*_FILLED, "transformer"]))
    parser.add_argument("--only-after", action="store_true")
    args = parser.parse_args()
    for width in map(int, args.widths.split(",")):
        for words in map(float, args.words.split(",")):
            for architecture in args.architectures.split(","):
                try:
                    measure(architecture, width, words, args)
                except RuntimeError as error:  # the others may still work
                    print(json.dumps({"architecture": architecture, "failed": str(error)[:500]}))


if __name__ == "__main__":
    main()
