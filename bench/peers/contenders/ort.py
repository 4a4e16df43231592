"""ONNX Runtime: a handwritten loop with IoBinding over the graph that onnxruntime-genai would run. Past and present are one buffer."""
import sys

import numpy as np

from contenders import commands
from contenders.peer import MODELS, Load, PythonPeer
from models import onnx_file
from models.shapes import SHAPES

BITS = {"f32": 32.0, "int8": 9.0, "int4": 5.0}  # per weight, with a scale of 32 bits per block


class OnnxRuntime(PythonPeer):
    name, module, package = "ONNX Runtime", "ort", "onnxruntime"
    formats = {"f32": ["f32"], "q8": ["int8"], "q4": ["int4"]}

    def write(self, load: Load) -> None:
        onnx_file.write(load.shape, MODELS / load.shape.name, {load.form})

    def arguments(self, load: Load) -> list[str]:
        return [load.shape.name, str(MODELS / load.shape.name / f"{load.form}.onnx"), str(load.threads)]

    def bytes_of(self, load: Load) -> tuple[float, float]:
        return load.shape.n_weights() * BITS[load.form] / 8, 4 * load.shape.cache_numbers()


class Loop(commands.Contender):
    def __init__(self, shape, path: str, threads: int):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.runtime, self.shape = onnxruntime, shape
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [(f"past_key_values.{i}.{which}", f"present.{i}.{which}") for i in range(shape.layers) for which in ("key", "value")]

    def fill(self, n_sequences: int, depth: int) -> None:
        sizes = (n_sequences, self.shape.kv_heads, (depth + 256) // 128 * 128, self.shape.head)
        self.caches = [self.runtime.OrtValue.ortvalue_from_numpy(np.zeros(sizes, np.float32)) for _ in self.names]
        self.length = 0
        self.append([commands.prompt_tokens(depth, sequence, self.shape.vocab) for sequence in range(n_sequences)])

    def rewind(self, depth: int) -> None:
        self.length = depth

    def step(self, token: int) -> None:
        self.append([[one] for one in commands.step_tokens(token, self.filled[0] or 1, self.shape.vocab)])

    def append(self, rows: list[list[int]]) -> None:
        ids = np.array(rows, np.int64)
        self.length += ids.shape[1]
        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", np.ones((len(rows), self.length), np.int64))
        for (past, present), cache in zip(self.names, self.caches):
            binding.bind_ortvalue_input(past, cache)
            binding.bind_ortvalue_output(present, cache)
        binding.bind_output("logits", "cpu")
        self.session.run_with_iobinding(binding)
        binding.get_outputs()


def main(shape: str, path: str, threads: str) -> None:
    commands.run(lambda: (Loop(SHAPES[shape], path, int(threads)), {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
