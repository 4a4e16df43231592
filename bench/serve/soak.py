"""Ten minutes of everything at once against `kvik serve`: text, chat, tools, schemas, translations, recordings and embeddings, cancels, disconnects,
malformed requests, full queues, clients that send or read slowly or not at all, models that are loaded and unloaded.

Answers that are determined by their request must be the same each time. At the end nothing may run or wait, all pages but those of known prefixes must be
free, memory at rest, with every model loaded, must be within 5 % of its level after the warm-up, and there must be as many threads.

Usage: bench/serve/soak.py [SECONDS]
"""
import asyncio
import collections
import json
import os
import pathlib
import random
import re
import socket
import sys
import tempfile
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[2]
KVIK = pathlib.Path(os.environ.get("KVIK_BINARY_DIR", ROOT / "build")) / "kvik"
sys.path.insert(0, str(ROOT / "tests/support"))
from server_models import NAMES, WEATHER, make_models, recording  # noqa: E402

CLIENTS = 24
WARM_UP = 3000  # requests at least: what many of one kind need together is the highest level, and the mix is random
PROMPTS = ["Once upon a time", "A fox. " * 60, "The sea", "There was a king who had " * 20]
SENTENCES = ["How are you?", "Good morning, my friend.", "It is raining again.", "We went to the market and bought some apples and a loaf of bread."]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"], "additionalProperties": False}
MALFORMED = [b"{", b"[]", b'{"model": 5}', b'{"model": "fable", "logit_bias": {"1": null}}', b'{"model": "fable", "max_tokens": 1e300}', b"[" * 10_000]


