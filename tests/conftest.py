"""What many tests share: a toy language, a small model with random weights, a trained run, the
command line."""

from __future__ import annotations

import atexit
import fcntl
import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before torch is imported, here and in processes that a test starts: small models are slower with
# more threads, and much slower where the cores are busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from dragoman.cli.app import main
from dragoman.config import Config, make_config, plugins
from dragoman.config.plugins import import_lab
from dragoman.text.vocabulary import Vocabulary
from tests.processes import Answer

# torch is imported where it is used: the process that starts xdist's workers does without.
if TYPE_CHECKING:
    from dragoman.decode.translator import Translator
    from dragoman.engine.torch_engine import TorchEngine
    from dragoman.model.build import Model

import_lab()  # tests are parametrized over tables, to which it adds

# The same cases in every run: what a change broke is its own doing. `make fuzz` draws new ones.
settings.register_profile("default", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=3000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

NUMBERS = {
    "null": "zero", "eins": "one", "zwei": "two", "drei": "three", "vier": "four", "fünf": "five",
    "sechs": "six", "sieben": "seven", "acht": "eight", "neun": "nine",
}  # fmt: skip
SMALL = {
    "model.d_model": 32, "model.num_heads": 2, "model.d_ff": 64,
    "model.num_encoder_layers": 2, "model.num_decoder_layers": 2,
}  # fmt: skip
# For runs that learn nothing: in validation, such a model would say as much as it may.
SHORT_SEARCH = {"decoding.beam_size": 1, "decoding.max_length_extra": 5}
QUICK_RUN = [
    "--preset", "tiny", "--device", "cpu",
    "--set", "model.d_model=32", "--set", "model.num_heads=2", "--set", "model.d_ff=64",
    "--set", "training.batch_tokens=300", "--set", "training.max_steps=12", "--set",
    "training.validate_every=6",
    "--set", "training.checkpoint_every=3", "--set", "training.log_every=2", "--set",
    "text.vocab_size=400", *(f"--set={name}={value}" for name, value in SHORT_SEARCH.items()),
]  # fmt: skip

# How many of 500 sentences may change with their neighbours because two hypotheses tie. None has
# been seen to change, so more than this are no coincidence.
MOST_TIES = 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if session.config.pluginmanager.hasplugin("dsession"):
        return  # xdist's workers collect
    import torch

    if not torch.cuda.is_available():
        # before anything imports Triton: our kernels are tested there too
        os.environ["TRITON_INTERPRET"] = "1"
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the imported objects, so that garbage collection does not scan them again."""
    gc.enable()
    gc.freeze()
    # Not earlier: pytest, too, looks for garbage at its end, several times.
    atexit.register(gc.unfreeze)


def vocabulary(size: int) -> Vocabulary:
    return Vocabulary(("<pad>", "<unk>", "<s>", "</s>", *(f"▁{i}" for i in range(4, size))))


def small_config(**settings: object) -> Config:
    """A small model without dropout; keyword `model__norm_position="pre"` sets that key."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return make_config(
        "tiny", settings={**SMALL, "model.norm_position": "post", "model.dropout": 0.0, **named}
    )


def small_model(
    size: int = 23, seed: int = 5, end: float | None = None, **settings: object
) -> Model:
    """Random weights, larger than at the start of training, so that outputs differ visibly.

    Such a model never ends a sentence, unless the end's logit gets something on top: `end`.
    """
    import torch

    from dragoman.model.build import build_model

    pieces = vocabulary(size)
    if end is not None:
        settings["model__output_bias"] = True
    model = build_model(small_config(**settings).model, pieces, pieces, shared=True, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
            )
        if end is not None:
            model.output.bias[pieces.eos] += end
    return model.eval()


def small_engine(
    size: int = 23, seed: int = 5, end: float | None = None, **settings: object
) -> TorchEngine:
    import torch

    from dragoman.engine.torch_engine import TorchEngine

    model = small_model(size, seed, end, **settings)
    return TorchEngine(model, vocabulary(size), vocabulary(size), torch.device("cpu"))


