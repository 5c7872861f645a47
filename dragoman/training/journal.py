"""Log a run: a live progress bar on a terminal, JSON lines, and TensorBoard.

Values are averaged over the steps since the last entry. Every checkpoint closes an entry, so a
resumed run writes the same log as an uninterrupted one, except for times.
"""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dragoman.storage.files import write_atomically

LOG = "log.jsonl"


@dataclass(frozen=True)
class StepReport:
    """The facts of a step that are known before its loss."""

    step: int
    epoch: int
    tokens: int
    flops: float
    rate: float


class Journal:
    """Logs a run; `ceiling` is the device's peak operations per second, if known."""

    def __init__(
        self,
        folder: Path,
        console: Console,
        step: int,
        last_step: int,
        log_every: int,
        ceiling: float | None = None,
    ):
        self._ceiling = ceiling
        self._folder, self._console, self._log_every = folder, console, log_every
        _forget_after(folder / LOG, step)
        self._log = open(folder / LOG, "a", encoding="utf-8")  # noqa: SIM115 (lives as long as the run)
        self._board = _tensorboard(folder, step)
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[shown]}"), TimeRemainingColumn(), console=console,
            )  # fmt: skip
            self._task = self._bar.add_task("train", total=last_step, completed=step, shown="")
            # Only a terminal can redraw a line; in a file, each redraw would be a line.
            self._bar.start()
        self._last_step = last_step
        self._open_entry()

    def step(self, report: StepReport, loss: float, nll: float, norm: float) -> None:
        """Add one optimizer step: sums of loss and of -log p over its tokens."""
        self._loss += loss
        self._nll += nll
        self._tokens += report.tokens
        self._flops += report.flops
        self._norms.append(norm)
        self._rate, self._epoch = report.rate, report.epoch
        if self._bar is not None:
            self._bar.update(self._task, completed=report.step, shown=self._shown())
        if report.step % self._log_every == 0:
            self.close_entry(report.step)

    def close_entry(self, step: int) -> None:
        """Write the averages since the last entry."""
        if not self._tokens:
            return
        self._write(
            step,
            "train",
            {
                "epoch": self._epoch,
                "loss": self._loss / self._tokens,
                "perplexity": _perplexity(self._nll / self._tokens),
                "learning_rate": self._rate,
                "gradient_norm": sum(self._norms) / len(self._norms),
                "tokens": self._tokens,
                "tokens_per_s": round(self._speed(), 1),
                **({"mfu": round(self._utilisation(), 4)} if self._ceiling else {}),
            },
        )
        # Without a terminal there is no progress bar, so print a line for each entry.
        if self._bar is None:
            self._console.print(f"step {step:,}/{self._last_step:,}  {self._shown()}")
        self._open_entry()

    def validation(self, step: int, values: dict[str, float]) -> None:
        # The log has one line per entry: {"step": 1000, "kind": "valid", ...}.
        self._write(step, "valid", values)
        shown = "  ".join(f"{name} {value:.2f}" for name, value in values.items())
        self.say(f"step {step:,}: validation {shown}")
        # Do not count validation in the training speed.
        self._started = time.monotonic()

    def sentence(
        self, step: int, number: int, texts: dict[str, str], attention: np.ndarray | None
    ) -> None:
        """Log a watched sentence to TensorBoard: its texts by name, and an image of attention."""
        if self._board is None:
            return
        lines = (f"{name}: {text}" for name, text in texts.items())
        self._board.add_text(f"sentence {number}", "\n\n".join(lines), step)
        if attention is not None:
            self._board.add_image(f"attention {number}", attention, step, dataformats="HW")

    def say(self, text: str) -> None:
        self._console.print(text)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._log.close()
        if self._board is not None:
            self._board.close()

    def _open_entry(self) -> None:
        self._loss = self._nll = 0.0
        self._tokens = 0
        self._flops = 0.0
        self._norms = list[float]()
        self._started = time.monotonic()

    def _speed(self) -> float:
        return self._tokens / max(time.monotonic() - self._started, 1e-9)

    def _utilisation(self) -> float:
        """Return the share of the device's peak spent on the model's products (MFU)."""
        return (
            self._flops / max(time.monotonic() - self._started, 1e-9) / (self._ceiling or math.inf)
        )

    def _shown(self) -> str:
        nll = self._nll / self._tokens
        utilisation = f"  MFU {self._utilisation():.0%}" if self._ceiling else ""
        return (
            f"loss {self._loss / self._tokens:.3f}  ppl {_perplexity(nll):.2f}  "
            f"{self._speed():,.0f} tokens/s{utilisation}  rate {self._rate:.2e}"
        )

    def _write(self, step: int, kind: str, values: dict[str, Any]) -> None:
        self._log.write(json.dumps({"step": step, "kind": kind, **values}) + "\n")
        self._log.flush()  # for programs that follow the log
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)


class NoJournal(Journal):
    """The journal of ranks that do not print."""

    def __init__(self) -> None:
        pass

    def step(self, report: StepReport, loss: float, nll: float, norm: float) -> None:
        pass

    def close_entry(self, step: int) -> None:
        pass

    def validation(self, step: int, values: dict[str, float]) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def duration(seconds: float) -> str:
    """Format a duration for people.

    >>> duration(95), duration(720), duration(12600)
    ('95 s', '12 min', '3.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _perplexity(nll: float) -> float:
    """Return e^(mean of -log p), infinity on overflow."""
    # exp overflows a double beyond 709.
    return math.exp(nll) if nll < 700 else math.inf


def _forget_after(log: Path, step: int) -> None:
    """Drop the entries that a killed run wrote after its last checkpoint."""
    if log.exists():
        entries = []
        for line in log.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    entries.append(line + "\n")
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # a line cut off by a kill
        write_atomically(log, "".join(entries).encode())


def _tensorboard(folder: Path, step: int) -> Any:
    # Imported here, because TensorBoard is optional.
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    # Hide the entries of steps that a killed run made after its last checkpoint.
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
