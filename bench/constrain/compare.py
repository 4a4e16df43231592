"""Writes the tokenizer and the cases, runs both programs on the same tokens, prints times per mask and per schema."""

import base64
import importlib.util
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import llguidance
import numpy as np

import cases

TEXTS = 12  # per schema


def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


def tokens():
    folder = Path(importlib.util.find_spec("mistral_common").origin).parent / "data"
    vocabulary = json.loads((folder / "tekken_240911.json").read_text())["vocab"]
    return [base64.b64decode(entry["token_bytes"]) for entry in vocabulary]


def write_tokenizer(folder, all_tokens):
    alphabet = byte_alphabet()
    vocabulary = {"".join(alphabet[b] for b in token): i for i, token in enumerate(all_tokens)}
    end = {"id": len(all_tokens), "content": "</s>", "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    steps = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None, "pre_tokenizer": steps, "post_processor": None, "decoder": steps, "model": model}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def encode(text, ids, longest):
    """Always the longest token that fits."""
    data, at, out = text.encode(), 0, []
    while at < len(data):
        n = next(n for n in range(min(longest, len(data) - at), 0, -1) if data[at : at + n] in ids)
        out.append(ids[data[at : at + n]])
        at += n
    return out


def measure_llguidance(folder, all_cases, n_tokens):
    mask = np.zeros((n_tokens + 32) // 32, dtype=np.int32)
    start = time.perf_counter()
    tokenizer = llguidance.LLTokenizer((folder / "tokenizer.json").read_text(), eos_token=n_tokens)
    out = {"vocabulary_ms": (time.perf_counter() - start) * 1e3, "compile_ms": [], "mask_us": [], "first_mask_us": [], "refused": []}
    for case in all_cases:
        start = time.perf_counter()
        grammar = llguidance.LLMatcher.grammar_from_json_schema(case["schema"])
        first = llguidance.LLMatcher(tokenizer, grammar)
        out["compile_ms"].append((time.perf_counter() - start) * 1e3)
        for i, ids in enumerate(case["texts"]):
            matcher = first.deep_copy()
            for token in ids:
                start = time.perf_counter()
                matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
                us = (time.perf_counter() - start) * 1e6
                out["mask_us"].append(us)
                if i == 0:
                    out["first_mask_us"].append(us)
                if not matcher.consume_token(token):
                    out["refused"].append(case["schema"])
                    break
    return out


def line(name, result):
    us, first = np.array(result["mask_us"]), np.array(result["first_mask_us"])
    print(f"{name:<12} {len(us):>6} masks: p50 {np.percentile(us, 50):8.1f} us  p99 {np.percentile(us, 99):8.1f} us  mean {us.mean():8.1f} us  max {us.max():9.1f} us;"
          f"  first text of a schema: p50 {np.percentile(first, 50):8.1f} us  p99 {np.percentile(first, 99):8.1f} us;  compile p50 {np.median(result['compile_ms']):6.2f} ms"
          f"  max {max(result['compile_ms']):6.2f} ms;  refused {len(result['refused'])};  vocabulary {result['vocabulary_ms']:.0f} ms")


def main():
    program, folder = sys.argv[1], Path(".dev/bench-constrain/tokenizer")
    all_tokens = tokens()
    write_tokenizer(folder, all_tokens)
    ids, longest = {token: i for i, token in enumerate(all_tokens)}, max(map(len, all_tokens))
    rng = random.Random(1)
    all_cases = [{"schema": json.dumps(schema), "texts": [encode(cases.text_of(schema, rng), ids, longest) for _ in range(TEXTS)]} for schema in cases.SCHEMAS]
    (folder / "cases.json").write_text(json.dumps(all_cases))
    print(f"{len(all_tokens)} tokens, {len(all_cases)} schemas, {TEXTS} texts each")
    for _ in range(3):
        line("kvik", json.loads(subprocess.run([program, folder, folder / "cases.json"], capture_output=True, text=True, check=True).stdout))
        line("llguidance", measure_llguidance(folder, all_cases, len(all_tokens)))


if __name__ == "__main__":
    main()
