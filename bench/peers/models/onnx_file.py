"""Writes a shape as ONNX files that Kvik, ONNX Runtime and onnxruntime-genai read, with the operators that onnxruntime-genai's own exporter uses.

model.onnx has f16 weights, each followed by a Cast, and logits for every position; f32.onnx, int8.onnx and int4.onnx compute the last position's only,
which is what ONNX Runtime needs to be fast, the last two with MatMulNBits in blocks of 32. Matrices of a layer are those of the first, rotated: no two are equal.
"""
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

from models.random_weights import random_matrix
from models.shapes import EPSILON, ROPE_BASE, Shape

BLOCK = 32
MICROSOFT = "com.microsoft"


class DataFile:
    """External data: many tensors in one file, each written once."""

    def __init__(self, path: pathlib.Path):
        self.path, self.file = path, path.open("wb")

    def tensor(self, name: str, array: np.ndarray) -> onnx.TensorProto:
        self.file.write(b"\0" * (-self.file.tell() % 4096))
        tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.path.name), ("offset", self.file.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.file.write(array.tobytes())
        return tensor


class Matrices:
    """Products with the matrices of a shape, in one format."""

    def __init__(self, shape: Shape, data: DataFile, bits: int):
        self.shape, self.data, self.bits = shape, data, bits
        self.contents: dict = {}

    def content(self, kind: str, rows: int, columns: int) -> list[np.ndarray]:
        if kind not in self.contents:
            values = random_matrix(kind, rows, columns)
            self.contents[kind] = self.blocks(values) if self.bits < 16 else [values.T.astype(np.float16) if kind != "embedding" else values.astype(np.float16)]
        return self.contents[kind]

    def blocks(self, values: np.ndarray) -> list[np.ndarray]:
        """MatMulNBits: [rows, blocks, bytes] and a scale per block; the zero point is half the range."""
        rows, columns = values.shape
        blocks = values.reshape(rows, columns // BLOCK, BLOCK)
        half = 1 << (self.bits - 1)
        scales = np.abs(blocks).max(-1) / (half - 1)
        quantized = (np.rint(blocks / scales[..., None]) + half).clip(0, 2 * half - 1).astype(np.uint8)
        if self.bits == 4:
            quantized = quantized[..., 0::2] | quantized[..., 1::2] << 4
        return [quantized, scales.astype(np.float32).reshape(-1)]

    def rotated(self, array: np.ndarray, layer: int, rows: int) -> np.ndarray:
        """By so many outputs."""
        return np.roll(array, layer, axis=1) if self.bits == 16 else np.roll(array, layer * array.size // rows)

    def product(self, graph: "Graph", out: str, x: str, kind: str, rows: int, columns: int) -> str:
        layer = int(out.split(".")[0]) if "." in out else 0
        tensors = [self.data.tensor(f"{out}.{i}", self.rotated(array, layer, rows)) for i, array in enumerate(self.content(kind, rows, columns))]
        graph.initializers += tensors
        names = [tensor.name for tensor in tensors]
        if self.bits < 16:
            return graph.node("MatMulNBits", [x, *names], out, domain=MICROSOFT, K=columns, N=rows, bits=self.bits, block_size=BLOCK, accuracy_level=4)
        return graph.node("MatMul", [x, graph.node("Cast", names, out + ".f32", to=TensorProto.FLOAT)], out)


class Graph:
    def __init__(self):
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []

    def node(self, kind: str, inputs: list[str], output: str | list[str], domain: str = "", **attributes) -> str:
        outputs = [output] if isinstance(output, str) else output
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, array: np.ndarray) -> str:
        self.initializers.append(onnx.numpy_helper.from_array(array, name))
        return name


def decoder(shape: Shape, matrices: Matrices, embedding: onnx.TensorProto, last_only: bool) -> onnx.ModelProto:
    graph = Graph()
    graph.initializers.append(embedding)
    cast = graph.node("Cast", ["embedding"], "embedding.f32", to=TensorProto.FLOAT) if embedding.data_type == TensorProto.FLOAT16 else "embedding"
    angles = np.arange(shape.context)[:, None] * ROPE_BASE ** -(np.arange(0, shape.head, 2) / shape.head)
    graph.constant("cos", np.cos(angles).astype(np.float32))
    graph.constant("sin", np.sin(angles).astype(np.float32))
    graph.constant("one", np.array(1, np.int64))
    graph.constant("axis", np.array([1], np.int64))
    lengths = graph.node("Cast", [graph.node("Sub", [graph.node("ReduceSum", ["attention_mask", "axis"], "mask.sum", keepdims=0), "one"], "mask.less")],
                         "lengths", to=TensorProto.INT32)
    total = graph.node("Cast", [graph.node("Gather", [graph.node("Shape", ["attention_mask"], "mask.shape"), "one"], "mask.length")], "total", to=TensorProto.INT32)
    sums = graph.node("Gather", [cast, "input_ids"], "embedded")
    ones = np.ones(shape.width, np.float32)
    x = graph.node("SimplifiedLayerNormalization", [sums, graph.constant("norm.0", ones)], "normed.0", axis=-1, epsilon=EPSILON)
    sizes = {name: (rows, columns) for name, rows, columns in shape.matrices()}

    def product(layer: int, kind: str, source: str) -> str:
        return matrices.product(graph, f"{layer}.{kind}", source, kind, *sizes[kind])

    def normed(layer: str, total_of: str, added: str) -> tuple[str, str]:
        outputs = [f"{layer}.normed", "", "", f"{layer}.sum"]
        graph.node("SkipSimplifiedLayerNormalization", [total_of, added, graph.constant(f"{layer}.norm", ones)], outputs, domain=MICROSOFT, epsilon=EPSILON)
        return outputs[0], outputs[3]

    for i in range(shape.layers):
        q, k, v = (product(i, kind, x) for kind in ("attn_q", "attn_k", "attn_v"))
        if shape.bias:
            q, k, v = (graph.node("Add", [name, graph.constant(name + ".bias", np.zeros(sizes[name.split(".")[1]][0], np.float32))], name + ".biased") for name in (q, k, v))
        past = [f"past_key_values.{i}.{which}" for which in ("key", "value")]
        present = [f"present.{i}.{which}" for which in ("key", "value")]
        attended = graph.node("GroupQueryAttention", [q, k, v, *past, lengths, total, "cos", "sin"], [f"{i}.attended", *present], domain=MICROSOFT,
                              num_heads=shape.heads, kv_num_heads=shape.kv_heads, do_rotary=1, rotary_interleaved=0)
        for names, values, axis in ((past, graph.inputs, "past_length"), (present, graph.outputs, "total_length")):
            values += [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", shape.kv_heads, axis, shape.head]) for name in names]
        x, sums = normed(f"{i}.attention", sums, product(i, "attn_output", attended))
        gate = product(i, "ffn_gate", x)
        gated = graph.node("Mul", [gate, graph.node("Sigmoid", [gate], f"{i}.sigmoid")], f"{i}.swish")
        inner = graph.node("Mul", [gated, product(i, "ffn_up", x)], f"{i}.gated")
        x, sums = normed(f"{i}.ffn", sums, product(i, "ffn_down", inner))
    if last_only:
        x = graph.node("Gather", [x, graph.constant("last", np.array([-1], np.int64))], "last_row", axis=1)
    if matrices.bits < 16:
        matrices.product(graph, "logits", x, "embedding", shape.vocab, shape.width)
    else:
        graph.node("MatMul", [x, graph.node("Transpose", [cast], "head", perm=[1, 0])], "logits")
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", axis]) for name, axis in (("input_ids", "length"), ("attention_mask", "total_length"))]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1 if last_only else "length", shape.vocab])
    body = helper.make_graph(graph.nodes, "decoder", ids + graph.inputs, [logits] + graph.outputs, graph.initializers)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)], ir_version=9)


