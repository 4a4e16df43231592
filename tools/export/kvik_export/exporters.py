"""Ways from a PyTorch model to ONNX files, each through a real exporter: Optimum, or torch.onnx itself."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
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
    """Silences the exporters; our own report has what matters."""
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


@contextlib.contextmanager
def restored_cache_flags(model) -> Iterator[None]:
    """Optimum turns use_cache on in every part of the model and leaves it on; some encoders then refuse to run."""
    configs = [m.config for m in model.modules() if hasattr(getattr(m, "config", None), "use_cache")]
    flags = [c.use_cache for c in configs]
    try:
        yield
    finally:
        for config, flag in zip(configs, flags):
            config.use_cache = flag


def optimum(model, folder: Path, opset: int, task: str = DECODER_TASK, **more) -> None:
    """Optimum's own layout: one file for a decoder, encoder and decoder files otherwise."""
    from optimum.exporters.onnx import onnx_export_from_model

    with quiet(), restored_cache_flags(model):
        onnx_export_from_model(model, str(folder), opset=opset, task=task, do_validation=False, **more)


def _optimum_config(model):
    import optimum.exporters.onnx.model_configs  # noqa: F401  (registers the architectures)
    from optimum.exporters.tasks import TasksManager

    return TasksManager.get_exporter_config_constructor(model=model, exporter="onnx", task="text-generation", library_name="transformers")


def traceable(model):
    """A context in which a transformers decoder can be traced: Optimum's own patches of masks and caches."""
    return _optimum_config(model)(model.config, use_past=True, use_past_in_inputs=True).patch_model_for_export(model)


def optimum_pair(model, folder: Path, opset: int, merge: bool = False) -> None:
    """Optimum's layout before one file served both: decoder_model and decoder_with_past_model, or both behind one `If`."""
    from optimum.exporters.onnx.convert import export_models

    config_of = _optimum_config(model)
    parts = {
        "decoder_model": (model, config_of(model.config, use_past=True, use_past_in_inputs=False)),
        "decoder_with_past_model": (model, config_of(model.config, use_past=True, use_past_in_inputs=True)),
    }
    with quiet(), restored_cache_flags(model):
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
        optimum(model, folder, opset, no_post_process=True)
        return ONE_FILE
    optimum_pair(model, folder, opset, merge=form == "merged")
    return MERGED_FILES if form == "merged" else PAIR_FILES


def seq2seq_files(model, folder: Path, form: str, opset: int) -> tuple[str, ...]:
    """Writes encoder_model.onnx and the decoder as a pair or merged; returns the decoder's files."""
    if form not in ("pair", "merged"):
        raise SystemExit("an encoder-decoder is exported as 'pair' or 'merged'")
    files = MERGED_FILES if form == "merged" else PAIR_FILES
    with tempfile.TemporaryDirectory() as scratch:
        # Post-processing merges the files and, in some versions, deletes the separate ones; files that were not requested stay behind.
        optimum(model, Path(scratch), opset, SEQ2SEQ_TASK, no_post_process=form == "pair")
        for name in ("encoder_model.onnx", *files):
            (folder / name).write_bytes((Path(scratch) / name).read_bytes())
    return files


@dataclass
class Ports:
    """Inputs and outputs of a module with an explicit cache, and which of their axes are free."""

    pasts: list[str]
    presents: list[str]
    batch_axis: int
    past_axis: int
    limit: int
    controls: tuple[str, ...] = ("input_ids",)
    star_args: bool = True  # the module takes its pasts as *past

    def inputs(self) -> list[str]:
        return [*self.controls, *self.pasts]

    def outputs(self) -> list[str]:
        return ["logits", *self.presents]

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        axes = {n: {0: "batch", 1: "total_len" if n == "attention_mask" else "seq"} for n in self.controls}
        axes["logits"] = {0: "batch", 1: "seq"}
        axes |= {n: {self.batch_axis: "batch", self.past_axis: "past_len"} for n in self.pasts}
        return axes | {n: {self.batch_axis: "batch", self.past_axis: "total_len"} for n in self.presents}

    def dynamic_shapes(self) -> tuple:
        dim = torch.export.Dim
        batch, sequence = dim("batch", min=1, max=64), dim("sequence", min=1, max=self.limit)
        cache = {self.batch_axis: batch, self.past_axis: dim("past", min=0, max=self.limit - 1)}
        if "attention_mask" in self.controls:  # its length is a sum, which only inferred dimensions can follow
            batch = sequence = dim.DYNAMIC
            cache = dict.fromkeys(cache, dim.DYNAMIC)
        pasts = tuple(cache for _ in self.pasts)
        controls = tuple({0: batch, 1: sequence} for _ in self.controls)
        return (*controls, pasts) if self.star_args else (*controls, *pasts)


def torch_export(module: torch.nn.Module, path: Path, args: tuple, ports: Ports, opset: int, dynamo: bool) -> None:
    """torch.onnx.export of a module with an explicit cache, by either of torch's two exporters."""
    module.eval()  # torch restores the mode of the outermost module, and with it dropout inside
    names = {"input_names": ports.inputs(), "output_names": ports.outputs(), "opset_version": opset}
    with quiet():
        if dynamo:
            shapes = ports.dynamic_shapes()
            torch.onnx.export(module, args, str(path), dynamic_shapes=shapes, dynamo=True, external_data=False, **names)
        else:
            torch.onnx.export(module, args, str(path), dynamic_axes=ports.dynamic_axes(), dynamo=False, **names)


def transformers_dynamo(model, path: Path, opset: int) -> None:
    """torch's newer exporter on the transformers model itself: its DynamicCache flattened, names as torch gives them."""
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    config, cache = model.config, transformers.cache_utils.DynamicCache()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for layer in range(config.num_hidden_layers):
        cache.update(torch.zeros(2, heads, 3, head_dim), torch.zeros(2, heads, 3, head_dim), layer)
    free = torch.export.Dim.DYNAMIC
    inputs = {
        "input_ids": torch.tensor([[5, 6], [7, 8]]), "attention_mask": torch.ones(2, 5, dtype=torch.long),
        "position_ids": torch.tensor([[3, 4], [3, 4]]), "past_key_values": cache, "use_cache": True,
    }
    states = [{0: free, 2: free}] * config.num_hidden_layers
    shapes = {n: {0: free, 1: free} for n in ("input_ids", "attention_mask", "position_ids")}
    shapes |= {"past_key_values": [states, states], "use_cache": None}
    with quiet():
        with contextlib.suppress(ValueError):  # registered before
            register_dynamic_cache_export_support()
        torch.onnx.export(
            model, (), str(path), kwargs=inputs, dynamic_shapes=shapes, dynamo=True, opset_version=opset, external_data=False
        )
