"""Expected results from ONNX Runtime, fed as the generator specifies and without any analysis."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort

from .choices import Choices
from .net import BATCH, PAST

N_TOKENS = 11


class Runner:
    def __init__(self, model: onnx.ModelProto, c: Choices):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # its fusions break some half graphs
        self.c = c
        self.session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, ids: np.ndarray, past: dict | None = None, n_past: int = 0) -> dict:
        """ids [B, S]; past by input name, empty without one."""
        total = n_past + ids.shape[1]
        feeds = {
            "input_ids": ids.astype(np.int32 if self.c.small_ids else np.int64),
            "attention_mask": np.ones((len(ids), total), np.int64),
            "position_ids": np.tile(np.arange(n_past, total), (len(ids), 1)),
            **(past or {}),
        }
        wanted = {i.name: i for i in self.session.get_inputs()}
        fed = {name: feeds[name] if name in feeds else self.empty(i, len(ids)) for name, i in wanted.items()}
        return dict(zip(self.outputs, self.session.run(None, fed)))

    def empty(self, port, batch: int) -> np.ndarray:
        size = {BATCH: batch, PAST: 0, "batch_size x num_heads": batch * self.c.kv_heads}
        return np.zeros([size.get(d, d) for d in port.shape], np.float16 if "float16" in port.type else np.float32)


def prompt_of(c: Choices) -> np.ndarray:
    return np.random.default_rng(c.seed).integers(0, c.vocab, (1, N_TOKENS))


def tolerance_of(c: Choices) -> float:
    """As a share of the logits' spread: ONNX Runtime computes half graphs in half."""
    return 0.1 if c.dtype == "f16" else 1e-3


def logits_of(model: onnx.ModelProto, pairs: list[tuple[str, str]], c: Choices) -> np.ndarray:
    """[S, vocab]. Also proves that the generator wrote a decoder: a batch of two and a prompt in pieces give the same."""
    runner = Runner(model, c)
    ids = prompt_of(c)
    beginnings = [runner.run(ids[:, : n + 1])["logits"][0, -1] for n in range(N_TOKENS)] if c.last_only else runner.run(ids)["logits"][0]
    rows = np.stack(beginnings)
    assert np.isfinite(rows).all(), "logits are not finite"
    if c.refuse:
        return rows
    limit = tolerance_of(c) * rows.std() / 2
    two = runner.run(np.concatenate([ids, ids[:, ::-1]]))["logits"][0, -1]
    assert np.abs(two - rows[-1]).max() < limit, "a batch of two differs"
    past = {}
    for begin, end in ((0, 4), (4, 5), (5, N_TOKENS)) if pairs else ():
        outputs = runner.run(ids[:, begin:end], past, begin)
        assert np.abs(outputs["logits"][0, -1] - rows[end - 1]).max() < limit, f"a prompt in pieces differs at {end}"
        past = {old: outputs[new] for old, new in pairs}
    return rows
