import gzip
import importlib
import os
import resource
import sys
from pathlib import Path

import pytest

from dragoman.errors import CorpusError
from dragoman.storage.limited import limited_rows
from dragoman.text.parallel import read_pairs
from dragoman.text.terms import rows_of

TMX = """<?xml version="1.0"?>
<tmx version="1.4"><header srclang="en" segtype="sentence"/><body>
<tu><tuv xml:lang="de-DE"><seg>Datei <bpt i="1">&lt;b&gt;</bpt>öffnen<ept i="1">&lt;/b&gt;</ept>
</seg></tuv><tuv xml:lang="en"><seg>Open <hi>file</hi></seg></tuv>
<tuv xml:lang="fr"><seg>Ouvrir</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Alone</seg></tuv></tu>
</body></tmx>"""
XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file><body>
<trans-unit id="1"><source>Open <g id="1">file</g><x id="2"/></source><target>Datei öffnen</target>
</trans-unit><trans-unit id="2"><source>Not yet</source></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0"><file><unit>
<segment><source>Open <pc id="1">file</pc></source><target>Datei öffnen</target></segment>
</unit></file></xliff>"""
PO = """# A head
msgid ""
msgstr "Language: de"

#: a.c:3
msgid "Open "
"file"
msgstr "Datei öffnen"

#, fuzzy
msgid "Close"
msgstr "Schießen"

msgid "One \\"file\\""
msgid_plural "%d files"
msgstr[0] "Eine\\nDatei"
msgstr[1] "%d Dateien"
msgid "Nothing yet"
msgstr ""
"""


def pairs_of(path: Path, text: str, languages: tuple[str, str] = ("", "")) -> list[tuple[str, str]]:
    path.write_text(text, encoding="utf-8")
    return [(pair.source, pair.target) for pair in read_pairs(path, languages=languages)]


def test_tmx_yields_the_requested_languages(tmp_path: Path) -> None:
    file = tmp_path / "a.tmx"
    assert pairs_of(file, TMX, ("de", "en")) == [("Datei öffnen", "Open file")]
    assert pairs_of(file, TMX, ("en", "fr")) == [("Open file", "Ouvrir")]
    assert pairs_of(file, TMX) == [("Open file", "Datei öffnen")], "srclang, and the first other"
    assert pairs_of(file, TMX, ("en", "es")) == []


def test_xliff_yields_translated_segments(tmp_path: Path) -> None:
    for text in (XLIFF, XLIFF_2):
        assert pairs_of(tmp_path / "a.xliff", text) == [("Open file", "Datei öffnen")]


def test_po_skips_header_fuzzy_and_untranslated_entries(tmp_path: Path) -> None:
    assert pairs_of(tmp_path / "a.po", PO) == [
        ("Open file", "Datei öffnen"),
        ('One "file"', "Eine Datei"),
        ("%d files", "%d Dateien"),
    ]


# Each `tu` would get the attribute, which the file holds once.
DEFAULT = '<!DOCTYPE tmx [<!ATTLIST tu a CDATA "long">]><tmx><body><tu/><tu/></body></tmx>'
BOMB = '<!DOCTYPE a [<!ENTITY b "lol">]><tmx><body>&b;</body></tmx>'


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("a.tmx", b"<tmx><body>", "not well-formed"),
        ("a.tmx", BOMB.encode(), "declares a DTD"),
        ("a.tmx", BOMB.encode("utf-16"), "declares a DTD"),
        ("a.tmx", DEFAULT.encode(), "declares a DTD"),
        ("a.xliff", DEFAULT.encode("utf-16"), "declares a DTD"),
        (
            "a.xlf",
            b"<?xml version='1.0'?><!-- " + b"a" * 3_000_000 + b" -->" + DEFAULT.encode(),
            "declares a DTD",
        ),
        ("a.xliff", b"\xff\xfe", "not well-formed"),
        ("a.po", b"hello\n", "line 1 is not PO"),
        ("a.po", b'msgid "\xff"\n', "line 1 is not UTF-8"),
        ("a.po", b'"a"\n', "line 1 is not PO"),
    ],
)
def test_rejects_files_in_another_format(tmp_path: Path, name: str, raw: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(CorpusError, match=words):
        list(read_pairs(tmp_path / name))


def test_accepts_the_name_of_a_dtd(tmp_path: Path) -> None:
    text = f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">{TMX.partition("?>")[2] or TMX}'
    assert pairs_of(tmp_path / "a.tmx", text)


def test_accepts_deep_nesting(tmp_path: Path) -> None:
    deep = "<hi>" * 50_000 + "a" + "</hi>" * 50_000
    variants = [f'<tuv xml:lang="{c}"><seg>{deep}</seg></tuv>' for c in ("de", "en")]
    text = f"<tmx><body><tu>{''.join(variants)}</tu></body></tmx>"
    assert pairs_of(tmp_path / "a.tmx", text) == [("a", "a")]


def test_check_reads_exchange_formats(dragoman, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(PO, encoding="utf-8")
    answer = dragoman("check", tmp_path / "a.po")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "3 pairs")


def endless_segment(ending: str) -> bytes:
    """A segment of 20,000,000 words; each becomes an object of its own."""
    words = b"ab " * 20_000_000
    if ending == "tmx":
        return TMX.encode().replace(b"Datei", words)
    if ending == "xliff":
        return XLIFF.encode().replace(b"Datei", words)
    lines = b'"' + words[:750_000] + b'"\n'
    return b'msgid "x"\nmsgstr ""\n' + lines * 80


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
@pytest.mark.parametrize("ending", ["tmx", "xliff", "po"])
def test_a_file_that_swells_in_memory_is_refused_by_a_process_of_its_own(tmp_path, ending):
    path = tmp_path / f"bomb.{ending}.gz"
    path.write_bytes(gzip.compress(endless_segment(ending), 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorpusError, match="too much memory"):
        [*read_pairs(path)]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of processor time")
def test_a_file_that_takes_too_long_is_ended(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "endless.py").write_text("def rows(path):\n    while True: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    endless = importlib.import_module("endless")
    with pytest.raises(CorpusError, match="more than 1 s of processor time"):
        [*limited_rows(endless.rows, "a.tmx", 0, "a.tmx", cpu_s=1)]


def test_a_glossary_in_xml_is_read_by_a_process_of_its_own(monkeypatch, tmp_path):
    """A process that reads it notes its number."""
    note = tmp_path / "note"
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, pathlib\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    tbx = """<martif><body><termEntry><langSet xml:lang="de"><term>Hund</term></langSet>
    <langSet xml:lang="en"><term>dog</term></langSet></termEntry></body></martif>"""
    rows = [*rows_of(tbx, "terms.tbx", "de", "en")]
    assert [row.columns for row in rows] == [("Hund", "dog")]
    assert int(note.read_text()) != os.getpid()
