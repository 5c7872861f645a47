"""LibreTranslate's doors, so that its clients work unchanged: /translate, /detect, /languages.

Bodies are JSON or forms; a key comes in the body (`api_key`) or in a header. Errors are `{"error": …}` with 400 or 403.
"""

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, HTTPException, Request
from pydantic import BaseModel, ValidationError

from dragoman.serve import schemas
from dragoman.serve.api import REFUSALS, Here, service_of
from dragoman.serve.models import AUTO, NAMES
from dragoman.serve.wrong import first_mistake

router = APIRouter(tags=["LibreTranslate"])
M = TypeVar("M", bound=BaseModel)


def _body(schema: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI document's word on a body that comes in either form."""
    described = {"schema": schema.model_json_schema(ref_template="#/components/schemas/{model}")}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, described)}}


async def _read(request: Request, schema: type[M]) -> M:
    """A body of either form, checked."""
    if request.headers.get("content-type", "").startswith(("multipart/form-data", "application/x-www-form-urlencoded")):
        form = await request.form(max_files=0, max_fields=50)
        given: Any = {name: values if len(values := form.getlist(name)) > 1 else values[0] for name in form}
    else:
        try:
            given = await request.json()
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is neither JSON nor a form.") from None
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        raise HTTPException(400, first_mistake(error.errors(include_url=False, include_context=False))) from None


def _require_key(request: Request, in_body: str, in_header: str) -> None:
    if not service_of(request).knows(in_body or in_header.removeprefix("Bearer ")):
        raise HTTPException(403, "the API key is missing or wrong.")


Key = Annotated[str, Header(alias="Authorization")]
_REFUSALS: dict[int | str, dict[str, Any]] = {code: REFUSALS[code] for code in (400, 413, 429, 504)} | {
    403: REFUSALS[401]
}


@router.post(
    "/translate",
    response_model=schemas.LibreResponse,
    response_model_exclude_none=True,
    responses=_REFUSALS,
    openapi_extra=_body(schemas.LibreRequest),
)
async def translate(request: Request, service: Here, authorization: Key = "") -> schemas.LibreResponse:
    """Translate a text or a list of texts."""
    body = await _read(request, schemas.LibreRequest)
    _require_key(request, body.api_key, authorization)
    texts = [body.q] if isinstance(body.q, str) else body.q
    found = await service.translate(texts, body.source, body.target, nbest=1 + body.alternatives)
    answers = [entry.text for entry in found]
    detected = [entry.detected for entry in found if entry.detected]
    others = [[candidate.text for candidate in entry.candidates[1:]] for entry in found]
    if isinstance(body.q, str):
        return schemas.LibreResponse(
            translatedText=answers[0],
            detectedLanguage=detected[0] if body.source == AUTO else None,
            alternatives=others[0] if body.alternatives else None,
        )
    return schemas.LibreResponse(
        translatedText=answers,
        detectedLanguage=detected if body.source == AUTO else None,
        alternatives=others if body.alternatives else None,
    )


@router.post("/detect", responses=_REFUSALS, openapi_extra=_body(schemas.LibreDetectRequest))
async def detect(request: Request, service: Here, authorization: Key = "") -> list[schemas.DetectedLanguage]:
    """Which of the models' languages a text is written in, most likely first."""
    body = await _read(request, schemas.LibreDetectRequest)
    _require_key(request, body.api_key, authorization)
    return [schemas.DetectedLanguage(**entry._asdict()) for entry in service.models.detect(body.q)]


@router.get("/languages")
async def languages(service: Here) -> list[schemas.LibreLanguage]:
    """The languages that can be translated from, and into what."""
    return [
        schemas.LibreLanguage(code=code, name=NAMES.get(code, code), targets=targets)
        for code, targets in service.models.languages.items()
    ]
