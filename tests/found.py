"""A corpus of small files, each of which once ended in a traceback, hung, took memory or lost text,
or is of a kind that does so in other programs. They are made when they are needed."""

import bz2
import io
import lzma
import zipfile
from collections.abc import Callable

from tests import attacks
from tests.attacks import archived, docx


def _damaged(compression: int) -> bytes:
    """A docx whose member cannot be unpacked."""
    raw = bytearray(archived({"word/document.xml": b"<w:p>a</w:p>" * 50}, compression))
    start = raw.index(b"document.xml") + 12
    raw[start : start + 20] = b"\xff" * 20
    return bytes(raw)


def _lying() -> bytes:
    """A member that says it is smaller than it is."""
    raw = bytearray(archived({"word/document.xml": b"<w:p>a</w:p>" * 5000}))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = raw.index(mark) + offset
        raw[at : at + 4] = (10).to_bytes(4, "little")
    return bytes(raw)


def _twice() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", "<w:p>a</w:p>")
        archive.filelist.append(archive.filelist[0])
    return out.getvalue()


def _declared(encoding: str) -> bytes:
    return f'<?xml version="1.0" encoding="{encoding}"?><resources>é</resources>'.encode()


_XML = '<resources><string name="a">{}</string></resources>'
_DEEP = 3000
FILES: dict[str, Callable[[], bytes]] = {
    **attacks.TIME,
    **{
        name: attacks.MEMORY[name]
        for name in ("attributes.docx", "depth.docx")  # the others take seconds to make
    },
    "nothing": lambda: b"",
    "a zero": lambda: b"\0",
    "blanks": lambda: b" \t\r\n\x0b\x0c\xc2\xa0\xe2\x80\xa8",
    "a mark of byte order": lambda: b"\xef\xbb\xbf",
    "two marks of byte order": lambda: b"\xef\xbb\xbf\xef\xbb\xbfa",
    "UTF-16 of an odd length": lambda: b"\xff\xfea\0b",
    "UTF-32": lambda: b"\xff\xfe\0\0a\0\0\0",
    "half a character": lambda: "é".encode()[:1],
    "a surrogate": lambda: b"\xed\xa0\x80",
    "bare carriage returns": lambda: b'a,b\r"c\rd",e\r',
    "bzip2, damaged": lambda: _damaged(zipfile.ZIP_BZIP2),
    "LZMA, damaged": lambda: _damaged(zipfile.ZIP_LZMA),
    "deflate, damaged": lambda: _damaged(zipfile.ZIP_DEFLATED),
    "a wrong size": _lying,
    "a member twice": _twice,
    "an archive cut off": lambda: docx("<w:p/>")[:60],
    "an archive in an archive": lambda: archived({"word/document.xml": docx("<w:p/>")}),
    "members that lead out": lambda: archived({"../../a": b"", "/etc/a": b"", "word": b""}),
    "bare bzip2": lambda: bz2.compress(b"a"),
    "bare LZMA": lambda: lzma.compress(b"a"),
    "the encoding utf-7": lambda: _declared("utf-7"),
    "the encoding rot13": lambda: _declared("rot13"),
    "the encoding of an archive": lambda: _declared("zlib"),
    "an unknown encoding": lambda: _declared("x" * 300),
    "the encoding idna": lambda: _declared("idna"),
    "a DTD": lambda: b'<!DOCTYPE a [<!ATTLIST p a CDATA "x">]><a/>',
    "an entity": lambda: b'<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
    "a file as an entity": lambda: b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
    "an unknown entity": lambda: _XML.format("&none;").encode(),
    "a character that XML lacks": lambda: _XML.format("&#0;").encode(),
    "a namespace without a name": lambda: b"<a:b><c:d/></a:b>",
    "an attribute twice": lambda: b'<a b="" b=""/>',
    "an open CDATA section": lambda: _XML.format("<![CDATA[").encode(),
    "deep elements": lambda: b"<a>" * _DEEP + b"</a>" * _DEEP,
    "deep brackets": lambda: b"[" * _DEEP,
    "deep braces": lambda: b'{"a":' * _DEEP,
    "deep groups": lambda: b"{\\rtf1" + b"{" * _DEEP,
    "deep quotes": lambda: b"> " * _DEEP + b"a",
    "deep lists": lambda: b"".join(b" " * (2 * i) + b"- a\n" for i in range(150)),
    "a long number": lambda: b'{"a": ' + b"9" * 5000 + b"}",
    "an endless number": lambda: b'{"a": 1e999, "b": -Infinity, "c": NaN}',
    "a key twice": lambda: b'{"a": "b", "a": "c"}',
    "half a surrogate in JSON": lambda: b'{"a": "\\ud800"}',
    "a notebook without cells": lambda: b'{"cells": 7}',
    "a notebook of odd cells": lambda: b'{"cells": [{"cell_type": [], "source": {"a": 1}}]}',
    "a catalogue of nothing": lambda: b'{"sourceLanguage": [], "strings": {"a": 1}}',
    "YAML, an invalid number": lambda: b"a: !!int 'x'\n",
    "YAML, an impossible date": lambda: b"a: 2020-99-99\nb: 2001-02-30T99:99:99Z\n",
    "YAML, a block that looks like a mapping": lambda: b"a: |\n  b: c\n  d: e\n",
    "YAML, an alias of itself": lambda: b"a: &x [*x]\n",
    "YAML, aliases of aliases": lambda: b"a: &a [b]\n" + b"".join(
        b"%c: &%c [*%c,*%c,*%c]\n" % (c + 1, c + 1, c, c, c) for c in range(97, 117)
    ),
    "YAML, an object": lambda: b"!!python/object/apply:os.system [true]\n",
    "YAML, a tab": lambda: b"a:\n\t- b\n",
    "YAML, a list as a key": lambda: b"? [a, {b: c}]\n: d\n",
    "YAML, binary": lambda: b"a: !!binary '\xc3\xa9'\n",
    "TOML, an impossible date": lambda: b"a = 1979-99-99\n",
    "TOML, a key twice": lambda: b"a = 'b'\na = 'c'\n",
    "properties with CRLF": lambda: b"a = Hund\r\nb = Katze\r\n",
    "properties that end in a backslash": lambda: b"a = b\\",
    "properties with a bad escape": lambda: b"a = \\u12\n\\uzzzz = b\n",
    "PO without an end": lambda: b'msgid "a',
    "PO with a bad escape": lambda: b'msgid "\\q\\"\nmsgstr ""\n',
    "PO of an unknown encoding": lambda: (
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=none\\n"\n'
    ),
    "subtitles without times": lambda: b"1\n-->\na\n\n2\n00:00 --> \n",
    "subtitles of nobody": lambda: b"[Events]\nDialogue: a,b\nFormat: x\nDialogue: 0,{\\p1}m 0\n",
    "mail of an unknown encoding": lambda: (
        b"Content-Type: text/plain; charset=none\nContent-Transfer-Encoding: none\n\n\xff"
    ),
    "mail of a part in itself": lambda: (
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" * 40 + b"\n\na\n--b--\n"
    ),
    "mail of bad base64": lambda: (
        b"Content-Type: text/html\nContent-Transfer-Encoding: base64\n\n!!!=\n"
    ),
    "RTF of an unknown page": lambda: b"{\\rtf1\\ansicpg99999 \\'ff\\u99999?\\u-1 }",
    "RTF that counts too far": lambda: b"{\\rtf1\\bin999999999 a}",
    "RTF that counts backwards": lambda: b"{\\rtf1 a\\bin-7 b\\bin-2147483648 c}",
    "RTF of many letters for one": lambda: b"{\\rtf1\\uc9999999999 a\\u233 b\\uc-1 c\\u233 d}",
    "PDF of nothing": lambda: b"%PDF-1.7\n%%EOF",
    "PDF that refers to itself": lambda: (
        b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 1 0 R>>\nendobj\n"
        b"trailer\n<</Root 1 0 R>>\nstartxref\n0\n%%EOF"
    ),
    "a property list": lambda: b"bplist00\xd0\x08",
    "broken tags": lambda: b"<p <b <!-- <![CDATA[ <? </ <!DOCTYPE",
    "an odd reference": lambda: b"<p>&#x110000;&#xd800;&#99999999999999;&amp&nbsp</p>",
    "an open script": lambda: b"<script>a</p>",
    "an open fence": lambda: b"````\n```\na",
    "a table without an end": lambda: b"+---+\n| a |\n+--",
    "TeX that does not close": lambda: b"\\begin{a}\\section{b$$c%\\verb|",
    "a bar without a cell": lambda: b"|===\n|a\n2+^.>s|b\n",
}  # fmt: skip
