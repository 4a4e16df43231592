"""Decoding with a Python function that sees the logits of every step: here, every word begins with one letter.

Usage: constrained.py [MODEL [PROMPT [LETTER]]]
For JSON schemas, regular expressions and grammars, use the options json_schema, regex and grammar: they are faster.
"""
from __future__ import annotations

import sys
from typing import Callable, Iterator

import kvik
import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
Rule = Callable[[list[int], Logits], Logits]


def generate(model: kvik.Model, prompt: str, rule: Rule, n_tokens: int) -> Iterator[int]:
    """Greedy decoding of what `rule(ids so far, logits)` returns."""
    session = model.session()
    session.append(model.tokenize(prompt))
    ids: list[int] = []
    while len(ids) < n_tokens:
        token = int(rule(ids, session.logits).argmax())
        if token in model.eos_ids:
            return
        yield token
        ids.append(token)
        session.append(token)


class Alliteration:
    """Words begin with a letter: a token that begins a word must, any other must continue one."""

    def __init__(self, model: kvik.Model, letter: str) -> None:
        texts = [model.detokenize([id]) for id in range(model.vocab_size)]
        begins = np.array([text.startswith(" ") for text in texts])
        allowed = np.array([text.lower().startswith(f" {letter.lower()}") and text.strip().isalpha() for text in texts])
        continues = np.array([text.isalpha() and text.isascii() and not starts for text, starts in zip(texts, begins)])
        self._at_start = np.where(allowed, 0.0, -np.inf).astype(np.float32)
        self._inside = np.where(allowed | continues, 0.0, -np.inf).astype(np.float32)

    def __call__(self, ids: list[int], logits: Logits) -> Logits:
        return logits + (self._inside if ids else self._at_start)


def main() -> None:
    name, prompt, letter = [*sys.argv[1:], *["fable", "The king said to his", "s"][len(sys.argv) - 1 :]]
    model = kvik.Model(name)
    ids = list(generate(model, prompt, Alliteration(model, letter), 12))
    print(prompt + model.detokenize(ids))


if __name__ == "__main__":
    main()
