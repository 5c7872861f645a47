"""Files changed by their structure (`mutation.py`), read in processes with limits (`hunting.py`).

`make fuzz` hunts for DRAGOMAN_FUZZ_S seconds; a nightly run can give it an hour. DRAGOMAN_FUZZ_FROM
is the first case, so that each night can try others.
"""

import os
import random
import struct

import pytest

from dragoman.errors import DragomanError
from tests.fuzz.hunting import TARGETS, hunt, hunt_all
from tests.fuzz.mutation import Row, change_parts, change_xml, joined

SECONDS = float(os.environ.get("DRAGOMAN_FUZZ_S", "0"))
FIRST = int(os.environ.get("DRAGOMAN_FUZZ_FROM", "0"))
# Files that the hunt once found, kept as bytes: a case changes when a mutation changes.
FOUND = [
    (
        "Marian shortlist",
        struct.pack("<10Q", 0xF11A48D5013417F5, 0, 4, 4, 4, 0, 0, 2**63 - 1, 2**64 - 2, 0),
    ),
    ("Marian shortlist", struct.pack("<8Q", 0xF11A48D5013417F5, 0, 4, 4, 2, 0, 1, 0)),
    ("prepared data", struct.pack("<5q", 0, 3, 3, 2, 10)),
    ("corpus tmx", b'<!DOCTYPE tmx [<!ATTLIST tu a CDATA "v">]><tmx><tu/><tu/></tmx>'),
    ("glossary tbx", b'<!DOCTYPE a [<!ATTLIST term a CDATA "v">]><a><term/></a>'),
    ("document toml", b"a = " + b"9" * 5000),
    ("document rtf", b"{\\rtf1 Hund{\\pict\\bin-2147483648 abc}\\par}"),
]


@pytest.mark.parametrize(("target", "raw"), FOUND)
def test_files_that_the_hunt_found_are_refused_or_read(target: str, raw: bytes) -> None:
    one = TARGETS[target]
    try:
        one.read(raw)
    except one.refusals as error:
        assert isinstance(error, DragomanError | ValueError)


# Cases of each format that once failed, read in a separate process.
@pytest.mark.parametrize(
    "target", ["Marian shortlist", "Marian weights", "CTranslate2", "corpus tmx", "document rtf"]
)
def test_a_changed_file_is_refused_or_read_within_limits(target: str) -> None:
    assert [*hunt(target, 0, 60)] == []


def test_a_crash_is_found_and_the_hunt_continues() -> None:
    """The target reads a null pointer in its third case."""
    found = [*hunt("a crash", 0, 5)]
    assert [(one.target, one.number) for one in found] == [("a crash", 2), ("a crash", 3)]
    assert "ends the process" in found[0].what
    assert "processor time" in found[1].what


@pytest.mark.skipif(not SECONDS, reason="DRAGOMAN_FUZZ_S says how long to hunt")
def test_the_hunt_finds_nothing() -> None:
    assert [*hunt_all(SECONDS, FIRST)] == []


def test_changed_numbers_come_to_their_limits() -> None:
    parts = [Row("Q", (1, 2, 3)), b"abc"]
    made = {joined(change_parts(random.Random(n), parts)) for n in range(2000)}
    numbers = {n for raw in made for (n,) in struct.iter_unpack("<Q", raw[: len(raw) // 8 * 8])}
    assert {0, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1} <= numbers


def test_changed_xml_declares_what_it_likes() -> None:
    made = [change_xml(random.Random(n), "<a><b>1</b></a>") for n in range(300)]
    for word in ("<!ATTLIST", "<!ENTITY", "SYSTEM", "<!NOTATION"):
        assert any(word in text for text in made)
