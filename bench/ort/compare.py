"""Decode speed of Kvik with ONNX Runtime, of a Python loop with IoBinding, and of the graph alone (the time inside the runtime in that
loop). They alternate; the median of the medians of all rounds is printed."""
import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys

import onnxruntime as ort

from loop import Loop, python_ms


def kvik_figures(folder: str, n_prompt: int, n_tokens: int, threads: int) -> dict:
    command = ["build/kvik", "bench", folder, "--backend", "ort", "--threads", threads, "--prompt", n_prompt, "--tokens", n_tokens, "--rounds", 1, "--depth", n_prompt, "--batch", 1, "--json"]
    answer = json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)
    figures = {r["what"].split()[0]: r for r in answer["results"]}
    return {"first": figures["prefill"]["p50_ms"], "step": figures["decode"]["p50_ms"]}


def context_of(config: dict) -> int:
    return next((config[key] for key in ("max_position_embeddings", "n_positions", "context_length") if key in config), 1 << 30)


def compare(folder: str, n_prompt: int, n_tokens: int, threads: int, n_rounds: int):
    path = next(p for p in ("model.onnx", "onnx/model.onnx") if (pathlib.Path(folder) / p).exists())
    loop = Loop(str(pathlib.Path(folder) / path), threads)
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    n_prompt = min(n_prompt, context_of(config) - n_tokens)
    rounds = []
    for _ in range(n_rounds):
        python = python_ms(loop, n_prompt, n_tokens, config["vocab_size"])
        kvik = kvik_figures(folder, n_prompt, n_tokens, threads)
        rounds.append((*python, kvik["first"], kvik["step"]))
    python_first, py, graph, kvik_first, kv = (statistics.median(column) for column in zip(*rounds))
    print(f"{pathlib.Path(folder).name:<12} depth {n_prompt:>5}   python {py:8.3f} ms ({1e3 / py:7.1f} tok/s)   graph alone {graph:8.3f} ms   kvik {kv:8.3f} ms ({1e3 / kv:7.1f} tok/s)   "
          f"{py / kv:5.2f} times python, {kv / graph - 1:+.1%} over the graph   prefill {python_first:8.1f} / {kvik_first:8.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--depths", type=int, nargs="+", default=[16, 1000])
    options = parser.parse_args()
    library = glob.glob(os.path.join(os.path.dirname(ort.__file__), "capi", "libonnxruntime.so*"))
    os.environ["KVIK_ORT_LIB"] = library[0]
    print(f"ONNX Runtime {ort.__version__}, {options.threads} threads, medians of {options.rounds} alternating rounds of {options.tokens} tokens", file=sys.stderr)
    for folder in options.folders:
        for depth in options.depths:
            compare(folder, depth, options.tokens, options.threads, options.rounds)


if __name__ == "__main__":
    main()
