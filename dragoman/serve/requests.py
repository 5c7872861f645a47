"""What every route does first: find the service, read the body, ask for the key.

Routes take the bare request and check bodies themselves: FastAPI's own way costs more than all the
rest of a request.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import HTTPException, Request, Response
from pydantic import BaseModel, ValidationError

from dragoman.serve import schemas
from dragoman.serve.server import client_of
from dragoman.serve.service import Service

M = TypeVar("M", bound=BaseModel)
# it warns of every bad form, and clients send those
logging.getLogger("python_multipart").setLevel(logging.ERROR)
_FIELDS = 200
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

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


def require_key(request: Request) -> str:
    """Let a client in by `Authorization: Bearer KEY` or `X-API-Key: KEY`, if keys are needed."""
    return admit(request, key_of(request), 401)


def admit(request: Request, shown: bytes, refusal: int) -> str:
    """The name of the key that a client shows, "" if none is needed. Its request is counted."""
    keys = service_of(request).keys
    name = keys.name_of(shown)
    if name is None:
        headers = {"WWW-Authenticate": "Bearer"} if refusal == 401 else None
        raise HTTPException(refusal, "the API key is missing or wrong.", headers)
    request.state.key = name
    if seconds := keys.wait(name):
        wait = math.ceil(seconds)
        message = f"this key has used its requests of the last minute: come again in {wait} s."
        raise HTTPException(429, message, {"Retry-After": str(wait)})
    return name


def characters_allowed(request: Request) -> int:
    """The most characters that the key of an admitted request allows; 0: it has no limit."""
    return service_of(request).keys.limit_of(request.state.key)


def key_of(request: Request) -> bytes:
    """The key's bytes as they were sent. Starlette reads headers as Latin-1, and keys are UTF-8."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    bearer = credentials if scheme.lower() == "bearer" else scheme
    return (request.headers.get("x-api-key") or bearer).encode("latin-1")


def client_address(request: Request) -> str:
    """Who asks, for the fair queue: a key if several share the service, else an address."""
    return getattr(request.state, "key", "") or client_of(
        request.client.host if request.client else ""
    )


def owner_of(request: Request) -> str:
    """The name of the key that was shown; "" if the service has none, and all is everybody's."""
    return getattr(request.state, "key", "")


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


async def read_json(request: Request, schema: type[M], status: int = 422) -> M:
    """Only what says that it is JSON: a page of another site can send forms and plain text without
    asking, but not this."""
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body must be JSON: send Content-Type: application/json.")
    try:
        return schema.model_validate_json(raw)
    except ValidationError as error:
        raise HTTPException(status, first_mistake(error)) from None


async def read_form(request: Request, schema: type[M], status: int = 422) -> M:
    """A field that comes several times is a list; files are refused.

    Fields may also stand in the query string, if there is no body.
    """
    fields: Mapping[str, Sequence[object]]
    # here, since Starlette takes bare UTF-8 for Latin-1
    kind = request.headers.get("content-type", "")
    if not kind.startswith(FORMS[1]):
        try:
            raw = await request.body() if kind.startswith(FORMS[0]) else b""
            fields = parse_qs(
                (raw or request.scope["query_string"]).decode(),
                keep_blank_values=True,
                max_num_fields=_FIELDS,
            )
        except ValueError:
            raise HTTPException(
                status, f"the form is not UTF-8, or has more than {_FIELDS} fields."
            ) from None
    else:
        form = await request.form(max_files=0, max_fields=_FIELDS)
        fields = {name: form.getlist(name) for name in form}
    try:
        return schema.model_validate(
            {name: v if len(v) > 1 else v[0] for name, v in fields.items()}
        )
    except ValidationError as error:
        raise HTTPException(status, first_mistake(error)) from None


def written(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")


def first_mistake(error: ValidationError) -> str:
    """What a schema found wrong, in one line; the value itself is not repeated: it may be
    anything."""
    mistake: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    field, *within = mistake["loc"] or ("the body",)
    place = "".join(f"[{step}]" for step in within if isinstance(step, int))
    return f"{field}{place}: {mistake['msg']}."
