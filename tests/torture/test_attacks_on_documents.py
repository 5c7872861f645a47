"""Documents of some kilobytes that would fill a careless reader's memory are refused."""

import io
import zipfile

import pytest
import yaml

from dragoman.documents import archive, xml_tree
from dragoman.documents.document import DocumentError
from dragoman.documents.formats import format_of, read
from tests import attacks

REFUSALS = {
    "attributes.docx": "declares a DTD",
    "insertions.docx": "nested more than",
    "elements.docx": "unpacks to more than",
    "depth.docx": "nested more than",
    "many-attributes.docx": "more than 1,000 attributes",
    "picture.docx": "unpacks to more than",
    "members.docx": "it has 30,000 files",
}


@pytest.mark.parametrize(("name", "refusal"), REFUSALS.items())
def test_a_bomb_is_refused_before_it_is_held_in_memory(name, refusal):
    with pytest.raises(DocumentError, match=refusal):
        read(name, attacks.MEMORY[name](), format_of(name))


def test_elements_and_texts_are_counted_while_they_are_read(monkeypatch):
    monkeypatch.setattr(xml_tree, "MOST_NODES", 100)
    xml_tree.parse_xml(f"<a>{'<b/>' * 99}</a>")
    with pytest.raises(DocumentError, match="more than 100 elements"):
        xml_tree.parse_xml(f"<a>{'<b/>' * 100}</a>")
    with pytest.raises(DocumentError, match="more than 100 elements"):
        xml_tree.parse_xml(f"<a>{'<b/>x' * 50}</a>")


def test_a_member_with_a_false_size_is_counted_while_unpacking():
    raw = attacks.docx("a" * 1_000_000)
    forged = bytearray(raw)
    at = raw.rindex(b"PK\x01\x02")  # the last entry of the directory: the document
    forged[at + 24 : at + 28] = (10).to_bytes(4, "little")
    with pytest.raises(DocumentError, match=r"damaged"):
        read("a.docx", bytes(forged), format_of("a.docx"))


def test_members_without_text_are_copied_without_being_held():
    picture = bytes(range(256)) * 10_000
    text = attacks.docx("<w:p><w:r><w:t>Word</w:t></w:r></w:p>")
    with zipfile.ZipFile(io.BytesIO(text)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    raw = attacks.archived({**members, "word/media/1.png": picture})
    infos, contents = archive._unpacked(raw, "word/document.xml".__eq__)
    assert set(contents) == {"word/document.xml"}
    assert len(infos) == 3
    document = read("a.docx", raw, format_of("a.docx"))
    with zipfile.ZipFile(io.BytesIO(document.write(document.segments))) as new:
        assert new.read("word/media/1.png") == picture


def test_a_block_of_yaml_that_looks_like_a_mapping_stays_a_text():
    raw = b"a: |\n  b: c\n  d: e\nf: g\n"
    document = read("a.yaml", raw, format_of("a.yaml"))
    shouted = [tuple(str(item).upper() for item in segment) for segment in document.segments]
    written = yaml.safe_load(document.write(shouted))
    assert isinstance(written["a"], str)
    assert set(written) == {"a", "f"}
    assert written["f"] == "G"
