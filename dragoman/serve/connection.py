"""One connection: HTTP as uvicorn speaks it, with limits of size and time.

uvicorn reads headers of any size and waits for them forever. Here the head of a request has a
largest size, and a client has time limits to send the head, to send the body, and to take the
answer.
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
_PIPELINED = 16  # requests of one connection that may wait for the answer to the one before


@dataclass(frozen=True)
class ConnectionLimits:
    connections: int = 1000
    per_client: int = 100
    head_bytes: int = 32 * 1024
    receive_s: float = 10.0  # for the head of a request, and as long for its body
    idle_s: float = 10.0  # between two requests
    send_s: float = 30.0  # for a client to take its answer


@dataclass
class _Head:
    """Request line and headers while they are read."""

    received: int = 0  # bytes that came for them alone
    parsed: int = 0  # bytes that the parser has handed over


class Connection(HttpToolsProtocol):
    def __init__(
        self, limits: ConnectionLimits, client: str, closed: Callable[[], None], **given: Any
    ):
        super().__init__(**given)
        self._limits, self._closed = limits, closed
        self.client_name = client
        self.admitted = True  # else the service stops, and every request is refused
        self.heard_at = 0  # a count of what came: the loop's clock does not tell all apart
        self._head: _Head | None = None
        self._in_body = False
        self._unanswered: list[RequestResponseCycle] = []
        self._refusal = (400, "this is not HTTP.")
        self._refused = False
        self._stopping = False
        # time for the client to send what it began
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None  # time for it to take its answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.heard_at = next(_HEARD)
        # Without a buffer we are told of every byte that the client does not take, and `send_s`
        # runs.
        transport.set_write_buffer_limits(high=0)
        self._wait_for_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)  # which calls resume_writing
        for cycle in self._unanswered:  # uvicorn tells only the last one
            cycle.disconnected = True
            cycle.message_event.set()
        self._closed()

    @property
    def is_waiting(self) -> bool:
        """Whether it only waits for its client to send something."""
        return self._receiving is not None or self.timeout_keep_alive_task is not None

    # What the client sends

    def data_received(self, data: bytes) -> None:
        if self._refused:  # what is left of a connection that closes after its last answer
            return
        self.heard_at = next(_HEARD)
        if self._head is None and not self._in_body:
            self._begin_head()
        head = self._head
        super().data_received(data)
        # all of it belongs to the head; the parser may hold it back
        if head is not None and head is self._head:
            head.received += len(data)
            if head.received > self._limits.head_bytes:
                self.refuse(*self._too_large)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head is None:
            self._begin_head()
        if len(self.pipeline) >= _PIPELINED:
            self._stop_parsing(429, "too many requests at once on one connection.")

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # else it is a trailer, which nobody reads
            self._count(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()  # which raises where the path is no path
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
        self._unanswered.append(self.cycle)
        self._head, self._in_body = None, True
        self._wait_for_more()
        if self._stopping:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._in_body = False
        if self.cycle.response_complete:  # it was answered early, and uvicorn has no timer any more
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

    # What it does not take

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(self._limits.send_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    # The end

    def shutdown(self) -> None:
        """Close after the answers to all that has come. A connection without a request has a
        moment: the request may be on its way, and closing now would reset the connection."""
        self._stopping = True
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

    def _stop_parsing(self, status: int, message: str) -> None:
        """For the parser's callbacks: only an exception ends it.

        Then uvicorn calls `send_400_response`.
        """
        self._refusal = status, message
        raise ValueError(message)

    def send_400_response(self, msg: str) -> None:
        self.refuse(*self._refusal)

    def refuse(self, status: int, message: str) -> None:
        """Answer what is being read, and close.

        Not if an answer is under way, or another is due before.
        """
        if self.transport.is_closing():
            return
        if self.pipeline and status == 429:  # those that wait are answered first
            self._refused = True
            self._stop_waiting()
            self.pipeline[0][0].keep_alive = False
            return
        last = self.cycle  # of the request that is being read, if its head is complete
        if self._in_body:
            free = not self.pipeline and not last.response_started
        else:
            free = last is None or (last.response_complete and self._head is not None)
        if free:
            self.transport.write(bare_answer(status, message))
        self.transport.close()


def bare_answer(status: int, message: str) -> bytes:
    """An answer of the connection itself, before there is a request to answer."""
    body = json.dumps({"error": message}).encode("ascii")
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode("ascii") + body
