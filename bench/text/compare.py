#!/usr/bin/env python3
"""Encode throughput of Kvik beside the tokenizers package from PyPI: one thread each, the same files, the same run, turn by turn;
processor time, so that a busy neighbor does not count.

usage: bench/text/compare.py BENCH_TEXT [--passes N] [--tokenizers FOLDER…]
BENCH_TEXT is the program built from bench/text/encode.cc. Prints a table of medians and of their ratio, and the time to load.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
CHUNK_BYTES = 4096


def prose():
    """English texts from the system, each used once: repeating one small text would favor caches."""
    folder = pathlib.Path("/usr/share/common-licenses")
    texts = [p.read_text(errors="replace") for p in sorted(folder.glob("*")) if not p.is_symlink()]
    heldout = SHARED / "models" / "fable" / "heldout.txt"
    if heldout.exists():
        texts.append(heldout.read_text())
    return "\n".join(texts)


def code():
    files = sorted((ROOT / "src").rglob("*.cc")) + sorted((ROOT / "src").rglob("*.h"))
    return "\n".join(p.read_text() for p in files)[:600_000]


def chinese():
    heldout = SHARED / "models" / "en-zh" / "heldout.tsv"
    if not heldout.exists():
        return None
    lines = [line.split("\t")[-1] for line in heldout.read_text().splitlines()]
    rng = random.Random(1)
    return "\n".join("".join(rng.sample(lines, 3)) for _ in range(1000))


def hostile():
    return "a" * 300_000 + "\n" + " " * 300_000 + "x\n" + "👍🏽" * 40_000 + "\n" + "e\u0301\u0323" * 30_000 + "\n" + "0" * 100_000


def chunks_of(text):
    data, out, at = text.encode(), [], 0
    while at < len(data):
        end = min(len(data), at + CHUNK_BYTES)
        if end < len(data):
            line = data.find(b"\n", end)
            end = len(data) if line < 0 else line + 1
        out.append(data[at:end].decode())
        at = end
    return out


def ours(program, folder, file):
    lines = subprocess.run([program, folder, file, "1", str(CHUNK_BYTES)], check=True, capture_output=True, text=True).stdout.split()
    return float(lines[0]), int(lines[-1])


def theirs(tokenizer, chunks):
    start = time.process_time()
    n_ids = sum(len(tokenizer.encode(chunk, add_special_tokens=False).ids) for chunk in chunks)
    return time.process_time() - start, n_ids


def load_times(program, folder, passes):
    mine = [float(x) for x in subprocess.run([program, folder, "-", str(passes)], check=True, capture_output=True, text=True).stdout.split()]
    peer = []
    for _ in range(passes):
        start = time.process_time()
        tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        peer.append(time.process_time() - start)
    return statistics.median(mine), statistics.median(peer)


def wordpiece_folder(parent):
    """Writes the published vocabulary as a tokenizer.json, so that both read the same file."""
    vocab = SHARED / "fixtures" / "tokenizers" / "bert-base-uncased" / "vocab.txt"
    if not vocab.exists():
        return None
    peer = tokenizers.BertWordPieceTokenizer(str(vocab))
    folder = pathlib.Path(parent) / "wordpiece"
    folder.mkdir()
    peer.save(str(folder / "tokenizer.json"))
    return folder


def large_folder(parent, n_pieces):
    """Writes a byte-level tokenizer with 150,000 pieces, made of numbers, to measure load time."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    letters = [c for c in alphabet if c.isascii() and c.isalpha()] + ["Ġ"]
    merges, rng, pieces = [], random.Random(2), list(letters)
    while len(vocab) < n_pieces:
        a, b = rng.choice(pieces), rng.choice(letters)
        if a + b not in vocab and len(a) < 9:
            vocab[a + b] = len(vocab)
            pieces.append(a + b)
            merges.append((a, b))
    model = tokenizers.models.BPE(vocab, merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    folder = pathlib.Path(parent) / f"{n_pieces}-pieces"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--tokenizers", type=pathlib.Path, nargs="*")
    options = parser.parse_args()
    corpora = {"prose": prose(), "code": code(), "chinese": chinese(), "hostile": hostile()}
    with tempfile.TemporaryDirectory() as parent:
        folders = options.tokenizers or [ROOT / "models" / "fable"]
        if not options.tokenizers and SHARED.exists():
            folders += [SHARED / "fixtures" / "tokenizers" / name for name in ("gpt2", "tinyllama", "phi-3-mini", "t5-small")]
            folders += [wordpiece_folder(parent)]
        print(f"{'tokenizer':16} {'text':8} {'MB':>6} {'kvik MB/s':>10} {'tokenizers':>10} {'ratio':>6}  ids")
        for folder in folders:
            peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            for name, text in corpora.items():
                if text is None:
                    continue
                file = pathlib.Path(parent) / name
                file.write_text(text, newline="")
                chunks, megabytes = chunks_of(text), len(text.encode()) / 1e6
                mine, their = [], []
                for _ in range(options.passes):
                    seconds, n_mine = ours(options.program, folder, file)
                    mine.append(seconds)
                    seconds, n_their = theirs(peer, chunks)
                    their.append(seconds)
                a, b = megabytes / statistics.median(mine), megabytes / statistics.median(their)
                same = "same" if n_mine == n_their else f"{n_mine} against {n_their}"
                print(f"{folder.name:16} {name:8} {megabytes:6.2f} {a:10.2f} {b:10.2f} {a / b:6.1f}  {same}", flush=True)
        for folder in [*folders, large_folder(parent, 150_000)]:
            a, b = load_times(options.program, folder, options.passes)
            print(f"load {folder.name:16} {1000 * a:8.1f} ms beside {1000 * b:8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
