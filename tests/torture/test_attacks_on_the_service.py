"""Hostile requests to the service, and their effect on other clients.

Waits are bounded by `HANG`, which only a service that hangs reaches.
"""

import asyncio
import contextlib
import gzip
import itertools
import json
import random
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import dragoman
from dragoman.decode.searcher import Searcher
from dragoman.errors import ConfigError
from dragoman.serve import pages
from dragoman.serve.app import create_app
from dragoman.serve.batcher import BusyError, StoppingError
from dragoman.serve.connection import ConnectionLimits
from dragoman.serve.server import Server, listen
from dragoman.serve.service import Limits, Service
from dragoman.text.glossary import Glossary
from dragoman.text.segments import split_sentences
from tests.conftest import NUMBERS
from tests.serving import (
    have_few_files,
    have_too_few_files,
    process,
    running,
    search_once_and_then_without_end,
    search_that_is_stuck,
    search_without_end,
)

HANG = 300.0
SWELLING = "\ufdfa" * 5000  # 15 kB that normalisation turns into 90,000 characters
DIGITS = "".join(random.Random(1).choices("0123456789", k=5000))
QUICK = ConnectionLimits(receive_s=0.4, idle_s=0.4, send_s=0.4)
EXAMPLES = Path(__file__).parents[2] / "examples" / "valid.de.gz"


def wait_until(true) -> None:
    latest = time.monotonic() + HANG
    while not true():
        assert time.monotonic() < latest, "the service hangs"
        time.sleep(0.01)


def connect(address: str, source: str = "127.0.0.1") -> socket.socket:
    port = int(address.rpartition(":")[2].strip("/"))
    return socket.create_connection(("127.0.0.1", port), timeout=HANG, source_address=(source, 0))


def post(path: str, question: dict) -> bytes:
    body = json.dumps(question).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def heard(connection: socket.socket) -> bytes:
    """All that comes until the service closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65_536):
            said += more
    return said


def get(address: str, path: str = "/healthz", source: str = "127.0.0.1") -> int:
    """The status of an answer."""
    with connect(address, source) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        return int(heard(connection).split(b" ", 2)[1])


class Endless:
    """Replaces a translator's search by endless steps, which only the hook ends."""

    def __init__(self) -> None:
        self.steps = 0

    def work(self, query):
        return 1

    def batched(self, queries, at_once):
        return [range(len(queries))]

    def __call__(self, queries, on_step, at_once):
        while True:
            on_step()
            self.steps += 1
            time.sleep(0.001)


@pytest.fixture
def service(trained) -> Service:
    return Service([str(trained)], device="cpu")


@pytest.fixture
def endless(service, monkeypatch) -> Endless:
    search = Endless()
    monkeypatch.setattr(service.models.models[0].translator, "searcher", search)
    return search


# Work


@pytest.mark.parametrize(
    "question",
    [
        {"text": SWELLING, "source": "de"},
        {"text": DIGITS, "source": "de", "beam": 16, "nbest": 10},
    ],
    ids=["swelling", "wide"],
)
def test_too_much_work_is_refused_before_any_of_it_is_done(service, monkeypatch, question) -> None:
    asked = []
    monkeypatch.setattr(Searcher, "__call__", lambda *_: asked.append(1))
    with TestClient(create_app(service)) as client:
        answer = client.post("/v1/translate", json=question)
        assert answer.status_code == 413
        assert re.search(r"[\d,]+ positions .* 150,000 are allowed", answer.json()["error"])
        assert "\n" not in answer.json()["error"]
        libre = client.post("/translate", json={"q": SWELLING, "source": "de", "target": "en"})
        assert libre.status_code == 413
    assert asked == []


def test_a_text_that_swells_is_refused_without_being_split(service, monkeypatch) -> None:
    """Splitting it would take seconds."""
    pipeline = service.models.models[0].translator.pipeline
    monkeypatch.setattr(pipeline, "splitter", lambda *_: pytest.fail("it was split"))
    with TestClient(create_app(service)) as client:
        question = {"text": SWELLING, "source": "de"}
        assert client.post("/v1/translate", json=question).status_code == 413


