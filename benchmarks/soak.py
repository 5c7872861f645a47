"""The service under attack: 64 clients for fifteen minutes, one in ten of them hostile.

    python benchmarks/soak.py [--model M] [--clients 64] [--seconds 900] [--load 0.6]

`dragoman serve` runs in a process of its own with the packaged model. The clients live in this one,
each at an address of its own (127.0.0.2 and up, which Linux has; elsewhere all share one), so their
own work counts against the service. Three keys are shared out among them. An honest client sends
sentences one after the other over one connection; some send HTML, some documents, some make, use
and delete glossaries. A hostile one takes its turns at `ATTACKS` without a pause, with a key of its
own.

First only the honest clients send requests, without pauses: this rate is the capacity of the
service. In
the test itself each of them pauses between two requests, so that all together ask for the share
`--load` of the capacity. After a quarter of the time a second service takes over, and the first is
told to stop. At the end SIGTERM comes while long requests are under way.

What is printed, by minute: honest requests, failures, the median and the 99th percentile of their
times, memory and open files of the service; then the kinds of requests, what became of the attacks,
and the seconds to stop. A document's time goes from its upload until it is fetched, with questions
in between: the target of 3 s is for the answers to all other requests. The exit status is 1 if a
target is missed.
"""

import argparse
import asyncio
import contextlib
import gzip
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(Path(__file__).parent.parent))
from dragoman.documents.formats import BY_ENDING
from tests import attacks as files
from tests import found

SENTENCES = Path(__file__).parent.parent / "examples" / "valid.de.gz"
P99_S, STOP_S, MEMORY_MIB = 3.0, 10.5, 1500.0  # the targets
FLAT_AFTER = 10  # minutes; later ones may differ by `FLAT`
FLAT = 0.05
# The share of the time after which another service takes over. Its memory is what has to be flat,
# so it must be there long before `FLAT_AFTER`: first all that it needs has to be made once.
HANDOVER_AT = 0.25
IDLE_S = 5.0  # after which a client closes its connection: the service would after 10 s
HANDOVER_S = 20.0  # for clients of the first service to finish there
COMMAND = [sys.executable, "-m", "dragoman"]
KEYS = ("one", "two", "three", "hostile")
CAPACITY_S = 30.0  # for which the capacity is measured


@dataclass
class Tally:
    """What happened: times by kind of request, and failures, both with the minute."""

    began: float = field(default_factory=time.perf_counter)
    times: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    failures: Counter[tuple[int, str]] = field(default_factory=Counter)
    attacks: Counter[str] = field(default_factory=Counter)
    figures: dict[int, list[tuple[float, float, int]]] = field(default_factory=dict)
    own_delay_s: float = 0.0  # the longest time that the clients' own loop was late

    @property
    def minute(self) -> int:
        return int((time.perf_counter() - self.began) / 60)

    def note(self, kind: str, seconds: float) -> None:
        self.times.setdefault(kind, []).append((self.minute, seconds))

    def seconds(self, minute: int | None = None) -> list[float]:
        every = [entry for of_kind in self.times.values() for entry in of_kind]
        return [seconds for at, seconds in every if minute in (None, at)]


@dataclass
class Client:
    """A client at an address, with a key."""

    ports: list[int]  # the last one is the process of the service that takes requests
    address: str
    draw: random.Random
    key: str = KEYS[0]

    async def connect(self, port: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", port or self.ports[-1], local_addr=(self.address, 0)
        )


def request(
    path: str, question: Mapping[str, object] | None, key: str, method: str = "POST"
) -> bytes:
    body = b"" if question is None else json.dumps(question).encode()
    return framed(path, body, "application/json", key, method)


