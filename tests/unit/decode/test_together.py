"""Texts of many tasks in few searches."""

import asyncio
from dataclasses import replace

import pytest

from dragoman.decode.request import Request
from dragoman.decode.together import AsyncTranslator
from dragoman.errors import TranslationError

HANG = 120.0  # seconds, which only a task that nobody answers takes


def finished(work):
    return asyncio.run(asyncio.wait_for(work, HANG))


class Shouting:
    """A translator that keeps what it was asked together."""

    def __init__(self):
        self.batches: list[tuple[str, list[str]]] = []

    def request(self, request, options):
        return replace(request, **options)

    def translate(self, texts, request):
        self.batches.append((request.to, texts))
        if "bad" in texts:
            raise TranslationError("bad is too long.")
        return [text.upper() for text in texts]


def test_tasks_that_wait_together_are_translated_together() -> None:
    plain = Shouting()

    async def main():
        async with AsyncTranslator(plain) as translate:
            return await asyncio.gather(
                translate("a", to="en"), translate("b", to="de"), translate("c", to="en")
            )

    assert finished(main()) == ["A", "B", "C"]
    assert plain.batches == [("en", ["a", "c"]), ("de", ["b"])]


def test_one_texts_mistake_is_not_the_others() -> None:
    async def main():
        async with AsyncTranslator(Shouting()) as translate:
            texts = [translate(text, Request(to="en")) for text in ("a", "bad", "c")]
            return await asyncio.gather(*texts, return_exceptions=True)

    first, error, last = finished(main())
    assert (first, last) == ("A", "C")
    assert isinstance(error, TranslationError)


def test_a_cancelled_task_leaves_the_others_alone() -> None:
    plain = Shouting()

    async def main():
        async with AsyncTranslator(plain) as translate:
            left = asyncio.create_task(translate("a"))
            stays = asyncio.create_task(translate("b"))
            await asyncio.sleep(0)
            left.cancel()
            return await stays

    assert finished(main()) == "B"


def test_a_closed_translator_says_so() -> None:
    async def main():
        async with AsyncTranslator(Shouting()) as translate:
            pass
        await translate("a")

    with pytest.raises(TranslationError, match="closed"):
        finished(main())
