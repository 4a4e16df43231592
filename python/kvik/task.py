"""Requests of an engine that return one result at their end."""
from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Generator, Generic, TypeVar

from ._readers import Readers
from .errors import Error

if TYPE_CHECKING:
    from .engine import Engine

Result = TypeVar("Result")
FULL_QUEUE_S = 0.005  # between two attempts


class Task(Generic[Result]):
    """A translation, transcription, embedding or score that an `Engine` computes together with other requests. Wait for it in a thread or in an asyncio task:

    >>> engine.translate("How are you today?").result()
    >>> await engine.translate("How are you today?")

    The call never blocks: while the queue of the engine is full, the task waits for a place as soon as somebody waits for the task. Dropping
    it cancels the request, and so does cancelling an asyncio task that awaits it, or Ctrl-C.
    """

    def __init__(
        self, engine: Engine, submit: Callable[[float], Any], timeout: float, convert: Callable[[Any], Result] = lambda result: result
    ) -> None:
        """`submit(timeout)`: a task of the extension module, or None if the queue is full."""
        self._engine = engine  # lives as long as its tasks
        self._submit: Callable[[float], Any] | None = submit
        self._convert = convert
        self._deadline = time.monotonic() + timeout if timeout > 0 else None
        self._lock = threading.Lock()
        self._outcome: tuple[Result | None, Exception | None] | None = None
        self._news: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._is_cancelled = False
        self._handle: Any = None
        self._try(timeout)

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._outcome is not None or (self._is_submitted() and self._handle.is_done()) or self._ended_in_queue()

    def result(self) -> Result:
        """Waits for the end and returns the result. Raises an error if it failed: code "timeout" after the timeout, code "cancelled" if it was cancelled."""
        try:
            while not self.done:
                self._engine._check_process()
                if self._handle is None:
                    time.sleep(FULL_QUEUE_S)
                else:
                    self._handle.wait(100)  # signals are handled between two of these
        except BaseException:
            self.cancel()
            raise
        return self._take()

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    def cancel(self) -> None:
        """The request ends and frees its memory within one step. Any thread."""
        self._is_cancelled = True
        if self._handle is not None:
            self._handle.cancel()

    def __repr__(self) -> str:
        return f"kvik.Task({'done' if self.done else 'running'})"

    # ---- while the queue is full

    def _is_submitted(self) -> bool:
        with self._lock:
            if self._handle is None and not self._ended_in_queue() and not self._engine._handle.is_full():
                self._try(max(self._deadline - time.monotonic(), 0.001) if self._deadline is not None else 0)
            return self._handle is not None

    def _try(self, timeout: float) -> None:
        assert self._submit is not None
        self._engine._check_process()
        self._handle = self._submit(timeout)
        if self._handle is not None:
            self._submit = None  # and what it was given
            if self._is_cancelled:
                self._handle.cancel()

    def _ended_in_queue(self) -> bool:
        return self._handle is None and (self._is_cancelled or self._is_late())

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    # ---- the end

    async def _wait(self) -> Result:
        try:
            self._engine._check_process()
            while not self.done and self._handle is None:
                await asyncio.sleep(FULL_QUEUE_S)
            if not self.done:
                await self._event().wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self._take()

    # One event for all that await the task.
    def _event(self) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        if self._news is None or self._news[0].is_closed():
            self._news = loop, Readers.running().event_of(self._handle)
        if self._news[0] is not loop:
            raise Error("the task is awaited in another event loop; await it in one", "bad_argument")
        return self._news[1]

    def _take(self) -> Result:
        with self._lock:
            if self._outcome is None:
                self._outcome = self._end()
        result, error = self._outcome
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def _end(self) -> tuple[Result | None, Exception | None]:
        if self._handle is None:
            return None, _ended_early(self._is_late() and not self._is_cancelled)
        try:
            result = self._handle.result()
        except Exception as error:
            return None, error
        if result is None:
            return None, _ended_early(self._handle.timed_out())
        return self._convert(result), None


def _ended_early(timed_out: bool) -> Error:
    return Error("the timeout of the request ended it", "timeout") if timed_out else Error("the request was cancelled", "cancelled")
