"""uvicorn with limits on connections and on the time to stop.

uvicorn accepts every connection, and stops when its last client lets it. This server accepts a
number of connections that depends on how many files the process may open, and a smaller number from
each client. A signal ends the process within a grace period, even if the engine hangs or a client
does not read.
"""

import asyncio
import errno
import ipaddress
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from types import FrameType

import uvicorn
from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from dragoman.errors import ConfigError
from dragoman.serve.batcher import StoppingError
from dragoman.serve.connection import Connection, ConnectionLimits, bare_answer

_SPARE_FILES = 16  # kept for other files of the process
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LAST_S = 1.5  # end of the grace period, reserved for shutting down
_QUIET_S = 0.1  # for requests that are on their way at the signal
# Connections accepted later than this after the signal get 503.
_ADMITTED_S = 1.0
# One line of a kind in this time, so that an attack cannot fill the log as well.
_LOG_EVERY_S = 60.0


@lru_cache(1024)
def client_of(host: str) -> str:
    """Return the client that an address belongs to: itself, or in IPv6 the /64 network, which is
    what one household gets.

    >>> client_of("2001:db8::1") == client_of("2001:db8::ffff:2")
    True
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return host


class Server(uvicorn.Server):
    def __init__(
        self, app: FastAPI, limits: ConnectionLimits = ConnectionLimits(), grace_s: float = 10.0
    ):
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                log_level="error",  # lower levels would log mistakes of clients
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=limits.idle_s,  # type: ignore[arg-type]
                timeout_graceful_shutdown=grace_s,  # type: ignore[arg-type]
            )
        )
        self.service = app.state.service
        self.limits = _within_open_files(limits)
        self.grace_s = grace_s
        self._connected: Counter[str] = Counter()  # connections of each client
        self._closed = asyncio.Event()  # set when a connection closes
        self._logged: dict[str, float] = {}
        self._accepting: list[asyncio.Task[None]] = []
        self._admits_until = math.inf  # time of the event loop
        self._reloading: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        # Only the main thread gets signals, and Windows has no SIGHUP.
        with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        # uvicorn's own way of accepting connections is not used.
        self.servers = []
        self._accepting = [
            asyncio.create_task(self._accept(listener)) for listener in sockets or ()
        ]
        self.started = True
        _notify("READY=1")

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections while there is room; further ones wait in the kernel's queue."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                connection, (host, *_) = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _OUT_OF_FILES:
                    self._log(
                        "files", f"no connection can be accepted ({error.strerror}): new ones wait."
                    )
                    await asyncio.sleep(0.1)
                continue  # else the client left before it was accepted
            client = client_of(host)
            if self._connected[client] >= self.limits.per_client:
                most = self.limits.per_client
                self._log("client", f"{client} has {most} connections: more are refused.")
                _refuse(connection, 429, f"you have {most} connections open: close one.")
                continue
            try:
                await self._room()
            except asyncio.CancelledError:
                _refuse(connection, 503, str(StoppingError()))
                raise
            # Shielded: a connection that was accepted before the stop is still served.
            await asyncio.shield(self._take(connection, client))

    async def _room(self) -> None:
        """Wait until there is room for one more connection.

        Connections that only wait for their clients make room. The first to go belongs to the
        client with most of them, and has been silent longest.
        """
        while self._connected.total() >= self.limits.connections:
            self._closed.clear()
            waiting = [connection for connection in self._open() if connection.is_waiting]
            if waiting:
                held = Counter(connection.client_name for connection in waiting)
                silent = min(waiting, key=lambda one: (-held[one.client_name], one.heard_at))
                silent.refuse(503, "all connections are taken: try again.")
            else:
                self._log(
                    "full", f"all {self.limits.connections} connections are taken: new ones wait."
                )
            await self._closed.wait()

    async def _take(self, connection: socket.socket, client: str) -> None:
        self._connected[client] += 1
        make = partial(self._connection, client)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(make, connection)
        except OSError:  # the client has left already
            connection.close()
            self._release(client)

    def _connection(self, client: str) -> Connection:
        connection = Connection(
            self.limits,
            client,
            partial(self._release, client),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        if self.service.stopping:
            connection.shutdown()
        if asyncio.get_running_loop().time() > self._admits_until:
            connection.admitted = False
            connection.app = _unavailable
        return connection

    def _release(self, client: str) -> None:
        self._connected[client] -= 1
        if not self._connected[client]:
            del self._connected[client]
        self._closed.set()

    def _log(self, kind: str, line: str) -> None:
        now = time.monotonic()
        if now - self._logged.get(kind, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged[kind] = now
            print(f"dragoman: {line}", file=sys.stderr, flush=True)

    def _reload(self) -> None:
        """Read models and keys again on SIGHUP, while requests are served."""

        async def reload() -> None:
            try:
                await self.service.reload()
                line = "models and keys were read again."
            # Any error: a mistake in the new files must not end a service that runs.
            except Exception as error:
                line = f"models and keys were not replaced: {error}"
            print(f"dragoman: {line}", file=sys.stderr, flush=True)
            _notify(f"STATUS={line}")

        # The event loop keeps only weak references to tasks.
        task = asyncio.get_running_loop().create_task(reload())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop within the grace period on SIGTERM or SIGINT, and immediately on the second."""
        # 128 + the signal's number is what a shell reports for a killed process.
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        # A thread that hangs in a native call keeps the process alive, so a timer ends it.
        timer = threading.Timer(self._from_end(0.2), self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        line = f"dragoman: the service did not stop within {self.grace_s:g} s and is ended now."
        print(line, file=sys.stderr, flush=True)
        os._exit(1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the requests that have arrived, send 503 to the rest near the end of the grace
        period, then hang up.

        uvicorn would stop listening first. Then the kernel resets connections that wait to be
        accepted, and uvicorn resets those whose requests it has not read yet.
        """
        loop = asyncio.get_running_loop()
        self._admits_until = loop.time() + _ADMITTED_S
        self.service.stop()
        _notify("STOPPING=1")
        loop.call_later(self._from_end(1.0), self.service.batcher.stop)
        loop.call_later(self._from_end(0.6), self._hang_up)
        for connection in self._open():
            connection.shutdown()
        # Requests that the kernel has received already get their answers.
        await asyncio.sleep(_QUIET_S)
        while any(connection.admitted for connection in self._open()):
            await asyncio.sleep(0.05)
        await self._stop_listening(sockets or ())
        loop.call_later(_QUIET_S, self._hang_up)
        while self._connected or self.server_state.tasks:
            await asyncio.sleep(0.02)
        await self.lifespan.shutdown()

    async def _stop_listening(self, listeners: Sequence[socket.socket]) -> None:
        # Cancelling an accept that has just succeeded would lose the connection.
        latest = time.monotonic() + _ADMITTED_S
        while select.select(listeners, (), (), 0)[0] and time.monotonic() < latest:
            await asyncio.sleep(0.01)
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listener in listeners:
            listener.close()

    def _open(self) -> list[Connection]:
        return [one for one in self.server_state.connections if isinstance(one, Connection)]

    def _from_end(self, share: float) -> float:
        """Return the seconds after the signal at which this share of the last part remains."""
        return self.grace_s - share * min(_LAST_S, self.grace_s / 2)

    def _hang_up(self) -> None:
        for connection in self._open():
            connection.transport.abort()


def _refuse(connection: socket.socket, status: int, message: str) -> None:
    with connection, suppress(OSError):
        connection.send(bare_answer(status, message))


async def _unavailable(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503 after reading the whole request: closing with unread bytes resets a connection."""
    while (await receive()).get("more_body"):
        pass
    await JSONResponse({"error": str(StoppingError())}, 503)(scope, receive, send)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket. The command does this before it loads a model, so that a port in use is
    reported immediately."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        cause = str(error.strerror).partition(" (")[0]  # Python appends the address
        raise ConfigError(
            f"cannot listen on {host}, port {port} ({cause}): choose another "
            f"{'--port' if is_port else '--host, one of this machine'}."
        ) from None


def _notify(state: str) -> None:
    """Send a state to systemd if it started the service with `Type=notify` (sd_notify(3))."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        if address.startswith("@"):  # an abstract socket
            address = "\0" + address[1:]
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto(state.encode(), address)


def _within_open_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Lower the number of connections to the number of files that may be opened; one client may
    have half of them."""
    if sys.platform == "win32":  # has no such limit
        return limits
    import resource

    may_open, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/dev/fd"))  # noqa: PTH208
    room = (
        (may_open - opened - _SPARE_FILES) // 2  # an upload is a second file of its connection
        if may_open != resource.RLIM_INFINITY
        else limits.connections
    )
    if room < 1:
        raise ConfigError(
            f"{may_open} open files are too few to serve ({opened} are already open): raise "
            "ulimit -n."
        )
    connections = min(limits.connections, room)
    return replace(
        limits, connections=connections, per_client=max(1, min(limits.per_client, connections // 2))
    )
