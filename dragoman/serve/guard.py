"""Middleware around every request: limits of size and time, headers, metrics."""

import asyncio
import ipaddress
import json
import sys
import time
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serve.prometheus import Metrics
from dragoman.serve.server import client_of

# For every answer that sets no policy of its own: a browser runs nothing in it, shows it in no
# frame, and sends nothing from it.
_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
# Of a body that is too large this much is read and dropped: closing a connection with unread bytes
# resets it, and the client would not see the answer.
_DRAINED_BYTES = 8 * 2**20
# For all bodies whose clients have shown no key yet; one client may have a quarter.
_UNKEYED_BYTES = 64 * 2**20
# nginx's status for a client that disconnected. It only appears in metrics and logs.
_CLIENT_LEFT = 499


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        max_body_bytes: int,
        time_limit_s: float,
        metrics: Metrics,
        access_log: bool = False,
        root_path: str = "",
        files: Collection[str] = (),
        max_file_bytes: int = 0,
        hosts: Collection[str] = ("*",),
        origins: Collection[str] = (),
    ):
        """Wrap an application.

        `access_log` writes a line of JSON to standard error for each request. `root_path` is the
        path at which a proxy shows the service; the proxy may or may not strip it. The paths in
        `files` take documents of up to `max_file_bytes`. `hosts` are the names of this service,
        and `origins` the sites whose pages may call it.
        """
        self._unkeyed: Counter[str] = Counter()
        self.hosts, self.origins = {host.lower() for host in hosts}, set(origins)
        self.app, self.metrics, self.access_log = app, metrics, access_log
        self.root_path = root_path
        self.max_body_bytes, self.time_limit_s = max_body_bytes, time_limit_s
        self.files, self.max_file_bytes = files, max_file_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        if self.root_path:
            scope["root_path"] = self.root_path
        if method == "HEAD":
            # Routes answer HEAD like GET. The scope is copied, because uvicorn looks at its own to
            # omit the body.
            scope = {**scope, "method": "GET"}
            send = _without_body(send)
        started = time.monotonic()
        takes_file = scope["path"] in self.files
        takes_file |= scope["path"].removeprefix(self.root_path) in self.files
        most = self.max_file_bytes if takes_file else self.max_body_bytes
        status = 0
        is_complete = False  # all of the answer is written
        size = 0
        time_limit = asyncio.timeout(self.time_limit_s)
        watching: asyncio.Task[None] | None = None

        async def limited_receive() -> Message:
            nonlocal size, status, watching
            message = await receive()
            if message["type"] == "http.disconnect":
                status = _CLIENT_LEFT
                raise HTTPException(400, "the client disconnected before the request was complete.")
            size += len(message.get("body", b""))
            unkeyed.take(len(message.get("body", b"")))
            if size > most:
                while message.get("more_body") and size <= most + _DRAINED_BYTES:
                    message = await receive()
                    size += len(message.get("body", b""))
                raise HTTPException(413, f"the body is larger than {most:,} bytes.")
            # All of the body is here: the next message is the client's disconnection.
            if not message.get("more_body") and watching is None:
                watching = asyncio.create_task(watch())
            return message

        async def watch() -> None:
            """Cancel the work for a client that disconnects, by letting its time run out."""
            nonlocal status
            while (await receive())["type"] != "http.disconnect":
                pass
            if not is_complete:
                status = _CLIENT_LEFT
                time_limit.reschedule(asyncio.get_running_loop().time())

        async def watched_send(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.body":
                is_complete = not message.get("more_body")
            elif message["type"] == "http.response.start":
                status = status or message["status"]
                headers = [*message.get("headers", []), *_HEADERS]
                if _POLICY[0] not in (name.lower() for name, _ in headers):
                    headers.append(_POLICY)
                message["headers"] = headers
            await send(message)

        state = scope.setdefault("state", {})
        state["host_checked"] = "*" not in self.hosts
        address, _ = scope.get("client") or ("", 0)
        unkeyed = state["unkeyed"] = _Unkeyed(self._unkeyed, client_of(address))
        try:
            if refusal := self._refusal(scope):
                await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, watched_send)
                return
            async with time_limit:
                await self.app(scope, limited_receive, watched_send)
        except TimeoutError:
            # With a status, the answer has begun or the client has left.
            if not status:
                answer = JSONResponse(
                    {"error": f"this took longer than {self.time_limit_s:g} s."}, 504
                )
                await answer(scope, receive, watched_send)
        finally:
            unkeyed.release()
            if watching is not None:
                watching.cancel()
            seconds = time.monotonic() - started
            route = scope.get("route")
            self.metrics.answered(getattr(route, "path", "other"), status or 500, seconds)
            if self.access_log:
                _log(scope, method, status or 500, seconds, size)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and message for a request that a browser was tricked into sending.

        It names a host that is not ours (DNS rebinding), or it changes something and comes from
        another site's page. Numeric addresses are always ours: no name was looked up.
        """
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "").lower()
        if host and not self._is_ours(host):
            return 421, f"this service is not {_shown(host)}: --allow-host adds a name."
        origin = headers.get(b"origin", "").lower()
        if not origin or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return None
        site = origin.partition("://")[2]
        if {origin, "*"} & self.origins or site == host:
            return None
        # A proxy may have replaced the Host header, so the page's own host differs from it.
        if site and "*" not in self.hosts and _name(site) in self.hosts:
            return None
        return 403, f"pages of {_shown(origin)} may not call this service (--allow-origin)."

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if "*" in self.hosts or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost"
        return True


class _Unkeyed:
    """Counts the bytes of a body until its client has shown a key, which may be a field of it.

    `held` counts the bytes of all such bodies by client.
    """

    def __init__(self, held: Counter[str], client: str):
        self._held, self._client, self._taken = held, client, 0
        self._is_admitted = False

    def take(self, size: int) -> None:
        """Count bytes, and raise 429 beyond the limits."""
        if self._is_admitted:
            return
        self._held[self._client] += size
        self._taken += size
        if self._held[self._client] > _UNKEYED_BYTES // 4 or self._held.total() > _UNKEYED_BYTES:
            message = "too much is being sent without a key: send the key in a header."
            raise HTTPException(429, message, {"Retry-After": "10"})

    def release(self) -> None:
        """Stop counting: the client is admitted, or the request is over."""
        self._is_admitted = True
        self._held[self._client] -= self._taken
        self._taken = 0
        if not self._held[self._client]:
            del self._held[self._client]


def _name(host: str) -> str:
    """Return a host without its port.

    >>> _name("[::1]:80"), _name("localhost:8000"), _name("example.org")
    ('::1', 'localhost', 'example.org')
    """
    # An IPv6 address has colons of its own, so it is in brackets.
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] or host


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:100])


def _without_body(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return sent


def _log(scope: Scope, method: str, status: int, seconds: float, size: int) -> None:
    """Print one request as a line of JSON, without its query string, which may contain texts."""
    client = scope.get("client")
    entry = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "client": client[0] if client else None,
        "key": scope.get("state", {}).get("key") or None,
        "method": method,
        "path": scope["path"],
        "status": status,
        "milliseconds": round(1000 * seconds, 1),
        "body_bytes": size,
    }
    print(json.dumps(entry), file=sys.stderr, flush=True)
