"""Measures how fast a model runs on this machine."""
from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

from . import command
from .ids import Path


class Bench:
    """The fields of `kvik bench --json`, and its plot, which notebooks show."""

    def __init__(self, fields: dict[str, Any], svg: str) -> None:
        self.results: list[dict[str, Any]] = fields["results"]
        self.bandwidth_gb_per_s: float = fields["bandwidth_gb_per_s"]
        self.svg = svg

    def __repr__(self) -> str:
        lines = [f"{result['what']:<28} {_speed(result)}" for result in self.results]
        return "\n".join([f"kvik.Bench, {self.bandwidth_gb_per_s:.1f} GB/s:", *lines])

    def _repr_html_(self) -> str:
        return self.svg


def _speed(result: dict[str, Any]) -> str:
    return f"{result['tokens_per_s']:>10.1f} tokens/s" if result.get("tokens_per_s") else f"{result['p50_ms']:>10.4f} ms"


def bench(model: Path, *flags: str, **options: Any) -> Bench:
    """Runs `kvik bench` as a separate process, with flags, or with keyword options of the same names: weights="q8", batch=[1, 4], uncached=True."""
    with tempfile.TemporaryDirectory() as folder:
        plot = pathlib.Path(folder) / "plot.svg"
        fields = command.run_json("bench", os.fspath(model), "--plot", str(plot), *flags, *_flags_of(options))
        return Bench(fields, plot.read_text())


def _flags_of(options: dict[str, Any]) -> list[str]:
    flags = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        values = [] if value is True else value if isinstance(value, (list, tuple)) else [value]
        flags += ["--" + name.replace("_", "-"), *map(str, values)]
    return flags
