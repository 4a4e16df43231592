"""Exports any Hugging Face decoder or encoder-decoder folder to an ONNX folder, in the common forms."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from . import checks, exporters, graphs
from .checks import Report
from .runtime import CachedLoop

USER_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model",
    "source.spm", "target.spm", "spiece.model", "sentencepiece.bpe.model",
)


@dataclass
class Storage:
    """How the exported files store their weights."""

    weights: str = "f32"
    data: str = "inside"
    chunk_bytes: int = graphs.CHUNK_BYTES

    def tolerance(self) -> float:
        return checks.F16_TOLERANCE if self.weights == "f16-graph" else checks.F32_TOLERANCE


def refuse_impossible(form: str, storage: Storage) -> None:
    if form == "merged" and storage.weights == "f16-graph":
        raise SystemExit("ONNX Runtime's f16 converter breaks the two branches of a merged file; use --weights f16, or --form pair")


def new_folder(out: Path) -> Path:
    """An empty folder to export into; existing files are never overwritten."""
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"{out}: the folder is not empty; name a new one, or remove it first")
    out.mkdir(parents=True, exist_ok=True)
    return out


@torch.no_grad()
def prepare_weights(model, storage: Storage) -> None:
    """Rounds the parameters to f16 if they will be stored as f16: PyTorch then computes with the same numbers."""
    if storage.weights != "f32":
        for parameter in model.parameters():
            parameter.copy_(parameter.half())


def finish_file(source: Path, target: Path, storage: Storage) -> None:
    """Converts the exporter's file: weights, data layout, IR version, no local paths."""
    model = graphs.load(source)
    source.unlink()
    graphs.share_transposed(model)
    if storage.weights == "f16-graph":
        model = graphs.convert_to_half(model)
    elif storage.weights == "f16":
        graphs.halve_storage(model)
    graphs.lower_ir_version(model)
    graphs.remove_machine_paths(model)
    graphs.save(model, target, storage.data, storage.chunk_bytes)


def copy_user_files(source: Path, out: Path) -> None:
    for name in USER_FILES:
        if (source / name).exists():
            shutil.copyfile(source / name, out / name)


def export_decoder(model, out: Path, form: str, storage: Storage, opset: int, **check) -> None:
    """A decoder through Optimum; logits and greedy ids checked against the given model."""
    refuse_impossible(form, storage)
    report = Report()
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        files = exporters.decoder_files(model, Path(scratch), form, opset)
        for name in files:
            finish_file(Path(scratch) / name, out / name, storage)
    model.config.save_pretrained(out)
    model.generation_config.save_pretrained(out)
    checks.check_files(report, out)
    loop = CachedLoop(out / files[0], out / files[1] if len(files) > 1 else None)
    checks.check_decoder(report, loop, files[-1], logits_of(model), model.config.vocab_size, storage.tolerance(), **check)
    report.finish()


def export_seq2seq(model, out: Path, form: str, storage: Storage, opset: int) -> None:
    refuse_impossible(form, storage)
    report = Report()
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        files = exporters.seq2seq_files(model, Path(scratch), form, opset)
        for name in ("encoder_model.onnx", *files):
            finish_file(Path(scratch) / name, out / name, storage)
    model.config.save_pretrained(out)
    model.generation_config.save_pretrained(out)
    checks.check_files(report, out)
    checks.check_seq2seq(report, out, files, model, storage.tolerance())
    report.finish()


def logits_of(model):
    """ids -> [S,V] of a transformers decoder, without a cache."""
    return lambda ids: model(torch.tensor([ids])).logits[0]


def convert(source: Path, out: Path, form: str | None, storage: Storage, opset: int) -> None:
    """Exports the folder `source`; the form defaults to what Optimum writes today."""
    config = AutoConfig.from_pretrained(source)
    new_folder(out)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = kind.from_pretrained(source, dtype=torch.float32).eval()
    prepare_weights(model, storage)
    if config.is_encoder_decoder:
        export_seq2seq(model, out, form or "merged", storage, opset)
    else:
        export_decoder(model, out, form or "one", storage, opset)
    copy_user_files(source, out)
