"""`pretraining/libreoffice.py` finds what translates what, in help pages and in the interface's messages."""

import gzip
import struct

import libreoffice


def test_help_and_messages_become_pairs_sentence_by_sentence(tmp_path) -> None:
    root = tmp_path / "libreoffice"
    page = '<h1>{}</h1><p id="a">{}</p><p id="b">{}</p>'
    pages = {
        "en-US": page.format("Title", "Press <b>Enter</b>. Then wait.", "A = 1"),
        "pt-BR": page.format("Nome", "Tecle <b>Enter</b>. Depois espere.", "A = 1"),
        "es": page.format("Nombre", "Pulse Intro y luego espere.", "A = 1"),
    }
    for variety, text in pages.items():
        folder = root / libreoffice.HELP / variety / "text"
        folder.mkdir(parents=True)
        (folder / "page.html").write_text(text, encoding="utf-8")
    folder = root / libreoffice.MESSAGES / "pt_BR" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "sw.mo").write_bytes(catalog({"": "Content-Type: text/plain; charset=UTF-8\n", "b|ok\4_Open": "A~brir"}))
    libreoffice.main(tmp_path)
    assert pairs(tmp_path, "pt") == [
        ("Tecle Enter.", "Press Enter."),
        ("Depois espere.", "Then wait."),
        ("Abrir", "Open"),
    ]
    assert pairs(tmp_path, "es") == [("Pulse Intro y luego espere.", "Press Enter. Then wait.")]


def pairs(corpora, language):
    sides = (corpora / "pretraining" / f"libreoffice.{language}-en.{side}.gz" for side in (language, "en"))
    return [*zip(*(gzip.decompress(side.read_bytes()).decode().splitlines() for side in sides), strict=True)]


def catalog(messages) -> bytes:
    """A .mo file: a header, two tables of lengths and places, the texts."""
    texts = [text.encode() for text in (*messages, *messages.values())]
    place, table = 28 + 8 * len(texts), b""
    for text in texts:
        table += struct.pack("<II", len(text), place)
        place += len(text) + 1
    header = struct.pack("<7I", 0x950412DE, 0, len(messages), 28, 28 + 8 * len(messages), 0, 0)
    return header + table + b"".join(text + b"\0" for text in texts)
