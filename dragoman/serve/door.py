"""Admission of requests: key, cost and body.

Each route declares with `costs` what a request costs; a route without a declaration raises. Before
a route runs, the charset is checked, then the key in a header. Only if there is no such key and the
route allows it, the body is read for a key in a field. All bodies are read here, so no unchecked
string reaches a route.

Routes take the bare request and call `read_json` or `read_fields`: FastAPI's validation of bodies
costs more time than the rest of a request.
"""

import math
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from dragoman.serve.keys import Client
from dragoman.serve.multipart import MOST_FIELDS, UploadedFile, header_options, read_form
from dragoman.serve.requests import service_of
from dragoman.serve.server import client_of
from dragoman.text.strings import unwritable_in

M = TypeVar("M", bound=BaseModel)
JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_CHARSETS = ("utf-8", "utf8")
_MOST_BYTES_WITH_A_KEY = 64 * 1024
_MOST_MISTAKES = 1000
_MOST_BRACKETS = 10_000  # of a JSON body; a thousand terms have some 1,000
# Escapes of NUL and of surrogates. The parser refuses both if they are not escaped.
_ODD_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_KEY_SCHEMES = ("bearer", "deepl-auth-key")


class Cost(StrEnum):
    """The price of a request for its client."""

    NOTHING = "nothing"  # needs no key
    REQUEST = "request"  # one of the key's requests per minute
    CHARACTERS = "characters"  # a request; its characters are counted and limited
    WORK = "work"  # a request, its characters and the engine's work
    FILE = "file"  # a request and the characters of a document


def costs(cost: str) -> dict[str, Any]:
    """Declare a route's cost, as its `openapi_extra`."""
    return {"x-cost": Cost(cost).value}


class MeteredRoute(APIRoute):
    refusal = 401  # status without a key
    key_fields: tuple[str, ...] = ()  # fields that may hold the key if no header does

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        declared = (self.openapi_extra or {}).get("x-cost")
        if declared is None:
            raise TypeError(f"{self.path} does not declare what it costs (`costs`).")
        cost = Cost(declared)

        async def checked(request: Request) -> Response:
            # Other routes refuse forms with files before a file takes memory or disk.
            request.state.most_files = int(cost is Cost.FILE)
            _check_charset(request)
            _check_strings(request.path_params, 404)
            _check_query(request.scope["query_string"])
            if cost is not Cost.NOTHING:
                await self._admit(request)
            return await handler(request)

        return checked

    async def _admit(self, request: Request) -> None:
        """Check the key, if keys are needed, and count the request."""
        keys = service_of(request).keys
        shown = _key_in_header(request)
        if keys and not shown and self.key_fields:
            # Parsing takes the event loop's time, and a stranger's body must not take much.
            if _kind(request) != FORMS[1] and len(await request.body()) > _MOST_BYTES_WITH_A_KEY:
                message = f"a body over {_MOST_BYTES_WITH_A_KEY:,} bytes needs its key in a header."
                raise HTTPException(self.refusal, message)
            fields = await read_fields(request)
            in_fields = [fields[name] for name in self.key_fields if fields.get(name)]
            shown = str(in_fields[0]).encode() if in_fields else b""
        name = keys.name_of(shown)
        if name is None:
            headers = {"WWW-Authenticate": "Bearer"} if self.refusal == 401 else None
            raise HTTPException(self.refusal, "the API key is missing or wrong.", headers)
        request.state.key = name
        # The body now counts for its client, and no longer for those without a key.
        if (unkeyed := getattr(request.state, "unkeyed", None)) is not None:
            unkeyed.release()
        if seconds := keys.wait(name):
            wait = math.ceil(seconds)
            message = f"this key has used up its requests per minute: retry in {wait} s."
            raise HTTPException(429, message, {"Retry-After": str(wait)})


class LibreRoute(MeteredRoute):
    refusal = 403
    key_fields = ("api_key", "key")  # of LibreTranslate and Apertium


class DeeplRoute(MeteredRoute):
    refusal = 403


