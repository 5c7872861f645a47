"""`pretraining/programs.py` finds the messages and help pages of unpacked programs."""

import bz2
import struct
from pathlib import Path

import programs


def write_catalog(path: Path, translations: dict[str, str]) -> None:
    """A .mo file, as gettext reads it: tables of lengths and places, then the texts."""
    path.parent.mkdir(parents=True)
    texts = {"": "Content-Type: text/plain; charset=UTF-8\n", **translations}
    sides = [sorted(texts), [texts[key] for key in sorted(texts)]]
    at, tables, body = 28 + 16 * len(texts), b"", b""
    for text in (text for side in sides for text in side):
        raw = text.encode() + b"\0"
        tables += struct.pack("<2I", len(raw) - 1, at + len(body))
        body += raw
    head = struct.pack("<7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    path.write_bytes(head + tables + body)


def made_of(folder: Path) -> dict[str, list[str]]:
    (folder / "corpora").mkdir()
    programs.main(folder / "unpacked", folder / "corpora")
    return {
        path.name: bz2.decompress(path.read_bytes()).decode().splitlines()
        for path in (folder / "corpora/programs").iterdir()
    }


def test_messages_without_shortcuts_code_and_what_is_measured(tmp_path: Path) -> None:
    said = {
        "menu\x04_Save as…": "_Guardar como…",
        "The file is %d bytes long.": "El archivo tiene %d bytes.",
        "It is full. Empty it.": "Está llena. Vacíela.",
        "OK": "OK",
        "one file\0files": "un archivo\0archivos",
        "This line is measured elsewhere.": "Esta línea se mide en otro lugar.",
    }
    names = {"editor": said, "vlc": {"This line is measured elsewhere.": "Esta línea se mide."}}
    for package, texts in names.items():
        catalog = tmp_path / "unpacked" / package / "usr/share/locale/es/LC_MESSAGES/x.mo"
        write_catalog(catalog, texts)
    assert made_of(tmp_path)["messages.es-en.tsv.bz2"] == [
        "Está llena.\tIt is full.",
        "Vacíela.\tEmpty it.",
        "Guardar como…\tSave as…",
        "un archivo\tone file",
    ]


def test_help_pages_whose_elements_are_the_same(tmp_path: Path) -> None:
    pages = {
        "C/a": "<page><title>Begin</title><p>Press <gui>Save</gui>.</p></page>",
        "de/a": "<page><title>Anfang</title><p>Klicken Sie <gui>Speichern</gui>.</p></page>",
        "C/b": "<page><title>Two</title><p>Paragraphs.</p></page>",
        "de/b": "<page><title>Einer</title></page>",
        "C/d": "<page><item><p>An item.</p></item><p>Choose <guiseq>FileOpen</guiseq>.</p></page>",
        "de/d": "<page><item><p>Ein Punkt.</p></item><p>Los: <guiseq>DateiAuf</guiseq>.</p></page>",
        "C/c": "<page>&unknown;</page>",
        "de/c": "<page>&unknown;</page>",
    }
    for name, text in pages.items():
        path = tmp_path / "unpacked/editor/usr/share/help" / f"{name}.page"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert made_of(tmp_path)["help.de-en.tsv.bz2"] == [
        "Anfang\tBegin",
        "Klicken Sie Speichern.\tPress Save.",
        "Ein Punkt.\tAn item.",
    ]
