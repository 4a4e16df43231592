"""The one exception of the package."""
from __future__ import annotations

import enum


class Code(str, enum.Enum):
    """Why a call failed. A code compares equal to its name in lower case: `error.code == "io"`."""

    BAD_ARGUMENT = "bad_argument"  # an argument or option is invalid
    BAD_MODEL = "bad_model"  # a model, tokenizer or config file is malformed
    UNSUPPORTED = "unsupported"  # well formed, but not supported by this build
    IO = "io"  # a file could not be found, read or written
    TOO_LARGE = "too_large"  # does not fit in memory or exceeds a limit
    INTERNAL = "internal"  # a bug in Kvik
    CONTEXT_FULL = "context_full"  # a session has no room for so many tokens; nothing was appended
    NO_MEMORY = "no_memory"  # the memory of the KV cache (kv_bytes) is in use; nothing was appended
    TIMEOUT = "timeout"  # the timeout of a request ended it
    CANCELLED = "cancelled"  # a task was cancelled, by its caller or because its engine was closed


class Error(RuntimeError):
    """The message is one sentence: what was found, what was expected and what to do. `code` is the kind of failure."""

    def __init__(self, sentence: str, code: str = "internal") -> None:
        super().__init__(sentence)
        self.code = Code(code)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (str(self), self.code.value)
