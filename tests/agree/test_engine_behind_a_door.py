"""The package's model behind its own service translates as it does directly."""

import docx
import pytest

import dragoman
from dragoman.bundle.folder import bundled_models
from dragoman.documents.document import ReadOptions
from dragoman.documents.sandbox import GENEROUS_LIMITS, Reader
from dragoman.documents.translate import sentence_translator, takes_marks
from dragoman.serve.service import Service
from tests.serving import running

TERMS = dragoman.Glossary.of([("printer", "Drucker"), ("order", "Auftrag|Aufträge")])
TEXTS = [
    "The printer is in the room on the left.",
    "All orders are in list.csv, see https://example.org/help for 2 of them.",
    "Where is the station? We are late. It costs 1,250 euros.",
    "Please send the file to ada@example.org.",
    "",
    "OK",
]


@pytest.fixture(scope="module")
def address():
    with running(Service(bundled_models())) as address:
        yield address


@pytest.mark.parametrize("door", ["/v1#dragoman-{from}-{to}", "/v2"])
def test_texts_and_terms_are_the_same_as_directly(address, packaged, door: str) -> None:
    behind = dragoman.load(engine=f"{address}{door}")
    for glossary in (dragoman.Glossary(), TERMS):
        # DeepL's texts have no terms of their own, so there a term is masked.
        if glossary.terms and door == "/v2":
            continue
        options = {"source": "en", "to": "de", "glossary": glossary}
        assert behind(TEXTS, **options) == packaged(TEXTS, **options)
    assert behind.text_engine.marked == 0


def test_terms_are_kept_where_an_api_knows_none(address) -> None:
    behind = dragoman.load(engine=f"{address}/v2")
    found = behind(TEXTS[:2], source="en", to="de", glossary=TERMS)
    assert "Drucker" in found[0]
    assert "Auftr" in found[1]


def test_a_document_is_the_same_as_directly(address, packaged, tmp_path) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("The new ")
    paragraph.add_run("printer").bold = True
    paragraph.add_run(" is in the room on the left. We thank you for ")
    paragraph.add_run("your help").italic = True
    paragraph.add_run(".")
    for text in TEXTS:
        document.add_paragraph(text)
    document.save(tmp_path / "a.docx")
    raw = (tmp_path / "a.docx").read_bytes()
    behind = dragoman.load(engine=f"{address}/v1#dragoman-{{from}}-{{to}}")
    request = dragoman.Request(to="de", source_language="en", glossary=TERMS)
    written = []
    for translator in (packaged, behind):
        with Reader() as reader:
            reader.open("a.docx", raw, "docx", ReadOptions(to="de"), GENEROUS_LIMITS)
            ask = sentence_translator(translator, request)
            written.append(reader.translate(ask, takes_marks(translator)))
    first, second = [(tmp_path / name) for name in ("b.docx", "c.docx")]
    for path, data in zip((first, second), written, strict=True):
        path.write_bytes(data)
    shown = [
        [
            [(run.text, run.bold, run.italic) for run in p.runs]
            for p in docx.Document(path).paragraphs
        ]
        for path in (first, second)
    ]
    assert shown[0] == shown[1]
    assert ("Drucker", True, None) in shown[0][0]


def test_its_translations_have_the_confidence_of_the_model_that_reads_them(
    address, packaged
) -> None:
    behind = dragoman.load(engine=f"{address}/v1#dragoman-{{from}}-{{to}}")
    one = behind(TEXTS[0], source="en", to="de", alignments=True)
    other = packaged(TEXTS[0], source="en", to="de", alignments=True)
    assert one.confidence == pytest.approx(other.confidence, abs=0.05)
    assert one.alignment == other.alignment
