"""Bad HTTP: malformed, slow, huge, cut off, not listened to.

The number of a case determines it. Some dozens run with `make test`, ten thousand with `make
torture`.
"""

import json
import os
import random
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from dragoman.serve.connection import ConnectionLimits
from dragoman.serve.service import Limits, Service
from tests.serving import running

CASES = int(os.environ.get("DRAGOMAN_HTTP_CASES", "60"))
AT_ONCE = 8
HANG = 300.0
QUICK = ConnectionLimits(receive_s=0.3, idle_s=0.3, send_s=0.3)
SMALL = Limits(max_characters=300, max_work=10_000, max_body_bytes=5000, time_limit_s=5.0)
ASKED = (
    "/v1/translate", "/v1/attention", "/v1/explain", "/translate", "/detect", "/v1/documents",
    "/translate_file", "/suggest", "/v2/translate", "/v2/glossaries", "/v2/document",
    "/v2/document/x", "/v2/document/x/result", "/v1/chat/completions",
)  # fmt: skip
ROUTES = (
    "/", "/docs", "/healthz", "/readyz", "/metrics", "/v1/models", "/languages", "/openapi.json",
    "/static/app.js", "/translate/", "/nothing", "/v1/documents/x", "/v1/documents/x/file",
    "/download_file/x", "/v2/languages", "/v2/usage", "/v2/glossaries", "/v2/glossaries/x",
    "/v2/glossaries/x/entries", "/v2/glossary-language-pairs", "/frontend/settings", "/spec",
)  # fmt: skip
TEXTS = (
    "",
    "\ufdfa" * 200,
    "7" * 290,
    "\U0001f9d1",
    "a\x00b",
    "\ud800",
    "1. " * 90,
    " \n" * 140,
    "<b>",
)
A_FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\neins\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nen\r\n--x--\r\n'
)
# Of every kind of value, those at its limits.
DIGITS, NESTED = "5,000 digits", "3,000 brackets"  # what `written` makes of them
NUMBERS = (0, -1, 2**31, 2**63, 10**30, DIGITS, 1e300, 0.5)
CHARSETS = (b"utf-8", b"punycode", b"utf-16", b"idna", b"unicode_escape", b"\xff", b"", b'"')
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z ]+\r\n")


def question(draw: random.Random) -> bytes:
    """A body: nearly right, or nothing of the kind."""
    text = draw.choice([*["eins zwei"] * 9, *TEXTS])
    fields = {
        draw.choice(("text", "q", "s", "entries")): draw.choice(
            (text, text, text, [text] * draw.randint(0, 130), 5)
        ),
        "source": draw.choice(("de", "de", "auto", "xx")),
        "target": draw.choice(("en", "en", None, "xx")),
        draw.choice(("target_lang", "glossary_id")): draw.choice(("EN-GB", "en", "", 7)),
        "beam": draw.choice((1, 4, 16, 17, -1, "x", 1e300)), "nbest": draw.choice((1, 10, 11)),
        "alternatives": draw.randint(-1, 10), "translation": draw.choice((text, None)),
        "change": draw.choice((None, {"study": True}, {"places": {"0": draw.choice(NUMBERS)}})),
        "name": text, "source_lang": "de", draw.choice(TEXTS): draw.choice(NUMBERS),
        "model": draw.choice(("dragoman", text)), "stream": draw.random() < 0.7,
        "messages": [{"role": "user", "content": "\n".join([str(text)] * draw.randint(1, 40))}],
    }  # fmt: skip
    swapped = draw.choice(list(fields))
    if draw.random() < 0.1:
        fields[swapped] = draw.choice((*NUMBERS, *TEXTS, [], {}, NESTED))
    kept = dict(list(fields.items())[: draw.randint(1, 3)])
    kept |= dict(draw.sample(list(fields.items()), draw.choice((0, 0, 1, 6))))
    right = written(kept)
    kinds = (
        right,
        right,
        right,
        right[:-1],
        b"[" * 3000,
        draw.randbytes(100),
        b"",
        b"q=eins&target=en",
        A_FORM,
        a_form(draw, kept),
        b"a" * 20_000,
    )
    return draw.choice(kinds)


def written(fields: dict) -> bytes:
    """Write JSON with values that Python's own writer would refuse."""
    text = json.dumps(fields).replace(f'"{DIGITS}"', "1" * 5000)
    return text.replace(f'"{NESTED}"', "[" * 3000 + "]" * 3000).encode()


def a_form(draw: random.Random, fields: dict) -> bytes:
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return "".join(parts).encode("utf-8", "surrogatepass") + draw.choice((A_FORM, b"--x--\r\n"))


def chunked(draw: random.Random, body: bytes) -> bytes:
    pieces = [body[i : i + 50] for i in range(0, len(body), 50)]
    said = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n"
    trailers = b"X-T: y\r\n" * draw.choice((0, 1, 500))
    return said + trailers + b"\r\n"


