"""Documents that clients upload, poll and fetch once they are translated.

A document is named by a secret key: a client that knows the key may see its progress and fetch it.
Finished documents are kept for an hour. The places and bytes for them are shared out evenly: a full
service takes a document of a client that holds little by dropping one of the client that holds
most.
"""

import asyncio
import secrets
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import Format, format_of, translated_name
from dragoman.documents.report import Report
from dragoman.documents.sandbox import FileSummary
from dragoman.errors import DragomanError
from dragoman.serve import schemas
from dragoman.serve.batcher import StoppingError
from dragoman.serve.door import FORMS, MeteredRoute, costs, paying, read_upload
from dragoman.serve.keys import Client
from dragoman.serve.requests import A_FILE, body_of, refusals, service_of, written
from dragoman.serve.served_models import Route
from dragoman.serve.service import Service
from dragoman.text.glossary import NO_TERMS, Glossary
from dragoman.text.languages import AUTO

_MOST_USES = 2000  # of terms in a report: up to some seconds
router = APIRouter(tags=["documents"], route_class=MeteredRoute)


@dataclass(eq=False)
class DocumentJob:
    """One document and the state of its translation."""

    key: str
    name: str  # of the uploaded file, then of the translation
    format: Format
    client: Client
    source: str  # as the client named it, or auto
    size: int  # of the uploaded file
    state: str = "waiting"
    done: int = 0
    total: int = 0
    characters: int = 0
    error: str = ""
    result: bytes = b""
    # Rendered and deflated: the rows as objects, or as HTML, take many times the memory.
    report_page: bytes = b""
    report_counts: dict[str, int] | None = None
    term_counts: dict[str, int] | None = None
    task: "asyncio.Task[None] | None" = None
    expiry: asyncio.TimerHandle | None = None

    @property
    def held_bytes(self) -> int:
        """Count the bytes it keeps: its file until it is translated, then result and report."""
        return len(self.result) + len(self.report_page) if self.over else self.size

    def advance(self, done: int) -> None:
        self.done = done

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
            name=self.name if self.state == "done" else None,
            error=self.error or None,
            report=self.report_counts,
            terms=self.term_counts,
        )


class DocumentJobs:
    """The documents of a service."""

    def __init__(self, service: Service):
        self._service = service
        self._jobs: dict[str, DocumentJob] = {}

    def begin(
        self,
        name: str,
        raw: bytes,
        source: str,
        target: str,
        glossary: Glossary = NO_TERMS,
        client: Client = Client(),
        prefer: str = "",
    ) -> DocumentJob:
        """Start the translation of a file. Its job reports errors.

        `prefer` is a target for files that are not in that language already.
        """
        # Before a place is made for it: an unknown format must not cost another document.
        form = format_of(name)
        self._make_room(client, len(raw))
        job = DocumentJob(secrets.token_hex(16), name, form, client, source, len(raw))
        self._jobs[job.key] = job
        job.task = asyncio.create_task(self._run(job, raw, target, prefer, glossary))
        job.task.add_done_callback(lambda task: self._finished(job))
        return job

    def _make_room(self, client: Client, size: int) -> None:
        """Drop documents until one more of this size fits, or raise 429."""
        while loser := self._one_over_its_share(client.name, 1, size):
            self._drop_one(loser, may_cancel=loser != client.name)

    def _one_over_its_share(self, name: str, documents: int, size: int) -> str:
        """Return which client has to lose a document before this one may add some; "" if none has.

        Within its own limits a client may take a place from the client that holds most, unless
        that one would end up with less than it.
        """
        limits = self._service.limits
        counts, held = Counter[str](), Counter[str]()
        for job in self._jobs.values():
            counts[job.client.name] += 1
            held[job.client.name] += job.held_bytes
        if counts[name] + documents > limits.documents_of_client:
            return name
        if held[name] + size > limits.document_bytes // 4:
            return name
        # `- 1`: the loser gives up one place, and must not end below the new one.
        if counts.total() + documents > limits.documents:
            most = max(counts, key=counts.__getitem__)
            return most if counts[most] - 1 >= counts[name] + documents else name
        if held.total() + size > limits.document_bytes:
            most = max(held, key=held.__getitem__)
            return most if held[most] > held[name] + size else name
        return ""

    def _drop_one(self, owner: str, may_cancel: bool) -> None:
        """Drop a client's oldest finished document, or else its newest waiting one."""
        own = [job for job in self._jobs.values() if job.client.name == owner]
        # Jobs are in the order in which they came.
        finished = [job for job in own if job.over]
        waiting = [job for job in own if job.state == "waiting"]
        if finished:
            self._forget(finished[0])
        elif waiting and may_cancel:
            self.cancel(waiting[-1])
        else:
            message = "too many documents are waiting: try again later, or delete some."
            raise HTTPException(429, message, {"Retry-After": "60"})

    def _finished(self, job: DocumentJob) -> None:
        job.task = None  # frees what the task still references
        if job.key not in self._jobs:  # deleted or dropped meanwhile
            return
        later = asyncio.get_running_loop().call_later
        # An empty context: a copy of the task's would keep the whole request alive for an hour.
        job.expiry = later(self._service.limits.document_s, self._forget, job, context=Context())
        # Result and report may be larger than the file that was let in.
        with suppress(HTTPException):
            while loser := self._one_over_its_share(job.client.name, 0, 0):
                self._drop_one(loser, may_cancel=False)

    def _forget(self, job: DocumentJob) -> None:
        self._jobs.pop(job.key, None)
        if job.expiry is not None:
            job.expiry.cancel()

    def __getitem__(self, key: str) -> DocumentJob:
        if key not in self._jobs:
            raise HTTPException(404, "there is no such document, or not any more.")
        return self._jobs[key]

    def of(self, key: str, owner: str) -> DocumentJob:
        """Return a document of this owner, or 404 for another's."""
        if self[key].client.key != owner:
            raise HTTPException(404, "there is no such document, or not any more.")
        return self[key]

    def cancel(self, job: DocumentJob) -> None:
        """Forget a document, and stop its translation."""
        self._forget(job)
        if job.task is not None:
            job.task.cancel()

    def close(self) -> None:
        for job in self._jobs.values():
            if job.task is not None:
                job.task.cancel()

    async def _run(
        self, job: DocumentJob, raw: bytes, target: str, prefer: str, glossary: Glossary
    ) -> None:
        try:
            await self._translate(job, raw, target, prefer, glossary)
            job.state = "done"
        except (DragomanError, StoppingError) as error:
            job.state, job.error = "failed", str(error)
        except asyncio.CancelledError:
            job.state, job.error = "failed", "its translation was cancelled."
            raise
        except Exception:
            job.state, job.error = "failed", "this is a defect of the service; its log says more."
            traceback.print_exc()  # asyncio reports no errors of tasks that are not awaited

    async def _translate(
        self, job: DocumentJob, raw: bytes, target: str, prefer: str, glossary: Glossary
    ) -> None:
        service, readers = self._service, self._service.readers
        most = service.limits.max_file_characters
        most = min(most, job.client.max_characters or most)

        async def read(to: str) -> FileSummary:
            options = ReadOptions(to=to)
            form = job.format.name
            return await readers.run(
                reader.open, job.name, raw, form, options, readers.limits, most
            )

        async with readers.reader(job.client.name) as reader:
            outline = await read(target)
            route = service.models.route(outline.sample, job.source, target or prefer)
            # The file is in the preferred language already: use the model's first choice.
            if route.note and not target:
                route = service.models.route(outline.sample, job.source, "")
            # Some formats state their language, so they are read again with the target.
            if route.target != target:
                outline = await read(route.target)
            job.characters = outline.characters
            service.metrics.count_characters(outline.characters, job.client.key)
            job.state, job.total = "translating", outline.segments
            job.result = await service.translate_document(
                reader, route, glossary, job.client.name, job.advance
            )
            report = reader.report
        job.done = job.total
        job.name = translated_name(job.name, route.target or "translated")
        # In turn, and with pauses: looking for terms may take seconds.
        await service.run_text_work(job.client, partial(_add_report, job, report, route, glossary))


