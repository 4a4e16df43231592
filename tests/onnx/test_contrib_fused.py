"""com.microsoft's fused and small operators in our reference evaluator against ONNX Runtime."""

import numpy as np
import pytest
from differential import Case, angles, assert_agrees, assert_gives, assert_same, random, sigmoid, softmax

FLOATS = [np.float32, np.float16]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("beta,bias", [(False, False), (True, False), (True, True), (False, True)])
@pytest.mark.parametrize("shape,skip", [((2, 3, 8), (2, 3, 8)), ((2, 3, 8), (1, 3, 8)), ((2, 3, 8), (3, 8)), ((5, 8), (5, 8))])
def test_skip_layer_normalization_agrees(shape, skip, beta, bias, dtype):
    inputs = [random(1, *shape, dtype=dtype), random(2, *skip, dtype=dtype), random(3, 8, dtype=dtype), random(4, 8, dtype=dtype) if beta else None,
              random(5, 8, dtype=dtype) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    assert_agrees(Case("SkipLayerNormalization", inputs, 4, unwanted=(1, 2), epsilon=1e-5))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 8), (4, 8)])
def test_skip_simplified_layer_normalization_agrees(shape, bias, dtype):
    inputs = [random(1, *shape, dtype=dtype), random(2, *shape, dtype=dtype), random(3, 8, dtype=dtype)] + ([random(4, 8, dtype=dtype)] if bias else [])
    assert_agrees(Case("SkipSimplifiedLayerNormalization", inputs, 4, unwanted=(1, 2), epsilon=1e-6))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_normalization_agrees(axis, dtype):
    scale = random(2, *((8,) if axis == -1 else (3, 8)), dtype=dtype)
    assert_agrees(Case("SimplifiedLayerNormalization", [random(1, 2, 3, 8, dtype=dtype), scale], domain="", version=17, axis=axis, epsilon=1e-6, stash_type=1))


@pytest.mark.parametrize("optional", [(), ("segment",), ("segment", "mask"), ("segment", "mask", "position")])
def test_embed_layer_normalization_agrees(optional):
    ids = np.array([[1, 5, 0], [2, 2, 4]], np.int32)
    inputs = [ids, np.array([[0, 1, 1], [0, 0, 1]], np.int32) if "segment" in optional else None, random(1, 6, 8), random(2, 5, 8),
              random(3, 2, 8) if "segment" in optional else None, random(4, 8), random(5, 8), np.array([[1, 1, 0], [1, 1, 1]], np.int32) if "mask" in optional else None,
              np.array([[2, 3, 4]], np.int32) if "position" in optional else None]
    while inputs[-1] is None:
        inputs.pop()
    assert_agrees(Case("EmbedLayerNormalization", inputs, 3, epsilon=1e-5))


def test_gated_norms_follow_their_formulas():
    x, scale, gate = random(1, 2, 3, 8), random(2, 4), random(3, 2, 3, 8)
    grouped = x.astype(np.float64).reshape(2, 3, 2, 4)
    normed = (grouped / np.sqrt((grouped**2).mean(-1, keepdims=True) + 1e-5) * scale).reshape(2, 3, 8)
    assert_gives(Case("GatedRMSNorm", [x, scale, gate]), (normed * gate * sigmoid(gate.astype(np.float64))).astype(np.float32))
    assert_gives(Case("GatedAdd", [x, gate, x[..., :1]]), x + gate * x[..., :1])
    a, bias, decay, b = random(4, 2, 3, 5), random(5, 5), random(6, 5), random(7, 2, 3, 5)
    expected = decay * np.log1p(np.exp(a.astype(np.float64) + bias))
    assert_gives(Case("LinearAttentionGate", [a, bias, decay, b], 2), expected.astype(np.float32), sigmoid(b))