def test_the_packaged_model_takes_ordinary_texts_of_the_largest_size_and_not_the_attacks(
    monkeypatch,
) -> None:
    service = Service(dragoman.bundle.folder.bundled_models())
    with gzip.open(EXAMPLES, "rt", encoding="utf-8") as file:
        prose = file.read()[:5000]

    def work(text: str, beam: int | None = None, nbest: int = 1) -> int:
        """The work of the first searches, which are not begun."""
        works: list[int] = []

        async def search(searcher, queries, client):
            works.append(sum(map(searcher.work, queries)))
            raise StoppingError

        monkeypatch.setattr(service.batcher, "search", search)
        with contextlib.suppress(StoppingError):
            asyncio.run(service.translate([text], "de", "en", beam=beam, nbest=nbest))
        return works[0]

    assert work(prose) < service.limits.max_work / 3
    assert work(prose.replace("\n", " ")) < service.limits.max_work / 3
    assert work("Hund\n" * 1000) < service.limits.max_work
    assert work(DIGITS) < service.limits.max_work
    # Repeated pieces are searched for once, so the attack must not repeat itself.
    draw = random.Random(1)
    faces = "".join(draw.choices([chr(0x1F600 + i) for i in range(64)], k=5000))
    for attack in ((SWELLING,), (DIGITS, 16, 10), (faces,)):
        with pytest.raises(Exception, match="are allowed"):
            work(*attack)


ALIKE = [(f"Worte{i:05}", "word") for i in range(1000)]


def test_terms_that_begin_alike_are_refused_before_they_are_compared(service, monkeypatch) -> None:
    """Each word of the text would be compared with each term: ten seconds for 5,000 characters."""
    monkeypatch.setattr(Glossary, "demands", None)
    question = {"text": "Wortez " * 700, "source": "de", "target": "en", "glossary": ALIKE}
    with TestClient(create_app(service)) as client:
        refused = client.post("/v1/translate", json=question)
        assert (refused.status_code, "begin like" in refused.json()["error"]) == (413, True)
        terms = "".join(f"{source}\t{target}\n" for source, target in ALIKE * 15)
        form = {"source": "de", "target": "en", "glossary": terms}
        file = {"file": ("a.txt", "Wortez " * 700)}
        job = client.post("/v1/documents", data=form, files=file).json()
        wait_until(lambda: "error" in client.get(f"/v1/documents/{job['id']}").json())
        assert "begin like" in client.get(f"/v1/documents/{job['id']}").json()["error"]


def test_texts_are_read_outside_the_event_loop(service, monkeypatch) -> None:
    threads: set[str] = set()

    def noted(*arguments):
        threads.add(threading.current_thread().name)
        return split_sentences(*arguments)

    monkeypatch.setattr("dragoman.serve.service.split_sentences", noted)
    with TestClient(create_app(service)) as client:
        for text, terms in (("eins", []), ("zwei " * 100, []), ("drei", ALIKE)):
            question = {"text": text, "source": "de", "target": "en", "glossary": terms}
            assert client.post("/v1/translate", json=question).status_code == 200
    assert {name.partition("_")[0] for name in threads} == {"text"}


def test_attention_to_a_text_that_swells_is_refused(service) -> None:
    with TestClient(create_app(service)) as client:
        answer = client.post("/v1/attention", json={"text": "eins", "translation": SWELLING[:2000]})
        assert answer.status_code == 413
        assert "attention weights" in answer.json()["error"]


def test_a_text_of_blanks_or_of_list_numbers_is_split_quickly(service, monkeypatch) -> None:
    """Both took time that grows with the square of their length: this one would take minutes."""
    for text in ("a" + " " * 200_000, "1. " * 60_000):
        done = threading.Thread(target=split_sentences, args=[text], daemon=True)
        done.start()
        done.join(HANG)
        assert not done.is_alive()


