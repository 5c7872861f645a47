"""Training speed of the `tiny` preset on a CPU beside torch.nn.Transformer of the same shape, on the same batches.

    python benchmarks/training_cpu.py [--tokens 500] [--steps 30]

Both sides do whole training steps (forward, smoothed loss, backward, clipping, Adam) on the batches that
`dragoman train` makes from the examples; they take turns, and the median of each decides. The peer is written as its
documentation has it: masks for padding and future, logits for every position, padding ignored by the loss.
"""

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from dragoman.config import Config, make_config
from dragoman.data.batches import Batch
from dragoman.data.prepare import Prepared, prepare
from dragoman.model.build import build_model
from dragoman.model.sinusoids import sinusoids
from dragoman.training.state import Checkpoints, Progress
from dragoman.training.trainer import Trainer, make_optimiser

EXAMPLES = Path(__file__).parent.parent / "examples"


class Silent:
    """A journal that writes nothing."""

    def step(self, *_: object) -> None:
        pass


class Peer(nn.Module):
    """torch.nn.Transformer with embeddings, sinusoids and a tied output layer."""

    def __init__(self, config: Config, size: int):
        super().__init__()
        model = config.model
        self.embedding = nn.Embedding(size, model.width)
        self.transformer = nn.Transformer(
            model.width, model.heads, model.encoder_layers, model.decoder_layers, model.feed_forward_width,
            model.dropout, batch_first=True, norm_first=model.norm == "pre",
        )  # fmt: skip
        self.drop = nn.Dropout(model.dropout)
        self.register_buffer("positions", torch.from_numpy(sinusoids(512, model.width)))

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        padding = source == 0
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self._embed(source), self._embed(target), tgt_mask=future, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return hidden @ self.embedding.weight.T

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.drop(self.embedding(ids) * math.sqrt(self.embedding.embedding_dim) + self.positions[: ids.shape[1]])


def peer_step(peer: Peer, optimiser: torch.optim.Optimizer, batch: Batch, smoothing: float) -> None:
    logits = peer(torch.from_numpy(batch.source), torch.from_numpy(batch.target_in))
    targets = torch.from_numpy(batch.target_out).flatten()
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets, ignore_index=0, label_smoothing=smoothing)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
    optimiser.step()
    loss.item()


def prepared(tokens: int, folder: Path) -> tuple[Config, Prepared]:
    corpora = [{"source": str(EXAMPLES / "tatoeba.de.gz"), "target": str(EXAMPLES / "tatoeba.en.gz")}]
    config = make_config("tiny", settings={"data.corpora": corpora, "training.batch_tokens": tokens})
    return config, prepare(config, folder / "data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=500, help="target tokens in a step")
    parser.add_argument("--steps", type=int, default=30, help="steps measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, data = prepared(arguments.tokens, Path(folder))
        cpu = torch.device("cpu")
        model = build_model(config.model, data.codec.source, data.codec.target, shared=True, seed=1)
        trainer = Trainer(config, data, model, cpu, Checkpoints(Path(folder), 1), Progress(micro_batch_tokens=10**6))
        peer = Peer(config, len(data.codec.source)).train()
        optimiser = make_optimiser(peer, config, cpu)  # type: ignore[arg-type]
        steps = trainer.loader.from_position(trainer.progress.position)
        times: dict[str, list[float]] = {"dragoman": [], "torch.nn.Transformer": []}
        tokens = 0
        for number in range(arguments.steps + 5):  # five to warm up
            _, batches = next(steps)
            clock = [time.perf_counter()]
            trainer.step(batches, Silent())  # type: ignore[arg-type]
            clock.append(time.perf_counter())
            for batch in batches:
                peer_step(peer, optimiser, batch, config.training.label_smoothing)
            clock.append(time.perf_counter())
            if number >= 5:
                times["dragoman"].append(clock[1] - clock[0])
                times["torch.nn.Transformer"].append(clock[2] - clock[1])
                tokens += sum(batch.tokens for batch in batches)
    machine = f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"tiny preset, {arguments.tokens} target tokens a step, {machine}")
    median = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in median.items():
        print(f"{name:22} {1000 * seconds:7.1f} ms a step  {tokens / arguments.steps / seconds:9,.0f} tokens/s")
    print(f"ratio {median['torch.nn.Transformer'] / median['dragoman']:.2f}")


if __name__ == "__main__":
    main()
