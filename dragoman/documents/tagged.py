"""Text with arbitrary tags, as one segment."""

import re

from dragoman.documents.document import Document, ReadOptions
from dragoman.documents.segment import Code, normalize, serialize


def read(raw: bytes, options: ReadOptions) -> Document:
    """Read a text; the content of elements that `options.ignored` names is kept."""
    text = raw.decode()
    names = "|".join(map(re.escape, options.ignored))
    kept = re.compile(rf"(<(?:{names})(?:\s[^<>]*)?>[^<>]*</(?:{names})>)") if names else None
    parts = kept.split(text) if kept else [text]
    segment = normalize(Code(part, in_text=True) if i % 2 else part for i, part in enumerate(parts))
    return Document([segment], lambda translated: serialize(translated[0]).encode())
