"""The documents' commands run, their settings load, and the names that they use exist.

Every command in a `bash` block of a page runs, in its order, in a folder with small substitutes for
the files that the page talks about. An `sh` block is for commands that cannot run here, such as an
installation or a download: its options must exist. A new page needs no change here unless it needs
a new substitute.
"""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import docx
import pytest
import site_hooks
import yaml
from fastapi.testclient import TestClient

import dragoman as package
from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import make_config, variants, write_toml
from dragoman.model.build import build_model, get_weights
from dragoman.model.positions import DISTANCES
from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from tests.conftest import SHORT_SEARCH, SMALL, small_config, toy_pairs, write_corpus
from tests.forging import marian_folder

ROOT = Path(__file__).parents[2]
CONFIGS = [*sorted((ROOT / "configs").glob("*.toml")), ROOT / "pretraining/config.toml"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = [*PAGES, ROOT / "ARCHITECTURE.md"]

# Training is cut to a few steps of the small model of the fixture `trained`.
QUICK = {
    **SMALL,
    **SHORT_SEARCH,
    "training.max_steps": 2,
    "training.batch_tokens": 300,
    "training.validate_every": 0,
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)


def commands(page: Path, language: str) -> list[str]:
    """Return the commands of the blocks in this language, one per line, without comments."""
    lines = "\n".join(blocks(page, language)).replace("\\\n", " ").splitlines()
    found = [re.sub(r"\s+#.*", "", line).strip() for line in lines]
    return [line for line in found if line]


# tests/story/test_translating_documents.py runs the page on documents.
RUNNABLE = [page for page in PAGES if commands(page, "bash") and page.stem != "documents"]


@pytest.fixture
def stand_ins(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with what the pages name: corpora, models, examples, configs."""
    monkeypatch.chdir(tmp_path)
    pairs = toy_pairs(200)
    for name in ("train", "valid", "test"):
        write_corpus(tmp_path, name, pairs)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for config in CONFIGS:
        for corpus in _corpora(tomllib.loads(config.read_text())):
            for side, file in enumerate((corpus["source"], corpus["target"])):
                if not file.startswith("examples/"):
                    _write_packed(tmp_path / file, [pair[side] for pair in pairs])
    for file in (ROOT / "examples").glob("*.gz"):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            count = 20 if file.name.startswith("valid") else 300
            _write_packed(
                tmp_path / "examples" / file.name, [x.strip() for x in islice(lines, count)]
            )
    _write_packed(tmp_path / "big.de.gz", [pair[0] for pair in pairs[:20]])
    _write_packed(tmp_path / "news.en.gz", [pair[1] for pair in pairs[:20]])
    (tmp_path / "F.toml").write_text('[[data.corpora]]\nsource = "train.de"\ntarget = "train.en"\n')
    bundle = read_bundle(trained)
    for name in ("demo", "en-de"):
        write_bundle(tmp_path / "runs" / name, bundle)
    (tmp_path / "runs" / "valid.en").write_text("one\n" * 20)
    _write_post_norm(tmp_path / "runs" / "post", trained)
    marian_folder(tmp_path / "opus-mt-de-en")
    for block in blocks(ROOT / "docs/compare.md", "toml"):
        (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
    (near,) = [block for block in blocks(ROOT / "docs/variants.md", "python") if "near.py" in block]
    (tmp_path / "near.py").write_text(near, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("near", None)
    variants.POSITIONS.pop("near", None)
    DISTANCES.pop("near", None)


def _corpora(tree: Any) -> Iterator[dict[str, str]]:
    """Every table of a config that names a source and a target."""
    if isinstance(tree, dict):
        if "source" in tree and "target" in tree:
            yield tree
        for value in tree.values():
            yield from _corpora(value)
    if isinstance(tree, list):
        for value in tree:
            yield from _corpora(value)


def _write_packed(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _write_post_norm(folder: Path, trained: Path) -> None:
    """A model that Hugging Face's Marian can hold, with random weights."""
    bundle = read_bundle(trained)
    config = replace(bundle.config, model=small_config(model__norm_position="post").model)
    codec = bundle.codec
    model = build_model(config.model, codec.source, codec.target, shared=True)
    weights = {name: tensor.numpy() for name, tensor in get_weights(model).items()}
    write_bundle(folder, replace(bundle, config=config, weights=weights))


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_every_command_of_a_page_runs(page: Path, dragoman, stand_ins: Path) -> None:
    for command in commands(page, "bash"):
        words = shlex.split(command)
        if words[0] == "torchrun":  # one process here; tests/agree/test_ranks.py has several
            words = words[words.index("-m") + 1 :]
        if words[:2] == ["dragoman", "serve"]:  # runs until a signal: see tests/story/test_serve.py
            continue
        if "|" in words or ">" in words or words[0] == "cat":
            in_a_shell(command)
        elif words[0] == "dragoman":
            answer = dragoman(*shortened(words[1:]))
            assert answer.code == 0, (command, answer.err)
        else:
            CHECKS[words[0]](words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_commands_that_a_page_does_not_run_exist(page: Path, dragoman) -> None:
    for command in commands(page, "sh"):
        words = shlex.split(command)
        if words[0] != "dragoman":
            CHECKS[words[0]](words)
            continue
        shown = dragoman(*islice((w for w in words[1:] if w.isalpha()), 1), "--help").out
        for option in (word for word in words if word.startswith("--")):
            assert option in shown, command


def in_a_shell(command: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    places = {"PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, shell=True, env=os.environ | places, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (command, done.stderr)


def shortened(words: list[str]) -> list[str]:
    """A command that takes a moment: few steps, small models, few claims, a new folder."""
    if "train" in words and "--resume" in words:
        return [*words, "--set", "training.max_steps=3"]
    if "train" in words or "prepare" in words:
        shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
        settings = {**QUICK, "text.vocab_size": 400, "data.valid_size": 10}
        if "--prepared" in words:  # the prepared folder determines the text's settings
            settings = QUICK
        words = [*words, *(f"--set={name}={value}" for name, value in settings.items())]
        return words if "prepare" in words else [*words, "--device", "cpu"]
    if "--workers" in words:  # Ray takes seconds to start: tests/story/test_bulk.py
        at = words.index("--workers")
        return [*words[:at], *words[at + 2 :]]
    if "--systems" in words:
        words = [_small_system(word) if word.endswith(".toml") else word for word in words]
        return [*words, "--flops", "1e6", "--seeds", "1", "--jobs", "1", "--device", "cpu"]
    if words[0] == "compare":
        return [*words, "--quick", "--claims", "C3"]
    return words


def _small_system(file: str) -> str:
    """A settings file of the same name with a small model that says little."""
    small = {
        **SMALL,
        "text.vocab_size": 400,
        "decoding.beam_size": 1,
        "decoding.max_length_extra": 5,
    }
    path = Path("small") / Path(file).name
    path.parent.mkdir(exist_ok=True)
    path.write_text(write_toml(make_config(file=file, settings=small)), encoding="utf-8")
    return str(path)


def is_an_installation(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert words[1] == "install"
    for extras in re.findall(r"\[(.*?)\]", words[2]):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()


def is_a_target(words: list[str]) -> None:
    assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M), words


def is_a_script(words: list[str]) -> None:
    name = f"{words[2].replace('.', '/')}.py" if words[1] == "-m" else words[1]
    assert (ROOT / name).exists(), words


def is_answered(words: list[str]) -> None:
    """A request with curl, sent to the service in this process."""
    address, body = words[1], words[words.index("--json") + 1]
    with TestClient(create_app(Service(["runs/demo"], device="cpu"))) as client:
        route = address.removeprefix("http://127.0.0.1:8000")
        assert client.post(route, json=json.loads(body)).status_code == 200


CHECKS = {
    "pip": is_an_installation, "make": is_a_target, "python": is_a_script, "curl": is_answered,
}  # fmt: skip


@pytest.mark.parametrize("name", ["README.md", "docs/translate.md", "docs/python.md"])
def test_the_python_on_a_page_runs(name: str, stand_ins: Path, monkeypatch) -> None:
    real = package.train

    def train(*files: str, **options: Any) -> Any:
        settings = {**QUICK, "text.vocab_size": 400, **options.pop("settings", {})}
        return real(*files, **options, settings=settings, device="cpu")

    monkeypatch.setattr(package, "train", train)
    known: dict[str, Any] = {}  # a block uses the results of earlier ones
    for block in blocks(ROOT / name, "python"):
        exec(block, known)


def test_the_readmes_session_is_what_the_commands_print(dragoman, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = docx.Document()
    report.add_paragraph("Good morning!")
    report.save("report.docx")
    Path("terms.tsv").write_text("station\tHauptbahnhof\n", encoding="utf-8")
    (session,) = blocks(ROOT / "README.md", "console")
    for command, shown in re.findall(r"^\$ dragoman (.*)\n((?:[^$].*\n)*)", session, flags=re.M):
        assert dragoman(*shlex.split(command)).out == shown, command


def test_the_readme_is_one_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 100


def test_a_variant_of_your_own_is_a_few_lines_and_learns(dragoman, stand_ins: Path) -> None:
    code = (stand_ins / "near.py").read_text(encoding="utf-8")
    assert len(code.strip().splitlines()) <= 20
    refused = dragoman("--plugin", "far", "info").err
    assert refused.startswith("dragoman: --plugin far: no such module")
    (command,) = [c for c in commands(ROOT / "docs/variants.md", "bash") if "near train" in c]
    assert dragoman(*shortened(shlex.split(command)[1:])).code == 0
    assert "attention.distances.loss" in " ".join(read_bundle("runs/near").weights)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_loads_and_names_its_command(path: Path) -> None:
    make_config(file=path)
    header = path.read_text().split("\n\n[")[0]
    assert "dragoman train" in header
    assert f"{path.parent.name}/{path.name}" in header


def test_every_commands_help_shows_an_example_that_names_it(dragoman) -> None:
    converters = [
        f"convert {name}"
        for name in ("to-onnx", "to-ctranslate2", "to-huggingface", "from-huggingface")
    ]
    converters += [f"convert from-{system}" for system in ("ctranslate2", "argos", "marian")]
    converters += ["models list", "models get", "models remove"]
    making = ["train", "prepare", "synthesize", "adapt", "extend"]
    using = ["translate", "attend", "explain", "serve", "score", "embed", "tokenize"]
    for command in (*making, *using, "evaluate", "check", "compare", "info", *converters):
        shown = dragoman(*command.split(), "--help").out
        assert re.search(rf"Example:\s+dragoman {command}", " ".join(shown.split())), shown


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda page: page.stem)
def test_links_and_code_that_a_document_names_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", text):
        assert (document.parent / target).exists(), target
    for file, name in re.findall(r"`((?:dragoman|tests|tools)/[\w/]+\.py)(?:::([\w.]+))?`", text):
        assert (ROOT / file).exists(), file
        if name:
            site_hooks.source_of((ROOT / file).read_text(encoding="utf-8"), name)


def test_every_page_is_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    shown = set(re.findall(r"[\w-]+\.md", str(nav)))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    pages |= {lesson.stem + ".md" for lesson in (ROOT / "docs/lessons").glob("*.ipynb")}
    assert shown == pages | set(site_hooks.FROM_ROOT.values())


def test_the_lectures_have_a_picture_for_every_file_and_a_file_for_every_picture() -> None:
    named = set(re.findall(r"lectures/([\w-]+)\.svg", (ROOT / "docs/lectures.md").read_text()))
    files = {path.stem for path in (ROOT / "docs/assets/lectures").glob("*.svg")}
    drawn = re.findall(
        r'^        "([\w-]+)": \w+\(\),', (ROOT / "tools/pictures.py").read_text(), re.M
    )
    assert named == files == set(drawn)


def test_deployment_files_use_existing_options(dragoman) -> None:
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


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_understands_the_unit(tmp_path) -> None:
    unit = (ROOT / "deploy" / "dragoman.service").read_text()
    path = tmp_path / "dragoman.service"
    path.write_text(unit.replace("/opt/dragoman/bin/dragoman", shutil.which("true")))
    verified = subprocess.run(
        ["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60
    )
    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_compose_file_mounts_models_and_builds_our_image() -> None:
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["dragoman"]
    dockerfile = ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]
    assert dockerfile.resolve() == ROOT / "deploy" / "Dockerfile"
    assert service["volumes"] == ["models:/models:ro"]
    assert service["read_only"] is True
    assert service["command"] == "--allow-host dragoman"  # what other containers call it


def test_every_test_that_the_clients_page_names_is_there() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for page in ("clients.md", "recipes.md"):
        named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text())
        assert len(named) >= 3
        for name in named:
            assert f"def {name}(" in tests, name


def test_versions_on_the_clients_page_match_what_make_installs() -> None:
    """`constraints.txt` and the Makefile pin what the tests run with."""
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    makefile = (ROOT / "Makefile").read_text()
    pinned |= dict(re.findall(r"(\S+?)[=@]=?([\d.]+\d)(?=\s)", makefile))
    shown: dict[str, str] = {}
    for page in ("clients.md", "recipes.md"):
        rows = re.findall(
            r"^\|[^|]*?`([@\w/-]+)[^|]*\| ([\d.]+\d)[, |]", (ROOT / "docs" / page).read_text(), re.M
        )
        shown |= dict(rows)
    by_hand = {"pymarian", "@browsermt/bergamot-translator"}  # too large, or not needed twice
    assert len(shown) >= 14
    for name, version in shown.items():
        if name not in by_hand:
            assert pinned.get(name) == version, name
