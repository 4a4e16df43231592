"""Invalid inputs are refused with one sentence that names the node; no input causes a crash."""

import pathlib
import tempfile

import numpy as np
import pytest
from differential import Case, angles, random


def i32(*values):
    return np.array(values, np.int32)


COS, SIN = angles(16, 8)
CASES = [
    Case("GroupQueryAttention", [random(1, 2, 1, 64), random(2, 2, 1, 32), random(3, 2, 1, 32), random(4, 2, 2, 5, 16), random(5, 2, 2, 5, 16), i32(5, 3), i32(6), COS,
                                 SIN], 3, num_heads=4, kv_num_heads=2, do_rotary=1),
    Case("MultiHeadAttention", [random(1, 2, 3, 16), random(2, 2, 3, 16), random(3, 2, 3, 16), random(4, 48), i32(2, 3), random(5, 2, 2, 3, 7), random(6, 2, 2, 4, 8),
                                random(7, 2, 2, 4, 8)], 3, num_heads=2),
    Case("DecoderMaskedMultiHeadAttention", [random(1, 4, 1, 16), random(2, 4, 1, 16), random(3, 4, 1, 16), None, None, random(4, 4, 2, 7, 8), random(5, 4, 2, 7, 8),
                                             i32(3), i32(2), np.zeros((2, 2, 7), np.int32)], 3, num_heads=2, past_present_share_buffer=1),
    Case("Attention", [random(1, 2, 3, 12), random(2, 12, 24), random(3, 24), i32(2, 3), random(4, 2, 2, 2, 4, 4)], 2, num_heads=2),
    Case("RotaryEmbedding", [random(1, 2, 5, 48), np.arange(10).reshape(2, 5), COS, SIN], num_heads=3),
    Case("SkipLayerNormalization", [random(1, 2, 3, 8), random(2, 3, 8), random(3, 8), random(4, 8), random(5, 8)]),
    Case("EmbedLayerNormalization", [i32(1, 5, 0, 2).reshape(2, 2), i32(0, 1, 1, 0).reshape(2, 2), random(1, 6, 8), random(2, 5, 8), random(3, 2, 8), random(4, 8),
                                     random(5, 8)]),
    Case("MatMulNBits", [random(1, 2, 40), np.ones((5, 3, 8), np.uint8), random(2, 5, 3), np.ones((5, 2), np.uint8), np.zeros(40, np.int32), random(3, 5)], K=40, N=5,
         bits=4, block_size=16),
    Case("MatMulBnb4", [random(1, 2, 32), np.ones(64, np.uint8), random(2, 8)], K=32, N=4, block_size=16, quant_type=1),
    Case("GatherBlockQuantized", [np.ones((6, 40), np.uint8), np.array([0, 5]), random(1, 6, 5), np.ones((6, 3), np.uint8)], bits=4, block_size=16),
    Case("MoE", [random(1, 5, 16), random(2, 5, 4), random(3, 4, 8, 16), random(4, 4, 8), random(5, 4, 16, 8), random(6, 4, 16)], k=2, activation_type="silu"),
    Case("LinearAttention", [random(1, 2, 3, 16), random(2, 2, 3, 16), random(3, 2, 3, 8), random(4, 2, 2, 8, 4), random(5, 2, 3, 2), random(6, 2, 3, 2)], 2, q_num_heads=2,
         kv_num_heads=2),
    Case("CausalConvWithState", [random(1, 2, 3, 6), random(2, 3, 1, 4), random(3, 3), random(4, 2, 3, 3)], 2),
    Case("DynamicQuantizeMatMul", [random(1, 3, 8), np.ones((8, 5), np.int8), random(2, 5), np.zeros(5, np.int8), random(3, 5)]),
    Case("QLinearConv", [np.ones((1, 2, 5, 5), np.uint8), np.float32(1), np.uint8(0), np.ones((3, 2, 3, 3), np.int8), random(1, 3), np.zeros(3, np.int8), np.float32(1),
                         np.uint8(0), np.zeros(3, np.int32)], domain=""),
    Case("Attention", [random(1, 2, 4, 3, 8), random(2, 2, 2, 3, 8), random(3, 2, 2, 3, 8), random(4, 2, 4, 3, 7), random(5, 2, 2, 4, 8), random(6, 2, 2, 4, 8)], 3,
         domain="", version=24),
    Case("TensorScatter", [random(1, 2, 3, 8, 4), random(2, 2, 3, 2, 4), np.array([1, 6])], domain="", version=24),
    Case("DequantizeLinear", [np.ones((4, 6), np.int8), random(1, 2, 6), np.zeros((2, 6), np.int8)], domain="", axis=0, block_size=2),
]
CHANGES = {
    "another axis": lambda x: x[None],
    "an axis less": lambda x: x.reshape(-1) if x.ndim != 1 else x[:1].reshape(()),
    "nothing": lambda x: x[:0] if x.ndim else x.reshape(1)[:0],
    "one more": lambda x: np.concatenate([x, x[-1:]]) if x.ndim else np.stack([x, x]),
    "another type": lambda x: x.astype(np.float64 if x.dtype.kind in "iu" else np.int64),
    "large numbers": lambda x: np.full_like(x, np.iinfo(x.dtype).max) if x.dtype.kind in "iu" else x * 1e30,
}


def outcome(case, inputs):
    changed = Case(case.op, inputs, len(case.model.graph.output), domain=case.model.graph.node[0].domain, version=case.model.opset_import[0].version)
    changed.model.graph.node[0].attribute.extend(case.model.graph.node[0].attribute)
    with tempfile.TemporaryDirectory(prefix="kvik-test-") as folder:
        return changed.evaluate(pathlib.Path(folder))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_inputs_that_do_not_fit_are_refused_with_a_sentence(case):
    assert case.run_kvik(), "the case itself runs"
    refused = 0
    for i, array in enumerate(case.inputs):
        if array is None:
            continue
        for what, change in {**CHANGES, "left out": lambda x: None}.items():
            done = outcome(case, case.inputs[:i] + [change(array)] + case.inputs[i + 1:])
            assert done.returncode in (0, 1), f"input {i}: {what}: {done.stderr}"
            if done.returncode == 1:
                refused += 1
                assert case.op in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert refused >= 2 * len([x for x in case.inputs if x is not None])
