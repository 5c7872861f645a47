"""The cache of answers keeps what was used last."""

import asyncio
from dataclasses import dataclass

import pytest
from fastapi.testclient import TestClient

from dragoman.serve.app import create_app
from dragoman.serve.service import Limits, Service
from dragoman.text.glossary import Glossary, Term


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


@pytest.mark.parametrize("cache_texts", [0, 100])
def test_many_texts_hash_a_glossary_no_more_often_than_one(trained, cache_texts) -> None:
    hashed = []

    @dataclass(frozen=True)
    class CountingTerm(Term):
        def __hash__(self) -> int:
            hashed.append(self.source)
            return hash(self.source)

    async def translate(texts: list[str]) -> int:
        service = Service([str(trained)], Limits(cache_texts=cache_texts), device="cpu")
        service.batcher.start()
        hashed.clear()
        glossary = Glossary((CountingTerm("eins", ("one",)),))
        await service.translate(texts, "de", "en", glossary=glossary)
        await service.close()
        return len(hashed)

    assert asyncio.run(translate(["zwei", "drei", "vier"])) == asyncio.run(translate(["zwei"]))
