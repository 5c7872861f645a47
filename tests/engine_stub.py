"""A stub of an engine that takes text: it speaks every dialect, and breaks promises on purpose.

It translates the sentences of `texts` by a table. Which promise it breaks for a text, and how
often, is told by the text's name, so that a test can know it.
"""

import json
import random
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dragoman.text.verbatim import verbatim_spans

TABLE = {
    "Dear": "Sehr geehrte",
    "please open the file": "bitte öffnen Sie die Datei",
    "please close the window": "bitte schließen Sie das Fenster",
    "and send it to": "und senden Sie sie an",
    "and copy it to": "und kopieren Sie sie nach",
    "The new": "Das neue",
    "The old": "Das alte",
    "printer": "Druckgerät",
    "was delivered on Monday with": "wurde am Montag geliefert mit",
    "pages and": "Seiten und",
    "sheets of paper": "Blatt Papier",
    "It is in the room on the left": "Es ist im Zimmer auf der linken Seite",
    "We thank you for your help": "Wir danken Ihnen für Ihre Hilfe",
    "very important": "sehr wichtig",
}
# In the answer to one text:
IN_TEXT = {
    "loses a mask": lambda text: _MASK.sub("", text, count=1),
    "doubles a mask": lambda text: _MASK.sub(lambda found: f"{found[0]} {found[0]}", text, count=1),
    "swaps two masks": lambda text: _swapped(text),
    "invents a tag": lambda text: f"{text} <x77/>",
    "forgets a term": lambda text: text.replace("Drucker", "Druckgerät"),
    "answers in French": lambda text: (
        "La nouvelle imprimante est arrivée dans la chambre avec nous."
    ),
    "returns the source": None,
    "chats before": lambda text: f"Sure! Here is the translation:\n\n{text}",
    "chats after": lambda text: f"{text}\n\nNote: I have kept all the names as they are.",
    "refuses": lambda text: "I'm sorry, but as an AI language model I cannot help with that.",
    "breaks lines": lambda text: text.replace(" und ", "\nund ", 1),
    "changes a number": lambda text: re.sub(r"\d{2,}(?!\S*[/>⟧])", "9871", text, count=1),
    "loses a number": lambda text: re.sub(r" \d{2,}(?= Seiten)", "", text, count=1),
    "a hundred times the length": lambda text: " ".join([text] * 100),
    "says nothing": lambda text: "",
    "stutters": lambda text: f"{text} bitte bitte bitte bitte",
    "quotes": lambda text: f"```\n{text}\n```",
    "stops early": lambda text: text[: len(text) // 8],
}
# In the answer to one request:
IN_TRANSPORT = (
    "is cut off", "times out", "sends half an answer", "429", "500", "sends no JSON",
    "sends no choices",
)  # fmt: skip
_MASK = re.compile(r"<[gx]\d+/?>|⟦\d+⟧|https?://\S+[\w/]|\w+\.txt")
# Not in a tag, and not one such as X47.
_OTHER_WORD = re.compile(r"(?<![\w<⟦/])[^\W\d_]{2,}(?![\w>⟧])")
_NAME = re.compile(r"\b[A-Z][a-z]+ka\b")


def names(count: int) -> list[str]:
    """Return different names of letters alone, which no language claims."""
    draw = random.Random(7)
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = [draw.choice("bdfgklmnprtv") + draw.choice("aiou") for _ in range(3)]
        found["".join(syllables).capitalize() + "ka"] = None
    return [*found]


def texts(count: int) -> list[str]:
    """Return different texts with files, addresses, terms, numbers, and several sentences."""
    made = []
    for row, name in enumerate(names(count)):
        printer = ("The new printer", "The old printer")[row % 2]
        made.append(
            f"Dear {name}, please open the file notes{row}.txt and send it to "
            f"https://example.org/{name}. {printer} was delivered on Monday with "
            f"{1200 + row} pages and {30 + row % 60} sheets of paper. We thank you for your help."
        )
    return made


def translated(text: str, terms: dict[str, str]) -> str:
    for source, target in sorted(TABLE.items(), key=lambda row: -len(row[0])):
        text = text.replace(source, target)
    if "printer" in terms:
        text = text.replace("Druckgerät", terms["printer"])
    return text


def _swapped(text: str) -> str:
    first, second = [found[0] for found in _MASK.finditer(text)][:2]
    return text.replace(first, "\0", 1).replace(second, first, 1).replace("\0", second, 1)


class Stub:
    """The state of a stub. `breaks` maps a name to what it breaks and how often."""

    def __init__(self, breaks: dict[str, tuple[str, int]] | None = None):
        self.breaks = breaks or {}
        self.calls = 0
        self.broken: Counter[str] = Counter()  # names, by how often their texts were broken
        self.heard: list[dict] = []
        self.keys: list[str] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def way(self, text: str, transport: bool) -> str:
        """Return what to break in the answer to a text, and count it."""
        for name in _NAME.findall(text):
            way, times = self.breaks.get(name, ("", 0))
            with self.lock:
                if way and (way not in IN_TEXT) == transport and self.broken[name] < times:
                    self.broken[name] += 1
                    return way
        return ""

    def answer(self, text: str, terms: dict[str, str]) -> str:
        good = translated(text, terms)
        way = self.way(text, False)
        if way == "returns the source":
            return text
        return IN_TEXT[way](good) if way else good


class AnyText(Stub):
    """Writes any text with other vowels, keeps what must be kept, and breaks every fifth once."""

    def answer(self, text: str, terms: dict[str, str]) -> str:
        spans = verbatim_spans(text)
        pieces, at = [], 0
        for start, end in [*spans, (len(text), len(text))]:
            pieces += [_OTHER_WORD.sub(_with_other_vowels, text[at:start]), text[start:end]]
            at = end
        good = "".join(pieces)
        number = zlib.crc32(text.encode())
        with self.lock:
            self.broken[text] += 1
            if number % 5 or self.broken[text] > 1:
                return good
        try:
            return [*IN_TEXT.values()][number // 5 % len(IN_TEXT)](good)
        except (TypeError, ValueError):  # nothing to swap in it, or the source again
            return text


def _with_other_vowels(word: re.Match[str]) -> str:
    return word[0].translate(str.maketrans("aou", "äöü"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def do_POST(self) -> None:
        stub = self.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with stub.lock:
            stub.calls += 1
            stub.heard.append(body)
            stub.keys.append(self.headers.get("Authorization", ""))
            stub.at_once += 1
            stub.most_at_once = max(stub.most_at_once, stub.at_once)
        try:
            self._answer(stub, body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has given up
        finally:
            with stub.lock:
                stub.at_once -= 1

    def _answer(self, stub: Stub, body: dict) -> None:
        way = stub.way(json.dumps(body, ensure_ascii=False), True)
        if way == "times out":
            time.sleep(6.0)
        if way.isdecimal():
            return self._send(int(way), b"{}")
        if way == "sends no JSON":
            return self._send(200, b"<html>busy</html>")
        if way == "sends no choices":
            return self._send(200, b"{}")
        data = self._data(stub, body)
        if way == "is cut off":
            data["choices"][0]["message"]["content"] = "Sehr geehrte"
            data["choices"][0]["finish_reason"] = "length"
        raw = json.dumps(data).encode()
        if way == "sends half an answer":
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw[: len(raw) // 2])
            self.close_connection = True
            return None
        return self._send(200, raw)

    def _data(self, stub: Stub, body: dict) -> dict:
        if "text" in body:  # DeepL
            return {"translations": [{"text": stub.answer(text, {})} for text in body["text"]]}
        if "q" in body:  # LibreTranslate
            return {"translatedText": [stub.answer(text, {}) for text in body["q"]]}
        said = "\n".join(message["content"] for message in body["messages"])
        content = body["messages"][-1]["content"]
        terms = dict(re.findall(r"(\w+) (?:=|translates to) (\w+)", said))
        terms |= dict(body.get("glossary", []))
        if parts := re.findall(r"<t(\d+)>(.*?)</t\1>", content, re.S):
            answers = [f"<t{n}>{stub.answer(text, terms)}</t{n}>" for n, text in parts]
            whole = "\n".join(answers)
        else:
            # The text comes after the instruction, or before the name of the language.
            text = re.sub(r"(?s)\A.*\nEnglish: (.*)\nGerman:\Z", r"\1", content).split("\n\n")[-1]
            text = text.removeprefix("[Source Text]\n").strip()
            whole = stub.answer(text, terms)
        return {
            "choices": [{"message": {"content": whole}, "finish_reason": "stop"}],
            "usage": {"total_tokens": len(said) // 4 + len(whole) // 4},
        }

    def _send(self, status: int, raw: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    """Yield the stub's address while it runs."""
    handler = type("Handler", (_Handler,), {"stub": stub})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
