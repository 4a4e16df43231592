"""`kvik serve` against `llama-server`: the same shape with random weights, the same bits per weight, the same load, in turns.

Users send a prompt of token ids, read the answer as it streams, and send the next; no two prompts share a prefix. Then a prompt of 8,192 tokens arrives while
eight users read: the time between their tokens from its arrival to its first token is what the others notice of it.
"""
import argparse
import asyncio
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))

import machine
from contenders.kvik import BUILD, Kvik
from contenders.llama import Llama
from contenders.peer import HOME, MODELS, Load
from models import tokenizer
from models.shapes import SHAPES
from streams import percentile, stream

LLAMA_SERVER = HOME / "llama" / "bin" / "llama-server"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server for so many sequences of so many tokens each."""

    def __init__(self, options, weights: str):
        self.options, self.weights, self.shape = options, weights, SHAPES[options.shape]

    async def start(self, sequences: int, positions: int) -> None:
        self.port = free_port()
        with (HOME / f"{self.name}.log").open("w") as log:
            self.process = await asyncio.create_subprocess_exec(*self.command(sequences, positions), stdout=log, stderr=log)
        for _ in range(1200):
            if self.process.returncode is not None:
                raise SystemExit(f"{self.name} ended with status {self.process.returncode}; see {HOME / self.name}.log")
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                status = (await reader.readline()).split()
                writer.close()
                if status[1:2] == [b"200"]:
                    break
            except OSError:
                pass
            await asyncio.sleep(0.1)
        await self.request(random.Random(0), 16, 4, [])

    async def stop(self) -> None:
        self.process.terminate()
        await self.process.wait()

    async def request(self, source: random.Random, n_prompt: int, n_tokens: int, results: list) -> None:
        prompt = [source.randrange(1000, self.shape.vocab) if self.shape.vocab > 2000 else source.randrange(300, self.shape.vocab) for _ in range(n_prompt)]
        body = {"model": self.shape.name, "prompt": prompt, "max_tokens": n_tokens, "temperature": 0, "stream": True, "ignore_eos": True, "cache_prompt": False}
        await stream(self.port, self.for_server(body), results)


class KvikServer(Server):
    name = "kvik serve"

    def write(self) -> None:
        load = Load(self.shape, self.weights, self.options.threads)
        Kvik().write(load)
        tokenizer.write(MODELS / self.shape.name, self.shape.vocab)

    def command(self, sequences: int, positions: int) -> list[str]:
        return [str(BUILD / "kvik"), "serve", str(MODELS / self.shape.name), "--port", str(self.port), "--weights", self.weights, "--threads", str(self.options.threads),
                "--max-sequences", str(sequences), "--queue", "64", "--quiet"]

    def for_server(self, body: dict) -> dict:
        return {key: value for key, value in body.items() if key != "cache_prompt"}


class LlamaServer(Server):
    name = "llama-server"

    def write(self) -> None:
        self.load = Load(self.shape, Llama.formats[self.weights][-1], self.options.threads)
        Llama().write(self.load)

    def command(self, sequences: int, positions: int) -> list[str]:
        """A context of its own for each sequence is faster for it than one that all share."""
        size = (positions + 255) // 256 * 256
        prompt_threads = self.options.threads
        step_threads = Llama().thread_counts(prompt_threads)[-1] if sequences == 1 else prompt_threads  # one sequence alone decodes faster with half of many cores
        return [str(LLAMA_SERVER), "-m", str(Llama().file(self.load)), "--host", "127.0.0.1", "--port", str(self.port), "-t", str(step_threads), "-tb", str(prompt_threads), "-np", str(sequences),
                "-c", str(sequences * size), "--no-kv-unified", "--no-context-shift", "--cache-ram", "0"]

    def for_server(self, body: dict) -> dict:
        return body


def check(results: list[dict]) -> None:
    bad = [one["status"] for one in results if one["status"] != 200 or one["first"] is None]
    if bad:
        raise SystemExit(f"{len(bad)} of {len(results)} requests failed; the first with status {bad[0]}")


def summary(results: list[dict], options, seconds: float) -> dict:
    check(results)
    gaps = [gap for one in results for gap in one["gaps"]]
    n_tokens = options.tokens * len(results)
    return {"tokens_per_s": n_tokens / seconds, "updates_per_token": (len(gaps) + len(results)) / n_tokens, **times("first_token_ms", [one["first"] for one in results]), **times("between_tokens_ms", gaps)}


def times(name: str, values: list[float]) -> dict:
    return {name: {"p50": percentile(values, 0.5) * 1e3, "p95": percentile(values, 0.95) * 1e3}}


async def load(server: Server, users: int, options, seed: int) -> dict:
    """Closed loop: a user sends the next request when the last is answered."""
    results: list[dict] = []

    async def user(number: int) -> None:
        source = random.Random(seed * 1000 + number)
        for _ in range(options.requests):
            await server.request(source, options.prompt, options.tokens, results)

    begin = time.perf_counter()
    await asyncio.gather(*(user(number) for number in range(users)))
    return summary(results, options, time.perf_counter() - begin)


async def long_prompt(server: Server, options, seed: int) -> dict:
    """Eight users read while a long prompt arrives."""
    results, long, ended = [], [], asyncio.Event()

    async def user(number: int) -> None:
        source = random.Random(seed * 1000 + number)
        while not ended.is_set():
            await server.request(source, 32, 2 * options.tokens, results)

    users = [asyncio.create_task(user(number)) for number in range(8)]
    await asyncio.sleep(options.settle)
    begin = time.perf_counter()
    await server.request(random.Random(seed), options.long, 1, long)
    end = time.perf_counter()
    ended.set()
    await asyncio.gather(*users)
    check(long + results)
    gaps = [gap for one in results for gap, at in zip(one["gaps"], one["at"]) if begin <= at - gap and at <= end + gap]
    return {"first_token_ms": (end - begin) * 1e3, "longest_gap_ms": max(gaps) * 1e3, **times("between_tokens_ms", gaps)}


def medians(rounds: list[dict]) -> dict:
    if isinstance(rounds[0], dict):
        return {key: medians([one[key] for one in rounds]) for key in rounds[0]}
    return round(sorted(rounds)[len(rounds) // 2], 3)


async def case(servers: list[Server], label: str, options, sequences: int, positions: int, measure) -> dict[str, dict]:
    """Both servers run; they get the load in turns."""
    for server in servers:
        await server.start(sequences, positions)
    rounds: dict[str, list] = {server.name: [] for server in servers}
    try:
        for i in range(options.rounds):
            for server in servers:
                rounds[server.name].append(await measure(server, i))
    finally:
        for server in servers:
            await server.stop()
    found = {name: medians(several) for name, several in rounds.items()}
    print(f"\n{label}")
    for name, one in found.items():
        rate = f"{one['tokens_per_s']:8.1f} tokens/s" if "tokens_per_s" in one else f"long prompt {one['first_token_ms'] / 1e3:6.2f} s"
        first = f"   first token p50 {one['first_token_ms']['p50']:8.1f}, p95 {one['first_token_ms']['p95']:8.1f} ms" if "tokens_per_s" in one else f"   longest {one['longest_gap_ms']:8.1f} ms"
        print(f"  {name:<14} {rate}{first}   between tokens p50 {one['between_tokens_ms']['p50']:7.2f}, p95 {one['between_tokens_ms']['p95']:7.2f} ms", flush=True)
    return found


async def main(options) -> None:
    report = {"machine": machine.describe(options.threads), "rounds": options.rounds, "versions": {"Kvik": Kvik().version(), "llama.cpp": Llama().version()}, "serving": []}
    for weights in options.weights.split(","):
        servers = [KvikServer(options, weights), LlamaServer(options, weights)]
        for server in servers:
            server.write()
        for users in map(int, options.users.split(",")):
            found = await case(servers, f"{options.shape} {weights}, {users} users, {options.prompt} + {options.tokens} tokens", options, users, options.prompt + options.tokens,
                               lambda server, i, users=users: load(server, users, options, i))
            report["serving"].append({"shape": options.shape, "weights": weights, "users": users, "prompt": options.prompt, "tokens": options.tokens, "servers": found})
            write(report, options.json)
        if options.long:
            found = await case(servers, f"{options.shape} {weights}, a prompt of {options.long} tokens arrives while 8 users read", options, 9, options.long + 8,
                               lambda server, i: long_prompt(server, options, i))
            report["serving"].append({"shape": options.shape, "weights": weights, "users": 8, "long_prompt": options.long, "servers": found})
            write(report, options.json)


def write(report: dict, file: pathlib.Path | None) -> None:
    if file:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(report, indent=1))
        part.rename(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="0.5b", choices=SHAPES)
    parser.add_argument("--weights", default="q8,q4")
    parser.add_argument("--users", default="1,8,32")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--requests", type=int, default=2, help="per user and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=8192, help="tokens of the long prompt; 0: leave that case out")
    parser.add_argument("--settle", type=float, default=3, help="seconds that eight users read before the long prompt arrives")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="results; bench/peers/report adds them to docs/benchmarks.md")
    asyncio.run(main(parser.parse_args()))
