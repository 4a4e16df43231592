"""Continuous batching: runs many requests together, each with the same result as alone."""
from __future__ import annotations

import asyncio
import atexit
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, Sequence, overload

import numpy as np
import numpy.typing as npt

from . import _kvik
from ._readers import Readers
from .errors import Error
from .ids import TokenIds
from .inputs import Audio, Sources, Texts, handle_of, recording_of, sources_of, texts_of
from .task import FULL_QUEUE_S, Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model
    from .options import EmbedOptions, EngineOptions, GenerateOptions, TranscribeOptions, TranslateOptions


class Stream:
    """One generation of an `Engine`: iterate over it, in a thread or in an asyncio task. Dropping it cancels the generation."""

    def __init__(self, handle: _kvik.Stream, engine: Engine) -> None:
        self._handle = handle
        self._engine = engine  # lives as long as its streams
        self.tokens: list[_kvik.GeneratedToken] = []  # read so far; with log-probabilities if the option `logprobs` is given
        self.finish: str | None = None  # after the end: "stop", "length" or "cancelled"
        self._has_reader = False  # an asyncio task

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while self.finish is None:
            text = self._poll()
            if text:
                return text
            while self.finish is None and not self._handle.wait(100):  # signals are handled here
                self._engine._check_process()
        raise StopIteration

    def text(self) -> str:
        """Waits for the end; returns the text that has not been read yet."""
        return "".join(list(self))

    async def __aiter__(self) -> AsyncIterator[str]:
        if self.finish is not None:
            return
        self._check_reader()
        self._engine._check_process()
        self._has_reader = True
        event = Readers.running().event_of(self._handle)
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
            self._has_reader = False
            self._handle.signal_to(None, 0)

    def cancel(self) -> None:
        """The generation ends and frees its cache within one step. Any thread."""
        self._handle.cancel()

    @property
    def prompt_ids(self) -> npt.NDArray[np.int32]:
        """The prompt's tokens."""
        return self._handle.prompt_ids()

    @property
    def ids(self) -> npt.NDArray[np.int32]:
        """Tokens generated so far."""
        return self._handle.ids()

    @property
    def metrics(self) -> _kvik.Metrics:
        """Times and counts, after the end."""
        return self._handle.metrics()

    def __repr__(self) -> str:
        return f"kvik.Stream({len(self.prompt_ids)} prompt tokens, {len(self.ids)} new, finish={self.finish!r})"

    def _check_reader(self) -> None:
        if self._has_reader:
            raise Error("another task is reading the generation; read it once, or generate twice", "bad_argument")

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
    """Runs requests of one model on its own thread: a request joins between two steps and leaves when it is done.

    Asyncio tasks use the engine that every model has; create one yourself to set limits, to name users or to set timeouts.
    """

    _all: weakref.WeakSet[Engine] = weakref.WeakSet()

    def __init__(self, model: Model, **options: Unpack[EngineOptions]) -> None:
        """
        max_sequences (int): generations, sources and windows that run together; more have to wait (64)
        max_queue (int): waiting requests (1024)
        kv_bytes (int): replaces the memory limit of the model's KV cache; 0: keeps it
        max_step_ms (float): target for the time between two tokens; prompts, sources and texts are split into chunks to meet it (50)
        """
        self._model = model
        self._handle = _kvik.Engine(handle_of(model, _kvik.Model, "model"), **options)
        self._is_lost = False  # its thread: the process is a fork of the one that made it
        Engine._all.add(self)

    def submit(self, prompt: str | TokenIds, *, user: str = "", timeout: float = 0, **options: Unpack[GenerateOptions]) -> Stream:
        """Starts a generation; blocks while the queue is full.

        Of those that wait, the first one of the `user` who has the fewest running is next. After `timeout` seconds it ends with Error("timeout").
        """
        ids = self._model._prompt(prompt)
        return self._submit(ids, self._model._decoding(dict(options), np.size(ids)), user, timeout)

    async def submit_async(self, prompt: str | TokenIds, *, user: str = "", timeout: float = 0, **options: Unpack[GenerateOptions]) -> Stream:
        """The same from an asyncio task, which waits while the queue is full."""
        ids = self._model._prompt(prompt)
        return await self._submit_async(ids, self._model._decoding(dict(options), np.size(ids)), user, timeout)

    @overload
    def translate(
        self, text: str, *, user: str = "", timeout: float = 0, **options: Unpack[TranslateOptions]
    ) -> Task[_kvik.Translation]: ...

    @overload
    def translate(
        self, text: Sequence[Any] | npt.NDArray[Any], *, user: str = "", timeout: float = 0, **options: Unpack[TranslateOptions]
    ) -> Task[list[_kvik.Translation]]: ...

    def translate(
        self, text: Sources, *, user: str = "", timeout: float = 0, **options: Unpack[TranslateOptions]
    ) -> Task[_kvik.Translation] | Task[list[_kvik.Translation]]:
        """`Model.translate` as a task; `user` and `timeout` as in `submit`. At most `batch` sources run together."""
        sources, more = sources_of(text), self._model._decoding(dict(options))
        return Task(self, lambda left: self._handle.translate(sources, user, left, **more), timeout, _one_or_all(text))

    def transcribe(
        self, audio: Audio, sample_rate: int = 16000, *, user: str = "", timeout: float = 0, **options: Unpack[TranscribeOptions]
    ) -> Task[_kvik.Transcription]:
        """`Model.transcribe` as a task; `user` and `timeout` as in `submit`. A file must not change until the task is done."""
        recording, more = recording_of(audio), self._model._decoding(dict(options))
        return Task(self, lambda left: self._handle.transcribe(recording, sample_rate, user, left, **more), timeout)

    def embed(
        self, texts: Texts, *, user: str = "", timeout: float = 0, **options: Unpack[EmbedOptions]
    ) -> Task[npt.NDArray[np.float32]]:
        """`Model.embed` as a task; `user` and `timeout` as in `submit`."""
        given = texts_of(texts)
        return Task(self, lambda left: self._handle.embed(given, user, left, **options), timeout, _one_or_all(texts))

    def score(self, text: str | TokenIds, *, window: int = 0, user: str = "", timeout: float = 0) -> Task[_kvik.Score]:
        """`Model.score` as a task; `user` and `timeout` as in `submit`."""
        ids = self._model._prompt(text)
        return Task(self, lambda left: self._handle.score(ids, user, left, window=window), timeout)

    def _check_process(self) -> None:
        if self._is_lost:
            raise Error("the engine was made before the process forked, and its thread is in the other process; make an engine in this one", "bad_argument")

    def _submit(self, ids: TokenIds, options: dict[str, Any], user: str = "", timeout: float = 0) -> Stream:
        self._check_process()
        while (handle := self._handle.submit(ids, user, timeout, **options)) is None:
            while self._handle.is_full():
                time.sleep(FULL_QUEUE_S)
        return Stream(handle, self)

    async def _submit_async(self, ids: TokenIds, options: dict[str, Any], user: str = "", timeout: float = 0) -> Stream:
        self._check_process()
        while (handle := self._handle.submit(ids, user, timeout, **options)) is None:
            while self._handle.is_full():
                await asyncio.sleep(FULL_QUEUE_S)
        return Stream(handle, self)

    @property
    def load(self) -> dict[str, int]:
        """How many generations, sources and windows are running, how many requests are waiting, and how many were preempted so far."""
        return dict(zip(("running", "waiting", "preempted"), self._handle.load()))

    def close(self) -> None:
        """Cancels running requests and ends the thread."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"kvik.Engine({self._model!r})"

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


# A text has one result, a list has a list.
def _one_or_all(given: object) -> Callable[[Any], Any]:
    return (lambda results: results[0]) if isinstance(given, str) else (lambda results: results)


@atexit.register
def _close_all() -> None:
    for engine in list(Engine._all):
        engine.close()
    _kvik.shut_down()


def _abandon_all() -> None:
    for engine in list(Engine._all):
        engine._is_lost = True
        engine._handle.abandon()


os.register_at_fork(after_in_child=_abandon_all)
