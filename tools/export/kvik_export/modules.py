"""PyTorch modules that have their cache as plain inputs and outputs, as somebody exports a model by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import DynamicCache


class Block(nn.Module):
    def __init__(self, width: int, heads: int, ffn: int):
        super().__init__()
        self.h = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width)

    def forward(self, x, past_k, past_v, mask):
        b, s, d = x.shape
        q, k, v = (t.view(b, s, self.h, d // self.h).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(d, -1))
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        scores = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5
        x = x + self.proj((scores.masked_fill(mask, float("-inf")).softmax(-1) @ v).transpose(1, 2).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.ln2(x)))), k, v


class SmallTransformer(nn.Module):
    """forward(input_ids [B,S], past_key_0, past_value_0, ...) -> logits, present_key_0, present_value_0, ... each [B,H,T,D].

    Learned positions and the causal mask are computed inside; there is no mask and no position input.
    """

    def __init__(self, vocab: int, width: int, heads: int, layers: int, context: int, ffn: int | None = None):
        super().__init__()
        self.heads, self.head_dim, self.n_layers, self.vocab, self.context = heads, width // heads, layers, vocab, context
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, ffn or 4 * width) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, input_ids, *past):
        s, p = input_ids.shape[1], past[0].shape[2]
        at = torch.arange(p, p + s, device=input_ids.device)
        mask = torch.arange(p + s, device=input_ids.device)[None, :] > at[:, None]
        x, present = self.tok(input_ids) + self.pos(at), []
        for i, block in enumerate(self.blocks):
            x, k, v = block(x, past[2 * i], past[2 * i + 1], mask)
            present += [k, v]
        return (self.head(self.ln(x)), *present)

    def empty_past(self, batch: int = 1, length: int = 0) -> list[torch.Tensor]:
        return [torch.zeros(batch, self.heads, length, self.head_dim) for _ in range(2 * self.n_layers)]

    def logits_of(self, ids: list[int]) -> torch.Tensor:
        """Without a cache: ids -> [S,V]."""
        return self(torch.tensor([ids]), *self.empty_past())[0][0]


class WholeCacheTransformer(nn.Module):
    """The same with the whole cache in one tensor: past [L,2,B,H,T,D] -> logits, present."""

    def __init__(self, inner: SmallTransformer):
        super().__init__()
        self.inner = inner

    def forward(self, input_ids, past):
        flat = [past[i // 2, i % 2] for i in range(2 * past.shape[0])]
        logits, *present = self.inner(input_ids, *flat)
        pairs = [torch.stack(present[i:i + 2]) for i in range(0, len(present), 2)]
        return logits, torch.stack(pairs)


class FlatCache(nn.Module):
    """A transformers decoder with its cache as separate tensors: key 0, value 0, key 1, ... [B,H,P,D]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, *past):
        p, (b, s) = past[0].shape[2], input_ids.shape
        positions = torch.arange(p, p + s, device=input_ids.device)[None].expand(b, s)
        mask = torch.ones(b, p + s, dtype=torch.int64, device=input_ids.device)
        pairs = list(zip(past[::2], past[1::2]))
        return run_with_cache(self.model, input_ids, pairs, position_ids=positions, attention_mask=mask)


class StackedCache(nn.Module):
    """A transformers decoder with keys and values of a layer in one tensor [2,B,H,P,D], mask and positions as inputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position_ids, attention_mask, *past):
        pairs = [(p[0], p[1]) for p in past]
        logits, *present = run_with_cache(
            self.model, input_ids, pairs, position_ids=position_ids, attention_mask=attention_mask
        )
        return (logits, *(torch.stack(present[i:i + 2]) for i in range(0, len(present), 2)))


def run_with_cache(model, input_ids, pairs: list[tuple], **more) -> tuple:
    """logits, key 0, value 0, key 1, ... of a transformers decoder fed with these keys and values."""
    cache = DynamicCache.from_legacy_cache(pairs)
    out = model(input_ids=input_ids, past_key_values=cache, use_cache=True, **more)
    present = out["past_key_values"]
    # Under Optimum's patches, which tracing needs, the model returns plain tuples.
    legacy = present.to_legacy_cache() if isinstance(present, DynamicCache) else present
    return (out["logits"], *(t for pair in legacy for t in pair))
