"""The clients that people's tools already use, unmodified, against our service."""

import io
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from fastapi.testclient import TestClient

from dragoman.serve.app import create_app
from dragoman.serve.service import Service
from tests.serving import running

deepl = pytest.importorskip("deepl", reason="pip install deepl")
deep_translator = pytest.importorskip("deep_translator", reason="pip install deep-translator")
libretranslatepy = pytest.importorskip("libretranslatepy", reason="pip install libretranslatepy")


@pytest.fixture(scope="module")
def address(trained, tmp_path_factory) -> Iterator[str]:
    kept = tmp_path_factory.mktemp("suggestions")
    service = Service([str(trained)], api_key="sesam", device="cpu", suggestions=kept)
    with running(service) as found:
        yield found


@pytest.fixture
def official(address):
    return deepl.Translator("sesam", server_url=address, send_platform_info=False)


def test_deepls_client_translates_texts_and_markup(official) -> None:
    found = official.translate_text("eins zwei", source_lang="DE", target_lang="EN-GB")
    assert (found.text, found.detected_source_lang) == ("one two", "DE")
    several = official.translate_text(["drei", "vier"], target_lang="EN-US", formality="more")
    assert [entry.text for entry in several] == ["three", "four"]
    marked = official.translate_text(
        "<p>eins <b>zwei</b></p>", source_lang="DE", target_lang="EN-GB", tag_handling="html"
    )
    assert marked.text == "<p>one <b>two</b></p>"
    kept = official.translate_text(
        "eins <x>zwei</x> <y>drei</y>", source_lang="DE", target_lang="EN-GB", tag_handling="xml",
        ignore_tags="x",
    )  # fmt: skip
    assert "<x>zwei</x>" in kept.text
    assert "<y>three</y>" in kept.text


def test_deepls_client_makes_uses_and_deletes_glossaries(official) -> None:
    glossary = official.create_glossary("numbers", "DE", "EN", {"zwei": "nine"})
    assert glossary.entry_count == 1
    assert official.get_glossary(glossary.glossary_id).name == "numbers"
    assert [known.glossary_id for known in official.list_glossaries()] == [glossary.glossary_id]
    assert official.get_glossary_entries(glossary) == {"zwei": "nine"}
    found = official.translate_text(
        "eins zwei", source_lang="DE", target_lang="EN-GB", glossary=glossary
    )
    assert "nine" in found.text.split()
    official.delete_glossary(glossary)
    assert official.list_glossaries() == []


def test_deepls_client_sends_a_document_and_fetches_it(official) -> None:
    out = io.BytesIO()
    status = official.translate_document(
        b"<p>eins <i>zwei</i></p>", out, source_lang="DE", target_lang="EN-GB", filename="a.html"
    )  # fmt: skip
    assert status.done
    assert out.getvalue() == b"<p>one <i>two</i></p>"
    with pytest.raises(deepl.DeepLException, match="no such document, or damaged"):
        official.translate_document(b"no zip", io.BytesIO(), target_lang="EN-GB", filename="a.docx")


def test_deepls_client_asks_for_languages_and_usage(official) -> None:
    assert [language.code for language in official.get_source_languages()] == ["DE"]
    assert [language.code for language in official.get_target_languages()] == ["EN"]
    assert official.get_usage().character.valid
    wrong = deepl.Translator("open", server_url=official._server_url)
    with pytest.raises(deepl.AuthorizationException):
        wrong.get_usage()


def test_libretranslates_client_translates_text_and_files(address) -> None:
    client = libretranslatepy.LibreTranslateAPI(f"{address}/", "sesam")
    assert client.translate("eins zwei", "de", "en") == "one two"
    assert client.detect("eins zwei")[0]["language"] in ("de", "en")
    assert [language["code"] for language in client.languages()] == ["de", "en"]


def test_libretranslates_files_are_translated_and_fetched(address) -> None:
    form = {"source": "de", "target": "en", "api_key": "sesam"}
    sent = httpx.post(
        f"{address}/translate_file", data=form, files={"file": ("a.txt", b"drei vier\n")}
    )
    assert httpx.get(sent.json()["translatedFileUrl"]).content == b"three four\n"
    refused = httpx.post(f"{address}/translate_file", data=form, files={"file": ("a.pdf", b"%PDF")})
    assert refused.status_code == 400
    assert "a.pdf is of no format" in refused.json()["error"]
    html = {**form, "q": "<p>eins <b>zwei</b></p>", "format": "html"}
    found = httpx.post(f"{address}/translate", json=html).json()
    assert found["translatedText"] == "<p>one <b>two</b></p>"


def test_deep_translators_libre_class_translates(address) -> None:
    """It sends a query string, and appends the route to the address as it is given."""
    client = deep_translator.LibreTranslator(
        source="German", target="en", api_key="sesam", custom_url=f"{address}/"
    )
    assert client.translate("eins zwei") == "one two"
    assert client.translate_batch(["drei", "vier"]) == ["three", "four"]
    stranger = deep_translator.LibreTranslator(
        source="de", target="en", api_key="wrong", custom_url=f"{address}/"
    )
    with pytest.raises(deep_translator.exceptions.AuthorizationException):
        stranger.translate("eins")


def test_a_suggestion_is_kept_as_a_pair_to_train_on(trained, tmp_path) -> None:
    from dragoman.text.parallel import read_pairs

    service = Service([str(trained)], device="cpu", suggestions=tmp_path)
    with TestClient(create_app(service)) as client:
        body = {"q": "eins", "s": "one\tone", "source": "de", "target": "en"}
        assert client.post("/suggest", json=body).json() == {"success": True}
        assert client.post("/suggest", json={**body, "target": "xx"}).status_code == 400
    (pair,) = read_pairs(str(tmp_path / "suggestions.de-en.tsv"), "")
    assert (pair.source, pair.target) == ("eins", "one one")


def test_a_client_generated_from_our_description_translates(address, tmp_path) -> None:
    """The generator is installed by the Makefile: it wants an older typer than ours."""
    pytest.importorskip("openapi_python_client")
    from openapi_python_client import generate
    from openapi_python_client.config import Config, ConfigFile, MetaType

    config = Config.from_sources(
        ConfigFile(project_name_override="made", post_hooks=[]), MetaType.NONE,
        document_source=f"{address}/openapi.json", file_encoding="utf-8", overwrite=False,
        output_path=tmp_path / "made",
    )  # fmt: skip
    assert [error for error in generate(config=config) if error.level.name == "ERROR"] == []
    # The generator's code for bodies of several kinds lacks an import, so those are not asked.
    script = f"""
from io import BytesIO
from time import sleep
from made.client import AuthenticatedClient
from made.api.dragoman import translate_v1_translate_post as translate
from made.api.documents import upload_v1_documents_post as upload
from made.api.documents import status_v1_documents_key_get as status
from made.api.documents import download_v1_documents_key_file_get as download
from made.api.deep_l import usage_v2_usage_get as usage
from made.models import DocumentRequest, TranslateRequest
from made.types import File
client = AuthenticatedClient({address!r}, "sesam")
body = TranslateRequest(text="eins zwei", source="de", target="en")
print(translate.sync(client=client, body=body).translations[0].text)
sent = DocumentRequest(file=File(BytesIO(b"drei vier"), "a.txt"), source="de", target="en")
job = upload.sync(client=client, body=sent)
while job.state not in ("done", "failed"):
    sleep(0.1)
    job = status.sync(job.id, client=client)
print(download.sync_detailed(job.id, client=client).content.decode())
print(usage.sync(client=client).character_count > 0)
"""
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert said.stdout.splitlines() == ["one two", "three four", "True"], said.stderr
