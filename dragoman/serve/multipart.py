"""Multipart forms, parsed by python-multipart's callbacks.

Fields are UTF-8 and, together with the headers of all parts, no larger than another body. A file
stays in memory up to 64 KiB and on disk beyond that, until all of it has arrived.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

from fastapi import HTTPException
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

MOST_FIELDS = 200
_new_file = partial(SpooledTemporaryFile[bytes], max_size=64 * 1024)
# It warns of every malformed form, and clients send those.
logging.getLogger("python_multipart").setLevel(logging.ERROR)
# Parsing takes quadratic time in their number, even within quotes.
_MOST_SEMICOLONS = 30


class UploadedFile(NamedTuple):
    name: str
    raw: bytes


async def read_form(
    content_type: str, body: AsyncIterator[bytes], most_bytes: int, most_files: int
) -> tuple[dict[str, Any], dict[str, UploadedFile]]:
    """Return fields and files by name. A field that comes several times is a list.

    `most_bytes` bounds everything but the files.
    """
    boundary = header_options(content_type).get(b"boundary")
    if not boundary:
        raise HTTPException(400, "the form names no boundary in its Content-Type.")
    form = _Form(most_bytes, most_files)
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": form.on_part_begin,
                "on_header_field": form.on_header_field,
                "on_header_value": form.on_header_value,
                "on_header_end": form.on_header_end,
                "on_headers_finished": form.on_headers_finished,
                "on_part_data": form.on_part_data,
                "on_part_end": form.on_part_end,
            },
        )
        async for chunk in body:
            parser.write(chunk)
            await form.write_files()
        parser.finalize()
        return form.fields(), await asyncio.to_thread(form.files)
    except FormParserError as error:
        raise HTTPException(400, f"the form is malformed ({error}).") from None
    except OSError as error:  # of the disk
        raise HTTPException(507, f"no room for the file ({error.strerror}).") from None
    finally:
        form.close()


def header_options(header: str) -> dict[bytes, bytes]:
    """Return the parameters of a Content-Type or Content-Disposition by name."""
    if header.count(";") > _MOST_SEMICOLONS:
        raise HTTPException(400, f"a header has more than {_MOST_SEMICOLONS} semicolons.")
    return parse_options_header(header)[1]


class _Form:
    """The state of a form that is being parsed; the parser calls the `on_` methods."""

    def __init__(self, most_bytes: int, most_files: int):
        self._room = most_bytes  # for fields and headers that are still to come
        self._most_files = most_files
        self._fields: list[tuple[str, bytes]] = []
        self._open = ExitStack()
        self._files: list[tuple[str, str, SpooledTemporaryFile[bytes]]] = []  # name, file's name
        self._unwritten: list[tuple[SpooledTemporaryFile[bytes], bytearray]] = []
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._name = ""
        self._data = bytearray()
        self._file: SpooledTemporaryFile[bytes] | None = None  # of the current part

    def on_part_begin(self) -> None:
        self._disposition, self._data, self._file = b"", bytearray(), None

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += self._within_room(data[start:end])

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._within_room(data[start:end])

    def on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def on_headers_finished(self) -> None:
        options = header_options(self._disposition.decode("latin-1"))
        if b"name" not in options:
            raise HTTPException(400, "a part of the form has no name in its Content-Disposition.")
        self._name = _decoded(options[b"name"])
        if b"filename" in options:
            if len(self._files) == self._most_files:
                raise HTTPException(400, f"the form may have {self._most_files} files, not more.")
            self._file = self._open.enter_context(_new_file())
            self._files.append((self._name, _decoded(options[b"filename"]), self._file))
        elif len(self._fields) == MOST_FIELDS:
            raise HTTPException(400, f"the form has more than {MOST_FIELDS} fields.")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._file is not None:
            # The parser hands over a piece for each line end, which may begin a boundary.
            if self._unwritten and self._unwritten[-1][0] is self._file:
                self._unwritten[-1][1].extend(piece)
            else:
                self._unwritten.append((self._file, bytearray(piece)))
        else:
            self._data += self._within_room(piece)

    def on_part_end(self) -> None:
        if self._file is None:
            self._fields.append((self._name, bytes(self._data)))

    def _within_room(self, piece: bytes) -> bytes:
        self._room -= len(piece)
        if self._room < 0:
            raise HTTPException(413, "the fields of the form are too large.")
        return piece

    async def write_files(self) -> None:
        """Write what came of files, in a thread: it may have to go to disk."""
        # The parser's callbacks cannot wait, so they only collect pieces.
        pieces, self._unwritten = self._unwritten, []
        if pieces:
            await asyncio.to_thread(lambda: [file.write(piece) for file, piece in pieces])

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        values: dict[str, list[str]] = {}
        for name, raw in self._fields:
            values.setdefault(name, []).append(_decoded(raw))
        for name, texts in values.items():
            fields[name] = texts if len(texts) > 1 else texts[0]
        return fields

    def files(self) -> dict[str, UploadedFile]:
        files = {}
        for name, filename, file in self._files:
            file.seek(0)
            files[name] = UploadedFile(filename, file.read())
        return files

    def close(self) -> None:
        self._open.close()


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "a field of the form is not UTF-8.") from None
