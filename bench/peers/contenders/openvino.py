"""OpenVINO: a graph as its converter for language models writes it, with weights compressed to 8 or 4 bits and a cache that it keeps itself."""
import sys

import numpy as np

from contenders import commands
from contenders.peer import MODELS, Load, PythonPeer
from models.random_weights import random_matrix
from models.shapes import EPSILON, ROPE_BASE, SHAPES, Shape


class OpenVino(PythonPeer):
    name, module, package = "OpenVINO", "openvino", "openvino"
    formats = {"f16": ["f16"], "q8": ["int8"], "q4": ["int4"]}

    def version(self) -> str:
        return super().version().split("-")[0]

    def file(self, load: Load):
        return MODELS / load.shape.name / f"openvino-{load.form}.xml"

    def write(self, load: Load) -> None:
        if not self.file(load).exists():
            import openvino
            self.file(load).parent.mkdir(parents=True, exist_ok=True)
            part = self.file(load).with_name(f"part-{load.form}.xml")
            builder = Builder(load.shape, load.form)  # the model's constants are views of its arrays
            openvino.save_model(builder.model(), str(part), compress_to_fp16=False)
            part.with_suffix(".bin").rename(self.file(load).with_suffix(".bin"))
            part.rename(self.file(load))

    def arguments(self, load: Load) -> list[str]:
        return [load.shape.name, str(self.file(load)), str(load.threads)]

    def bytes_of(self, load: Load) -> tuple[float, float]:
        bits = {"f16": 16.0, "int8": 8.0, "int4": 4 + 16 / group_of(load.shape)}[load.form]
        return load.shape.n_weights() * bits / 8, load.shape.cache_numbers()  # it keeps its cache in 8 bits


def group_of(shape: Shape) -> int:
    """Weights per scale: 128, its converter's own choice, if it divides all rows."""
    return 128 if all(columns % 128 == 0 for _, _, columns in shape.matrices()) else 32


