"""A whole decoder from its choices."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from .attention import Context, attention
from .blocks import feed_forward, linear, norm, skip_norm
from .caches import make_cache
from .choices import Choices
from .experts import experts
from .net import BATCH, NEW, TOTAL, Net
from .positions import Lengths, embed_positions, position_numbers


def build(c: Choices) -> tuple[onnx.ModelProto, list[tuple[str, str]]]:
    """The model, and which output becomes which input of the next step (past, present)."""
    net = Net(c.opset, c.seed, c.dtype)
    cache = make_cache(c)
    declare = [
        lambda: net.input("input_ids", TensorProto.INT32 if c.small_ids else TensorProto.INT64, [BATCH, NEW]),
        lambda: net.input("attention_mask", TensorProto.INT64, [BATCH, NEW if c.cache == "none" else TOTAL]) if c.attention_mask else None,
        lambda: net.input("position_ids", TensorProto.INT64, [BATCH, NEW]) if c.position_ids else None,
        lambda: cache.declare(net, c),
    ]
    net.rng.shuffle(declare)
    for one in declare:
        one()
    logits = body(net, c, cache)
    net.output("logits", net.cast(logits, TensorProto.FLOAT) if c.dtype == "f16" else logits, TensorProto.FLOAT, [BATCH, 1 if c.last_only else NEW, c.vocab])
    cache.give(net)
    keep_inputs(net)
    return net.model(), cache.pairs()


def keep_inputs(net: Net) -> None:
    """An exporter drops an input that nothing reads."""
    read = {name for node in net.nodes for name in node.input}
    net.inputs[:] = [i for i in net.inputs if i.name in read]


def lengths_of(net: Net, c: Choices, cache) -> Lengths:
    new = net.size("input_ids", 1)
    if c.cache == "none":
        return Lengths(net.ints(0), new, new)
    if c.attention_mask and net.rng.random() < 0.4:
        total = net.size("attention_mask", 1)
        return Lengths(net.op("Sub", total, new), new, total)
    past = cache.past_length(net)
    return Lengths(past, new, net.either("Add", past, new))


def body(net: Net, c: Choices, cache) -> str:
    lengths = lengths_of(net, c, cache)
    embedding = net.weight(c.vocab, c.width)
    x = net.op("Gather", embedding, "input_ids", axis=0)
    if c.embed_scale:
        x = net.op("Mul", x, net.numbers(math.sqrt(c.width)))
    if c.positions != "none":
        x = embed_positions(net, c, x, position_numbers(net, c, lengths), lengths)
    context = Context(lengths, cache, net.size("input_ids", 0))
    if c.refuse == "token-bias":
        ids = net.to_numbers("input_ids")
        sums = net.op("Reshape", net.op("ReduceMax", ids, keepdims=0), net.ints([1, 1, 1, 1]))
        keys = net.to_numbers(net.op("Range", net.ints(0), lengths.total, net.ints(1)))
        context.token_bias = net.op("Sin", net.op("Mul", sums, keys))
    x = layers(net, c, x, context)
    if c.last_only:
        x = net.op("Unsqueeze", net.op("Gather", x, net.ints(-1), axis=1), net.ints([1]))
    net.scope = "head/"
    if c.final_norm:
        x = norm(net, c, x, c.width)
    return head(net, c, x, embedding)


def head(net: Net, c: Choices, x: str, embedding: str) -> str:
    if c.head == "tied":
        logits = net.op("MatMul", x, net.transpose(embedding, 1, 0))
    elif c.head == "gemm":
        flat = net.op("Gemm", net.op("Reshape", x, net.ints([-1, c.width])), net.weight(c.vocab, c.width, std=0.5), transB=1)
        logits = net.op("Reshape", flat, net.dims(net.size(x, 0), net.size(x, 1), c.vocab))
    else:
        logits = net.op("MatMul", x, net.weight(c.width, c.vocab, std=0.5))
    if c.head == "bias":
        logits = net.op("Add", logits, net.weight(c.vocab, std=0.3))
    if c.logits_cap:
        cap = net.numbers(c.logits_cap)
        logits = net.op("Mul", net.op("Tanh", net.op("Div", logits, cap)), cap)
    return logits


def layers(net: Net, c: Choices, x: str, context: Context) -> str:
    added = ""  # a residual that the next operator adds
    for layer in range(c.n_layers):
        net.scope = f"layers.{layer}/"
        if layer == 0:
            x = mixed_along(net, c, x)
        if c.norm_spelling == "contrib":
            x, added = contrib_layer(net, c, x, added, layer, context)
        else:
            x = PLACES[c.norm_place](net, c, x, layer, context)
    return net.op("Add", x, added) if added else x


def second_half(net: Net, c: Choices, x: str) -> str:
    return experts(net, c, x) if "experts" in c.feed_forward else feed_forward(net, c, x)


def contrib_layer(net: Net, c: Choices, x: str, added: str, layer: int, context: Context) -> tuple[str, str]:
    if added:
        h, x = skip_norm(net, c, x, added, c.width)
    else:
        h = norm(net, c, x, c.width)
    h, x = skip_norm(net, c, x, attention(net, c, h, layer, context), c.width)
    return x, second_half(net, c, h)


def pre(net: Net, c: Choices, x: str, layer: int, context: Context) -> str:
    x = net.either("Add", x, attention(net, c, norm(net, c, x, c.width), layer, context))
    return net.either("Add", x, second_half(net, c, norm(net, c, x, c.width)))


def post(net: Net, c: Choices, x: str, layer: int, context: Context) -> str:
    x = norm(net, c, net.op("Add", x, attention(net, c, x, layer, context)), c.width)
    return norm(net, c, net.op("Add", x, second_half(net, c, x)), c.width)


def sandwich(net: Net, c: Choices, x: str, layer: int, context: Context) -> str:
    x = net.op("Add", x, norm(net, c, attention(net, c, norm(net, c, x, c.width), layer, context), c.width))
    return net.op("Add", x, norm(net, c, second_half(net, c, norm(net, c, x, c.width)), c.width))


def parallel(net: Net, c: Choices, x: str, layer: int, context: Context) -> str:
    h = norm(net, c, x, c.width)
    other = norm(net, c, x, c.width) if c.norm_place == "parallel-two" else h
    both = net.op("Add", attention(net, c, h, layer, context), second_half(net, c, other))
    return net.op("Add", x, both)


PLACES = {"pre": pre, "post": post, "sandwich": sandwich, "parallel": parallel, "parallel-two": parallel}


def mixed_along(net: Net, c: Choices, x: str) -> str:
    """What must be refused because a token sees others outside attention."""
    if c.refuse == "mean":
        return net.op("Add", x, net.reduce("ReduceMean", x, 1))
    if c.refuse == "token-shift":
        padded = net.op("Pad", x, net.ints([0, 1, 0, 0, 0, 0]), net.numbers(0))
        return net.op("Add", x, net.slice(padded, 0, -1, 1))
    if c.refuse == "convolution":
        columns = net.transpose(x, 0, 2, 1)
        mixed = net.op("Conv", columns, net.weight(c.width, 1, 3, std=0.5), group=c.width, pads=[2, 0], kernel_shape=[3])
        return net.op("Add", x, net.transpose(mixed, 0, 2, 1))
    return x
