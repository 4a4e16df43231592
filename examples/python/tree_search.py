"""Finds the likeliest texts of a length by best-first search: every step forks sessions and computes all children of a node in one run.

Usage: tree_search.py [MODEL [PROMPT [WORDS]]]
"""
from __future__ import annotations

import heapq
import itertools
import sys

import kvik
import numpy as np
import numpy.typing as npt


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max()
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result


def search(model: kvik.Model, prompt: str, n_tokens: int, n_best: int = 3, width: int = 4) -> list[tuple[float, list[int]]]:
    """The `n_best` most likely continuations among the `width` most likely tokens at every step: (log-probability, ids), best first.

    The search is exact: a longer text is never likelier than its beginning, so the first complete texts that leave the queue are the best.
    """
    root = model.session()
    root.append(model.tokenize(prompt))
    order = itertools.count()  # decides between equals
    queue: list[tuple[float, int, kvik.Session, list[int]]] = [(0.0, next(order), root, [])]
    found: list[tuple[float, list[int]]] = []
    while queue and len(found) < n_best:
        cost, _, session, ids = heapq.heappop(queue)
        if len(ids) == n_tokens:
            found.append((-cost, ids))
            continue
        logprobs = log_softmax(session.logits)
        best = np.argsort(-logprobs)[:width]
        children = [session.fork() for _ in best]  # shares the cache: no copy
        model.step(children, best)  # one run for all of them
        for child, token in zip(children, best):
            heapq.heappush(queue, (cost - float(logprobs[token]), next(order), child, [*ids, int(token)]))
    return found


def main() -> None:
    name, prompt, n = [*sys.argv[1:], *["fable", "Once upon a time", "6"][len(sys.argv) - 1 :]]
    model = kvik.Model(name)
    for logprob, ids in search(model, prompt, int(n)):
        print(f"{logprob:8.4f} {prompt}{model.detokenize(ids)}")


if __name__ == "__main__":
    main()
