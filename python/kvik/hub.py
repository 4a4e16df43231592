"""Downloads models from the Hugging Face hub."""
from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

from . import command
from .errors import Error
from .model import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import LoadOptions


def pull(repository: str, *, revision: str = "main", variant: str | None = None, folder: str | None = None) -> pathlib.Path:
    """Downloads a model, or its missing files, into the hub's cache and returns its folder: only one precision, resumable, with checksums."""
    flags = ["--revision", revision]
    if variant is not None:
        flags += ["--variant", variant]
    if folder is not None:
        flags += ["--folder", folder]
    return pathlib.Path(command.run_json("pull", repository, *flags)["path"])


def from_pretrained(name: str, *, revision: str = "main", local_files_only: bool = False, **options: Unpack[LoadOptions]) -> Model:
    """Loads a model from the Hugging Face cache and downloads it if necessary; also accepts everything that `Model` accepts.

    `local_files_only` (or HF_HUB_OFFLINE=1) never downloads.
    """
    offline = local_files_only or os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    if revision != "main" and not offline:
        return Model(pull(name, revision=revision, variant=options.get("variant")), **options)
    try:
        return Model(name, **options)
    except Error as error:
        if error.code != "io" or offline or os.path.exists(name) or name.count("/") != 1:
            raise
    pull(name, variant=options.get("variant"))
    return Model(name, **options)