def request(draw: random.Random) -> bytes:
    method = draw.choice(["GET", *["POST"] * 7, "PUT", "HEAD", "OPTIONS", "BREW"])
    body = question(draw) if method != "GET" or draw.random() < 0.1 else b""
    headers = [b"Host: x", *[b"Content-Type: application/json"] * (draw.random() < 0.5)]
    if draw.random() < 0.3:
        body = chunked(draw, body)
        headers.append(
            b"Transfer-Encoding: " + draw.choice((b"chunked", b"chunked", b"chunked", b"gzip, x"))
        )
    elif body or draw.random() < 0.5:
        wrong = (b"-1", b"x", b"99999999999999999999", str(len(body) + 7).encode())
        right = str(len(body)).encode()
        headers.append(b"Content-Length: " + (right if draw.random() < 0.8 else draw.choice(wrong)))
    more = (
        b"Content-Type: application/json", b"Content-Type: application/x-www-form-urlencoded",
        b"Content-Type: multipart/form-data; boundary=x", b"Connection: close",
        b"Content-Type: multipart/form-data; boundary=x; charset=" + draw.choice(CHARSETS),
        b"Connection: upgrade\r\nUpgrade: h2c",
        b"Expect: 100-continue", b"X-API-Key: \xff\xfe",
        b"X-A: " + b"a" * draw.choice((10, 40_000)),
        b"\r\n".join([b"X-%d: y" % i for i in range(draw.choice((3, 9000)))]), b"Cookie: a\x00b",
        b"Range: bytes=0-0",
    )  # fmt: skip
    headers += draw.sample(more, draw.randint(0, 3))
    path = draw.choice(ROUTES if method != "POST" or draw.random() < 0.2 else ASKED)
    path += draw.choice([*[""] * 12, "?a=b", "%00", "%2e%2e/", "/../..", "?" + "x" * 40_000])
    version = draw.choice([*["HTTP/1.1"] * 9, "HTTP/1.0", "HTTP/9.9", ""])
    said = f"{method} {path} {version}\r\n".encode() + b"\r\n".join(headers) + b"\r\n\r\n" + body
    if draw.random() < 0.3:
        damaged = bytearray(said)
        for _ in range(draw.randint(1, 5)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        said = bytes(damaged)
    return said * draw.choice((1, 1, 1, 2, 40))


def speak(draw: random.Random, connection: socket.socket) -> bytes:
    """Send a request as one of many kinds of clients; what was heard."""
    said = request(draw)
    manner = draw.choice(("whole", "whole", "pieces", "cut off", "stops", "deaf", "resets"))
    if manner in ("cut off", "stops"):
        said = said[: draw.randrange(len(said))]
    if manner == "pieces":
        for start in range(0, len(said), max(1, len(said) // 5)):
            connection.sendall(said[start : start + max(1, len(said) // 5)])
            time.sleep(0.01)
    else:
        connection.sendall(said)
    if manner == "cut off":
        connection.shutdown(socket.SHUT_WR)
    if manner in ("deaf", "resets"):
        time.sleep(0.05)
        if manner == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return b""
    heard = b""
    while more := connection.recv(65_536):  # at most until the service finds the connection idle
        heard += more
    return heard


def case(number: int, port: int) -> set[int]:
    """The statuses of what was answered."""
    draw = random.Random(number)
    source = f"127.0.0.{draw.randint(2, 200)}"
    heard = b""
    with socket.create_connection(
        ("127.0.0.1", port), timeout=HANG, source_address=(source, 0)
    ) as connection:
        try:
            heard = speak(draw, connection)
        except TimeoutError:
            raise AssertionError(f"case {number} hangs") from None
        except OSError:
            pass  # the service has hung up
    assert not heard or ANSWER.match(heard), (number, heard[:200])
    return {int(status) for status in ANSWER.findall(heard)}


def test_no_way_to_speak_http_breaks_the_service(trained, capfd) -> None:
    service = Service([str(trained)], SMALL, device="cpu")
    with running(service, QUICK) as address, ThreadPoolExecutor(AT_ONCE) as pool:
        port = int(address.rpartition(":")[2])
        statuses: set[int] = set()
        for found in pool.map(lambda number: case(number, port), range(CASES)):
            statuses |= found
        assert 500 not in statuses
        assert CASES < 1000 or {200, 400, 408, 413, 422, 431} <= statuses  # the cases reach far
        latest = time.monotonic() + HANG
        while service.batcher.waiting and time.monotonic() < latest:
            time.sleep(0.05)
        assert service.batcher.waiting == 0
        with socket.create_connection(("127.0.0.1", port), timeout=HANG) as connection:
            body = b'{"text": "eins zwei", "source": "de", "target": "en"}'
            connection.sendall(
                b"POST /v1/translate HTTP/1.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            assert b"one two" in connection.recv(65_536)
    assert "Traceback" not in capfd.readouterr().err
    print(f"\n{CASES} cases, answered with {sorted(statuses)}")