def config(shape: Shape) -> dict:
    return {"model_type": "llama", "architectures": ["Decoder"], "hidden_size": shape.width, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads, "head_dim": shape.head, "intermediate_size": shape.inner, "vocab_size": shape.vocab,
            "max_position_embeddings": shape.context, "rms_norm_eps": EPSILON, "rope_theta": ROPE_BASE, "tie_word_embeddings": True}


def write(shape: Shape, folder: pathlib.Path, formats: set[str]) -> None:
    """formats: f16 (for Kvik), f32, int8, int4 (for ONNX Runtime)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(shape), indent=2))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2}))
    for bits, names in ((16, {"f16": "model.onnx", "f32": "f32.onnx"}), (8, {"int8": "int8.onnx"}), (4, {"int4": "int4.onnx"})):
        wanted = [name for form, name in names.items() if form in formats]
        missing = [name for name in wanted if not (folder / name).exists()]
        if not missing:
            continue
        data = DataFile(folder / f"weights.{bits}.data")
        matrices = Matrices(shape, data, bits)
        values = random_matrix("embedding", shape.vocab, shape.width)
        embedding = data.tensor("embedding", values.astype(np.float16))
        for name in names.values():  # both files of one data file: their tensors must be at the same places
            start = data.file.tell()
            model = decoder(shape, matrices, embedding, last_only=name != "model.onnx")
            if name != list(names.values())[-1]:
                data.file.seek(start)
            (folder / (name + ".part")).write_bytes(model.SerializeToString())
        data.file.close()
        for name in names.values():
            (folder / (name + ".part")).rename(folder / name)
