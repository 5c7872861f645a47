"""Models by name from the Hugging Face hub, from the command line and from Python; the hub is a
small server in this process."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman as package
from dragoman.bundle.folder import read_bundle
from dragoman.convert import hub as ours
from dragoman.convert.from_huggingface import from_huggingface
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.translator import Translator
from dragoman.engine.factory import make_engine
from tests.forging import marian_folder
from tests.hub_server import Hub, serving

NAME = "Helsinki-NLP/opus-mt-de-en"
LINES = ["eins zwei", "drei", "vier fünf sechs"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    from huggingface_hub import constants

    folder = marian_folder(tmp_path / "hub" / NAME)
    (folder / "README.md").write_text("---\nlanguage: de\nlicense: apache-2.0\n---\n# A model\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    with serving(tmp_path / "hub") as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        url = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        monkeypatch.setenv("HF_ENDPOINT", server.address)  # for processes that are started
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
        yield server


def test_a_name_of_the_hub_translates_as_its_folder_does(hub: Hub, dragoman) -> None:
    bundle = to_onnx(from_huggingface(hub.root / NAME), int8=True)
    expected = Translator(make_engine(bundle, "cpu"), bundle.codec, bundle.config)(LINES)
    answer = dragoman("translate", "--model", NAME, *LINES)
    assert (answer.code, answer.out.splitlines()) == (0, expected)
    asked = len(hub.asked)
    assert package.load(NAME)(LINES) == expected
    assert json.loads(dragoman("info", NAME, "--json").out)["model"] == NAME
    assert len(hub.asked) == asked, "what is converted needs no hub"
    assert not any("pytorch_model.bin" in request for request in hub.asked)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of processor time")
def test_a_model_of_the_hub_is_converted_in_a_process_with_limits(
    hub: Hub, dragoman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process notes its number and its limit."""
    note = tmp_path / "note"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib, resource\n"
        "limit = resource.setrlimit\n"
        "def noted(which, limits):\n"
        "    if which == resource.RLIMIT_CPU:\n"
        f"        pathlib.Path({str(note)!r}).write_text(f'{{os.getpid()}} {{limits[0]}}')\n"
        "    limit(which, limits)\n"
        "resource.setrlimit = noted\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert dragoman("translate", "--model", NAME, "eins").code == 0
    number, limit = map(int, note.read_text().split())
    assert number != os.getpid()
    assert 0 < limit < 10_000


def test_models_are_listed_fetched_again_and_removed(hub: Hub, dragoman) -> None:
    assert NAME not in dragoman("models").out
    assert dragoman("models", "get", NAME).code == 0
    listed = [json.loads(line) for line in dragoman("models", "list", "--json").out.splitlines()]
    (found,) = [entry for entry in listed if entry["name"] == NAME]
    assert {entry["where"] for entry in listed} == {"bundled", "cached"}
    assert (found["from"], found["to"], found["licence"]) == (["de"], ["en"], "apache-2.0")
    assert f"{NAME}  cached  de → en" in dragoman("models").out
    before = ours.cached(NAME).stat().st_ino
    dragoman("models", "get", NAME)
    assert ours.cached(NAME).stat().st_ino == before, "the hub has no newer revision"
    hub.revision = "f" * 40
    dragoman("models", "get", NAME)
    assert ours.cached(NAME).stat().st_ino != before
    assert read_bundle(ours.cached(NAME)).card["revision"] == "f" * 40
    assert dragoman("models", "remove", NAME).code == 0
    assert NAME not in dragoman("models").out
    assert "no such model" in dragoman("models", "remove", NAME).err
    assert "no such model" in dragoman("models", "remove", "../hub").err


def test_a_pickle_on_the_hub_is_read_where_there_are_no_safetensors(hub: Hub) -> None:
    import safetensors.torch
    import torch

    path = hub.root / NAME / "model.safetensors"
    torch.save(safetensors.torch.load_file(path), path.with_name("pytorch_model.bin"))
    expected = to_onnx(from_huggingface(path.parent), int8=True).weights
    path.unlink()
    found = read_bundle(ours.fetch(NAME)).weights
    assert all((found[name] == array).all() for name, array in expected.items())


def test_weights_in_several_files_are_read_together(hub: Hub) -> None:
    from safetensors.numpy import load_file, save_file

    path = hub.root / NAME / "model.safetensors"
    expected = to_onnx(from_huggingface(path.parent), int8=True).weights
    weights = load_file(path)
    names = sorted(weights)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, path.with_name(file))
        weight_map |= dict.fromkeys(part, file)
    path.with_name("model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weight_map})
    )
    path.unlink()
    found = read_bundle(ours.fetch(NAME)).weights
    assert all((found[name] == array).all() for name, array in expected.items())
    assert not any("pytorch_model.bin" in request for request in hub.asked)


def test_another_kind_of_model_is_refused_before_its_weights_are_fetched(
    hub: Hub, dragoman, tmp_path: Path
) -> None:
    config = hub.root / NAME / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "llama"}))
    answer = dragoman("translate", "--model", NAME, "eins")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"dragoman: {NAME} has a model of type 'llama'; dragoman reads marian, pegasus, m2m_100.\n"
    )
    assert not any("model.safetensors" in request for request in hub.asked)
    assert not list((tmp_path / "cache").glob("[!.]*"))


def test_a_model_that_the_hub_lacks_is_reported_in_one_line(
    hub: Hub, dragoman, tmp_path: Path
) -> None:
    for name in ("Helsinki-NLP/opus-mt-xx-yy", "nobody/nothing"):
        answer = dragoman("translate", "--model", name, "eins")
        assert (answer.code, answer.err.count("\n")) == (1, 1), answer.err
        assert f"{name} is not a local folder, and the hub did not send config.json" in answer.err
    (tmp_path / "runs").mkdir()
    asked = len(hub.asked)
    assert "no such model folder" in dragoman("translate", "--model", "runs/demo", "eins").err
    assert len(hub.asked) == asked, "a path into a folder that is here is no name of the hub"


def test_a_pickle_that_is_no_weights_file_writes_nothing(
    hub: Hub, dragoman, tmp_path: Path
) -> None:
    folder = hub.root / NAME
    (folder / "model.safetensors").unlink()
    raw = pickle.dumps(os.mkdir, protocol=2)
    (folder / "pytorch_model.bin").write_bytes(raw)
    answer = dragoman("models", "get", NAME)
    assert (answer.code, answer.err.count("\n")) == (1, 1), answer.err
    assert f"{NAME}/pytorch_model.bin cannot be read" in answer.err
    assert not list((tmp_path / "cache").glob("[!.]*"))


def test_two_concurrent_processes_make_one_bundle(hub: Hub, tmp_path: Path) -> None:
    code = f"import dragoman; print(dragoman.load({NAME!r})('eins zwei'))"
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=600)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert said[0] == said[1] != ""
    assert [path.name for path in (tmp_path / "cache").glob("[!.]*")] == [NAME.replace("/", "--")]
    weights = [r for r in hub.asked if r.startswith("GET") and "model.safetensors" in r]
    assert len(weights) == 1


def test_offline_only_fetched_models_are_found(
    hub: Hub, dragoman, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    ours.fetch(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert dragoman("translate", "--model", NAME, "eins").code == 0
    ours.remove(NAME)
    assert dragoman("translate", "--model", NAME, "eins").code == 0, "from the hub's own cache"
    answer = dragoman("translate", "--model", "nobody/nothing", "eins")
    assert (answer.code, answer.err.count("\n")) == (1, 1), answer.err
