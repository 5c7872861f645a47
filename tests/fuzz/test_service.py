"""Questions drawn from the service's own OpenAPI document, right and wrong ones: none may end in a
server error."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from dragoman.serve.service import Limits, Service
from tests.serving import running

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
ASKED = [
    *("/v1/translate", "/v1/attention", "/v1/explain", "/v1/documents"),
    "/v1/chat/completions",
    *("/translate", "/detect", "/suggest", "/translate_file"),
    *("/v2/translate", "/v2/glossaries", "/v2/document", "/v2/document/{key}"),
    "/v2/document/{key}/result",
]
SHOWN = [
    *("/v1/models", "/health", "/healthz", "/readyz", "/metrics", "/languages"),
    *("/v1/models/{name}", "/listPairs"),
    *("/frontend/settings", "/v1/documents/{key}", "/v1/documents/{key}/file"),
    "/v1/documents/{key}/report",
    *("/download_file/{key}", "/v2/languages", "/v2/usage", "/v2/glossary-language-pairs"),
    *("/v2/glossaries/{key}", "/v2/glossaries/{key}/entries"),
]
ROUTES = [(route, mode) for route in ASKED for mode in GenerationMode]
ROUTES += [(route, GenerationMode.POSITIVE) for route in SHOWN]


@pytest.fixture(scope="module")
def document(trained, tmp_path_factory):
    limits = Limits(max_characters=40, max_file_characters=40)
    kept = tmp_path_factory.mktemp("suggestions")
    service = Service([str(trained)], limits, device="cpu", suggestions=kept)
    with running(service) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def test_every_route_gets_requests(document) -> None:
    assert {result.ok().path for result in document.get_all_operations()} == {
        route for route, _ in ROUTES
    }


@pytest.mark.parametrize(("route", "mode"), ROUTES)
def test_no_question_breaks_the_service(document, route, mode) -> None:
    operations = [
        found for result in document.get_all_operations() if (found := result.ok()).path == route
    ]
    cases = st.one_of([found.as_strategy(generation_mode=mode) for found in operations])

    @given(case=cases, known=st.booleans())
    @settings(
        max_examples=settings().max_examples // 3,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    def ask(case, known: bool) -> None:
        if known and isinstance(case.body, dict) and route != "/detect":
            # else few questions come as far as the model
            in_deepls_words = route.startswith("/v2")
            case.body |= (
                {"target_lang": "en"} if in_deepls_words else {"source": "de", "target": "en"}
            )
            if route == "/v1/chat/completions":
                case.body["model"] = "dragoman-de-en"
        case.call_and_validate(checks=CHECKS)

    ask()
