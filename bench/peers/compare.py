"""Kvik against its peers, in one run: the same shapes, the same number of bits per weight, contenders alternating, medians of all rounds.

Every peer runs at its best setting. The read bandwidth of the run is measured too: tokens per second times bytes per token cannot exceed it.
A contender that is not installed or cannot do a work is skipped with a sentence.
"""
import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine
import translations
import works as all_works
from contenders.ctranslate2 import CTranslate2
from contenders.genai import GenAi
from contenders.kvik import Kvik, KvikOnOrt
from contenders.llama import Llama
from contenders.openvino import OpenVino
from contenders.ort import OnnxRuntime
from measure import measure_group, say
from models.shapes import SHAPES

PEERS = {"llama": Llama, "ort": OnnxRuntime, "genai": GenAi, "openvino": OpenVino, "ctranslate2": CTranslate2, "kvik-ort": KvikOnOrt}


def print_figures(work, found: list[dict], bandwidth: float) -> None:
    print(f"\n{work.name}" + ("" if bandwidth != bandwidth else f"   (memory reads {bandwidth:.1f} GB/s)"))
    for figure in found:
        line = f"  {figure['name'] + ' ' + figure['format']:<26} {figure['threads']:>2} threads"
        if work.kind == "uncached":
            line += f" {figure['ms']:9.2f} ms with the cache, {figure['uncached_ms']:9.2f} without: {figure['ratio']:.1f} times"
        else:
            line += f" {figure['rate']:10.1f} {'sentences' if work.kind == 'translate' else 'tokens'}/s"
        if work.kind == "prefill":
            line += f" {figure['ms']:9.2f} ms"
        if "gb_per_s" in figure:
            line += f" {figure['bytes_per_token'] / 1e6:9.1f} MB/token {figure['gb_per_s']:7.1f} GB/s {figure['share_of_bandwidth']:6.0%}"
        if figure is not found[0] and "rate" in figure and found[0]["name"] == "Kvik":
            line += f"   Kvik is {found[0]['rate'] / figure['rate']:.2f} times as fast"
        if "equal_to_reference" in figure:
            line += f"   {figure['equal_to_reference']} of {figure['lines']} as the reference"
        print(line, flush=True)


def peers_of(options) -> list:
    found = [Kvik()]
    for name in options.peers.split(","):
        if name not in PEERS:
            raise SystemExit(f"--peers: '{name}' is not known; known are {', '.join(PEERS)}")
        found.append(Llama(options.device) if name == "llama" else PEERS[name]())
    usable = []
    for peer in found:
        reason = peer.missing()
        if reason is None:
            usable.append(peer)
        elif peer.name == "Kvik":
            raise SystemExit(reason)
        else:
            options.skipped.append(f"{peer.name}: {reason}")
            say(f"without {peer.name}: {reason}")
    return usable


def estimate_s(work, n_contenders: int, options) -> float:
    """From what a core does: 50 GFLOP/s in prompts, 12 GB/s in steps; good to a factor of two."""
    if options.device != "cpu":
        return n_contenders * (options.rounds + 1)
    if work.kind == "translate":
        return n_contenders * (options.rounds + 1) * 400 / 300 / 2
    shape = SHAPES[work.shape]
    prompt = work.depth * work.sequences * 2 * shape.n_weights() / (50e9 * options.threads)
    step = shape.n_weights() * 1.1 / (12e9 * min(options.threads, 8)) + 1e-4
    each_round = prompt if work.kind == "prefill" else step * work.steps
    return n_contenders * ((0 if work.kind == "prefill" else prompt) + (options.rounds + 1) * each_round)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: a 1.5B shape beside llama.cpp's CUDA build, 1 to 256 streams")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="works whose name has all these words, with commas between them (repeatable); --list prints the names")
    parser.add_argument("--long", action="store_true", help="also a depth of 32,000 tokens, whose prompts take minutes")
    parser.add_argument("--peers", help="with commas between them (default: all; on a GPU llama)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="results, written after each work; bench/peers/report turns them into docs/benchmarks.md")
    parser.add_argument("--list", action="store_true", help="print the works and end")
    options = parser.parse_args()
    options.skipped = []
    options.peers = options.peers or (",".join(PEERS) if options.device == "cpu" else "llama")
    works = all_works.chosen(options.only, options.long, options.device)
    if options.list:
        print("\n".join(work.name for work in works))
        return
    if not works:
        raise SystemExit("--only chooses no work; --list prints their names")
    peers = peers_of(options)
    report = {"machine": machine.describe(options.threads, options.device), "rounds": options.rounds, "versions": {peer.name: peer.version() for peer in peers}, "results": [], "skipped": options.skipped}
    left = sum(estimate_s(work, len(peers), options) for work in works)
    say(f"{len(works)} works, {options.threads} threads, {options.rounds} rounds, {', '.join(peer.name for peer in peers)}; about {max(1, round(left / 60))} minutes")
    begin = time.monotonic()

    def done(work, found: list[dict], bandwidth: float) -> None:
        print_figures(work, found, bandwidth)
        entry = {"work": work.name, "kind": work.kind, "shape": work.shape, "format": work.form, "sequences": work.sequences, "depth": work.depth, "steps": work.steps,
                 "beams": work.beams, "contenders": found} | ({} if bandwidth != bandwidth else {"bandwidth_gb_per_s": bandwidth})
        report["results"].append(entry)
        say(f"  {len(report['results'])} of {len(works)} works, {time.monotonic() - begin:.0f} s")
        if options.json:
            part = options.json.with_suffix(".part")
            part.write_text(json.dumps(report, indent=1))
            part.rename(options.json)

    for group in all_works.groups(works):
        say(f"\n{group[0].shape} {group[0].form}: loading")
        if group[0].kind == "translate":
            translations.measure_group(group, peers, options, done)
        else:
            measure_group(group, [peer for peer in peers if peer.formats], options, done)


if __name__ == "__main__":
    main()
