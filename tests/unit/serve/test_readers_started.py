"""A reader whose client leaves while it starts is kept for the next client."""

import asyncio

from dragoman.serve.readers import Readers


def test_clients_that_leave_while_readers_start_leak_no_processes() -> None:
    async def come_and_leave(readers: Readers) -> None:
        async with readers.reader("client"):
            pass

    async def main() -> int:
        readers = Readers(2)
        try:
            for _ in range(6):
                coming = asyncio.create_task(come_and_leave(readers))
                await asyncio.sleep(0)  # its reader is starting
                await asyncio.sleep(0)
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            async with readers.reader("another"):
                pass
            while readers.starting:
                await asyncio.sleep(0.01)
            return readers.alive
        finally:
            readers.close()

    assert asyncio.run(main()) <= 2
