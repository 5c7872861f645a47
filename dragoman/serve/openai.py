"""An API compatible with OpenAI's: the list of models, and chat completions, streamed or not.

The model's name contains the languages: `dragoman-en-de`, or `dragoman-auto-fr` to detect the
source. The user's last message is translated. No text is an instruction: "translate into French" is
itself translated.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from dragoman.errors import DragomanError
from dragoman.serve import schemas
from dragoman.serve.batcher import BusyError, StoppingError
from dragoman.serve.door import MeteredRoute, costs, paying, read_json
from dragoman.serve.error_handlers import openai_error
from dragoman.serve.requests import body_of, refusals, service_of, written
from dragoman.serve.served_models import Models
from dragoman.serve.service import Service
from dragoman.text.languages import AUTO, known_code

_LONGEST_NAME = 99  # characters of a model's name
router = APIRouter(tags=["OpenAI"], route_class=MeteredRoute)
_NAME = "dragoman"
# Clients that send several texts in one message separate them by such a line ("==PART==").
_SEPARATOR = re.compile(r"((?:(?<!\n)|(?<=[= ]\n))\n++ *+==[A-Z][A-Z_]{0,40}+== *+\n)")
_LINE = re.compile(rf"{_SEPARATOR.pattern[:-1]}|\n+)")
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The translation; with `stream`, server-sent events.",
        # No schema: OpenAPI 3.1 cannot describe a stream of events, and "string" would be taken for
        # the type of each event.
        "content": {"text/event-stream": {}},
    }
}
_LAST_EVENT_S = 0.5
_Translate = Callable[[list[str]], Awaitable[list[schemas.Translated]]]


class _Stream(StreamingResponse):
    """A stream of events; if it ends early, the last one says why.

    Starlette's response would also watch for clients that disconnect. Here the guard does that, and
    cancels the response.
    """

    def __init__(self, events: AsyncIterator[str], service: Service):
        super().__init__(events, media_type="text/event-stream")
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The first piece is translated before the answer begins, so the status is certain by now.
        try:
            async with self._service.until_stopping():
                await self.stream_response(send)
        except (BusyError, DragomanError, HTTPException, StoppingError) as error:
            await _end(send, str(getattr(error, "detail", error)))
        except asyncio.CancelledError:  # nothing reaches a client that has left
            await _end(send, "this took too long.")
            raise


async def _end(send: Send, message: str) -> None:
    event = f"data: {json.dumps({'error': openai_error(message, 503)})}\n\n"
    # A client that does not read must not keep the service from stopping.
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_EVENT_S):
            await send({"type": "http.response.body", "body": event.encode(), "more_body": False})


def names_of(models: Models) -> list[str]:
    """List a name for each pair of languages, then one for each target with a detected source."""
    pairs = [*models.pairs, *((AUTO, target) for target in models.targets)]
    return [f"{_NAME}-{source}-{target}" for source, target in pairs] or [_NAME]


def described(name: str) -> schemas.OpenaiModel:
    return schemas.OpenaiModel(id=name, object="model", created=0, owned_by=_NAME)


def _languages(name: str, models: Models) -> tuple[str, str]:
    """Return source and target of a model's name. Codes may have hyphens: `dragoman-pt-BR-en`."""
    # Trying the splits takes quadratic time.
    first, *parts = name[:_LONGEST_NAME].split("-")
    if first == _NAME and not parts:
        return AUTO, ""
    pairs = models.languages
    into: dict[str, list[str]] = {**pairs, AUTO: [*pairs]}
    # Every split is tried, since a hyphen may be part of a code.
    for middle in range(1, len(parts)):
        source = known_code("-".join(parts[:middle]), into)
        target = known_code("-".join(parts[middle:]), pairs)
        if first == _NAME and target in into.get(source, ()):
            return source, target
    raise HTTPException(
        404,
        f"there is no model {name[:_LONGEST_NAME]!r}: a name contains source and target, such as "
        f"{names_of(models)[0]}. /v1/models lists them.",
    )


@router.get(
    "/v1/models/{name}",
    response_model=schemas.OpenaiModel,
    responses=refusals(401, 404),
    openapi_extra=costs("request"),
)
async def model(request: Request, name: str) -> Response:
    """Describe a model by a name that /v1/models lists, or by another spelling of it."""
    _languages(name, service_of(request).models)
    return written(described(name))


@router.post(
    "/v1/chat/completions",
    response_model=schemas.Completion,
    responses=_STREAM | refusals(400, 401, 404, 422, schema=schemas.OpenaiError),
    openapi_extra=costs("work") | body_of(schemas.ChatRequest),
)
async def complete(request: Request) -> Response:
    """Translate the user's last message. The model's name contains the languages."""
    body = await read_json(request, schemas.ChatRequest)
    service, client = service_of(request), paying(request)
    source, target = _languages(body.model, service.models)
    glossary = await service.glossary(client, body.glossary)

    async def translated(texts: list[str]) -> list[schemas.Translated]:
        return await service.translate(
            texts,
            source,
            target,
            nbest=body.n,
            glossary=glossary,
            client=client,
        )

    whole = body.text()
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time())}
    head["model"] = body.model
    if body.stream:
        if body.n > 1:
            raise HTTPException(400, "n: a stream has one choice.")
        service.check_size([whole], client)
        route = service.models.route(whole, source, target)
        # The whole text tells its language better than its first line.
        if not route.note:
            source, target = route.source, route.target
        pieces = _pieces(_LINE.split(whole), translated)
        # The first piece is translated before the answer begins, so an error still has a status.
        events = _events(await anext(pieces), pieces, head)
        return _Stream(events, service)
    # Even parts are texts, odd parts the separators between them.
    parts = _SEPARATOR.split(whole)
    answers = await translated(parts[::2])
    choices = []
    for rank in range(max(len(answer.candidates) for answer in answers)):
        # Texts with fewer candidates repeat their last one.
        parts[::2] = [each.candidates[min(rank, len(each.candidates) - 1)].text for each in answers]
        message = {"role": "assistant", "content": "".join(parts), "refusal": None}
        choices.append({"index": rank, "message": message, "finish_reason": "stop"})
    return JSONResponse({**head, "object": "chat.completion", "choices": choices})


async def _pieces(parts: list[str], translated: _Translate) -> AsyncIterator[str]:
    """Translate lines, twice as many each time, and yield them with their separators.

    The first piece comes soon, and a long text is still translated many lines at a time.
    """
    start, count = 0, 1
    while start < len(parts):
        piece = parts[start : start + 2 * count]
        piece[::2] = [answer.text for answer in await translated(piece[::2])]
        yield "".join(piece)
        start, count = start + 2 * count, 2 * count


async def _events(
    first: str, pieces: AsyncIterator[str], head: dict[str, Any]
) -> AsyncIterator[str]:
    """Format server-sent events for OpenAI's clients."""

    def event(delta: dict[str, str], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
        return f"data: {json.dumps(chunk)}\n\n"

    yield event({"role": "assistant", "content": first})
    async for piece in pieces:
        yield event({"content": piece})
    yield event({}, "stop")
    yield "data: [DONE]\n\n"
