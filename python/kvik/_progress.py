"""Progress as requested: a function, or a tqdm bar if tqdm is installed."""
from __future__ import annotations

import contextlib
import importlib
from typing import Any, Callable, Iterator

from .ids import Progress


@contextlib.contextmanager
def reporting(progress: Progress, what: str, unit: str) -> Iterator[Callable[[int, int], object] | None]:
    """A function of (done, total) during a call; None if progress is not requested."""
    if callable(progress):
        yield progress
    elif not progress or (bar := _bar(what, unit)) is None:
        yield None
    else:
        with bar:
            yield lambda done, total: _show(bar, done, total)


def _bar(what: str, unit: str) -> Any:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    return tqdm(desc=what, unit=unit, leave=False)


def _show(bar: Any, done: int, total: int) -> None:
    bar.total = total or None
    bar.update(done - bar.n)