# Waiting


def test_a_request_that_timed_out_is_ended_inside_the_search(trained, monkeypatch) -> None:
    service = Service([str(trained)], Limits(time_limit_s=1.0), device="cpu")
    translator = service.models.models[0].translator
    translator("eins")  # the first one takes longer
    search = Endless()
    monkeypatch.setattr(translator, "searcher", search)
    with TestClient(create_app(service)) as client:
        assert client.post("/v1/translate", json={"text": "eins"}).status_code == 504
        wait_until(lambda: service.batcher.abandoned == 1)
        steps = search.steps
        monkeypatch.undo()
        assert client.post("/v1/translate", json={"text": "eins"}).status_code == 200
    assert search.steps == steps > 0


def test_a_client_that_leaves_is_not_worked_for_any_more(service, endless) -> None:
    with running(service) as address:
        with connect(address) as connection:
            connection.sendall(post("/v1/translate", {"text": "eins"}))
            wait_until(lambda: endless.steps)
        wait_until(lambda: service.batcher.abandoned == 1)
        assert service.batcher.waiting == 0
        assert get(address, "/metrics") == 200
        wait_until(lambda: ("/v1/translate", 499) in service.metrics.requests)


def test_a_client_that_leaves_with_several_requests_is_not_worked_for_either(
    service, endless, capfd
) -> None:
    with running(service) as address:
        with connect(address) as connection:
            connection.sendall(post("/v1/translate", {"text": "eins"}) * 3)
            wait_until(lambda: endless.steps)
        wait_until(lambda: service.batcher.abandoned == 1)
        wait_until(lambda: service.batcher.waiting == 0)
    assert capfd.readouterr().err == ""


STREAM = {
    "model": "dragoman-de-en",
    "stream": True,
    "messages": [{"role": "user", "content": "\n".join([*NUMBERS] * 5)}],
}


@pytest.fixture
def stream(service, monkeypatch) -> Iterator[tuple[str, socket.socket]]:
    """A service, and the connection of a stream whose first piece has come, and no other will."""
    search, endless = service.models.models[0].translator.searcher, Endless()

    def first_only(queries, on_step, at_once):
        monkeypatch.setattr(service.models.models[0].translator, "searcher", endless)
        return search(queries, on_step, at_once=at_once)

    first_only.work, first_only.batched = search.work, search.batched
    monkeypatch.setattr(service.models.models[0].translator, "searcher", first_only)
    with running(service) as address, connect(address) as connection:
        connection.sendall(post("/v1/chat/completions", STREAM))
        said = b""
        while b"zero" not in said:
            said += connection.recv(65_536)
        wait_until(lambda: endless.steps)
        yield address, connection


def test_a_stream_whose_client_left_ends(service, stream, capfd) -> None:
    _, connection = stream
    connection.close()
    wait_until(lambda: service.batcher.abandoned == 1)
    wait_until(lambda: ("/v1/chat/completions", 499) in service.metrics.requests)
    assert service.batcher.waiting == 0
    assert capfd.readouterr().err == ""


def test_a_signal_ends_streams_and_they_say_so(trained, tmp_path) -> None:
    """Long before the grace period does."""
    first = search_once_and_then_without_end
    with (
        process(tmp_path, trained, "--grace", "86400", "--time-limit", "86400", first=first) as (
            started,
            address,
        ),
        connect(address) as connection,
    ):
        connection.sendall(post("/v1/chat/completions", STREAM))
        said = b""
        while b"zero" not in said:
            said += connection.recv(65_536)
        started.send(signal.SIGTERM)
        said = heard(connection)
        assert b"the service is stopping" in said
        assert b"[DONE]" not in said
        answer = started.answer()
        assert answer.code == 0
        assert answer.err.count("\n") == 1  # where it served, and nothing else


