"""The application: routes, error handlers and middleware of a service."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from dragoman.config.plugins import import_lab
from dragoman.serve import ROUTERS, api, deepl, documents, error_handlers, libre, openai, pages
from dragoman.serve.door import Cost
from dragoman.serve.guard import Guard
from dragoman.serve.heap import keep_small
from dragoman.serve.requests import BODIES
from dragoman.serve.service import Service
from dragoman.storage.version import __version__


def create_app(
    service: Service,
    allow_origins: Sequence[str] = (),
    *,
    root_path: str = "",
    access_log: bool = False,
    allow_hosts: Sequence[str] = ("*",),
) -> FastAPI:
    """Create the application.

    `root_path` is the path at which a proxy shows the service, such as /translate. `allow_hosts`
    are the names of the service apart from numeric addresses; "*" allows any.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher = service.batcher
        batcher.start()
        # Abandoned searches count as well: they have taken memory.
        small = asyncio.create_task(keep_small(lambda: batcher.batches + batcher.abandoned))
        yield
        small.cancel()
        app.state.jobs.close()
        await service.close()

    app = FastAPI(
        title="dragoman",
        version=__version__,
        description="Translation by a trained model, with alternatives, word links and attention.",
        lifespan=lifespan,
        # FastAPI's own pages load scripts from other sites; /docs is one of ours.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `pages` serves it
        # Such a redirect would go to the host that the client named.
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.jobs = documents.DocumentJobs(service)
    app.state.glossaries = deepl.Glossaries()
    import_lab()  # adds routes
    plugins = map(import_module, ROUTERS)
    for part in (api, *plugins, openai, documents, libre, deepl, pages):
        # `include_router` would match in two steps: a sixth of the time of a short request.
        app.router.routes.extend(part.router.routes)
    error_handlers.install(app)
    _describe(app, bool(service.keys), root_path.rstrip("/"))
    limits = service.limits
    app.add_middleware(
        Guard,
        max_body_bytes=limits.max_body_bytes,
        time_limit_s=limits.time_limit_s,
        metrics=service.metrics,
        files=("/v1/documents", "/translate_file", "/v2/document"),
        max_file_bytes=limits.max_file_bytes,
        access_log=access_log,
        root_path=root_path.rstrip("/"),
        hosts=allow_hosts,
        origins=allow_origins,
    )
    if allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(allow_origins),
            allow_methods=["*"],
            allow_headers=["*"],
        )
    return app


def _describe(app: FastAPI, keys: bool, root_path: str) -> None:
    """Add bodies and keys to the OpenAPI document, since FastAPI does not know about them."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        # Made once: it takes the event loop's time.
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain()
        if root_path:
            document["servers"] = [{"url": root_path}]
        components = document.setdefault("components", {})
        for name, schema in BODIES.items():
            body = schema.model_json_schema(ref_template="#/components/schemas/{model}")
            components["schemas"] |= body.pop("$defs", {})
            components["schemas"][name] = body
        if not keys:
            return document
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        for operations in document["paths"].values():
            for operation in operations.values():
                if operation["x-cost"] != Cost.NOTHING:
                    operation["security"] = [{"bearer": []}, {"header": []}]
        return document

    app.openapi = described  # type: ignore[method-assign]
