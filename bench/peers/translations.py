"""Sentences per second on the held-out lines of en-zh. Kvik reads text; the peers read ids."""
import statistics
import tempfile

from contenders.ctranslate2 import CTranslate2
from contenders.kvik import BUILD, Kvik
from contenders.process import Process, Unsupported
from measure import say, skip
from models import translation
from works import Work


class KvikTranslator:
    """Reads text, so tokenizing counts."""
    name = Kvik.name

    def __init__(self, form: str, threads: int):
        self.form, self.threads = form, threads
        self.lines = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.lines.writelines(case["line"] + "\n" for case in translation.cases())
        self.lines.flush()
        self.process = Process([str(BUILD / "bench-peers"), str(translation.MODEL), "--weights", form, "--threads", str(threads), "--lines", self.lines.name])

    def ask(self, batch: int, beams: int) -> tuple[float, int]:
        ms, *numbers = self.process.ask(f"translate {batch} {beams}")
        return ms, translation.equal_ids(divide(numbers), beams)

    def close(self) -> None:
        self.process.close()
        self.lines.close()


def divide(numbers: list[float]) -> list[list[int]]:
    """Lists of ids, each behind their number."""
    found = []
    while numbers:
        end = 1 + int(numbers[0])
        found.append([int(number) for number in numbers[1:end]])
        numbers = numbers[end:]
    return found


class CTranslator:
    name = CTranslate2.name

    def __init__(self, form: str, threads: int):
        self.form, self.threads = form, threads
        peer = CTranslate2()
        self.process: Process = peer.start_translator(form, threads)

    def ask(self, batch: int, beams: int) -> tuple[float, int]:
        ms, equal = self.process.ask(f"translate {batch} {beams}")
        return ms, int(equal)

    def close(self) -> None:
        self.process.close()


def contenders(form: str, peers: list, options) -> list:
    """CTranslate2 with all threads and with one: which is faster depends on the format."""
    found: list = [KvikTranslator(form, options.threads)]
    if any(peer.name == CTranslate2.name for peer in peers):
        for threads in CTranslate2().thread_counts(options.threads):
            try:
                found.append(CTranslator(CTranslate2.formats[form][0], threads))
            except Unsupported as error:
                skip(options.skipped, f"CTranslate2, en-zh: {error}")
    return found


def measure(work: Work, several: list, rounds: int) -> list[dict]:
    times: dict[int, list[float]] = {}
    equal = {}
    for turn in range(rounds + 1):  # the first warms up
        for i, one in enumerate(several):
            ms, equal[i] = one.ask(work.sequences, work.beams)
            if turn > 0:
                times.setdefault(i, []).append(ms)
    n = len(translation.cases())
    found = [{"name": one.name, "format": one.form, "threads": one.threads, "ms": statistics.median(times[i]), "rounds_ms": times[i], "rate": n * 1e3 / statistics.median(times[i]),
              "equal_to_reference": equal[i], "lines": n} for i, one in enumerate(several)]
    best = {figure["name"]: max(other["rate"] for other in found if other["name"] == figure["name"]) for figure in found}
    return [figure for figure in found if figure["rate"] == best[figure["name"]]]


def measure_group(works: list[Work], peers: list, options, done) -> None:
    several = contenders(works[0].form, peers, options)
    say(f"  {len(translation.cases())} lines")
    try:
        for work in works:
            done(work, measure(work, several, options.rounds), float("nan"))
    finally:
        for one in several:
            one.close()
