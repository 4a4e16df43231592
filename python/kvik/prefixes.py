"""Which of several machines has computed the beginning of a prompt; kvik.ray routes by it."""
from __future__ import annotations

import collections
import hashlib
import json
from typing import Any, Iterable, Sequence

_BLOCK = 256  # characters: about as many tokens as a few pages of the KV cache


def prompt_text(body: bytes) -> str:
    """What a request of OpenAI's or Ollama's interface begins with: its messages or its prompt. Empty for any other request."""
    try:
        request = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(request, dict):
        return ""
    parts = [str(request.get("model", ""))]
    if isinstance(messages := request.get("messages"), list):
        parts += [json.dumps(message, sort_keys=True) for message in messages]
    elif (prompt := request.get("prompt", request.get("input"))) is not None:
        parts.append(prompt if isinstance(prompt, str) else json.dumps(prompt))
    return "\n".join(parts)


def blocks_of(text: str) -> list[int]:
    """A number for every beginning of the text that is a multiple of a block long, and for the text itself, shortest first."""
    digest, numbers = hashlib.blake2b(digest_size=8), []
    for start in range(0, len(text), _BLOCK):
        digest.update(text[start : start + _BLOCK].encode("utf-8", "surrogatepass"))
        numbers.append(int.from_bytes(digest.digest(), "little"))
    return numbers


class PrefixTable:
    """Beginnings of prompts and who computed them last. The oldest are forgotten."""

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._owners: collections.OrderedDict[int, str] = collections.OrderedDict()

    def record(self, blocks: Iterable[int], owner: str) -> None:
        for block in blocks:
            self._owners[block] = owner
            self._owners.move_to_end(block)
        while len(self._owners) > self._capacity:
            self._owners.popitem(last=False)

    def forget(self, owner: str) -> None:
        """It is gone, and its cache with it."""
        for block in [block for block, each in self._owners.items() if each == owner]:
            del self._owners[block]

    def longest(self, blocks: Sequence[int], candidates: Sequence[str]) -> str | None:
        """Of the candidates, the one with the longest beginning of this prompt."""
        for block in reversed(blocks):
            owner = self._owners.get(block)
            if owner is not None and owner in candidates:
                return owner
        return None


def consistent_choice(key: int, candidates: Sequence[str]) -> str:
    """Rendezvous hashing: equal keys choose alike, and if a candidate comes or goes, only keys that it wins or won choose anew."""
    return max(candidates, key=lambda each: hashlib.blake2b(f"{key}/{each}".encode(), digest_size=8).digest())