def _add_report(
    job: DocumentJob, report: Report, route: Route, glossary: Glossary, pause: Callable[[], None]
) -> None:
    if glossary.terms:
        languages = route.source, route.target
        report = report.with_terms(lambda s, t: glossary.uses(s, t, *languages, pause), _MOST_USES)
        job.term_counts = report.terms or None
    job.report_counts = report.counts
    job.report_page = zlib.compress(report.as_page(job.name).encode())


def jobs_of(request: Request) -> DocumentJobs:
    jobs: DocumentJobs = request.app.state.jobs
    return jobs


def as_file(job: DocumentJob) -> Response:
    """Return a file that a browser saves and never shows: it may be a stranger's HTML."""
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
    """Translate a file; the end of its name tells its format."""
    sent = await read_upload(request)
    client = paying(request)
    glossary = NO_TERMS
    if terms := sent.fields.get("glossary", ""):
        glossary = await service_of(request).parsed_glossary(client, terms)
    job = jobs_of(request).begin(
        sent.name,
        sent.raw,
        sent.fields.get("source", AUTO),
        sent.fields.get("target", ""),
        glossary,
        client,
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
    """Return the progress of a document."""
    return written(jobs_of(request).of(key, paying(request).key).status())


@router.delete(
    "/v1/documents/{key}",
    status_code=204,
    responses=refusals(401, 404),
    openapi_extra=costs("request"),
)
async def delete(request: Request, key: str) -> Response:
    """Cancel the translation of a document, or delete its result."""
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
    """Return the translated file. Its ID is secret, so a link to it needs no key."""
    return as_file(jobs_of(request)[key])


@router.get(
    "/v1/documents/{key}/report",
    response_class=Response,
    responses=A_FILE | refusals(404),
    openapi_extra=costs("nothing"),
)
async def report(request: Request, key: str) -> Response:
    """Return a page with the document's texts and translations, doubtful ones first."""
    job = jobs_of(request)[key]
    if job.state != "done":
        raise HTTPException(404, job.error or "the document is not translated yet.")
    # The texts come from a client. They are escaped, and the policy stops any script regardless.
    rules = "default-src 'none'; style-src 'unsafe-inline'"
    headers = {"Content-Security-Policy": rules}
    if "deflate" in request.headers.get("accept-encoding", ""):
        # All connections share the stored bytes.
        headers |= {"Content-Encoding": "deflate", "Vary": "Accept-Encoding"}
        return Response(job.report_page, media_type="text/html", headers=headers)
    page = await asyncio.to_thread(zlib.decompress, job.report_page)
    return Response(page, media_type="text/html", headers=headers)
