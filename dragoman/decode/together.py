"""An asynchronous translator: texts of concurrent tasks are translated together.

    async with dragoman.AsyncTranslator(dragoman.load()) as translate:
        english = await asyncio.gather(*(translate(text, to="en") for text in texts))

The engine has a thread of its own, so the event loop stays free. Texts that arrive while it works
form the next batch.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Self, Unpack

from dragoman.decode.request import Options, Request
from dragoman.decode.translation import Translation
from dragoman.decode.translator import Translator
from dragoman.errors import DragomanError, TranslationError

_Waiting = tuple[str, asyncio.Future[Translation]]


class AsyncTranslator:
    """A translator for the tasks of an event loop, which share batches."""

    def __init__(self, translator: Translator):
        self.translator = translator
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._waiting: list[tuple[Request, _Waiting]] = []
        self._work: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Finish the texts under way."""
        self._closed = True
        if self._work is not None:
            await self._work
        self._thread.shutdown()

    async def __call__(
        self, text: str, request: Request = Request(), **options: Unpack[Options]
    ) -> Translation:
        if self._closed:
            raise TranslationError("this translator is closed: its `async with` has ended.")
        result: asyncio.Future[Translation] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.translator.request(request, options), (text, result)))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._translate_all())
        return await result

    async def _translate_all(self) -> None:
        # The other tasks of this turn of the event loop add their texts first.
        await asyncio.sleep(0)
        while self._waiting:
            first = self._waiting[0][0]
            batch = [waiting for request, waiting in self._waiting if request == first]
            self._waiting = [entry for entry in self._waiting if entry[0] != first]
            wanted = [waiting for waiting in batch if not waiting[1].cancelled()]
            await self._translate(wanted, first)

    async def _translate(self, batch: list[_Waiting], request: Request) -> None:
        run = asyncio.get_running_loop().run_in_executor
        texts = [text for text, _ in batch]
        try:
            made = await run(self._thread, self.translator.translate, texts, request)
        except DragomanError as error:
            if len(batch) > 1:  # one text must not fail the others
                for waiting in batch:
                    await self._translate([waiting], request)
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        except BaseException as error:  # a defect: all tasks must hear of it
            for _, result in batch:
                if not result.done():
                    result.set_exception(error)
            return
        for (_, result), translation in zip(batch, made, strict=True):
            if not result.done():
                result.set_result(translation)
