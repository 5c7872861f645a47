"""An API compatible with DeepL's version 2: translation, glossaries, documents, languages, usage.

DeepL's official clients work unchanged if they get this service's address. A key may be sent as
`Authorization: DeepL-Auth-Key KEY`, or as to the other routes. Errors are `{"message": …}`.
"""

import csv
import io
import secrets
from collections import Counter, OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from dragoman.documents.formats import BY_NAME, TAGGED
from dragoman.serve import schemas
from dragoman.serve.documents import DocumentJob, as_file, jobs_of
from dragoman.serve.door import FORMS, JSON, DeeplRoute, costs, paying, read_fields, read_upload
from dragoman.serve.keys import Client
from dragoman.serve.requests import A_FILE, body_of, described, refusals, service_of, written
from dragoman.serve.service import Service
from dragoman.text.glossary import NO_TERMS, Glossary
from dragoman.text.languages import AUTO, NAMES

router = APIRouter(prefix="/v2", tags=["DeepL"], route_class=DeeplRoute)
MOST_TEXTS = 50
MOST_GLOSSARIES = 1000  # of a key
MOST_GLOSSARY_BYTES = 2**24  # of a key
MOST_BYTES = 2**27  # of all glossaries
# Characters. Names and codes are not counted in the bytes of a glossary, so they are short.
_LONGEST_NAME, _LONGEST_CODE = 200, 20
# Parsed glossaries in memory; each takes many times the memory of its entries.
_READY = 8
_ACCEPTED = frozenset(
    ["text", "target_lang", "source_lang", "glossary_id", "tag_handling", "ignore_tags"]
)
_BODIES = (JSON, *FORMS)
_REQUEST = costs("request")
_REFUSALS = refusals(400, 403, schema=schemas.DeeplError)
_NOT_FOUND = refusals(400, 403, 404, schema=schemas.DeeplError)
_FULL = described(456, schema=schemas.DeeplError)
_ENTRIES: dict[int | str, Any] = {
    200: {
        "description": "Lines of source TAB target.",
        "content": {"text/tab-separated-values": {"schema": {"type": "string"}}},
    }
}
# DeepL's clients send these targets, and some offer only the languages that are listed.
_REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
_STATES = {"waiting": "queued", "translating": "translating", "done": "done", "failed": "error"}


class _Kept(NamedTuple):
    """A glossary of a client, unparsed."""

    info: schemas.DeeplGlossary
    entries: str  # lines of source TAB target
    owner: str

    @property
    def key(self) -> str:
        return self.info.glossary_id


