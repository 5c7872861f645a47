"""`dragoman serve`"""

import gc
import sys
from pathlib import Path
from typing import Annotated

from dragoman.bundle.folder import bundled_models
from dragoman.cli.arguments import Option
from dragoman.cli.options import Device, EngineName
from dragoman.errors import MissingPackageError, how_to_install
from dragoman.storage.files import storage_errors


def command(
    model: Annotated[
        list[str] | None,
        Option(
            "--model",
            "-m",
            help="Folder of a model, or of several (repeatable); default: the bundled one.",
        ),
    ] = None,
    host: Annotated[
        str, Option(help="Address to listen on; 0.0.0.0: all addresses.")
    ] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="Port to listen on; 0: any free port.")
    ] = 8000,
    api_key: Annotated[
        str,
        Option(environment="DRAGOMAN_API_KEY", help="Key that clients must send."),
    ] = "",
    keys: Annotated[
        list[str] | None,
        Option(metavar="F.toml", help="File of keys, each with its own limits (repeatable)."),
    ] = None,
    queue: Annotated[
        int, Option(min=1, help="Lines that may wait; beyond that, clients get 429.")
    ] = 1024,
    time_limit: Annotated[int, Option(min=1, max=86_400, help="Seconds per request.")] = 30,
    max_characters: Annotated[int, Option(min=1, help="Characters per request.")] = 5000,
    max_work: Annotated[
        int,
        Option(
            min=1,
            help="Work per request, in positions of the model: pieces of the text, plus pieces of "
            "its translation times the beam.",
        ),
    ] = 150_000,
    max_file_bytes: Annotated[int, Option(min=1, help="Bytes of a document.")] = 10 * 2**20,
    max_file_characters: Annotated[
        int, Option(min=1, help="Characters of a document that are translated.")
    ] = 300_000,
    suggestions: Annotated[
        str, Option(help="Folder for translations that clients like better; .tsv files.")
    ] = "",
    max_connections: Annotated[
        int,
        Option(min=1, help="Open connections; fewer if the system allows fewer open files."),
    ] = 1000,
    max_connections_per_client: Annotated[
        int, Option(min=1, help="Open connections from one address, at most half of all.")
    ] = 100,
    grace: Annotated[
        int,
        Option(min=1, max=86_400, help="Seconds to finish requests after SIGTERM or Ctrl-C."),
    ] = 10,
    allow_origin: Annotated[
        list[str] | None,
        Option(help="A site whose pages may call the service (repeatable)."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option(
            help="A name under which clients may ask for the service, besides localhost, --host "
            "and addresses in numbers (repeatable); *: any."
        ),
    ] = None,
    root_path: Annotated[
        str, Option(help="Where a proxy shows the service, such as /translate.")
    ] = "",
    access_log: Annotated[
        bool, Option("--access-log", help="A line of JSON on stderr for each request.")
    ] = False,
    cache: Annotated[
        int, Option(min=0, help="Translated texts to keep for repeated requests.")
    ] = 0,
    engine: EngineName = "auto",
    device: Device = "auto",
) -> None:
    """Serve a translator over HTTP: a page at /, an API at /v1 (see /docs), a
    LibreTranslate-compatible API.

    Example: `dragoman serve --port 8000`
    """
    try:
        from dragoman.serve.app import create_app
        from dragoman.serve.connection import ConnectionLimits
        from dragoman.serve.server import Server, listen
        from dragoman.serve.service import Limits, Service
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "httptools", "uvicorn", "starlette", "pydantic"):
            raise
        raise MissingPackageError(
            f"serving needs FastAPI and uvicorn: {how_to_install('serve')}."
        ) from None

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
    # what is loaded now stays: no need to look through all of it for garbage, over and over
    gc.freeze()
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
    print(f"dragoman serves at {address} (Ctrl-C ends it)", file=sys.stderr, flush=True)
    server.run(sockets=[listener])
