"""What routes share: the service, its address, and what the OpenAPI document says of bodies and
refusals."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from dragoman.serve import schemas
from dragoman.serve.service import Service

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {
        "model": schemas.Error,
        "description": "The request asks for what cannot be: an unknown language, say.",
    },
    401: {"model": schemas.Error, "description": "The API key is missing or wrong."},
    403: {
        "model": schemas.Error,
        "description": "The key is missing or wrong, or does not suffice.",
    },
    404: {"model": schemas.Error, "description": "There is nothing of that name, or not any more."},
    413: {
        "model": schemas.Error,
        "description": "The body or the texts are too large, or too much work.",
    },
    415: {"model": schemas.Error, "description": "The body does not say that it is JSON."},
    421: {"model": schemas.Error, "description": "The request names another host."},
    422: {
        "model": schemas.Error,
        "description": "The body is not JSON, or a field is missing or wrong.",
    },
    429: {
        "model": schemas.Error,
        "description": "The queue is full; Retry-After says when to come again.",
    },
    503: {
        "model": schemas.Error,
        "description": "The service is stopping, or its engine is stuck.",
    },
    504: {"model": schemas.Error, "description": "The time limit passed."},
}

BODIES: dict[str, type[BaseModel]] = {}  # what `body_of` has been asked for, by name
A_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The translated file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def refusals(
    *codes: int, schema: type[BaseModel] = schemas.Error
) -> dict[int | str, dict[str, Any]]:
    """These of the ways to refuse, and those that every route that works for a client has."""
    return {code: {**REFUSALS[code], "model": schema} for code in (*codes, 413, 415, 429, 503, 504)}


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def root_of(request: Request) -> str:
    """The address of the service, with a slash at its end. What a client says is its host counts
    only if such names are checked (`Guard`)."""
    if request.scope.get("state", {}).get("host_checked"):
        return str(request.base_url)
    host, port = request.scope.get("server") or ("localhost", 80)
    return f"{request.url.scheme}://{host}:{port}{request.scope.get('root_path', '')}/"


def body_of(
    schema: type[BaseModel], kinds: Sequence[str] = ("application/json",)
) -> dict[str, Any]:
    """The OpenAPI document's word on a body; its schema stands among the document's others."""
    BODIES[schema.__name__] = schema
    reference = {"$ref": f"#/components/schemas/{schema.__name__}"}
    return {
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": reference} for kind in kinds},
        }
    }


def written(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")
