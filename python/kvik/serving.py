"""The HTTP server in this process."""
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from . import _kvik
from .ids import Path
from .model import load_options
from .options import LoadOptions, ServeOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Server:
    """A server that `serve` started; it runs until `stop`, or until it is dropped."""

    def __init__(self, models: list[str], options: dict[str, Any], load: LoadOptions) -> None:
        self._handle = _kvik.Server(models, options, load_options(load))
        self._stopped = threading.Event()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._handle.port()

    @property
    def url(self) -> str:
        """http://127.0.0.1:8080"""
        return self._handle.url()

    def stop(self) -> None:
        """Accepts no new requests, gives running ones the grace time to finish, and cancels the rest."""
        self._handle.stop()
        self._stopped.set()

    def wait(self) -> None:
        """Blocks until another thread calls `stop`; Ctrl-C stops the server too."""
        try:
            self._stopped.wait()
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"kvik.Server({self.url!r})"


def serve(*models: Path, load: LoadOptions | None = None, **options: Unpack[ServeOptions]) -> Server:
    """Serves models to OpenAI and Ollama clients in threads of this process and returns at once; `.wait()` blocks.

    >>> server = kvik.serve("fable", port=0, weights="q8")
    >>> server.url

    Options as those of `kvik serve`: host, port (8080; 0: a free one), api_key, insecure, cors, max_sequences, queue, memory_bytes, idle_unload,
    timeout, grace, max_connections, max_tokens, max_body_bytes, and the options of `Model`, which may also come as a dict `load`.
    """
    of_server: dict[str, Any] = dict(options)
    of_models: Any = {name: of_server.pop(name) for name in LoadOptions.__annotations__ if name in of_server}
    return Server([os.fspath(model) for model in models], of_server, {**(load or {}), **of_models})
