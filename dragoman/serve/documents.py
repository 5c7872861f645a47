"""Documents: uploaded, translated beside other work, fetched when they are done.

A document has a name that nobody can guess: whoever knows it may see how far it is, and fetch it.
Some are kept for some time. A client has a share of them and of their memory: a new one takes the
place of its own oldest that is done, never of another client's.
"""

import asyncio
import secrets
import traceback
from contextvars import Context
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response

from dragoman.decode.promises.glossary import NO_TERMS, Glossary
from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import BY_NAME, Format, format_of, translated_name
from dragoman.documents.report import Report
from dragoman.errors import DragomanError
from dragoman.serve import schemas
from dragoman.serve.batcher import StoppingError
from dragoman.serve.door import FORMS, Route, costs, paying, read_upload
from dragoman.serve.keys import Client
from dragoman.serve.requests import (
    A_FILE,
    body_of,
    refusals,
    written,
)
from dragoman.serve.service import Service
from dragoman.text.languages import AUTO

router = APIRouter(tags=["documents"], route_class=Route)


@dataclass(eq=False)
class Job:
    """A document on its way."""

    key: str
    format: Format
    client: Client
    size: int = 0  # of the file
    state: str = "waiting"
    done: int = 0
    total: int = 0
    characters: int = 0
    name: str = ""
    error: str = ""
    source: str = ""
    target: str = ""
    result: bytes = b""
    report: Report | None = None
    task: "asyncio.Task[None] | None" = None
    expiry: asyncio.TimerHandle | None = None  # that forgets it when its time is over

    @property
    def held(self) -> int:
        """Bytes that it takes: the file while it is translated, then the translation."""
        return len(self.result) if self.over else self.size

    async def finished(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])

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
            report=self.report.counts if self.report else None,
            terms=(self.report.terms or None) if self.report else None,
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
        client: Client = Client(),
        format_: str = "",
        prefer: str = "",
    ) -> Job:
        """Take a file; what is wrong with it is told by its job.

        `prefer`: the target of a file that is in another language.
        """
        self._make_room(client, len(raw))
        if format_ and format_ not in BY_NAME:
            raise DocumentError(f"there is no format {format_!r}; there are {', '.join(BY_NAME)}.")
        kind = BY_NAME[format_] if format_ else format_of(name)
        job = Job(secrets.token_hex(16), kind, client, len(raw))
        self._jobs[job.key] = job
        job.task = asyncio.create_task(
            self._translate(job, name, raw, source, target, glossary, prefer)
        )
        job.task.add_done_callback(lambda task: self._finished(job))
        return job

    def _make_room(self, client: Client, size: int) -> None:
        """For a file of a client, by forgetting documents of this client that are done."""
        limits = self._service.limits
        while True:
            own = [job for job in self._jobs.values() if job.client.name == client.name]
            full = len(own) >= limits.documents_of_client or len(self._jobs) >= limits.documents
            full |= sum(job.held for job in own) + size > limits.document_bytes // 4
            everything = sum(job.held for job in self._jobs.values())
            if not full and everything + size <= limits.document_bytes:
                return
            oldest = next((job for job in own if job.over), None)
            if oldest is None:
                message = "too many documents are waiting: try again later, or delete some."
                raise HTTPException(429, message, {"Retry-After": "60"})
            self._forget(oldest)

    def _finished(self, job: Job) -> None:
        job.task = None  # and with it whatever the task has left in memory
        if job.key in self._jobs:  # else it was given up
            later = asyncio.get_running_loop().call_later
            # In an empty context: that of its task would keep the request in memory meanwhile.
            job.expiry = later(
                self._service.limits.document_s, self._forget, job, context=Context()
            )

    def _forget(self, job: Job) -> None:
        self._jobs.pop(job.key, None)
        if job.expiry is not None:
            job.expiry.cancel()

    def __getitem__(self, key: str) -> Job:
        if key not in self._jobs:
            raise HTTPException(404, "there is no such document, or not any more.")
        return self._jobs[key]

    def of(self, key: str, owner: str) -> Job:
        """A document of this owner; another's is not there."""
        if self[key].client.key != owner:
            raise HTTPException(404, "there is no such document, or not any more.")
        return self[key]

    def cancel(self, job: Job) -> None:
        """Forget a document, translated or not."""
        self._forget(job)
        if job.task is not None:
            job.task.cancel()

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
        prefer: str,
    ) -> None:
        try:
            service = self._service
            most = service.limits.max_file_characters
            most = min(most, job.client.max_characters or most)
            readers = service.readers
            async with readers.reader(job.client.name) as reader:
                options = ReadOptions(to=target)
                outline = await readers.run(
                    reader.open, name, raw, job.format.name, options, readers.limits, most
                )
                route = service.route_document(outline, source, target or prefer)
                if route.note and not target:  # it is in the preferred language already
                    route = service.route_document(outline, source, "")
                if route.target != target:  # formats that state their language must know it
                    options = ReadOptions(to=route.target)
                    outline = await readers.run(
                        reader.open, name, raw, job.format.name, options, readers.limits, most
                    )
                job.characters = outline.characters
                service.metrics.count_characters(outline.characters, job.client.key)
                job.source, job.target = route.source, route.target
                job.state, job.total = "translating", outline.segments

                def advance(done: int) -> None:
                    job.done = done

                job.result = await service.translate_document(
                    reader, route, glossary, job.client.name, advance
                )
                job.report = reader.report
                if glossary.terms:
                    job.report = await asyncio.to_thread(
                        reader.report.with_terms,
                        lambda s, t: glossary.uses(s, t, route.source, route.target),
                    )
            job.done = job.total
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
            traceback.print_exc()  # nobody waits for the task, so nobody else would tell


