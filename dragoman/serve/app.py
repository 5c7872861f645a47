"""The service put together."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from dragoman.serve import api, deepl, documents, errors, libre, pages
from dragoman.serve.guard import Guard
from dragoman.serve.service import Service
from dragoman.version import __version__


def create_app(service: Service, allow_origins: Sequence[str] = ()) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        app.state.jobs.close()
        await service.close()

    app = FastAPI(
        title="dragoman",
        version=__version__,
        description="Translation by a trained model, with alternatives, word links and attention.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere; ours is /docs
        redoc_url=None,
        redirect_slashes=False,  # such a redirect would lead to whatever host the client named
    )
    app.state.service = service
    app.state.jobs = documents.Jobs(service)
    for part in (api, documents, libre, deepl, pages):
        app.include_router(part.router)
    errors.install(app)
    limits = service.limits
    app.add_middleware(
        Guard,
        max_body_bytes=limits.max_body_bytes,
        time_limit_s=limits.time_limit_s,
        metrics=service.metrics,
        files=("/v1/documents", "/translate_file", "/v2/document"),
        max_file_bytes=limits.max_file_bytes,
    )
    if allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(allow_origins),
            allow_methods=["*"],
            allow_headers=["*"],
        )
    return app
