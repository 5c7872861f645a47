"""The cache of answers keeps what was used last."""

from fastapi.testclient import TestClient

from dragoman.serve.app import create_app
from dragoman.serve.service import Limits, Service


def test_an_answer_that_is_used_again_outlives_a_newer_one_that_is_not(trained) -> None:
    service = Service([str(trained)], Limits(cache_texts=2), device="cpu")
    with TestClient(create_app(service)) as client:

        def is_cached(text: str) -> bool:
            before = service.metrics.cached
            question = {"text": text, "target": "en"}
            assert client.post("/v1/translate", json=question).status_code == 200
            return service.metrics.cached > before

        assert [is_cached(text) for text in ("eins", "zwei", "eins")] == [False, False, True]
        assert not is_cached("drei")  # there is room for two: "zwei" goes
        assert is_cached("eins")
        assert not is_cached("zwei")
