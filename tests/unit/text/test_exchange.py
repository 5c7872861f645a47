from pathlib import Path

import pytest

from dragoman.errors import CorpusError
from dragoman.text.parallel import read_pairs

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
