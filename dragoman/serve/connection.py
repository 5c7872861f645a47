"""One connection: uvicorn's HTTP with limits of size and time.

uvicorn reads headers of any size and waits for them forever. Here the head of a request has a
largest size, and there are time limits to send the head, to send the body, and to take the answer.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dragoman.serve.batcher import StoppingError

_HEARD = count()
_LINGER_S = 0.5  # for a request that is on its way while the service stops
# Chunks of a body: some, and one more for so many bytes. Each costs a call from the parser, so a
# packet of one-byte chunks would hold the event loop for a tenth of a second.
_CHUNKS, _BYTES_OF_A_CHUNK = 1000, 256
_HEADERS = 100
_PERCENTS = 1000  # escapes in a path, each of which takes time
_PIPELINED = 16  # requests of one connection that may wait for earlier answers


@dataclass(frozen=True)
class ConnectionLimits:
    connections: int = 1000
    per_client: int = 100
    head_bytes: int = 32 * 1024
    receive_s: float = 10.0  # for the head of a request, and again for its body
    idle_s: float = 10.0  # between two requests
    send_s: float = 30.0  # for a client to take its answer


@dataclass
class _Head:
    """Sizes of a request line and headers that are being read."""

    received: int = 0  # bytes in packets that contain nothing else
    parsed: int = 0  # bytes that the parser has handed over
    headers: int = 0


class Connection(HttpToolsProtocol):
    def __init__(
        self, limits: ConnectionLimits, client: str, closed: Callable[[], None], **given: Any
    ):
        super().__init__(**given)
        self._limits, self._closed = limits, closed
        self.client_name = client
        self.admitted = True  # false: every request gets 503, because the service stops
        # Orders connections by their last packet. A counter, because several packets can have the
        # same time on the loop's clock.
        self.heard_at = 0
        self._head: _Head | None = None
        self._in_body = False
        self._body_bytes = self._chunks = 0
        self._framing = 0  # bytes of the body's chunk sizes, extensions and trailers
        self._unanswered: list[RequestResponseCycle] = []
        self._refusal = (400, "this is not HTTP.")
        self._refused = False
        self._stopping = False
        # Time limits for the client: to send what it began, and to take its answer.
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.heard_at = next(_HEARD)
        # Without a buffer `pause_writing` is called as soon as the client does not take a byte,
        # and `send_s` begins.
        transport.set_write_buffer_limits(high=0)
        self._wait_for_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)  # calls resume_writing
        # uvicorn only notifies the last request of a pipeline.
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        self._closed()

    @property
    def is_waiting(self) -> bool:
        """Tell whether it only waits for its client to send something."""
        return self._receiving is not None or self.timeout_keep_alive_task is not None

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self._refused:  # the connection closes after its last answer
            return
        self.heard_at = next(_HEARD)
        if self._head is None and not self._in_body:
            self._begin_head()
        head = self._head
        if self._in_body:
            self._framing += len(data)  # `on_body` takes off what is the body itself
        super().data_received(data)
        # The parser collects a trailer until its end, in quadratic time.
        if self._in_body and self._framing > self._limits.head_bytes + self._body_bytes // 8:
            self.refuse(*self._bad_chunks)
        # The packet did not complete the head, so all of it belongs there. The parser may have
        # kept a part to itself, which `_count` does not see.
        if head is not None and head is self._head:
            head.received += len(data)
            if head.received > self._limits.head_bytes:
                self.refuse(*self._too_large)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head is None:
            self._begin_head()
        if len(self.pipeline) >= _PIPELINED:
            self._stop_parsing(429, "too many pipelined requests on one connection.")

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        if url.partition(b"?")[0].count(b"%") > _PERCENTS:
            self._stop_parsing(400, "the path has too many percent signs.")
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # trailers after a chunked body are ignored
            self._count(len(name) + len(value))
            self._head.headers += 1
            if name.lower() == b"cookie":  # parsed for each request, and used by no route
                return
            if self._head.headers > _HEADERS:
                self._stop_parsing(431, f"the request has more than {_HEADERS} headers.")
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()  # raises if the path is malformed
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
        self._unanswered.append(self.cycle)
        self._head, self._in_body = None, True
        self._framing = self._body_bytes = self._chunks = 0
        self._wait_for_more()
        if self._stopping:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._framing -= len(body)
        self._chunks += 1
        if self._chunks > _CHUNKS + self._body_bytes // _BYTES_OF_A_CHUNK:
            self._stop_parsing(*self._bad_chunks)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        # After an early answer uvicorn set its idle timer, and the rest of the body cancelled it.
        if self.cycle.response_complete:
            self._wait_for_more()
        else:
            self._stop_waiting()
        super().on_message_complete()

    def _begin_head(self) -> None:
        self._head = _Head()
        self._wait_for_more()

    def _count(self, size: int) -> None:
        assert self._head is not None
        self._head.parsed += size
        if self._head.parsed > self._limits.head_bytes:
            self._stop_parsing(*self._too_large)

    def _wait_for_more(self) -> None:
        self._stop_waiting()
        late = f"the request did not arrive within {self._limits.receive_s:g} s."
        self._receiving = self.loop.call_later(self._limits.receive_s, self.refuse, 408, late)

    def _stop_waiting(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    # Sending

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(self._limits.send_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    # Stopping

    def shutdown(self) -> None:
        """Close after answering every request that has arrived.

        A connection without one stays for a moment: a request may be on its way, and closing now
        would reset the connection.
        """
        self._stopping = True
        # With keep_alive off, uvicorn closes the connection after the answer.
        if self._is_answered:
            self.loop.call_later(_LINGER_S, self._close)
        else:
            self.cycle.keep_alive = False

    def _close(self) -> None:
        if self._is_answered:
            self.refuse(503, str(StoppingError()))

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    # Refusals

    @property
    def _too_large(self) -> tuple[int, str]:
        return 431, f"the head of the request is larger than {self._limits.head_bytes:,} bytes."

    @property
    def _bad_chunks(self) -> tuple[int, str]:
        return 400, "the body has too many small chunks, or too long trailers."

    def _stop_parsing(self, status: int, message: str) -> None:
        """End parsing from a callback; uvicorn catches the exception and calls
        `send_400_response`."""
        self._refusal = status, message
        raise ValueError(message)

    def send_400_response(self, msg: str) -> None:
        self.refuse(*self._refusal)

    def refuse(self, status: int, message: str) -> None:
        """Answer the request that is being read, and close.

        The answer is omitted if another one has started or is due first.
        """
        if self.transport.is_closing():
            return
        if self.pipeline and status == 429:  # answer the requests that wait first
            self._refused = True
            self._stop_waiting()
            self.pipeline[0][0].keep_alive = False
            return
        last = self.cycle  # belongs to the request being read once its head is complete
        # An answer may be written only if no other is under way or due before it: HTTP/1.1 answers
        # in the order of requests.
        if self._in_body:
            free = not self.pipeline and not last.response_started
        else:
            free = last is None or (last.response_complete and self._head is not None)
        if free:
            self.transport.write(bare_answer(status, message))
        self.transport.close()


def bare_answer(status: int, message: str) -> bytes:
    """Format an answer of the connection itself, for which there is no request yet."""
    body = json.dumps({"error": message}).encode("ascii")
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode("ascii") + body
