"""Text as it is generated."""
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generator, Iterator

import numpy as np
import numpy.typing as npt

from . import _kvik
from ._progress import reporting
from .engine import Stream
from .errors import Error
from .ids import Progress, TokenIds
from .inputs import handle_of

if TYPE_CHECKING:
    from .model import Model
    from .session import Session


class Generation:
    """Text as it is generated; `Model.generate` creates it. Nothing runs until it is read. Read it once, in one of three ways:

    >>> for piece in model.generate("Once upon a time"): print(piece, end="")
    >>> async for piece in model.generate("Once upon a time"): print(piece, end="")
    >>> text = await model.generate("Once upon a time")      # or .text() without asyncio

    A piece is one or more whole characters. Threads that read generations of one model share its runs, and so do asyncio tasks. Leaving the
    loop, Ctrl-C or cancelling the task ends the generation; a session that it continues keeps what was computed.
    """

    def __init__(
        self, model: Model, prompt_ids: TokenIds, session: Session | None, progress: Progress, options: dict[str, Any]
    ) -> None:
        self._model = model
        self._prompt_ids = prompt_ids
        if session is not None:
            handle_of(session, _kvik.Session, "session")
        self._session = session
        self._progress = progress
        self._options = options
        _kvik.check_generate_options(**options)
        self._direct: _kvik.Generation | None = None
        self._stream: Stream | None = None

    # ---- reading

    def __iter__(self) -> Iterator[str]:
        return iter(self._started())

    def __next__(self) -> str:
        return next(self._started())

    def text(self) -> str:
        """Generates to the end; returns the text that has not been read yet."""
        return "".join(list(self))

    def __aiter__(self) -> AsyncIterator[str]:
        return self._pieces()

    def __await__(self) -> Generator[Any, None, str]:
        return self._whole().__await__()

    # ---- the result

    @property
    def prompt_ids(self) -> npt.NDArray[np.int32]:
        """The prompt's tokens."""
        return np.atleast_1d(np.asarray(self._prompt_ids, dtype=np.int32))

    @property
    def ids(self) -> npt.NDArray[np.int32]:
        """Tokens generated so far, including the end token that stopped it."""
        source = self._stream or self._direct
        if source is None:
            return np.empty(0, np.int32)
        return source.ids if isinstance(source, Stream) else source.ids()

    @property
    def tokens(self) -> list[_kvik.GeneratedToken]:
        """Tokens generated so far with their log-probabilities; needs the option `logprobs`."""
        return self._stream.tokens if self._stream is not None else []

    @property
    def finish(self) -> str | None:
        """After the end: "stop", "length" or "cancelled"."""
        if self._stream is not None:
            return self._stream.finish
        return self._direct.finish() if self._direct is not None else None

    @property
    def metrics(self) -> _kvik.Metrics:
        """Times and counts."""
        source = self._stream or self._direct
        if source is None:
            raise Error("the generation has not begun; read it first", "bad_argument")
        return source.metrics if isinstance(source, Stream) else source.metrics()

    def __repr__(self) -> str:
        return f"kvik.Generation({len(self.prompt_ids)} prompt tokens, {len(self.ids)} new, finish={self.finish!r})"

    # ---- two sources of text

    # The thread that reads computes. Log-probabilities come from an engine only.
    def _started(self) -> _kvik.Generation | Stream:
        if self._stream is not None:
            return self._stream
        if self._direct is None:
            if self._options.get("logprobs") is not None:
                self._stream = self._model._engine()._submit(self._prompt_ids, self._options)
                return self._stream
            session = self._session._handle if self._session is not None else None
            with reporting(self._progress, "prompt", "token") as progress:
                self._direct = self._model._handle.generate(self._prompt_ids, session, progress, **self._options)
        return self._direct

    # The model's engine computes, for all tasks. A session belongs to no engine, so that a thread continues it.
    async def _pieces(self) -> AsyncIterator[str]:
        if self._session is not None or self._direct is not None:
            loop = asyncio.get_running_loop()
            read: Callable[[], str | None] = lambda: next(self, None)
            while (piece := await loop.run_in_executor(None, read)) is not None:
                yield piece
            return
        if self._stream is None:
            self._stream = await self._model._engine()._submit_async(self._prompt_ids, self._options)
        self._stream._check_reader()
        try:
            async for piece in self._stream:
                yield piece
        finally:
            self._stream.cancel()

    async def _whole(self) -> str:
        return "".join([piece async for piece in self])
