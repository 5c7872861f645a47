"""Serve the page, its style sheets, its scripts and the OpenAPI document, and no other file."""

import mimetypes
from functools import cache
from importlib import resources

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from dragoman.config.plugins import import_lab
from dragoman.serve import PAGES
from dragoman.serve.door import MeteredRoute, costs

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}

router = APIRouter(include_in_schema=False, route_class=MeteredRoute)
_OPEN = costs("nothing")


@cache
def _files() -> dict[str, bytes]:
    """Read the files by name."""
    import_lab()  # adds a folder
    return {
        file.name: file.read_bytes()
        for package in PAGES
        for file in (resources.files(package) / "page").iterdir()
        if file.is_file()
    }


def _file(name: str) -> Response:
    suffix = name[name.rfind(".") :]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(_files()[name], media_type=kind, headers=headers)


@router.get("/", openapi_extra=_OPEN)
async def index() -> Response:
    return _file("index.html")


@router.get("/docs", openapi_extra=_OPEN)
async def docs() -> Response:
    return _file("docs.html")


# LibreTranslate's clients ask for /spec.
@router.get("/spec", openapi_extra=_OPEN)
@router.get("/openapi.json", openapi_extra=_OPEN)
async def spec(request: Request) -> Response:
    state = request.app.state
    # Rendered once: it takes the event loop's time, and needs no key.
    if not hasattr(state, "spec"):
        state.spec = JSONResponse(request.app.openapi()).body
    return Response(state.spec, media_type="application/json")


@router.get("/static/{name}", openapi_extra=_OPEN)
async def static(name: str) -> Response:
    if name not in _files():
        raise HTTPException(404, "there is no such file.")
    return _file(name)
