"""What a random decoder is made of."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields

REFUSED = (
    "token-shift", "convolution", "mean", "log-length", "rope-by-length", "chunked", "absolute-bias", "token-bias", "sees-ahead",
    "squared-weights", "scaled-weights",
)


@dataclass
class Choices:
    seed: int = 0
    refuse: str = ""  # what makes it no program over rows; empty: it must compile
    opset: int = 17
    dtype: str = "f32"
    contrib: bool = False  # operators of com.microsoft
    n_layers: int = 2
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 8
    value_dim: int = 8
    width: int = 24
    vocab: int = 53

    norm: str = "layer"
    norm_spelling: str = "operator"
    norm_place: str = "pre"
    norm_bias: bool = True
    linear: str = "matmul"
    bias: bool = True
    qkv: str = "apart"
    qk_norm: str = "none"

    feed_forward: str = "plain"
    activation: str = "relu"

    positions: str = "none"
    position_source: str = "range"
    rotary: str = "none"
    rotary_dim: int = 8
    rotary_style: str = "half"
    rotary_spelling: str = "slice"
    rotary_table: str = "computed"
    rotary_place: str = "heads"
    alibi: str = "none"

    attention: str = "primitives"
    product: str = "plain"
    groups: str = "expand"
    scale: str = "div"
    score_cap: float = 0.0
    softmax: str = "operator"
    sink: bool = False
    mask: str = "range"
    mask_applied: str = "add"
    masked: float = -1e4
    padding: str = "none"
    window: int = 0
    window_layers: str = "all"

    cache: str = "heads"
    names: str = "past_key_values.{i}.{kind} present.{i}.{kind}"
    named_kinds: tuple = ("key", "value")
    grouped_order: bool = False
    attention_mask: bool = True
    position_ids: bool = True
    small_ids: bool = False

    embed_scale: bool = False
    final_norm: bool = True
    head: str = "apart"
    logits_cap: float = 0.0
    last_only: bool = False

    def __str__(self) -> str:
        """What differs from the plain decoder."""
        plain = Choices()
        return ", ".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != getattr(plain, f.name))


NAMES = (
    ("past_key_values.{i}.{kind} present.{i}.{kind}", ("key", "value")),
    ("past_key_values.{i}.{kind} present_key_values.{i}.{kind}", ("key", "value")),
    ("past_{kind}_{i} present_{kind}_{i}", ("key", "value")),
    ("past.{i}.{kind} present.{i}.{kind}", ("key", "value")),
    ("{kind}_cache_{i} {kind}_cache_{i}_out", ("k", "v")),
    ("past_key_values_{kind}_cache_{i} cat_{n}", ("key", "value")),
    ("cache_{kind}{i} new_cache_{kind}{i}", ("k", "v")),
)


def draw(seed: int, refuse: str = "") -> Choices:
    rng = random.Random(seed * 7919 + 13)
    c = Choices(seed=seed, refuse=refuse)
    pick, chance = rng.choice, lambda p: rng.random() < p
    c.opset = pick([14, 15, 16, 17, 18, 19, 20, 21, 22, 23])
    c.contrib = chance(0.3)
    c.dtype = "f16" if chance(0.08) else "f32"
    draw_sizes(c, pick, chance)
    draw_body(c, pick, chance)
    draw_positions(c, pick, chance)
    draw_attention(c, pick, chance)
    draw_cache(c, pick, chance)
    settle(c, pick)
    return c


def draw_sizes(c: Choices, pick, chance) -> None:
    c.n_layers = pick([1, 2, 2, 3])
    c.heads, c.kv_heads = pick([(4, 4), (2, 2), (4, 2), (4, 1), (6, 2), (3, 3), (1, 1)])
    c.head_dim = pick([4, 6, 8, 16])
    c.value_dim = c.head_dim if chance(0.85) else c.head_dim + 2
    c.width = pick([12, 20, 32, c.heads * c.head_dim])
    c.vocab = pick([29, 53, 64])


def draw_body(c: Choices, pick, chance) -> None:
    c.norm = pick(["layer", "rms"])
    c.norm_spelling = pick(["operator", "sqrt-div", "power", "reciprocal", "contrib"])
    c.norm_place = pick(["pre", "pre", "pre", "post", "sandwich", "parallel", "parallel-two"])
    c.norm_bias, c.bias = chance(0.6), chance(0.5)
    c.linear = pick(["matmul", "matmul", "transposed", "gemm", "gemm-flat"])
    c.qkv = pick(["apart", "apart", "split", "slice", "gather", "interleaved"])
    c.qk_norm = pick(["none", "none", "none", "head", "whole"])
    c.feed_forward = pick(["plain", "gated", "gated-fused", "plain", "gated", "experts", "sparse-experts"])
    c.activation = pick(["relu", "gelu", "gelu-tanh", "silu", "quick-gelu", "relu2", "tanh", "mish", "elu", "hard-swish"])
    c.embed_scale, c.final_norm = chance(0.2), chance(0.85)
    c.head = pick(["apart", "apart", "tied", "bias", "gemm"])
    c.logits_cap = 7.0 if chance(0.15) else 0.0
    c.last_only = chance(0.05)


def draw_positions(c: Choices, pick, chance) -> None:
    kind = pick(["learned", "offset", "sinus-table", "sinus", "rotary", "rotary", "rotary", "rotary", "alibi", "none"])
    if kind == "rotary":
        c.rotary = pick(["full", "full", "partial"])
        c.rotary_style = pick(["half", "half", "interleaved"])
        c.rotary_spelling = pick(["slice", "split", "reshape", "operator"])
        c.rotary_table = pick(["computed", "computed", "gather", "slice", "matmul"])
        c.rotary_place = pick(["heads", "heads", "rows", "after-cache"])
    elif kind == "alibi":
        c.alibi = pick(["relative", "keys", "mask"])
    else:
        c.positions = kind
    c.position_source = pick(["range", "mask", "subtract", "input"])


def draw_attention(c: Choices, pick, chance) -> None:
    c.attention = pick(["primitives", "primitives", "primitives", "primitives", "standard", "gqa", "mha"])
    c.product = pick(["plain", "plain", "plain", "plain", "keys-first", "einsum"])
    c.groups = pick(["expand", "tile", "gather", "apart", "folded"])
    c.scale = pick(["div", "mul", "query", "key", "both", "computed", "late", "none"])
    c.score_cap = 5.0 if chance(0.15) else 0.0
    c.softmax = pick(["operator", "operator", "operator", "spelled", "guarded", "cast"])
    c.sink = chance(0.08)
    c.mask = pick(["range", "trilu-constant", "trilu-made", "expanded", "distance", "positions"])
    c.mask_applied = pick(["add", "where"])
    c.masked = pick([-1e4, -65504.0, -1e9, -3.4028234663852886e38, float("-inf")])
    c.padding = pick(["none", "and", "add", "add-first"])
    c.window = pick([3, 4, 5]) if chance(0.3) else 0
    c.window_layers = pick(["all", "even"])


def draw_cache(c: Choices, pick, chance) -> None:
    c.cache = pick(["heads", "heads", "heads", "rows", "merged", "keys-transposed", "stacked", "stacked-all", "fused", "repeated", "none"])
    c.names, c.named_kinds = pick(NAMES)
    c.grouped_order = chance(0.3)
    c.attention_mask, c.position_ids = chance(0.7), chance(0.6)
    c.small_ids = chance(0.1)


def settle(c: Choices, pick) -> None:
    """Choices that exclude each other: the later one gives way."""
    if c.refuse:
        settle_refused(c)
    if c.dtype == "f16":
        c.masked = max(c.masked, -65504.0) if c.masked != float("-inf") else c.masked
        c.feed_forward = "plain" if "experts" in c.feed_forward else c.feed_forward
    settle_attention(c, pick)
    settle_operators(c)
    if c.position_source == "mask" and not c.attention_mask or c.position_source == "input" and not c.position_ids:
        c.position_source = "range"
    if c.padding != "none" and not c.attention_mask:
        c.padding = "none"
    if c.alibi == "mask" and not c.attention_mask:
        c.alibi = "relative"
    if c.mask == "positions" and not c.position_ids:
        c.mask = "range"
    if c.cache in ("stacked", "stacked-all"):
        c.value_dim = c.head_dim
    if c.cache == "repeated" and (c.groups in ("apart", "folded") or c.kv_heads == c.heads):
        c.cache = "heads"
    c.rotary_dim = c.head_dim if c.rotary != "partial" else max(2, c.head_dim // 2)
    if c.rotary_dim % 2:
        c.rotary_dim -= 1
    if c.product == "keys-first" and c.cache == "none":
        c.product = "plain"  # where keys are the rows themselves, the left operand is taken for the queries
    if c.qkv in ("gather", "interleaved") and (c.kv_heads != c.heads or c.value_dim != c.head_dim):
        c.qkv = "split"


def settle_attention(c: Choices, pick) -> None:
    if c.sink:
        c.attention, c.softmax, c.product = "primitives", "operator", "plain"
        c.groups = "expand" if c.groups in ("apart", "folded") else c.groups
        c.alibi = "relative" if c.alibi != "none" else "none"  # a sink beside slope * key is no function of the distance
    if c.alibi != "none" or c.scale == "late" or c.opset < 23 and c.attention == "standard":
        c.attention = "primitives" if c.attention != "mha" or c.scale == "late" else c.attention
    if not c.contrib and c.attention in ("gqa", "mha"):
        c.attention = "primitives"
    if c.attention == "gqa":
        c.mask, c.head_dim, c.value_dim, c.mask_applied, c.padding = "range", 16, 16, "add", "none"
        c.cache = c.cache if c.cache in ("heads", "none") else "heads"
        c.rotary_place = "heads" if c.rotary_place == "after-cache" else c.rotary_place
        c.rotary = "full" if c.rotary == "partial" else c.rotary  # ONNX Runtime's operator takes no half of 16
    if c.attention == "mha":
        c.kv_heads, c.value_dim, c.mask_applied, c.score_cap = c.heads, c.head_dim, "add", 0.0
        c.cache = c.cache if c.cache in ("heads", "none") else "heads"
        c.rotary_place = "heads" if c.rotary_place == "after-cache" else c.rotary_place
    if c.groups == "folded" and (c.kv_heads != 1 or c.heads == 1):
        c.groups = "apart"
    if c.kv_heads == c.heads or c.attention != "primitives":
        c.groups = "expand"
    if c.groups in ("apart", "folded"):
        c.product = "plain"
    if c.softmax == "spelled" and c.masked == float("-inf") and c.padding in ("add", "add-first"):
        c.masked = -1e4
    if c.mask == "expanded" and (c.window or c.mask_applied == "where"):
        c.mask = "range"


def settle_operators(c: Choices) -> None:
    """What an opset lacks is spelled out."""
    if c.norm_spelling == "contrib" and (not c.contrib or c.norm_place not in ("pre",) or c.refuse):
        c.norm_spelling = "operator"
    if c.norm_spelling == "operator" and c.opset < (17 if c.norm == "layer" else 23):
        c.norm_spelling = "sqrt-div"
    if c.rotary_spelling == "operator" and (c.opset < 23 and not c.contrib or c.rotary_place == "after-cache"):
        c.rotary_spelling = "slice"
    if c.rotary_spelling == "operator" and c.opset < 23 and c.rotary == "partial":
        c.rotary_place = "heads"
    if c.feed_forward == "sparse-experts" and c.opset < 16:
        c.feed_forward = "experts"


def settle_refused(c: Choices) -> None:
    """The plainest surroundings in which the forbidden thing can stand."""
    c.dtype, c.attention, c.product, c.sink, c.alibi, c.softmax, c.last_only = "f32", "primitives", "plain", False, "none", "operator", False
    c.groups = "expand"
    c.feed_forward = "plain" if "experts" in c.feed_forward else c.feed_forward
    if c.refuse in ("chunked", "sees-ahead"):
        c.mask, c.window, c.padding = "range", 0, "none"
    if c.refuse in ("token-shift", "convolution", "mean"):
        c.cache = "none"
    if c.refuse == "rope-by-length":
        c.rotary, c.rotary_table, c.rotary_place, c.rotary_spelling, c.positions = "full", "computed", "heads", "slice", "none"
