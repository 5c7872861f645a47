"""Requests that look inside a model, or change it for a moment, do not meet in it."""

import time
from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient

from dragoman.serve import looking
from dragoman.serve.app import create_app
from dragoman.serve.service import Service


def test_one_looks_inside_at_a_time(trained, monkeypatch) -> None:
    inside, most = [], []

    def explanation(*_):
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.3)
        inside.pop()
        return {}

    monkeypatch.setattr(looking, "explanation", explanation)
    service = Service([str(trained)], device="cpu")
    service.batcher.workers = 2
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        body = {"text": "eins zwei", "source": "de", "target": "en"}
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: client.post("/v1/explain", json=body), range(2)))
    assert most == [1, 1]
