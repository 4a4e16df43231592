"""Normalization, products by weights, activations, feed-forward layers: what works on one token by itself."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from .choices import Choices
from .net import Net

EPSILON = 1e-5
CONTRIB = "com.microsoft"


def linear(net: Net, c: Choices, x: str, n_in: int, n_out: int, std: float = 1.2) -> str:
    """[B, S, n_in] to [B, S, n_out]."""
    std /= math.sqrt(n_in)
    bias = net.weight(n_out, std=0.2) if c.bias else ""
    if c.linear in ("gemm", "gemm-flat"):
        flat = net.op("Reshape", x, net.ints([-1, n_in]))
        operands = [flat, net.weight(n_out, n_in, std=std)] if c.linear == "gemm" else [flat, net.weight(n_in, n_out, std=std)]
        y = net.op("Gemm", *operands, *([bias] if bias else []), transB=int(c.linear == "gemm"))
        return net.op("Reshape", y, net.dims(net.size(x, 0), net.size(x, 1), n_out))
    if c.linear == "transposed":
        y = net.op("MatMul", x, net.transpose(net.weight(n_out, n_in, std=std), 1, 0))
    else:
        y = net.op("MatMul", x, net.weight(n_in, n_out, std=std))
    return net.either("Add", y, bias) if bias else y


def norm(net: Net, c: Choices, x: str, size: int) -> str:
    """Over the last axis."""
    operator = {"layer": ("LayerNormalization", 17), "rms": ("RMSNormalization", 23)}[c.norm]
    if c.norm_spelling in ("operator", "contrib") and c.opset >= operator[1]:
        return net.op(operator[0], x, *norm_weights(net, c, size, net.numpy_type), axis=-1, epsilon=EPSILON)
    if c.dtype == "f32":
        return spelled_norm(net, c, x, size)
    return net.to_numbers(spelled_norm(net, c, net.cast(x, TensorProto.FLOAT), size))  # half graphs normalize in f32, as exporters write it


def norm_weights(net: Net, c: Choices, size: int, dtype) -> list[str]:
    gain = net.weight(size, std=0.2, mean=1.0, dtype=dtype)
    return [gain, net.weight(size, std=0.2, dtype=dtype)] if c.norm_bias and c.norm == "layer" else [gain]


def spelled_norm(net: Net, c: Choices, x: str, size: int) -> str:
    f32 = lambda value: net.tensor(np.float32(value))
    if c.norm == "layer":
        x = net.op("Sub", x, net.reduce("ReduceMean", x, -1))
    square = net.op("Mul", x, x) if c.norm_spelling == "reciprocal" else net.op("Pow", x, f32(2))
    variance = net.op("Add", net.reduce("ReduceMean", square, -1), f32(EPSILON))
    if c.norm_spelling == "power":
        y = net.either("Mul", x, net.op("Pow", variance, f32(-0.5)))
    elif c.norm_spelling == "reciprocal":
        y = net.either("Mul", x, net.op("Reciprocal", net.op("Sqrt", variance)))
    else:
        y = net.op("Div", x, net.op("Sqrt", variance))
    gain, *bias = norm_weights(net, c, size, np.float32)
    y = net.either("Mul", y, gain)
    return net.op("Add", y, bias[0]) if bias else y


def skip_norm(net: Net, c: Choices, x: str, added: str, size: int) -> tuple[str, str]:
    """The norm of x + added, and the sum, by one operator."""
    gain = net.weight(size, std=0.2, mean=1.0)
    if c.norm == "layer":
        outputs = net.op("SkipLayerNormalization", x, added, gain, net.weight(size, std=0.2), n_outputs=4, domain=CONTRIB, epsilon=EPSILON)
    else:
        outputs = net.op("SkipSimplifiedLayerNormalization", x, added, gain, n_outputs=4, domain=CONTRIB, epsilon=EPSILON)
    return outputs[0], outputs[3]


def activate(net: Net, c: Choices, x: str) -> str:
    return ACTIVATIONS[c.activation](net, c, x)


def gelu(net: Net, c: Choices, x: str) -> str:
    if c.opset >= 20 and net.rng.random() < 0.5:
        return net.op("Gelu", x)
    if c.contrib and net.rng.random() < 0.5:
        return net.op("Gelu", x, domain=CONTRIB)
    inner = net.op("Erf", net.op("Div", x, net.numbers(math.sqrt(2))))
    one_more = net.op("Add", inner, net.numbers(1))
    if net.rng.random() < 0.5:
        return net.op("Mul", net.op("Mul", x, net.numbers(0.5)), one_more)
    return net.op("Mul", net.op("Mul", x, one_more), net.numbers(0.5))


def gelu_tanh(net: Net, c: Choices, x: str) -> str:
    if c.opset >= 20 and net.rng.random() < 0.5:
        return net.op("Gelu", x, approximate="tanh")
    if c.contrib and net.rng.random() < 0.5:
        return net.op("FastGelu", x, domain=CONTRIB)
    if net.rng.random() < 0.5:
        cube = net.op("Pow", x, net.numbers(3))
    else:
        cube = net.op("Mul", net.op("Mul", x, x), x)
    inner = net.op("Add", x, net.op("Mul", cube, net.numbers(0.044715)))
    tanh = net.op("Tanh", net.op("Mul", inner, net.numbers(math.sqrt(2 / math.pi))))
    return net.op("Mul", net.op("Mul", x, net.numbers(0.5)), net.op("Add", tanh, net.numbers(1)))


def quick_gelu(net: Net, c: Choices, x: str) -> str:
    if c.contrib:
        return net.op("QuickGelu", x, domain=CONTRIB, alpha=1.702)
    return net.op("Mul", x, net.op("Sigmoid", net.op("Mul", x, net.numbers(1.702))))


def squared_relu(net: Net, c: Choices, x: str) -> str:
    y = net.op("Relu", x)
    return net.op("Mul", y, y) if net.rng.random() < 0.5 else net.op("Pow", y, net.numbers(2))


ACTIVATIONS = {
    "relu": lambda net, c, x: net.op("Relu", x),
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "silu": lambda net, c, x: net.either("Mul", x, net.op("Sigmoid", x)),
    "quick-gelu": quick_gelu,
    "relu2": squared_relu,
    "tanh": lambda net, c, x: net.op("Tanh", x),
    "mish": lambda net, c, x: net.op("Mul", x, net.op("Tanh", net.op("Softplus", x))),
    "elu": lambda net, c, x: net.op("Elu", x, alpha=0.8),
    "hard-swish": lambda net, c, x: net.op("HardSwish", x),
}


def feed_forward(net: Net, c: Choices, x: str) -> str:
    inner = 2 * c.width - 3
    if c.feed_forward == "plain":
        return linear(net, c, activate(net, c, linear(net, c, x, c.width, inner)), inner, c.width)
    if c.feed_forward == "gated":
        gate, up = linear(net, c, x, c.width, inner), linear(net, c, x, c.width, inner)
    else:
        gate, up = net.split(linear(net, c, x, c.width, 2 * inner), [inner, inner])
    return linear(net, c, net.either("Mul", activate(net, c, gate), up), inner, c.width)
