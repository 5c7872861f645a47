"""The clients that people's tools already use, unmodified, against our service."""

import io
import json
import socket
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
    several = official.translate_text(
        ["drei", "vier"], target_lang="EN-US", formality="prefer_more"
    )
    assert [entry.text for entry in several] == ["three", "four"]
    with pytest.raises(deepl.DeepLException, match="formality"):
        official.translate_text("drei", target_lang="EN-US", formality="more")
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
    with pytest.raises(deepl.DeepLException, match="not a document of this format, or damaged"):
        official.translate_document(b"no zip", io.BytesIO(), target_lang="EN-GB", filename="a.docx")


def test_deepls_client_asks_for_languages_and_usage(official) -> None:
    assert [language.code for language in official.get_source_languages()] == ["DE"]
    targets = [language.code for language in official.get_target_languages()]
    assert targets == ["EN", "EN-GB", "EN-US"]
    assert official.get_usage().character.valid
    wrong = deepl.Translator("open", server_url=official._server_url)
    with pytest.raises(deepl.AuthorizationException):
        wrong.get_usage()


def test_deepls_client_hears_that_version_3_is_not_there(address) -> None:
    client = deepl.DeepLClient("sesam", server_url=address, send_platform_info=False)
    with pytest.raises(deepl.DeepLException, match="not found"):
        client.list_multilingual_glossaries()


def test_libretranslates_client_translates_and_detects(address) -> None:
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
    refused = httpx.post(f"{address}/translate_file", data=form, files={"file": ("a.xyz", b"%PDF")})
    assert refused.status_code == 400
    assert "a.xyz has no supported format" in refused.json()["error"]
    html = {**form, "q": "<p>eins <b>zwei</b></p>", "format": "html"}
    found = httpx.post(f"{address}/translate", json=html).json()
    assert found["translatedText"] == "<p>one <b>two</b></p>"


def test_deep_translators_libre_class_translates(address) -> None:
    """The client sends a query string, and appends the route to the address unchanged."""
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


def test_openais_client_lists_models_and_translates(address) -> None:
    """openai 3.49.0: models.list, models.retrieve, chat.completions.create."""
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="sesam", base_url=f"{address}/v1", max_retries=0)
    assert [model.id for model in client.models.list()] == ["dragoman-de-en", "dragoman-auto-en"]
    assert client.models.retrieve("dragoman-de-en").id == "dragoman-de-en"

    def complete(model: str, text: object, **options: object):
        messages = [
            {"role": "system", "content": "Translate into French."},
            {"role": "user", "content": text},
        ]
        return client.chat.completions.create(model=model, messages=messages, **options)

    answer = complete("dragoman-de-en", "eins zwei")
    assert answer.choices[0].message.content == "one two"
    assert (answer.model, answer.choices[0].finish_reason) == ("dragoman-de-en", "stop")
    parts = [{"type": "text", "text": "eins "}, {"type": "text", "text": "zwei"}]
    assert complete("dragoman-de-DE-en-GB", parts).choices[0].message.content == "one two"
    several = complete("dragoman-de-en", "eins zwei", n=3).choices
    assert [choice.index for choice in several] == [0, 1, 2]
    assert len({choice.message.content for choice in several}) == 3
    terms = complete("dragoman-de-en", "eins zwei", extra_body={"glossary": [["zwei", "nine"]]})
    assert "nine" in terms.choices[0].message.content.split()
    separated = complete("dragoman-de-en", "eins\n==A_PART==\nzwei drei\n==A_PART==\nvier")
    content = separated.choices[0].message.content
    assert content == "one\n==A_PART==\ntwo three\n==A_PART==\nfour"

    with pytest.raises(openai.NotFoundError, match="no model 'dragoman-de-fr': a name contains"):
        complete("dragoman-de-fr", "eins")
    with pytest.raises(openai.BadRequestError) as refused:
        complete("dragoman-de-en", "eins", stream=True, n=2)
    assert refused.value.body["message"] == "n: a stream has one choice."
    stranger = openai.OpenAI(api_key="wrong", base_url=f"{address}/v1", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_openais_client_reads_a_stream_line_by_line(address) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="sesam", base_url=f"{address}/v1", max_retries=0)
    text = "eins\nzwei\n\n==A_PART==\ndrei vier\nfünf\n"
    stream = client.chat.completions.create(
        model="dragoman-de-en", messages=[{"role": "user", "content": text}], stream=True
    )
    chunks = [chunk.choices[0] for chunk in stream]
    pieces = [chunk.delta.content for chunk in chunks if chunk.delta.content]
    assert pieces[0] == "one\n"
    assert "".join(pieces) == "one\ntwo\n\n==A_PART==\nthree four\nfive\n"
    assert chunks[-1].finish_reason == "stop"
    with pytest.raises(openai.APIStatusError, match="too many"):
        client.chat.completions.create(
            model="dragoman-de-en", messages=[{"role": "user", "content": "eins " * 9999}],
            stream=True,
        )  # fmt: skip


def test_apertiums_clients_translate_by_get(address) -> None:
    """OmegaT 6 sends the bar between the languages unescaped, and the key in the query."""
    host, port = address.removeprefix("http://").split(":")
    query = "q=eins+zwei%0Adrei&markUnknown=no&langpair=de_DE|en&key=sesam"
    with socket.create_connection((host, int(port))) as connection:
        head = f"GET /translate?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        raw = b"".join(iter(lambda: connection.recv(4096), b""))
    assert json.loads(raw.partition(b"\r\n\r\n")[2]) == {
        "responseData": {"translatedText": "one two\nthree"},
        "responseDetails": None,
        "responseStatus": 200,
    }
    pairs = httpx.get(f"{address}/listPairs").json()["responseData"]
    assert pairs == [{"sourceLanguage": "de", "targetLanguage": "en"}]
    for query, status in (("q=eins&langpair=de|en", 403), ("key=sesam&q=eins", 400)):
        assert httpx.get(f"{address}/translate?{query}").status_code == status


def test_a_suggestion_is_kept_as_a_pair_to_train_on(trained, tmp_path) -> None:
    from dragoman.text.parallel import read_pairs

    service = Service([str(trained)], device="cpu", suggestions=tmp_path)
    with TestClient(create_app(service)) as client:
        body = {"q": "eins", "s": "one\tone", "source": "de", "target": "en"}
        assert client.post("/suggest", json=body).json() == {"success": True}
        assert client.post("/suggest", json={**body, "target": "xx"}).status_code == 400
    (pair,) = read_pairs(str(tmp_path / "suggestions.de-en.tsv"), "")
    assert (pair.source, pair.target) == ("eins", "one one")


def test_a_suggestion_that_the_disk_cannot_hold_is_refused_whole(trained, tmp_path) -> None:
    import resource

    service = Service([str(trained)], device="cpu", suggestions=tmp_path)
    kept = tmp_path / "suggestions.de-en.tsv"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with TestClient(create_app(service)) as client:
        body = {"q": "eins", "s": "one", "source": "de", "target": "en"}
        assert client.post("/suggest", json=body).status_code == 200
        resource.setrlimit(resource.RLIMIT_FSIZE, (12, before[1]))  # room for half of the next
        try:
            answer = client.post("/suggest", json=body)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (answer.status_code, kept.read_text()) == (507, "eins\tone\n")
        assert "no room for the suggestion" in answer.json()["error"]
        assert client.post("/suggest", json=body).status_code == 200
    assert kept.read_text() == "eins\tone\n" * 2


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
