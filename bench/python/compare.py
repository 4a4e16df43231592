"""See bench/python/run."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

PROMPT = "Once upon a time"
KVIK = pathlib.Path(__file__).resolve().parents[2] / "build" / "kvik"

# Prints milliseconds per token as the caller of the package measures them, after the prompt, and the part of it that the library measures.
ITERATE = """
import sys, time, kvik
model = kvik.Model(sys.argv[1], weights=sys.argv[2], threads=int(sys.argv[4]))
ids = [int(id) for id in sys.argv[5].split(",")]
options = dict(max_tokens=int(sys.argv[3]), ignore_eos=True)
generation = model.generate(ids, **options) if sys.argv[6] == "iterate" else kvik.Engine(model).submit(ids, **options)
pieces = iter(generation)
start = time.perf_counter()
for piece in pieces: pass
elapsed = time.perf_counter() - start
n = int(sys.argv[3]) - 1
print(elapsed * 1e3 / n, generation.metrics.decode_ms / n)
"""

SESSIONS = """
import gc, resource, sys, kvik
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
model = kvik.Model(sys.argv[1], weights=sys.argv[2], threads=1)
def use(n):
    for i in range(n):
        session = model.session()
        session.append([5, 6, 7 + i % 50])
        session.logits
use(500)
gc.collect()
before = resident()
use(10_000)
gc.collect()
print(before, resident())
"""


def command_line(arguments, ids):
    flags = ["--weights", arguments.weights, "-n", arguments.tokens, "--threads", arguments.threads, "--ignore-eos", "--json", "--quiet"]
    done = subprocess.run([KVIK, "run", arguments.model, "--ids", ids, *map(str, flags)], capture_output=True, text=True, check=True)
    ms = 1e3 / json.loads(done.stdout)["timing"]["decode_tokens_per_s"]
    return ms, ms


def python(arguments, ids, how):
    words = [arguments.model, arguments.weights, arguments.tokens, arguments.threads, ids, how]
    done = subprocess.run([sys.executable, "-c", ITERATE, *map(str, words)], capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="fable")
    parser.add_argument("--weights", default="q8")
    parser.add_argument("--tokens", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ids", default="5,6,7,8", help="the prompt")
    parser.add_argument("--no-sessions", action="store_true")
    arguments = parser.parse_args()
    ways = {
        "kvik run": lambda: command_line(arguments, arguments.ids),
        "Model.generate": lambda: python(arguments, arguments.ids, "iterate"),
        "Engine.submit": lambda: python(arguments, arguments.ids, "engine"),
    }
    times = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, run in ways.items():
            times[name].append(run())
    base = statistics.median(seen for seen, _ in times["kvik run"])
    for name, values in times.items():
        seen = statistics.median(seen for seen, _ in values)
        added = statistics.median(seen - inside for seen, inside in values)
        print(f"{name:<16} {seen:9.4f} ms per token, {seen / base:5.2f} times the command line's; {added * 1e3:6.2f} us of it outside the library")
    if not arguments.no_sessions:
        done = subprocess.run([sys.executable, "-c", SESSIONS, arguments.model, arguments.weights], capture_output=True, text=True, check=True)
        before, after = map(float, done.stdout.split())
        print(f"memory: {before:.1f} MB, after 10,000 more sessions {after:.1f} MB")


main()
