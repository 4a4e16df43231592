"""Contrastive decoding with two sessions: prefers what an expert finds likelier than an amateur does (Li et al., 2023).

Usage: contrastive.py [EXPERT [PROMPT [ALPHA]]]
The amateur is the expert with weights of four bits that sees only the last tokens; any model with the same vocabulary will do.
"""
from __future__ import annotations

import sys
from typing import Iterator

import kvik
import numpy as np
import numpy.typing as npt


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max()
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result


def generate(expert: kvik.Model, amateur: kvik.Model, prompt: list[int], alpha: float, n_tokens: int, window: int = 4) -> Iterator[int]:
    """Tokens with the largest log p_expert - log p_amateur among those with at least `alpha` times the expert's largest probability."""
    knows, guesses = expert.session(), amateur.session()
    knows.append(prompt)
    guesses.append(prompt[-window:])
    for _ in range(n_tokens):
        ours, theirs = log_softmax(knows.logits), log_softmax(guesses.logits)
        plausible = ours >= np.log(alpha) + ours.max()
        token = int(np.where(plausible, ours - theirs, -np.inf).argmax())
        if token in expert.eos_ids:
            return
        yield token
        knows.append(token)
        recent = [*guesses.tokens.tolist(), token][-window:]
        guesses.reset()
        guesses.append(recent)


def main() -> None:
    name, prompt, alpha = [*sys.argv[1:], *["fable", "Once upon a time", "0.1"][len(sys.argv) - 1 :]]
    expert, amateur = kvik.Model(name), kvik.Model(name, weights="q4")
    print(prompt, end="")
    for token in generate(expert, amateur, expert.tokenize(prompt), float(alpha), 40):
        print(expert.detokenize([token]), end="", flush=True)
    print()


if __name__ == "__main__":
    main()