def _key_in_header(request: Request) -> bytes:
    """Return the bytes of the key. Starlette decodes headers as Latin-1, but keys are UTF-8."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if not credentials:  # a key without a scheme
        credentials = scheme
    elif scheme.lower() not in _KEY_SCHEMES:  # such as Basic, which is meant for a proxy
        credentials = ""
    return (request.headers.get("x-api-key") or credentials).encode("latin-1")


def paying(request: Request) -> Client:
    """Return the client of an admitted request: its key, or its address if there are no keys."""
    key: str = request.state.key
    address = client_of(request.client.host if request.client else "")
    return Client(key or address, key, service_of(request).keys.limit_of(key))


# Bodies


async def read_json(request: Request, schema: type[M], status: int = 422) -> M:
    """Read and validate a JSON body.

    Its Content-Type must say JSON: a browser lets a page of another site send forms and plain text
    without a preflight request, but not JSON.
    """
    if _kind(request) != JSON:
        raise HTTPException(415, f"the body must be JSON: send Content-Type: {JSON}.")
    return valid(schema, _parsed(await request.body(), status), status)


async def read_fields(request: Request) -> dict[str, Any]:
    """Read the fields of a JSON object or a form, or of the query if there is no body.

    A field that occurs several times in a form is a list.
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
        if error.error_count() > _MOST_MISTAKES:  # listing them takes long
            message = f"the body has more than {_MOST_MISTAKES} mistakes, such as unknown fields."
            raise HTTPException(status, message) from None
        raise HTTPException(status, _first_mistake(error)) from None


def _first_mistake(error: ValidationError) -> str:
    """Describe the first error in one line, without the value, which may be anything."""
    mistake: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    field, *within = mistake["loc"] or ("the body",)
    place = "".join(f"[{step}]" for step in within if isinstance(step, int))
    return f"{field}{place}: {mistake['msg']}."


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_charset(request: Request) -> None:
    """Refuse every charset but UTF-8: some of Python's codecs take quadratic time."""
    options = header_options(request.headers.get("content-type", ""))
    charset = options.get(b"charset", b"utf-8").decode("latin-1").strip().lower()
    if charset not in _CHARSETS:
        raise HTTPException(415, "Content-Type: the only charset that is read is UTF-8.")


async def _read(request: Request) -> tuple[dict[str, Any], UploadedFile | None]:
    """Read fields and file of a body once, for the key and for the route."""
    if not hasattr(request.state, "body_read"):
        request.state.body_read = await _read_once(request)
    read: tuple[dict[str, Any], UploadedFile | None] = request.state.body_read
    return read


async def _read_once(request: Request) -> tuple[dict[str, Any], UploadedFile | None]:
    kind = _kind(request)
    if kind == FORMS[1]:
        return await _multipart(request)
    raw = await request.body()
    query: bytes = request.scope["query_string"]
    if kind == JSON and (raw or not query):
        fields = _parsed(raw, 400)
        if not isinstance(fields, dict):
            raise HTTPException(400, "the body must be a JSON object.")
        return fields, None
    if raw and kind != FORMS[0]:
        raise HTTPException(415, "the body must be JSON or a form, with that Content-Type.")
    try:
        # Not by Starlette, which decodes UTF-8 without percent signs as Latin-1.
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
    """Parse JSON. The parser refuses lone surrogates, deep nesting, integers of over 4,300 digits,
    NaN and infinity."""
    if raw.count(b"[") + raw.count(b"{") > _MOST_BRACKETS:
        raise HTTPException(413, f"the body has more than {_MOST_BRACKETS:,} brackets.")
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise HTTPException(status, f"the body is not valid JSON: {error}.") from None
    if _ODD_ESCAPE.search(raw):  # walking through all values takes much longer
        _check_strings(value, status)
    return value


def _check_query(raw: bytes) -> None:
    """Check a query before anything parses it."""
    if raw.count(b"&") + raw.count(b";") > MOST_FIELDS:
        raise HTTPException(400, f"the query has more than {MOST_FIELDS} fields.")
    _check_strings(unquote(raw.decode("latin-1")))


def _check_strings(value: object, status: int = 400) -> None:
    if character := unwritable_in(value):
        raise HTTPException(status, f"a string has {character}: remove it.")


async def _multipart(request: Request) -> tuple[dict[str, Any], UploadedFile | None]:
    fields, files = await read_form(
        request.headers["content-type"],
        request.stream(),
        service_of(request).limits.max_body_bytes,
        request.state.most_files,
    )
    _check_strings([fields, [[name, file.name] for name, file in files.items()]])
    return fields, files.get("file")
