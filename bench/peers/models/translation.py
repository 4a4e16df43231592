"""The embedded translator en-zh for its peers: weights out of its ONNX files, its pieces, and the held-out lines that are translated."""
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "models" / "en-zh"
EXPECTED = ROOT / "tests" / "fixtures" / "models-expected" / "en-zh"
MAX_NEW = 64


@functools.cache
def cases() -> list[dict]:
    """Held-out lines with their ids and the reference's translations, sorted by length, so that all contenders pad their batches equally."""
    found = [json.loads(line) for line in (EXPECTED / "expected.jsonl").read_text().splitlines()]
    texts = [line.split("\t")[0] for line in (EXPECTED / "heldout.tsv").read_text().splitlines()]
    return sorted(({**case, "line": text} for case, text in zip(found, texts)), key=lambda case: len(case["source_ids"]))


def equal_ids(found: list[list[int]], beams: int) -> int:
    """How many translations are the reference's, id by id."""
    return sum(ids == case["greedy_ids" if beams == 1 else "beam4_ids"] for ids, case in zip(found, cases()))


def pieces() -> list[str]:
    vocabulary = json.loads((MODEL / "vocab.json").read_text())
    return sorted(vocabulary, key=vocabulary.get)


class Weights:
    """By the names of the trained model. Exported products have names of their own, so their weights are found through the product's node."""

    def __init__(self):
        import onnx
        self.config = json.loads((MODEL / "config.json").read_text())
        self.arrays: dict[str, np.ndarray] = {}
        for file, prefix in (("encoder_model.onnx", "encoder."), ("decoder_model_merged.onnx", "")):
            graph = onnx.load(MODEL / file).graph
            constants = {one.name.removesuffix(".f16"): onnx.numpy_helper.to_array(one).astype(np.float32) for one in graph.initializer}
            for name, array in constants.items():
                self.arrays[prefix + name.removesuffix("_merged_0").removeprefix("model.")] = array
            bodies = [graph] + [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
            for node in (node for body in bodies for node in body.node if node.op_type == "MatMul" and node.input[1] in constants):
                path = node.name.removesuffix("/MatMul").strip("/").removeprefix("model/").replace("/", ".")
                self.arrays.setdefault(f"{prefix}{path}.weight", constants[node.input[1]].T)

    def matrix(self, name: str) -> np.ndarray:
        """[outputs, inputs]"""
        return np.ascontiguousarray(self.arrays[name + ".weight"])

    def vector(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def embedding(self) -> np.ndarray:
        return self.arrays["shared.weight"]


class Translator:
    """A peer that translates; override translate."""

    def __init__(self):
        self.sources = [case["source_ids"] for case in cases()]

    def translate(self, sources: list[list[int]], beams: int) -> list[list[int]]:
        raise NotImplementedError

    def answer(self, batch: int, beams: int) -> tuple[float, int]:
        """Milliseconds for all lines, and how many are the reference's."""
        found = []
        begin = time.perf_counter()
        for i in range(0, len(self.sources), batch):
            found += self.translate(self.sources[i:i + batch], beams)
        return (time.perf_counter() - begin) * 1e3, equal_ids(found, beams)


def run(load: Callable[[], Translator]) -> None:
    """Answers "translate BATCH BEAMS" lines as commands.py does, with both numbers."""
    translator = load()
    print("{}", flush=True)
    for line in sys.stdin:
        _, batch, beams = line.split()
        print(*translator.answer(int(batch), int(beams)), flush=True)
