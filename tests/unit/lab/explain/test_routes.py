"""Inspections of a model run one at a time, and their cost is counted."""

import time
from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient

from dragoman.lab.explain import routes
from dragoman.serve.app import create_app
from dragoman.serve.service import Service


def test_one_inspection_runs_at_a_time(trained, monkeypatch) -> None:
    inside, most = [], []

    def explain(*_):
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.3)
        inside.pop()
        return {}

    monkeypatch.setattr(routes, "explain", explain)
    service = Service([str(trained)], device="cpu")
    service.batcher.workers = 2
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        body = {"text": "eins zwei", "source": "de", "target": "en"}
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: client.post("/v1/explain", json=body), range(2)))
    assert most == [1, 1]


def test_studying_all_heads_counts_as_a_pass_for_each(trained, monkeypatch) -> None:
    """The gradient step counts as four more."""
    works: list[int] = []

    async def run(look, work: int, client: str) -> dict[str, object]:
        works.append(work)
        return {}

    service = Service([str(trained)], device="cpu")
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        monkeypatch.setattr(service.batcher, "run", run)
        body = {"text": "eins zwei", "source": "de", "target": "en"}
        for study in (False, True):
            client.post("/v1/explain", json={**body, "change": {"study": study}})
        model = service.models.models[0].translator.config.model
    heads = model.num_heads * (model.num_encoder_layers + 2 * model.num_decoder_layers)
    assert works[1] == (4 + heads) * works[0]
