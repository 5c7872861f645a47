"""`dragoman serve` and `dragoman attend` as people run them."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import NUMBERS


@contextmanager
def serving(model, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service in a process of its own, and where it listens."""
    command = [
        sys.executable,
        "-m",
        "dragoman",
        "serve",
        "--model",
        str(model),
        "--port",
        "0",
        "--device",
        "cpu",
    ]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, re.search(r"http://\S+", process.stderr.readline())[0]
        finally:
            process.kill()


def post(address: str, question: dict) -> dict:
    asked = urllib.request.Request(
        address, json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=600) as answer:
        return json.load(answer)


def lines_waiting(address: str) -> int:
    with urllib.request.urlopen(f"{address}metrics", timeout=600) as answer:
        return int(re.search(r"^dragoman_queue_lines (\d+)", answer.read().decode(), re.M)[1])


def test_a_service_that_gets_a_signal_finishes_accepted_requests(trained) -> None:
    texts = [" ".join(list(NUMBERS) * 4) for _ in range(12)]
    with serving(trained) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert (
            post(f"{address}v1/translate", {"text": "eins zwei"})["translations"][0]["text"]
            == "one two"
        )
        found: list[dict] = []
        asking = threading.Thread(
            target=lambda: found.append(post(f"{address}v1/translate", {"text": texts, "beam": 16}))
        )
        asking.start()
        while asking.is_alive() and not lines_waiting(address):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        asking.join(600)
        assert len(found[0]["translations"]) == len(texts)
        assert process.wait(600) == 0


def test_a_model_is_read_again_without_a_lost_request(trained, tmp_path) -> None:
    for name in ("first", "second"):
        shutil.copytree(trained, tmp_path / name)
    current = tmp_path / "current"
    current.symlink_to("first")
    answers: list[dict] = []
    failures: list[Exception] = []
    many = [" ".join(list(NUMBERS) * 4) for _ in range(12)]

    def ask(address: str, question: dict) -> dict:
        try:
            answers.append(post(f"{address}v1/translate", question)["translations"])
        except Exception as error:
            failures.append(error)
        return answers[-1][0]

    with serving(current) as (process, address):
        assert ask(address, {"text": "eins zwei"})["model"] == "first"
        long = threading.Thread(target=ask, args=(address, {"text": many, "beam": 16}))
        long.start()
        while long.is_alive() and not lines_waiting(address):
            time.sleep(0.01)
        current.unlink()
        current.symlink_to("second")
        process.send_signal(signal.SIGHUP)
        while not failures and ask(address, {"text": "eins zwei"})["model"] != "second":
            pass
        long.join(600)
        assert not failures
        assert any(len(translations) == len(many) for translations in answers)
        texts = {translations[0]["text"] for translations in answers if len(translations) == 1}
        assert texts == {"one two"}
        assert "read again" in process.stderr.readline()
        current.unlink()
        process.send_signal(signal.SIGHUP)
        assert "were not replaced" in process.stderr.readline()
        assert ask(address, {"text": "eins zwei"})["model"] == "second"


def test_keys_and_a_folder_of_models_are_read_again(trained_onnx, tmp_path) -> None:
    models, keys = tmp_path / "models", tmp_path / "keys.toml"
    shutil.copytree(trained_onnx, models / "first")
    keys.write_text('[alice]\nsecret = "old"\n')

    def names(address: str, key: str) -> list[str] | int:
        asked = urllib.request.Request(f"{address}v1/models", headers={"X-API-Key": key})
        try:
            with urllib.request.urlopen(asked, timeout=600) as answer:
                return [model["name"] for model in json.load(answer)["models"]]
        except urllib.error.HTTPError as error:
            return error.code

    with serving(models, "--keys", str(keys)) as (process, address):
        assert names(address, "old") == ["first"]
        shutil.copytree(trained_onnx, models / "second")
        keys.write_text('[bob]\nsecret = "new"\n')
        process.send_signal(signal.SIGHUP)
        assert "read again" in process.stderr.readline()
        assert names(address, "new") == ["first", "second"]
        assert names(address, "old") == 401
        for wrong in ("", "[bob]\nsecret = 3\n"):  # no key would mean access for all
            keys.write_text(wrong)
            process.send_signal(signal.SIGHUP)
            assert "were not replaced" in process.stderr.readline()
            assert names(address, "new") == ["first", "second"]
            assert names(address, "") == 401


def test_systemd_hears_when_the_service_listens_and_when_it_stops(
    trained_onnx, tmp_path, monkeypatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(120)
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with serving(trained_onnx) as (process, address):
            assert manager.recv(1000) == b"READY=1"
            assert post(f"{address}v1/translate", {"text": "eins"})["translations"]
            process.send_signal(signal.SIGHUP)
            assert manager.recv(1000) == b"STATUS=models and keys were read again."
            process.send_signal(signal.SIGTERM)
            assert manager.recv(1000) == b"STOPPING=1"
            assert process.wait(600) == 0


def test_mistakes_of_serve_are_one_line(dragoman, trained, tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = dragoman("serve", "--model", trained, "--port", taken.getsockname()[1])
    assert answer.code == 1
    assert "choose another --port" in answer.err
    elsewhere = dragoman("serve", "--model", trained, "--port", 0, "--host", "192.0.2.1").err
    assert "choose another --host" in elsewhere
    (tmp_path / "keys.toml").write_text("# none yet\n")
    nobody = dragoman("serve", "--model", trained, "--port", 0, "--keys", tmp_path / "keys.toml")
    assert "keys.toml has no key" in nobody.err
    assert dragoman("serve", "--model", "nowhere", "--port", 0).err.startswith("dragoman: nowhere")


def test_attend_writes_a_page_and_figures(dragoman, trained, tmp_path) -> None:
    page, svg, png = tmp_path / "sub" / "a.html", tmp_path / "a.svg", tmp_path / "a.png"
    answer = dragoman(
        "attend", "eins zwei", "--model", trained, "--out", page, "--svg", svg, "--png", png
    )
    assert answer.out == "one two\n"
    assert page.read_text().startswith("<!doctype html>")
    assert svg.read_text().startswith("<svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    one = dragoman(
        "attend",
        "eins",
        "--model",
        trained,
        "--svg",
        svg,
        "--attention",
        "encoder",
        "--layer",
        1,
        "--head",
        2,
    )
    assert one.code == 0
    assert "layer 1, head 2" in svg.read_text()
    assert "layer 1, head 1" not in svg.read_text()
    assert "nothing to write" in dragoman("attend", "eins", "--model", trained).err
    assert (
        "from 1 to 2"
        in dragoman("attend", "eins", "--model", trained, "--svg", svg, "--layer", 7).err
    )
