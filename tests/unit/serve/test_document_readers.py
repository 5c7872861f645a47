"""The pool of readers, with fake processes."""

import asyncio

import pytest

from dragoman.serve import readers as readers_module
from dragoman.serve.readers import Readers


class Process:
    reusable = True
    killed = False

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def readers(monkeypatch) -> Readers:
    monkeypatch.setattr(readers_module, "Reader", Process)
    return Readers(2)


async def used(readers: Readers, error: BaseException | None = None) -> Process:
    """The process that reads the next file, which may be a bad one."""
    try:
        async with readers.reader("client") as process:
            if error:
                raise error
    except (ValueError, asyncio.CancelledError):
        pass
    return process


def test_a_reader_waits_for_the_next_file_even_after_a_bad_one(readers: Readers) -> None:
    async def story() -> None:
        first = await used(readers, ValueError())
        assert await used(readers) is first
        assert await used(readers) is first
        assert not first.killed

    asyncio.run(story())
    readers.close()


def test_a_reader_whose_client_has_left_or_that_is_worn_out_is_killed(readers: Readers) -> None:
    async def story() -> None:
        left = await used(readers, asyncio.CancelledError())
        worn_out = await used(readers)
        worn_out.reusable = False
        assert await used(readers) is worn_out
        fresh = await used(readers)
        assert [process.killed for process in (left, worn_out, fresh)] == [True, True, False]

    asyncio.run(story())
    readers.close()
