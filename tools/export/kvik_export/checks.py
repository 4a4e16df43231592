"""Checks of every exported folder: onnx.checker accepts it, and ONNX Runtime computes the same as PyTorch."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch

from .runtime import CachedLoop, Translator

F32_TOLERANCE = 1e-3
F16_TOLERANCE = 5e-2
N_NEW = 24
CHUNK = 5
LENGTHS = (1, 7, 20)


@dataclass
class Report:
    """Rows of (file, check, result, passed); finish() prints them and exits if one failed."""

    rows: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def add(self, file: str, check: str, result: str, passed: bool) -> None:
        self.rows.append((file, check, result, passed))

    def finish(self) -> None:
        widths = [max(len(row[i]) for row in self.rows) for i in range(3)]
        for *cells, passed in self.rows:
            print("  ".join(c.ljust(w) for c, w in zip(cells, widths)), "ok" if passed else "FAILED", sep="  ")
        failed = sum(not row[3] for row in self.rows)
        if failed:
            raise SystemExit(f"{failed} of {len(self.rows)} checks failed; the files are wrong and must not be used")


def check_files(report: Report, folder: Path) -> None:
    """onnx.checker over every model file of the folder."""
    for path in sorted(folder.rglob("*.onnx")):
        size = sum(f.stat().st_size for f in path.parent.glob(f"{path.name}*"))
        try:
            onnx.checker.check_model(str(path))
            report.add(path.name, "onnx.checker", f"{size / 1e6:.2f} MB", True)
        except onnx.checker.ValidationError as error:
            report.add(path.name, "onnx.checker", str(error).splitlines()[0][:100], False)


def some_prompts(vocab: int, lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    rng = np.random.default_rng(11)
    return [rng.integers(0, vocab, n).tolist() for n in lengths]


@torch.no_grad()
def torch_greedy(logits_of, prompt: list[int], n_new: int = N_NEW) -> tuple[list[int], np.ndarray]:
    """Greedy ids without a cache, and the logits that chose them [n_new, V]. logits_of(ids) -> [S,V]."""
    ids, rows = list(prompt), []
    for _ in range(n_new):
        rows.append(logits_of(ids)[-1].float().numpy())
        ids.append(int(rows[-1].argmax()))
    return ids[len(prompt):], np.stack(rows)


def lead_of(row: np.ndarray, chosen: int) -> float:
    return float(row[chosen] - np.delete(row, chosen).max())


def wrong_choices(ids: list[int], want: np.ndarray, got: np.ndarray, tolerance: float) -> int:
    """Steps where another id wins although PyTorch's lead is larger than rounding can explain."""
    return sum(int(g.argmax()) != i and lead_of(w, i) > 2 * tolerance for i, w, g in zip(ids, want, got))


def forced_rows(loop: CachedLoop, prompt: list[int], ids: list[int], chunk: int | None = None) -> np.ndarray:
    """Logits of the cached loop fed with PyTorch's ids, not with its own choices."""
    width = chunk or len(prompt)
    for start in range(0, len(prompt), width):
        logits = loop.step([prompt[start:start + width]])[0, -1]
    rows = [logits]
    for i in ids[:-1]:
        rows.append(loop.step([[i]])[0, -1])
    return np.stack(rows)


def compare(report: Report, file: str, check: str, pairs: list[tuple[list[int], np.ndarray, np.ndarray]], tolerance: float) -> None:
    worst = max(float(np.abs(want - got).max()) for _, want, got in pairs)
    scale = max(float(np.abs(want).max()) for _, want, _ in pairs)
    limit = tolerance * max(1.0, scale / 10)
    wrong = sum(wrong_choices(ids, want, got, limit) for ids, want, got in pairs)
    steps = sum(len(ids) for ids, _, _ in pairs)
    text = f"{steps} steps, max difference {worst:.1e} (limit {limit:.0e}), {wrong} other ids"
    report.add(file, check, text, worst <= limit and not wrong)


def check_decoder(
    report: Report,
    loop: CachedLoop,
    file: str,
    logits_of,
    vocab: int,
    tolerance: float = F32_TOLERANCE,
    lengths: tuple[int, ...] = LENGTHS,
    n_new: int = N_NEW,
) -> None:
    """Whole prompt then token by token, the prompt in chunks, and a batch of two equal rows, against uncached PyTorch."""
    cases = [(p, *torch_greedy(logits_of, p, n_new)) for p in some_prompts(vocab, lengths)]
    for chunk in (None, CHUNK):
        pairs = []
        for prompt, ids, want in cases:
            loop.reset()
            pairs.append((ids, want, forced_rows(loop, prompt, ids, chunk)))
        compare(report, file, f"cached, prompt in chunks of {chunk}" if chunk else "cached, whole prompt", pairs, tolerance)
    prompt, ids, want = cases[-1]
    loop.reset()
    rows = [loop.step([prompt, prompt])[:, -1]] + [loop.step([[i], [i]])[:, -1] for i in ids[:-1]]
    pairs = [(ids, want, np.stack([r[lane] for r in rows])) for lane in (0, 1)]
    compare(report, file, "cached, batch of two", pairs, tolerance)


@torch.no_grad()
def check_seq2seq(report: Report, folder: Path, files: tuple[str, ...], model, tolerance: float = F32_TOLERANCE) -> None:
    """Encoder output and cached decoder logits against PyTorch."""
    config = model.config
    translator, pairs, worst = Translator(folder, files), [], 0.0
    for source in some_prompts(config.vocab_size - 1, (2, 8, 20)):
        source = source + [config.eos_token_id]
        ids = torch.tensor([source])
        hidden = model.get_encoder()(input_ids=ids, attention_mask=torch.ones_like(ids))
        start = [config.decoder_start_token_id]

        def logits_of(decoder_ids: list[int]):
            row, mask = torch.tensor([decoder_ids]), torch.ones_like(ids)
            return model(encoder_outputs=copy.copy(hidden), attention_mask=mask, decoder_input_ids=row).logits[0]

        new_ids, want = torch_greedy(logits_of, start)
        worst = max(worst, float(np.abs(translator.load_source(source) - hidden[0].float().numpy()).max()))
        pairs.append((new_ids, want, forced_rows(translator.loop, start, new_ids)))
    report.add("encoder_model.onnx", "hidden states", f"max difference {worst:.1e} (limit {tolerance:.0e})", worst <= tolerance)
    compare(report, files[-1], "cached, token by token", pairs, tolerance)
