"""Converts arguments to the forms that the extension module accepts."""
from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, Sequence, TypeVar, Union

import numpy as np
import numpy.typing as npt

from .errors import Error
from .ids import Path

Sources = Union[str, Sequence[Any], "npt.NDArray[Any]"]
Texts = Union[str, Sequence[Any]]
Audio = Union[Path, "npt.NDArray[Any]", Sequence[float], Sequence["npt.NDArray[Any]"]]


Handle = TypeVar("Handle")


def handle_of(value: Any, kind: type[Handle], name: str) -> Handle:
    """The object of the extension module behind a Model or a Session. Raises TypeError for anything else."""
    handle = getattr(value, "_handle", None)
    if not isinstance(handle, kind):
        raise TypeError(f"{name} must be a kvik.{kind.__name__}, not {type(value).__name__}")
    return handle


def sources_of(text: Sources) -> list[Any]:
    """Texts, lists of token ids or features."""
    if isinstance(text, str):
        return [text]
    sources = _listed(text, "a text, or a list of texts, of lists of token ids or of features")
    if any(_is_float_array(source) for source in sources):
        return [np.ascontiguousarray(source, np.float32) for source in sources]
    return sources


def texts_of(texts: Texts) -> list[Any]:
    """Texts or lists of token ids."""
    return [texts] if isinstance(texts, str) else _listed(texts, "a text, or a list of texts or of lists of token ids")


def recording_of(audio: Audio) -> Any:
    """A file, samples, or windows of features. Integer samples become numbers from -1 to 1."""
    if isinstance(audio, (str, os.PathLike)):
        return os.fspath(audio)
    if isinstance(audio, (list, tuple)) and len(audio) > 0 and all(isinstance(part, np.ndarray) and part.ndim > 1 for part in audio):
        return [np.ascontiguousarray(part, np.float32) for part in audio]
    samples = np.asarray(audio)
    if samples.dtype.kind not in "fiu" or samples.ndim == 0:
        raise TypeError(f"audio must be a file or an array of samples, not {type(audio).__name__}")
    if samples.ndim != 1:
        raise Error(f"samples of shape {samples.shape}; expected one channel: [n]", "bad_argument")
    if samples.dtype.kind == "i" and not isinstance(audio, (list, tuple)):
        return np.ascontiguousarray(samples / -float(np.iinfo(samples.dtype).min), np.float32)
    return np.ascontiguousarray(samples, np.float32)


def _listed(given: Any, expected: str) -> list[Any]:
    if isinstance(given, (bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"expected {expected}; found {type(given).__name__}")
    return list(given)


def _is_float_array(source: object) -> bool:
    return isinstance(source, np.ndarray) and source.dtype.kind == "f"
