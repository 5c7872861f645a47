"""How a request comes in: its key, its cost, and its body.

Each route declares with `costs` what a request costs, and a `Route` without a declaration cannot be
made. Before the route runs, the charset is checked, then the key in a header, then, only if there
is no such key and the route allows it, the body is read for a key in a field. All bodies are read
here, so no string reaches a route unchecked.

Routes take the bare request and check bodies themselves: FastAPI's own way costs more than all the
rest of a request.
"""

import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from python_multipart.multipart import parse_options_header

from dragoman.serve.forms import MOST_FIELDS, File, read_form
from dragoman.serve.keys import Client
from dragoman.serve.requests import service_of
from dragoman.serve.server import client_of
from dragoman.text.strings import unwritable_in

M = TypeVar("M", bound=BaseModel)
JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_CHARSETS = ("utf-8", "utf8")
_KEY_SCHEMES = ("bearer", "deepl-auth-key")


class Cost(StrEnum):
    """What a request costs its client."""

    NOTHING = "nothing"  # needs no key
    REQUEST = "request"  # one of the key's requests per minute
    CHARACTERS = "characters"  # the same, and its characters are counted and limited
    WORK = "work"  # the same, and so is the engine's work
    FILE = "file"  # a request and the characters of a document


def costs(cost: str) -> dict[str, Any]:
    """A route's declaration, for `openapi_extra`."""
    return {"x-cost": Cost(cost).value}


class Route(APIRoute):
    refusal = 401  # the status without a key
    key_fields: tuple[str, ...] = ()  # that may hold the key where no header does

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        declared = (self.openapi_extra or {}).get("x-cost")
        if declared is None:
            raise TypeError(f"{self.path} does not declare what it costs (`costs`).")
        cost = Cost(declared)

        async def checked(request: Request) -> Response:
            request.state.most_files = int(cost is Cost.FILE)
            _check_charset(request)
            _check_strings(request.path_params, 404)
            _check_strings(request.query_params.multi_items())
            if cost is not Cost.NOTHING:
                await self._admit(request)
            return await handler(request)

        return checked

    async def _admit(self, request: Request) -> None:
        """Let a client in by its key, if keys are needed. Its request is counted."""
        keys = service_of(request).keys
        shown = _key_in_header(request)
        if keys and not shown and self.key_fields:
            fields = await read_fields(request)
            found = [fields[name] for name in self.key_fields if fields.get(name)]
            shown = str(found[0]).encode() if found else b""
        name = keys.name_of(shown)
        if name is None:
            headers = {"WWW-Authenticate": "Bearer"} if self.refusal == 401 else None
            raise HTTPException(self.refusal, "the API key is missing or wrong.", headers)
        request.state.key = name
        if (unkeyed := getattr(request.state, "unkeyed", None)) is not None:
            unkeyed.release()
        if seconds := keys.wait(name):
            wait = math.ceil(seconds)
            message = f"this key has used its requests of the last minute: come again in {wait} s."
            raise HTTPException(429, message, {"Retry-After": str(wait)})


class LibreRoute(Route):
    refusal = 403
    key_fields = ("api_key", "key")  # LibreTranslate's, Apertium's


class DeeplRoute(Route):
    refusal = 403


def _key_in_header(request: Request) -> bytes:
    """The key's bytes as they were sent. Starlette reads headers as Latin-1, and keys are UTF-8."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if not credentials:  # a bare key
        credentials = scheme
    elif scheme.lower() not in _KEY_SCHEMES:  # a password for a proxy
        credentials = ""
    return (request.headers.get("x-api-key") or credentials).encode("latin-1")


def paying(request: Request) -> Client:
    """The client of an admitted request: a key if several share the service, else an address."""
    key: str = request.state.key
    address = client_of(request.client.host if request.client else "")
    return Client(key or address, key, service_of(request).keys.limit_of(key))


# Bodies


async def read_json(request: Request, schema: type[M], status: int = 422) -> M:
    """Only a body that says that it is JSON: a page of another site can send forms and plain text
    without asking, but not this."""
    if _kind(request) != JSON:
        raise HTTPException(415, f"the body must be JSON: send Content-Type: {JSON}.")
    return valid(schema, _parsed(await request.body(), status), status)


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of a JSON object or a form, or of the query if there is no body.

    A field of a form that comes several times is a list.
    """
    return (await _read(request))[0]


@dataclass(frozen=True)
class Upload:
    """A form with a file."""

    name: str
    raw: bytes
    fields: dict[str, str]


async def read_upload(request: Request) -> Upload:
    fields, file = await _read(request)
    if file is None:
        raise HTTPException(400, "file: send a multipart form with a file.")
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    return Upload(file.name or "file", file.raw, texts)


def valid(schema: type[M], value: object, status: int) -> M:
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise HTTPException(status, _first_mistake(error)) from None


def _first_mistake(error: ValidationError) -> str:
    """What a schema found wrong, in one line; the value itself is not repeated: it may be
    anything."""
    mistake: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    field, *within = mistake["loc"] or ("the body",)
    place = "".join(f"[{step}]" for step in within if isinstance(step, int))
    return f"{field}{place}: {mistake['msg']}."


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_charset(request: Request) -> None:
    """Only UTF-8: Python knows codecs that take time with the square of the length."""
    _, options = parse_options_header(request.headers.get("content-type"))
    charset = options.get(b"charset", b"utf-8").decode("latin-1").strip().lower()
    if charset not in _CHARSETS:
        raise HTTPException(415, "Content-Type: the only charset that is read is UTF-8.")


async def _read(request: Request) -> tuple[dict[str, Any], File | None]:
    """The fields and the file of a body, read once: for the key and for the route."""
    if not hasattr(request.state, "body_read"):
        request.state.body_read = await _read_once(request)
    read: tuple[dict[str, Any], File | None] = request.state.body_read
    return read


async def _read_once(request: Request) -> tuple[dict[str, Any], File | None]:
    kind = _kind(request)
    if kind == FORMS[1]:
        return await _multipart(request)
    raw = await request.body()
    query: bytes = request.scope["query_string"]
    if kind == JSON and (raw or not query):
        fields = _parsed(raw, 400)
        if not isinstance(fields, dict):
            raise HTTPException(400, "the body is no JSON object.")
        return fields, None
    if raw and kind != FORMS[0]:
        raise HTTPException(415, "the body must be JSON or a form, and its Content-Type say so.")
    try:
        # here, since Starlette takes bare UTF-8 for Latin-1
        values = parse_qs(
            (raw or query).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise HTTPException(
            400, f"the form is not UTF-8, or has more than {MOST_FIELDS} fields."
        ) from None
    _check_strings(values)
    return {name: v if len(v) > 1 else v[0] for name, v in values.items()}, None


def _parsed(raw: bytes, status: int) -> Any:
    """What JSON says. The parser refuses lone surrogates, deep nesting, integers of more than 4,300
    digits, and numbers that are none."""
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise HTTPException(status, f"the body is not JSON that can be read: {error}.") from None
    _check_strings(value, status)
    return value


def _check_strings(value: object, status: int = 400) -> None:
    if found := unwritable_in(value):
        raise HTTPException(status, f"a string has {found}: remove it.")


async def _multipart(request: Request) -> tuple[dict[str, Any], File | None]:
    fields, files = await read_form(
        request.headers["content-type"],
        request.stream(),
        service_of(request).limits.max_body_bytes,
        request.state.most_files,
    )
    _check_strings([fields, [[name, file.name] for name, file in files.items()]])
    return fields, files.get("file")
