"""Types of arguments."""
from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

TokenIds = Union[int, Sequence[int], "npt.NDArray[np.integer[Any]]"]
Message = Mapping[str, Any]
Path = Union[str, "os.PathLike[str]"]
Progress = Union[bool, Callable[[int, int], object], None]
