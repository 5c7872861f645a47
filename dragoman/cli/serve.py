"""`dragoman serve`"""

import gc
import sys
from pathlib import Path

from dragoman.bundle.folder import bundled_models
from dragoman.cli.arguments import option
from dragoman.cli.options import DEVICE, ENGINE
from dragoman.errors import MissingPackageError, how_to_install
from dragoman.storage.files import storage_errors


def command(
    model: list[str] | None = option(
        None,
        "Folder of a model, or of several (repeatable); default: the bundled one.",
        "--model",
        "-m",
    ),
    host: str = option("127.0.0.1", "Address to listen on; 0.0.0.0: all addresses."),
    port: int = option(8000, "Port to listen on; 0: any free port.", min=0, max=65535),
    api_key: str = option("", "Key that clients must send.", environment="DRAGOMAN_API_KEY"),
    keys: list[str] | None = option(
        None, "File of keys, each with its own limits (repeatable).", metavar="F.toml"
    ),
    queue: int = option(1024, "Lines that may wait; beyond that, clients get 429.", min=1),
    time_limit: int = option(30, "Seconds per request.", min=1, max=86_400),
    max_characters: int = option(5000, "Characters per request.", min=1),
    max_work: int = option(
        150_000,
        "Work per request, in positions of the model: pieces of the text, plus pieces of "
        "its translation times the beam.",
        min=1,
    ),
    max_file_bytes: int = option(10 * 2**20, "Bytes of a document.", min=1),
    max_file_characters: int = option(
        300_000, "Characters of a document that are translated.", min=1
    ),
    suggestions: str = option("", "Folder for translations that clients like better; .tsv files."),
    max_connections: int = option(
        1000, "Open connections; fewer if the system allows fewer open files.", min=1
    ),
    max_connections_per_client: int = option(
        100, "Open connections from one address, at most half of all.", min=1
    ),
    grace: int = option(
        10, "Seconds to finish requests after SIGTERM or Ctrl-C.", min=1, max=86_400
    ),
    allow_origin: list[str] | None = option(
        None, "A site whose pages may call the service (repeatable)."
    ),
    allow_host: list[str] | None = option(
        None,
        "A further name of the service, apart from localhost, --host and numeric addresses "
        "(repeatable); *: any.",
    ),
    root_path: str = option("", "Where a proxy shows the service, such as /translate."),
    access_log: bool = option(False, "A line of JSON on stderr for each request."),
    cache: int = option(0, "Translated texts to keep for repeated requests.", min=0),
    engine: str = ENGINE,
    device: str = DEVICE,
) -> None:
    """Serve a translator over HTTP: a page at /, an API at /v1 (see /docs), a
    LibreTranslate-compatible API.

    Example: `dragoman serve --port 8000`
    """
    # Imported here, because only the extra `serve` installs what the service needs.
    try:
        from dragoman.serve.app import create_app
        from dragoman.serve.connection import ConnectionLimits
        from dragoman.serve.server import Server, listen
        from dragoman.serve.service import Limits, Service
    except ModuleNotFoundError as error:
        needed = ("fastapi", "httptools", "pydantic", "python_multipart", "starlette", "uvicorn")
        # A missing module of our own is a defect, not a missing package.
        if error.name not in needed:
            raise
        raise MissingPackageError(
            f"serving needs FastAPI and uvicorn: {how_to_install('serve')}."
        ) from None

    # Before the models, which take seconds: a port in use is reported immediately.
    listener = listen(host, port)
    limits = Limits(
        queue_lines=queue,
        time_limit_s=time_limit,
        max_characters=max_characters,
        max_work=max_work,
        cache_texts=cache,
        max_file_bytes=max_file_bytes,
        max_file_characters=max_file_characters,
    )
    kept = Path(suggestions) if suggestions else None
    if kept is not None:
        with storage_errors(f"making {suggestions}"):
            kept.mkdir(parents=True, exist_ok=True)
    service = Service(
        model or bundled_models(),
        limits,
        api_key,
        device,
        engine,
        suggestions=kept,
        key_files=keys or (),
    )
    app = create_app(
        service,
        allow_origin or (),
        root_path=root_path,
        access_log=access_log,
        allow_hosts=[host, *(allow_host or ())],
    )
    server = Server(app, ConnectionLimits(max_connections, max_connections_per_client), grace)
    # Models stay loaded, so the garbage collector need not search them again and again.
    gc.freeze()
    # --port 0 chose a free port, so the address comes from the socket.
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
    print(f"dragoman serves at {address} (Ctrl-C ends it)", file=sys.stderr, flush=True)
    server.run(sockets=[listener])
