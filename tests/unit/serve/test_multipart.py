"""Multipart forms: the same result however they arrive, and limits that hold."""

import asyncio

import pytest
from fastapi import HTTPException
from starlette.formparsers import MultiPartParser

from dragoman.serve.multipart import MOST_FIELDS, UploadedFile, read_form

KIND = "multipart/form-data; boundary=x"


def part(name: str, data: bytes, more: str = "") -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + data + b"\r\n"


RAW = b"\0\xff\r\n--xy"


def form_of(raw: bytes) -> bytes:
    return (
        part("q", "zwölf".encode())
        + part("q", b"--x is no boundary")
        + part("file", raw, '; filename="b/a.txt"')
        + part("empty", b"")
        + b"--x--\r\n"
    )


def read(form: bytes, piece: int = 2**16, most_bytes: int = 1000, files: int = 1, kind: str = KIND):
    async def pieces():
        for start in range(0, len(form), piece):
            yield form[start : start + piece]

    return asyncio.run(read_form(kind, pieces(), most_bytes, files))


@pytest.mark.parametrize(("raw", "piece"), [(RAW, 1), (RAW * 10_000, 7), (RAW * 20_000, 10**7)])
def test_a_form_reads_the_same_however_it_is_cut(raw, piece) -> None:
    fields, files = read(form_of(raw), piece)
    assert fields == {"q": ["zwölf", "--x is no boundary"], "empty": ""}
    assert files == {"file": UploadedFile("b/a.txt", raw)}


def test_starlette_reads_the_same() -> None:
    async def theirs():
        async def stream():
            yield form_of(RAW)

        headers = {"Content-Type": KIND}
        form = await MultiPartParser(headers, stream()).parse()
        return form.getlist("q"), await form["file"].read()

    fields, files = read(form_of(RAW))
    assert asyncio.run(theirs()) == (fields["q"], files["file"].raw)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        (part("a", b"b" * 2000), 413),
        (part("a" * 2000, b""), 413),
        (b"".join(part("a", b"b" * 30) for _ in range(20)), 413),
        (part("a", b"b", "\r\nX-More: " + "c" * 2000), 413),
        (part("a", b"", '; filename="f"') * 2, 400),
        (part("a", b"\xff"), 400),
        (b"no form at all", 400),
        (b"--x\r\nContent-Type: text/plain\r\n\r\na\r\n--x--\r\n", 400),
    ],
)
def test_a_form_beyond_its_limits_is_refused(form, status) -> None:
    with pytest.raises(HTTPException) as refused:
        read(form + b"--x--\r\n")
    assert refused.value.status_code == status


def test_fields_have_a_number_and_a_boundary_is_needed() -> None:
    fields = [part(f"a{i}", b"") for i in range(MOST_FIELDS + 1)]
    assert len(read(b"".join(fields[:-1]) + b"--x--\r\n", most_bytes=10**6)[0]) == MOST_FIELDS
    with pytest.raises(HTTPException, match=f"more than {MOST_FIELDS} fields"):
        read(b"".join(fields) + b"--x--\r\n", most_bytes=10**6)
    for kind in ("multipart/form-data", "multipart/form-data; boundary="):
        with pytest.raises(HTTPException, match="boundary"):
            read(form_of(RAW), kind=kind)


def test_a_header_with_many_semicolons_is_refused_and_one_with_some_is_read() -> None:
    few, many = "a;b;c.txt", ";" * 100
    _, files = read(part("file", b"x", f'; filename="{few}"') + b"--x--\r\n")
    assert files["file"].name == few
    for form, kind in (
        (part("q", b"x", f'; filename="{many}"') + b"--x--\r\n", KIND),
        (form_of(RAW), f'{KIND}; a="{many}"'),
    ):
        with pytest.raises(HTTPException, match="semicolons") as refused:
            read(form, kind=kind)
        assert refused.value.status_code == 400
