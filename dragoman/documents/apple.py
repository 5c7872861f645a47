"""Apple's message files: `.strings`, and the string catalogs of Xcode (`.xcstrings`)."""

import codecs
import re
from collections.abc import Callable, Iterator

from dragoman.documents.document import Document, DocumentError, ReadOptions, Span, text_document
from dragoman.documents.messages import JsonPlace, checked_json, json_places, json_writer
from dragoman.documents.segment import Code, Kind, Segment, serialize

_TOKEN = re.compile(
    r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)|//[^\r\n]*+"
    r'|"(?P<string>[^"\\]*+(?:\\.?+[^"\\]*+)*+)(?:"|\Z)|(?P<sign>[=;])',
    re.S,
)
_ESCAPE = re.compile(r"\\(?:[uU]([0-9A-Fa-f]{4})|(.))", re.S)
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r"}


def read_strings(raw: bytes, options: ReadOptions) -> Document:
    if raw.startswith(b"bplist"):
        raise DocumentError("it is a binary property list: convert it first (plutil -convert).")
    if raw[:1] == b"\0" or raw[1:2] == b"\0":  # UTF-16 without a mark, as some tools write it
        marked = codecs.BOM_UTF16_BE if raw[:1] == b"\0" else codecs.BOM_UTF16_LE
        document = text_document(marked + raw, options, _strings_spans)
        return Document(document.segments, lambda said: document.write(said)[len(marked) :])
    return text_document(raw, options, _strings_spans)


def _strings_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """What stands between an equals sign and a semicolon."""
    value: re.Match[str] | None = None
    behind_sign = False
    for token in _TOKEN.finditer(text):
        if token["string"] is not None and behind_sign:
            value = token
        if token["sign"] == ";" and value is not None:
            segment = (_ESCAPE.sub(_meaning, value["string"]),)
            yield Span(*value.span("string"), segment, _write_string)
        if token["sign"]:
            behind_sign = token["sign"] == "="
            value = None


def _meaning(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return _MEANINGS.get(escape[2], escape[2])


def _write_string(segment: Segment) -> str:
    text = serialize(segment).replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


# Xcode's string catalogs

_STATE = re.compile(r'("state"\s*+:\s*+")[^"\\]*+')


def catalog_spans(text: str, options: ReadOptions) -> Iterator[Span]:
    """The target language gets a copy of the source language's entry, with its values translated
    and to be reviewed. A message without an entry is its own key."""
    catalog = checked_json(text)
    if not isinstance(catalog, dict) or not isinstance(catalog.get("strings"), dict):
        raise DocumentError('it is no string catalog: it has no "strings".')
    if not options.to:
        raise DocumentError("a string catalog holds many languages: name the target (--to de).")
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
        if options.to == source or (target and not options.everything):
            continue
        original = objects.get((key, "localizations", source))
        if original is not None:
            content, move = text[original.start - 1 : original.end + 1], 1 - original.start
            shown = values.get(key, [])
        else:
            quoted = json_writer(text)(key)
            content = f'{{"stringUnit" : {{"state" : "new", "value" : "{quoted}"}}}}'
            move = content.rindex(quoted)
            shown = [JsonPlace((), 0, len(quoted), key)]
        inner = tuple(
            (content, Span(p.start + move, p.end + move, (p.value,), _json_written(text)))
            for p in shown
        )
        segment = (Code(content, Kind.MARK),)
        if target is not None:
            yield Span(target.start - 1, target.end + 1, segment, _around("", ""), inner)
            continue
        before, after = f'"{options.to}" : ', ""
        parent = objects.get((key, "localizations"))
        if parent is None:
            parent, before, after = objects[key,], f'"localizations" : {{{before}', "}"
        after += ", " if text[parent.start : parent.end].strip() else ""
        yield Span(parent.start, parent.start, segment, _around(before, after), inner)


def _json_written(text: str) -> Callable[[Segment], str]:
    quoted = json_writer(text)
    return lambda segment: quoted(serialize(segment))


def _around(before: str, after: str) -> Callable[[Segment], str]:
    def write(segment: Segment) -> str:
        return before + _STATE.sub(r"\g<1>needs_review", serialize(segment)) + after

    return write
