"""The service's own doors: /v1/..., health and figures."""

import resource
import sys
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Request, Response

from dragoman.serve import schemas
from dragoman.serve.models import NAMES
from dragoman.serve.service import Service

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.Error, "description": "The request asks for what cannot be: an unknown language, say."},
    401: {"model": schemas.Error, "description": "The API key is missing or wrong."},
    413: {"model": schemas.Error, "description": "The body or the texts are too large."},
    422: {"model": schemas.Error, "description": "A field is missing or has a wrong type or value."},
    429: {"model": schemas.Error, "description": "The queue is full; Retry-After says when to come again."},
    504: {"model": schemas.Error, "description": "The time limit passed."},
}


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Here = Annotated[Service, Depends(service_of)]


def require_key(
    service: Here, authorization: Annotated[str, Header()] = "", x_api_key: Annotated[str, Header()] = ""
) -> None:
    """`Authorization: Bearer KEY` or `X-API-Key: KEY`, where the service has a key."""
    if not service.knows(x_api_key or authorization.removeprefix("Bearer ")):
        raise HTTPException(401, "the API key is missing or wrong.", {"WWW-Authenticate": "Bearer"})


Guarded = Depends(require_key)
router = APIRouter(tags=["dragoman"])


@router.post(
    "/v1/translate",
    response_model=schemas.TranslateResponse,
    response_model_exclude_none=True,
    responses=REFUSALS,
    dependencies=[Guarded],
)
async def translate(body: schemas.TranslateRequest, service: Here) -> schemas.TranslateResponse:
    """Translate a text or a list of texts."""
    texts = [body.text] if isinstance(body.text, str) else body.text
    found = await service.translate(
        texts, body.source, body.target or "", beam=body.beam, nbest=body.nbest, alignments=body.alignments
    )
    return schemas.TranslateResponse(translations=found)


@router.post("/v1/attention", responses=REFUSALS, dependencies=[Guarded])
async def attention(body: schemas.AttentionRequest, service: Here) -> dict[str, Any]:
    """Every layer and head for one text, its beam and its positions, as the page's viewer takes them."""
    return await service.attention(body.text, body.source, body.target or "", body.translation)


@router.get("/v1/models", responses={401: REFUSALS[401]}, dependencies=[Guarded])
async def models(service: Here) -> schemas.ModelList:
    """The models and their languages."""
    shown = [
        schemas.ModelInfo(
            name=model.name,
            sources=list(model.sources),
            targets=list(model.targets),
            architecture=model.translator.config.model.architecture,
            attention=hasattr(model.translator.engine, "attention_weights"),
        )
        for model in service.models.models
    ]
    codes = {code for model in service.models.models for code in (*model.sources, *model.targets)}
    return schemas.ModelList(models=shown, names={code: NAMES.get(code, code) for code in sorted(codes)})


@router.get("/healthz")
async def health() -> schemas.Health:
    """Whether the service is up."""
    return schemas.Health(status="ok")


@router.get("/metrics", response_class=Response, responses={401: REFUSALS[401]}, dependencies=[Guarded])
async def metrics(service: Here) -> Response:
    """Figures in Prometheus' text format."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    batcher = service.batcher
    gauges = {
        "queue_lines": batcher.waiting,
        "batches_total": batcher.batches,
        "lines_total": batcher.lines,
        "memory_peak_bytes": largest,
    }
    return Response(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")
