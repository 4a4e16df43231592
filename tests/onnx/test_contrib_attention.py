"""com.microsoft's attention operators in our reference evaluator against ONNX Runtime."""

import ml_dtypes
import numpy as np
import pytest
from differential import INT8_WEIGHTS, Case, angles, assert_agrees, assert_gives, assert_same, random, softmax
from onnx import TensorProto


def i32(*values):
    return np.array(values, np.int32)


# Every query sees a key: where none is left, ONNX Runtime's f32 scores near -10000 keep three digits.
SOME_KEYS = np.maximum((random(7, 2, 3, 3) > 0).astype(np.int32), np.eye(3, dtype=np.int32))


def group_query(batch, new, past, *, heads=4, kv_heads=2, size=16, packed=False, rotary=0, pairs=None, capacity=None, lengths=None, dtype=np.float32,
                extra=None, outputs=3, seed=0, **attributes):
    """lengths: total length of each sequence; past: positions in past_key; total: of the longest."""
    width, kv_width = heads * size, kv_heads * size
    total = past + new
    lengths = lengths or [total] * batch
    held = past if capacity is None else capacity
    if packed:
        qkv = [random(seed, batch, new, width + 2 * kv_width, dtype=dtype), None, None]
    else:
        qkv = [random(seed, batch, new, width, dtype=dtype)] + [random(seed + i, batch, new, kv_width, dtype=dtype) for i in (1, 2)]
    cache = [random(seed + i, batch, kv_heads, held, size, dtype=dtype) for i in (3, 4)]
    cos, sin = angles(total + 8, pairs or size // 2, dtype) if rotary else (None, None)
    inputs = qkv + cache + [i32(*[n - 1 for n in lengths]), i32(total), cos, sin] + [None] * 7
    for index, array in (extra or {}).items():
        inputs[index] = array
    while inputs[-1] is None:
        inputs.pop()
    return Case("GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=kv_heads, do_rotary=rotary, **attributes)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("batch,new,past", [(1, 5, 0), (2, 4, 0), (1, 1, 7), (3, 1, 6), (1, 3, 5)])
def test_group_query_attention_agrees(batch, new, past, rotary, packed):
    assert_agrees(group_query(batch, new, past, packed=packed, rotary=rotary))


@pytest.mark.parametrize("attributes", [
    {"rotary": 1, "rotary_interleaved": 1}, {"rotary": 1, "pairs": 8, "size": 32}, {"local_window_size": 3}, {"local_window_size": 1}, {"softcap": 2.0},
    {"smooth_softmax": 1}, {"scale": 0.3}, {"heads": 6, "kv_heads": 1}, {"heads": 2, "kv_heads": 2}, {"dtype": np.float16, "rotary": 1},
    {"softcap": 1.5, "local_window_size": 4, "smooth_softmax": 1, "rotary": 1}])
@pytest.mark.parametrize("batch,new,past", [(2, 6, 0), (2, 1, 7), (1, 3, 5)])
def test_group_query_attention_options_agree(batch, new, past, attributes):
    assert_agrees(group_query(batch, new, past, **attributes))


def test_group_query_attention_right_padding_agrees_on_real_tokens():
    case = group_query(3, 6, 0, lengths=[6, 3, 5], rotary=1)
    for found, wanted in zip(case.run_kvik(), case.run_onnxruntime()):
        for row, length in enumerate([6, 3, 5]):
            assert_same([wanted[row, :length] if wanted.ndim == 3 else wanted[row, :, :length]], [found[row, :length] if found.ndim == 3 else found[row, :, :length]])
    assert_agrees(group_query(3, 1, 7, lengths=[8, 4, 6], rotary=1))


def test_group_query_attention_cache_of_fixed_capacity_agrees():
    assert_agrees(group_query(2, 4, 0, capacity=12, rotary=1))
    assert_agrees(group_query(2, 1, 5, capacity=12, lengths=[6, 4], rotary=1))


def test_group_query_attention_takes_lengths_with_a_further_axis():
    case = group_query(2, 1, 5, lengths=[6, 4], extra={5: i32(5, 3).reshape(2, 1)})
    assert_agrees(case)


@pytest.mark.parametrize("shape", [(1, 1), (2, 4), (1, 4), (2, 1)])
def test_group_query_attention_bias_agrees(shape):
    assert_agrees(group_query(2, 1, 5, extra={10: random(9, *shape, 1, 6)}))
    assert_agrees(group_query(2, 5, 0, extra={10: random(9, *shape, 5, 5)}))


def test_group_query_attention_sinks_and_positions_agree():
    assert_agrees(group_query(2, 1, 5, extra={11: random(9, 4)}))
    assert_agrees(group_query(2, 5, 0, extra={11: random(9, 4)}))
    assert_agrees(group_query(2, 1, 5, rotary=1, extra={9: np.array([[3], [9]], np.int64)}))
    assert_agrees(group_query(1, 3, 5, rotary=1, extra={9: np.array([[7, 2, 4]], np.int64)}))
    assert_agrees(group_query(2, 3, 0, rotary=1, extra={9: np.array([[2, 3, 4], [2, 3, 4]], np.int64)}))


@pytest.mark.parametrize("qk_output", [1, 2])
def test_group_query_attention_scores_agree(qk_output):
    assert_agrees(group_query(1, 4, 0, outputs=4, qk_output=qk_output))
    assert_agrees(group_query(2, 1, 5, outputs=4, qk_output=qk_output))


def test_group_query_attention_is_bidirectional_where_asked():
    assert_agrees(group_query(2, 5, 0, causal=0))


@pytest.mark.parametrize("kind,shape", [("PER_TENSOR", (1,)), ("PER_CHANNEL", (1, 2, 1, 16))])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("new,past", [(1, 6), (4, 0)])
def test_group_query_attention_quantized_cache_agrees(new, past, bits, kind, shape):
    rng = np.random.default_rng(5)
    scales = [(np.abs(rng.standard_normal(shape)) * (0.02 if bits == 8 else 0.3) + 0.01).astype(np.float32) for _ in range(2)]
    stored = [rng.integers(-90, 90, (1, 2, past, 16)).astype(np.int8) if bits == 8 else rng.integers(0, 256, (1, 2, past, 8)).astype(np.uint8) for _ in range(2)]
    case = group_query(1, new, past, rotary=1, extra={3: stored[0], 4: stored[1], 12: scales[0], 13: scales[1]}, k_quant_type=kind, v_quant_type=kind,
                       kv_cache_bit_width=bits)
    wanted, found = case.run_onnxruntime(), case.run_kvik()
    assert_same(wanted[:1], found[:1], rtol=5e-3, atol=5e-3)
    for a, b in zip(wanted[1:], found[1:]):
        assert a.dtype == b.dtype and a.shape == b.shape and (a != b).mean() < 0.02


def test_group_query_attention_cache_in_8_bit_floats_is_the_cache_of_what_they_stand_for():
    scale = np.float32(0.25)
    stored = [random(i, 1, 2, 6, 16).astype(ml_dtypes.float8_e4m3fn) for i in (7, 8)]
    fresh = [random(i, 1, 1, 32).astype(ml_dtypes.float8_e4m3fn) for i in (9, 10)]
    meant = {i: x.astype(np.float32) * scale for i, x in zip((1, 2, 3, 4), fresh + stored)}
    quantized = group_query(1, 1, 6, extra={1: meant[1], 2: meant[2], 3: stored[0], 4: stored[1], 12: scale.reshape(1), 13: scale.reshape(1)}, k_quant_type="PER_TENSOR",
                            v_quant_type="PER_TENSOR", kv_cache_bit_width=8)
    found, expected = quantized.run_kvik(), group_query(1, 1, 6, extra=meant).run_onnxruntime()
    assert_same(expected[:1], found[:1])
    for a, b in zip(expected[1:], found[1:]):
        assert b.dtype == ml_dtypes.float8_e4m3fn
        np.testing.assert_array_equal(a, b.astype(np.float32) * scale)


def test_group_query_attention_normalizes_heads_before_rotation():
    batch, new, heads, kv_heads, size = 2, 3, 4, 2, 16
    weights = {14: random(20, size), 15: random(21, size)}
    case = group_query(batch, new, 0, extra=weights)

    def normed(x, n, weight):
        x = x.reshape(batch, new, n, size).astype(np.float64)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight
        return x.reshape(batch, new, n * size).astype(np.float32)

    q, k, v = case.inputs[:3]
    plain = group_query(batch, new, 0, extra={0: normed(q, heads, weights[14]), 1: normed(k, kv_heads, weights[15]), 2: v})
    assert_same(plain.run_onnxruntime(), case.run_kvik())


def test_group_query_attention_shared_cache_is_read_and_not_extended():
    empty = np.zeros((1, 0, 32), np.float32)
    assert_agrees(group_query(1, 1, 6, extra={1: empty, 2: empty, 3: random(3, 1, 2, 7, 16), 4: random(4, 1, 2, 7, 16)}))


@pytest.mark.parametrize("new,total", [(1, 3), (1, 9), (1, 14), (5, 12)])
def test_group_query_attention_window_cache_sees_what_a_full_cache_sees(new, total):
    """A cache that keeps only a window gives the same outputs as one that keeps everything."""
    capacity, window, size = 6, 4, 16
    past = total - new
    keys, values = random(30, 1, 2, past, size), random(31, 1, 2, past, size)
    full = group_query(1, new, past, extra={3: keys, 4: values}, local_window_size=window)
    gap = capacity - window + 1
    end = past if past <= capacity else past - gap * -(-(past - capacity) // gap)
    held = [np.zeros((1, 2, capacity, size), np.float32) for _ in range(2)]
    for buffer, rows in zip(held, (keys, values)):
        buffer[:, :, :end] = rows[:, :, past - end:]
    windowed = group_query(1, new, past, extra={3: held[0], 4: held[1]}, local_window_size=window, sliding_window_cache=1)
    found = windowed.run_kvik()
    assert_same(full.run_onnxruntime()[:1], found[:1])
    assert found[1].shape == (1, 2, capacity, size)


def multi_head(batch=2, queries=3, keys=3, past=0, *, heads=2, size=8, value_size=8, dtype=np.float32, extra=None, outputs=1, **attributes):
    inputs = [random(1, batch, queries, heads * size, dtype=dtype), random(2, batch, keys, heads * size, dtype=dtype),
              random(3, batch, keys, heads * value_size, dtype=dtype)] + [None] * 7
    if past:
        inputs[6], inputs[7] = (random(i, batch, heads, past, n, dtype=dtype) for i, n in ((4, size), (5, value_size)))
    for index, array in (extra or {}).items():
        inputs[index] = array
    while inputs[-1] is None:
        inputs.pop()
    return Case("MultiHeadAttention", inputs, outputs, num_heads=heads, **attributes)


@pytest.mark.parametrize("arguments", [
    {}, {"keys": 5}, {"value_size": 16}, {"past": 4, "outputs": 3}, {"unidirectional": 1}, {"unidirectional": 1, "past": 4, "outputs": 3}, {"scale": 0.2},
    {"extra": {3: random(8, 48)}}, {"extra": {4: i32(2, 3)}}, {"extra": {4: i32(1, 0, 1, 1, 1, 0).reshape(2, 3)}}, {"extra": {5: random(9, 2, 2, 3, 3)}},
    {"extra": {5: random(9, 1, 1, 3, 3)}}, {"extra": {4: SOME_KEYS}}, {"past": 2, "outputs": 3, "extra": {4: i32(0, 1, 1, 1, 1, 1, 1, 1, 1, 0).reshape(2, 5)}},
    {"keys": 5, "extra": {4: i32(5, 2)}, "mask_filter_value": -3.0},
    {"extra": {1: random(2, 2, 2, 5, 8), 2: random(3, 2, 2, 5, 8)}}, {"outputs": 4, "past": 2, "types": {3: TensorProto.FLOAT}}])
def test_multi_head_attention_agrees(arguments):
    assert_agrees(multi_head(**arguments))


def test_multi_head_attention_takes_packed_operands():
    q, k, v = (random(i, 2, 3, 2, 8) for i in (1, 2, 3))
    expected = multi_head(extra={0: q.reshape(2, 3, 16), 1: k.reshape(2, 3, 16), 2: v.reshape(2, 3, 16)}).run_onnxruntime()
    packed_kv = Case("MultiHeadAttention", [q.reshape(2, 3, 16), np.stack([k, v], 3)], num_heads=2)
    packed_qkv = Case("MultiHeadAttention", [np.stack([q, k, v], 3)], num_heads=2)
    assert_gives(packed_kv, *expected)
    assert_gives(packed_qkv, *expected)


def decoder_masked(batch=4, heads=2, size=8, capacity=7, past=3, extra=None, outputs=3, **attributes):
    width = heads * size
    inputs = [random(i, batch, 1, width) for i in (1, 2, 3)] + [None, None, random(4, batch, heads, capacity, size), random(5, batch, heads, capacity, size),
                                                                  i32(past), None, None, None]
    for index, array in (extra or {}).items():
        inputs[index] = array
    while inputs[-1] is None:
        inputs.pop()
    return Case("DecoderMaskedMultiHeadAttention", inputs, outputs, num_heads=heads, past_present_share_buffer=1, **attributes)


@pytest.mark.parametrize("extra", [{}, {3: (random(6, 4, 4) > -1).astype(np.int32)}, {4: random(7, 1, 2, 1, 4)}, {10: random(8, 48)},
                                   {8: i32(2), 9: np.random.default_rng(3).integers(0, 2, (2, 2, 7)).astype(np.int32)}])
def test_decoder_masked_attention_agrees(extra):
    case = decoder_masked(extra=extra)
    wanted, found = case.run_onnxruntime(), case.run_kvik()
    assert_same(wanted[:1], found[:1])
    for a, b in zip(wanted[1:], found[1:]):  # beyond the past and the new position a shared buffer holds what it held
        assert_same([a[:, :, :4]], [b[:, :, :4]])


def test_decoder_masked_attention_reads_a_finished_cache():
    inputs = [random(1, 2, 1, 16), random(2, 2, 2, 5, 8), random(3, 2, 2, 5, 8)]
    assert_agrees(Case("DecoderMaskedMultiHeadAttention", inputs, num_heads=2))


def attention(batch=2, length=3, width=12, heads=2, hidden=8, value=8, past=0, extra=None, outputs=1, **attributes):
    inputs = [random(1, batch, length, width), random(2, width, 2 * hidden + value), random(3, 2 * hidden + value), None,
              random(4, 2, batch, heads, past, hidden // heads) if past else None, None, None]
    for index, array in (extra or {}).items():
        inputs[index] = array
    while inputs[-1] is None:
        inputs.pop()
    return Case("Attention", inputs, outputs, num_heads=heads, **attributes)


@pytest.mark.parametrize("arguments", [
    {}, {"outputs": 2}, {"past": 4, "outputs": 2}, {"unidirectional": 1}, {"past": 4, "outputs": 2, "unidirectional": 1}, {"scale": 0.1},
    {"value": 16, "qkv_hidden_sizes": [8, 8, 16]}, {"extra": {3: i32(2, 3)}}, {"extra": {3: i32(2, 3, 1, 0)}}, {"extra": {3: i32(1, 0, 1, 1, 1, 0).reshape(2, 3)}},
    {"extra": {3: SOME_KEYS}}, {"extra": {5: random(9, 2, 2, 3, 3)}}, {"extra": {3: np.ones((2, 1), np.int32)}},
    {"past": 2, "outputs": 2, "unidirectional": 1, "extra": {3: np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], np.int32)}}])
def test_attention_agrees(arguments):
    assert_agrees(attention(**arguments))


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("weight_type", [np.int8, np.uint8])
def test_quantized_attention_agrees(weight_type, per_column, past):
    rng = np.random.default_rng(4)
    n = 24 if per_column else 1
    low, high = INT8_WEIGHTS if weight_type == np.int8 else (0, 256)
    inputs = [rng.integers(0, 256, (2, 3, 12)).astype(np.uint8), rng.integers(low, high, (12, 24)).astype(weight_type), random(3, 24),
              np.float32(0.02), (rng.random(n) * 0.01 + 0.002).astype(np.float32).reshape((n,) if per_column else ()), None, np.uint8(120),
              rng.integers(low // 4, high // 4, n).astype(weight_type).reshape((n,) if per_column else ()),
              random(5, 2, 2, 2, past, 4) if past else None]
    inputs = inputs if past else inputs[:-1]
    assert_agrees(Case("QAttention", inputs, 2, num_heads=2, unidirectional=1, constants=(1, 4, 7)))


def test_multi_head_attention_matches_the_formula():
    case = multi_head(batch=1, heads=1)
    q, k, v = (array[0].astype(np.float64) for array in case.inputs)
    assert_gives(case, (softmax(q @ k.T / np.sqrt(8)) @ v)[None].astype(np.float32))
