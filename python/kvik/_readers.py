"""From the thread of an engine to the tasks of an event loop."""
from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import Protocol

from . import _kvik


class _Request(Protocol):
    def signal_to(self, mailbox: _kvik.Mailbox | None, number: int) -> None: ...


class Readers:
    """Wakes the tasks of one event loop whose requests have new data."""

    _of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Readers] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.mailbox = _kvik.Mailbox()
        self._events: weakref.WeakValueDictionary[int, asyncio.Event] = weakref.WeakValueDictionary()
        self._numbers = itertools.count()
        loop.add_reader(self.mailbox.descriptor(), self._deliver)

    @classmethod
    def running(cls) -> Readers:
        loop = asyncio.get_running_loop()
        readers = cls._of_loops.get(loop)
        if readers is None:
            readers = cls._of_loops[loop] = cls(loop)
        return readers

    def event_of(self, request: _Request) -> asyncio.Event:
        """An event that is set when the request has new data, as long as it is referenced."""
        number, event = next(self._numbers), asyncio.Event()
        self._events[number] = event
        request.signal_to(self.mailbox, number)
        return event

    def _deliver(self) -> None:
        for number in self.mailbox.take():
            event = self._events.get(number)
            if event is not None:
                event.set()
