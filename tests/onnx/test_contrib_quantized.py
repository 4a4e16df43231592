"""Quantized operators in our reference evaluator against ONNX Runtime."""

import ml_dtypes
import numpy as np
import pytest
from differential import INT8_WEIGHTS, Case, assert_agrees, assert_gives, assert_same, random, sigmoid


def integers(seed, low, high, shape, dtype):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def positive(seed, *shape):
    return (np.abs(random(seed, *shape)) * 0.1 + 0.01).astype(np.float32)


def packed(codes, bits):
    """Codes along the last axis into bytes, lowest bits first; the last byte is padded."""
    per_byte = 8 // bits
    pad = -codes.shape[-1] % per_byte
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, pad)]).astype(np.uint8)
    codes = codes.reshape(*codes.shape[:-1], -1, per_byte)
    return np.bitwise_or.reduce(codes << (np.arange(per_byte, dtype=np.uint8) * bits), axis=-1).astype(np.uint8)


def nbits(bits, n=5, k=40, block=16, zero_points=None, dtype=np.float32, bias=False, group_index=None, rows=(2, 3), accuracy_level=0):
    blocks = -(-k // block)
    codes = integers(1, 0, 1 << bits, (n, blocks, block), np.uint8)
    zeros = None
    if zero_points == "packed":
        zeros = packed(integers(2, 0, 1 << bits, (n, blocks), np.uint8), bits)
    elif zero_points == "float":
        zeros = (random(2, n, blocks) * 2 + (1 << (bits - 1))).astype(dtype)
    inputs = [random(3, *rows, k, dtype=dtype), packed(codes, bits), positive(4, n, blocks).astype(dtype), zeros, group_index,
              random(5, n, dtype=dtype) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    return Case("MatMulNBits", inputs, K=k, N=n, bits=bits, block_size=block, accuracy_level=accuracy_level, constants=(1, 2, 3, 4, 5))


@pytest.mark.parametrize("zero_points", [None, "packed", "float"])
@pytest.mark.parametrize("bits,k,block", [(4, 40, 16), (4, 64, 32), (4, 100, 64), (8, 40, 16), (8, 128, 64), (2, 64, 32)])
def test_matmul_nbits_agrees(bits, k, block, zero_points):
    if zero_points == "float" and bits != 4:
        pytest.skip("ONNX Runtime's CPU provider takes float zero points with 4 bits only")
    assert_agrees(nbits(bits, k=k, block=block, zero_points=zero_points))


def test_matmul_nbits_with_bias_and_in_f16_agrees():
    assert_agrees(nbits(4, bias=True, zero_points="packed"))
    assert_agrees(nbits(4, dtype=np.float16, rows=(4,)), rtol=1e-2, atol=1e-2)


def test_matmul_nbits_follows_the_group_index():
    group_index = integers(6, 0, 3, (40,), np.int32)
    assert_agrees(nbits(4, group_index=group_index))
    case = nbits(4, group_index=group_index, zero_points="packed")  # here ONNX Runtime forgets the zero points
    x, codes, scales, zeros = case.inputs[:4]
    unpacked = np.stack([codes & 15, codes >> 4], -1).reshape(5, 48)[:, :40].astype(np.float64)
    zeros = np.stack([zeros & 15, zeros >> 4], -1).reshape(5, 4).astype(np.float64)
    weights = (unpacked - zeros[:, group_index]) * scales[:, group_index]
    assert_gives(case, (x @ weights.T).astype(np.float32))


@pytest.mark.parametrize("bits", [2, 8])
def test_matmul_nbits_takes_float_zero_points_of_any_width(bits):
    case = nbits(bits, k=32, block=16, zero_points="float")
    x, codes, scales, zeros = case.inputs[:4]
    per_byte = 8 // bits
    unpacked = np.stack([(codes >> (bits * i)) & ((1 << bits) - 1) for i in range(per_byte)], -1).reshape(5, 2, 16).astype(np.float64)
    weights = ((unpacked - zeros[..., None]) * scales[..., None]).reshape(5, 32)
    assert_gives(case, (x @ weights.T).astype(np.float32))


@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize("n,k,block", [(4, 32, 16), (3, 48, 32)])
def test_matmul_bnb4_agrees(n, k, block, quant_type):
    size = n * k
    inputs = [random(1, 2, k), integers(2, 0, 256, ((size + 1) // 2,), np.uint8), positive(3, -(-size // block))]
    assert_agrees(Case("MatMulBnb4", inputs, K=k, N=n, block_size=block, quant_type=quant_type, constants=(1, 2)))


@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_gather_block_quantized_bytes_agree(bits, zero_points):
    rows, width, block = 6, 80, 16
    data = packed(integers(1, 0, 1 << bits, (rows, width), np.uint8), bits)
    zeros = packed(integers(2, 0, 1 << bits, (rows, width // block), np.uint8), bits) if zero_points else None
    inputs = [data, integers(3, -rows, rows, (2, 3), np.int64), positive(4, rows, width // block), zeros][:4 if zero_points else 3]
    assert_agrees(Case("GatherBlockQuantized", inputs, bits=bits, block_size=block, gather_axis=0, quantize_axis=1, constants=(0, 2, 3)))


@pytest.mark.parametrize("dtype,low,high", [(ml_dtypes.uint4, 0, 16), (ml_dtypes.int4, -8, 8)])
@pytest.mark.parametrize("gather_axis,quantize_axis", [(0, 1), (0, 2), (1, 2), (1, 0), (2, 1), (0, 0)])
def test_gather_block_quantized_nibbles_agree(gather_axis, quantize_axis, dtype, low, high):
    shape, block = [20, 18, 32], 16
    blocks = list(shape)
    blocks[quantize_axis] = -(-shape[quantize_axis] // block)
    inputs = [integers(1, low, high, shape, dtype), integers(3, 0, shape[gather_axis], (4,), np.int32), positive(4, *blocks), integers(2, low, high, blocks, dtype)]
    assert_agrees(Case("GatherBlockQuantized", inputs, block_size=block, gather_axis=gather_axis, quantize_axis=quantize_axis, constants=(0, 2, 3)))


@pytest.mark.parametrize("weight_type", [np.int8, np.uint8])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_quantize_matmul_agrees(weight_type, per_column, bias):
    low, high = INT8_WEIGHTS if weight_type == np.int8 else (0, 256)
    n = (7,) if per_column else ()
    inputs = [random(1, 2, 3, 16), integers(2, low, high, (16, 7), weight_type), positive(3, *n), integers(4, low // 2, high // 2, n, weight_type),
              random(5, 7) if bias else None][:5 if bias else 4]
    assert_agrees(Case("DynamicQuantizeMatMul", inputs, constants=(1,)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("types", [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
@pytest.mark.parametrize("per_column", [False, True])
def test_matmul_integer_to_float_agrees(types, per_column):
    def limits(dtype):
        return INT8_WEIGHTS if dtype == np.int8 else (0, 256)

    n = (5,) if per_column else ()
    inputs = [integers(1, *limits(types[0]), (2, 4, 8), types[0]), integers(2, *limits(types[1]), (8, 5), types[1]), np.float32(0.02), positive(3, *n),
              integers(4, 0, 100, (), types[0]), integers(5, 0, 100, n, types[1]), random(6, 5)]
    assert_agrees(Case("MatMulIntegerToFloat", inputs), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_qgemm_agrees(transposed, quantized):
    a = integers(1, 0, 256, (6, 4) if transposed[0] else (4, 6), np.uint8)
    b = integers(2, *INT8_WEIGHTS, (5, 6) if transposed[1] else (6, 5), np.int8)
    inputs = [a, np.float32(0.03), np.uint8(120), b, positive(3, 5), integers(4, -5, 5, (5,), np.int8), integers(5, -300, 300, (5,), np.int32)]
    inputs += [np.float32(0.5), np.uint8(100)] if quantized else []
    case = Case("QGemm", inputs, alpha=0.7, transA=transposed[0], transB=transposed[1])
    assert_agrees(case, **({"atol": 1} if quantized else {}))


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype,zero", [(np.uint8, 128), (np.int8, 3)])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (1, 5)), ((4,), ())])
def test_qlinear_binary_agrees(op, dtype, zero, shapes):
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    inputs = [integers(1, low, high, shapes[0], dtype), np.float32(0.02), dtype(zero), integers(2, low, high, shapes[1], dtype), np.float32(0.03),
              dtype(zero - 2), np.float32(0.05), dtype(zero + 1)]
    assert_agrees(Case(op, inputs), atol=1)


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype,zero", [(np.uint8, 128), (np.int8, 3)])
def test_qlinear_unary_agrees(op, dtype, zero):
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    inputs = [integers(1, low, high, (3, 5), dtype), np.float32(0.04), dtype(zero), np.float32(0.01), dtype(zero - 7)]
    assert_agrees(Case(op, inputs, constants=(1, 2, 3, 4), **({"alpha": 0.2} if op == "QLinearLeakyRelu" else {})), atol=1)


def test_qlinear_softmax_agrees():
    inputs = [integers(1, 0, 256, (3, 4, 5), np.uint8), np.float32(0.04), np.uint8(128), np.float32(1 / 256), np.uint8(0)]
    assert_agrees(Case("QLinearSoftmax", inputs, axis=-1, opset=13, constants=(1, 2, 3, 4)), atol=1)


def test_qlinear_concat_agrees():
    inputs = [np.float32(0.03), np.uint8(10)]
    for i, width in enumerate((2, 3, 1)):
        inputs += [integers(i, 0, 256, (2, width, 4), np.uint8), np.float32(0.02 + 0.01 * i), np.uint8(5 * i)]
    assert_agrees(Case("QLinearConcat", inputs, axis=1, constants=(0, 1, 3, 4, 6, 7, 9, 10)), atol=1)


@pytest.mark.parametrize("axis,shape", [(None, ()), (1, (3,)), (0, (2,)), (-1, (4,))])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_microsoft_quantize_and_dequantize_agree(dtype, axis, shape):
    limits = np.iinfo(dtype)
    scale, zero = positive(1, *shape), integers(2, max(limits.min, -90), 90, shape, dtype)
    attributes = {} if axis is None else {"axis": axis}
    assert_agrees(Case("QuantizeLinear", [random(3, 2, 3, 4) * 5, scale, zero], **attributes))
    x = integers(4, limits.min, limits.max + 1, (2, 3, 4), dtype)
    assert_agrees(Case("DequantizeLinear", [x, scale, zero], **attributes))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 1, 1], "strides": [2, 1]}, {"dilations": [2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}])
def test_quantized_convolutions_agree(attributes, group):
    x, w = integers(1, 0, 256, (2, 4, 6, 7), np.uint8), integers(2, *INT8_WEIGHTS, (6, 4 // group, 3, 2), np.int8)
    assert_agrees(Case("ConvInteger", [x, np.abs(w.astype(np.int16)).astype(np.uint8), np.uint8(100), np.uint8(7)], domain="", group=group, **attributes))
    inputs = [x, np.float32(0.02), np.uint8(120), w, positive(3, 6), integers(4, 0, 1, (6,), np.int8), np.float32(0.6), np.uint8(110),
              integers(5, -500, 500, (6,), np.int32)]
    assert_agrees(Case("QLinearConv", inputs, domain="", group=group, constants=(3, 4, 5, 8), **attributes), atol=1)


def moe(seed=0, tokens=5, hidden=16, inter=8, experts=4, fused=1, bias=True, **attributes):
    inputs = [random(seed, tokens, hidden), random(seed + 1, tokens, experts), random(seed + 2, experts, fused * inter, hidden),
              random(seed + 3, experts, fused * inter) if bias else None, random(seed + 4, experts, hidden, inter), random(seed + 5, experts, hidden) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    return Case("MoE", inputs, **attributes)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
@pytest.mark.parametrize("k,normalize", [(1, 0), (2, 0), (2, 1)])
def test_moe_agrees(activation, k, normalize):
    assert_agrees(moe(activation_type=activation, k=k, normalize_routing_weights=normalize), rtol=1e-3, atol=1e-3)
    assert_agrees(moe(bias=False, activation_type=activation, k=k, normalize_routing_weights=normalize), rtol=1e-3, atol=1e-3)


def test_moe_with_swiglu_agrees():
    assert_agrees(moe(fused=2, activation_type="swiglu", swiglu_fusion=1, k=2, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=2.0), rtol=1e-3, atol=1e-3)


def test_moe_forms_of_swiglu_are_one():
    """Interleaved, concatenated and separate weights give the same."""
    fused = moe(fused=2, bias=False, activation_type="swiglu", swiglu_fusion=1, k=2)
    x, router, first, _, second = fused.inputs[:5]
    expected = fused.run_onnxruntime()
    gate, linear = first[:, 0::2], first[:, 1::2]
    assert_gives(Case("MoE", [x, router, np.concatenate([gate, linear], 1), None, second], activation_type="swiglu", swiglu_fusion=2, k=2), *expected, rtol=1e-3, atol=1e-3)
    assert_gives(Case("MoE", [x, router, gate, None, second, None, linear], activation_type="swiglu", k=2), *expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block,zero_points", [(0, False), (16, False), (16, True), (0, True)])
def test_quantized_moe_agrees(bits, block, zero_points):
    tokens, hidden, inter, experts, pack = 4, 64, 64, 3, 8 // bits
    if zero_points and bits == 2:
        pytest.skip("ONNX Runtime asks for more blocks there")
    rng = np.random.default_rng(7)

    def weights(out, width):
        codes = packed(rng.integers(0, 1 << bits, (experts, out, width)), bits)
        scales = (rng.random((experts, out, width // block) if block else (experts, out)) * 0.02 + 0.005).astype(np.float32)
        zeros = None
        if zero_points:
            zeros = packed(rng.integers(0, 1 << bits, (experts, out, width // block) if block else (experts, out)), bits)
        return codes, scales, zeros

    first, second = weights(inter, hidden), weights(hidden, inter)
    inputs = [random(1, tokens, hidden), random(2, tokens, experts), first[0], first[1], random(3, experts, inter), second[0], second[1], random(4, experts, hidden),
              None, None, None, first[2], second[2]]
    while inputs[-1] is None:
        inputs.pop()
    attributes = {"block_size": block} if block else {}
    case = Case("QMoE", inputs, k=2, expert_weight_bits=bits, activation_type="silu", normalize_routing_weights=1, constants=(2, 3, 5, 6, 11, 12), **attributes)
    expected = case.run_onnxruntime()
    assert_same(expected, case.run_kvik(), rtol=0, atol=0.02 * np.abs(expected[0]).max())  # ONNX Runtime may quantize the activations too


def test_quantized_moe_takes_its_weights_from_a_second_router():
    tokens, hidden, inter, experts = 4, 32, 32, 3
    rng = np.random.default_rng(7)
    first, second = (packed(rng.integers(0, 16, (experts, 32, 32)), 4) for _ in range(2))
    scales = [(rng.random((experts, 32)) * 0.02 + 0.005).astype(np.float32) for _ in range(2)]
    inputs = [random(1, tokens, hidden), random(2, tokens, experts), first, scales[0], None, second, scales[1], None, None, None, None, None, None, None,
              rng.random((tokens, experts)).astype(np.float32)]
    assert_agrees(Case("QMoE", inputs, k=2, expert_weight_bits=4, activation_type="relu", normalize_routing_weights=1, constants=(2, 3, 5, 6)), rtol=1e-2, atol=1e-2)
    assert_agrees(Case("QMoE", inputs, k=2, expert_weight_bits=4, activation_type="relu", constants=(2, 3, 5, 6)), rtol=1e-2, atol=1e-2)


def test_small_float_experts_follow_the_formula():
    rng = np.random.default_rng(9)
    tokens, width, experts = 3, 32, 2
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = [rng.integers(0, 16, (experts, width, width)) for _ in range(2)]
    scales = [(2.0 ** rng.integers(-3, 2, (experts, width, 1))).astype(ml_dtypes.float8_e8m0fnu) for _ in range(2)]
    overall = [positive(i, experts) for i in (1, 2)]
    x, router = random(3, tokens, width), random(4, tokens, experts)
    dense = [e2m1[c] * s.astype(np.float64) * g[:, None, None] for c, s, g in zip(codes, scales, overall)]
    expected = np.zeros((tokens, width))
    for t in range(tokens):
        expert = router[t].argmax()
        weight = np.exp(router[t, expert]) / np.exp(router[t]).sum()
        expected[t] = weight * (dense[1][expert] @ np.maximum(dense[0][expert] @ x[t], 0))
    inputs = [x, router, packed(codes[0], 4), scales[0], None, packed(codes[1], 4), scales[1]] + [None] * 8 + overall
    assert_gives(Case("QMoE", inputs, k=1, quant_type="fp4", activation_type="relu", constants=(2, 3, 5, 6)), expected.astype(np.float32), rtol=1e-3, atol=1e-3)


def test_small_float_weights_follow_the_formula():
    rng = np.random.default_rng(9)
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    x, bias = random(1, 3, 32, dtype=np.float16), random(2, 4, dtype=np.float16)
    codes, scales = rng.integers(0, 16, (4, 32)), rng.random((4, 2)).astype(ml_dtypes.float8_e4m3fn)
    weights = e2m1[codes] * np.repeat(scales.astype(np.float64), 16, 1) * 0.5
    case = Case("MatMulBlockQuantizedFp4Weight", [x, packed(codes, 4), scales.view(np.uint8), np.float32(0.5), None, bias])
    assert_gives(case, (x.astype(np.float64) @ weights.T + bias).astype(np.float16))
    small, scale = rng.standard_normal((4, 32)).astype(ml_dtypes.float8_e4m3fn), positive(5, 4, 2)
    weights = small.astype(np.float64) * np.repeat(scale, 16, 1)
    assert_gives(Case("MatMulBlockQuantizedFp8Weight", [x, small, scale], block_size=16), (x.astype(np.float64) @ weights.T).astype(np.float16))


def test_fused_projections_are_their_parts():
    k, n, block = 32, 6, 32
    x, skip, scale = random(1, 2, k), random(2, 2, k), random(3, k)
    weights = [(packed(integers(i, 0, 16, (n, 1, block), np.uint8), 4), positive(i, n, 1)) for i in (4, 5, 6)]
    total = x.astype(np.float64) + skip
    normed = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * scale

    def product(codes, scales):
        dense = np.stack([codes & 15, codes >> 4], -1).reshape(n, k).astype(np.float64)
        return normed @ ((dense - 8) * scales).T

    q, key, v = (product(*w) for w in weights)
    (gate_codes, gate_scales), (up_codes, up_scales) = weights[:2]
    attributes = {"K": k, "bits": 4, "block_size": block}
    assert_gives(Case("MatMulNBitsMlp", [x, skip, scale, gate_codes, gate_scales, None, up_codes, up_scales], 2, N=n, activation="silu", **attributes),
                 (q * sigmoid(q) * key).astype(np.float32), total.astype(np.float32), rtol=1e-3)
    inputs = [x, skip, scale] + [part for codes, scales in weights for part in (codes, scales, None)]
    assert_gives(Case("MatMulNBitsQkv", inputs[:-1], 4, Nq=n, Nkv=n, **attributes), *(part.astype(np.float32) for part in (q, key, v, total)), rtol=1e-3)