def process_memory(process):
    """Without mapped files, whose pages the system keeps as it likes."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024


def n_threads(process):
    return len(list(pathlib.Path(f"/proc/{process}/task").iterdir()))


def json_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


class Client:
    """One user. Each kind of request is a method; what became of it is counted under its name."""

    def __init__(self, base, counts, answers):
        self.http = httpx.AsyncClient(base_url=base, timeout=60)
        self.port = httpx.URL(base).port
        self.counts, self.answers = counts, answers
        self.kinds = {self.completion: 20, self.stream: 10, self.leaves: 8, self.raw_bytes: 6, self.malformed: 4, self.translation: 8, self.transcription: 6, self.embedding: 6,
                      self.ollama_chat: 6, self.tool_call: 6, self.constrained: 6, self.echo: 4, self.unload: 2, self.slow_reader: 2, self.flood: 2, self.look: 3, self.leaves_waiting: 4, self.slow_writer: 2,
                      self.cut_call: 3}

    async def run(self, end, least):
        async with self.http:
            while time.monotonic() < end or self.counts.total() < least:
                method = random.choices(list(self.kinds), list(self.kinds.values()))[0]
                try:
                    outcome = await method()
                except (httpx.HTTPError, OSError) as error:
                    outcome = type(error).__name__
                self.counts[f"{method.__name__} {outcome}"] += 1

    def judge(self, request, found):
        """What a request determines is the same each time."""
        return 200 if self.answers.setdefault(json.dumps(request, sort_keys=True), found) == found else "mixed"

    async def ask(self, path, body, read, **more):
        answer = await self.http.post(path, **(more or {"json": body}))
        return self.judge([path, body], read(answer)) if answer.status_code == 200 else answer.status_code

    def text_body(self):
        return {"model": "fable", "prompt": random.choice(PROMPTS), "max_tokens": random.choice([1, 8, 40, 120]), "temperature": random.choice([0, 0.8]), "seed": random.randrange(3),
                "user": f"user {random.randrange(5)}"}

    async def completion(self):
        body = {**self.text_body(), **random.choice([{}, {}, {"n": 3, "temperature": 1}, {"logprobs": 3}, {"best_of": 3, "temperature": 1}])}
        return await self.ask("/v1/completions", body, lambda answer: [choice["text"] for choice in answer.json()["choices"]])

    async def stream(self):
        """The parts together are what the whole answer is."""
        body, text = self.text_body(), ""
        async with self.http.stream("POST", "/v1/completions", json={**body, "stream": True}) as stream:
            if stream.status_code != 200:
                return stream.status_code
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line[6:])
                    if "error" in event:
                        return "error in stream"
                    text += "".join(choice["text"] for choice in event["choices"])
        return self.judge(["/v1/completions", body], [text])

    async def leaves(self):
        body = {**self.text_body(), "max_tokens": 500, "n": random.choice([1, 4]), "temperature": 1, "stream": True}
        async with self.http.stream("POST", "/v1/completions", json=body) as stream:
            async for _ in stream.aiter_lines():
                if random.random() < 0.2:
                    break
        return "gone"

    async def leaves_waiting(self):
        """Does not wait for an answer that comes in one piece."""
        path, body = random.choice([("/v1/completions", {**self.text_body(), "max_tokens": 500, "n": 2, "temperature": 1, "ignore_eos": True}),
                                    ("/v1/translations", {"model": "en-zh", "input": SENTENCES * 8, "beams": 4}), ("/v1/embeddings", {"model": "embedder", "input": SENTENCES * 40})])
        try:
            await self.http.post(path, json=body, timeout=httpx.Timeout(60, read=random.random() / 2))
        except httpx.ReadTimeout:
            return "gone"
        return "was faster"

    async def slow_writer(self):
        """Sends its request so slowly that the server does not wait for it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        request = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{"
        request = request[:random.choice([20, len(request)])]
        writer.write(request[:-1])
        answer = asyncio.ensure_future(reader.read())
        while not answer.done():
            await asyncio.sleep(0.3)
            if not writer.is_closing():
                writer.write(b" ")
        writer.close()
        return int((await answer)[9:12])

    async def raw_bytes(self):
        """Not HTTP, or half a request, and slowly."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(random.randbytes(random.randrange(200)) if random.random() < 0.5 else b"POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
        await asyncio.sleep(random.random())
        writer.close()
        return "gone"

    async def malformed(self):
        path = random.choice(["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/translations", "/api/chat", "/api/generate", "/api/embed"])
        return (await self.http.post(path, content=random.choice(MALFORMED), headers={"content-type": "application/json"})).status_code

    async def translation(self):
        body = {"model": "en-zh", "input": SENTENCES[:random.randrange(1, 5)], "beams": random.choice([1, 4])}
        return await self.ask("/v1/translations", body, lambda answer: [(entry["text"], entry["score"]) for entry in answer.json()["data"]])

    async def transcription(self):
        form = {"model": random.choice(["listener", "timed"]), "response_format": random.choice(["json", "verbose_json", "srt", "vtt", "text"])}
        seconds = random.choice([0.5, 1.7, 3.2])
        return await self.ask("/v1/audio/transcriptions", [form, seconds], lambda answer: answer.text, data=form, files={"file": ("a.wav", recording(seconds))})

    async def embedding(self):
        body = {"model": "embedder", "input": SENTENCES[:random.randrange(1, 5)]}
        path, name = random.choice([("/v1/embeddings", "data"), ("/api/embed", "embeddings")])
        return await self.ask(path, body, lambda answer: answer.json()[name])

    async def ollama_chat(self):
        body = {"model": "fable", "messages": [{"role": "user", "content": "Hello"}], "options": {"num_predict": 20, "seed": random.randrange(3)}, "stream": False}
        return await self.ask("/api/chat", body, lambda answer: answer.json()["message"])

    async def tool_call(self):
        body = {"model": "talker", "messages": [{"role": "user", "content": "What is the weather?"}], "tools": [WEATHER], "tool_choice": "required", "temperature": 1, "seed": random.randrange(4)}
        return await self.ask("/v1/chat/completions", body, lambda answer: answer.json()["choices"][0]["message"]["tool_calls"][0]["function"])

    async def cut_call(self):
        body = {"model": "talker", "messages": [{"role": "user", "content": "What is the weather?"}], "tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
                "max_tokens": random.randrange(1, 20), "temperature": 0}
        return await self.ask("/v1/chat/completions", body, lambda answer: answer.json()["choices"][0]["message"]["tool_calls"][0]["function"])

    async def constrained(self):
        form = random.choice([json_schema(SCHEMA), {"type": "json_object"}])
        body = {"model": "fable", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 60, "temperature": 1, "seed": random.randrange(4), "response_format": form}
        return await self.ask("/v1/chat/completions", body, lambda answer: answer.json()["choices"][0]["message"]["content"])

    async def echo(self):
        body = {"model": "fable", "prompt": random.choice(PROMPTS), "max_tokens": 2, "temperature": 0, "echo": True, "logprobs": 1}
        return await self.ask("/v1/completions", body, lambda answer: answer.json()["choices"][0]["logprobs"]["token_logprobs"])

    async def unload(self):
        return (await self.http.post("/api/generate", json={"model": random.choice(["en-zh", "talker", "fable"]), "keep_alive": 0})).status_code

    async def slow_reader(self):
        """Asks for a lot and takes almost nothing of it; later whatever is left."""
        taker = socket.socket()
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        taker.setblocking(False)
        await asyncio.get_running_loop().sock_connect(taker, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=taker, limit=1024)
        body = json.dumps({**self.text_body(), "max_tokens": 400, "n": 8, "temperature": 1, "logprobs": 5, "stream": True, "ignore_eos": True}).encode()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        last = b""
        try:
            for _ in range(random.randrange(20)):
                last += await reader.read(100)
                await asyncio.sleep(0.1)
            if b" 429 " in last:
                return 429
            await asyncio.sleep(random.uniform(5, 35))
            while part := await reader.read(1 << 16):
                last = (last + part)[-200:]
        except ConnectionResetError:
            pass
        finally:
            writer.close()
        return "took all" if b"[DONE]" in last else "cut"

    async def flood(self):
        """More than the queue holds."""
        body = {**self.text_body(), "max_tokens": 4}
        statuses = [answer.status_code for answer in await asyncio.gather(*(self.http.post("/v1/completions", json=body) for _ in range(30)))]
        return "/".join(map(str, sorted(set(statuses))))

    async def look(self):
        return (await self.http.get(random.choice(["/health", "/metrics", "/api/ps", "/api/tags", "/v1/models", "/v1/status", "/", "/nothing"]))).status_code


async def load(base, process, seconds, answers, least=0):
    """What became of the requests, and the memory of the server meanwhile, in MB: models come and go, so single values are far apart."""
    counts, memory = collections.Counter(), []
    end = time.monotonic() + seconds

    async def watch():
        async with httpx.AsyncClient(base_url=base, timeout=60) as http:
            while time.monotonic() < end or counts.total() < least:
                memory.append(process_memory(process) >> 20)
                counts["a stream was preempted"] += preempted((await http.get("/metrics")).text) > 0
                await asyncio.sleep(seconds / 20)
    await asyncio.gather(watch(), *(Client(base, counts, answers).run(end, least) for _ in range(CLIENTS)))
    return counts, memory


def events(metrics):
    """How often there was what this is about."""
    def total(name):
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", metrics, re.M))
    return {what: total(name) for what, name in (("cancelled", "kvik_cancelled_total"), ("rejected", "kvik_rejections_total"), ("cut", "kvik_connections_cut_total"),
                                                 ("loaded", "kvik_model_loads_total"), ("unloaded", "kvik_model_unloads_total"))}


def preempted(metrics):
    """Counted from the last load of a model."""
    return sum(float(n) for n in re.findall(r"^kvik_preempted_total{.*} (\S+)$", metrics, re.M))


def pages_in_use(metrics):
    """Bytes of pages that are neither free nor kept as a known prefix, by model."""
    values = {(name, model): float(value) for name, model, value in re.findall(r'^(kvik_cache_\w+_bytes)\{model="([^"]+)"\} (\S+)$', metrics, re.M)}
    return {model: values[name, model] - values["kvik_cache_prefix_bytes", model] for name, model in values if name == "kvik_cache_used_bytes"}


async def measured(base, process):
    """The server at rest, with all models loaded a moment ago: what their caches hold depends on when they were unloaded."""
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        models = [model["id"] for model in (await http.get("/v1/models")).json()["data"]]

        async def keep(seconds):
            for model in models:
                await http.post("/api/generate", json={"model": model, "keep_alive": seconds})
        for _ in range(600):
            await keep(0)
            health = (await http.get("/health")).json()
            if health["running"] == health["waiting"] == health["models_loaded"] == 0:
                await keep(600)
                metrics = (await http.get("/metrics")).text
                found = {"memory": process_memory(process), "threads": n_threads(process), "pages": pages_in_use(metrics), "events": events(metrics)}
                await keep(0)
                return found
            await asyncio.sleep(0.1)
    return None


async def main(seconds, folder):
    command = [KVIK, "serve", "fable", "en-zh", *(folder / name for name in NAMES), "--port", "0", "--json", "--quiet", "--max-sequences", "16", "--queue", "12", "--idle-unload", "5",
               "--kv-bytes", "6MB", "--header-timeout-ms", "1000", "--body-timeout-ms", "1000"]
    server = await asyncio.create_subprocess_exec(*map(str, command), stdout=asyncio.subprocess.PIPE, env={**os.environ, "KVIK_CACHE_BYTES": "0"})
    base = f"http://127.0.0.1:{json.loads(await server.stdout.readline())['port']}"
    answers = {}
    _, warming = await load(base, server.pid, seconds / 3, answers, WARM_UP)
    warm = await measured(base, server.pid)
    counts, memory = await load(base, server.pid, seconds, answers)
    end = await measured(base, server.pid)
    server.terminate()
    status = await server.wait()
    bad = [key for key in counts if re.search(r"\b50[0-2]\b|mixed|error in stream|[A-Z]\w+(Error|Timeout|Exception)", key)]
    faults = {"did not come to rest": not (warm and end), "answers": bad, "exit status": status}
    if warm and end:
        faults["did not happen"] = [what for what, n in end["events"].items() if n <= warm["events"][what]]
        faults["did not happen"] += [what for what in ("slow_reader cut", "a stream was preempted") if not counts[what]]
        faults |= {"memory": end["memory"] > warm["memory"] * 1.05, "threads": end["threads"] != warm["threads"], "pages": {model: used for model, used in end["pages"].items() if used}}
    print(json.dumps({"seconds": seconds, "requests": sum(counts.values()), "outcomes": dict(sorted(counts.items())), "memory_under_load_mb": {"warm-up": str(warming), "after": str(memory)},
                      "after_warm_up": warm, "at_the_end": end, "faults": faults}, indent=2))
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as models:
        raise SystemExit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600, make_models(pathlib.Path(models)))))
