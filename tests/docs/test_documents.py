"""What the documents say runs, loads and exists."""

import json
import re
import shlex
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dragoman import variants
from dragoman.bundle import read_bundle
from dragoman.config import make_config
from dragoman.model.distances import DISTANCES
from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from tests.conftest import SMALL, toy_pairs, write_corpus

ROOT = Path(__file__).parents[2]
CONFIGS = [*sorted((ROOT / "configs").glob("*.toml")), ROOT / "pretraining/config.toml"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_loads_and_names_its_command(path: Path) -> None:
    make_config(file=path)
    header = path.read_text().split("\n\n[")[0]
    assert "dragoman train" in header
    assert f"{path.parent.name}/{path.name}" in header


def test_the_guides_own_variant_trains_and_translates(dragoman, tmp_path, monkeypatch) -> None:
    """The module as it stands there, in an empty folder, by the commands that stand below it."""
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    code, commands = re.search(
        r"```python\n# near.py\n(.*?)```\n\n```sh\n(.*?)```", guide, flags=re.S
    ).groups()
    assert len(code.strip().splitlines()) <= 19
    (tmp_path / "near.py").write_text(code, encoding="utf-8")
    for path in write_corpus(tmp_path, "train", toy_pairs(200)):
        assert path.name in commands
    monkeypatch.chdir(tmp_path)
    assert dragoman("--plugin", "far", "info").err.startswith(
        "dragoman: --plugin far: there is no such module here"
    )
    quick = [f"--set={name}={value}" for name, value in SMALL.items()]
    quick += [
        "--preset",
        "tiny",
        "--set=text.size=400",
        "--set=training.max_steps=2",
        "--set=training.batch_tokens=300",
    ]
    try:
        for command in commands.strip().splitlines():
            words = shlex.split(command)[1:]
            answer = dragoman(*words, *(quick if "train" in words else ()), "--device", "cpu")
            assert answer.code == 0, (command, answer.err)
        assert "attention.distances.loss" in " ".join(
            read_bundle(tmp_path / "runs" / "near").weights
        )
    finally:
        variants.POSITIONS.pop("near", None)
        DISTANCES.pop("near", None)


def readme_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith("dragoman ")]


def test_the_readmes_commands_run(dragoman, trained, tmp_path, monkeypatch) -> None:
    """In their order, in an empty folder; training is cut to a few steps, figures that need a GPU
    are left out."""
    monkeypatch.chdir(tmp_path)
    for name in ("examples", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    ran = 0
    for command in readme_commands():
        words = shlex.split(command)[1:]
        if "multi30k" in command:  # a corpus that cannot come with the project
            continue
        if words[0] == "serve":  # runs until it is told to end: tests/story/test_serve.py
            continue
        if words[0] == "train":
            words += [
                "--device",
                "cpu",
                "--set",
                "training.max_steps=3",
                "--set",
                "training.batch_tokens=300",
            ]
            words += ["--set", "training.validate_every=0"]
        answer = dragoman(*words)
        assert answer.code == 0, (command, answer.err)
        ran += 1
    assert ran >= 5


def test_every_commands_help_shows_an_example_that_names_it(dragoman) -> None:
    converters = [
        f"convert {name}"
        for name in ("to-onnx", "to-ctranslate2", "to-huggingface", "from-huggingface")
    ]
    making = ["train", "prepare", "synthesize"]
    using = ["translate", "attend", "serve", "score", "embed", "tokenize"]
    for command in (*making, *using, "evaluate", "check", "compare", "info", *converters):
        shown = dragoman(*command.split(), "--help").out
        assert re.search(rf"Example:\s+dragoman {command}", " ".join(shown.split())), shown


def test_links_and_code_named_in_documents_exist() -> None:
    for document in [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]:
        text = document.read_text()
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", text):
            assert (document.parent / target).exists(), (document.name, target)
        for file, name in re.findall(r"`((?:dragoman|tests)/[\w/]+\.py)(?:::(\w+))?`", text):
            assert (ROOT / file).exists(), (document.name, file)
            assert not name or re.search(
                rf"(def|class) {name}\b|^{name}\b", (ROOT / file).read_text(), re.M
            ), (
                file,
                name,
            )


def test_what_is_deployed_uses_options_that_exist(dragoman) -> None:
    known = set(re.findall(r"--[a-z][a-z-]+", dragoman("serve", "--help").out))
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", dockerfile, re.M)[1])
    unit = (ROOT / "deploy" / "dragoman.service").read_text()
    arguments = re.search(r"ARGUMENTS=(.*)$", unit, re.M)[1].split()
    used = {word for word in [*entry, *arguments] if word.startswith("--")}
    operate = (ROOT / "docs" / "operate.md").read_text()
    used |= set(re.findall(r"`(--[a-z-]+)", operate))
    assert entry[:2] == ["dragoman", "serve"]
    assert len(used) > 6
    assert used <= known


def test_every_figure_of_the_service_is_described(trained) -> None:
    operate = (ROOT / "docs" / "operate.md").read_text()
    with TestClient(create_app(Service([str(trained)], device="cpu"))) as client:
        names = re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.M)
    assert len(names) > 5
    for name in names:
        assert name in operate, name
