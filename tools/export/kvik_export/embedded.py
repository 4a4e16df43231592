"""Exports fable and en-zh from their trained weights and checks them on their expected outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from . import checks, exporters, graphs
from .checks import Report
from .convert import copy_user_files
from .runtime import CachedLoop, Translator, one_thread

OPSET = 18
FABLE_BYTES = 14_500_000
EN_ZH_BYTES = 19_000_000
SHARED_DATA = "shared.onnx_data"  # what the files of one model hold alike, such as embeddings of both sides


def _finish_files(report: Report, folder: Path, source: Path, limit_bytes: int) -> None:
    for path in sorted(folder.glob("*.onnx")):
        model = graphs.load(path)
        kept = graphs.halve_storage(model)
        graphs.lower_ir_version(model)
        graphs.remove_machine_paths(model)
        graphs.save(model, path)
        # Trained weights are f16 already; only tables computed in f32, such as sinusoidal positions, are not exact.
        share = sum(kept.values()) / path.stat().st_size
        report.add(path.name, "weights in 16 bits", f"all but {', '.join(kept)} ({share:.1%})" if kept else "all", share < 0.03)
    files = sorted(folder.glob("*.onnx"))
    if saved := graphs.share_between(files, SHARED_DATA):
        report.add(SHARED_DATA, "held once", f"{saved / 1e6:.2f} MB saved", True)
    copy_user_files(source, folder)
    total = sum(f.stat().st_size for f in folder.glob("*.onnx*"))
    report.add("*.onnx*", "size", f"{total / 1e6:.2f} MB (limit {limit_bytes / 1e6:.1f})", total <= limit_bytes)
    checks.check_files(report, folder)


def _perplexity(loop: CachedLoop, ids: list[int], window: int) -> float:
    losses = []
    for start in range(0, len(ids), window):
        part = ids[start:start + window]
        loop.reset()
        rows = loop.step([part])[0, :-1].astype(np.float64)
        rows -= rows.max(-1, keepdims=True)
        losses.extend(np.log(np.exp(rows).sum(-1)) - rows[np.arange(len(part) - 1), part[1:]])
    return float(np.exp(np.mean(losses)))


def export_fable(source: Path, out: Path) -> None:
    report, model = Report(), AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    out.mkdir(parents=True, exist_ok=True)
    exporters.optimum(model, out, OPSET)
    _finish_files(report, out, source, FABLE_BYTES)
    loop = CachedLoop(out / "model.onnx")
    checks.check_decoder(report, loop, "model.onnx", lambda ids: model(torch.tensor([ids])).logits[0], model.config.vocab_size)

    expected = json.loads((source / "expected.json").read_text())
    same = 0
    for case in expected["cases"]:
        ids, _ = loop.greedy(case["prompt_ids"], len(case["greedy_ids"]), [model.config.eos_token_id])
        same += ids == case["greedy_ids"]
    total = len(expected["cases"])
    report.add("model.onnx", "greedy ids of expected.json", f"{same} of {total} equal", same == total)

    ids = Tokenizer.from_file(str(out / "tokenizer.json")).encode((source / "heldout.txt").read_text(), add_special_tokens=False).ids
    for window, want in expected["perplexity"]["windows"].items():
        got = _perplexity(loop, ids, int(window))
        report.add("model.onnx", f"perplexity, windows of {window}", f"{got:.4f} (PyTorch {want})", abs(got - want) < 2e-3)
    report.finish()


def _equal_translations(folder: Path, model, cases: list[dict]) -> int:
    config, generation = model.config, model.generation_config
    translator, same = Translator(folder, exporters.MERGED_FILES), 0
    limit = 64

    def forced_end(row: np.ndarray, n_done: int) -> np.ndarray:
        if n_done == limit - 1 and generation.forced_eos_token_id is not None:
            row[:] = -np.inf
            row[generation.forced_eos_token_id] = 0
        return row

    for case in cases:
        translator.load_source(case["source_ids"])
        ids, _ = translator.loop.greedy([config.decoder_start_token_id], limit, [config.eos_token_id], process=forced_end)
        same += ids == case["greedy_ids"]
    return same


def _equal_beams(folder: Path, cases: list[dict]) -> int:
    """Four beams by transformers over the ONNX files."""
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    with exporters.quiet():
        over_files = ORTModelForSeq2SeqLM.from_pretrained(folder, use_merged=True, session_options=one_thread())
    same = 0
    for case in cases:
        ids = torch.tensor([case["source_ids"]])
        beams = over_files.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=4, length_penalty=1.0, early_stopping=False,
            max_new_tokens=64, do_sample=False,
        )
        same += beams[0, 1:].tolist() == case["beam4_ids"]
    return same


def export_en_zh(source: Path, out: Path) -> None:
    report, model = Report(), AutoModelForSeq2SeqLM.from_pretrained(source, dtype=torch.float32).eval()
    out.mkdir(parents=True, exist_ok=True)
    exporters.seq2seq_files(model, out, "merged", OPSET)
    _finish_files(report, out, source, EN_ZH_BYTES)
    checks.check_seq2seq(report, out, exporters.MERGED_FILES, model)

    cases = [json.loads(line) for line in (source / "expected.jsonl").read_text().splitlines()]
    greedy, beams = _equal_translations(out, model, cases), _equal_beams(out, cases)
    file = exporters.MERGED_FILES[0]
    report.add(file, "greedy ids of expected.jsonl", f"{greedy} of {len(cases)} equal", greedy == len(cases))
    report.add(file, "four-beam ids of expected.jsonl", f"{beams} of {len(cases)} equal", beams == len(cases))
    report.finish()
