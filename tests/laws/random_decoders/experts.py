"""Mixtures of experts: all of them computed and weighted, or each on the rows that chose it."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from .blocks import activate
from .choices import Choices
from .net import Net

N_EXPERTS, CHOSEN = 3, 2


def experts(net: Net, c: Choices, x: str) -> str:
    flat = net.op("Reshape", x, net.ints([-1, c.width]))
    scores = net.op("Softmax", net.op("MatMul", flat, net.weight(c.width, N_EXPERTS, std=0.7)), axis=-1)
    weights, chosen = net.op("TopK", scores, net.ints([CHOSEN]), n_outputs=2, axis=-1)
    weights = net.op("Div", weights, net.reduce("ReduceSum", weights, -1))
    combine = dense if c.feed_forward == "experts" else sparse
    y = combine(net, c, flat, weights, chosen, zeros_like(net, scores))
    return net.op("Reshape", y, net.dims(net.size(x, 0), net.size(x, 1), c.width))


def zeros_like(net: Net, x: str) -> str:
    return net.op("ConstantOfShape", net.op("Shape", x), value=numpy_helper.from_array(np.zeros(1, net.numpy_type)))


def dense(net: Net, c: Choices, flat: str, weights: str, chosen: str, zeros: str) -> str:
    """Every expert on every row; those not chosen weigh nothing."""
    inner = c.width + 1
    spread = net.op("ScatterElements", zeros, chosen, weights, axis=-1)
    rows = net.unsqueeze(flat, 1, 2)
    hidden = activate(net, c, net.op("MatMul", rows, net.weight(N_EXPERTS, c.width, inner, std=c.width**-0.5)))
    outputs = net.op("MatMul", hidden, net.weight(N_EXPERTS, inner, c.width, std=inner**-0.5))
    weighted = net.op("Mul", outputs, net.op("Reshape", spread, net.ints([-1, N_EXPERTS, 1, 1])))
    return net.op("Squeeze", net.reduce("ReduceSum", weighted, 1), net.ints([1, 2]))


def sparse(net: Net, c: Choices, flat: str, weights: str, chosen: str, _zeros: str) -> str:
    """As tracing writes a loop over experts: the rows of each are gathered, computed, and added where they came from."""
    inner = c.width + 1
    one_hot = net.op("OneHot", chosen, net.ints(N_EXPERTS), net.ints([0, 1]), axis=-1)
    who = net.transpose(one_hot, 2, 1, 0)
    y = zeros_like(net, flat)
    for expert in range(N_EXPERTS):
        found = net.op("NonZero", net.op("Gather", who, net.ints(expert), axis=0))
        rank, row = (net.op("Squeeze", part, net.ints([0])) for part in net.split(found, [1, 1], axis=0))
        hidden = net.op("MatMul", net.op("Gather", flat, row, axis=0), net.weight(c.width, inner, std=c.width**-0.5))
        output = net.op("MatMul", activate(net, c, hidden), net.weight(inner, c.width, std=inner**-0.5))
        at = net.op("Concat", net.unsqueeze(row, 1), net.unsqueeze(rank, 1), axis=1)
        output = net.op("Mul", output, net.unsqueeze(net.op("GatherND", weights, at), 1))
        where = net.op("Expand", net.unsqueeze(row, 1), net.op("Shape", output))
        y = net.op("ScatterElements", y, where, output, axis=0, reduction="add")
    return y
