"""Files that are read through other programs, and written in another format.

LibreOffice converts Word's old format to DOCX. A PDF has positions of letters but no paragraphs:
pdfplumber finds its lines and tables, and the translation is plain HTML with headings, paragraphs
and tables. The layout, pictures and fonts of a PDF are lost.
"""

import html
import io
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.documents import archive, web
from dragoman.documents.document import Document, DocumentError, ReadOptions
from dragoman.errors import needs_package

LONGEST_S = 120  # seconds for a conversion
_MOST_MEMORY = 2**30
_MOST_WRITTEN = 2**28  # bytes per file
MOST_PAGES = 2000
WORD_GAP = 0.15  # of the font size; many files separate words by position only
OLE = b"\xd0\xcf\x11\xe0"  # first bytes of an old Microsoft Office file


def read_doc(raw: bytes, options: ReadOptions) -> Document:
    # LibreOffice would read many other formats under this name.
    if not raw.startswith(OLE):
        raise DocumentError("not a file of Word 97 to 2003.")
    return archive.read_docx(_by_libreoffice(raw), options)


def _by_libreoffice(raw: bytes) -> bytes:
    """Convert a file in a folder of its own, with a fresh profile: none of the user's settings are
    read.
    """
    program = shutil.which("soffice") or shutil.which("libreoffice")
    if program is None:
        raise DocumentError(".doc needs LibreOffice, which is not installed; or save it as .docx.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.doc")
        path.write_bytes(raw)
        command = [
            program, f"-env:UserInstallation={Path(folder, 'profile').as_uri()}", "--headless",
            "--norestore", "--convert-to", "docx:MS Word 2007 XML", "--outdir", folder, str(path),
        ]  # fmt: skip
        environment = {**os.environ, "HOME": folder}
        try:
            # Output is discarded: processes that `soffice` starts would keep a pipe open.
            subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LONGEST_S,
                check=False,
                preexec_fn=_limit_libreoffice if os.name == "posix" else None,
            )
        except subprocess.TimeoutExpired:
            raise DocumentError(f"LibreOffice took longer than {LONGEST_S} s to read it.") from None
        result = path.with_suffix(".docx")
        if not result.is_file():
            raise DocumentError("LibreOffice cannot read it.")
        return result.read_bytes()


def _limit_libreoffice() -> None:
    """Replace the reader's limits by limits for LibreOffice.

    It reserves far more address space than it uses, so the memory that it writes to is limited
    instead.
    """
    import resource

    for which, most in (
        (resource.RLIMIT_AS, resource.RLIM_INFINITY),
        (resource.RLIMIT_DATA, _MOST_MEMORY),
        (resource.RLIMIT_FSIZE, _MOST_WRITTEN),
        (resource.RLIMIT_CPU, LONGEST_S // 2),
    ):
        hard = resource.getrlimit(which)[1]
        unbounded = hard == resource.RLIM_INFINITY
        resource.setrlimit(which, (most if unbounded or 0 <= most < hard else hard, hard))


def read_pdf(raw: bytes, options: ReadOptions) -> Document:
    with needs_package("pdfplumber", "documents"):
        import pdfplumber
    try:
        with pdfplumber.open(io.BytesIO(raw)) as pdf:
            if len(pdf.pages) > MOST_PAGES:
                raise DocumentError(
                    f"it has {len(pdf.pages):,} pages; the limit is {MOST_PAGES:,}."
                )
            blocks = [block for page in pdf.pages for block in _page(page)]
    except DocumentError:
        raise
    except Exception as error:  # on damaged files the library raises errors of any type
        reason = type(error).__name__
        raise DocumentError(f"not a PDF, or encrypted or damaged ({reason}).") from None
    if not blocks:
        raise DocumentError(
            "no text can be read in it: it is damaged, or has only pictures, which need OCR first."
        )
    # The document continues as HTML, with that reader and writer.
    page = "\n".join(
        ['<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">', *blocks, "</html>\n"]
    )
    return web.read(page.encode(), options)


def _page(page: Any) -> Iterator[str]:
    """Yield the tables of a page as HTML, and the lines around them as paragraphs and headings."""
    tables = page.find_tables()
    lines = []
    for line in page.extract_text_lines(return_chars=True, x_tolerance_ratio=WORD_GAP):
        middle = (line["top"] + line["bottom"]) / 2
        # Text of a table is not also a paragraph.
        inside = [t for t in tables if t.bbox[1] <= middle <= t.bbox[3] and _overlaps(t.bbox, line)]
        if not inside:
            lines.append((line["top"], line))
    body_size = statistics.median([_size(line) for _, line in lines]) if lines else 0.0
    parts: list[tuple[float, str]] = [
        (t.bbox[1], _table(t.extract(x_tolerance_ratio=WORD_GAP))) for t in tables
    ]
    paragraph: list[Any] = []
    for _, line in lines:
        if paragraph and not _continues(paragraph[-1], line, body_size):
            parts.append((paragraph[0]["top"], _paragraph(paragraph, body_size)))
            paragraph = []
        paragraph.append(line)
    if paragraph:
        parts.append((paragraph[0]["top"], _paragraph(paragraph, body_size)))
    yield from (markup for _, markup in sorted(parts, key=lambda part: part[0]) if markup)


def _overlaps(box: tuple[float, float, float, float], line: Any) -> bool:
    return bool(line["x0"] < box[2] and line["x1"] > box[0])


def _size(line: Any) -> float:
    return float(statistics.median(char["size"] for char in line["chars"]))


def _continues(before: Any, line: Any, body_size: float) -> bool:
    """True if a line continues the paragraph of the previous line: it is close and has letters of
    the same size, and the previous line is not a short last line.
    """
    size = _size(line)
    # The distances are in units of the font size.
    near = line["top"] - before["bottom"] < 0.7 * size and line["top"] >= before["top"]
    full = before["x1"] > line["x0"] + 0.6 * (line["x1"] - line["x0"])
    return near and abs(size - _size(before)) < 0.1 * body_size and full


def _paragraph(lines: list[Any], body_size: float) -> str:
    text = ""
    for line in lines:
        joined = text.endswith("-") and line["text"][:1].islower()  # hyphenated at the line end
        text = text[:-1] + line["text"] if joined else f"{text} {line['text']}"
    size = _size(lines[0])
    # Headings are larger than most lines of the page.
    tag = "h1" if size > 1.5 * body_size else "h2" if size > 1.15 * body_size else "p"
    return f"<{tag}>{html.escape(text.strip())}</{tag}>" if text.strip() else ""


def _table(rows: list[list[str | None]]) -> str:
    lines = []
    for row in rows:
        cells = "".join(f"<td>{html.escape(' '.join((c or '').split()))}</td>" for c in row)
        lines.append(f"<tr>{cells}</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"
