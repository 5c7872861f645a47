"""One pipeline: the same request gives the same translation through every interface."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

import dragoman
from dragoman.bundle.folder import bundled_models
from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import BY_NAME
from dragoman.documents.rounds import translate_segments
from dragoman.documents.translate import sentence_translator
from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from dragoman.text.glossary import Glossary
from dragoman.text.verbatim import verbatim_spans

TERMS = {"station": "Hauptbahnhof", "manual": "Leitfaden", "server": "Rechner"}
# source, target, text, terms that its translation must hold
REQUESTS = [
    ("en", "de", "The manual is at https://example.org/a/b.html.", ["Leitfaden"]),
    ("en", "de", "Copy /etc/hosts to the server.", ["Rechner"]),
    ("en", "de", "Write to ada@example.org before you restart the server.", ["Rechner"]),
    ("en", "de", "Where is the station?", ["Hauptbahnhof"]),
    ("en", "de", "Run backup_all() and read the manual.", ["Leitfaden"]),
    ("de", "en", "Der Berg ist 12.500 m hoch.", []),
    ("en", "de", "The train leaves at 5:30 pm. It is never late. Nobody waits at 6 pm.", []),
    ("de", "fr", "Ich habe 3 Hunde und 17 Katzen.", []),
]


@pytest.fixture(scope="module")
def translator(packaged):
    return packaged


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(Service([str(one) for one in bundled_models()]))) as client:
        yield client


def from_python(translator, source: str, to: str, text: str, terms: Glossary) -> str:
    return str(translator(text, source=source, to=to, glossary=terms))


def in_processes(translator, source: str, to: str, text: str, terms: Glossary) -> str:
    """Translate the text among enough other lines that several processes pay off."""
    lines = [f"{number}" for number in range(70)]
    lines[35] = text
    stream = translator.stream(lines, source=source, to=to, glossary=terms, processes=2)
    return str(list(stream)[35])


def as_document(translator, source: str, to: str, text: str, terms: Glossary) -> str:
    document = BY_NAME["text"].read(text.encode(), ReadOptions(to=to))
    request = dragoman.Request(to=to, source_language=source, glossary=terms)
    translate = sentence_translator(translator, request)
    return document.write(translate_segments(document.segments, translate)).decode()


WAYS: list[Callable[..., str]] = [in_processes, as_document]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(("source", "to", "text", "terms"), REQUESTS)
def test_every_interface_agrees_with_python(translator, way, source, to, text, terms) -> None:
    glossary = Glossary.of([*TERMS.items()])
    plain = from_python(translator, source, to, text, glossary)
    other = way(translator, source, to, text, glossary)
    assert all(term in plain and term in other for term in terms)
    # A document replaces addresses by placeholder words from the start, and still keeps them.
    if way is as_document and (spans := verbatim_spans(text)):
        assert all(text[start:end] in other for start, end in spans)
    else:
        assert other == plain


@pytest.mark.parametrize(("source", "to", "text", "terms"), REQUESTS)
def test_the_service_agrees_with_python(translator, client, source, to, text, terms) -> None:
    glossary = Glossary.of([*TERMS.items()])
    request = dragoman.Request(to=to, source_language=source, glossary=glossary, alignments=True)
    plain = translator(text, request)
    answer = client.post(
        "/v1/translate",
        json={
            "text": text,
            "source": source,
            "target": to,
            "glossary": [*TERMS.items()],
            "alignments": True,
        },
    )
    assert answer.status_code == 200, answer.text
    best = answer.json()["translations"][0]["candidates"][0]
    assert best["text"] == plain
    assert [tuple(link) for link in best["alignment"]] == list(plain.alignment)


def test_the_command_line_agrees_with_python(translator, tmp_path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("".join(f"{a}\t{b}\n" for a, b in TERMS.items()), encoding="utf-8")
    for source, to, text, _ in REQUESTS[::2]:
        plain = from_python(translator, source, to, text, Glossary.of([*TERMS.items()]))
        options = ("--from", source, "--to", to, "--glossary", str(terms))
        command = [sys.executable, "-m", "dragoman", "translate", *options, text]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert answer.stdout.rstrip("\n") == plain


def test_the_links_of_a_sentence_stay_within_the_line(translator) -> None:
    text = "The train leaves at 5:30 pm. It is never late. Nobody waits at 6 pm."
    words = len(text.split())
    links = translator(text, to="de", source="en", alignments=True).alignment
    assert links
    assert all(0 <= source < words for source, _ in links)


def test_times_that_read_the_same_to_the_model_keep_their_own_links(translator) -> None:
    """ "5 pm" becomes "17:00" before the model reads it: a word fewer, which the links count."""
    lines = ["We meet at 5 pm today.", "We meet at 17:00 today."]
    together_, apart = (
        translator(lines, to="de", source="en", alignments=True),
        [translator(line, to="de", source="en", alignments=True) for line in lines],
    )
    assert [one.alignment for one in together_] == [one.alignment for one in apart]