class Glossaries:
    """The glossaries of all clients. Each belongs to a key, and other keys do not see it."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._ready: OrderedDict[str, Glossary] = OrderedDict()

    def of(self, owner: str) -> list[_Kept]:
        return [kept for kept in self._kept.values() if kept.owner == owner]

    def get(self, key: str, owner: str) -> _Kept:
        kept = self._kept.get(key)
        if kept is None or kept.owner != owner:
            raise HTTPException(404, "there is no such glossary.")
        return kept

    def add(self, kept: _Kept, glossary: Glossary) -> None:
        own = self.of(kept.owner)
        if len(own) >= MOST_GLOSSARIES:
            raise HTTPException(456, f"{MOST_GLOSSARIES} glossaries are kept: delete one.")
        for glossaries, most in ((own, MOST_GLOSSARY_BYTES), (self._kept.values(), MOST_BYTES)):
            if sum(len(one.entries) for one in glossaries) + len(kept.entries) > most:
                raise HTTPException(456, f"glossaries may have {most:,} characters: delete one.")
        self._kept[kept.key] = kept
        self._keep_ready(kept.key, glossary)

    def remove(self, kept: _Kept) -> None:
        del self._kept[kept.key]
        self._ready.pop(kept.key, None)

    async def terms(self, kept: _Kept, service: Service, client: Client) -> Glossary:
        glossary = self._ready.get(kept.key)
        if glossary is None:
            glossary = await service.parsed_glossary(client, kept.entries)
        if kept.key in self._kept:  # not deleted meanwhile
            self._keep_ready(kept.key, glossary)
        return glossary

    def _keep_ready(self, key: str, glossary: Glossary) -> None:
        self._ready[key] = glossary
        self._ready.move_to_end(key)
        # The key that has most of them ready loses its oldest one.
        while len(self._ready) > _READY:
            counts = Counter(self._kept[one].owner for one in self._ready)
            most = max(counts, key=counts.__getitem__)
            del self._ready[next(one for one in self._ready if self._kept[one].owner == most)]


def _text(
    fields: Mapping[str, Any], name: str, default: str | None = None, longest: int = 2**20
) -> str:
    value = fields.get(name, default)
    if value is None:
        value = default
    if not isinstance(value, str) or len(value) > longest:
        raise HTTPException(400, f"{name} must be a string of at most {longest:,} characters.")
    return value


def _names(fields: Mapping[str, Any], name: str) -> list[str]:
    """Read a list of names, or a text with commas between them."""
    given = fields.get(name) or []
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(entry, str) for entry in names):
        raise HTTPException(400, f"{name} must be a list of names.")
    return [entry.strip() for entry in names if entry.strip()]


def _code(given: str) -> str:
    """Return our code for a language.

    >>> _code("EN-GB")
    'en'
    """
    return given.partition("-")[0].lower()


def _glossaries(request: Request) -> Glossaries:
    kept: Glossaries = request.app.state.glossaries
    return kept


def _kept(request: Request, key: str) -> _Kept:
    return _glossaries(request).get(key, paying(request).key)


async def _glossary(request: Request, fields: Mapping[str, Any]) -> Glossary:
    key = _text(fields, "glossary_id", "")
    if not key:
        return NO_TERMS
    kept = _kept(request, key)
    return await _glossaries(request).terms(kept, service_of(request), paying(request))


@router.post(
    "/translate",
    response_model=schemas.DeeplResponse,
    responses=_NOT_FOUND,
    openapi_extra=costs("work") | body_of(schemas.DeeplRequest, _BODIES),
)
async def translate(request: Request) -> Response:
    """Translate texts; with tag_handling they are HTML or XML. Fields without effect, such as
    preferences, are named in `ignored` of the answer."""
    fields = await read_fields(request)
    texts = fields.get("text")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "text must be a string or a list of strings.")
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise HTTPException(400, f"text must have from 1 to {MOST_TEXTS} texts.")
    # DeepL's own answer for languages without such forms. It ignores a mere preference there.
    if _text(fields, "formality", "default") in ("more", "less"):
        raise HTTPException(400, "'formality' is not supported for given 'target_lang'.")
    source = _code(_text(fields, "source_lang", "")) or AUTO
    target = _code(_text(fields, "target_lang"))
    glossary, client = await _glossary(request, fields), paying(request)
    service = service_of(request)
    if handling := _text(fields, "tag_handling", ""):
        format_ = BY_NAME["html"] if handling == "html" else TAGGED
        marked = await service.translate_markup(
            texts,
            format_,
            source,
            target,
            glossary=glossary,
            client=client,
            ignored=tuple(_names(fields, "ignore_tags")),
        )
        answers = [(text, route.source) for text, route in marked]
    else:
        found = await service.translate(texts, source, target, glossary=glossary, client=client)
        answers = [(entry.text, entry.source) for entry in found]
    shown = [
        {"detected_source_language": s.upper(), "text": t, "billed_characters": len(text)}
        for (t, s), text in zip(answers, texts, strict=True)
    ]
    answer: dict[str, Any] = {"translations": shown}
    if ignored := sorted(set(fields) - _ACCEPTED):
        answer["ignored"] = ignored
    return JSONResponse(answer)


_KIND = {
    "name": "type",
    "in": "query",
    "schema": {"type": "string", "enum": ["source", "target"], "default": "source"},
}


@router.get(
    "/languages",
    response_model=list[schemas.DeeplLanguage],
    responses=_REFUSALS,
    openapi_extra=_REQUEST | {"parameters": [_KIND]},
)
async def languages(request: Request) -> Response:
    """List source languages, or with `type=target` target languages."""
    # The official client sends the type as a form, by GET.
    kind = request.query_params.get("type") or _text(await read_fields(request), "type", "source")
    pairs = service_of(request).models.languages
    codes = [code for code, targets in pairs.items() if targets]
    if kind == "target":
        targets = service_of(request).models.targets
        codes = [shown for code in targets for shown in (code, *_REGIONS.get(code, ()))]
    return JSONResponse(
        [
            {
                "language": code.upper().replace("_", "-"),
                "name": NAMES.get(code, NAMES.get(_code(code), code)),
                "supports_formality": False,
            }
            for code in codes
        ]
    )


@router.get(
    "/usage", response_model=schemas.DeeplUsage, responses=_REFUSALS, openapi_extra=_REQUEST
)
async def usage(request: Request) -> Response:
    """Return the characters of this key since the service started; their sum has no limit."""
    return JSONResponse(
        {
            "character_count": service_of(request).metrics.characters_of[paying(request).key],
            "character_limit": 10**12,
        }
    )


@router.post(
    "/glossaries",
    status_code=201,
    response_model=schemas.DeeplGlossary,
    responses=_REFUSALS | _FULL,
    openapi_extra=_REQUEST | body_of(schemas.DeeplGlossaryRequest, _BODIES),
)
async def create_glossary(request: Request) -> Response:
    """Keep a glossary as long as the service runs."""
    fields = await read_fields(request)
    entries = _text(fields, "entries")
    if _text(fields, "entries_format", "tsv") == "csv":
        try:
            rows = [*csv.reader(io.StringIO(entries, newline=""))]
        except csv.Error as error:
            raise HTTPException(400, f"entries: it is not CSV ({error}).") from None
        entries = "".join("\t".join(row[:2]) + "\n" for row in rows if row)
    glossary = await service_of(request).parsed_glossary(paying(request), entries)
    info = schemas.DeeplGlossary(
        glossary_id=secrets.token_hex(16),
        name=_text(fields, "name", "", _LONGEST_NAME),
        ready=True,
        source_lang=_code(_text(fields, "source_lang", longest=_LONGEST_CODE)),
        target_lang=_code(_text(fields, "target_lang", longest=_LONGEST_CODE)),
        creation_time=datetime.now(UTC).isoformat(),
        entry_count=len(glossary.terms),
    )
    kept = _Kept(info, entries, paying(request).key)
    _glossaries(request).add(kept, glossary)
    return written(info, 201)


@router.get(
    "/glossaries",
    response_model=schemas.DeeplGlossaries,
    responses=_REFUSALS,
    openapi_extra=_REQUEST,
)
async def list_glossaries(request: Request) -> Response:
    kept = _glossaries(request).of(paying(request).key)
    return written(schemas.DeeplGlossaries(glossaries=[one.info for one in kept]))


@router.get(
    "/glossary-language-pairs",
    response_model=schemas.DeeplPairs,
    responses=_REFUSALS,
    openapi_extra=_REQUEST,
)
async def glossary_pairs(request: Request) -> Response:
    pairs = service_of(request).models.pairs
    shown = [{"source_lang": source, "target_lang": target} for source, target in pairs]
    return JSONResponse({"supported_languages": shown})


@router.get(
    "/glossaries/{key}",
    response_model=schemas.DeeplGlossary,
    responses=_NOT_FOUND,
    openapi_extra=_REQUEST,
)
async def get_glossary(request: Request, key: str) -> Response:
    return written(_kept(request, key).info)


@router.get(
    "/glossaries/{key}/entries",
    response_class=Response,
    responses=_ENTRIES | _NOT_FOUND,
    openapi_extra=_REQUEST,
)
async def glossary_entries(request: Request, key: str) -> Response:
    return Response(_kept(request, key).entries, media_type="text/tab-separated-values")


@router.delete("/glossaries/{key}", status_code=204, responses=_NOT_FOUND, openapi_extra=_REQUEST)
async def delete_glossary(request: Request, key: str) -> Response:
    _glossaries(request).remove(_kept(request, key))
    return Response(status_code=204)


@router.post(
    "/document",
    response_model=schemas.DeeplDocument,
    responses=_NOT_FOUND,
    openapi_extra=costs("file") | body_of(schemas.DeeplUpload, FORMS[1:]),
)
async def upload(request: Request) -> Response:
    sent = await read_upload(request)
    job = jobs_of(request).begin(
        _text(sent.fields, "filename", sent.name),
        sent.raw,
        _code(_text(sent.fields, "source_lang", "")) or AUTO,
        _code(_text(sent.fields, "target_lang")),
        await _glossary(request, sent.fields),
        paying(request),
    )
    return JSONResponse({"document_id": job.key, "document_key": job.key})


async def _asked(request: Request, key: str) -> DocumentJob:
    fields = await read_fields(request)
    job = jobs_of(request).of(key, paying(request).key)
    # In constant time, so that a client cannot guess the key byte by byte.
    if not secrets.compare_digest(_text(fields, "document_key", "").encode(), job.key.encode()):
        raise HTTPException(404, "there is no such document, or not any more.")
    return job


@router.post(
    "/document/{key}",
    response_model=schemas.DeeplStatus,
    responses=_NOT_FOUND,
    openapi_extra=_REQUEST | body_of(schemas.DeeplKey, _BODIES),
)
async def document_status(request: Request, key: str) -> Response:
    job = await _asked(request, key)
    answer: dict[str, Any] = {"document_id": job.key, "status": _STATES[job.state]}
    if job.state == "done":
        answer["billed_characters"] = job.characters
    if job.error:
        answer["message"] = answer["error_message"] = job.error
    return JSONResponse(answer)


@router.post(
    "/document/{key}/result",
    response_class=Response,
    responses=A_FILE | _NOT_FOUND,
    openapi_extra=_REQUEST | body_of(schemas.DeeplKey, _BODIES),
)
async def document_result(request: Request, key: str) -> Response:
    return as_file(await _asked(request, key))
