"""Continuous batching: many generations at once, each with the tokens it would have alone."""
from __future__ import annotations

import asyncio
import atexit
import itertools
import time
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator

import numpy as np
import numpy.typing as npt

from . import _kvik
from .errors import Error
from .ids import TokenIds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model
    from .options import EngineOptions, GenerateOptions

_FULL_QUEUE_S = 0.005  # between two attempts


class _Readers:
    """Wakes the tasks of one event loop whose streams have news."""

    _of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Readers] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.mailbox = _kvik.Mailbox()
        self._events: dict[int, asyncio.Event] = {}
        self._numbers = itertools.count()
        loop.add_reader(self.mailbox.descriptor(), self._deliver)

    @classmethod
    def running(cls) -> _Readers:
        loop = asyncio.get_running_loop()
        readers = cls._of_loops.get(loop)
        if readers is None:
            readers = cls._of_loops[loop] = cls(loop)
        return readers

    def add(self, stream: _kvik.Stream) -> tuple[int, asyncio.Event]:
        number, event = next(self._numbers), asyncio.Event()
        self._events[number] = event
        stream.send_news_to(self.mailbox, number)
        return number, event

    def remove(self, number: int) -> None:
        self._events.pop(number, None)

    def _deliver(self) -> None:
        for number in self.mailbox.take():
            event = self._events.get(number)
            if event is not None:
                event.set()


class Stream:
    """One generation of an `Engine`: iterate over it, in a thread or in an asyncio task. Dropping it cancels the generation."""

    def __init__(self, handle: _kvik.Stream, engine: Engine) -> None:
        self._handle = handle
        self._engine = engine  # lives as long as its streams
        self.tokens: list[_kvik.GeneratedToken] = []  # read so far; with log-probabilities if the option `logprobs` is given
        self.finish: str | None = None  # after the end: "stop", "length" or "cancelled"

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while self.finish is None:
            text = self._poll()
            if text:
                return text
            while self.finish is None and not self._handle.wait(100):
                pass  # signals are handled here
        raise StopIteration

    def text(self) -> str:
        """Everything that is left."""
        return "".join(list(self))

    async def __aiter__(self) -> AsyncIterator[str]:
        if self.finish is not None:
            return
        readers = _Readers.running()
        number, event = readers.add(self._handle)
        try:
            while self.finish is None:
                event.clear()
                text = self._poll()
                if text:
                    yield text
                elif self.finish is None:
                    await event.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            readers.remove(number)
            self._handle.send_news_to(None, 0)

    def cancel(self) -> None:
        """It ends within one step, and its cache is free then. Any thread."""
        self._handle.cancel()

    @property
    def prompt_ids(self) -> npt.NDArray[np.int32]:
        """The prompt's tokens."""
        return self._handle.prompt_ids()

    @property
    def ids(self) -> npt.NDArray[np.int32]:
        """New tokens so far."""
        return self._handle.ids()

    @property
    def metrics(self) -> _kvik.Metrics:
        """Times and counts, after the end."""
        return self._handle.metrics()

    def _poll(self) -> str:
        try:
            text, tokens, finish, timed_out = self._handle.poll()
        except BaseException:
            self.finish = "cancelled"
            raise
        self.tokens += tokens
        self.finish = finish
        if timed_out and not text:
            raise Error("the timeout of the request ended it", "timeout")
        return text


class Engine:
    """Runs generations of one model on a thread of its own: a new one joins between two steps and leaves when it is done.

    Asyncio tasks use the engine that every model has; make one of your own to set its limits, to name users or to set timeouts.
    """

    _all: weakref.WeakSet[Engine] = weakref.WeakSet()

    def __init__(self, model: Model, **options: Unpack[EngineOptions]) -> None:
        """
        max_sequences (int): generations that run together; others wait (64)
        max_queue (int): generations that wait (1024)
        kv_bytes (int): replaces the memory limit of the model's KV cache; 0: leaves it
        max_step_ms (float): prompts are computed in smaller chunks while other generations wait longer for their next token (50)
        """
        self._model = model
        self._handle = _kvik.Engine(model._handle, **options)
        Engine._all.add(self)

    def submit(self, prompt: str | TokenIds, *, user: str = "", timeout: float = 0, **options: Unpack[GenerateOptions]) -> Stream:
        """Begins a generation; waits while the queue is full.

        Of those that wait, the first one of the `user` who has the fewest running is next. After `timeout` seconds it ends with Error("timeout").
        """
        return self._submit(self._model._prompt(prompt), self._model._decoding(dict(options)), user, timeout)

    async def submit_async(self, prompt: str | TokenIds, *, user: str = "", timeout: float = 0, **options: Unpack[GenerateOptions]) -> Stream:
        """The same from an asyncio task, which waits while the queue is full."""
        return await self._submit_async(self._model._prompt(prompt), self._model._decoding(dict(options)), user, timeout)

    def _submit(self, ids: TokenIds, options: dict[str, Any], user: str = "", timeout: float = 0) -> Stream:
        while (handle := self._handle.submit(ids, user, timeout, **options)) is None:
            time.sleep(_FULL_QUEUE_S)
        return Stream(handle, self)

    async def _submit_async(self, ids: TokenIds, options: dict[str, Any], user: str = "", timeout: float = 0) -> Stream:
        while (handle := self._handle.submit(ids, user, timeout, **options)) is None:
            await asyncio.sleep(_FULL_QUEUE_S)
        return Stream(handle, self)

    @property
    def load(self) -> dict[str, int]:
        """How many generations are running, are waiting, and were preempted so far."""
        return dict(zip(("running", "waiting", "preempted"), self._handle.load()))

    def close(self) -> None:
        """Cancels what runs and ends the thread."""
        self._handle.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@atexit.register
def _close_all() -> None:
    for engine in list(Engine._all):
        engine.close()
    _kvik.shut_down()
