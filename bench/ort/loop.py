"""A handwritten Python decoding loop with ONNX Runtime."""

import statistics
import time

import numpy as np
import onnxruntime as ort

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Loop:
    """Binds every present output as the next past input; copies nothing."""

    def __init__(self, path: str, threads: int):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = {i.name: i for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.past = [name for name in self.inputs if name.startswith("past")]
        self.present = [name for name in self.outputs if name.startswith("present")]

    def start(self):
        self.length = 0
        self.state = {}
        for name in self.past:
            shape = [d if isinstance(d, int) else (1 if i == 0 else 0) for i, d in enumerate(self.inputs[name].shape)]
            self.state[name] = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, TYPES[self.inputs[name].type]))

    def step(self, ids: list[int]) -> int:
        binding = self.session.io_binding()
        total = self.length + len(ids)
        feeds = {"input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, total), np.int64),
                 "position_ids": np.arange(self.length, total, dtype=np.int64)[None]}
        for name, array in feeds.items():
            if name in self.inputs:
                binding.bind_cpu_input(name, array)
        for name, value in self.state.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name, "cpu")
        begin = time.perf_counter()
        self.session.run_with_iobinding(binding)
        self.graph_ms = (time.perf_counter() - begin) * 1e3
        values = dict(zip(self.outputs, binding.get_outputs()))
        self.state = {past: values[present] for past, present in zip(self.past, self.present)}
        self.length = total
        return int(values[self.outputs[0]].numpy()[0, -1].argmax())


def prompt(n: int, vocab: int) -> list[int]:
    return [(i * 7919 + 31) % vocab for i in range(n)]


def python_ms(loop: Loop, n_prompt: int, n_tokens: int, vocab: int) -> tuple[float, float, float]:
    """Seconds for the prompt, for a step, and for the graph alone in a step."""
    loop.start()
    begin = time.perf_counter()
    token = loop.step(prompt(n_prompt, vocab))
    first = (time.perf_counter() - begin) * 1e3
    steps, graphs = [], []
    for _ in range(n_tokens):
        begin = time.perf_counter()
        token = loop.step([token])
        steps.append((time.perf_counter() - begin) * 1e3)
        graphs.append(loop.graph_ms)
    return first, statistics.median(steps), statistics.median(graphs)
