"""`train --watch`: what the page gets, and that nobody's training is the worse for it."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dragoman.config import Corpus
from dragoman.errors import ConfigError
from dragoman.training import run as running
from dragoman.training.run import train
from dragoman.training.watch import SHOWN, Watch
from tests.conftest import SHORT_SEARCH, SMALL, toy_pairs, write_corpus

SETTINGS = {
    **SMALL, **SHORT_SEARCH,
    "text.vocab_size": 400, "training.batch_tokens": 300, "training.max_steps": 12,
    "training.validate_every": 4, "training.log_every": 2, "data.valid_size": 20,
    "model.dropout": 0.1, "model.attention_dropout": 0.1,
}  # fmt: skip


def ask(address: str, host: str | None = None) -> bytes:
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Corpus, ...]:
    files = write_corpus(tmp_path_factory.mktemp("watched"), "train", toy_pairs(600))
    return (Corpus(*map(str, files)),)


def run(folder: Path, corpus: tuple[Corpus, ...], watch: bool) -> bytes:
    outcome = train(
        folder, corpora=corpus, preset="tiny", settings=SETTINGS, device="cpu", watch=watch
    )
    assert outcome.finished
    return (folder / "model.safetensors").read_bytes()


def test_a_watched_run_ends_in_the_same_bits_and_tells_its_course(
    corpus, tmp_path, monkeypatch
) -> None:
    answers: dict[str, bytes] = {}

    class Asked(Watch):
        """Asks its own page, over the network, before it closes."""

        def __exit__(self, *error: object) -> None:
            for name in ("", "log", "looks", "watch.js", "base.css"):
                answers[name] = ask(self.address + name)
            for name, host in (("run.toml", None), ("log", "evil.example"), ("../log", None)):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    ask(self.address + name, host)
                assert refused.value.code in (403, 404)
            super().__exit__(*error)

    monkeypatch.setattr(running, "Watch", Asked)
    assert run(tmp_path / "watched", corpus, True) == run(tmp_path / "alone", corpus, False)
    log = [json.loads(line) for line in answers["log"].splitlines()]
    assert {entry["kind"] for entry in log} == {"train", "valid"}
    assert b"watch.js" in answers[""]
    told = json.loads(answers["looks"])
    assert told["lastStep"] == 12
    assert [look["step"] for look in told["looks"]] == [0, 4, 8, 12]
    texts = [[s["source"] for s in look["sentences"]] for look in told["looks"]]
    assert len(texts[0]) == len(set(texts[0])) == SHOWN
    assert all(again == texts[0] for again in texts)
    seen = told["looks"][-1]["sentences"][0]["attention"]
    assert seen["rows"][-1] == seen["columns"][-1] == "</s>"
    maps = {look["sentences"][0]["attention"]["weights"] for look in told["looks"]}
    assert len(maps) == 4  # the weights move


def test_its_page_asks_nothing_of_another_machine() -> None:
    folder = Path(running.__file__).parent / "page"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file


def test_a_model_that_takes_no_steps_cannot_be_watched(corpus, tmp_path) -> None:
    with pytest.raises(ConfigError, match="leave out --watch"):
        train(
            tmp_path / "run", corpora=corpus, watch=True, device="cpu",
            settings={"model.architecture": "lexical", "text.vocab_size": 400},
        )  # fmt: skip
