"""Helpers of all routes: the service, its address, and OpenAPI's descriptions of bodies and
errors."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from dragoman.serve import schemas
from dragoman.serve.service import Service

_REFUSALS = {
    400: "The request cannot be fulfilled, for example for an unknown language.",
    401: "The API key is missing or wrong.",
    403: "The key is missing, wrong or not sufficient.",
    404: "Nothing has that name, or no longer.",
    413: "The body or the texts are too large, or too much work.",
    415: "The body does not say that it is JSON.",
    421: "The request names another host.",
    422: "The body is not JSON, or a field is missing or wrong.",
    429: "The queue is full; Retry-After says when to try again.",
    456: "Too many glossaries are kept.",
    503: "The service is stopping, or its engine hangs.",
    504: "The time limit passed.",
}
# Schemas of bodies by name, for the OpenAPI document. `body_of` adds them.
BODIES: dict[str, type[BaseModel]] = {}
A_FILE: dict[int | str, Any] = {
    200: {
        "description": "The translated file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def refusals(*codes: int, schema: type[BaseModel] = schemas.Error) -> dict[int | str, Any]:
    """Describe the errors of a route that does work: these codes, and those of all such routes."""
    return described(*codes, 413, 415, 429, 503, 504, schema=schema)


def described(*codes: int, schema: type[BaseModel] = schemas.Error) -> dict[int | str, Any]:
    """Describe errors by their codes."""
    return {code: {"description": _REFUSALS[code], "model": schema} for code in codes}


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def root_of(request: Request) -> str:
    """Return the address of the service, with a slash at its end.

    The Host header is used only if `Guard` checks it: a client could forge a link otherwise.
    """
    if request.scope.get("state", {}).get("host_checked"):
        return str(request.base_url)
    host, port = request.scope.get("server") or ("localhost", 80)
    return f"{request.url.scheme}://{host}:{port}{request.scope.get('root_path', '')}/"


def body_of(
    schema: type[BaseModel], kinds: Sequence[str] = ("application/json",)
) -> dict[str, Any]:
    """Describe a body for the OpenAPI document, by a reference to its schema."""
    BODIES[schema.__name__] = schema
    reference = {"$ref": f"#/components/schemas/{schema.__name__}"}
    return {
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": reference} for kind in kinds},
        }
    }


def written(answer: BaseModel, status: int = 200) -> Response:
    return Response(
        answer.model_dump_json(exclude_none=True), status, media_type="application/json"
    )
