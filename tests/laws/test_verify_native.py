"""`kvik verify` proves the laws on the native backend by demanding equal bits."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ["KVIK_BINARY_DIR"]) / "kvik"


@pytest.mark.parametrize("model", ["models/fable", "tests/fixtures/zoo/qwen2", "tests/fixtures/zoo/small-merged", "tests/fixtures/forms/plain"])
def test_every_law_of_the_native_backend_holds_exactly(model):
    done = subprocess.run([BINARY, "verify", ROOT / model, "--backend", "native", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    answer = json.loads(done.stdout)
    assert (answer["backend"], answer["tolerance"]) == ("native", 0)
    within = [law["name"] for law in answer["laws"] if not law["exact"]]
    assert all("reference" in name or "ort" in name for name in within), within  # another backend rounds elsewhere
    assert all(law["holds"] and law["cases"] > 0 for law in answer["laws"])


# Its source has more positions than its target may have.
def test_the_laws_hold_where_another_runtime_computes_the_encoder():
    model = ROOT / "tests/fixtures/zoo/small-speech"
    done = subprocess.run([BINARY, "verify", model, "--backend", "native", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    assert all(law["holds"] and law["cases"] > 0 for law in json.loads(done.stdout)["laws"])
