"""Ten minutes of everything at once against `kvik serve`: requests of all kinds, cancels, disconnects, malformed requests, full queues, slow clients, models
that are loaded and unloaded. At the end nothing may run or wait, and memory must be within 5 % of the level after the warm-up.

Usage: bench/serve/soak.py [SECONDS]
"""
import asyncio
import json
import os
import pathlib
import random
import sys
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[2]
KVIK = pathlib.Path(os.environ.get("KVIK_BINARY_DIR", ROOT / "build")) / "kvik"


def resident(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024


def n_threads(process):
    return len(list(pathlib.Path(f"/proc/{process}/task").iterdir()))


def random_body():
    body = {"model": "fable", "prompt": random.choice(["Once upon a time", "A fox. " * random.randrange(1, 90), "The sea"]), "max_tokens": random.randrange(1, 120),
            "temperature": random.choice([0, 0.8]), "seed": random.randrange(50), "stream": random.random() < 0.5, "user": f"user {random.randrange(5)}"}
    if random.random() < 0.2:
        body |= {"n": random.randrange(1, 5), "temperature": 1}
    if random.random() < 0.2:
        body |= {"logprobs": random.randrange(5)}
    if random.random() < 0.1:
        body |= {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}}
    return body


async def client(base, port, end, counts):
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        while time.monotonic() < end:
            kind = random.random()
            try:
                if kind < 0.5:
                    counts[(await http.post("/v1/completions", json=random_body())).status_code] += 1
                elif kind < 0.65:  # goes in the middle
                    async with http.stream("POST", "/v1/completions", json={**random_body(), "max_tokens": 500, "stream": True}) as stream:
                        async for _ in stream.aiter_lines():
                            if random.random() < 0.2:
                                break
                    counts["gone"] += 1
                elif kind < 0.75:  # raw bytes, and slowly
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(random.randbytes(random.randrange(200)) if random.random() < 0.5 else b"POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
                    await asyncio.sleep(random.random())
                    writer.close()
                    counts["raw"] += 1
                elif kind < 0.85:
                    counts[(await http.post("/v1/translations", json={"model": "en-zh", "input": ["How are you?"] * random.randrange(1, 4)})).status_code] += 1
                elif kind < 0.95:
                    counts[(await http.post("/api/chat", json={"model": "fable", "messages": [{"role": "user", "content": "Hello"}], "options": {"num_predict": 20}})).status_code] += 1
                else:  # unload
                    counts[(await http.post("/api/generate", json={"model": "en-zh", "keep_alive": 0})).status_code] += 1
            except (httpx.HTTPError, OSError) as error:
                counts[type(error).__name__] += 1


class Counts(dict):
    def __missing__(self, key):
        return 0


async def load(base, port, seconds, n_clients=24):
    counts = Counts()
    await asyncio.gather(*(client(base, port, time.monotonic() + seconds, counts) for _ in range(n_clients)))
    return dict(sorted(counts.items(), key=str))


async def settled(base):
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        for _ in range(600):
            health = (await http.get("/health")).json()
            if health["running"] == health["waiting"] == 0:
                return True
            await asyncio.sleep(0.1)
    return False


async def main(seconds):
    command = [KVIK, "serve", "fable", "en-zh", "--port", "0", "--json", "--quiet", "--max-sequences", "16", "--queue", "12", "--idle-unload", "2", "--kv-bytes", "64MB"]
    server = await asyncio.create_subprocess_exec(*map(str, command), stdout=asyncio.subprocess.PIPE, env={**os.environ, "KVIK_CACHE_BYTES": "0"})
    port = json.loads(await server.stdout.readline())["port"]
    base = f"http://127.0.0.1:{port}"
    await load(base, port, max(5, seconds / 5))
    assert await settled(base)
    warm, threads = resident(server.pid), n_threads(server.pid)
    counts = await load(base, port, seconds)
    is_settled = await settled(base)
    end, end_threads = resident(server.pid), n_threads(server.pid)
    report = {"seconds": seconds, "answers": {str(key): value for key, value in counts.items()}, "settled": is_settled, "memory_mb": {"warm": warm >> 20, "end": end >> 20},
              "threads": {"warm": threads, "end": end_threads}}
    print(json.dumps(report, indent=2))
    server.terminate()
    status = await server.wait()
    bad = [key for key in counts if key == 500 or key == "ConnectError"]
    return 0 if is_settled and end <= warm * 1.05 and not bad and status == 0 else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600)))
