"""The service's own routes: /v1/..., health and metrics."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

from fastapi import APIRouter, HTTPException, Request, Response

from dragoman.serve import openai, schemas
from dragoman.serve.door import MeteredRoute, costs, paying, read_json
from dragoman.serve.requests import body_of, described, refusals, service_of, written
from dragoman.text.glossary import Glossary
from dragoman.text.languages import NAMES

router = APIRouter(tags=["dragoman"], route_class=MeteredRoute)


@router.post(
    "/v1/translate",
    response_model=schemas.TranslateResponse,
    responses=refusals(400, 401, 422),
    openapi_extra=costs("work") | body_of(schemas.TranslateRequest),
)
async def translate(request: Request) -> Response:
    """Translate a text or a list of texts."""
    body = await read_json(request, schemas.TranslateRequest)
    texts = [body.text] if isinstance(body.text, str) else body.text
    service, client = service_of(request), paying(request)
    glossary = await service.glossary(client, body.glossary)
    found = await service.translate(
        texts,
        body.source,
        body.target or "",
        beam=body.beam,
        nbest=body.nbest,
        alignments=body.alignments,
        confidence=body.confidence,
        glossary=glossary,
        client=client,
    )
    if glossary.terms:
        await service.run_text_work(client, partial(_add_uses, glossary, texts, found))
    return written(schemas.TranslateResponse(translations=found))


def _add_uses(
    glossary: Glossary,
    texts: Sequence[str],
    found: Sequence[schemas.Translated],
    pause: Callable[[], None],
) -> None:
    """Add to each translation how it rendered each term."""
    for text, one in zip(texts, found, strict=True):
        uses = glossary.uses(text, one.text, one.source, one.target, pause)
        one.terms = [schemas.Use(**use._asdict()) for use in uses]


@router.get(
    "/v1/models",
    response_model=schemas.ModelList,
    responses=described(401),
    openapi_extra=costs("request"),
)
async def models(request: Request) -> Response:
    """List the models and their languages, in this service's form and in OpenAI's."""
    there = service_of(request).models.models
    names = openai.names_of(service_of(request).models)
    shown = [
        schemas.ModelInfo(
            name=model.name,
            sources=list(model.sources),
            targets=list(model.targets),
            architecture=model.translator.config.model.architecture,
            attention=model.translator.shows_attention,
            alignments=engine.has_attention,
        )
        for model in there
        for engine in [model.translator.engine]
    ]
    codes = {code for model in there for code in (*model.sources, *model.targets)}
    return written(
        schemas.ModelList(
            models=shown,
            names={code: NAMES.get(code, code) for code in sorted(codes)},
            object="list",
            data=[openai.described(name) for name in names],
        )
    )


@router.get("/healthz", response_model=schemas.Health, openapi_extra=costs("nothing"))
async def health() -> Response:
    """Answer while the process is alive, even if the engine hangs."""
    return written(schemas.Health(status="ok"))


@router.get(
    "/readyz",
    response_model=schemas.Health,
    responses=described(503),
    openapi_extra=costs("nothing"),
)
async def readiness(request: Request) -> Response:
    """Tell whether to send requests here: 503 while the engine hangs or the service stops."""
    if reason := service_of(request).unready:
        raise HTTPException(503, reason)
    return written(schemas.Health(status="ok"))


@router.get(
    "/metrics", response_class=Response, responses=described(401), openapi_extra=costs("request")
)
async def metrics(request: Request) -> Response:
    """Return metrics in Prometheus' text format."""
    service = service_of(request)
    gauges = {
        "queue_lines": service.batcher.waiting,
        "batches_total": service.batcher.batches,
        "lines_total": service.batcher.lines,
        "abandoned_batches_total": service.batcher.abandoned,
        "engine_stuck_seconds": service.batcher.stuck_for(),
        **_memory_peak(),
    }
    return Response(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")


def _memory_peak() -> dict[str, int]:
    """Measure the process's peak memory, if the system counts it."""
    if sys.platform == "win32":
        return {}
    import resource

    # macOS counts bytes, Linux KiB.
    unit = 1 if sys.platform == "darwin" else 1024
    return {"memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
