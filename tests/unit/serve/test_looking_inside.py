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


def test_to_study_all_heads_is_counted_as_a_pass_for_each(trained, monkeypatch) -> None:
    """And four more, for a step of learning; without them, it is one."""
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
