"""Ways from a PyTorch model to ONNX files, each through a real exporter: Optimum, or torch.onnx itself."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers

DECODER_TASK = "text-generation-with-past"
SEQ2SEQ_TASK = "text2text-generation-with-past"
PAIR_FILES = ("decoder_model.onnx", "decoder_with_past_model.onnx")
MERGED_FILES = ("decoder_model_merged.onnx",)
ONE_FILE = ("model.onnx",)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Exporters are talkative; what matters is in our own report."""
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def optimum(model, folder: Path, opset: int, task: str = DECODER_TASK, **more) -> None:
    """Optimum's own layout: one file for a decoder, encoder and decoder files otherwise."""
    from optimum.exporters.onnx import onnx_export_from_model

    with quiet():
        onnx_export_from_model(model, str(folder), opset=opset, task=task, do_validation=False, **more)


def optimum_pair(model, folder: Path, opset: int, merge: bool = False) -> None:
    """Optimum's layout before one file served both: decoder_model and decoder_with_past_model, or both behind one `If`."""
    from optimum.exporters.onnx.convert import export_models
    from optimum.exporters.tasks import TasksManager

    config_of = TasksManager.get_exporter_config_constructor(
        model=model, exporter="onnx", task="text-generation", library_name="transformers"
    )
    parts = {
        "decoder_model": (model, config_of(model.config, use_past=True, use_past_in_inputs=False)),
        "decoder_with_past_model": (model, config_of(model.config, use_past=True, use_past_in_inputs=True)),
    }
    with quiet():
        for _, config in parts.values():
            config.DEFAULT_ONNX_OPSET = opset
        export_models(
            models_and_onnx_configs=parts, output_dir=folder, opset=opset, output_names=list(PAIR_FILES), do_constant_folding=True
        )
        if merge:
            parts["decoder_model"][1].post_process_exported_models(folder, parts, list(PAIR_FILES))
            for name in PAIR_FILES:
                (folder / name).unlink()


def decoder_files(model, folder: Path, form: str, opset: int) -> tuple[str, ...]:
    """Writes a decoder in the form asked for; returns its files in the order they are run."""
    if form == "one":
        optimum(model, folder, opset)
        return ONE_FILE
    optimum_pair(model, folder, opset, merge=form == "merged")
    return MERGED_FILES if form == "merged" else PAIR_FILES


def seq2seq_files(model, folder: Path, form: str, opset: int) -> tuple[str, ...]:
    """Writes encoder_model.onnx and the decoder as a pair or merged; returns the decoder's files."""
    if form not in ("pair", "merged"):
        raise SystemExit("an encoder-decoder is exported as 'pair' or 'merged'")
    files = MERGED_FILES if form == "merged" else PAIR_FILES
    with tempfile.TemporaryDirectory() as scratch:
        # Post-processing merges, and in some versions deletes the separate files; what is not asked for stays behind.
        optimum(model, Path(scratch), opset, SEQ2SEQ_TASK, no_post_process=form == "pair")
        for name in ("encoder_model.onnx", *files):
            (folder / name).write_bytes((Path(scratch) / name).read_bytes())
    return files


def torch_export(module: torch.nn.Module, path: Path, args: tuple, names: "PortNames", opset: int, dynamo: bool) -> None:
    """torch.onnx.export of a module with an explicit cache, by either of torch's two exporters."""
    with quiet():
        if dynamo:
            torch.onnx.export(
                module, args, str(path), input_names=names.inputs, output_names=names.outputs,
                dynamic_shapes=names.dynamic_shapes(), opset_version=opset, dynamo=True, external_data=False,
            )
        else:
            torch.onnx.export(
                module, args, str(path), input_names=names.inputs, output_names=names.outputs,
                dynamic_axes=names.dynamic_axes(), opset_version=opset, dynamo=False,
            )


class PortNames:
    """Names of a hand export's inputs and outputs and which of their axes are free."""

    def __init__(self, pasts: list[str], presents: list[str], batch_axis: int, past_axis: int, star_args: bool, limit: int):
        self.inputs = ["input_ids", *pasts]
        self.outputs = ["logits", *presents]
        self.batch_axis, self.past_axis = batch_axis, past_axis
        self.star_args = star_args
        self.limit = limit

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        axes = {"input_ids": {0: "batch", 1: "seq"}, "logits": {0: "batch", 1: "seq"}}
        axes |= {n: {self.batch_axis: "batch", self.past_axis: "past_len"} for n in self.inputs[1:]}
        return axes | {n: {self.batch_axis: "batch", self.past_axis: "total_len"} for n in self.outputs[1:]}

    def dynamic_shapes(self) -> tuple:
        dim = torch.export.Dim
        batch, sequence = dim("batch", min=1, max=64), dim("sequence", min=1, max=self.limit)
        cache = {self.batch_axis: batch, self.past_axis: dim("past", min=0, max=self.limit - 1)}
        pasts = tuple(cache for _ in self.inputs[1:])
        return ({0: batch, 1: sequence}, pasts) if self.star_args else ({0: batch, 1: sequence}, *pasts)