def framed(path: str, body: bytes, kind: str, key: str, method: str = "POST") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n"
    return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def upload(name: str, content: bytes, key: str) -> bytes:
    parts = [
        f'name="{field}"\r\n\r\n{value}' for field, value in (("source", "de"), ("target", "en"))
    ]
    parts = [f"--x\r\nContent-Disposition: form-data; {part}\r\n" for part in parts]
    file = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = "".join(parts).encode() + file.encode() + content + b"\r\n--x--\r\n"
    return framed("/v1/documents", body, "multipart/form-data; boundary=x", key)


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of an answer, read to its end."""
    return (await whole_answer(reader))[0]


async def whole_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(size[1])) if size else b""
    return int(head.split(b" ", 2)[1]), body


class FailedError(Exception):
    """An answer that an honest client does not expect."""


async def expect(connection: "Connection", sent: bytes, *statuses: int) -> bytes:
    reader, writer = connection
    writer.write(sent)
    status, body = await asyncio.wait_for(whole_answer(reader), 120)
    if status not in (statuses or (200,)):
        raise FailedError(f"{status} {body[:100].decode(errors='replace')}")
    return body


async def sends_text(client: Client, connection: "Connection", text: str) -> None:
    question = {"text": text, "source": "de", "target": "en"}
    await expect(connection, request("/v1/translate", question, client.key))


async def sends_html(client: Client, connection: "Connection", text: str) -> None:
    question = {
        "q": f"<p>{text} <b>{text}</b></p>",
        "format": "html",
        "source": "de",
        "target": "en",
    }
    await expect(connection, request("/translate", question, client.key))


async def uses_glossary(client: Client, connection: "Connection", text: str) -> None:
    made = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": "Hund\thound\n"}
    body = await expect(connection, request("/v2/glossaries", made, client.key), 201)
    glossary = json.loads(body)["glossary_id"]
    used = {"text": text, "source_lang": "de", "target_lang": "en", "glossary_id": glossary}
    await expect(connection, request("/v2/translate", used, client.key))
    path = f"/v2/glossaries/{glossary}"
    await expect(connection, request(path, None, client.key, "DELETE"), 204)


async def sends_document(client: Client, connection: "Connection", text: str) -> None:
    content = f"<h1>{text}</h1><p>{text}</p>".encode()
    document = json.loads(await expect(connection, upload("a.html", content, client.key)))["id"]
    path = f"/v1/documents/{document}"
    for _ in range(600):
        state = json.loads(await expect(connection, request(path, None, client.key, "GET")))
        if state["state"] == "failed":
            raise FailedError(state["error"])
        if state["state"] == "done":
            await expect(connection, request(f"{path}/file", None, client.key, "GET"))
            await expect(connection, request(path, None, client.key, "DELETE"), 204)
            return
        await asyncio.sleep(0.2)
    raise FailedError("a document was not done after two minutes")


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def honest(
    client: Client,
    number: int,
    sentences: list[str],
    turn: "count[int]",
    until: float,
    tally: Tally,
    pause_s: float,
) -> None:
    """Run an honest client: of ten clients, one sends documents, one HTML, one uses glossaries, the
    rest send text. Pauses are random, with this mean."""
    act = {1: sends_document, 2: sends_html, 3: uses_glossary}.get(number % 10, sends_text)
    kind = act.__name__.partition("_")[2]
    connection, port = None, 0
    while time.perf_counter() < until:
        pause = min(client.draw.expovariate(1 / pause_s), 10 * pause_s) if pause_s else 0.0
        if pause > IDLE_S and connection is not None:
            connection[1].close()
            connection = None
        await asyncio.sleep(pause)
        text = sentences[next(turn) % len(sentences)]
        started = time.perf_counter()
        if connection is not None and port != client.ports[-1]:  # another service has taken over
            connection[1].close()
            connection = None
        try:
            if connection is None:
                port = client.ports[-1]
                connection = await client.connect(port)
            await act(client, connection, text)
        except (OSError, EOFError, TimeoutError, FailedError) as error:
            tally.failures[tally.minute, f"{kind}: {str(error) or type(error).__name__}"] += 1
            connection = None
        tally.note(kind, time.perf_counter() - started)
    if connection is not None:
        connection[1].close()


async def ask(client: Client, **question: object) -> str:
    reader, writer = await client.connect()
    question = {"source": "de", "target": "en", **question}
    writer.write(request("/v1/translate", question, client.key))
    status = await answer(reader)
    writer.close()
    return str(status)


def digits(client: Client, number: int) -> str:
    return "".join(client.draw.choices("0123456789", k=number))


async def swelling_text(client: Client) -> str:
    return await ask(client, text="\ufdfa" * 5000)


async def wide_beam(client: Client) -> str:
    return await ask(client, text=digits(client, 5000), beam=16, nbest=10)


async def as_much_as_allowed(client: Client) -> str:
    return await ask(client, text=digits(client, 3500), beam=16, nbest=10)


async def long_word_list(client: Client) -> str:
    return await ask(client, text="Hund\n" * 1000)


async def leaves_in_the_middle(client: Client) -> str:
    _, writer = await client.connect()
    writer.write(
        request(
            "/v1/translate",
            {"text": digits(client, 3500), "beam": 16, "source": "de", "target": "en"},
            client.key,
        )
    )
    await writer.drain()
    await asyncio.sleep(client.draw.random())
    writer.close()
    return "left"


async def does_not_read(client: Client) -> str:
    _, writer = await client.connect()
    with contextlib.suppress(OSError):
        for _ in range(16):
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await writer.drain()
    await asyncio.sleep(5)
    writer.transport.abort()
    return "left"


async def slow_head(client: Client) -> str:
    reader, writer = await client.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\n")
    for _ in range(60):
        with contextlib.suppress(TimeoutError):
            said = await asyncio.wait_for(reader.read(100), 1)
            writer.close()
            return said.split(b" ")[1].decode() if said else "closed"
        writer.write(b"X-A: b\r\n")
    writer.close()
    return "never refused"


async def huge_head(client: Client) -> str:
    reader, writer = await client.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\n")
    sent = 0
    with contextlib.suppress(OSError):
        while sent < 300 * 2**20 and not reader.at_eof():
            writer.write(b"X-A: " + b"a" * 65_000 + b"\r\n")
            await writer.drain()
            sent += 65_000
    writer.transport.abort()
    return "cut off" if sent < 20 * 2**20 else f"{sent >> 20} MB taken"


async def many_connections(client: Client) -> str:
    opened = [await client.connect() for _ in range(120)]
    await asyncio.sleep(3)
    for _, writer in opened:
        writer.transport.abort()
    return "left"


async def sent(client: Client, message: bytes) -> str:
    """The status of the answer to one message."""
    reader, writer = await client.connect()
    writer.write(message)
    status = await answer(reader)
    writer.close()
    return str(status)


async def hostile_files(client: Client) -> str:
    """A file that takes memory or time of its reader."""
    name = client.draw.choice([*FILES])
    return await sent(client, upload(name, FILES[name], client.key))


async def odd_files(client: Client) -> str:
    """Something damaged, as any format."""
    raw = client.draw.choice([*found.FILES.values()])()
    return await sent(client, upload(f"a{client.draw.choice([*BY_ENDING])}", raw, client.key))


async def hostile_texts(client: Client) -> str:
    return await ask(client, text=client.draw.choice([*files.TEXTS.values()]))


async def hostile_markup(client: Client) -> str:
    question = {"q": "<p " + "a" * 4900, "format": "html", "source": "de", "target": "en"}
    return await sent(client, request("/translate", question, client.key))


async def others_glossaries(client: Client) -> str:
    """What another key has must not be in its list."""
    made = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": "Hund\thound\n"}
    others = await client.connect()
    body = await expect(others, request("/v2/glossaries", made, KEYS[0]), 201)
    glossary = f"/v2/glossaries/{json.loads(body)['glossary_id']}"
    read = await sent(client, request(glossary, None, client.key, "GET"))
    deleted = await sent(client, request(glossary, None, client.key, "DELETE"))
    await expect(others, request(glossary, None, KEYS[0], "DELETE"), 204)
    others[1].close()
    return f"{read} {deleted}"


async def another_site(client: Client) -> str:
    """A forged host, and a form of another site that pretends to be text."""
    head = f"\r\nX-API-Key: {client.key}\r\nOrigin: http://b.example\r\nContent-Type: text/plain"
    forged = await sent(client, b"GET /v1/models HTTP/1.1\r\nHost: b.example\r\n\r\n")
    posted = f"POST /suggest HTTP/1.1\r\nHost: localhost{head}\r\nContent-Length: 2\r\n\r\n{{}}"
    return f"{forged} {await sent(client, posted.encode())}"


async def forty_at_once(client: Client) -> str:
    reader, writer = await client.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
    with contextlib.suppress(EOFError, OSError):
        for answered in count():
            if answered == 40:
                break
            await answer(reader)
    writer.close()
    return "answered" if answered else "not answered"


async def many_documents(client: Client) -> str:
    connection = await client.connect()
    statuses = Counter[int]()
    for _ in range(50):
        connection[1].write(upload("a.txt", b"Hund und Katze. " * 1000, client.key))
        statuses[await answer(connection[0])] += 1
    connection[1].close()
    return " ".join(map(str, sorted(statuses)))


async def many_glossaries(client: Client) -> str:
    connection = await client.connect()
    entries = "".join(f"Wort{i}\tword{i}\n" for i in range(10_000))
    made = {"name": "g", "source_lang": "de", "target_lang": "en", "entries": entries}
    statuses = Counter[int]()
    for _ in range(10):
        connection[1].write(request("/v2/glossaries", made, client.key))
        statuses[await answer(connection[0])] += 1
    connection[1].close()
    return " ".join(map(str, sorted(statuses)))


async def names_a_charset(client: Client) -> str:
    """Send a charset whose decoder takes quadratic time, without a key."""
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n' + b"a" * 240_000
    kind = "multipart/form-data; boundary=x; charset=punycode"
    return await sent(client, framed("/translate", body + b"\r\n--x--\r\n", kind, ""))


async def odd_values(client: Client) -> str:
    """Send odd values as the name of a glossary, which all clients would get in their list."""
    value = client.draw.choice((r'"\ud800"', r'"a\u0000"', "1" * 5000, "[" * 9000 + "]" * 9000))
    fields = f'"name": {value}, "source_lang": "de", "target_lang": "en", "entries": "a\\tb"'
    kind, key = "application/json", client.key
    status = await sent(client, framed("/v2/glossaries", f"{{{fields}}}".encode(), kind, key))
    return f"{status}, the list {await sent(client, request('/v2/glossaries', None, key, 'GET'))}"


async def studies(client: Client) -> str:
    question: dict[str, object] = {"text": "Der Hund schläft im Garten.", "source": "de"}
    question |= {"target": "en", "change": {"study": True}}
    return await sent(client, request("/v1/explain", question, client.key))


async def leaves_a_stream(client: Client) -> str:
    lines = "\n".join(f"Der Hund {digits(client, 4)} schläft." for _ in range(150))
    messages = [{"role": "user", "content": lines}]
    question = {"model": "dragoman-de-en", "stream": True, "messages": messages}
    reader, writer = await client.connect()
    writer.write(request("/v1/chat/completions", question, client.key))
    await reader.read(100)
    writer.close()
    return "left"


async def forms_without_a_key(client: Client) -> str:
    """Large fields that are never finished."""
    opened = [await client.connect() for _ in range(20)]
    part = b'--x\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n' + b"a" * 900_000 + b"\r\n"
    kind = "multipart/form-data; boundary=x"
    whole = framed("/translate_file", b"".join(part % i for i in range(10)), kind, "")
    with contextlib.suppress(OSError):
        for _, writer in opened:
            writer.write(whole)
            await writer.drain()
    await asyncio.sleep(1)
    for _, writer in opened:
        writer.transport.abort()
    return "left"


FILES: dict[str, bytes] = {}  # made before the clients begin: that takes longer than sending them
ATTACKS: tuple[Callable[[Client], Awaitable[str]], ...] = (
    swelling_text, hostile_files, wide_beam, hostile_markup, as_much_as_allowed, odd_files,
    long_word_list, leaves_in_the_middle, hostile_texts, many_documents, does_not_read,
    hostile_files, slow_head, others_glossaries, huge_head, many_glossaries, another_site,
    odd_files, forty_at_once, hostile_texts, many_connections, names_a_charset, odd_values,
    studies, leaves_a_stream, forms_without_a_key,
)  # fmt: skip


async def hostile(client: Client, first: int, until: float, tally: Tally) -> None:
    for turn in count(first):
        if time.perf_counter() > until:
            return
        attack = ATTACKS[turn % len(ATTACKS)]
        try:
            outcome = await asyncio.wait_for(attack(client), 60)
        except (OSError, EOFError, TimeoutError, FailedError) as error:
            outcome = type(error).__name__
        tally.attacks[f"{attack.__name__.replace('_', ' ')}: {outcome}"] += 1


async def load(
    ports: list[int],
    clients: int,
    seconds: float,
    attacked: bool = True,
    pause_s: float = 0.0,
    second: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """`second` is called about once a second."""
    with gzip.open(SENTENCES, "rt", encoding="utf-8") as file:
        sentences = [line.strip() for line in file]
    tally = Tally()
    turn = count()
    until = tally.began + seconds
    tasks = []
    for number in range(clients):
        address = f"127.0.0.{2 + number % 250}" if sys.platform == "linux" else "127.0.0.1"
        client = Client(ports, address, random.Random(number), KEYS[number % 3])
        if number % 10 != 5:
            work = honest(client, number, sentences, turn, until, tally, pause_s)
            tasks.append(asyncio.create_task(work))
        elif attacked:
            client.key = KEYS[-1]
            tasks.append(asyncio.create_task(hostile(client, 4 * (number // 10), until, tally)))
    while (left := until - time.perf_counter()) > 0:
        second(tally)
        due = time.perf_counter() + min(1.0, left)
        await asyncio.sleep(due - time.perf_counter())
        tally.own_delay_s = max(tally.own_delay_s, time.perf_counter() - due)
    await asyncio.gather(*tasks)
    return tally


async def seconds_to_stop(server: "subprocess.Popen[str]", port: int) -> float:
    """Time how long the service takes to stop while the longest requests run, and with connections
    that are never closed."""
    client = Client([port], "127.0.0.1", random.Random(7))
    under_way = [asyncio.create_task(as_much_as_allowed(client)) for _ in range(8)]
    held = [await client.connect() for _ in range(8)]
    await asyncio.sleep(2)
    started = time.perf_counter()
    server.send_signal(signal.SIGTERM)
    await asyncio.to_thread(server.wait, 120)
    took = time.perf_counter() - started
    await asyncio.gather(*under_way, return_exceptions=True)
    for _, writer in held:
        writer.close()
    return took


class Served:
    """`dragoman serve` in a process of its own."""

    def __init__(self, model: str, keys: Path):
        command = [*COMMAND, "serve", "--port", "0", "--device", "cpu", "--keys", str(keys)]
        command += ["--model", model] if model else []
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.port = int(re.search(r":(\d+)/", self.process.stderr.readline())[1])  # type: ignore[index]
        # what it says later must not fill the pipe
        Thread(target=self.process.stderr.read, daemon=True).start()

    def figures(self) -> tuple[float, float, int]:
        """Memory in MiB, the same with all readers, and open files."""
        pid = self.process.pid
        readers: list[int] = []
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread may have ended
                readers += map(int, file.read_text().split())
        own = memory_mib(pid)
        return own, own + sum(map(memory_mib, readers)), len([*Path(f"/proc/{pid}/fd").iterdir()])


def memory_mib(process: int) -> float:
    with contextlib.suppress(OSError):  # it may have ended
        size = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
        return int(size[1]) / 1024 if size else 0.0
    return 0.0


async def story(
    services: list[Served],
    begin: Callable[[], Served],
    clients: int,
    seconds: float,
    pause_s: float,
) -> tuple[Tally, float, int | None]:
    """One service, a handover, another one; how long the first took to stop."""
    ports = [services[0].port]

    def second(tally: Tally) -> None:
        with contextlib.suppress(OSError):
            tally.figures.setdefault(tally.minute, []).append(services[-1].figures())

    async def hand_over() -> tuple[float, int | None]:
        await asyncio.sleep(HANDOVER_AT * seconds)
        services.append(await asyncio.to_thread(begin))
        ports.append(services[-1].port)
        await asyncio.sleep(min(HANDOVER_S, seconds / 4))
        started = time.perf_counter()
        services[0].process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(services[0].process.wait, 120)
        return time.perf_counter() - started, status

    taken_over = asyncio.create_task(hand_over())
    tally = await load(ports, clients, seconds, pause_s=pause_s, second=second)
    return tally, *(await taken_over)


def percentiles(seconds: list[float]) -> tuple[float, float]:
    return statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]


def by_minute(tally: Tally) -> tuple[float, bool]:
    """Prints the table; the most memory of service and readers, and whether the last minutes are
    flat."""
    print("minute  requests  failed   p50 s   p99 s     MiB  with readers  open files")
    flat: list[tuple[float, float]] = []
    most = 0.0
    for minute, figures in sorted(tally.figures.items()):
        seconds = tally.seconds(minute)
        p50, p99 = percentiles(seconds) if len(seconds) > 1 else (0.0, 0.0)
        failed = sum(n for (at, _), n in tally.failures.items() if at == minute)
        memory, _, opened = map(statistics.median, zip(*figures, strict=True))
        peak = max(figure[1] for figure in figures)
        most = max(most, peak)
        if minute >= FLAT_AFTER:
            flat.append((memory, opened))
        print(
            f"{minute:6}  {len(seconds):8,}  {failed:6}  {p50:6.2f}  {p99:6.2f}  {memory:6.0f}  "
            f"{peak:12.0f}  {opened:10.0f}"
        )
    return most, not flat or all(
        max(values) <= (1 + FLAT) * values[0] + slack
        for values, slack in zip(zip(*flat, strict=True), (0, 10), strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="", help="a trained model; without: the package's own")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--load", type=float, default=0.6, help="share of the capacity")
    arguments = parser.parse_args()
    FILES.update({name: make() for name, make in (files.MEMORY | files.TIME).items()})
    clients, services = arguments.clients, list[Served]()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.toml"
        keys.write_text("".join(f'[{name}]\nsecret = "{name}"\n' for name in KEYS))

        def begin() -> Served:
            return Served(arguments.model, keys)

        try:
            services.append(begin())
            ports = [services[0].port]
            measured_s = min(CAPACITY_S, arguments.seconds / 4)
            asyncio.run(load(ports, clients, measured_s / 3, attacked=False))  # to warm up
            alone = asyncio.run(load(ports, clients, measured_s, attacked=False)).seconds()
            capacity, waited = len(alone) / measured_s, statistics.mean(alone)
            honest_clients = clients - sum(number % 10 == 5 for number in range(clients))
            # a client asks once in a pause and the answer's time, which is short without a queue
            pause_s = honest_clients / (arguments.load * capacity) - waited * (1 - arguments.load)
            print(
                f"capacity: {capacity:.1f} requests/s of honest clients without pauses, p50 "
                f"{statistics.median(alone):.2f} s; pauses of {pause_s:.1f} s for a load of "
                f"{arguments.load:.0%}",
                flush=True,
            )
            tally, handed_s, handed = asyncio.run(
                story(services, begin, clients, arguments.seconds, pause_s)
            )
            stopped_s = asyncio.run(seconds_to_stop(services[-1].process, services[-1].port))
        finally:
            for service in services:
                service.process.kill()
                service.process.wait()
    most, flat = by_minute(tally)
    failed, everything = tally.failures.total(), tally.seconds()
    seconds = [
        taken for kind in tally.times if kind != "document" for _, taken in tally.times[kind]
    ]
    p50, p99 = percentiles(seconds)
    print(f"\n{len(everything):,} honest requests, {failed} failed")
    print(
        f"{len(everything) / arguments.seconds:.1f} requests/s: p50 {p50:.2f} s, p99 {p99:.2f} s, "
        f"with documents p99 {percentiles(everything)[1]:.2f} s"
    )
    for kind, entries in sorted(tally.times.items()):
        some = [taken for _, taken in entries]
        middle, late = percentiles(some)
        print(
            f"{kind:>10}: {len(some):7,}, p50 {middle:.2f} s, p99 {late:.2f} s, "
            f"longest {max(some):.2f} s"
        )
    for (minute, failure), times in sorted(tally.failures.items())[:20]:
        print(f"{times:6} x minute {minute}: {failure}")
    print(f"the clients themselves were late by {tally.own_delay_s:.2f} s at most")
    print(f"handover: the first service ended after {handed_s:.1f} s with status {handed}")
    print(f"SIGTERM: ended after {stopped_s:.1f} s with status {services[-1].process.returncode}")
    for outcome, times in sorted(tally.attacks.items()):
        print(f"{times:6} x {outcome}")
    missed = {
        f"{failed} failures": failed,
        f"p99 above {P99_S} s": p99 > P99_S,
        f"more than {STOP_S} s to stop": max(stopped_s, handed_s) > STOP_S,
        f"more than {MEMORY_MIB:.0f} MiB": most > MEMORY_MIB,
        "memory or open files grow": not flat,
    }
    print("; ".join(what for what, true in missed.items() if true) or "all targets reached")
    return int(any(missed.values()))


if __name__ == "__main__":
    sys.exit(main())