def jobs_of(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


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
    openapi_extra=costs("file") | body_of(schemas.DocumentRequest, FORMS[1:]),
)
async def upload(request: Request) -> Response:
    """Translate a file; its format is told by the end of its name."""
    sent = await read_upload(request)
    glossary = await asyncio.to_thread(Glossary.parse, sent.fields.get("glossary", ""))
    job = jobs_of(request).begin(
        sent.name,
        sent.raw,
        sent.fields.get("source", AUTO),
        sent.fields.get("target", ""),
        glossary,
        paying(request),
        prefer=sent.fields.get("prefer", ""),
    )
    return written(job.status())


@router.get(
    "/v1/documents/{key}",
    response_model=schemas.DocumentStatus,
    responses=refusals(401, 404),
    openapi_extra=costs("request"),
)
async def status(request: Request, key: str) -> Response:
    """How far a document is."""
    return written(jobs_of(request).of(key, paying(request).key).status())


@router.delete(
    "/v1/documents/{key}",
    status_code=204,
    responses=refusals(401, 404),
    openapi_extra=costs("request"),
)
async def delete(request: Request, key: str) -> Response:
    """Give a document up, or forget its translation."""
    jobs = jobs_of(request)
    jobs.cancel(jobs.of(key, paying(request).key))
    return Response(status_code=204)


@router.get(
    "/v1/documents/{key}/file",
    response_class=Response,
    responses=A_FILE | refusals(404),
    openapi_extra=costs("nothing"),
)
async def download(request: Request, key: str) -> Response:
    """The translated file. Its name is its key: a link to it works without another."""
    return as_file(jobs_of(request)[key])


@router.get(
    "/v1/documents/{key}/report",
    response_class=Response,
    responses=A_FILE | refusals(404),
    openapi_extra=costs("nothing"),
)
async def report(request: Request, key: str) -> Response:
    """A page with the document's texts beside their translations, doubtful ones first."""
    job = jobs_of(request)[key]
    if job.state != "done" or job.report is None:
        raise HTTPException(404, job.error or "the document is not translated yet.")
    # Text of somebody else: it is escaped, and no script would run.
    rules = "default-src 'none'; style-src 'unsafe-inline'"
    page = await asyncio.to_thread(job.report.as_page, job.name)
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": rules})
