"""Documents: uploaded, translated beside other work, fetched when they are done.

A document has a name that nobody can guess: whoever knows it may see how far it is, and fetch it.
Some are kept for some time; a new one takes the place of the oldest that is done.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from starlette.datastructures import UploadFile

from dragoman.decode.glossary import NO_TERMS, Glossary
from dragoman.documents.document import DocumentError, Options
from dragoman.documents.formats import BY_NAME, Format, format_of, read, translated_name
from dragoman.documents.segment import texts
from dragoman.errors import DragomanError
from dragoman.serve import schemas
from dragoman.serve.batcher import StoppingError
from dragoman.serve.requests import (
    A_FILE,
    FORMS,
    body_of,
    characters_allowed,
    client_address,
    refusals,
    require_key,
    written,
)
from dragoman.serve.service import Service
from dragoman.text.languages import AUTO

router = APIRouter(tags=["documents"])
_FIELDS = 20


@dataclass(eq=False)
class Job:
    """A document on its way."""

    key: str
    format: Format
    born: float = field(default_factory=time.monotonic)
    state: str = "waiting"
    done: int = 0
    total: int = 0
    characters: int = 0
    name: str = ""
    error: str = ""
    source: str = ""
    target: str = ""
    result: bytes = b""
    task: "asyncio.Task[None] | None" = None

    @property
    def over(self) -> bool:
        return self.state in ("done", "failed")

    def status(self) -> schemas.DocumentStatus:
        return schemas.DocumentStatus(
            id=self.key,
            state=self.state,  # type: ignore[arg-type]
            done=self.done,
            total=self.total,
            name=self.name or None,
            error=self.error or None,
        )


class Jobs:
    """The documents of a service."""

    def __init__(self, service: Service):
        self._service = service
        self._jobs: dict[str, Job] = {}

    def begin(
        self,
        name: str,
        raw: bytes,
        source: str,
        target: str,
        glossary: Glossary = NO_TERMS,
        client: str = "",
        max_characters: int = 0,
        format_: str = "",
    ) -> Job:
        """Take a file; what is wrong with it is told by its job.

        `max_characters`: the client's own limit, if it has one.
        """
        limits = self._service.limits
        for job in list(self._jobs.values()):
            if job.over and time.monotonic() - job.born > limits.document_s:
                del self._jobs[job.key]
        if len(self._jobs) >= limits.documents:
            oldest = next((job for job in self._jobs.values() if job.over), None)
            if oldest is None:
                raise HTTPException(
                    429, "too many documents are waiting: try again later.", {"Retry-After": "60"}
                )
            del self._jobs[oldest.key]
        if format_ and format_ not in BY_NAME:
            raise DocumentError(f"there is no format {format_!r}; there are {', '.join(BY_NAME)}.")
        kind = BY_NAME[format_] if format_ else format_of(name)
        job = Job(secrets.token_hex(16), kind)
        self._jobs[job.key] = job
        job.task = asyncio.create_task(
            self._translate(job, name, raw, source, target, glossary, client, max_characters)
        )
        return job

    def __getitem__(self, key: str) -> Job:
        if key not in self._jobs:
            raise HTTPException(404, "there is no such document, or not any more.")
        return self._jobs[key]

    def close(self) -> None:
        for job in self._jobs.values():
            if job.task is not None:
                job.task.cancel()

    async def _translate(
        self,
        job: Job,
        name: str,
        raw: bytes,
        source: str,
        target: str,
        glossary: Glossary,
        client: str,
        max_characters: int,
    ) -> None:
        try:
            loop = asyncio.get_running_loop()
            document = await loop.run_in_executor(
                None, read, name, raw, job.format, Options(to=target)
            )
            job.characters = sum(len(t) for segment in document.segments for t in texts(segment))
            most = self._service.limits.max_file_characters
            most = min(most, max_characters or most)
            if job.characters > most:
                raise DocumentError(
                    f"{name} has {job.characters:,} characters to translate, {most:,} are taken."
                )
            route = self._service.route_document(document, source, target)
            job.source, job.target = route.source, route.target
            job.state, job.total = "translating", len(document.segments)

            def advance(count: int) -> None:
                job.done += count

            job.result = await self._service.translate_document(
                document, route, glossary, client, advance
            )
            job.name = translated_name(name, route.target or "translated")
            job.state = "done"
        except DragomanError as error:
            job.state, job.error = "failed", str(error)
        except asyncio.CancelledError:
            job.state, job.error = "failed", "its translation was given up."
            raise
        except StoppingError as error:
            job.state, job.error = "failed", str(error)
        except Exception:
            job.state, job.error = "failed", "this is a defect of the service; its log says more."
            raise


def jobs_of(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


@dataclass(frozen=True)
class Upload:
    """A form with a file."""

    name: str
    raw: bytes
    fields: dict[str, str]


async def read_upload(request: Request) -> Upload:
    form = await request.form(max_files=1, max_fields=_FIELDS)
    file = form.get("file")
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    if isinstance(file, UploadFile):
        return Upload(file.filename or "file", await file.read(), fields)
    raise HTTPException(400, "file: a form with a file is wanted.")


def as_file(job: Job) -> Response:
    """What a browser saves and never shows: it may be HTML of somebody else."""
    if job.state != "done":
        raise HTTPException(404, job.error or "the document is not translated yet.")
    name = job.name.rpartition("/")[2]
    return Response(
        job.result,
        media_type=job.format.media_type,
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
    )


@router.post(
    "/v1/documents",
    response_model=schemas.DocumentStatus,
    responses=refusals(400, 401),
    openapi_extra=body_of(schemas.DocumentRequest, FORMS[1:]),
)
async def upload(request: Request) -> Response:
    """Translate a file; its format is told by the end of its name."""
    require_key(request)
    sent = await read_upload(request)
    glossary = Glossary.parse(sent.fields.get("glossary", ""))
    job = jobs_of(request).begin(
        sent.name,
        sent.raw,
        sent.fields.get("source", AUTO),
        sent.fields.get("target", ""),
        glossary,
        client_address(request),
        characters_allowed(request),
    )
    return written(job.status())


@router.get(
    "/v1/documents/{key}", response_model=schemas.DocumentStatus, responses=refusals(401, 404)
)
async def status(request: Request, key: str) -> Response:
    """How far a document is."""
    require_key(request)
    return written(jobs_of(request)[key].status())


@router.get("/v1/documents/{key}/file", response_class=Response, responses=A_FILE | refusals(404))
async def download(request: Request, key: str) -> Response:
    """The translated file. Its name is its key: a link to it works without another."""
    return as_file(jobs_of(request)[key])
