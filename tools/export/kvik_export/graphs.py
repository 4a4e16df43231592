"""Changes to finished ONNX models that leave their numbers alone: 16-bit storage, external data, clean metadata."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

DATA_LAYOUTS = ("inside", "one-file", "chunks", "per-tensor")
WEIGHT_FORMS = ("f32", "f16", "f16-graph")
EXTERNAL_FROM_BYTES = 1024
SHARE_FROM_ELEMENTS = 1 << 14
PAGE_BYTES = 4096
CHUNK_BYTES = 1 << 30
PROTOBUF_LIMIT = (1 << 31) - (1 << 20)
MACHINE_PATH = re.compile(rb"/(tmp|work|root|home|usr|opt)\b|site-packages|dist-packages|\.py\b")


def load(path: Path) -> ModelProto:
    return onnx.load(str(path))


def subgraphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph itself and every graph inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from subgraphs(attribute.g)


def halve_storage(model: ModelProto) -> dict[str, int]:
    """Stores every f32 initializer as f16 followed by a Cast, so that the graph still computes in f32.

    Returns name and bytes of the initializers that stay in f32 because f16 cannot hold their values exactly.
    """
    kept = {}
    for graph in subgraphs(model.graph):
        casts = []
        for weight in graph.initializer:
            if weight.data_type != TensorProto.FLOAT:
                continue
            values = numpy_helper.to_array(weight)
            half = values.astype(np.float16)
            if not np.array_equal(half.astype(np.float32), values):
                kept[weight.name] = values.nbytes
                continue
            name = weight.name
            weight.CopyFrom(numpy_helper.from_array(half, f"{name}.f16"))
            casts.append(helper.make_node("Cast", [weight.name], [name], name=f"{name}/Cast", to=TensorProto.FLOAT))
        nodes = list(graph.node)
        del graph.node[:]
        graph.node.extend(casts + nodes)
    return kept


def share_transposed(model: ModelProto) -> None:
    """Stores a matrix once that stands there twice, the second time transposed: a head tied to the embedding.

    Optimum does the same after an export, but takes four times the model's size in memory for it.
    """
    graph = model.graph
    large = [w for w in graph.initializer if len(w.dims) == 2 and w.dims[0] * w.dims[1] >= SHARE_FROM_ELEMENTS]
    taken: set[str] = set()
    for first in large:
        for second in large:
            mirrored = list(first.dims) == list(second.dims)[::-1] and first.data_type == second.data_type
            if not mirrored or first.dims[0] < first.dims[1] or first is second or {first.name, second.name} & taken:
                continue
            a, b = numpy_helper.to_array(first), numpy_helper.to_array(second).T
            if np.array_equal(a[0], b[0]) and np.array_equal(a, b):
                node = helper.make_node("Transpose", [first.name], [second.name], name=f"{second.name}/Transpose", perm=[1, 0])
                taken |= {first.name, second.name}
                graph.node.insert(0, node)
                graph.initializer.remove(second)


def convert_to_half(model: ModelProto, keep_io_types: bool = False) -> ModelProto:
    """The whole graph in f16, by ONNX Runtime's converter."""
    from onnxruntime.transformers import float16

    return float16.convert_float_to_float16(model, keep_io_types=keep_io_types)


def lower_ir_version(model: ModelProto) -> None:
    """The lowest IR version its opsets allow: onnx stamps its newest one, which older runtimes refuse."""
    model.ir_version = max(8, min(model.ir_version, helper.find_min_ir_version_for(list(model.opset_import), True)))


def _clean_metadata(item) -> None:
    if getattr(item, "doc_string", "") and MACHINE_PATH.search(item.doc_string.encode()):
        item.doc_string = ""
    if hasattr(item, "metadata_props"):
        keep = [copy.deepcopy(p) for p in item.metadata_props if not MACHINE_PATH.search(p.value.encode())]
        if len(keep) != len(item.metadata_props):
            del item.metadata_props[:]
            item.metadata_props.extend(keep)


def remove_machine_paths(model: ModelProto) -> None:
    """Drops doc strings and metadata that carry file paths of the exporting machine."""
    _clean_metadata(model)
    for graph in subgraphs(model.graph):
        _clean_metadata(graph)
        for part in (graph.node, graph.initializer, graph.input, graph.output, graph.value_info):
            for item in part:
                _clean_metadata(item)
    for function in model.functions:
        _clean_metadata(function)
        for node in function.node:
            _clean_metadata(node)


def _move_out(weight: TensorProto, raw: bytes, location: str, offset: int) -> None:
    name, dims, data_type = weight.name, list(weight.dims), weight.data_type
    weight.Clear()
    weight.name, weight.data_type, weight.data_location = name, data_type, TensorProto.EXTERNAL
    weight.dims.extend(dims)
    for key, value in (("location", location), ("offset", offset), ("length", len(raw))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, str(value)


def _raw_bytes(weight: TensorProto) -> bytes:
    return weight.raw_data if weight.HasField("raw_data") else numpy_helper.to_array(weight).tobytes()


def _file_safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _locations(path: Path, layout: str, chunk_bytes: int) -> Callable[[str, int], str]:
    """Which data file the next weight goes into."""
    chunk, used = 0, 0

    def place(name: str, size: int) -> str:
        nonlocal chunk, used
        if layout == "per-tensor":
            return _file_safe(name)
        if layout == "one-file":
            return f"{path.name}.data"
        if used and used + size > chunk_bytes:
            chunk, used = chunk + 1, 0
        used += size
        return f"{path.name}_data" + (f"_{chunk}" if chunk else "")

    return place


def save(model: ModelProto, path: Path, layout: str = "inside", chunk_bytes: int = CHUNK_BYTES) -> None:
    """Writes the model: weights inside, in one file beside it, in chunks as web folders have them, or a file per tensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if layout != "inside":
        place = _locations(path, layout, chunk_bytes)
        written: set[str] = set()
        for weight in (w for g in subgraphs(model.graph) for w in g.initializer):
            raw = _raw_bytes(weight)
            if len(raw) < EXTERNAL_FROM_BYTES:
                continue
            location = place(weight.name, len(raw))
            with open(path.parent / location, "ab" if location in written else "wb") as data:
                _move_out(weight, raw, location, data.tell())
                data.write(raw)
            written.add(location)
    if model.ByteSize() > PROTOBUF_LIMIT:
        raise SystemExit(f"{path.name}: {model.ByteSize() >> 20} MiB is more than one protobuf file holds; use --data one-file")
    path.write_bytes(model.SerializeToString())


def share_between(paths: list[Path], location: str) -> int:
    """Large weights that several of the files hold alike go into one data file beside them; gives the bytes that this saves."""
    models = {path: load(path) for path in paths}
    holders: dict[bytes, list[TensorProto]] = {}
    for model in models.values():
        for graph in subgraphs(model.graph):
            for weight in graph.initializer:
                raw = _raw_bytes(weight)
                if len(raw) >= 2 * SHARE_FROM_ELEMENTS:
                    holders.setdefault(raw, []).append(weight)
    data, saved = bytearray(), 0
    for raw, weights in holders.items():
        if len(weights) < 2:
            continue
        offset = len(data)
        data += raw + bytes(-len(raw) % PAGE_BYTES)
        saved += (len(weights) - 1) * len(raw)
        for weight in weights:
            _move_out(weight, raw, location, offset)
    if data:
        (paths[0].parent / location).write_bytes(data)
        for path, model in models.items():
            onnx.save(model, str(path))
    return saved
