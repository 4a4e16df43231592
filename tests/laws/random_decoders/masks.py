"""Attention masks in many forms: constants, comparisons, triangles; added or selected by Where."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from .choices import Choices
from .net import Net
from .positions import LIMIT, Lengths

CHUNK = 4


def live_keys(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    """[1 or B, 1, S, T] (bool)."""
    live = MASKS[c.mask](net, c, lengths, window)
    if c.padding == "and":
        live = net.op("And", live, net.unsqueeze(net.cast("attention_mask", TensorProto.BOOL), 1, 2))
    return live


def numbers(net: Net, lengths: Lengths) -> tuple[str, str]:
    """Positions of queries [S, 1] and keys [1, T]."""
    queries = net.op("Range", lengths.past, lengths.total, net.ints(1))
    keys = net.op("Range", net.ints(0), lengths.total, net.ints(1))
    return net.unsqueeze(queries, 1), net.unsqueeze(keys, 0)


def by_range(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    queries, keys = numbers(net, lengths)
    if c.refuse == "sees-ahead":
        queries = net.op("Add", queries, net.ints(1))
    live = compared(net, c, queries, keys, window)
    if c.refuse == "chunked":
        same = net.op("Equal", net.op("Div", queries, net.ints(CHUNK)), net.op("Div", keys, net.ints(CHUNK)))
        live = net.op("And", live, same)
    return net.unsqueeze(live, 0, 1)


def compared(net: Net, c: Choices, queries: str, keys: str, window: int) -> str:
    if c.opset >= 16 and net.rng.random() < 0.5:
        live = net.op("LessOrEqual", keys, queries)
    else:
        live = net.op("Not", net.op("Greater", keys, queries))
    if window:
        live = net.op("And", live, net.op("Greater", keys, net.op("Sub", queries, net.ints(window))))
    return live


def by_distance(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    distance = net.op("Sub", *numbers(net, lengths))
    live = net.op("GreaterOrEqual", distance, net.ints(0)) if c.opset >= 16 else net.op("Greater", distance, net.ints(-1))
    if window:
        live = net.op("And", live, net.op("Less", distance, net.ints(window)))
    return net.unsqueeze(live, 0, 1)


def by_positions(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    queries = net.unsqueeze("position_ids", 1, 3)
    keys = net.op("Range", net.ints(0), lengths.total, net.ints(1))
    return compared(net, c, queries, net.unsqueeze(keys, 0, 1, 2), window)


def by_constant(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    d = np.arange(LIMIT)[:, None] - np.arange(LIMIT)
    table = net.tensor(((d >= 0) & ((d < window) if window else True))[None, None])
    rows = net.slice(table, net.one(lengths.past), net.one(lengths.total), 2)
    return net.slice(rows, 0, net.one(lengths.total), 3)


def by_triangle(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    ones = net.op("ConstantOfShape", net.dims(lengths.total, lengths.total), value=numpy_helper.from_array(np.ones(1, np.float32)))
    lower = net.op("Trilu", ones, upper=0)
    if window:
        lower = net.op("Trilu", lower, net.ints(1 - window), upper=1)
    rows = net.slice(lower, net.one(lengths.past), net.one(lengths.total), 0)
    return net.unsqueeze(net.cast(rows, TensorProto.BOOL), 0, 1)


MASKS = {
    "range": by_range, "distance": by_distance, "positions": by_positions, "trilu-constant": by_constant, "trilu-made": by_triangle,
    "expanded": by_range,
}


def bias_of(net: Net, c: Choices, lengths: Lengths, window: int) -> str:
    """[1 or B, 1, S, T], to be added to scores."""
    if c.mask == "expanded":
        bias = expanded(net, c, lengths)
    else:
        live = live_keys(net, c, lengths, window)
        bias = net.op("Where", live, net.numbers(0), net.numbers(c.masked))
    if c.padding == "add":
        bias = net.op("Add", bias, padding_bias(net, c))
    elif c.padding == "add-first":
        bias = net.op("Add", padding_bias(net, c), bias)
    elif c.padding == "and" and c.mask == "expanded":
        hidden = net.op("Not", net.unsqueeze(net.cast("attention_mask", TensorProto.BOOL), 1, 2))
        bias = net.op("Where", hidden, net.numbers(c.masked), bias)
    return bias


def expanded(net: Net, c: Choices, lengths: Lengths) -> str:
    """A triangle among the new tokens, and zeros for the past in front of it."""
    filled = net.op("Expand", net.numbers(c.masked), net.dims(lengths.new, lengths.new))
    future = net.op("Trilu", filled, net.ints(1), upper=1)
    zeros = net.op("ConstantOfShape", net.dims(lengths.new, lengths.past), value=numpy_helper.from_array(np.zeros(1, net.numpy_type)))
    return net.unsqueeze(net.op("Concat", zeros, future, axis=1), 0, 1)


def padding_bias(net: Net, c: Choices) -> str:
    """[B, 1, 1, T] from a mask of ones and zeros."""
    mask = net.unsqueeze(net.to_numbers("attention_mask"), 1, 2)
    finite = c.masked if c.masked != float("-inf") else -1e4
    return net.op("Mul", net.op("Sub", net.numbers(1), mask), net.numbers(finite))


def alibi(net: Net, c: Choices, lengths: Lengths, heads: tuple[int, ...]) -> str:
    """[1 or B, heads…, 1 or S, T]: falls with the distance, another slope for each head."""
    slopes = net.numbers(np.array([0.9 / (h + 1) for h in range(c.heads)]).reshape(1, *heads, 1, 1))
    if c.alibi == "relative":
        queries, keys = numbers(net, lengths)
        return net.op("Mul", slopes, net.to_numbers(net.op("Sub", keys, queries)))
    if c.alibi == "keys":
        keys = net.op("Range", net.ints(0), lengths.total, net.ints(1))
        return net.op("Mul", slopes, net.to_numbers(keys))
    counted = net.op("CumSum", net.cast("attention_mask", TensorProto.INT64), net.ints(-1))
    counted = net.op("Mul", net.op("Sub", counted, net.ints(1)), "attention_mask")
    return net.op("Mul", slopes, net.unsqueeze(net.to_numbers(counted), *range(1, 2 + len(heads))))
