"""Decode speed of the native backend against ONNX Runtime and llama.cpp. They alternate; the medians of all rounds are printed."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ort"))

import peer_file
from loop import Loop, python_ms


class Kvik:
    def __init__(self, folder: str, weights: str, options):
        self.name, self.folder, self.weights, self.options = f"kvik {weights}", folder, weights, options
        self.bytes_per_token = self.bandwidth = 0.0

    def step_ms(self) -> float:
        o = self.options
        command = ["build/kvik", "bench", self.folder, "--backend", "native", "--weights", self.weights, "--threads", o.threads,
                   "--prompt", o.prompt, "--tokens", o.tokens, "--depth", o.prompt, "--rounds", 1, "--batch", 1, "--json"]
        answer = json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)
        figure = next(r for r in answer["results"] if r["what"].startswith("decode"))
        self.bytes_per_token, self.bandwidth = figure["bytes_per_token"], answer["bandwidth_gb_per_s"]
        return figure["p50_ms"]


class OnnxRuntime:
    def __init__(self, folder: str, options):
        path = next(p for p in ("model.onnx", "onnx/model.onnx") if (pathlib.Path(folder) / p).exists())
        self.name, self.options = "ONNX Runtime f32", options
        self.vocab = json.loads((pathlib.Path(folder) / "config.json").read_text())["vocab_size"]
        self.loop = Loop(str(pathlib.Path(folder) / path), options.threads)

    def step_ms(self) -> float:
        return python_ms(self.loop, self.options.prompt, self.options.tokens, self.vocab)[1]


class LlamaCpp:
    def __init__(self, program: pathlib.Path, file: pathlib.Path, weights: str, options):
        self.name, self.program, self.file, self.options = f"llama.cpp {'q8_0' if weights == 'q8' else weights}", program, file, options

    def step_ms(self) -> float:
        o = self.options
        command = [str(word) for word in (self.program, self.file, o.threads, o.prompt, o.tokens)]
        return statistics.median(map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()))


def contenders(folder: str, options, peers: pathlib.Path | None, scratch: pathlib.Path) -> list:
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    found = []
    for weights in options.weights.split(","):
        found.append(Kvik(folder, weights, options))
        if weights == "f32":
            found.append(OnnxRuntime(folder, options))
        if peers and peer_file.can_be_written(config):
            file = scratch / f"{pathlib.Path(folder).name}-{weights}.gguf"
            peer_file.write(folder, file, weights)
            found.append(LlamaCpp(peers / "bin" / "peer", file, weights, options))
    return found


def compare(folder: str, options, peers: pathlib.Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        several = contenders(folder, options, peers, pathlib.Path(scratch))
        times = {one.name: [] for one in several}
        bandwidths = []
        for _ in range(options.rounds):
            for one in several:
                times[one.name].append(one.step_ms())
                if isinstance(one, Kvik):
                    bandwidths.append(one.bandwidth)
    bandwidth = statistics.median(bandwidths)
    bytes_of = {one.weights: one.bytes_per_token for one in several if isinstance(one, Kvik)}
    print(f"\n{pathlib.Path(folder).name}: {options.threads} threads, {options.prompt} tokens before, memory read at {bandwidth:.1f} GB/s")
    for one in several:
        ms = statistics.median(times[one.name])
        moved = bytes_of["q8" if "q8" in one.name else "f16" if "f16" in one.name else "f32"]
        print(f"  {one.name:<18} {1e3 / ms:9.1f} tok/s  {ms:8.3f} ms ({min(times[one.name]):.3f} to {max(times[one.name]):.3f})  {moved / 1e6:8.1f} MB/token  "
              f"{moved / ms / 1e6:6.1f} GB/s  {moved / ms / 1e6 / bandwidth:6.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=["models/fable"])
    parser.add_argument("--weights", default="f32,q8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=64, help="tokens before the measured ones")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-llama", action="store_true", help="leave llama.cpp out")
    parser.add_argument("--peers", help="a folder with bin/peer and python/gguf; built in .dev/peers where it is not given")
    parser.add_argument("--scratch", help="where files for llama.cpp are written; the system's temporary folder where it is not given")
    options = parser.parse_args()
    peers = None
    if not options.no_llama:
        peers = pathlib.Path(options.peers or subprocess.run(["bench/decode/setup"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
        sys.path.insert(0, str(peers / "python"))
    for folder in options.folders:
        compare(folder, options, peers)


if __name__ == "__main__":
    main()
