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
ASKED = ["/v1/translate", "/v1/attention", "/v1/explain", "/translate", "/detect"]
ROUTES = [(route, mode) for route in ASKED for mode in GenerationMode]
ROUTES += [
    (route, GenerationMode.POSITIVE)
    for route in (
        "/v1/models",
        "/health",
        "/healthz",
        "/readyz",
        "/metrics",
        "/languages",
        "/frontend/settings",
    )
]


@pytest.fixture(scope="module")
def document(trained):
    with running(Service([str(trained)], Limits(max_characters=40), device="cpu")) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def test_every_route_is_asked(document) -> None:
    assert {result.ok().path for result in document.get_all_operations()} == {
        route for route, _ in ROUTES
    }


@pytest.mark.parametrize(("route", "mode"), ROUTES)
def test_no_question_breaks_the_service(document, route, mode) -> None:
    (operation,) = (
        found for result in document.get_all_operations() if (found := result.ok()).path == route
    )

    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    @settings(
        max_examples=settings().max_examples // 3,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    def ask(case, known: bool) -> None:
        if known and isinstance(case.body, dict) and route != "/detect":
            # else few questions come as far as the model
            case.body |= {"source": "de", "target": "en"}
        case.call_and_validate(checks=CHECKS)

    ask()
