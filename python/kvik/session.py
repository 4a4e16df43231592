"""One context of a model."""
from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from . import _kvik
from ._progress import reporting
from .generation import Generation
from .ids import Path, Progress, TokenIds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._sampling import SamplingOptions
    from .model import Model
    from .options import GenerateOptions


class TreeLogits:
    """The result of `Session.append_tree`: `logits[node]` is a NumPy view of the logits after the node's token."""

    def __init__(self, session: _kvik.Session, n_nodes: int) -> None:
        self._rows = [session.tree_logits(node) for node in range(n_nodes)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, node: int) -> npt.NDArray[np.float32]:
        return self._rows[node]

    def __repr__(self) -> str:
        return f"kvik.TreeLogits({len(self)} nodes)"


class Session:
    """One context of a model, independent of all others; `Model.session` creates it. Used by one thread at a time.

    >>> session = model.session()
    >>> session.append(model.tokenize("Once upon a time"))
    >>> branch = session.fork()              # shares the cache; later changes of one do not affect the other
    >>> branch.append(branch.sample(temperature=0.8))
    >>> int(session.logits.argmax())

    A full context raises Error("context_full"), and memory that other sessions use Error("no_memory"); nothing is appended then.
    """

    def __init__(self, model: Model, handle: _kvik.Session) -> None:
        self._model = model
        self._handle = handle

    @property
    def model(self) -> Model:
        """The model that it belongs to; a session keeps its model alive."""
        return self._model

    def append(self, ids: str | TokenIds, *, progress: Progress = None) -> None:
        """Computes and appends tokens (or a text, without special tokens): all of them or, if it fails or is interrupted, none."""
        if isinstance(ids, str):
            ids = self._model.tokenize(ids, add_special=False)
        with reporting(progress, "prompt", "token") as report:
            self._handle.append(ids, report)

    def append_tree(self, tokens: TokenIds, parents: TokenIds) -> TreeLogits:
        """Computes many continuations in one run: node i is tokens[i] after node parents[i] < i, or after the session's own tokens if that is -1.

        The session stays as it is until `keep`.
        """
        self._handle.append_tree(tokens, parents)
        return TreeLogits(self._handle, 1 if isinstance(tokens, int) else len(tokens))

    def keep(self, node: int) -> None:
        """Appends the path to a node of the last `append_tree` without recomputing it."""
        self._handle.keep(node)

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last position: a read-only NumPy view without a copy. It never changes, even if the session does."""
        return self._handle.logits()

    def sample(self, **options: Unpack[SamplingOptions]) -> int:
        """Chooses a next token without appending it. Options as in `Model.generate`."""
        return self._handle.sample(**options)

    def generate(self, prompt: str | TokenIds = (), *, progress: Progress = None, **options: Unpack[GenerateOptions]) -> Generation:
        """Generates after a prompt, or after the session's own tokens. Afterward the session contains the answer, except its last token."""
        held = self.tokens
        if isinstance(prompt, str):
            prompt = self._model.tokenize(prompt, add_special=len(held) == 0)
        new = np.atleast_1d(np.asarray(prompt, dtype=np.int32 if np.size(prompt) == 0 else None))
        ids = np.concatenate([held, new]) if len(new) else held
        return Generation(self._model, ids, self, progress, self._model._decoding(dict(options), len(ids)))

    def fork(self) -> Session:
        """A second session with the same past; takes microseconds and shares memory."""
        return Session(self._model, self._handle.fork())

    def rewind(self, length: int) -> None:
        """As if everything from position `length` on had never been appended."""
        self._handle.rewind(length)

    def reset(self) -> None:
        """Removes all tokens, as if the session were new."""
        self._handle.rewind(0)

    def save(self, file: Path) -> None:
        """Writes a file from which `Model.load_session` continues. Written atomically."""
        self._handle.save(file)

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """The tokens appended so far."""
        return self._handle.tokens()

    @property
    def length(self) -> int:
        """Number of tokens."""
        return self._handle.length()

    def __len__(self) -> int:
        return self._handle.length()

    def __bool__(self) -> bool:
        return True

    @property
    def capacity(self) -> int:
        """Maximum number of positions; 0: unknown."""
        return self._handle.capacity()

    @property
    def metrics(self) -> _kvik.Metrics:
        """Times and counts."""
        return self._handle.metrics()

    def __repr__(self) -> str:
        return f"kvik.Session({self.length} tokens of {self._model.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kvik.Session cannot be pickled or copied; use fork, or save and Model.load_session")
