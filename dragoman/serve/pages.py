"""The page, its style and its scripts, from the package; nothing else can be asked for."""

import mimetypes
from importlib import resources

from fastapi import APIRouter, HTTPException, Response

from dragoman.inspect.page import FILES as VIEWER
from dragoman.serve.door import Route, costs

PAGE = resources.files("dragoman.serve") / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FILES = {
    file.name: file.read_bytes()
    for folder in (VIEWER, PAGE)
    for file in folder.iterdir()
    if file.is_file()
}
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}

router = APIRouter(include_in_schema=False, route_class=Route)
_OPEN = costs("nothing")


def _file(name: str) -> Response:
    suffix = name[name.rfind(".") :]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(_FILES[name], media_type=kind, headers=headers)


@router.get("/", openapi_extra=_OPEN)
async def index() -> Response:
    return _file("index.html")


@router.get("/docs", openapi_extra=_OPEN)
async def docs() -> Response:
    return _file("docs.html")


@router.get("/static/{name}", openapi_extra=_OPEN)
async def static(name: str) -> Response:
    if name not in _FILES:
        raise HTTPException(404, "there is no such file.")
    return _file(name)