class Builder:
    def __init__(self, shape: Shape, form: str):
        import openvino
        from openvino import opset13
        self.ov, self.ops, self.shape, self.form = openvino, opset13, shape, form
        self.sizes = {name: (rows, columns) for name, rows, columns in shape.matrices()}
        self.contents: dict = {}
        self.assigns: list = []

    def constant(self, values) -> object:
        return self.ops.constant(np.asarray(values))

    def weights(self, kind: str, rows: int, columns: int):
        """[rows, columns] f32, out of a compressed constant that the plugin's kernels read as it is."""
        ops, f32 = self.ops, self.ov.Type.f32
        if kind not in self.contents:
            self.contents[kind] = self.compress(random_matrix(kind, rows, columns))
        values, scales = self.contents[kind]
        if self.form == "f16":
            return ops.convert(ops.constant(values), f32)
        if self.form == "int4":
            groups = [rows, columns // group_of(self.shape), group_of(self.shape)]
            constant = self.ov.op.Constant(self.ov.Tensor(values, self.ov.Shape(groups), self.ov.Type.i4))
        else:
            constant = ops.constant(values)
        scaled = ops.multiply(ops.convert(constant, self.ov.Type.f16), ops.constant(scales))
        if self.form == "int4":
            scaled = ops.reshape(scaled, self.constant([rows, columns]), False)
        return ops.convert(scaled, f32)

    def compress(self, values: np.ndarray) -> tuple:
        if self.form == "f16":
            return values.astype(np.float16), None
        most = 127 if self.form == "int8" else 7
        blocks = values if self.form == "int8" else values.reshape(len(values), -1, group_of(self.shape))
        scales = np.abs(blocks).max(-1, keepdims=True) / most
        quantized = np.rint(blocks / scales).astype(np.int8)
        if self.form == "int4":
            quantized = (quantized[..., 0::2] & 15 | quantized[..., 1::2] << 4).astype(np.uint8).reshape(-1)
        return quantized, scales.astype(np.float16)

    def product(self, x, kind: str):
        return self.ops.matmul(x, self.weights(kind, *self.sizes[kind]), False, True)

    def normed(self, x):
        ops = self.ops
        mean = ops.reduce_mean(ops.power(x, self.constant(np.float32(2))), self.constant([-1]), True)
        scale = ops.divide(self.constant(np.float32(1)), ops.sqrt(ops.add(mean, self.constant(np.float32(EPSILON)))))
        return ops.multiply(self.constant(np.ones((1, 1, self.shape.width), np.float32)), ops.multiply(x, scale))

    def heads(self, x, kind: str, n: int):
        if self.shape.bias:
            x = self.ops.add(x, self.constant(np.zeros((1, 1, n * self.shape.head), np.float32)))
        split = self.ops.reshape(x, self.constant([0, 0, n, self.shape.head]), True)
        return self.ops.transpose(split, self.constant([0, 2, 1, 3]))

    def rotated(self, x):
        ops, half = self.ops, self.shape.head // 2
        first, second = ops.variadic_split(x, self.constant(3), self.constant([half, half])).outputs()
        turned = ops.concat([ops.multiply(second, self.constant(np.float32(-1))), first], -1)
        return ops.add(ops.multiply(x, self.cos), ops.multiply(turned, self.sin))

    def cached(self, name: str, new):
        """The past, in the order of the beams, and the new positions."""
        ops, shape = self.ops, self.shape
        empty = ops.broadcast(self.constant(np.float32(0)), ops.concat([self.batch, self.constant([shape.kv_heads, 0, shape.head])], 0))
        variable = self.ov.op.util.VariableInfo()
        variable.variable_id, variable.data_type, variable.data_shape = name, self.ov.Type.f32, self.ov.PartialShape([-1, shape.kv_heads, -1, shape.head])
        state = self.ov.op.util.Variable(variable)
        past = ops.gather(self.ov.op.read_value(empty, state), self.beams, self.constant(0))
        joined = ops.concat([past, new], 2)
        self.assigns.append(self.ov.op.assign(joined, state))
        return joined

    def repeated(self, x):
        """Once per query head of a group."""
        ops, shape, groups = self.ops, self.shape, self.shape.heads // self.shape.kv_heads
        if groups == 1:
            return x
        target = ops.concat([self.batch, self.constant([shape.kv_heads, groups]), self.total, self.constant([shape.head])], 0)
        wide = ops.broadcast(ops.unsqueeze(x, self.constant(2)), target, "BIDIRECTIONAL")
        return ops.reshape(wide, self.constant([0, shape.heads, -1, shape.head]), True)

    def attention(self, x, i: int):
        ops, shape = self.ops, self.shape
        q = self.rotated(self.heads(self.product(x, "attn_q"), "attn_q", shape.heads))
        k = self.cached(f"{i}.key", self.rotated(self.heads(self.product(x, "attn_k"), "attn_k", shape.kv_heads)))
        v = self.cached(f"{i}.value", self.heads(self.product(x, "attn_v"), "attn_v", shape.kv_heads))
        attended = ops.scaled_dot_product_attention(q, self.repeated(k), self.repeated(v), self.mask)
        joined = ops.reshape(ops.transpose(attended, self.constant([0, 2, 1, 3])), self.constant([0, 0, shape.heads * shape.head]), True)
        return self.product(joined, "attn_output")

    def model(self):
        ops, shape, i64 = self.ops, self.shape, self.ov.Type.i64
        ids, mask, positions = (ops.parameter([-1, -1], i64, name=name) for name in ("input_ids", "attention_mask", "position_ids"))
        self.beams = ops.parameter([-1], self.ov.Type.i32, name="beam_idx")
        inputs = [ids, mask, positions, self.beams]
        for one in inputs:
            one.output(0).set_names({one.get_friendly_name()})
        dims = ops.shape_of(ids)
        self.batch = ops.gather(dims, self.constant([0]), self.constant(0))
        self.total = ops.gather(ops.shape_of(mask), self.constant([1]), self.constant(0))
        self.rotation(positions)
        keys = ops.unsqueeze(ops.range(self.constant(0), ops.squeeze(self.total, self.constant(0)), self.constant(1), "i64"), self.constant([0, 1, 2]))
        seen = ops.less_equal(keys, ops.unsqueeze(ops.unsqueeze(positions, self.constant(1)), self.constant(3)))
        self.mask = ops.select(seen, self.constant(np.float32(0)), self.constant(np.float32(-65504)))
        x = ops.gather(self.weights("embedding", shape.vocab, shape.width), ids, self.constant(0))
        for i in range(shape.layers):
            x = ops.add(x, self.attention(self.normed(x), i))
            y = self.normed(x)
            x = ops.add(x, self.product(ops.multiply(ops.swish(self.product(y, "ffn_gate")), self.product(y, "ffn_up")), "ffn_down"))
        last = ops.slice(self.normed(x), self.constant([-1]), self.constant([2**31 - 1]), self.constant([1]), self.constant([1]))
        logits = ops.matmul(last, self.weights("embedding", shape.vocab, shape.width), False, True)
        result = ops.result(logits)
        result.output(0).set_names({"logits"})
        return self.ov.Model([result], self.assigns, inputs, "decoder")

    def rotation(self, positions) -> None:
        ops, head = self.ops, self.shape.head
        frequencies = self.constant((ROPE_BASE ** -(np.arange(0, head, 2) / head)).astype(np.float32).reshape(1, -1, 1))
        angles = ops.transpose(ops.matmul(frequencies, ops.convert(ops.unsqueeze(positions, self.constant(1)), "f32"), False, False), self.constant([0, 2, 1]))
        both = ops.concat([angles, angles], 2)
        self.cos, self.sin = (ops.unsqueeze(function(both), self.constant(1)) for function in (ops.cos, ops.sin))


class Loop(commands.Contender):
    def __init__(self, shape: Shape, path: str, threads: int):
        import openvino
        self.shape = shape
        self.request = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()

    def fill(self, n_sequences: int, depth: int) -> None:
        self.request.reset_state()
        self.length, self.sequences = 0, n_sequences
        self.append([commands.prompt_tokens(depth, sequence, self.shape.vocab) for sequence in range(n_sequences)])

    def rewind(self, depth: int) -> None:
        """Its cache only grows: the next round starts some tokens later."""

    def step(self, token: int) -> None:
        self.append([[one] for one in commands.step_tokens(token, self.sequences, self.shape.vocab)])

    def append(self, rows: list[list[int]]) -> None:
        ids = np.array(rows, np.int64)
        positions = np.broadcast_to(np.arange(self.length, self.length + ids.shape[1]), ids.shape)
        self.length += ids.shape[1]
        self.request.infer({"input_ids": ids, "attention_mask": np.ones((len(rows), self.length), np.int64), "position_ids": np.ascontiguousarray(positions),
                            "beam_idx": np.arange(len(rows), dtype=np.int32)}, share_inputs=True, share_outputs=True)


def main(shape: str, path: str, threads: str) -> None:
    commands.run(lambda: (Loop(SHAPES[shape], path, int(threads)), {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