@pytest.mark.parametrize("case", [Case("Gelu", [random(1, 3, 8)]), Case("BiasGelu", [random(1, 3, 8), random(2, 8)]), Case("FastGelu", [random(1, 3, 8)]),
                                  Case("FastGelu", [random(1, 3, 8), random(2, 8)]), Case("QuickGelu", [random(1, 3, 8)]), Case("QuickGelu", [random(1, 3, 8)], alpha=1.0)],
                         ids=lambda case: case.op)
def test_activations_agree(case):
    assert_agrees(case)


def test_activations_without_a_kernel_elsewhere_follow_their_formulas():
    from math import erf

    x, bias, skip = random(1, 2, 3, 8), random(2, 8), random(3, 2, 3, 8)
    gelu = np.vectorize(lambda v: 0.5 * v * (1 + erf(v / np.sqrt(2))))
    assert_gives(Case("BiasAdd", [x, bias, skip]), x + bias + skip)
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    assert_gives(Case("BiasSplitGelu", [x, bias]), (left * gelu(right)).astype(np.float32))
    mask = random(4, 2, 1, 8)
    assert_gives(Case("BiasSoftmax", [x, mask], axis=2, is_inner_broadcast=1), softmax(x + mask))
    assert_gives(Case("SwiGLU", [x, skip], domain="", version=28, alpha=0.5), x * sigmoid(0.5 * x) * skip)


@pytest.mark.parametrize("op", ["FusedMatMul", "TransposeMatMul"])
@pytest.mark.parametrize("a,b,attributes", [
    ((2, 3), (3, 4), {}), ((3, 2), (3, 4), {"transA": 1}), ((2, 3), (4, 3), {"transB": 1, "alpha": 0.5}), ((5, 2, 3), (5, 3, 4), {}), ((5, 1, 2, 3), (6, 3, 4), {}),
    ((3,), (3, 4), {}), ((2, 3), (3,), {}), ((5, 3, 2), (5, 4, 3), {"transA": 1, "transB": 1, "alpha": 2.0})])
def test_fused_matmul_agrees(op, a, b, attributes):
    assert_agrees(Case(op, [random(1, *a), random(2, *b)], **attributes))


@pytest.mark.parametrize("a,b,attributes", [
    ((2, 5, 6, 3), (5, 6, 3, 4), {"transBatchA": 1}), ((5, 6, 2, 3), (3, 5, 6, 4), {"transBatchB": 1}), ((2, 5, 3), (3, 5, 4), {"transBatchA": 1, "transBatchB": 1}),
    ((3, 5, 2), (5, 3, 4), {"transA": 1, "transBatchA": 1})])
def test_fused_matmul_with_moved_batches_agrees(a, b, attributes):
    assert_agrees(Case("FusedMatMul", [random(1, *a), random(2, *b)], **attributes))


