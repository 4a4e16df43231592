"""Tokens per second of Kvik with and without neighbors. Programs and neighbors alternate, medians are printed."""
import argparse
import os
import statistics
import subprocess
import time

SPINNING = ["sh", "-c", "while :; do :; done"]


class Kvik:
    """One process of bench-peers (bench/peers/commands.h)."""

    def __init__(self, program: str, options):
        command = [program, options.model, "--weights", options.weights, "--threads", str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()  # facts about the model
        self.work, self.seconds = options.work, options.seconds

    def measure(self) -> float:
        """Tokens per second."""
        end, n, ms = time.monotonic() + self.seconds, 0, 0.0
        while n == 0 or time.monotonic() < end:
            times = self.ask("prefill 256" if self.work == "prefill" else "decode 1 32 64")
            n += 256 if self.work == "prefill" else len(times)
            ms += sum(times)
        return 1000 * n / ms

    def ask(self, command: str) -> list[float]:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer or answer.startswith("!"):
            raise SystemExit(f"{command}: {answer or 'the program has ended'}")
        return [float(ms) for ms in answer.split()]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Neighbor:
    """A program that runs beside Kvik; without a command, none."""

    def __init__(self, command: list[str]):
        self.command, self.process = command, None

    def __enter__(self):
        if self.command:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            time.sleep(0.1)

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()


class SecondKvik:
    """The same program, which decodes at the same time with as many threads."""

    def __init__(self, program: str, options):
        self.program, self.options = program, options

    def __enter__(self):
        self.process = Kvik(self.program, self.options).process
        self.feeder = subprocess.Popen(["yes", "decode 1 32 64"], stdout=self.process.stdin)
        self.reader = subprocess.Popen(["cat"], stdin=self.process.stdout, stdout=subprocess.DEVNULL)
        time.sleep(0.1)

    def __exit__(self, *_):
        for process in (self.feeder, self.process, self.reader):
            process.kill()
            process.wait()


def neighbors(program: str, options) -> dict[str, object]:
    core = max(os.sched_getaffinity(0))
    found = {"quiet": Neighbor([]),
             f"busy core {core}": Neighbor(["taskset", "-c", str(core), *SPINNING]),
             "busy, any core": Neighbor(SPINNING)}
    if options.second:
        found["second Kvik"] = SecondKvik(program, options)
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="models/fable")
    parser.add_argument("--weights", default="q8")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--work", choices=["decode", "prefill"], default="decode")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--second", action="store_true", help="also beside a second Kvik")
    parser.add_argument("--programs", nargs="+", default=["build/bench-peers"])
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    programs = {program: Kvik(program, options) for program in options.programs}
    speeds: dict[tuple[str, str], list[float]] = {}
    for kvik in programs.values():
        kvik.measure()
    for round_ in range(options.rounds):
        names = list(programs)[::1 if round_ % 2 == 0 else -1]
        for name in names:
            for neighbor_name, neighbor in neighbors(name, options).items():
                with neighbor:
                    speeds.setdefault((name, neighbor_name), []).append(programs[name].measure())
    print(f"{options.model} {options.weights}, {options.work}, {options.threads} threads, medians of {options.rounds} rounds")
    for (name, neighbor), measured in speeds.items():
        median = statistics.median(measured)
        share = median / statistics.median(speeds[name, "quiet"])
        print(f"{name}  {neighbor:16} {median:9.1f} tokens/s  {share:5.0%} of quiet  ({min(measured):.1f} to {max(measured):.1f})")
    for kvik in programs.values():
        kvik.close()


if __name__ == "__main__":
    main()
