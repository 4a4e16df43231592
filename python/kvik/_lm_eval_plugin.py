"""Lets `lm_eval --model kvik` find kvik.lm_eval: lm-eval has no entry points, so kvik_lm_eval.pth imports this in its processes only."""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Sequence


class _AfterItsModels(importlib.abc.MetaPathFinder):
    """Imports kvik.lm_eval, which registers itself, after lm-eval has registered its own models."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name != "lm_eval.models":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            importlib.import_module("kvik.lm_eval")

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _AfterItsModels())
