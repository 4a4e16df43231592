"""A graph writer that expresses shapes and small operations as different exporters and opsets do."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, NEW, PAST, TOTAL = "batch_size", "sequence_length", "past_sequence_length", "past_sequence_length + sequence_length"
ELEMENT = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16)}


class Net:
    """One model file. `rng` draws the spelling of small things, `weights` the numbers."""

    def __init__(self, opset: int, seed: int, dtype: str = "f32"):
        self.opset = opset
        self.rng = random.Random(seed)
        self.weights = np.random.default_rng(seed)
        self.onnx_type, self.numpy_type = ELEMENT[dtype]
        self.constants_as_nodes = self.rng.random() < 0.3
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.domains = {}
        self.scope = ""
        self._known = {}
        self._count = 0

    # ---- ports

    def input(self, name: str, element: int, shape: list) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def output(self, name: str, value: str, element: int, shape: list) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"/Identity_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, element, shape))

    # ---- nodes and constants

    def op(self, kind: str, *inputs: str, n_outputs: int = 1, domain: str = "", **attributes):
        self._count += 1
        name = f"/{self.scope}{kind}_{self._count}"
        outputs = [f"{name}_output_{i}" for i in range(n_outputs)]
        if domain:
            self.domains[domain] = 1
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, domain=domain, **attributes))
        return outputs[0] if n_outputs == 1 else outputs

    def tensor(self, array: np.ndarray) -> str:
        key = (array.tobytes(), str(array.dtype), array.shape)
        if key in self._known:
            return self._known[key]
        if self.constants_as_nodes and array.size < 64:
            name = self.op("Constant", value=numpy_helper.from_array(array))
        else:
            name = f"constant_{len(self._known)}"
            self.initializers.append(numpy_helper.from_array(array, name))
        self._known[key] = name
        return name

    def ints(self, values) -> str:
        return self.tensor(np.asarray(values, np.int64))

    def numbers(self, values) -> str:
        return self.tensor(np.asarray(values).astype(self.numpy_type))

    def weight(self, *shape: int, std: float = 1.0, mean: float = 0.0, dtype=None) -> str:
        name = f"weight_{len(self.initializers)}"
        values = (mean + std * self.weights.standard_normal(shape)).astype(dtype or self.numpy_type)
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    # ---- what differs between opsets

    def reduce(self, kind: str, x: str, axis: int, keepdims: int = 1) -> str:
        if self.opset >= 18 or kind == "ReduceSum":
            return self.op(kind, x, self.ints([axis]), keepdims=keepdims)
        return self.op(kind, x, axes=[axis], keepdims=keepdims)

    def split(self, x: str, sizes: list[int], axis: int = -1) -> list[str]:
        if len(sizes) == 1:
            return [x]
        if self.opset >= 18 and len(set(sizes)) == 1 and self.rng.random() < 0.5:
            return self.op("Split", x, n_outputs=len(sizes), axis=axis, num_outputs=len(sizes))
        return self.op("Split", x, self.ints(sizes), n_outputs=len(sizes), axis=axis)

    def slice(self, x: str, start, stop, axis: int, step: int = 1) -> str:
        """start, stop: numbers, or values [1]."""
        start, stop = (v if isinstance(v, str) else self.ints([v]) for v in (start, stop))
        return self.op("Slice", x, start, stop, self.ints([axis]), self.ints([step]))

    def unsqueeze(self, x: str, *axes: int) -> str:
        if len(axes) > 1 and self.rng.random() < 0.5:
            for axis in axes:
                x = self.op("Unsqueeze", x, self.ints([axis]))
            return x
        return self.op("Unsqueeze", x, self.ints(list(axes)))

    def cast(self, x: str, element: int) -> str:
        return self.op("Cast", x, to=element)

    def to_numbers(self, x: str) -> str:
        return self.cast(x, self.onnx_type)

    # ---- shapes, in the forms of exporters

    def size(self, x: str, axis: int) -> str:
        """One dimension, a scalar."""
        if self.opset >= 15 and axis >= 0 and self.rng.random() < 0.4:
            return self.op("Squeeze", self.op("Shape", x, start=axis, end=axis + 1), self.ints([0]))
        return self.op("Gather", self.op("Shape", x), self.ints(axis), axis=0)

    def one(self, scalar: str) -> str:
        """A scalar as a tensor of one element."""
        if self.rng.random() < 0.5:
            return self.op("Unsqueeze", scalar, self.ints([0]))
        return self.op("Reshape", scalar, self.ints([1]))

    def dims(self, *parts) -> str:
        """A shape: numbers, and scalars by name."""
        if all(isinstance(part, int) for part in parts):
            return self.ints(list(parts))
        return self.op("Concat", *(self.ints([p]) if isinstance(p, int) else self.one(p) for p in parts), axis=0)

    def reshape_rows(self, x: str, *features: int) -> str:
        """[B, S, …] to [B, S, features…]."""
        way = self.rng.choice(["zeros", "shape", "infer"])
        if way == "zeros":
            return self.op("Reshape", x, self.ints([0, 0, *features]))
        if way == "infer":
            return self.op("Reshape", x, self.dims(self.size(x, 0), -1, *features))
        return self.op("Reshape", x, self.dims(self.size(x, 0), self.size(x, 1), *features))

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("Transpose", x, perm=list(perm))

    def either(self, kind: str, a: str, b: str) -> str:
        """A commutative operation, its operands in any order."""
        return self.op(kind, *((a, b) if self.rng.random() < 0.5 else (b, a)))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, self.outputs, self.initializers)
        imports = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(d, v) for d, v in self.domains.items())]
        ir_version = min(10, max(8, helper.find_min_ir_version_for(imports[:1])))
        return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="random-decoders")
