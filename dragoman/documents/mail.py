"""E-mail (.eml): the subject, and the parts with text or HTML.

Other headers, attachments and boundaries are copied byte for byte. A part keeps its charset and
encoding unless they lack letters of its translation; then it becomes UTF-8. Signed and encrypted
mail is refused, because a translation would invalidate the signature.
"""

import base64
import binascii
import email
import email.header
import email.message
import quopri
import re
from collections.abc import Callable, Iterator, Sequence

from dragoman.documents import prose, web
from dragoman.documents.document import (
    Document,
    DocumentError,
    ReadOptions,
    Span,
    collect_segments,
    newline_of,
    splice,
)
from dragoman.documents.segment import Code, Kind, Segment, codes, serialize

DEEPEST = 20  # levels of nested parts
# The subject with its folded lines, which begin with white space (RFC 5322).
_SUBJECT = re.compile(r"^Subject:[ \t]*+([^\r\n]*+(?:\r?\n[ \t]++[^\r\n]*+)*+)", re.I | re.M)
# The charset of a Content-Type header, quoted or not.
_CHARSET = re.compile(r"""\bcharset\s*+=\s*+(?:"[^"\r\n]*+"|[^\s;"]++)""", re.I)
_TYPE = re.compile(r"^(Content-Type:[ \t]*+[\w/.+-]++)", re.I | re.M)
_TRANSFER = re.compile(r"^Content-Transfer-Encoding:[^\r\n]*+", re.I | re.M)
_EMPTY_LINE = re.compile(r"^\r?\n", re.M)
_ENVELOPE = re.compile(r"From [^\r\n]*+\r?\n")  # line of a mailbox, before all headers


def read(raw: bytes, options: ReadOptions) -> Document:
    text = raw.decode("latin-1")  # bytes as characters; each part has its own charset
    spans, segments = collect_segments(_part(text, 0, len(text), 0))

    def write(translated: Sequence[Segment]) -> bytes:
        return splice(text, spans, translated).encode("latin-1")

    return Document(segments, write)


def _part(text: str, start: int, end: int, depth: int) -> Iterator[Span]:
    """Find the text in a message or in one of its parts."""
    empty = _EMPTY_LINE.search(text, start, end)
    head_end, body = (empty.start(), empty.end()) if empty else (end, end)
    head = text[start:head_end]
    message = email.message_from_string(head)
    kind = message.get_content_type()
    if depth > DEEPEST:
        raise DocumentError(f"its parts are nested more than {DEEPEST} levels deep.")
    if depth == 0 and not message.keys():
        raise DocumentError("not an e-mail: it has no headers.")
    if kind in ("multipart/signed", "multipart/encrypted") or "pkcs7-mime" in kind:
        raise DocumentError(
            "it is signed or encrypted: a translation would invalidate its signature."
        )
    subject = _SUBJECT.search(head)
    subject_spans = list(_subject(subject)) if subject and (depth == 0 or "from" in message) else []
    # Attachments are copied, even if they are text.
    attached = message.get_content_disposition() == "attachment"
    if kind in ("text/plain", "text/html") and not attached:
        part = _body(text[start:body], text[body:end], message, subject_spans)
        if part is not None:
            yield part._replace(start=start, end=end)
            return
    yield from (span.moved(start) for span in subject_spans)
    if attached:
        return
    # A forwarded mail is a message with headers of its own.
    if kind == "message/rfc822":
        yield from _part(text, body, end, depth + 1)
    elif boundary := message.get_boundary() if kind.startswith("multipart/") else None:
        # The line end before a boundary belongs to the boundary (RFC 2046, section 5.1.1).
        ends = re.compile(rf"(?:\r?\n|^)--{re.escape(boundary)}(--)?[ \t]*+(?=\r?\n|\Z)", re.M)
        marks = [*ends.finditer(text, body, end)]
        stops = [*(mark.start() for mark in marks[1:]), end]
        for mark, stop in zip(marks, stops, strict=False):
            line_end = re.compile(r"\r?\n").match(text, mark.end(), stop)
            if not mark[1] and line_end:
                yield from _part(text, line_end.end(), stop, depth + 1)


def _subject(subject: re.Match[str]) -> Iterator[Span]:
    try:
        text = str(email.header.make_header(email.header.decode_header(subject[1])))
    except (LookupError, ValueError, binascii.Error):
        return
    newline = newline_of(subject.string)
    text = " ".join(text.split())

    def write(segment: Segment) -> str:
        translation = " ".join(serialize(segment).split())
        charset = "us-ascii" if translation.isascii() else "utf-8"
        return email.header.Header(translation, charset, header_name="Subject").encode(
            linesep=newline
        )

    # A decoded subject with a line end would inject a header.
    if text.isprintable():
        yield Span(*subject.span(1), (text,), write)


def _body(head: str, body: str, message: email.message.Message, subject: list[Span]) -> Span | None:
    """Return the span of a part with its headers, which may have to change with the charset."""
    charset = message.get_content_charset("us-ascii")
    transfer = str(message.get("Content-Transfer-Encoding", "7bit")).strip().lower()
    raw = body.encode("latin-1")
    try:
        if transfer == "base64":
            raw = base64.b64decode(raw)
        elif transfer == "quoted-printable":
            raw = quopri.decodestring(raw)
        elif transfer not in ("7bit", "8bit", "binary"):
            return None
        text = raw.decode(charset)
    except (LookupError, ValueError):
        return None
    find = web.find_spans if message.get_content_type() == "text/html" else prose.text_spans
    inner = [(head, span) for span in subject]
    inner += [(text, span) for span in collect_segments(find(text))[0]]
    segment = (Code(head, Kind.MARK), Code(text, Kind.MARK))
    write = _body_writer(text, body, charset, transfer, newline_of(head))
    return Span(0, 0, segment, write, tuple(inner))


def _body_writer(
    before: str, raw: str, charset: str, transfer: str, newline: str
) -> Callable[[Segment], str]:
    def write(segment: Segment) -> str:
        headers, text = (code.raw for code in codes(segment))
        if text == before:
            return headers + raw
        encoding = transfer
        try:
            data = text.encode(charset)
        except UnicodeEncodeError:
            data = text.encode()
            headers = _named(headers, _CHARSET, "charset=utf-8", newline)
        # A translation may be the first to have letters outside ASCII.
        if encoding == "7bit" and not data.isascii():
            encoding = "quoted-printable"
            headers = _named(headers, _TRANSFER, f"Content-Transfer-Encoding: {encoding}", newline)
        if encoding == "base64":
            data = base64.encodebytes(data)
        elif encoding == "quoted-printable":
            data = quopri.encodestring(data.replace(b"\r\n", b"\n"))
        # Encoders write \n; the mail keeps its own line ends.
        lines = data.replace(b"\r\n", b"\n").replace(b"\n", newline.encode())
        return headers + lines.decode("latin-1")

    return write


def _named(headers: str, pattern: re.Pattern[str], named: str, newline: str) -> str:
    """Set a header to another charset or encoding, or add it."""
    after, count = pattern.subn(named, headers, count=1)
    if count:
        return after
    if named.startswith("charset"):
        after, count = _TYPE.subn(rf"\g<1>; {named}", headers, count=1)
        named = f"MIME-Version: 1.0{newline}Content-Type: text/plain; {named}"
    envelope = _ENVELOPE.match(headers)
    at = envelope.end() if envelope else 0
    return after if count else headers[:at] + named + newline + headers[at:]
