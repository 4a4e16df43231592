"""Kvik: build/bench-peers (kvik.cc)."""
import importlib.util
import os
import pathlib
import subprocess

from contenders.peer import MODELS, ROOT, Load, Peer
from contenders.process import Process, Unsupported
from models import onnx_file

BUILD = pathlib.Path(os.environ.get("KVIK_BINARY_DIR", ROOT / "build"))


def ort_library() -> str:
    """Of the Python package: the same that the peers use."""
    package = importlib.util.find_spec("onnxruntime")
    return str(next(pathlib.Path(package.origin).parent.glob("capi/libonnxruntime.so.*"), "")) if package else ""


class Kvik(Peer):
    name, backend = "Kvik", "native"
    formats = {form: [form] for form in ("f32", "f16", "q8", "q4")}

    def missing(self) -> str | None:
        return None if (BUILD / "bench-peers").exists() else f"{BUILD / 'bench-peers'} is missing; run ./dev build first"

    def version(self) -> str:
        return subprocess.run([BUILD / "kvik", "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]

    def write(self, load: Load) -> None:
        onnx_file.write(load.shape, MODELS / load.shape.name, {"f16"})

    def start(self, load: Load) -> Process:
        process = Process([str(BUILD / "bench-peers"), str(MODELS / load.shape.name), "--weights", load.form, "--threads", str(load.threads), "--backend", self.backend,
                           "--device", load.device] + (["--kv", "f16"] if load.device != "cpu" else []),
                          {"KVIK_ORT_LIB": ort_library()})
        if process.facts["device"] != load.device:
            process.close()
            raise Unsupported(f"it runs on {process.facts['device']} and not on {load.device}; kvik run --device {load.device} says why")
        self.facts = process.facts
        return process

    def bytes_of(self, load: Load) -> tuple[float, float]:
        return self.facts["weights_bytes"], self.facts["cache_bytes"]


class KvikOnOrt(Kvik):
    """Kvik's loop over ONNX Runtime, beside ort.py's."""
    name, backend = "Kvik on ONNX Runtime", "ort"
    formats = {"f32": ["f32"]}

    def missing(self) -> str | None:
        return super().missing() or (None if ort_library() else "the Python package onnxruntime is not installed")

    def bytes_of(self, load: Load) -> tuple[float, float]:
        return 4 * load.shape.n_weights(), 4 * load.shape.cache_numbers()
