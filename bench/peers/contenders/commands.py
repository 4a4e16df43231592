"""commands.h for contenders that are written in Python."""
import json
import sys
import time
from collections.abc import Callable


def prompt_tokens(n: int, sequence: int, vocab: int) -> list[int]:
    return [(i * 7919 + 31 + sequence * 101) % vocab for i in range(n)]


def step_tokens(token: int, n_sequences: int, vocab: int) -> list[int]:
    return [(token + sequence * 131) % vocab for sequence in range(n_sequences)]


def ms_of(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e3


class Contender:
    """Override fill, rewind and step, or prefill and decode."""

    filled = (0, 0)  # sequences and depth of the prompts that were computed last

    def fill(self, n_sequences: int, depth: int) -> None:
        raise NotImplementedError

    def rewind(self, depth: int) -> None:
        raise NotImplementedError

    def step(self, token: int) -> None:
        raise NotImplementedError

    def set_threads(self, n: int) -> None:
        raise NotImplementedError("the number of threads is fixed")

    def prefill(self, n: int) -> list[float]:
        self.filled = (0, 0)
        return [ms_of(lambda: self.fill(1, n))]

    def decode(self, n_sequences: int, depth: int, n_steps: int) -> list[float]:
        if self.filled != (n_sequences, depth):
            self.fill(n_sequences, depth)
        self.filled = (n_sequences, depth)
        ms = [ms_of(lambda i=i: self.step(i * 1009 + 7)) for i in range(n_steps)]
        self.rewind(depth)
        return ms


def answer(contender: Contender, line: str) -> list[float]:
    command, *numbers = line.split()
    values = [int(number) for number in numbers]
    if command == "prefill":
        return contender.prefill(*values)
    if command == "decode":
        return contender.decode(*values)
    if command == "threads":
        contender.set_threads(*values)
        return [0.0]
    raise NotImplementedError(f"it does not measure '{command}'")


def run(load: Callable[[], tuple[Contender, dict]]) -> None:
    contender, facts = load()
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        try:
            print(*(f"{ms:.6f}" for ms in answer(contender, line)), flush=True)
        except Exception as error:  # noqa: BLE001 - whatever a peer throws is its answer
            contender.filled = (0, 0)
            print("!", " ".join(str(error).split())[:300] or type(error).__name__, flush=True)
