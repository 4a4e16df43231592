"""Attention: projections, heads, scores, masks, weights, values, in primitives or by an operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, numpy_helper

from .blocks import CONTRIB, linear, norm
from .caches import NoCache
from .choices import Choices
from .masks import alibi, bias_of, live_keys
from .net import Net
from .positions import Lengths, cos_and_sin, position_numbers, rotary_tables, rotate, rotate_by_operator


@dataclass
class Context:
    """What the layers share."""

    lengths: Lengths
    cache: NoCache
    batch: str  # a scalar
    token_bias: str = ""  # [B, 1, 1, T], from the tokens themselves


def window_of(c: Choices, layer: int) -> int:
    return c.window if c.window_layers == "all" or layer % 2 == 0 else 0


def projected(net: Net, c: Choices, x: str) -> tuple[str, str, str]:
    """Queries, keys and values, [B, S, heads, dim] each."""
    q, k, v = c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.value_dim
    if c.qkv == "apart":
        parts = [linear(net, c, x, c.width, n, 1.6) for n in (q, k, v)]
    elif c.qkv == "split":
        parts = net.split(linear(net, c, x, c.width, q + k + v, 1.6), [q, k, v])
    elif c.qkv == "slice":
        whole = linear(net, c, x, c.width, q + k + v, 1.6)
        parts = [net.slice(whole, a, b, 2) for a, b in ((0, q), (q, q + k), (q + k, q + k + v))]
    else:
        return projected_together(net, c, linear(net, c, x, c.width, q + k + v, 1.6))
    if c.qk_norm == "whole":
        parts = [norm(net, c, parts[0], q), norm(net, c, parts[1], k), parts[2]]
    shapes = (c.heads, c.head_dim), (c.kv_heads, c.head_dim), (c.kv_heads, c.value_dim)
    return tuple(net.reshape_rows(part, *shape) for part, shape in zip(parts, shapes))


def projected_together(net: Net, c: Choices, whole: str) -> tuple[str, str, str]:
    """One tensor [B, S, 3, H, D] or [B, S, H, 3 D]."""
    if c.qkv == "gather":
        apart = net.reshape_rows(whole, 3, c.heads, c.head_dim)
        return tuple(net.op("Gather", apart, net.ints(i), axis=2) for i in range(3))
    return tuple(net.split(net.reshape_rows(whole, c.heads, 3 * c.head_dim), [c.head_dim] * 3))


def rotated(net: Net, c: Choices, x: str, context: Context, heads: int, rows: bool) -> str:
    numbers = position_numbers(net, c, context.lengths)
    if c.rotary_spelling == "operator":
        numbers = net.op("Expand", numbers, net.dims(context.batch, context.lengths.new))
        return rotate_by_operator(net, c, x, numbers, heads)
    cos, sin = cos_and_sin(net, c, numbers, context.lengths)
    return rotate(net, c, x, cos, sin, 2 if rows else 1)


def attention(net: Net, c: Choices, x: str, layer: int, context: Context) -> str:
    q, k, v = projected(net, c, x)
    if c.qk_norm == "head":
        q, k = norm(net, c, q, c.head_dim), norm(net, c, k, c.head_dim)
    by_operator = c.attention == "gqa" and c.rotary != "none" and c.rotary_spelling == "operator"
    turn = c.rotary != "none" and c.rotary_place != "after-cache" and not by_operator
    in_rows = turn and c.rotary_place == "rows" and c.rotary_spelling != "operator"
    if in_rows:
        q, k = rotated(net, c, q, context, c.heads, True), rotated(net, c, k, context, c.kv_heads, True)
    q, k, v = (net.transpose(part, 0, 2, 1, 3) for part in (q, k, v))
    if turn and not in_rows:
        q, k = rotated(net, c, q, context, c.heads, False), rotated(net, c, k, context, c.kv_heads, False)
    y = KINDS[c.attention](net, c, (q, k, v), layer, context)
    return linear(net, c, net.reshape_rows(y, c.heads * c.value_dim), c.heads * c.value_dim, c.width)


# ---- by operators; all give [B, S, H, D] or [B, S, H * D]


def rows_of(net: Net, c: Choices, x: str, heads: int, dim: int) -> str:
    return net.reshape_rows(net.transpose(x, 0, 2, 1, 3), heads * dim)


def standard(net: Net, c: Choices, qkv: tuple[str, str, str], layer: int, context: Context) -> str:
    q, k, v = qkv
    scale = {} if c.scale == "none" else {"scale": float(c.head_dim**-0.5)}
    if c.score_cap:
        scale["softcap"] = c.score_cap
    window = window_of(c, layer)
    mask = live_keys(net, c, context.lengths, window) if c.mask_applied == "where" and c.padding in ("none", "and") else bias_of(net, c, context.lengths, window)
    if c.cache == "heads" and c.rotary_place != "after-cache" and net.rng.random() < 0.6:
        past = [context.cache.past(layer, kind) for kind in (0, 1)]
        y, key, value = net.op("Attention", q, k, v, mask, *past, n_outputs=3, **scale)
        context.cache.keep(layer, 0, key)
        context.cache.keep(layer, 1, value)
    else:
        q, k, v = joined(net, c, qkv, layer, context)
        y = net.op("Attention", q, k, v, mask, **scale)
    return net.transpose(y, 0, 2, 1, 3)


def group_query(net: Net, c: Choices, qkv: tuple[str, str, str], layer: int, context: Context) -> str:
    q, k, v = (rows_of(net, c, x, n, d) for x, n, d in zip(qkv, (c.heads, c.kv_heads, c.kv_heads), (c.head_dim, c.head_dim, c.value_dim)))
    total = net.cast(context.lengths.total, TensorProto.INT32)
    last = net.op("Expand", net.op("Sub", total, net.tensor(np.int32(1))), net.dims(context.batch))
    if c.attention_mask:
        counted = net.op("ReduceSum", "attention_mask", net.ints([1]), keepdims=0)
        last = net.cast(net.op("Sub", counted, net.ints(1)), TensorProto.INT32)
    past = [context.cache.past(layer, kind) for kind in (0, 1)] if c.cache != "none" else ["", ""]
    more = {"num_heads": c.heads, "kv_num_heads": c.kv_heads, "scale": float(c.head_dim**-0.5)}
    if c.score_cap:
        more["softcap"] = c.score_cap
    if window_of(c, layer):
        more["local_window_size"] = window_of(c, layer)
    tables = []
    if c.rotary != "none" and c.rotary_spelling == "operator":
        tables = [net.numbers(table) for table in rotary_tables(c)]
        more.update(do_rotary=1, rotary_interleaved=int(c.rotary_style == "interleaved"))
    if net.rng.random() < 0.3:
        q, k, v = net.op("Concat", q, k, v, axis=-1), "", ""
    y, key, value = net.op("GroupQueryAttention", q, k, v, *past, last, total, *tables, n_outputs=3, domain=CONTRIB, **more)
    if c.cache != "none":
        context.cache.keep(layer, 0, key)
        context.cache.keep(layer, 1, value)
    return y


def multi_head(net: Net, c: Choices, qkv: tuple[str, str, str], layer: int, context: Context) -> str:
    q, k, v = (rows_of(net, c, x, c.heads, c.head_dim) for x in qkv)
    bias = net.op("Expand", bias_of(net, c, context.lengths, window_of(c, layer)), net.dims(1, 1, context.lengths.new, context.lengths.total))
    if c.alibi != "none":
        bias = net.op("Add", alibi(net, c, context.lengths, (c.heads,)), bias)
    past = [context.cache.past(layer, kind) for kind in (0, 1)] if c.cache != "none" else []
    more = {"num_heads": c.heads}
    if c.scale != "computed":
        more["scale"] = float(c.head_dim**-0.5)
    outputs = net.op("MultiHeadAttention", q, k, v, "", "", bias, *past, n_outputs=3 if past else 1, domain=CONTRIB, **more)
    if not past:
        return outputs
    context.cache.keep(layer, 0, outputs[1])
    context.cache.keep(layer, 1, outputs[2])
    return outputs[0]


# ---- in primitives


def joined(net: Net, c: Choices, qkv: tuple[str, str, str], layer: int, context: Context) -> tuple[str, str, str]:
    """Queries of the new tokens, keys and values of all: [B, H, S or T, D]."""
    q, k, v = qkv
    if c.cache == "repeated":
        k, v = repeated(net, c, k), repeated(net, c, v)
    k, v = context.cache.extend(net, layer, k, v)
    if c.rotary != "none" and c.rotary_place == "after-cache":
        everyone = net.unsqueeze(net.op("Range", net.ints(0), context.lengths.total, net.ints(1)), 0)
        k = rotate(net, c, k, *cos_and_sin(net, c, everyone, context.lengths), 1)
        q = rotated(net, c, q, context, c.heads, False)
    return q, k, v


def repeated(net: Net, c: Choices, x: str) -> str:
    """[B, kv heads, T, D] to [B, heads, T, D]."""
    times = c.heads // c.kv_heads
    if times == 1:
        return x
    if c.groups == "gather":
        return net.op("Gather", x, net.ints([h // times for h in range(c.heads)]), axis=1)
    wide = net.unsqueeze(x, 2)
    if c.groups == "tile":
        wide = net.op("Tile", wide, net.ints([1, 1, times, 1, 1]))
    else:
        sizes = [net.size(x, axis) for axis in (0, 2, 3)]
        wide = net.op("Expand", wide, net.dims(sizes[0], c.kv_heads, times, sizes[1], sizes[2]))
    return net.op("Reshape", wide, net.dims(net.size(x, 0), c.heads, net.size(x, 2), net.size(x, 3)))


def primitives(net: Net, c: Choices, qkv: tuple[str, str, str], layer: int, context: Context) -> str:
    q, k, v = joined(net, c, qkv, layer, context)
    q, k = scaled_before(net, c, q, k)
    if c.groups not in ("apart", "folded") and c.cache != "repeated":
        k, v = repeated(net, c, k), repeated(net, c, v)
    if c.groups == "folded":
        return folded(net, c, q, k, v, layer, context)
    if c.groups == "apart":
        q = net.op("Reshape", q, net.dims(context.batch, c.kv_heads, c.heads // c.kv_heads, -1, c.head_dim))
        k, v = net.unsqueeze(k, 2), net.unsqueeze(v, 2)
        weights = weights_of(net, c, net.op("MatMul", q, net.transpose(k, 0, 1, 2, 4, 3)), layer, context, (c.kv_heads, c.heads // c.kv_heads))
        y = net.op("Reshape", net.op("MatMul", weights, v), net.dims(context.batch, c.heads, -1, c.value_dim))
        return net.transpose(y, 0, 2, 1, 3)
    if c.product == "keys-first":
        weights = weights_of(net, c, net.op("MatMul", k, net.transpose(q, 0, 1, 3, 2)), layer, context, (c.heads,), keys_axis=-2)
        y = net.op("MatMul", net.transpose(v, 0, 1, 3, 2), weights)
        return net.transpose(y, 0, 3, 1, 2)
    if c.product == "einsum":
        weights = weights_of(net, c, net.op("Einsum", q, k, equation="bhqd,bhkd->bhqk"), layer, context, (c.heads,))
        return net.op("Einsum", weights, v, equation="bhqk,bhkd->bqhd")
    weights = weights_of(net, c, net.op("MatMul", q, net.transpose(k, 0, 1, 3, 2)), layer, context, (c.heads,))
    return net.transpose(net.op("MatMul", weights, v), 0, 2, 1, 3)


def folded(net: Net, c: Choices, q: str, k: str, v: str, layer: int, context: Context) -> str:
    """One head of keys; queries [B, S * H, D]."""
    rows = net.op("Reshape", net.transpose(q, 0, 2, 1, 3), net.dims(context.batch, -1, c.head_dim))
    k, v = net.op("Squeeze", k, net.ints([1])), net.op("Squeeze", v, net.ints([1]))
    product = net.op("MatMul", rows, net.transpose(k, 0, 2, 1))
    product = net.op("Reshape", product, net.dims(context.batch, -1, c.heads, context.lengths.total))
    weights = weights_of(net, c, product, layer, context, (), folded=True)
    weights = net.op("Reshape", weights, net.dims(context.batch, -1, context.lengths.total))
    return net.op("Reshape", net.op("MatMul", weights, v), net.dims(context.batch, -1, c.heads * c.value_dim))


def scaled_before(net: Net, c: Choices, q: str, k: str) -> tuple[str, str]:
    scale = c.head_dim**-0.5
    if c.scale == "query":
        return net.op("Mul", q, net.numbers(scale)), k
    if c.scale == "key":
        return q, net.op("Div", k, net.numbers(math.sqrt(c.head_dim)))
    if c.scale == "both":
        return net.op("Mul", q, net.numbers(math.sqrt(scale))), net.op("Mul", k, net.numbers(math.sqrt(scale)))
    if c.scale == "computed":
        size = net.op("Sqrt", net.to_numbers(net.size(q, -1)))
        root = net.op("Sqrt", net.op("Div", net.numbers(1), size))
        return net.op("Mul", q, root), net.op("Mul", k, root)
    return q, k


def placed(net: Net, x: str, heads: tuple[int, ...], keys_axis: int, fold: bool) -> str:
    """[1 or B, 1, S, T] among the axes of the scores."""
    if fold:
        return net.transpose(x, 0, 2, 1, 3)
    if len(heads) == 2:
        return net.unsqueeze(x, 1)
    return net.transpose(x, 0, 1, 3, 2) if keys_axis == -2 else x


def weights_of(net: Net, c: Choices, product: str, layer: int, context: Context, heads: tuple[int, ...], keys_axis: int = -1, folded: bool = False) -> str:
    net.scope = f"layers.{layer}/scores/"
    scores = product
    if c.scale == "div":
        scores = net.op("Div", scores, net.numbers(math.sqrt(c.head_dim)))
    elif c.scale == "mul":
        scores = net.op("Mul", scores, net.numbers(c.head_dim**-0.5))
    if c.refuse == "log-length":
        scores = net.op("Mul", scores, net.op("Log", net.to_numbers(net.op("Add", context.lengths.total, net.ints(1)))))
    if c.score_cap:
        cap = net.numbers(c.score_cap)
        scores = net.op("Mul", net.op("Tanh", net.op("Div", scores, cap)), cap)
    if c.alibi != "none":
        bias = alibi(net, c, context.lengths, heads or (c.heads,))
        bias = net.transpose(bias, 0, 2, 1, 3) if folded else net.transpose(bias, 0, 1, 3, 2) if keys_axis == -2 else bias
        scores = net.either("Add", scores, bias)
    scores = refused_bias(net, c, scores, context)
    window = window_of(c, layer)
    if c.mask_applied == "where" and c.mask != "expanded" and c.padding in ("none", "and"):
        live = placed(net, live_keys(net, c, context.lengths, window), heads, keys_axis, folded)
        scores = net.op("Where", live, scores, net.numbers(c.masked))
    else:
        scores = net.op("Add", scores, placed(net, bias_of(net, c, context.lengths, window), heads, keys_axis, folded))
    if c.scale == "late":
        scores = net.op("Div", scores, net.numbers(math.sqrt(c.head_dim)))
    weights = softmax(net, c, scores, keys_axis, context)
    net.scope = f"layers.{layer}/"
    return weights


def refused_bias(net: Net, c: Choices, scores: str, context: Context) -> str:
    if c.refuse == "token-bias":
        return net.op("Add", scores, context.token_bias)
    if c.refuse == "absolute-bias":
        keys = net.to_numbers(net.op("Range", net.ints(0), context.lengths.total, net.ints(1)))
        return net.op("Add", scores, net.op("Sin", net.op("Mul", keys, net.numbers(1.3))))
    return scores


def softmax(net: Net, c: Choices, scores: str, axis: int, context: Context) -> str:
    if c.sink:
        sinks = net.op("Expand", net.numbers(np.linspace(-0.5, 1.0, c.heads).reshape(1, -1, 1, 1)), net.dims(context.batch, c.heads, context.lengths.new, 1))
        weights = net.op("Softmax", net.op("Concat", scores, sinks, axis=-1), axis=-1)
        return net.slice(weights, 0, -1, 3)
    if c.softmax == "spelled":
        largest = net.reduce("ReduceMax", scores, axis)
        powers = net.op("Exp", net.op("Sub", scores, largest))
        return net.op("Div", powers, net.reduce("ReduceSum", powers, axis))
    if c.softmax == "cast":
        return net.to_numbers(net.op("Softmax", net.cast(scores, TensorProto.FLOAT), axis=axis))
    weights = net.op("Softmax", scores, axis=axis)
    if c.softmax == "guarded":
        weights = net.op("Where", net.op("IsNaN", weights), net.numbers(0), weights)
    if c.refuse == "squared-weights":
        squares = net.op("Mul", weights, weights)
        return net.op("Div", squares, net.reduce("ReduceSum", squares, axis))
    return net.op("Mul", weights, net.numbers(0.5)) if c.refuse == "scaled-weights" else weights


KINDS = {"primitives": primitives, "standard": standard, "gqa": group_query, "mha": multi_head}
