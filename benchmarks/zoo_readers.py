"""What other programs read in a file: the part of its structure that a translation must not change.

`structure(ending, raw)` is equal before and after. It raises if the other program does not read the
file. LibreOffice converts many files at a time, so it has a function of its own.
"""

import csv
import email
import email.policy
import io
import json
import re
import subprocess
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

Structure = object
_BLOCKS = re.compile(r"<(h[1-6]|p|pre|table|tr|td|th|li|ul|ol|dt|dd|img|blockquote)\b")


def _program(raw: bytes, *command: str) -> str:
    done = subprocess.run(command, input=raw, capture_output=True, timeout=600, check=False)
    if done.returncode:
        raise ValueError(done.stderr[-300:].decode("utf-8", "replace"))
    return done.stdout.decode("utf-8", "replace")


def _blocks_by(*command: str) -> Callable[[bytes], Structure]:
    return lambda raw: Counter(_BLOCKS.findall(_program(raw, *command)))


def _pandoc(format_: str) -> Callable[[bytes], Structure]:
    return _blocks_by("pandoc", "-f", format_, "-t", "html", "--quiet")


def of_xml(raw: bytes) -> Structure:
    return [element.tag for element in ElementTree.fromstring(raw).iter()]


def of_messages(raw: bytes) -> Structure:
    """Remove the parts that a translator adds: targets, and forms of the plural."""
    added = ("numerusform", "target", "note", "mrk", "g", "x", "ph", "it", "bpt", "ept")
    tags = Counter(e.tag.rpartition("}")[2] for e in ElementTree.fromstring(raw).iter())
    return {tag: count for tag, count in tags.items() if tag not in added}


def shape(value: object) -> Structure:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__


def of_json(raw: bytes) -> Structure:
    value = json.loads(raw.decode("utf-8-sig"))
    return sorted(value["strings"]) if raw.count(b'"sourceLanguage"') else shape(value)


def of_yaml(raw: bytes) -> Structure:
    import yaml

    return [shape(value) for value in yaml.safe_load_all(raw)]


