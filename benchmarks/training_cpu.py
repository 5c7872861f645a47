"""Training speed of the `tiny` preset on a CPU, and of torch.nn.Transformer with the same shape, on
the same batches.

    python benchmarks/training_cpu.py [--tokens 500] [--steps 30]

Both sides do whole training steps (forward, smoothed loss, backward, clipping, Adam) on the batches
that `dragoman train` makes from the examples; they take turns, and the median of each decides. The
peer is written as its documentation has it: masks for padding and future, logits for every
position, padding ignored by the loss.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from peers import TorchTransformer, peer_step

from dragoman.config import Config, make_config
from dragoman.data.dataset import Dataset
from dragoman.data.prepare import prepare
from dragoman.model.build import build_model
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.optimizer import make_optimizer
from dragoman.training.trainer import Trainer

EXAMPLES = Path(__file__).parent.parent / "examples"


class Silent:
    """A journal that writes nothing."""

    def step(self, *_: object) -> None:
        pass


def prepared(tokens: int, folder: Path) -> tuple[Config, Dataset]:
    corpora = [
        {"source": str(EXAMPLES / "tatoeba.de.gz"), "target": str(EXAMPLES / "tatoeba.en.gz")}
    ]
    config = make_config(
        "tiny", settings={"data.corpora": corpora, "training.batch_tokens": tokens}
    )
    return config, prepare(config, folder / "data")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=500, help="target tokens in a step")
    parser.add_argument("--steps", type=int, default=30, help="steps measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, data = prepared(arguments.tokens, Path(folder))
        cpu = torch.device("cpu")
        model = build_model(config.model, data.codec.source, data.codec.target, shared=True, seed=1)
        trainer = Trainer(
            config,
            data,
            model,
            cpu,
            Checkpoints(Path(folder), 1),
            Progress(micro_batch_tokens=10**6),
        )
        peer = TorchTransformer(config.model, len(data.codec.source)).train()
        optimizer = make_optimizer(peer, config.training, cpu)  # type: ignore[arg-type]
        steps = trainer.loader.from_position(trainer.progress.position)
        times: dict[str, list[float]] = {"dragoman": [], "torch.nn.Transformer": []}
        tokens = 0
        for number in range(arguments.steps + 5):  # five to warm up
            _, batches = next(steps)
            clock = [time.perf_counter()]
            trainer.step(batches, Silent())  # type: ignore[arg-type]
            trainer.log_pending_step(Silent())  # type: ignore[arg-type]
            clock.append(time.perf_counter())
            for batch in batches:
                source, target_in, target_out = (
                    torch.from_numpy(a) for a in (batch.source, batch.target_in, batch.target_out)
                )
                smoothing = config.training.label_smoothing
                peer_step(peer, optimizer, source, target_in, target_out, smoothing).item()
            clock.append(time.perf_counter())
            if number >= 5:
                times["dragoman"].append(clock[1] - clock[0])
                times["torch.nn.Transformer"].append(clock[2] - clock[1])
                tokens += sum(batch.tokens for batch in batches)
    machine = f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"tiny preset, {arguments.tokens} target tokens a step, {machine}")
    median = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in median.items():
        print(
            f"{name:22} {1000 * seconds:7.1f} ms a step  "
            f"{tokens / arguments.steps / seconds:9,.0f} tokens/s"
        )
    print(f"ratio {median['torch.nn.Transformer'] / median['dragoman']:.2f}")


if __name__ == "__main__":
    main()
