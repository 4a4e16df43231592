"""Models with their cache as plain tensors: a small transformer from scratch, GPT-2 in every form, a large random decoder."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GPT2Config, Qwen2Config

from . import DECODER_FORMS, checks, convert, exporters
from .checks import Report
from .convert import Storage
from .exporters import Ports
from .modules import FlatCache, SmallTransformer, StackedCache
from .runtime import CachedLoop, past_in_order

@dataclass
class SmallShape:
    """The from-scratch transformer."""

    layers: int = 4
    heads: int = 4
    width: int = 256
    vocab: int = 1000
    context: int = 512


@torch.no_grad()
def lively_weights(model: torch.nn.Module, seed: int, std: float = 0.3) -> torch.nn.Module:
    """Seeded random weights strong enough for varied greedy ids: a fresh initialization repeats one token forever."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            parameter.add_(noise * 0.2)
        elif re.search(r"tok|pos|wte|wpe|embed", name):
            parameter.copy_(noise * 0.6)
        else:
            parameter.copy_(noise * std * (64 / parameter.shape[-1]) ** 0.5)
    return model.eval()


def cache_names(layers: int) -> tuple[list[str], list[str]]:
    names = [f"{kind}_{i}" for i in range(layers) for kind in ("key", "value")]
    return [f"past_{n}" for n in names], [f"present_{n}" for n in names]


def prove(out: Path, loop: CachedLoop, logits_of, vocab: int, tolerance: float) -> None:
    report = Report()
    checks.check_files(report, out)
    checks.check_decoder(report, loop, "model.onnx", logits_of, vocab, tolerance)
    report.finish()


def small(out: Path, shape: SmallShape, seed: int, dynamo: bool, storage: Storage, opset: int) -> None:
    """past_key_i, past_value_i -> present_key_i, present_value_i; no mask, no positions."""
    convert.new_folder(out)
    model = lively_weights(SmallTransformer(shape.vocab, shape.width, shape.heads, shape.layers, shape.context), seed)
    convert.prepare_weights(model, storage)
    ports = Ports(*cache_names(shape.layers), batch_axis=0, past_axis=2, limit=shape.context)
    args = (torch.tensor([[5, 6], [7, 8]]), *model.empty_past(batch=2, length=3))
    exported = out / "exported.onnx"
    exporters.torch_export(model, exported, args, ports, opset, dynamo)
    convert.finish_file(exported, out / "model.onnx", storage)
    config = {
        "vocab_size": shape.vocab, "hidden_size": shape.width, "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers, "max_position_embeddings": shape.context,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    prove(out, CachedLoop(out / "model.onnx"), model.logits_of, shape.vocab, storage.tolerance())


def gpt2_model(source: Path | None, seed: int, layers: int, width: int, heads: int, vocab: int):
    """From a local folder, or with random weights."""
    if source:
        return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    config = GPT2Config(vocab_size=vocab, n_embd=width, n_layer=layers, n_head=heads, n_positions=512, bos_token_id=1, eos_token_id=2)
    return lively_weights(AutoModelForCausalLM.from_config(config), seed)


def gpt2(out: Path, model, form: str, dynamo: bool, storage: Storage, opset: int) -> None:
    """Optimum's three forms; hand names; ONNX Runtime's old stacked cache; the newer torch exporter's own names."""
    convert.new_folder(out)
    convert.prepare_weights(model, storage)
    if form in DECODER_FORMS:
        if dynamo:
            raise SystemExit(f"form '{form}' comes from Optimum's torchscript export; dynamo goes with hand, stacked and dynamo-names")
        convert.export_decoder(model, out, form, storage, opset)
        return
    exported, config = out / "exported.onnx", model.config
    if form == "dynamo-names":
        exporters.transformers_dynamo(model, exported, opset)
    else:
        with contextlib.nullcontext() if dynamo else exporters.traceable(model):
            export_explicit(model, exported, form == "stacked", opset, dynamo)
    convert.finish_file(exported, out / "model.onnx", storage)
    config.save_pretrained(out)
    model.generation_config.save_pretrained(out)
    path = out / "model.onnx"
    loop = CachedLoop(path, pair=past_in_order(path)) if form == "dynamo-names" else CachedLoop(path)
    prove(out, loop, convert.logits_of(model), config.vocab_size, storage.tolerance())


def export_explicit(model, path: Path, stacked: bool, opset: int, dynamo: bool) -> None:
    """past_key_i and past_value_i [B,H,P,D], or past_i [2,B,H,P,D] with mask and positions as inputs."""
    config = model.config
    layers, heads, limit = config.num_hidden_layers, config.num_attention_heads, config.max_position_embeddings
    shape = (2, heads, 3, config.hidden_size // heads)
    tokens = torch.tensor([[5, 6], [7, 8]])
    if not stacked:
        ports = Ports(*cache_names(layers), batch_axis=0, past_axis=2, limit=limit)
        # Separate tensors: dynamo treats one object used twice as one input.
        pasts = [torch.zeros(shape) for _ in range(2 * layers)]
        exporters.torch_export(FlatCache(model), path, (tokens, *pasts), ports, opset, dynamo)
        return
    controls = ("input_ids", "position_ids", "attention_mask")
    names = [f"past_{i}" for i in range(layers)], [f"present_{i}" for i in range(layers)]
    ports = Ports(*names, batch_axis=1, past_axis=3, limit=limit, controls=controls)
    pasts = [torch.zeros(2, *shape) for _ in range(layers)]
    args = (tokens, torch.tensor([[3, 4], [3, 4]]), torch.ones(2, 5, dtype=torch.int64), *pasts)
    exporters.torch_export(StackedCache(model), path, args, ports, opset, dynamo)


def random_half_billion(out: Path, seed: int, storage: Storage, opset: int) -> None:
    """A decoder with 0.5 billion random weights in a common shape, for benchmarks."""
    convert.new_folder(out)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, max_position_embeddings=32768, rope_theta=1000000.0, tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    convert.prepare_weights(model, storage)
    convert.export_decoder(model, out, "one", storage, opset, lengths=(7,), n_new=3)
