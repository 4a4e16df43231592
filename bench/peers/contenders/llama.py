"""llama.cpp: llama.cpp beside this folder, which bench/peers/setup builds with its library."""
import importlib.util

from contenders.peer import HOME, MODELS, Load, Peer
from contenders.process import Process


def folder(device: str):
    return HOME / ("llama" if device == "cpu" else f"llama-{device}")


class Llama(Peer):
    name = "llama.cpp"
    formats = {"f32": ["f32"], "f16": ["f16"], "q8": ["q8_0"], "q4": ["q4_0", "q4_0+q8_0"]}

    def __init__(self, device: str = "cpu"):
        self.device = device

    def missing(self) -> str | None:
        if not (folder(self.device) / "bin" / "peer").exists():
            return "it is not built; give its source as --llama FOLDER"
        return None if importlib.util.find_spec("gguf") else "the Python package gguf, which writes its files, is not installed"

    def version(self) -> str:
        return (folder(self.device) / "version").read_text().strip()

    def file(self, load: Load):
        return MODELS / load.shape.name / f"{load.form}.gguf"

    def write(self, load: Load) -> None:
        from models import gguf_file
        gguf_file.write(load.shape, self.file(load), load.form)

    def start(self, load: Load) -> Process:
        return Process([str(folder(self.device) / "bin" / "peer"), str(self.file(load)), str(load.threads)])

    def bytes_of(self, load: Load) -> tuple[float, float]:
        from models import gguf_file
        return gguf_file.bytes_of(load.shape, load.form), 2 * load.shape.cache_numbers()

    def thread_counts(self, threads: int) -> list[int]:
        return [threads] if threads < 4 or self.device != "cpu" else [threads, threads // 2]
