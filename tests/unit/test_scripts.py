"""Scripts outside the package import existing names, explain themselves and work as documented."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.decode.search.beam import beam_search
from dragoman.decode.search.task import Task
from tests.conftest import small_engine

ROOT = Path(__file__).parents[2]
# never run by themselves
LIBRARIES = {
    "five_languages.py", "own_symbols.py", "peers.py", "site_hooks.py", "steps.py",
    "zoo_readers.py",
}  # fmt: skip
SCRIPTS = [
    path
    for folder in ("benchmarks", "pretraining", "tools")
    for path in sorted((ROOT / folder).glob("*.py"))
    if path.name not in LIBRARIES
]


@pytest.fixture(autouse=True)
def as_in_their_folders(monkeypatch):
    """A script imports its neighbours by their bare names."""
    before = set(sys.modules)
    for folder in ("benchmarks", "pretraining", "tools"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if any(str(ROOT / folder) in file for folder in ("benchmarks", "pretraining", "tools")):
            del sys.modules[name]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_script_explains_itself(script: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(str(script), run_name="__main__")
    assert exit_.value.code in (0, None)
    assert "usage:" in capsys.readouterr().out


def test_the_peer_of_the_gpu_benchmark_has_our_weights() -> None:
    """Greedy search through Hugging Face's model says what ours says."""
    pytest.importorskip("transformers")
    from peers import marian_with_weights_of

    engine = small_engine(seed=3)
    marian = marian_with_weights_of(engine.model, len(engine.target))
    source = [5, 6, 7, engine.source.eos]
    settings = DecodingConfig(beam_size=1, length_penalty="none", max_length_extra=8)
    ((best,),) = beam_search(engine, [source], Task(settings))
    with torch.inference_mode():
        theirs = marian.generate(
            torch.tensor([source]), num_beams=1, do_sample=False, max_new_tokens=6,
            suppress_tokens=[0, 1, 2],
        )  # fmt: skip
    said = [token for token in theirs[0].tolist() if token not in (0, 2, 3)]
    assert said[:4] == list(best.tokens)[:4]


@pytest.mark.slow
def test_all_systems_of_the_opus_benchmark_say_something(monkeypatch, capsys) -> None:
    pytest.importorskip("transformers")
    import opus

    def measure_cells(systems, sources, beside, options):
        made = {name: run(sources[:2], 1, 2) for name, (run, _) in systems.items()}
        assert set(made.values()) == {2 * opus.TOKENS}
        return {name: [f"{tokens}"] for name, tokens in made.items()}

    monkeypatch.setattr(opus, "measure_cells", measure_cells)
    monkeypatch.setattr(sys, "argv", ["opus.py", "--layers", "1", "--width", "64"])
    opus.main()
    assert "| dragoman int8 |" in capsys.readouterr().out