def toy_pairs(count: int, seed: int = 1, longest: int = 6) -> list[tuple[str, str]]:
    """German numbers and their English names, word by word."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        words = draw.choices(list(NUMBERS), k=draw.randint(1, longest))
        lines.append((" ".join(words), " ".join(NUMBERS[word] for word in words)))
    return lines


def write_corpus(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{name}.de", folder / f"{name}.en"
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return files


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """Some libraries set up logging for the whole process: other tests would find it on stderr."""
    root = logging.getLogger()
    level, handlers = root.level, {*root.handlers}
    yield
    root.setLevel(level)
    for handler in {*root.handlers} - handlers:
        root.removeHandler(handler)


@pytest.fixture(autouse=True)
def the_same_products() -> Iterator[None]:
    """Restore oneDNN after each test.

    If a CPU has no bf16 (Arm), PyTorch gives up oneDNN at the first product in bf16, and rounds
    all later products of the process differently.
    """
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].backends.mkldnn.enabled = True


@pytest.fixture(autouse=True)
def plugins_of_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the plug-ins that a test names: worker processes of later tests would import them."""
    monkeypatch.setattr(plugins, "_named", [*plugins.named_plugins()])


@pytest.fixture
def dragoman(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """Run the command line in this process."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        finally:
            signal.signal(signal.SIGTERM, before)
        if code == 128 + signal.SIGTERM:
            # The tests are being stopped, for instance by timeout(1): not the command's answer.
            pytest.exit(f"SIGTERM during dragoman {' '.join(map(str, arguments))}", code)
        return Answer(code, *capsys.readouterr())

    before = signal.getsignal(signal.SIGTERM)
    return call


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`shared(name, make)`: a folder that `make(folder)` fills, once for all processes of xdist."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder_of(name: str, make: Callable[[Path], object]) -> Path:
        folder = root / "shared" / name
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                make(folder)
                (folder / "done").touch()
        return folder

    return folder_of


@pytest.fixture(scope="session")
def trained(shared: Callable[..., Path]) -> Path:
    """A run that has learned the toy language."""
    return shared("trained", train_the_toy_language) / "run"


@pytest.fixture(scope="session")
def trained_onnx(shared: Callable[..., Path], trained: Path) -> Path:
    """The same run for the ONNX engine: a fresh interpreter with it does not import torch."""
    from dragoman.bundle.folder import read_bundle, write_bundle
    from dragoman.convert.to_onnx import to_onnx

    made = shared(
        "onnx", lambda folder: write_bundle(folder / "run", to_onnx(read_bundle(trained)))
    )
    return made / "run"


@pytest.fixture(scope="session")
def packaged() -> Translator:
    """Load the packaged model once for each process; tests must not change it."""
    from dragoman.decode.translator import Translator

    return Translator.load()


def train_the_toy_language(folder: Path, **more: object) -> None:
    """A run in folder/run; keyword `model__norm_position="post"` sets model.norm_position."""
    from dragoman.config import Corpus
    from dragoman.training.run import train

    source, target = write_corpus(folder, "train", toy_pairs(2000))
    settings = {
        **SMALL, "text.vocab_size": 400, "training.batch_tokens": 1000, "training.max_steps": 180,
        "training.validate_every": 90, "training.checkpoint_every": 45, "training.warmup_steps": 30,
        "training.optimizer": "muon", "training.schedule": "linear", "training.learning_rate": 2e-2,
        "data.valid_size": 50, "model.dropout": 0.0,
        **{name.replace("__", "."): value for name, value in more.items()},
    }  # fmt: skip
    corpora = (Corpus(str(source), str(target)),)
    outcome = train(folder / "run", corpora=corpora, preset="tiny", settings=settings, device="cpu")
    assert outcome.finished
