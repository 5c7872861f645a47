"""Apple's message files: `.strings`, and Xcode's string catalogs (`.xcstrings`)."""

import codecs
import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import (
    Document,
    DocumentError,
    ReadOptions,
    Span,
    escape,
    text_document,
    unescape,
)
from dragoman.documents.messages import JsonPlace, json_places, json_writer, load_json
from dragoman.documents.segment import Code, Kind, Segment, serialize

# Comments, strings, and the signs between keys and values.
_TOKEN = re.compile(
    r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)|//[^\r\n]*+"
    r'|"(?P<string>[^"\\]*+(?:\\.?+[^"\\]*+)*+)(?:"|\Z)|(?P<sign>[=;])',
    re.S,
)


def read_strings(raw: bytes, options: ReadOptions) -> Document:
    if raw.startswith(b"bplist"):
        raise DocumentError("it is a binary property list: convert it first (plutil -convert).")
    if raw[:1] == b"\0" or raw[1:2] == b"\0":  # UTF-16 without a byte order mark
        bom = codecs.BOM_UTF16_BE if raw[:1] == b"\0" else codecs.BOM_UTF16_LE
        document = text_document(bom + raw, options, _strings_spans)
        return Document(
            document.segments, lambda translated: document.write(translated)[len(bom) :]
        )
    return text_document(raw, options, _strings_spans)


def _strings_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Find the strings between an equals sign and a semicolon."""
    value: re.Match[str] | None = None
    after_sign = False
    for token in _TOKEN.finditer(text):
        if token["string"] is not None and after_sign:
            value = token
        if token["sign"] == ";" and value is not None:
            segment = (unescape(value["string"]),)
            yield Span(*value.span("string"), segment, lambda s: escape(serialize(s)))
        if token["sign"]:
            after_sign = token["sign"] == "="
            value = None


# Xcode's string catalogs

_STATE = re.compile(r'("state"\s*+:\s*+")[^"\\]*+')


def catalog_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """Copy each message's entry in the source language to the target language, to be translated and
    reviewed. A message without an entry is its own key.
    """
    catalog = load_json(text)
    if not isinstance(catalog, dict) or not isinstance(catalog.get("strings"), dict):
        raise DocumentError('not a string catalog: it has no "strings".')
    if not options.to:
        raise DocumentError("a string catalog has many languages: name the target (--to de).")
    source = catalog.get("sourceLanguage", "en")
    objects: dict[tuple[str | int, ...], JsonPlace] = {}
    values: dict[str | int, list[JsonPlace]] = {}
    for place in json_places(text):
        match place.path:
            case ("strings", *path) if place.is_object:
                objects[tuple(path)] = place
            case ("strings", key, "localizations", language, *_, "stringUnit", "value"):
                if language == source:
                    values.setdefault(key, []).append(place)
    for key, entry in catalog["strings"].items():
        if not isinstance(entry, dict) or entry.get("shouldTranslate") is False:
            continue
        target = objects.get((key, "localizations", options.to))
        # Only missing entries, unless everything is translated.
        if options.to == source or (target and not options.everything):
            continue
        original = objects.get((key, "localizations", source))
        # The copied entry is a code of its own, with the values as spans inside it.
        if original is not None:
            content, offset = text[original.start - 1 : original.end + 1], 1 - original.start
            strings = values.get(key, [])
        else:
            quoted = json_writer(text)((key,))
            content = f'{{"stringUnit" : {{"state" : "new", "value" : "{quoted}"}}}}'
            offset = content.rindex(quoted)
            strings = [JsonPlace((), 0, len(quoted), key)]
        inner = tuple(
            (content, Span(p.start + offset, p.end + offset, (p.value,), json_writer(text)))
            for p in strings
        )
        segment = (Code(content, Kind.MARK),)
        if target is not None:
            yield Span(target.start - 1, target.end + 1, segment, _around("", ""), inner)
            continue
        before, after = f'"{options.to}" : ', ""
        # The new entry comes first in its parent, so a comma follows if there are others.
        parent = objects.get((key, "localizations"))
        if parent is None:
            parent, before, after = objects[key,], f'"localizations" : {{{before}', "}"
        after += ", " if text[parent.start : parent.end].strip() else ""
        yield Span(parent.start, parent.start, segment, _around(before, after), inner)


def _around(before: str, after: str) -> Callable[[Segment], str]:
    def write(segment: Segment) -> str:
        return before + _STATE.sub(r"\g<1>needs_review", serialize(segment)) + after

    return write
