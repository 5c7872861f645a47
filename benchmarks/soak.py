"""The service under attack: 64 clients for ten minutes, one in ten of them hostile.

    python benchmarks/soak.py [--model M] [--clients 64] [--seconds 600]

`dragoman serve` runs in a process of its own with the packaged model. The clients live in this one,
each at an address of its own (127.0.0.2 and up, which Linux has; elsewhere all share one), so their
own work counts against the service. An honest client sends one sentence after the other over one
connection. A hostile one takes its turns at `ATTACKS`. At the end SIGTERM comes while long requests
are under way. What is printed: requests and failures, the median and the 99th percentile of honest
answers' times, what became of the attacks, memory at the start (after a warm-up), in the middle and
at the end, and the seconds to stop. The exit status is 1 if a target is missed.
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
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

SENTENCES = Path(__file__).parent.parent / "examples" / "valid.de.gz"
P99_S, STOP_S, GROWTH = 5.0, 10.0, 1.1  # the targets
WARM_UP_S = 10.0


@dataclass
class Tally:
    times: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    attacks: Counter[str] = field(default_factory=Counter)


@dataclass
class Client:
    """Somebody at an address."""

    port: int
    address: str
    draw: random.Random

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.address, 0))


def request(path: str, question: dict[str, object]) -> bytes:
    body = json.dumps(question).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of an answer, read to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
    return int(head.split(b" ", 2)[1])


async def honest(
    client: Client, sentences: list[str], turn: "count[int]", until: float, tally: Tally
) -> None:
    connection = None
    while time.perf_counter() < until:
        text = sentences[next(turn) % len(sentences)]
        started = time.perf_counter()
        try:
            connection = connection or await client.connect()
            reader, writer = connection
            writer.write(request("/v1/translate", {"text": text, "source": "de", "target": "en"}))
            status = await asyncio.wait_for(answer(reader), 120)
            if status != 200:
                tally.failures[str(status)] += 1
        except (OSError, EOFError, TimeoutError) as error:
            tally.failures[type(error).__name__] += 1
            connection = None
        tally.times.append(time.perf_counter() - started)
    if connection is not None:
        connection[1].close()


async def ask(client: Client, **question: object) -> str:
    reader, writer = await client.connect()
    writer.write(request("/v1/translate", {"source": "de", "target": "en", **question}))
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
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
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


ATTACKS: tuple[Callable[[Client], Awaitable[str]], ...] = (
    swelling_text, wide_beam, as_much_as_allowed, long_word_list, leaves_in_the_middle,
    does_not_read,
    slow_head, huge_head, many_connections,
)  # fmt: skip


async def hostile(client: Client, first: int, until: float, tally: Tally) -> None:
    for turn in count(first):
        if time.perf_counter() > until:
            return
        attack = ATTACKS[turn % len(ATTACKS)]
        try:
            outcome = await asyncio.wait_for(attack(client), 60)
        except (OSError, EOFError, TimeoutError) as error:
            outcome = type(error).__name__
        tally.attacks[f"{attack.__name__.replace('_', ' ')}: {outcome}"] += 1


async def load(
    port: int, clients: int, seconds: float, sample: Callable[[], None] = lambda: None
) -> Tally:
    with gzip.open(SENTENCES, "rt", encoding="utf-8") as file:
        sentences = [line.strip() for line in file]
    tally = Tally()
    turn = count()
    until = time.perf_counter() + seconds
    tasks = []
    for number in range(clients):
        address = f"127.0.0.{2 + number % 250}" if sys.platform == "linux" else "127.0.0.1"
        client = Client(port, address, random.Random(number))
        if number % 10 == 5:
            tasks.append(asyncio.create_task(hostile(client, number // 10, until, tally)))
        else:
            tasks.append(asyncio.create_task(honest(client, sentences, turn, until, tally)))
    while time.perf_counter() < until:
        sample()
        await asyncio.sleep(1)
    await asyncio.gather(*tasks)
    return tally


async def seconds_to_stop(server: "subprocess.Popen[str]", port: int) -> float:
    """With the longest requests there are under way, and connections that nobody closes."""
    client = Client(port, "127.0.0.1", random.Random(7))
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


def memory_mib(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder of a trained model; without: the package's own")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--device", "cpu"]
    command += ["--model", arguments.model] if arguments.model else []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            port = int(re.search(r":(\d+)/", server.stderr.readline())[1])  # type: ignore[index]
            asyncio.run(load(port, arguments.clients, min(WARM_UP_S, arguments.seconds)))
            memory: list[float] = []
            sample = lambda: memory.append(memory_mib(server.pid))  # noqa: E731
            tally = asyncio.run(load(port, arguments.clients, arguments.seconds, sample))
            stopped_s = asyncio.run(seconds_to_stop(server, port))
        finally:
            server.kill()
    failed = tally.failures.total()
    p50 = statistics.median(tally.times)
    p99 = statistics.quantiles(tally.times, n=100)[98]
    start, middle, end = memory[0], memory[len(memory) // 2], memory[-1]
    print(f"honest requests  {len(tally.times):8,}   failed {failed} {dict(tally.failures) or ''}")
    print(f"p50 {p50:.2f} s   p99 {p99:.2f} s   longest {max(tally.times):.2f} s")
    print(
        f"memory in MiB: {start:.0f} at the start, {middle:.0f} in the middle, {end:.0f} at the end"
    )
    print(f"               {max(memory):.0f} at most")
    print(f"SIGTERM: ended after {stopped_s:.1f} s with status {server.returncode}")
    for outcome, times in sorted(tally.attacks.items()):
        print(f"{times:6} x {outcome}")
    reached = not failed and p99 <= P99_S and end <= GROWTH * middle and stopped_s <= STOP_S
    print("all targets reached" if reached else "a target was missed")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