def of_notebook(raw: bytes) -> Structure:
    import nbformat

    notebook = nbformat.reads(raw.decode(), nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    cells = notebook.get("cells") or notebook["worksheets"][0]["cells"]
    return [cell["cell_type"] for cell in cells]


def of_rst(raw: bytes) -> Structure:
    """Return the elements that docutils reads. Its warnings are dropped: most are about Sphinx's
    directives, which it does not know."""
    import docutils.core
    import docutils.nodes

    settings = {"report_level": 5, "halt_level": 6, "file_insertion_enabled": False,
                "raw_enabled": False, "_disable_config": True}  # fmt: skip
    tree = docutils.core.publish_doctree(raw, settings_overrides=settings)
    for complaint in [*tree.findall(docutils.nodes.system_message)]:
        complaint.parent.remove(complaint)
    for node in [*tree.findall(docutils.nodes.reference)]:
        if node.get("refuri") == node.astext():  # any word with a colon in it may be an address
            node.parent.remove(node)
    counts = Counter(type(node).__name__ for node in tree.findall(docutils.nodes.Element))
    for varying in ("target", "inline", "problematic", "system_message"):
        counts.pop(varying, None)
    return counts


def of_page(raw: bytes) -> Structure:
    """Return elements, links and pictures, as browsers read them. The declared language of a page
    may be added."""
    import html5lib

    tree = html5lib.parse(raw, namespaceHTMLElements=False)
    counts = Counter(str(element.tag) for element in tree.iter())
    places = Counter(e.get("href") or e.get("src") or "" for e in tree.iter())
    return counts, places


def of_mail(raw: bytes) -> Structure:
    message = email.message_from_bytes(raw, policy=email.policy.default)
    parts = []
    for part in message.walk():
        content = part.get_content_type()
        if content in ("text/plain", "text/html"):
            part.get_content()
        parts.append((content, part.get_filename()))
    return str(message["from"]), parts


def _text(raw: bytes) -> str:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def of_subtitles(raw: bytes) -> Structure:
    """Return the time and style of each subtitle, and the time lines of VTT and SRT."""
    import pysubs2

    events = pysubs2.SSAFile.from_string(_text(raw)).events
    times = [(event.start, event.end, event.type, event.style, event.layer) for event in events]
    return times, re.findall(r"^.*-->.*$", _text(raw), re.M)


def of_strings(raw: bytes) -> Structure:
    text = re.sub(r"/\*.*?\*/", "", _text(raw), flags=re.S)
    return re.findall(r'^\s*("(?:[^"\\]|\\.)*"|\w+)\s*=\s*"(?:[^"\\]|\\.)*"\s*;', text, re.M)


def of_properties(raw: bytes) -> Structure:
    import javaproperties

    return [e.key for e in javaproperties.parse(io.BytesIO(raw)) if hasattr(e, "key")]


def of_fluent(raw: bytes) -> Structure:
    """Return messages and terms with the names of their attributes, and everything else."""
    from fluent.syntax import parse

    entries = parse(_text(raw)).body
    return [
        (type(e).__name__, e.id.name, [attribute.id.name for attribute in e.attributes])
        if hasattr(e, "id")
        else type(e).__name__
        for e in entries
    ]


def of_picture(raw: bytes) -> Structure:
    _program(raw, "rsvg-convert", "--unlimited")
    return of_xml(raw)


def of_table(raw: bytes) -> Structure:
    text = raw.decode("utf-8-sig", "replace")
    comma = "\t" if text.count("\t") > text.count(",") else ","
    return [len(row) for row in csv.reader(io.StringIO(text), delimiter=comma)]


def of_po(raw: bytes) -> Structure:
    with tempfile.NamedTemporaryFile(suffix=".po") as file:
        Path(file.name).write_bytes(raw)
        _program(b"", "msgfmt", "-c", "-o", "/dev/null", file.name)
    return len(re.findall(rb"^msgid ", raw, re.M))


def of_book(raw: bytes) -> Structure:
    """What epubcheck complains of, by its kind."""
    with tempfile.TemporaryDirectory() as folder:
        file, report = Path(folder, "a.epub"), Path(folder, "report.json")
        file.write_bytes(raw)
        order = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # it starts faster so
        order += ["-jar", "/usr/bin/epubcheck", str(file), "-q", "--json", str(report)]
        subprocess.run(order, capture_output=True, timeout=100, check=False)
        messages = json.loads(report.read_text())["messages"]
    kinds = ("ERROR", "FATAL")
    return {m["ID"]: len(m["locations"]) for m in messages if m["severity"] in kinds}


# By namespace's end and name: paragraphs, pictures, links, rows of tables.
_COUNTED = frozenset(
    [
        *("wordprocessingml/2006/main}p", "wordprocessingml/2006/main}hyperlink"),
        *("wordprocessingml/2006/main}tr", "drawingml/2006/main}p", "drawingml/2006/main}blip"),
        *("drawingml/2006/main}hlinkClick", "drawingml/2006/main}tr"),
        *("spreadsheetml/2006/main}row", "spreadsheetml/2006/main}c"),
        *("spreadsheetml/2006/main}hyperlink", "text:1.0}p", "text:1.0}h", "text:1.0}a"),
        *("drawing:1.0}image", "drawing:1.0}frame", "table:1.0}table-row", "table:1.0}table-cell"),
    ]
)


def of_office(raw: bytes) -> Structure:
    """Members, and in each paragraphs, pictures, links and rows."""
    structure = {}
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        if archive.testzip():
            raise ValueError("the archive is damaged")
        for name in archive.namelist():
            structure[name] = Counter[str]()
            if name.endswith((".xml", ".rels")) and archive.getinfo(name).file_size:
                tags = (e.tag for e in ElementTree.fromstring(archive.read(name)).iter())
                structure[name].update(t for t in tags if str(t).endswith(tuple(_COUNTED)))
    return structure


def of_word(raw: bytes) -> Structure:
    import docx

    docx.Document(io.BytesIO(raw))
    return of_office(raw)


def of_slides(raw: bytes) -> Structure:
    import pptx

    slides = pptx.Presentation(io.BytesIO(raw)).slides
    return [len(slide.shapes) for slide in slides], of_office(raw)


def of_workbook(raw: bytes) -> Structure:
    import openpyxl

    sheets = openpyxl.load_workbook(io.BytesIO(raw)).worksheets
    return [(sheet.max_row, sheet.max_column) for sheet in sheets], of_office(raw)


READERS: dict[str, Callable[[bytes], Structure]] = {
    ".rst": of_rst, ".tex": _pandoc("latex"), ".rtf": _pandoc("rtf"), ".md": _pandoc("gfm"),
    ".mdx": _pandoc("gfm"),
    ".adoc": _blocks_by("asciidoctor", "-q", "-S", "secure", "-e", "-o", "-", "-"),
    ".html": of_page, ".htm": of_page, ".xhtml": of_page, ".epub": of_book,
    ".docx": of_word, ".pptx": of_slides, ".xlsx": of_workbook,
    ".odt": of_office, ".ods": of_office, ".odp": of_office,
    ".po": of_po, ".pot": of_po, ".xlf": of_messages, ".xliff": of_messages, ".ts": of_messages,
    ".xml": of_xml, ".resx": of_xml, ".svg": of_picture,
    ".json": of_json, ".arb": of_json, ".xcstrings": of_json, ".ipynb": of_notebook,
    ".yaml": of_yaml, ".yml": of_yaml, ".toml": lambda raw: shape(tomllib.loads(raw.decode())),
    ".properties": of_properties, ".ftl": of_fluent, ".strings": of_strings,
    ".srt": of_subtitles, ".vtt": of_subtitles, ".ass": of_subtitles, ".ssa": of_subtitles,
    ".eml": of_mail,
    ".csv": of_table, ".tsv": of_table,
}  # fmt: skip


def structure(ending: str, raw: bytes) -> Structure:
    return READERS[ending](raw) if ending in READERS else None


def pages(paths: Iterable[Path], out: Path) -> dict[Path, int]:
    """How many pages LibreOffice makes of each file; 0: it does not open it."""
    todo = [path for path in paths if not (out / f"{path.name}.pdf").exists()]
    for size in (
        20,
        1,
    ):  # a crash loses a whole batch: run its files one by one
        left = [path for path in todo if not (out / f"{path.name}.pdf").exists()]
        for start in range(0, len(left), size):
            _convert(left[start : start + size], out)
    return {path: _pages(out / f"{path.name}.pdf") for path in paths}


def _convert(paths: list[Path], out: Path) -> None:
    with tempfile.TemporaryDirectory() as own:
        order = ["soffice", f"-env:UserInstallation=file://{own}", "--headless"]
        order += ["--convert-to", "pdf", "--outdir", own, *map(str, paths)]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(order, capture_output=True, timeout=300 + 60 * len(paths), check=False)
        for path in paths:
            made = Path(own, f"{path.stem}.pdf")
            if made.exists():
                (out / f"{path.name}.pdf").write_bytes(made.read_bytes())


def _pages(pdf: Path) -> int:
    if not pdf.exists():
        return 0
    info = subprocess.run(["pdfinfo", str(pdf)], capture_output=True, text=True, check=False).stdout
    count = re.search(r"Pages:\s+(\d+)", info)
    return int(count[1]) if count else 0


# LibreOffice calculates all formulas when it opens a file.
_RECALCULATE = """<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop>
<prop oor:name="ODFRecalcMode" oor:op="fuse"><value>0</value></prop></item></oor:items>"""
_ALL_SHEETS = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,-1"
_RESULT = re.compile(r"[-+]?\d[\d.,]*(?:E[-+]\d+)?%?|TRUE|FALSE|#[A-Z/0]+[!?]?|Err:\d+")


def numbers(path: Path) -> dict[tuple[str, int, int], str]:
    """Return the numbers, truth values and errors in all cells of a spreadsheet, calculated."""
    with tempfile.TemporaryDirectory() as own:
        settings = Path(own, "user", "registrymodifications.xcu")
        settings.parent.mkdir()
        settings.write_text(_RECALCULATE)
        order = ["soffice", f"-env:UserInstallation=file://{own}", "--headless"]
        order += ["--convert-to", _ALL_SHEETS, "--outdir", own, str(path)]
        subprocess.run(order, capture_output=True, timeout=300, check=False)
        cells = {}
        for made in Path(own).glob("*.csv"):
            sheet = made.name.removeprefix(path.stem)
            with made.open(encoding="utf-8", errors="replace", newline="") as file:
                for number, row in enumerate(csv.reader(file)):
                    for column, value in enumerate(row):
                        if _RESULT.fullmatch(value):
                            cells[sheet, number, column] = value
        return cells