def test_a_service_that_stops_answers_what_was_sent_and_ends_streams(trained, tmp_path) -> None:
    """It sleeps while the requests and the signal come, so that it finds all of them open. The
    cache has the first piece of each stream but one; the engine comes to no other end."""
    first = search_once_and_then_without_end
    options = ["--grace", "86400", "--time-limit", "86400", "--cache", "10"]
    question = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        process(tmp_path, trained, *options, first=first) as (started, address),
        contextlib.ExitStack() as opened,
    ):

        def connected(count: int) -> list[socket.socket]:
            return [opened.enter_context(connect(address)) for _ in range(count)]

        streams = []
        for _ in range(20):
            streams += connected(1)
            streams[-1].sendall(post("/v1/chat/completions", STREAM))
            said = b""
            while b"zero" not in said:
                said += streams[-1].recv(65_536)
        asking = connected(10)
        for connection in asking:
            connection.sendall(question)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        silent = connected(1)
        started.send(signal.SIGSTOP)
        asking += [opened.enter_context(connect(address, "127.0.0.2")) for _ in range(80)]
        for connection in asking:
            connection.sendall(question)
        started.send(signal.SIGTERM)
        started.send(signal.SIGCONT)
        for connection in asking:
            answer = heard(connection)
            assert b"HTTP/1.1 200 " in answer or b"HTTP/1.1 503 " in answer
        for connection in streams:
            assert b"the service is stopping" in heard(connection)
        assert b"the service is stopping" in heard(*silent)
        answer = started.answer()
        assert answer.code == 0
        assert "did not stop" not in answer.err


def test_a_stream_that_takes_too_long_says_so(trained, capfd) -> None:
    service = Service([str(trained)], Limits(time_limit_s=3.0), device="cpu")
    translator = service.models.models[0].translator
    translator("eins")
    search, endless = translator.searcher, Endless()

    def first_only(queries, on_step, at_once):
        translator.searcher = endless
        return search(queries, on_step, at_once=at_once)

    first_only.work, first_only.batched = search.work, search.batched
    translator.searcher = first_only
    with running(service) as address, connect(address) as connection:
        connection.sendall(post("/v1/chat/completions", STREAM))
        assert b"this took too long" in heard_to_the_end_of_a_stream(connection)
    assert capfd.readouterr().err == ""


def test_a_stream_that_fails_under_way_says_why(service, monkeypatch, capfd) -> None:
    refusing = itertools.count()
    admit = service.batcher.admit

    def full(client, lines):
        if next(refusing) > 1:
            raise BusyError(7)
        admit(client, lines)

    monkeypatch.setattr(service.batcher, "admit", full)
    with running(service) as address, connect(address) as connection:
        connection.sendall(post("/v1/chat/completions", STREAM))
        assert b"try again in 7 s" in heard_to_the_end_of_a_stream(connection)
    assert capfd.readouterr().err == ""


def heard_to_the_end_of_a_stream(connection: socket.socket) -> bytes:
    said = b""
    while b"\r\n0\r\n\r\n" not in said:
        more = connection.recv(65_536)
        assert more, said
        said += more
    return said


def test_attention_is_ended_inside_the_search_too(service, monkeypatch) -> None:
    steps = []

    def inspect(translator, text, translation, request):
        while True:
            request.on_step()
            steps.append(1)
            time.sleep(0.001)

    monkeypatch.setattr("dragoman.lab.explain.routes.inspect_sentence", inspect)
    with running(service) as address:
        with connect(address) as connection:
            connection.sendall(post("/v1/attention", {"text": "eins"}))
            wait_until(lambda: steps)
        wait_until(lambda: service.batcher.abandoned == 1)


