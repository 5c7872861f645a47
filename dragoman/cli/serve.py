"""`dragoman serve`"""

import gc
import signal
import socket
import sys
from typing import Annotated

import typer

from dragoman.bundle import BUNDLED
from dragoman.cli.options import Device, EngineName
from dragoman.errors import ConfigError, MissingPackageError


def command(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Folder of a trained model; may be repeated. Without: the package's own."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0: at every address there is.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0: any that is free.")] = 8000,
    api_key: Annotated[
        str, typer.Option(envvar="DRAGOMAN_API_KEY", help="Clients must show this key.", show_default=False)
    ] = "",
    queue: Annotated[int, typer.Option(min=1, help="Lines that may wait; beyond it clients get 429.")] = 1024,
    time_limit: Annotated[int, typer.Option(min=1, max=86_400, help="Seconds for a request.")] = 30,
    max_characters: Annotated[int, typer.Option(min=1, help="Characters in a request.")] = 5000,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may call the service; may be repeated.")
    ] = None,
    engine: EngineName = "auto",
    device: Device = "auto",
) -> None:
    """Serve a translator over HTTP: a page at /, an API at /v1 (see /docs), LibreTranslate's doors beside it.

    Example: `dragoman serve --port 8000`
    """
    try:
        import uvicorn

        from dragoman.serve.app import create_app
        from dragoman.serve.service import Limits, Service
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "pydantic"):
            raise
        raise MissingPackageError("serving needs FastAPI and uvicorn: pip install 'dragoman[serve]'.") from None

    listener = _listen(host, port)
    limits = Limits(queue_lines=queue, time_limit_s=time_limit, max_characters=max_characters)
    app = create_app(Service(model or [BUNDLED], limits, api_key, device, engine), allow_origin or ())
    gc.freeze()  # what is loaded now stays: no need to look through all of it for garbage, over and over
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=time_limit + 1,
    )
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
    print(f"dragoman serves at {address} (Ctrl-C ends it)", file=sys.stderr, flush=True)
    for ending in (signal.SIGINT, signal.SIGTERM):  # uvicorn finishes what it accepted, then raises the signal again
        signal.signal(ending, lambda *_: None)
    uvicorn.Server(settings).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """The socket, taken before the model is read: a port in use shows at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen at {host}, port {port} ({error.strerror}): choose another --port.") from None
