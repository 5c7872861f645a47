"""A LibreTranslate-compatible API: /translate, /translate_file, /detect, /languages, /suggest,
/health and /frontend/settings.

LibreTranslate's clients work unchanged, and so do Apertium APy's (OmegaT's plugin), which use
GET /translate and /listPairs. Bodies are JSON or forms, or the fields come in the query string. A
key may be a field (`api_key`) or in a header. A field that is null counts as missing. Errors are
`{"error": …}` with 400 or 403.
"""

import asyncio
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from dragoman.documents.formats import BY_ENDING, BY_NAME
from dragoman.serve import schemas
from dragoman.serve.documents import as_file, jobs_of
from dragoman.serve.door import (
    FORMS,
    JSON,
    LibreRoute,
    costs,
    paying,
    read_fields,
    read_upload,
    valid,
)
from dragoman.serve.requests import A_FILE, body_of, refusals, root_of, service_of, written
from dragoman.text.languages import AUTO, NAMES

K = TypeVar("K", bound=schemas.Keyed)
router = APIRouter(tags=["LibreTranslate"], route_class=LibreRoute)
_BODIES = (JSON, *FORMS)
_REFUSALS = refusals(400, 403)
_OPEN = costs("nothing")
_APERTIUM_QUERY = [
    {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
    for name in ("q", "langpair")
]


async def _read(request: Request, schema: type[K]) -> K:
    return valid(schema, await read_fields(request), 400)


@router.post(
    "/translate",
    response_model=schemas.LibreResponse | schemas.LibreResponses,
    responses=_REFUSALS,
    openapi_extra=costs("work") | body_of(schemas.LibreRequest, _BODIES),
)
async def translate(request: Request) -> Response:
    """Translate a text or a list of texts."""
    body = await _read(request, schemas.LibreRequest)
    texts = [body.q] if isinstance(body.q, str) else body.q
    if body.format == "html":
        return await _html(request, body, texts)
    translations = await service_of(request).translate(
        texts, body.source, body.target, nbest=1 + body.alternatives, client=paying(request)
    )
    answers = [
        schemas.LibreResponse(
            translatedText=entry.text,
            detectedLanguage=entry.detected,
            alternatives=[candidate.text for candidate in entry.candidates[1:]],
        )
        for entry in translations
    ]
    return _answered(body, answers)


async def _html(request: Request, body: schemas.LibreRequest, texts: list[str]) -> Response:
    """Translate texts with tags. They consist of several pieces, so they get no alternatives."""
    marked = await service_of(request).translate_markup(
        texts, BY_NAME["html"], body.source, body.target, client=paying(request)
    )
    answers = []
    for text, route in marked:
        detected = route.detected and schemas.DetectedLanguage(**route.detected._asdict())
        answers.append(
            schemas.LibreResponse(translatedText=text, detectedLanguage=detected, alternatives=[])
        )
    return _answered(body, answers)


def _answered(body: schemas.LibreRequest, answers: list[schemas.LibreResponse]) -> Response:
    """Return one answer for a text, and lists for a list of texts."""
    if not body.alternatives:
        for answer in answers:
            answer.alternatives = None
    if isinstance(body.q, str):
        return written(answers[0])
    detected = [answer.detectedLanguage for answer in answers if answer.detectedLanguage]
    return written(
        schemas.LibreResponses(
            translatedText=[answer.translatedText for answer in answers],
            detectedLanguage=detected if body.source == AUTO else None,
            alternatives=[answer.alternatives or [] for answer in answers]
            if body.alternatives
            else None,
        )
    )


@router.get(
    "/translate",
    response_model=schemas.ApertiumResponse,
    responses=_REFUSALS,
    openapi_extra=costs("work") | {"parameters": _APERTIUM_QUERY},
)
async def apertium_translate(request: Request) -> Response:
    """Translate as Apertium does: `?q=…&langpair=en|de`, and `&key=…` if a key is needed."""
    query = request.query_params
    source, bar, target = query.get("langpair", "").partition("|")
    if not bar:
        raise HTTPException(400, "langpair must name two languages, such as en|de.")
    fields = {"q": query.get("q", ""), "source": source or AUTO, "target": target}
    body = valid(schemas.LibreRequest, fields, 400)
    (answer,) = await service_of(request).translate(
        [str(body.q)], body.source, body.target, client=paying(request)
    )
    return _apertium({"translatedText": answer.text})


@router.get("/listPairs", response_model=schemas.ApertiumPairs, openapi_extra=_OPEN)
async def apertium_pairs(request: Request) -> Response:
    """List the pairs of languages in Apertium's form."""
    pairs = service_of(request).models.pairs
    return _apertium([{"sourceLanguage": one, "targetLanguage": other} for one, other in pairs])


def _apertium(data: object) -> Response:
    return JSONResponse({"responseData": data, "responseDetails": None, "responseStatus": 200})


@router.post(
    "/translate_file",
    response_model=schemas.LibreFile,
    responses=_REFUSALS,
    openapi_extra=costs("file") | body_of(schemas.LibreFileRequest, FORMS[1:]),
)
async def translate_file(request: Request) -> Response:
    """Translate a file and return the address of its translation."""
    sent = await read_upload(request)
    job = jobs_of(request).begin(
        sent.name,
        sent.raw,
        sent.fields.get("source", AUTO),
        sent.fields.get("target", ""),
        client=paying(request),
    )
    try:
        await job.finished()
    except asyncio.CancelledError:  # the client disconnected, or the time limit passed
        jobs_of(request).cancel(job)
        raise
    if job.error:
        raise HTTPException(400, job.error)
    return written(
        schemas.LibreFile(translatedFileUrl=f"{root_of(request)}download_file/{job.key}")
    )


@router.get(
    "/download_file/{key}",
    response_class=Response,
    responses=A_FILE | refusals(404),
    openapi_extra=_OPEN,
)
async def download_file(request: Request, key: str) -> Response:
    """Return the file whose address /translate_file returned."""
    return as_file(jobs_of(request)[key])


@router.post(
    "/suggest",
    response_model=schemas.LibreSuggested,
    responses=_REFUSALS,
    openapi_extra=costs("characters") | body_of(schemas.LibreSuggestRequest, _BODIES),
)
async def suggest(request: Request) -> Response:
    """Keep a better translation in the service's file of suggestions."""
    body = await _read(request, schemas.LibreSuggestRequest)
    service_of(request).suggest(body.q, body.s, body.source, body.target, paying(request))
    return JSONResponse({"success": True})


@router.post(
    "/detect",
    response_model=list[schemas.DetectedLanguage],
    responses=_REFUSALS,
    openapi_extra=costs("characters") | body_of(schemas.LibreDetectRequest, _BODIES),
)
async def detect(request: Request) -> Response:
    """Guess the language of a text among the models' languages, most likely first."""
    body = await _read(request, schemas.LibreDetectRequest)
    service_of(request).charge([body.q], paying(request))
    return JSONResponse([entry._asdict() for entry in service_of(request).models.detect(body.q)])


@router.get("/languages", response_model=list[schemas.LibreLanguage], openapi_extra=_OPEN)
async def languages(request: Request) -> Response:
    """List the languages and their targets."""
    pairs = service_of(request).models.languages
    return JSONResponse(
        [
            {"code": code, "name": NAMES.get(code, code), "targets": targets}
            for code, targets in pairs.items()
        ]
    )


@router.get("/health", response_model=schemas.Health, openapi_extra=_OPEN)
async def health() -> Response:
    """Answer like /healthz."""
    return written(schemas.Health(status="ok"))


@router.get("/frontend/settings", response_model=schemas.LibreSettings, openapi_extra=_OPEN)
async def frontend_settings(request: Request) -> dict[str, Any]:
    """Return LibreTranslate's settings of its own page, which some clients read."""
    service = service_of(request)
    first, *_ = [code for code, targets in service.models.languages.items() if targets] or [""]
    target = service.models.languages.get(first, [""])[0]
    return {
        "apiKeys": bool(service.keys),
        "keyRequired": bool(service.keys),
        "charLimit": service.limits.max_characters,
        "filesTranslation": True,
        "supportedFilesFormat": [*BY_ENDING],
        "suggestions": service.suggestions is not None,
        "frontendTimeout": 500,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": NAMES.get(target, target)},
        },
    }
