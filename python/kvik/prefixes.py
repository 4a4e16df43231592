"""Finds the machine that has computed the longest prefix of a prompt; used for routing by kvik.ray."""
from __future__ import annotations

import collections
import hashlib
import json
from typing import Any, Iterable, Sequence

_BLOCK = 256  # characters: about as many tokens as a few pages of the KV cache


def prompt_text(body: bytes) -> str:
    """The prompt of a request to OpenAI's or Ollama's API: its messages or its prompt. Empty for any other request."""
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
    """A hash of every prefix of the text whose length is a multiple of a block, and of the whole text, shortest first."""
    digest, numbers = hashlib.blake2b(digest_size=8), []
    for start in range(0, len(text), _BLOCK):
        digest.update(text[start : start + _BLOCK].encode("utf-8", "surrogatepass"))
        numbers.append(int.from_bytes(digest.digest(), "little"))
    return numbers


class PrefixTable:
    """Prefixes of prompts and the candidate that computed each of them last. The oldest are dropped."""

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
        """Removes a candidate, whose cache is lost."""
        for block in [block for block, each in self._owners.items() if each == owner]:
            del self._owners[block]

    def longest(self, blocks: Sequence[int], candidates: Sequence[str]) -> str | None:
        """The candidate with the longest prefix of this prompt."""
        for block in reversed(blocks):
            owner = self._owners.get(block)
            if owner is not None and owner in candidates:
                return owner
        return None


def consistent_choice(key: int, candidates: Sequence[str]) -> str:
    """Rendezvous hashing: equal keys get the same candidate; if a candidate is added or removed, only its own keys move."""
    return max(candidates, key=lambda each: hashlib.blake2b(f"{key}/{each}".encode(), digest_size=8).digest())
