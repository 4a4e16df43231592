"""What the runner needs to know about a contender."""
import dataclasses
import os
import pathlib
import sys

from contenders.process import Process
from models.shapes import Shape

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOME = pathlib.Path(os.environ.get("KVIK_PEERS_HOME", ROOT / ".dev" / "peers"))
MODELS = HOME / "models"


@dataclasses.dataclass(frozen=True)
class Load:
    """A shape in one of the contender's own formats."""
    shape: Shape
    form: str
    threads: int
    device: str = "cpu"  # or cuda


class Peer:
    name = ""
    formats: dict[str, list[str]] = {}  # Kvik's weights format: the contender's formats with as many bits

    def missing(self) -> str | None:
        """Why it cannot be used here, in one sentence; None: it can."""
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def write(self, load: Load) -> None:
        """Writes the files it reads, unless they exist."""
        raise NotImplementedError

    def start(self, load: Load) -> Process:
        raise NotImplementedError

    def bytes_of(self, load: Load) -> tuple[float, float]:
        """Weights that one token reads, and the cache it keeps per position."""
        raise NotImplementedError

    def thread_counts(self, threads: int) -> list[int]:
        """Those to try: a contender is measured at its best."""
        return [threads]


class PythonPeer(Peer):
    """Runs contenders/MODULE.py."""
    module = ""
    package = ""  # that it needs

    def missing(self) -> str | None:
        import importlib.util
        return None if importlib.util.find_spec(self.package) else f"the Python package {self.package} is not installed"

    def version(self) -> str:
        import importlib
        return importlib.import_module(self.package).__version__

    def arguments(self, load: Load) -> list[str]:
        raise NotImplementedError

    def start(self, load: Load) -> Process:
        return self.start_module(self.arguments(load), load.threads)

    def start_module(self, arguments: list[str], threads: int) -> Process:
        environment = {"PYTHONPATH": ":".join([str(ROOT / "bench" / "peers"), *filter(None, sys.path)]), "OMP_NUM_THREADS": str(threads), "ORT_DISABLE_TELEMETRY": "1"}
        return Process([sys.executable, "-m", f"contenders.{self.module}", *arguments], environment)
