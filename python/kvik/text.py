"""Tokenizers, chat templates and constraints."""
from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

from . import _kvik
from .ids import Message, Path, TokenIds


class Tokenizer:
    """A tokenizer without a model: a folder with tokenizer files is enough."""

    def __init__(self, path_or_name: Path) -> None:
        self._name = os.fspath(path_or_name)
        self._handle = _kvik.Tokenizer.load(self._name)

    def encode(self, text: str, *, add_special: bool = True, target: bool = False, language: str = "") -> list[int]:
        """Token ids of a text. `target`, `language`: for translation models."""
        return self._handle.encode(text, add_special, target, language)

    def decode(self, ids: TokenIds, *, skip_special: bool = True) -> str:
        """The text of token ids."""
        return self._handle.decode(ids, skip_special)

    def stream(self, *, skip_special: bool = True) -> Detokenizer:
        """Decodes tokens one by one."""
        return Detokenizer(self, skip_special=skip_special)

    def __len__(self) -> int:
        return self._handle.end_id()

    def __repr__(self) -> str:
        return f"kvik.Tokenizer({self._name!r}, {len(self)} tokens)"

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[str]]:
        return Tokenizer, (self._name,)


class Detokenizer:
    """Decodes tokens one by one: the concatenation of all pieces of `push` and `flush` equals `Tokenizer.decode` of all ids."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True) -> None:
        self._handle = _kvik.Detokenizer(tokenizer._handle, skip_special)

    def push(self, id: int) -> str:
        """The text that this token completes: often empty, always whole characters."""
        return self._handle.push(id)

    def flush(self) -> str:
        """The rest, at the end."""
        return self._handle.flush()


class ChatTemplate:
    """The chat template of a model, or one from a file."""

    def __init__(self, path_or_name: Path = "", *, file: Path | None = None) -> None:
        name = os.fspath(path_or_name)
        self._source = name if file is None else os.fspath(file)
        self._handle = _kvik.ChatTemplate.load(name) if file is None else _kvik.ChatTemplate.from_file(file, name)

    def __bool__(self) -> bool:
        return not self._handle.empty()

    @property
    def fault(self) -> str:
        """Why the template cannot be used; empty: it can."""
        return self._handle.fault()

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any) -> str:
        """Renders a conversation; `tools` and other variables are passed to the template."""
        return self._handle.render(json.dumps({"messages": list(messages), "add_generation_prompt": add_generation_prompt, **variables}))

    def __repr__(self) -> str:
        return f"kvik.ChatTemplate({self._source!r}{'' if self else ', empty'})"


class Constraint:
    """A format that generated text must match. Compiled once, for any number of generations of any model."""

    def __init__(self, handle: _kvik.Constraint, kind: str, notation: str = "") -> None:
        self._handle = handle
        self._kind = kind
        self._notation = notation

    @staticmethod
    def json_schema(schema: str | Mapping[str, Any]) -> Constraint:
        """JSON that satisfies a schema."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return Constraint(_kvik.Constraint.json_schema(text), "json_schema", text)

    @staticmethod
    def json_object() -> Constraint:
        """Any JSON object."""
        return Constraint(_kvik.Constraint.json_object(), "json_object")

    @staticmethod
    def regex(pattern: str) -> Constraint:
        """A regular expression in ECMAScript syntax that must match the whole text."""
        return Constraint(_kvik.Constraint.regex(pattern), "regex", pattern)

    @staticmethod
    def grammar(gbnf: str) -> Constraint:
        """A grammar in GBNF whose rule `root` must match the whole text."""
        return Constraint(_kvik.Constraint.grammar(gbnf), "grammar", gbnf)

    def __repr__(self) -> str:
        return f"kvik.Constraint.{self._kind}({repr(self._notation)[:80] if self._notation else ''})"
