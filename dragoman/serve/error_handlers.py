"""Answers to errors: `{"error": one line}` and a status.

The status tells whether client or service made the mistake.
"""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dragoman.errors import DragomanError
from dragoman.serve.batcher import BusyError, StoppingError


def _answer(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body: dict[str, Any] = {"error": message}
    if "/v2/" in request.url.path:  # DeepL's clients read "message"
        body["message"] = message
    if request.url.path.endswith("/chat/completions"):
        body["error"] = openai_error(message, status)
    return _AsciiJson(body, status, headers)


def openai_error(message: str, status: int) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "code": status}


class _AsciiJson(JSONResponse):
    def render(self, content: Any) -> bytes:
        # A message may quote lone surrogates, which UTF-8 cannot encode.
        return json.dumps(content).encode("ascii")


def install(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        return _answer(request, error.status_code, str(error.detail), error.headers)

    @app.exception_handler(DragomanError)
    async def cannot(request: Request, error: DragomanError) -> JSONResponse:
        return _answer(request, 400, str(error))

    @app.exception_handler(BusyError)
    async def busy(request: Request, error: BusyError) -> JSONResponse:
        return _answer(request, 429, str(error), {"Retry-After": str(error.retry_after_s)})

    @app.exception_handler(StoppingError)
    async def stopping(request: Request, error: StoppingError) -> JSONResponse:
        return _answer(request, 503, str(error))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        return _answer(request, 500, "this is a defect of the service; its log says more.")
