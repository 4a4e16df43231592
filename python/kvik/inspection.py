"""Describes models without running them."""
from __future__ import annotations

import html
import json
import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from . import _kvik
from .ids import Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import LoadOptions


class Inspection(Mapping[str, Any]):
    """The fields of `kvik inspect --json`, as a mapping; the common ones are properties too. Notebooks show it as tables."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def kind(self) -> str:
        """ "decoder", "encoder-decoder", "encoder" or "other"."""
        return str(self["kind"])

    @property
    def backend(self) -> str:
        """The backend that would run it; "none" if nothing can."""
        return str(self["backend"]["chosen"])

    @property
    def problems(self) -> list[str]:
        """Problems that were found."""
        return list(self["problems"])

    def __repr__(self) -> str:
        return f"kvik.Inspection({json.dumps(self._fields, indent=2, ensure_ascii=False)})"

    def _repr_html_(self) -> str:
        facts = {name: value for name, value in self.items() if not isinstance(value, (list, dict)) and value is not None}
        facts["backend"] = f"{self.backend}: {self['backend'].get('why', '')}"
        parts = [f"<b>{html.escape(self.kind)}</b>", _table(["", ""], [[name, value] for name, value in facts.items()])]
        for ports in ("inputs", "outputs"):
            rows = [[port.get("name"), port.get("dtype"), _shape(port.get("shape")), port.get("role")] for port in self.get(ports, [])]
            parts.append(f"<details><summary>{len(rows)} {ports}</summary>{_table(['name', 'dtype', 'shape', 'role'], rows)}</details>")
        parts += [f"<p>{html.escape(problem)}</p>" for problem in self.problems]
        return "".join(parts)


def inspect(path_or_name: Path, **options: Unpack[LoadOptions]) -> Inspection:
    """Describes a model without running it: inputs and outputs, cache, special tokens, what each backend would do and why."""
    return Inspection(json.loads(_kvik.inspect(os.fspath(path_or_name), **options)))


def models() -> list[_kvik.ModelInfo]:
    """Models on the search path and in the hub cache, sorted by name."""
    return _kvik.list_models()


def _shape(shape: Any) -> str:
    return "" if shape is None else "[" + ", ".join(map(str, shape)) + "]"


def _table(header: list[str], rows: list[list[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header) if any(header) else ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
