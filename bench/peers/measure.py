"""Measures the works of one group: starts the contenders, lets them take turns, and takes medians."""
import dataclasses
import statistics
import sys

from contenders.peer import Load, Peer
from contenders.process import Process, Unsupported
from models.shapes import SHAPES
from works import Work


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Entry:
    """A contender with a model loaded."""
    peer: Peer
    load: Load
    process: Process
    threads: int

    @property
    def name(self) -> str:
        return f"{self.peer.name} {self.load.form}"

    def set_threads(self, n: int) -> None:
        if n != self.threads:
            self.process.ask(f"threads {n}")
            self.threads = n


def start(peers: list[Peer], works: list[Work], options) -> list[Entry]:
    shape, form = SHAPES[works[0].shape], works[0].form
    entries = []
    for peer in peers:
        for own in peer.formats.get(form, []):
            load = Load(shape, own, options.threads, options.device)
            try:
                peer.write(load)
                entries.append(Entry(peer, load, peer.start(load), options.threads))
            except (Unsupported, NotImplementedError) as error:
                skip(options.skipped, f"{peer.name} {own}, {shape.name}: {error}")
    return entries


def skip(skipped: list[str], sentence: str) -> None:
    skipped.append(sentence)
    say(f"  skipped: {sentence}")


def best_threads(entry: Entry, work: Work) -> int:
    """One measurement per count; the first of each count warms up."""
    counts = entry.peer.thread_counts(entry.load.threads)
    if len(counts) == 1:
        return counts[0]
    took = {}
    for count in counts:
        entry.set_threads(count)
        took[count] = min(statistics.median(entry.process.ask(work.command)) for _ in range(2))
    return min(took, key=took.get)


def measure(work: Work, entries: list[Entry], rounds: int, skipped: list[str]) -> dict[str, list]:
    """Of each contender: per round the median milliseconds of its steps, or for `uncached` both times."""
    times: dict[str, list] = {}
    running = []
    for entry in entries:
        try:
            entry.set_threads(best_threads(entry, work))
            if work.kind != "prefill" or work.depth <= 512:
                entry.process.ask(work.command)  # warms up; a long prompt does so by itself
            running.append(entry)
        except Unsupported as error:
            skip(skipped, f"{entry.name}, {work.name}: {error}")
    for _ in range(rounds):
        for entry in list(running):
            try:
                ms = entry.process.ask(work.command)
                times.setdefault(entry.name, []).append(ms if work.kind == "uncached" else statistics.median(ms))
            except Unsupported as error:
                skip(skipped, f"{entry.name}, {work.name}: {error}")
                running.remove(entry)
    return times


def figures(work: Work, entries: list[Entry], times: dict[str, list], bandwidth: float) -> list[dict]:
    result = []
    for entry in entries:
        if entry.name not in times:
            continue
        figure = {"name": entry.peer.name, "format": entry.load.form, "threads": entry.threads}
        if work.kind == "uncached":
            cached, uncached = (statistics.median(column) for column in zip(*times[entry.name]))
            result.append(figure | {"ms": cached, "uncached_ms": uncached, "ratio": uncached / cached})
            continue
        ms = statistics.median(times[entry.name])
        figure |= {"ms": ms, "rounds_ms": [round(one, 4) for one in times[entry.name]], "rate": work.rate(ms)}
        if work.kind == "decode":
            weights, cache = entry.peer.bytes_of(entry.load)
            moved = weights + work.sequences * (work.depth + work.steps / 2) * cache  # per step
            figure |= {"bytes_per_token": moved / work.sequences, "weights_bytes": weights, "gb_per_s": moved / ms / 1e6, "share_of_bandwidth": moved / ms / 1e6 / bandwidth}
        result.append(figure)
    return result


def measure_group(works: list[Work], peers: list[Peer], options, done) -> None:
    """Calls done(work, figures, bandwidth) after each work."""
    entries = start(peers, works, options)
    try:
        bandwidth = next((entry.process.facts["bandwidth"] for entry in entries if "bandwidth" in entry.process.facts), float("nan"))
        for work in works:
            times = measure(work, entries, options.rounds, options.skipped)
            done(work, figures(work, entries, times, bandwidth), bandwidth)
    finally:
        for entry in entries:
            entry.process.close()
