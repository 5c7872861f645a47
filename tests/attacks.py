"""Small files that would take much memory or time, made when they are needed."""

import io
import zipfile
from collections.abc import Callable
from functools import cache

_WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'


def archived(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def docx(body: str, before: str = "") -> bytes:
    document = f'<?xml version="1.0"?>{before}{_WORD}<w:body>{body}</w:body></w:document>'
    return archived({"[Content_Types].xml": b"<Types/>", "word/document.xml": document.encode()})


def defaults_of_attributes() -> bytes:
    """Give each of 100,000 elements an attribute of 100 KB that the file contains once."""
    declared = f'<!DOCTYPE w:document [<!ATTLIST w:p a CDATA "{"x" * 100_000}">]>'
    return docx("<w:p/>" * 100_000, declared)


@cache
def nested_insertions() -> bytes:
    """A reader that takes each of them as a separate text holds 480 times 5 MB."""
    inside = f"<w:r><w:t>{'a' * 5_000_000}</w:t></w:r>"
    return docx(f"<w:p>{'<w:ins>' * 480}{inside}{'</w:ins>' * 480}</w:p>")


@cache
def many_elements() -> bytes:
    return docx("<w:p>" + "<w:r><w:t>a</w:t></w:r>" * 4_000_000 + "</w:p>")


def deep_elements() -> bytes:
    return docx("<w:x>" * 100_000 + "</w:x>" * 100_000)


@cache
def many_attributes() -> bytes:
    attributes = " ".join(f'a{i}=""' for i in range(20_000))
    return docx(f"<w:p {attributes}/>" * 50)


@cache
def swollen_text() -> bytes:
    """250 MB of one letter."""
    return docx(f"<w:p><w:r><w:t>{'a' * 250_000_000}</w:t></w:r></w:p>")


@cache
def swollen_picture() -> bytes:
    picture = {f"word/media/{i}.png": bytes(60_000_000) for i in range(5)}
    return archived({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w:p/>", **picture})


@cache
def members_without_number() -> bytes:
    return archived({str(i): b"" for i in range(30_000)}, zipfile.ZIP_STORED)


# By the name of a file: what takes memory.
MEMORY: dict[str, Callable[[], bytes]] = {
    "attributes.docx": defaults_of_attributes,
    "insertions.docx": nested_insertions,
    "elements.docx": many_elements,
    "depth.docx": deep_elements,
    "many-attributes.docx": many_attributes,
    "text.docx": swollen_text,
    "picture.docx": swollen_picture,
    "members.docx": members_without_number,
}
# Texts that take time if a pattern scans the same characters again and again.
TIME: dict[str, Callable[[], bytes]] = {
    "spaces.properties": lambda: b"a" + b" " * 3000 + b"\r\n",
    "letters.properties": lambda: b"a" * 16_000 + b"\r\n",
    "percent.txt": lambda: b"a %" + b"0" * 20_000,
    "path.txt": lambda: b"a/" * 20_000 + b" \xe2\x82\xac",
    "attribute.html": lambda: b"<p " + b"a" * 4_900,
    "tags.html": lambda: b"<a title=" * 500,
    "comment.md": lambda: b"<!--" * 16_000,
    "footnote.md": lambda: b"[^" * 32_000,
    "fluent.ftl": lambda: b"a = " + b"\n " * 16_000 + b"b",
    "spaces.po": lambda: b'msgid ""\n' + b" " * 32_000 + b"x",
    "balanced.srt": lambda: b"1\n00:00:01,000 --> 00:00:02,000\n" + b"a " * 4_000,
}
# Texts of at most 5,000 characters, for the same reason.
TEXTS: dict[str, str] = {
    "percent": "a %" + "0" * 4990,
    "path": "a/" * 2490 + " €",
    "version": "1." * 2490,
    "phone": "+1 " * 1660,
    "called": '"a" ' * 1240,
    "groups of digits": "1,000" + ",000" * 1240,
    "digits": "1234567890" * 350,
    "ends of sentences": ".!? " * 1240,
    "list numbers": "1. " * 1660,
    "brackets": "(" * 2490 + ")" * 2490,
    "blanks": "a" + " " * 4990 + "b",
    "letters": "a" * 4990,
    "addresses": "a@a." * 1240,
    "what swells": "\ufdfa" * 4990,
}
