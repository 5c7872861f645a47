"""Questions drawn from the service's own OpenAPI document: none may end in a server error."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from dragoman.serve.service import Limits, Service
from tests.serving import running


@pytest.fixture(scope="module")
def described(trained):
    with running(Service([str(trained)], Limits(max_characters=60), device="cpu")) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_no_question_breaks_the_service(case) -> None:
    case.call_and_validate(checks=[not_a_server_error, status_code_conformance, response_schema_conformance])
