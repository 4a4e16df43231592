"""Positions: numbers, learned and sinusoidal embeddings, rotation of queries and keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from .blocks import CONTRIB
from .choices import Choices
from .net import Net

LIMIT = 40  # positions that tables of constants cover


@dataclass
class Lengths:
    """Scalars (i64)."""

    past: str
    new: str
    total: str


def position_numbers(net: Net, c: Choices, lengths: Lengths) -> str:
    """[1 or B, S] (i64)."""
    if c.position_source == "input":
        return "position_ids"
    if c.position_source == "mask":
        counted = net.op("Sub", net.op("CumSum", net.cast("attention_mask", TensorProto.INT64), net.ints(1)), net.ints(1))
        return net.slice(counted, net.one(lengths.past), net.ints([2**31 - 1]), 1)
    if c.position_source == "subtract":
        whole = net.unsqueeze(net.op("Range", net.ints(0), lengths.total, net.ints(1)), 0)
        return net.slice(whole, net.one(lengths.past), net.one(lengths.total), 1)
    numbers = net.op("Range", lengths.past, lengths.total, net.ints(1))
    return net.op("Reshape", numbers, net.dims(1, -1)) if net.rng.random() < 0.5 else net.unsqueeze(numbers, 0)


def sinusoids(width: int) -> np.ndarray:
    angles = np.arange(LIMIT)[:, None] / 100 ** (np.arange(width) // 2 * 2 / width)
    return np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles))


def embed_positions(net: Net, c: Choices, x: str, numbers: str, lengths: Lengths) -> str:
    if c.positions == "learned":
        rows = net.op("Gather", net.weight(LIMIT, c.width, std=0.7), numbers, axis=0)
    elif c.positions == "offset":
        rows = net.op("Gather", net.weight(LIMIT + 2, c.width, std=0.7), net.op("Add", numbers, net.ints(2)), axis=0)
    elif c.positions == "sinus-table":
        rows = net.slice(net.numbers(sinusoids(c.width)), net.one(lengths.past), net.one(lengths.total), 0)
    elif c.positions == "sinus":
        rows = computed_sinusoids(net, c, numbers)
    else:
        return x
    return net.either("Add", x, rows)


def computed_sinusoids(net: Net, c: Choices, numbers: str) -> str:
    half = c.width // 2
    frequencies = net.tensor((1 / 100 ** (np.arange(half) / half)).astype(np.float32))
    angles = net.op("Mul", net.unsqueeze(net.cast(numbers, TensorProto.FLOAT), 2), frequencies)
    return net.to_numbers(net.op("Concat", net.op("Sin", angles), net.op("Cos", angles), axis=-1))


# ---- rotation


def rotary_tables(c: Choices) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin [LIMIT, rotary_dim / 2]."""
    angles = np.arange(LIMIT)[:, None] * frequencies_of(c)
    return np.cos(angles), np.sin(angles)


def frequencies_of(c: Choices) -> np.ndarray:
    return 1 / 50 ** (np.arange(0, c.rotary_dim, 2) / c.rotary_dim)


def widen(net: Net, c: Choices, x: str) -> str:
    """[…, n] to […, 2n], each angle for both numbers that it turns."""
    if c.rotary_style == "half":
        return net.op("Concat", x, x, axis=-1)
    doubled = net.op("Concat", net.unsqueeze(x, 3), net.unsqueeze(x, 3), axis=3)
    return net.op("Reshape", doubled, net.ints([0, 0, c.rotary_dim]))


def cos_and_sin(net: Net, c: Choices, numbers: str, lengths: Lengths) -> tuple[str, str]:
    """[1 or B, S, rotary_dim] each, of the positions `numbers`."""
    if c.rotary_table in ("gather", "slice"):
        return tuple(look_up(net, c, table, numbers, lengths) for table in rotary_tables(c))
    numbers = net.cast(numbers, TensorProto.FLOAT)
    frequencies = frequencies_of(c).astype(np.float32)
    if c.refuse == "rope-by-length":
        length = net.op("Sqrt", net.cast(lengths.total, TensorProto.FLOAT))
        numbers = net.op("Div", numbers, length)
    if c.rotary_table == "matmul":
        column = net.tensor(frequencies.reshape(1, -1, 1))
        angles = net.transpose(net.op("MatMul", column, net.unsqueeze(numbers, 1)), 0, 2, 1)
    else:
        angles = net.op("Mul", net.unsqueeze(numbers, 2), net.tensor(frequencies))
    wide = widen(net, c, angles)
    return net.to_numbers(net.op("Cos", wide)), net.to_numbers(net.op("Sin", wide))


def look_up(net: Net, c: Choices, table: np.ndarray, numbers: str, lengths: Lengths) -> str:
    wide = np.concatenate([table, table], -1) if c.rotary_style == "half" else np.repeat(table, 2, -1)
    name = net.numbers(wide)
    if c.rotary_table == "slice":
        name = net.slice(name, 0, net.one(lengths.total), 0)
    return net.op("Gather", name, numbers, axis=0)


def rotate(net: Net, c: Choices, x: str, cos: str, sin: str, heads_axis: int) -> str:
    """x has rank 4; heads_axis says whether it is [B, H, S, D] or [B, S, H, D]."""
    cos, sin = net.unsqueeze(cos, heads_axis), net.unsqueeze(sin, heads_axis)
    rest = ""
    if c.rotary_dim < c.head_dim:
        x, rest = cut(net, c, x, c.rotary_dim, c.head_dim)
    y = net.op("Add", net.op("Mul", x, cos), net.op("Mul", turned(net, c, x), sin))
    return net.op("Concat", y, rest, axis=-1) if rest else y


def cut(net: Net, c: Choices, x: str, at: int, end: int) -> tuple[str, str]:
    if c.rotary_spelling == "split":
        return tuple(net.split(x, [at, end - at]))
    return net.slice(x, 0, at, -1 if net.rng.random() < 0.5 else 3), net.slice(x, at, 2**63 - 1, 3)


def turned(net: Net, c: Choices, x: str) -> str:
    """(-b, a) for every pair (a, b)."""
    if c.rotary_style == "half":
        a, b = cut(net, c, x, c.rotary_dim // 2, c.rotary_dim)
        return net.op("Concat", net.op("Neg", b), a, axis=-1)
    if c.rotary_spelling == "reshape":
        pairs = net.op("Reshape", x, net.ints([0, 0, 0, c.rotary_dim // 2, 2]))
        a, b = (net.unsqueeze(net.op("Gather", pairs, net.ints(i), axis=-1), 4) for i in (0, 1))
    else:
        a, b = (net.unsqueeze(net.slice(x, i, 2**63 - 1, 3, step=2), 4) for i in (0, 1))
    return net.op("Reshape", net.op("Concat", net.op("Neg", b), a, axis=-1), net.ints([0, 0, 0, c.rotary_dim]))


def rotate_by_operator(net: Net, c: Choices, x: str, numbers: str, heads: int) -> str:
    """x [B, H, S, D]; numbers [B, S]."""
    cos, sin = (net.numbers(table) for table in rotary_tables(c))
    more = {"interleaved": int(c.rotary_style == "interleaved")}
    if c.rotary_dim < c.head_dim:
        more["rotary_embedding_dim"] = c.rotary_dim
    if c.opset >= 23:
        return net.op("RotaryEmbedding", x, cos, sin, numbers, **more)
    return net.op("RotaryEmbedding", x, numbers, cos, sin, domain=CONTRIB, **more, **({"num_heads": heads} if "rotary_embedding_dim" in more else {}))
