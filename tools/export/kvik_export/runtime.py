"""An independent cached loop over exported files with ONNX Runtime: the opposite number of PyTorch in every check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
TOKEN_INPUTS = ("input_ids", "decoder_input_ids", "tokens")
PRESENT_TO_PAST = (("present_key_values", "past_key_values"), ("present.", "past_key_values."), ("present", "past"))


def one_thread() -> ort.SessionOptions:
    """These models are small: more threads would only spin."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def session(path: Path) -> ort.InferenceSession:
    return ort.InferenceSession(str(path), one_thread(), providers=["CPUExecutionProvider"])


def past_of(output: str) -> str | None:
    """The input that takes this output in the next step, by name."""
    for present, past in PRESENT_TO_PAST:
        if output.startswith(present):
            return past + output[len(present):]
    return None


def past_in_order(path: Path) -> Callable[[str], str | None]:
    """For files whose cache outputs have no telling names: the n-th output after the logits feeds the n-th past input."""
    s = session(path)
    pasts = [v.name for v in s.get_inputs() if v.name.startswith("past")]
    return dict(zip([v.name for v in s.get_outputs()][1:], pasts)).get


class CachedLoop:
    """One file with past, a (first, with past) pair, or a merged file, fed as the exporter meant it."""

    def __init__(
        self,
        first: Path,
        then: Path | None = None,
        fixed: dict[str, np.ndarray] | None = None,
        pair: Callable[[str], str | None] = past_of,
        head_dim: int | None = None,
    ):
        self.first = session(first)
        self.then = session(then) if then else None
        self.fixed = fixed or {}
        self.pair = pair
        self.head_dim = head_dim
        self.batch_name = self.first.get_inputs()[0].shape[0]
        self.reset()

    def reset(self) -> None:
        self.n_past = 0
        self.state: dict[str, np.ndarray] = {}

    def _empty(self, value, batch: int) -> np.ndarray:
        def size(dim) -> int:
            if isinstance(dim, int):
                return dim
            if dim == self.batch_name or "batch" in dim:
                return batch
            return self.head_dim if "dim" in dim else 0

        return np.zeros([size(d) for d in value.shape], DTYPES[value.type])

    def _feed(self, value, ids: np.ndarray) -> np.ndarray:
        dtype, batch, total = DTYPES[value.type], len(ids), self.n_past + ids.shape[1]
        positions = np.arange(self.n_past, total)
        if value.name in TOKEN_INPUTS:
            return ids.astype(dtype)
        if value.name == "attention_mask":
            return np.ones((batch, total), dtype)
        if value.name == "position_ids":
            return np.tile(positions, (batch, 1)).astype(dtype)
        if value.name == "use_cache_branch":
            return np.array([self.n_past > 0])
        if value.name in self.fixed:
            return np.repeat(self.fixed[value.name], batch, 0).astype(dtype)
        if value.name in self.state:
            return self.state[value.name].astype(dtype)
        return self._empty(value, batch)

    def step(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """ids [B,S] -> logits [B,S,V]; the cache moves on."""
        tokens = np.asarray(ids)
        s = self.then if self.then and self.n_past else self.first
        names = [o.name for o in s.get_outputs()]
        values = s.run(None, {v.name: self._feed(v, tokens) for v in s.get_inputs()})
        for name, value in zip(names, values):
            past = self.pair(name)
            # A merged decoder's cached branch returns an empty cross-attention cache, so the one of the first step is kept.
            if past and not (".encoder." in past and self.n_past):
                self.state[past] = value
        self.n_past += tokens.shape[1]
        return values[names.index("logits") if "logits" in names else 0].astype(np.float32)

    def greedy(
        self,
        prompt: list[int],
        n_new: int,
        eos: Iterable[int] = (),
        chunk: int | None = None,
        process: Callable[[np.ndarray, int], np.ndarray] | None = None,
    ) -> tuple[list[int], list[np.ndarray]]:
        """New ids (an end id included) and the raw logits that chose each."""
        self.reset()
        width = chunk or len(prompt)
        for start in range(0, len(prompt), width):
            logits = self.step([prompt[start:start + width]])[0, -1]
        ids: list[int] = []
        rows: list[np.ndarray] = []
        while True:
            rows.append(logits)
            ids.append(int((process(logits.copy(), len(ids)) if process else logits).argmax()))
            if len(ids) == n_new or ids[-1] in eos:
                return ids, rows
            logits = self.step([[ids[-1]]])[0, -1]


class Translator:
    """Encoder and decoder files of one folder; cached greedy translation of source ids."""

    def __init__(self, folder: Path, decoder: tuple[str, ...]):
        self.encoder = session(folder / "encoder_model.onnx")
        self.loop = CachedLoop(folder / decoder[0], folder / decoder[1] if len(decoder) > 1 else None)

    def encode(self, source: list[int]) -> np.ndarray:
        ids = np.array([source])
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return self.encoder.run(None, {v.name: feeds[v.name] for v in self.encoder.get_inputs()})[0]

    def load_source(self, source: list[int]) -> np.ndarray:
        """Encodes and points the decoder at the result; returns the encoder's output."""
        hidden = self.encode(source)
        self.loop.reset()
        self.loop.fixed = {"encoder_hidden_states": hidden, "encoder_attention_mask": np.ones(hidden.shape[:2], np.int64)}
        return hidden
