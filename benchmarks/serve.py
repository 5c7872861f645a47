"""The service under load and its bare engine: 64 clients for 30 seconds, on the same sentences.

    python benchmarks/serve.py --model runs/demo [--clients 64] [--seconds 30] [--device cpu]
    python benchmarks/serve.py --model pentaglot --device cuda --sentences 32

`dragoman serve` runs in a process of its own, and clients in this one send it one request after
the other, each over one connection; a request has one sentence, or `--sentences`. Before and after
that the engine translates, in this process and in batches of its own making, as many of the same
sentences as 8 seconds take; the better rate counts. Both use every core; the clients' own work
counts against the service. What is printed: sentences a second of both and their ratio, the
processor's time that a sentence took of engine, service and clients (which tells what the ratio
could be on busy cores), the median and the 99th percentile of the answers' times, failures, and the
service's memory as the load began (after a warm-up) and as it ended.
"""

import argparse
import asyncio
import gzip
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import dragoman

SENTENCES = Path(__file__).parent.parent / "examples" / "valid.de.gz"


def read_sentences() -> list[str]:
    with gzip.open(SENTENCES, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def offline(model: str, device: str, sentences: list[str], seconds: float) -> tuple[float, float]:
    """Return the engine's sentences per second, and its CPU time for one."""
    translator = dragoman.load(model, device=device)
    translator(sentences[:64])
    done = 0
    started, cpu_s = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        done += len(translator(sentences))
    return done / (time.perf_counter() - started), (time.process_time() - cpu_s) / done


async def client(
    port: int, texts: list[list[str]], turn: count, until: float, times: list[float]
) -> int:
    """Send one request after the other over one connection; return the number of failures."""
    failed = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        body = json.dumps(
            {"text": texts[next(turn) % len(texts)], "source": "de", "target": "en"}
        ).encode()
        started = time.perf_counter()
        head = (
            f"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            f"application/json\r\nContent-Length: {len(body)}"
        )
        writer.write(f"{head}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer)[1]))  # type: ignore[index]
        times.append(time.perf_counter() - started)
        failed += not answer.startswith(b"HTTP/1.1 200")
    writer.close()
    return failed


async def load(
    port: int, texts: list[list[str]], clients: int, seconds: float
) -> tuple[list[float], int, float]:
    times: list[float] = []
    turn = count()
    started = time.perf_counter()
    failures = await asyncio.gather(
        *(client(port, texts, turn, started + seconds, times) for _ in range(clients))
    )
    return times, sum(failures), time.perf_counter() - started


def port_of(server: "subprocess.Popen[str]") -> int:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://[^:]+:(\d+)", line):
            return int(found[1])
        print(line, end="", file=sys.stderr)  # a warning, or why it does not start
    sys.exit("the service did not start")


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="runs/demo")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sentences", type=int, default=1, help="of one request")
    arguments = parser.parse_args()
    sentences, size = read_sentences(), arguments.sentences
    texts = [sentences[at : at + size] for at in range(0, len(sentences) - size + 1, size)]
    model, device = arguments.model, arguments.device
    alone, engine_s = offline(model, device, sentences, 8)
    command = [sys.executable, "-m", "dragoman", "serve", "--model", model, "--port", "0"]
    command += ["--device", device]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        port = port_of(server)
        asyncio.run(load(port, texts, arguments.clients, 5))
        before = memory_mib(server.pid)
        service_s, clients_s = cpu_seconds(server.pid), time.process_time()
        times, failed, elapsed = asyncio.run(
            load(port, texts, arguments.clients, arguments.seconds)
        )
        after = memory_mib(server.pid)
        done = size * (len(times) - failed)
        service_s = (cpu_seconds(server.pid) - service_s) / done
        clients_s = (time.process_time() - clients_s) / done
        server.send_signal(signal.SIGTERM)
    rate = done / elapsed
    alone = max(alone, offline(model, device, sentences, 8)[0])
    p50 = statistics.median(times)
    p99 = statistics.quantiles(times, n=100)[98]
    print(
        f"service: {rate:7.1f} sentences/s, {arguments.clients} clients, {len(times)} requests, "
        f"{failed} failed"
    )
    print(f"engine:  {alone:7.1f} sentences/s")
    print(f"ratio {rate / alone:.2f}   p50 {1000 * p50:.0f} ms   p99 {1000 * p99:.0f} ms")
    print(
        f"processor's time of a sentence: engine {1000 * engine_s:.1f} ms, service "
        f"{1000 * service_s:.1f} ms, clients {1000 * clients_s:.1f} ms"
    )
    print(f"memory {before:.0f} MiB before the load, {after:.0f} MiB after it")


if __name__ == "__main__":
    main()
