"""Sentences per second of Kvik, Optimum and CTranslate2 on held-out lines of en-zh, batch 1 and 16, greedy and with four beams.

Contenders take turns, round by round; the best round of each is printed, with the spread. Every contender's ids are compared with the
reference's, so that nobody is fast by being wrong. Sources are token ids for the peers; Kvik reads the text itself.
"""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "en-zh"
EXPECTED = ROOT / "tests" / "fixtures" / "models-expected" / "en-zh"
MAX_NEW = 64


def read_lines(n: int) -> list[dict]:
    """Lines spread evenly over the held-out lines and sorted by length, so that all programs pad their batches equally."""
    cases = [json.loads(line) for line in (EXPECTED / "expected.jsonl").read_text().splitlines()]
    texts = [line.split("\t")[0] for line in (EXPECTED / "heldout.tsv").read_text().splitlines()]
    for case, text in zip(cases, texts):
        case["line"] = text
    chosen = [cases[i * len(cases) // n] for i in range(n)]
    return sorted(chosen, key=lambda case: len(case["source_ids"]))


class Kvik:
    """One process per round. Loading is not counted; reading and tokenizing the lines is."""

    def __init__(self, backend: str, threads: int):
        self.name = f"kvik ({backend})"
        self.backend, self.threads = backend, threads

    def translate(self, cases: list[dict], batch: int, beams: int) -> tuple[float, list[list[int]], str]:
        command = ["build/kvik", "translate", str(MODEL), "--json", "--quiet", "--backend", self.backend, "--threads", self.threads, "--batch", batch, "--beams", beams, "-n", MAX_NEW]
        text = "".join(case["line"] + "\n" for case in cases)
        done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, input=text, cwd=ROOT)
        answer = json.loads(done.stdout)
        timing = answer["timing"]
        n = len(cases)
        return timing["translate_ms"] / 1e3, [r["ids"] for r in answer["results"]], f"{timing['sources_encoded'] / n:.2f} / {timing['sources_projected'] / n:.2f}"


class Optimum:
    name = "optimum"

    def __init__(self, threads: int):
        import onnxruntime
        import torch
        from optimum.onnxruntime import ORTModelForSeq2SeqLM
        torch.set_num_threads(threads)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.torch = torch
        self.model = ORTModelForSeq2SeqLM.from_pretrained(MODEL, use_merged=True, session_options=options)
        self.pad = self.model.config.pad_token_id
        self.eos = self.model.config.eos_token_id

    def translate(self, cases: list[dict], batch: int, beams: int) -> tuple[float, list[list[int]], str]:
        found = []
        begin = time.perf_counter()
        for i in range(0, len(cases), batch):
            rows = [case["source_ids"] for case in cases[i:i + batch]]
            width = max(map(len, rows))
            ids = self.torch.tensor([row + [self.pad] * (width - len(row)) for row in rows])
            mask = self.torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
            out = self.model.generate(input_ids=ids, attention_mask=mask, num_beams=beams, max_new_tokens=MAX_NEW, do_sample=False, length_penalty=1.0, early_stopping=False)
            found += [self.cut(row[1:]) for row in out.tolist()]
        return time.perf_counter() - begin, found, "once / once (by its files)"

    def cut(self, ids: list[int]) -> list[int]:
        return ids[: ids.index(self.eos) + 1] if self.eos in ids else ids


class CTranslate2:
    """Its converter lets the target start from an embedding of zeros, as files of that family do; this model's start token has another one, so many
    of its translations differ, in ids and little in length: the work is the same."""

    name = "ctranslate2"

    def __init__(self, weights: pathlib.Path, threads: int):
        import ctranslate2
        from ctranslate2.converters import TransformersConverter
        self.folder = tempfile.TemporaryDirectory()
        TransformersConverter(str(weights)).convert(self.folder.name, force=True)
        self.translator = ctranslate2.Translator(self.folder.name, device="cpu", intra_threads=threads, inter_threads=1, compute_type="float32")
        vocabulary = json.loads((MODEL / "vocab.json").read_text())
        self.ids = vocabulary
        self.pieces = {i: piece for piece, i in vocabulary.items()}

    def translate(self, cases: list[dict], batch: int, beams: int) -> tuple[float, list[list[int]], str]:
        sources = [[self.pieces[i] for i in case["source_ids"]] for case in cases]
        found = []
        begin = time.perf_counter()
        for i in range(0, len(sources), batch):
            for result in self.translator.translate_batch(sources[i:i + batch], beam_size=beams, max_decoding_length=MAX_NEW, length_penalty=1.0, return_end_token=True):
                found.append([self.ids[piece] for piece in result.hypotheses[0]])
        return time.perf_counter() - begin, found, ""


def contenders(options: argparse.Namespace) -> list:
    chosen = [Kvik(backend, options.threads) for backend in options.backends.split(",")]
    if "optimum" in options.peers:
        chosen.append(Optimum(options.threads))
    if "ctranslate2" in options.peers:
        if options.weights.exists():
            chosen.append(CTranslate2(options.weights, options.threads))
        else:
            print(f"without ctranslate2: it is made from the trained weights, which are not in {options.weights}")
    return chosen


def measure(chosen: list, cases: list[dict], batch: int, beams: int, rounds: int) -> dict[str, float]:
    key = "greedy_ids" if beams == 1 else "beam4_ids"
    seconds: dict[str, list[float]] = {c.name: [] for c in chosen}
    equal, work = {}, {}
    for c in chosen:
        c.translate(cases[: 2 * batch], batch, beams)  # warm
    for _ in range(rounds):
        for c in chosen:
            took, ids, work[c.name] = c.translate(cases, batch, beams)
            seconds[c.name].append(took)
            equal[c.name] = sum(got == case[key] for got, case in zip(ids, cases))
    best = {name: min(all_of) for name, all_of in seconds.items()}
    for name, all_of in seconds.items():
        n = len(cases)
        print(f"batch {batch:>2}, {'greedy ' if beams == 1 else f'{beams} beams'}  {name:<14} {n / best[name]:8.1f} sentences/s {best[name] * 1e3 / n:8.2f} ms/sentence"
              f"   spread {max(all_of) / best[name] - 1:4.0%}   ids {equal[name]}/{n}   encoder / cross projections per sentence: {work[name] or 'not told'}", flush=True)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100, help="of the 400 held-out ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backends", default="ort", help="of Kvik, with commas between them: ort, native")
    parser.add_argument("--peers", default="optimum,ctranslate2")
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--weights", type=pathlib.Path, default=ROOT.parent / "shared" / "models" / "en-zh", help="the trained weights, for ctranslate2")
    options = parser.parse_args()
    if "KVIK_ORT_LIB" not in os.environ:
        libraries = glob.glob(str(ROOT / ".dev" / "translate" / "lib" / "python3*" / "site-packages" / "onnxruntime" / "capi" / "libonnxruntime.so.*"))
        if libraries:
            os.environ["KVIK_ORT_LIB"] = libraries[0]  # the same library as Optimum's
    print(f"en-zh, {options.lines} held-out lines, {options.threads} threads, {options.rounds} rounds in turn; load average {os.getloadavg()[0]:.1f}")
    cases = read_lines(options.lines)
    chosen = contenders(options)
    for batch in map(int, options.batches.split(",")):
        for beams in (1, 4):
            best = measure(chosen, cases, batch, beams, options.rounds)
            first = chosen[0].name
            for name in best:
                if name != first:
                    print(f"    {first} is {best[name] / best[first]:.2f} times as fast as {name}")
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
