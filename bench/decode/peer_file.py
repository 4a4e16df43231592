"""Writes a file of random weights for llama.cpp, with the shape given by a config.json."""

import json
import pathlib

import numpy as np


def can_be_written(config: dict) -> bool:
    """Grouped attention with rotary positions and a gated feed-forward layer."""
    return all(key in config for key in ("num_key_value_heads", "intermediate_size", "rms_norm_eps"))


def write(folder: str, target: pathlib.Path, weights: str) -> None:
    """weights: f32 or q8, as llama.cpp's q8_0; norms and biases stay f32."""
    import gguf

    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    kind = gguf.GGMLQuantizationType.Q8_0 if weights == "q8" else gguf.GGMLQuantizationType.F32
    writer = gguf.GGUFWriter(str(target), "qwen2")
    width, inner, layers, vocab = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim") or width // heads
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("no_vocab")
    random = np.random.default_rng(1)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = (random.standard_normal((rows, columns), np.float32) * 0.02).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def vector(name: str, size: int, value: float) -> None:
        writer.add_tensor(name, np.full(size, value, np.float32))

    matrix("token_embd.weight", vocab, width)
    vector("output_norm.weight", width, 1.0)
    for i in range(layers):
        for name, rows, columns in (
            ("attn_q", heads * head, width), ("attn_k", kv_heads * head, width), ("attn_v", kv_heads * head, width),
            ("attn_output", width, heads * head), ("ffn_gate", inner, width), ("ffn_up", inner, width), ("ffn_down", width, inner),
        ):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
        for name, size in (("attn_q", heads * head), ("attn_k", kv_heads * head), ("attn_v", kv_heads * head)):
            vector(f"blk.{i}.{name}.bias", size, 0.0)
        for name in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{name}.weight", width, 1.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
