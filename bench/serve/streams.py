"""Opens many streams on `kvik serve` at once, with one program on one thread, and prints what became of them.

None may be lost or mixed: requests repeat a small set of prompts and seeds, whose texts are generated alone first, one after the other.
Prints p50 and p95 of the time to the first token and between tokens, tokens per second, and the memory of the server.
"""
import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ["Once upon a time", "There was a king", "In a deep forest", "The old woman said", "A fox and a bear", "Far away by the sea", "One day the youngest son", "The princess"]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def memory_of(process, name):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


async def stream(port, body, results):
    """One request on a connection of its own: text, time to the first token, times between tokens and when each ended."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data))
    text, last, first, gaps, at, status = "", start, None, [], [], None
    try:
        status = int((await reader.readline()).split()[1])
        async for line in reader:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                status = 500
            for choice in event.get("choices", []):
                if not choice["text"]:
                    continue  # says only how it ended
                now = time.perf_counter()
                if first is None:
                    first = now - start
                else:
                    gaps.append(now - last)
                    at.append(now)
                last = now
                text += choice["text"]
    finally:
        writer.close()
    results.append({"status": status, "text": text, "first": first, "gaps": gaps, "at": at, "body": body})


async def main(options):
    command = [pathlib.Path(os.environ.get("KVIK_BINARY_DIR", ROOT / "build")) / "kvik", "serve", options.model, "--port", "0", "--json", "--quiet", "--max-sequences", str(options.max_sequences), "--queue", str(options.streams + 64)]
    server = await asyncio.create_subprocess_exec(*map(str, command), stdout=asyncio.subprocess.PIPE, env={**os.environ, "KVIK_CACHE_BYTES": "0"})
    port = json.loads(await server.stdout.readline())["port"]
    wanted = [{"model": pathlib.Path(options.model).name, "prompt": prompt, "seed": seed, "temperature": 0.8, "max_tokens": options.tokens, "stream": True, "ignore_eos": True}
              for prompt in PROMPTS for seed in range(options.seeds)]
    alone = []
    for body in wanted:
        await stream(port, body, alone)
    expected = {(one["body"]["prompt"], one["body"]["seed"]): one["text"] for one in alone}
    before = memory_of(server.pid, "VmRSS")
    results = []
    start = time.perf_counter()
    tasks = [asyncio.create_task(stream(port, wanted[i % len(wanted)], results)) for i in range(options.streams)]
    done, _ = await asyncio.wait(tasks)
    seconds = time.perf_counter() - start
    failed = [task.exception() for task in done if task.exception()]
    mixed = [one for one in results if one["status"] == 200 and one["text"] != expected[one["body"]["prompt"], one["body"]["seed"]]]
    lost = len(failed) + sum(one["status"] != 200 for one in results)
    gaps = [gap for one in results for gap in one["gaps"]]
    firsts = [one["first"] for one in results if one["first"] is not None]
    report = {
        "streams": options.streams, "running_together": options.max_sequences, "lost": lost, "mixed": len(mixed), "seconds": round(seconds, 2),
        "tokens_per_s": round(options.tokens * len(results) / seconds), "first_token_ms": {"p50": round(percentile(firsts, 0.5) * 1e3, 1), "p95": round(percentile(firsts, 0.95) * 1e3, 1)},
        "between_tokens_ms": {"p50": round(percentile(gaps, 0.5) * 1e3, 2), "p95": round(percentile(gaps, 0.95) * 1e3, 2)},
        "server_memory_mb": {"before": before >> 20, "after": memory_of(server.pid, "VmRSS") >> 20, "peak": memory_of(server.pid, "VmHWM") >> 20}}
    server.terminate()
    await server.wait()
    print(json.dumps(report, indent=2))
    if failed:
        print("first failure:", repr(failed[0]))
    return 1 if lost or mixed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", nargs="?", type=int, default=1000)
    parser.add_argument("--model", default="fable")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=4, help="per prompt")
    parser.add_argument("--max-sequences", type=int, default=1000)
    raise SystemExit(asyncio.run(main(parser.parse_args())))