def test_others_overtake_a_request_with_much_work(service, monkeypatch) -> None:
    translator = service.models.models[0].translator
    search, slices = translator.searcher, []
    free = threading.Event()
    short = translator.codec.encode_source(["eins zwei"])[0]

    def slow(queries, on_step, at_once):
        slices.append([query.ids for query in queries])
        assert free.wait(HANG)
        return search(queries, on_step, at_once=at_once)

    slow.work, slow.batched = search.work, search.batched
    monkeypatch.setattr(translator, "searcher", slow)
    service.batcher.slice_work = 2000
    with (
        running(service) as address,
        connect(address) as greedy,
        connect(address, "127.0.0.2") as modest,
    ):
        different = itertools.islice(itertools.permutations(NUMBERS, 3), 300)
        greedy.sendall(post("/v1/translate", {"text": "\n".join(map(" ".join, different))}))
        wait_until(lambda: slices)
        modest.sendall(post("/v1/translate", {"text": "eins zwei"}))
        wait_until(lambda: len(service.batcher._lines) == 2)
        free.set()
        assert b"one two" in modest.recv(65_536)
        assert short in slices[1]
        assert service.batcher.waiting > 200  # most of the other request is still to come


def test_readiness_tells_what_liveness_does_not(trained, monkeypatch) -> None:
    service = Service([str(trained)], Limits(stuck_after_s=0.1), device="cpu")
    stuck = threading.Event()
    monkeypatch.setattr(Searcher, "_search", lambda *_: stuck.wait(HANG) and [[]])
    with running(service) as address, connect(address) as connection:
        assert get(address, "/readyz") == 200
        connection.sendall(post("/v1/translate", {"text": "eins"}))
        wait_until(lambda: get(address, "/readyz") == 503)
        assert get(address, "/healthz") == 200
        stuck.set()
        wait_until(lambda: get(address, "/readyz") == 200)
        service.stopping = True
        assert get(address, "/readyz") == 503


# Connections


