"""Writes a shape as a file for llama.cpp, with random weights."""
import pathlib

import gguf
import numpy as np

from models.random_weights import random_matrix
from models.shapes import EPSILON, ROPE_BASE, Shape

KINDS = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
# What its own program writes for q4_0: the head, which is the embedding, keeps more bits. Its q6_K cannot be written by the package; q8_0 can.
MIXED = {"q4_0+q8_0": ("q4_0", "q8_0")}


def formats_of(name: str) -> tuple[str, str]:
    """Of the layers, and of the embedding."""
    return MIXED.get(name, (name, name))


def bytes_of(shape: Shape, name: str) -> int:
    """Weights that one token reads."""
    layers, head = (KINDS[kind] for kind in formats_of(name))

    def size(kind: gguf.GGMLQuantizationType, n: int) -> int:
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        return n // block * block_bytes

    return size(layers, shape.layers * shape.layer_weights()) + size(head, shape.vocab * shape.width)


def write(shape: Shape, target: pathlib.Path, name: str) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    layer_kind, head_kind = (KINDS[kind] for kind in formats_of(name))
    part = target.with_suffix(".part")
    writer = gguf.GGUFWriter(str(part), "qwen2" if shape.bias else "llama", use_temp_file=False)
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_vocab_size(shape.vocab)
    add_vocabulary(writer, shape)

    def matrix(tensor: str, content: np.ndarray, kind: gguf.GGMLQuantizationType) -> None:
        writer.add_tensor(tensor, content, raw_dtype=kind)

    def quantized(label: str, rows: int, columns: int, kind: gguf.GGMLQuantizationType) -> np.ndarray:
        return gguf.quants.quantize(random_matrix(label, rows, columns), kind)

    matrix("token_embd.weight", quantized("embedding", shape.vocab, shape.width, head_kind), head_kind)
    writer.add_tensor("output_norm.weight", np.ones(shape.width, np.float32))
    contents = {label: quantized(label, rows, columns, layer_kind) for label, rows, columns in shape.matrices()}
    for i in range(shape.layers):
        for label, rows, _ in shape.matrices():
            matrix(f"blk.{i}.{label}.weight", contents[label], layer_kind)
            if shape.bias and label in ("attn_q", "attn_k", "attn_v"):
                writer.add_tensor(f"blk.{i}.{label}.bias", np.zeros(rows, np.float32))
        for label in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{label}.weight", np.ones(shape.width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(target)


def add_vocabulary(writer: gguf.GGUFWriter, shape: Shape) -> None:
    """The ids of models/tokenizer.py, so that a server can turn them into text."""
    from models.tokenizer import END, tokens

    pieces = tokens(shape.vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types([gguf.TokenType.CONTROL if i == END else gguf.TokenType.NORMAL for i in range(len(pieces))])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(END)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(False)
