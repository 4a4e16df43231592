"""Perplexity of a data set, a text per line: threads score texts together, and the model runs their tokens in batches.

Usage: perplexity.py MODEL FILE [THREADS]
"""
from __future__ import annotations

import concurrent.futures
import math
import pathlib
import sys
from typing import Sequence

import kvik


def perplexity(model: kvik.Model, texts: Sequence[str], n_threads: int = 8) -> float:
    """exp of the mean of -log p over all tokens of all texts but the first of each."""
    with concurrent.futures.ThreadPoolExecutor(n_threads) as pool:
        scores = list(pool.map(model.score, texts))
    n_tokens = sum(len(score.logprobs) for score in scores)
    return math.exp(-sum(score.sum_logprob for score in scores) / max(n_tokens, 1))


def main() -> None:
    name, file, *threads = sys.argv[1:]
    texts = [line for line in pathlib.Path(file).read_text().splitlines() if line.strip()]
    print(f"{perplexity(kvik.Model(name), texts, *map(int, threads)):.4f}")


if __name__ == "__main__":
    main()
