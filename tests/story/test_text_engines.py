"""Text engines in translate, evaluate, compare and serve, as people use them."""

import json
import re
import subprocess
import sys

import docx
import pytest
from fastapi.testclient import TestClient

import dragoman as package
from dragoman.bundle.folder import bundled_models
from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from tests.engine_stub import Stub, names, serving, texts, translated

ONE = "We thank you for your help."


@pytest.fixture
def stub():
    return Stub()


@pytest.fixture
def address(stub):
    with serving(stub) as address:
        yield f"{address}/v1"


def test_texts_are_translated_by_an_engine_and_its_use_is_told(dragoman, stub, address) -> None:
    answer = dragoman(
        "translate", ONE, "very important", "--from", "en", "--to", "de", "--engine", address,
        "--engine-model", "hy-mt2",
    )  # fmt: skip
    assert answer.out == "Wir danken Ihnen für Ihre Hilfe.\nsehr wichtig\n"
    assert re.search(r"hy-mt2 at \S+: 2 texts, 2 calls", answer.err)
    assert stub.heard[0]["model"] == "hy-mt2"


def test_a_document_keeps_its_tags_and_terms_and_its_answers(
    dragoman, stub, address, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = docx.Document()
    document.core_properties.comments = ""
    paragraph = document.add_paragraph()
    paragraph.add_run("The new printer").bold = True
    paragraph.add_run(" was delivered on Monday with 1200 pages and 30 sheets of paper.")
    document.add_paragraph(ONE)
    document.save("report.docx")
    (tmp_path / "terms.tsv").write_text("printer\tDrucker\n")
    command = (
        "translate", "report.docx", "--from", "en", "--to", "de", "--engine", f"{address}#gpt",
        "--glossary", "terms.tsv", "--answers", "kept.jsonl", "--report", "report.html",
    )  # fmt: skip
    answer = dragoman(*command)
    assert answer.out == "report.de.docx\n"
    assert re.search(r"2 texts, about 1 calls and [\d,]+ tokens", answer.err)
    paragraphs = docx.Document("report.de.docx").paragraphs
    bold = [run.text for run in paragraphs[0].runs if run.bold]
    assert bold == ["Das neue Drucker"]
    assert paragraphs[1].text == "Wir danken Ihnen für Ihre Hilfe."
    assert "0 doubtful" in (tmp_path / "report.html").read_text()
    calls = stub.calls
    dragoman(*command)
    assert stub.calls == calls


def test_what_an_engine_cannot_do_is_translated_by_the_package_and_marked(
    dragoman, stub, address
) -> None:
    (text,) = texts(1)
    stub.breaks = dict.fromkeys(names(1), ("refuses", 1000))
    ask = ("translate", text, ONE, "--from", "en", "--to", "de", "--engine", f"{address}#gpt")
    answer = dragoman(*ask, "--json")
    first, second = map(json.loads, answer.out.splitlines())
    assert first["by"] == "the package's model"
    assert "refused" in first["warning"]
    assert "notes0.txt" in first["translations"][0]["text"]
    assert second["by"].startswith("gpt at")
    assert "warning" not in second
    assert re.search(r"line 1: gpt failed \(It refused", answer.err)
    assert "1 are marked" in answer.err


def test_an_engine_that_the_package_cannot_replace_marks_the_source(
    dragoman, stub, address
) -> None:
    stub.breaks = dict.fromkeys(names(1), ("refuses", 1000))
    answer = dragoman(
        "translate", *texts(1), "--from", "en", "--to", "ja", "--engine", f"{address}#gpt"
    )
    assert answer.code == 0
    assert "line 1: gpt failed" in answer.err


def test_an_engine_from_a_file_translates_from_python(stub, address, tmp_path) -> None:
    (tmp_path / "e.toml").write_text(f'[engine]\naddress = "{address}"\nmodel = "gpt"\n')
    with package.load(engine=str(tmp_path / "e.toml")) as translator:
        found = translator([ONE, "very important"], source="en", to="de")
        assert found == ["Wir danken Ihnen für Ihre Hilfe.", "sehr wichtig"]
        assert translator(ONE, to="de") == "Wir danken Ihnen für Ihre Hilfe."
        assert 0 < found[0].confidence < 1
        with pytest.raises(package.DragomanError, match="one translation"):
            translator(ONE, to="de", nbest=2)


def test_evaluate_and_compare_take_engines_beside_models(dragoman, address, tmp_path) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("\n".join(texts(3)) + "\n")
    target.write_text("\n".join(translated(text, {}) for text in texts(3)) + "\n")
    languages = ("--from", "en", "--to", "de")
    answer = dragoman("evaluate", source, target, *languages, "--model", f"{address}#gpt")
    assert f"{address}#gpt  BLEU 100.00" in answer.out
    out = tmp_path / "compared"
    answer = dragoman(
        "compare", source, target, *languages, "--engine", "pentaglot", "--engine",
        f"{address}#gpt", "--out", out,
    )  # fmt: skip
    head, own, other = (line.split("\t") for line in answer.out.splitlines())
    assert head[:3] == ["engine", "BLEU", "chrF"]
    assert float(other[1]) == 100.0
    assert float(own[1]) < 100.0
    assert other[head.index("texts kept")] == "100.0%"
    assert other[head.index("calls")] == "1"
    assert "<table>" in (out / "engines.html").read_text()


def test_a_served_engine_is_the_operators_and_clients_cannot_name_another(
    stub, address, tmp_path
) -> None:
    (tmp_path / "e.toml").write_text(f'[engine]\naddress = "{address}"\nmodel = "gpt"\n')
    elsewhere = Stub()
    with serving(elsewhere) as other:
        service = Service(bundled_models(), engine=str(tmp_path / "e.toml"))
        with TestClient(create_app(service)) as client:
            question = {"text": ONE, "source": "en", "target": "de"}
            more = {"engine": other, "address": other, "model": other, "base_url": other}
            found = client.post("/v1/translate", json=question).json()
            assert found["translations"][0]["text"] == "Wir danken Ihnen für Ihre Hilfe."
            client.post("/v1/translate", json={**question, **more, "text": "very important"})
            client.post("/v2/translate", json={"text": [ONE], "target_lang": "DE", **more})
            markup = client.post(
                "/v2/translate",
                json={
                    "text": ["<b>very important</b>: please open the file"],
                    "source_lang": "EN",
                    "target_lang": "DE",
                    "tag_handling": "xml",
                },
            ).json()
            stub.breaks = dict.fromkeys(names(1), ("refuses", 1000))
            broken = client.post("/v1/translate", json={**question, "text": texts(1)[0]}).json()
            shown = client.get("/openapi.json").text + json.dumps([found, markup, broken])
    assert markup["translations"][0]["text"] == "<b>sehr wichtig</b>: bitte öffnen Sie die Datei"
    assert stub.calls
    assert elsewhere.calls == 0
    assert "gpt failed (It refused" in shown
    assert re.search(r":(\d+)/", address)[1] not in shown


def test_nothing_of_it_is_imported_when_the_packages_model_translates(tmp_path) -> None:
    (tmp_path / "a.md").write_text("Good *morning*!\n")
    code = """if True:
        import sys
        from dragoman.cli.app import main
        for words in (["Good morning!"], ["a.md"]):
            sys.argv = ["dragoman", "translate", *words, "--to", "de"]
            main()
        print([name for name in sys.modules if "text_engine" in name or name == "urllib.request"])
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_options_of_an_engine_without_an_engine_are_refused(dragoman) -> None:
    answer = dragoman("translate", "a", "--to", "de", "--engine-model", "hy-mt2")
    assert answer.code == 1
    assert "--engine" in answer.err