def sent_before_the_end(connection: socket.socket, piece: bytes, most: int) -> int:
    """How many bytes the service lets itself be sent."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            sent += connection.send(piece)
    return sent


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"GET / HTTP/1.1\r\n", b"X-A: b\r\n" * 1000),
        (b"GET / HTTP/1.1\r\nX-A: ", b"a" * 10_000),
        (b"GET /", b"a" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"a" * 10_000),
    ],
    ids=["many headers", "a long header", "a long path", "a long name"],
)
def test_a_huge_head_is_not_read(service, beginning, piece) -> None:
    with running(service) as address, connect(address) as connection:
        connection.sendall(beginning)
        sent = sent_before_the_end(connection, piece, 300 * 2**20)
        assert sent < 30 * 2**20  # what the kernel holds for both sides
        assert get(address) == 200


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["unfinished", "whole"])
def test_a_head_that_is_a_little_too_large_hears_why(service, end) -> None:
    with running(service) as address, connect(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-A: " + b"a" * 33_000 + end)
        said = heard(connection)
        assert said.startswith(b"HTTP/1.1 431 ")
        assert "32,768 bytes" in json.loads(said.partition(b"\r\n\r\n")[2])["error"]


def test_a_path_with_thousands_of_escapes_is_refused(service) -> None:
    with running(service) as address, connect(address) as connection:
        connection.sendall(b"GET /" + b"%41" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert heard(connection).startswith(b"HTTP/1.1 400 ")


def test_a_head_with_many_headers_is_refused(service) -> None:
    with running(service) as address, connect(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * 1000 + b"\r\n")
        assert heard(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [(b"0\r\nX-A: ", b"a" * 2**16), (b"", b"1\r\na\r\n" * 10_000), (b"", b"1;" + b"x" * 2**16)],
    ids=["a trailer without end", "chunks of one byte", "a chunk's extension without end"],
)
def test_a_body_of_almost_nothing_but_framing_is_refused(service, beginning, piece) -> None:
    with running(service) as address, connect(address) as connection:
        connection.sendall(
            b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + beginning
        )
        sent = sent_before_the_end(connection, piece, 300 * 2**20)
        assert sent < 30 * 2**20  # what the kernel holds for both sides
        assert get(address) == 200


def test_a_large_body_in_chunks_of_usual_size_is_read(service) -> None:
    text = json.dumps({"q": "eins " * 900 + " " * 150_000}).encode()
    pieces = [text[at : at + 400] for at in range(0, len(text), 400)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    with running(service) as address, connect(address) as connection:
        connection.sendall(
            b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"
        )
        assert heard(connection).startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 413 "))


def test_trailers_and_pipelined_requests_are_not_collected(service) -> None:
    with running(service) as address:
        with connect(address) as connection:
            connection.sendall(
                b"POST /detect HTTP/1.1\r\nHost: localhost\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
            )
            connection.sendall(
                b"X-A: b\r\n" * 10_000 + b"\r\nGET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
            )
            said = heard(connection)
            assert said.startswith(b"HTTP/1.1 400 ")  # no text to detect
            assert said.count(b"HTTP/1.1 ") == 2
        with connect(address) as connection:
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\n\r\n" * 5000)
            assert heard(connection).count(b"HTTP/1.1 200 ") <= 20


def test_the_first_of_too_many_pipelined_requests_are_answered(service) -> None:
    with running(service) as address, connect(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        said = heard(connection)
        assert said.count(b"HTTP/1.1 200 ") >= 16
        assert said.count(b'{"status":"ok"}') == said.count(b"HTTP/1.1 200 ")  # all are whole


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"G",
        b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        post("/v1/translate", {"text": "eins"})[:-1],
    ],
    ids=["nothing", "a letter", "empty lines", "half a head", "half a body"],
)
def test_a_client_that_stops_sending_is_disconnected(service, beginning) -> None:
    with running(service, QUICK) as address, connect(address) as connection:
        connection.sendall(beginning)
        assert heard(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "beginning",
    [b"GET /healthz HTTP/1.1\r\n", b"POST /detect HTTP/1.1\r\nContent-Length: 9999\r\n\r\n"],
)
def test_a_client_that_sends_byte_by_byte_is_disconnected(service, beginning) -> None:
    with running(service, QUICK) as address, connect(address) as connection:
        connection.sendall(beginning)
        with contextlib.suppress(OSError):
            for _ in range(int(HANG / 0.05)):
                connection.send(b"X")
                time.sleep(0.05)
            pytest.fail("the service waits forever")


def test_an_idle_connection_is_closed(service) -> None:
    with running(service, QUICK) as address, connect(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = heard(connection)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("keep", [b"keep-alive", b"close"])
def test_who_does_not_take_an_answer_is_hung_up_on(service, monkeypatch, keep) -> None:
    monkeypatch.setitem(pages._files(), "large.bin", bytes(40 * 2**20))
    with running(service, QUICK) as address, connect(address) as connection:
        connection.sendall(b"GET /static/large.bin HTTP/1.1\r\nConnection: " + keep + b"\r\n\r\n")
        # the answer is no longer held
        wait_until(lambda: ("/static/{name}", 200) in service.metrics.requests)
        assert len(heard(connection)) < 40 * 2**20
        assert get(address) == 200


@pytest.mark.parametrize("keep", [b"keep-alive", b"close"])
def test_who_does_not_take_the_last_bytes_of_an_answer_is_hung_up_on(
    service, monkeypatch, keep
) -> None:
    """These wait in a buffer of ours, which is below the size that makes asyncio complain."""

    def with_small_buffers(host: str, port: int) -> socket.socket:
        listener = listen(host, port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listener

    monkeypatch.setattr("tests.serving.listen", with_small_buffers)
    monkeypatch.setitem(pages._files(), "small.bin", bytes(60_000))
    with running(service, replace(QUICK, per_client=1)) as address, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.bind(("127.0.0.2", 0))
        deaf.connect(("127.0.0.1", int(address.rpartition(":")[2])))
        deaf.sendall(b"GET /static/small.bin HTTP/1.1\r\nConnection: " + keep + b"\r\n\r\n")
        wait_until(lambda: ("/static/{name}", 200) in service.metrics.requests)
        # it may have one connection, so that one is gone
        wait_until(lambda: get(address, source="127.0.0.2") == 200)


def test_one_client_cannot_take_all_connections(service) -> None:
    with running(service, ConnectionLimits(connections=8, per_client=3)) as address:
        held = [connect(address) for _ in range(3)]
        with connect(address) as one_more:
            assert heard(one_more).startswith(b"HTTP/1.1 429 ")
        assert get(address, source="127.0.0.2") == 200
        held.pop().close()
        wait_until(lambda: get(address) == 200)
        for connection in held:
            connection.close()


def test_when_all_connections_are_taken_new_ones_wait_for_one_to_close(
    service, endless, capfd
) -> None:
    with running(service, ConnectionLimits(connections=2)) as address:
        held = [connect(address, source) for source in ("127.0.0.2", "127.0.0.3")]
        for connection in held:
            connection.sendall(post("/v1/translate", {"text": "eins"}))
        wait_until(lambda: service.batcher.waiting == 2)
        with connect(address) as waiting:
            waiting.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
            waiting.settimeout(0.2)
            with pytest.raises(TimeoutError):
                waiting.recv(1000)
            held.pop().close()
            waiting.settimeout(HANG)
            assert heard(waiting).startswith(b"HTTP/1.1 200 ")
        held.pop().close()
    assert capfd.readouterr().err == "dragoman: all 2 connections are taken: new ones wait.\n"


PATIENT = ConnectionLimits(connections=6, receive_s=HANG, idle_s=HANG)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nX-A: ",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"POST /detect HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "a part of a head", "a request that is answered", "a part of a body"],
)
def test_connections_on_which_nothing_comes_make_room_for_new_ones(service, sent) -> None:
    """The client with most connections loses its longest silent connection."""
    with running(service, PATIENT) as address, contextlib.ExitStack() as opened:
        held = [
            opened.enter_context(connect(address, f"127.0.0.{client}"))
            for client in (3, 2, 2, 2, 5, 5)
        ]
        for connection in held:
            connection.sendall(sent)
        for _ in range(3):  # each closes its own connection
            assert get(address, source="127.0.0.4") == 200
        heard(held.pop(1))  # until it is hung up on
        for connection in held:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while said := connection.recv(1000):
                    assert said.startswith(b"HTTP/1.1 200 ")
                raise AssertionError("another one was hung up on")


def test_mistakes_of_clients_are_not_logged(service, capfd) -> None:
    with running(service) as address:
        for nonsense in (
            b"\x00\x01\x02\r\n\r\n",
            b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        ):
            with connect(address) as connection:
                connection.sendall(nonsense)
                assert connection.recv(1000).startswith(b"HTTP/1.1 ")
        with connect(address) as connection:  # leaves in the middle of a body
            connection.sendall(post("/v1/translate", {"text": "eins"})[:-3])
        wait_until(lambda: ("/v1/translate", 499) in service.metrics.requests)
    assert capfd.readouterr().err == ""


# Names


@pytest.mark.parametrize("path", ["/translate/", "/v1/translate/", "/healthz/"])
def test_a_response_never_names_a_host_from_the_request(service, path) -> None:
    with TestClient(create_app(service)) as client:
        for ask in (client.get, client.post):
            answer = ask(path, headers={"Host": "evil.example"}, follow_redirects=False)
            assert answer.status_code in (404, 405)
            assert "location" not in answer.headers
            assert "evil" not in answer.text


def test_keys_beyond_ascii_work_in_headers_and_bodies(trained) -> None:
    key = "Sesam öffne dich 開"
    service = Service([str(trained)], api_key=key, device="cpu")
    libre = {"q": "eins", "source": "de", "target": "en"}
    with TestClient(create_app(service)) as client:
        for shown, status in ((key, 200), (key[:-1], 401), ("Sesam", 401)):
            for name, value in (("X-API-Key", shown), ("Authorization", f"Bearer {shown}")):
                assert (
                    client.get("/v1/models", headers={name: value.encode()}).status_code == status
                )
            right = 200 if status == 200 else 403
            assert client.post("/translate", json=libre | {"api_key": shown}).status_code == right
        assert client.get("/v1/models", headers={"X-API-Key": b"\xff\xfe"}).status_code == 401


@pytest.mark.parametrize("key", [" sesam", "sesam\n", "ses\x00am", "ses\u2028am"])
def test_keys_that_no_header_can_hold_are_refused_at_start(trained, key) -> None:
    with pytest.raises(ConfigError, match="has surrounding blanks or control"):
        Service([str(trained)], api_key=key, device="cpu")


# The process


@contextlib.contextmanager
def busy(address: str) -> Iterator[socket.socket]:
    """A request under way, and clients who hold their connections: idle, in the middle of a head,
    not reading."""
    with (
        connect(address) as asking,
        connect(address),
        connect(address) as slow,
        connect(address) as deaf,
    ):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\n\r\n" * 10)
        slow.sendall(b"GET / HTTP/1.1\r\n")
        asking.sendall(post("/v1/translate", {"text": "eins"}))
        wait_until(lambda: re.search(rb"dragoman_queue_lines 1\n", figures(address)))
        yield asking


def figures(address: str) -> bytes:
    with connect(address) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
        return heard(connection)


def test_a_signal_ends_a_search_without_end_and_its_client_hears_so(trained, tmp_path) -> None:
    with (
        process(tmp_path, trained, "--grace", "2", first=search_without_end) as (started, address),
        busy(address) as asking,
    ):
        started.send(signal.SIGTERM)
        said = heard(asking)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"the service is stopping" in said
        assert started.answer().code == 0


def test_a_signal_ends_the_process_though_the_engine_is_stuck(trained, tmp_path) -> None:
    with (
        process(tmp_path, trained, "--grace", "1", first=search_that_is_stuck) as (
            started,
            address,
        ),
        busy(address),
    ):
        started.send(signal.SIGINT)
        answer = started.answer()
        assert answer.code == 1
        assert "did not stop within 1 s and is ended" in answer.err


def test_a_second_signal_ends_the_process_immediately(trained, tmp_path) -> None:
    endless = process(tmp_path, trained, "--grace", "86400", first=search_without_end)
    with endless as (started, address), busy(address):
        started.send(signal.SIGTERM)
        time.sleep(0.3)
        assert not started.has_ended()
        started.send(signal.SIGTERM)
        assert started.answer().code == 128 + signal.SIGTERM


def test_with_few_open_files_others_still_get_in(trained, tmp_path) -> None:
    with process(tmp_path, trained, first=have_few_files) as (started, address):
        held = [connect(address) for _ in range(60)]
        assert get(address, source="127.0.0.2") == 200
        for connection in held:
            connection.close()
        wait_until(lambda: get(address) == 200)
        started.send(signal.SIGTERM)
        answer = started.answer()
        assert answer.code == 0
        assert "more are refused" in answer.err


def test_running_out_of_open_files_is_logged_and_temporary(trained, tmp_path) -> None:
    with process(tmp_path, trained, first=have_too_few_files) as (started, address):
        held = [connect(address) for _ in range(80)]
        started.heard("Too many open files")
        for connection in held:
            connection.close()
        wait_until(lambda: get(address) == 200)
        started.send(signal.SIGTERM)
        answer = started.answer()
        assert answer.code == 0
        assert "dragoman:" not in answer.err.partition("Too many open files")[2]


def test_too_few_open_files_are_reported_at_start(service, monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    with pytest.raises(
        ConfigError, match=r"20 open files are too few to serve .*: raise ulimit -n"
    ):
        Server(create_app(service))