@pytest.mark.parametrize("activation", [{"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.1}, {"activation": "Tanh"}, {"activation": "Sigmoid"}])
@pytest.mark.parametrize("c", [None, (4,), (2, 1), (2, 4)])
def test_fused_gemm_agrees(c, activation):
    inputs = [random(1, 3, 2), random(2, 3, 4)] + ([random(3, *c)] if c else [])
    assert_agrees(Case("FusedGemm", inputs, transA=1, alpha=0.5, beta=2.0, **activation))


@pytest.mark.parametrize("activation", [{}, {"activation": "Relu"}, {"activation": "LeakyRelu", "activation_params": [0.2]}, {"activation": "Clip", "activation_params": [-0.5, 0.5]}])
@pytest.mark.parametrize("addend", [False, True])
def test_fused_conv_agrees(addend, activation):
    inputs = [random(1, 2, 4, 5, 6), random(2, 3, 4, 3, 2), random(3, 3)] + ([random(4, 2, 3, 3, 5)] if addend else [])
    assert_agrees(Case("FusedConv", inputs, **activation))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["3d", "3d with heads", "4d", "part", "offset"])
def test_rotary_embedding_agrees(form, interleaved, dtype):
    cos, sin = angles(12, 2 if form == "part" else 4, dtype)
    x = random(1, 2, 3, 5, 8, dtype=dtype) if form == "4d" else random(1, 2, 5, 24, dtype=dtype)
    positions = np.array([3], np.int64) if form == "offset" else np.random.default_rng(2).integers(0, 12, (2, 5))
    attributes = {"3d with heads": {"num_heads": 3}, "part": {"num_heads": 3, "rotary_embedding_dim": 4}}.get(form, {})
    assert_agrees(Case("RotaryEmbedding", [x, positions, cos, sin], interleaved=interleaved, **attributes))


@pytest.mark.parametrize("layout", [0, 1])
def test_multimodal_rotary_embedding_mixes_three_positions(layout):
    cos, sin = angles(12, 6)
    x, positions = random(1, 1, 2, 4, 12), np.random.default_rng(2).integers(0, 12, (3, 1, 4))
    stream = np.array([0, 0, 1, 1, 2, 2] if layout == 0 else [0, 1, 2, 0, 1, 2])
    chosen = positions[stream, 0].T  # [tokens, pairs]
    c, s = cos[chosen, np.arange(6)], sin[chosen, np.arange(6)]
    first, second = x[..., :6], x[..., 6:]
    expected = np.concatenate([first * c - second * s, first * s + second * c], -1)
    assert_gives(Case("MRotaryEmbedding", [x, positions, cos, sin], mrope_section=[2, 2, 2], mrope_layout=layout), expected.astype(np.float32))


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("heads,kv_heads,key_heads", [(4, 2, 2), (2, 4, 2), (4, 4, 4)])
def test_linear_attention_agrees(heads, kv_heads, key_heads, rule):
    batch, length, size, value = 2, 3, 8, 4
    inputs = [random(1, batch, length, heads * size), random(2, batch, length, key_heads * size) / 4, random(3, batch, length, kv_heads * value),
              random(4, batch, kv_heads, size, value), -np.abs(random(5, batch, length, kv_heads)) if "gated" in rule else None,
              sigmoid(random(6, batch, length, kv_heads)) if "delta" in rule else None]
    while inputs[-1] is None:
        inputs.pop()
    assert_agrees(Case("LinearAttention", inputs, 2, q_num_heads=heads, kv_num_heads=kv_heads, update_rule=rule), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("past,bias", [(False, False), (True, True)])
def test_causal_convolution_agrees(past, bias, activation):
    inputs = [random(1, 2, 3, 6), random(2, 3, 1, 4), random(3, 3) if bias else None, random(4, 2, 3, 3) if past else None]
    while inputs[-1] is None:
        inputs.pop()
    assert_agrees(Case("CausalConvWithState", inputs, 2, activation=activation))


def test_windows_of_states_are_the_states_of_prefixes():
    batch, length, size = 1, 5, 4
    q, k, v = (random(i, batch, length, 2 * size) for i in (1, 2, 3))
    decay, beta = -np.abs(random(4, batch, length, 2)), sigmoid(random(5, batch, length, 2))
    attributes = {"q_num_heads": 2, "kv_num_heads": 2}
    windowed = Case("LinearAttention", [q, k, v, None, decay, beta], 2, state_window=2, **attributes).run_kvik()
    for slot, end in enumerate((length - 1, length)):
        prefix = Case("LinearAttention", [a[:, :end] for a in (q, k, v)] + [None, decay[:, :end], beta[:, :end]], 2, **attributes).run_onnxruntime()
        assert_same(prefix[1:], [windowed[1][slot]], rtol=1e-3, atol=1e-4)


def test_small_operators_agree():
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]], np.int64)
    for size in (1, 2, 3, 5):
        assert_agrees(Case("NGramRepeatBlock", [ids, random(1, 2, 6)], ngram_size=size))
    assert_agrees(Case("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], 3))
    for axis in (0, 2, -1, -3):
        assert_agrees(Case("ExpandDims", [random(1, 2, 3), np.int32(axis)], constants=(1,)))
    for upper in (0, 1):
        assert_agrees(Case("Trilu", [random(1, 2, 4, 5), np.array(1, np.int64)], upper=upper))


def test_generation_loops_are_refused_with_a_sentence():
    case = Case("GreedySearch", [np.ones((1, 3), np.int32), np.array([8], np.int32)])
    assert "runs a whole generation" in case.refusal()


def sparse(new, total, lengths, capacity=64, block=16, rotary=0):
    layouts = np.tril(np.ones((2, 4, 4), bool))
    layouts[0, 2, 0] = layouts[0, 3, 1] = layouts[1, 3, 0] = False
    rows = np.concatenate([np.zeros((2, 1), np.int64), layouts.sum(2).cumsum(1)], 1).astype(np.int32)
    columns = np.full((2, rows.max()), -1, np.int32)
    for i in range(2):
        found = np.nonzero(layouts[i])[1]
        columns[i, :len(found)] = found
    batch, cos, sin = len(lengths), *(angles(64, 8) if rotary else (None, None))
    inputs = [random(1, batch, new, 64), random(2, batch, new, 32), random(3, batch, new, 32), random(4, batch, 2, capacity, 16), random(5, batch, 2, capacity, 16),
              rows, columns, np.array([total], np.int32), np.array(lengths, np.int32), cos, sin][:11 if rotary else 9]
    return Case("SparseAttention", inputs, 3, num_heads=4, kv_num_heads=2, sparse_block_size=block, do_rotary=rotary)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("new,total,lengths", [(50, 50, [50]), (1, 60, [60]), (1, 40, [40, 33])])
def test_sparse_attention_agrees_for_each_sequence_alone(new, total, lengths, rotary):
    case = sparse(new, total, lengths, rotary=rotary)
    found = case.run_kvik()
    for row, length in enumerate(lengths):
        alone = Case("SparseAttention", [a[row:row + 1] for a in case.inputs[:5]] + case.inputs[5:7] +
                     [np.array([length], np.int32), np.array([length], np.int32)] + case.inputs[9:], 3, num_heads=4, kv_num_heads=2, sparse_block_size=16,
                     do_rotary=rotary)
        expected = alone.run_onnxruntime(in_place={1: 3, 2: 4})
        assert_same(expected[:1], [found[0][row:row + 1]])
        for a, b in zip(expected[1:], found[1:]):
            assert_same([a[0, :, :length]], [b[row, :, :length]])


def test_paged_attention_is_attention_over_each_sequence():
    heads, kv_heads, size, block = 4, 2, 16, 4
    past, new = [5, 0, 3], [1, 3, 2]
    cos, sin = angles(16, size // 2)
    tables = np.array([[3, 0], [5, 1], [2, 4]], np.int32)
    caches = [random(i, 6, block, kv_heads, size) for i in (1, 2)]
    q, k, v = random(3, 6, heads * size), random(4, 6, kv_heads * size), random(5, 6, kv_heads * size)
    starts = np.cumsum([0] + new).astype(np.int32)
    inputs = [q, k, v, *caches, starts, np.array(past, np.int32), tables, cos, sin]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": 1}
    found = Case("PagedAttention", inputs, 3, **attributes).run_kvik()
    for i in range(3):
        rows = slice(starts[i], starts[i + 1])
        held = [cache[tables[i]].reshape(-1, kv_heads, size)[:past[i]].transpose(1, 0, 2)[None] for cache in caches]
        alone = Case("GroupQueryAttention", [q[None, rows], k[None, rows], v[None, rows], *held, np.array([past[i] + new[i] - 1], np.int32),
                                             np.array([past[i] + new[i]], np.int32), cos, sin], 3, **attributes).run_onnxruntime()
        assert_same([alone[0][0]], [found[0][rows]])
        for present, cache in zip(alone[1:], found[1:]):
            assert_same([present[0]], [cache[tables[i]].reshape(-1, kv_heads, size)[:past[i] + new[i]].transpose(1, 0, 2)])
