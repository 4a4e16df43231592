"""The contract of `kvik inspect` and `kvik models`: fields, exit status, standard output that carries the product only."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
BINARY = Path(os.environ["KVIK_BINARY_DIR"]) / "kvik"


def run(*arguments, env=None):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})


def inspect(model):
    done = run("inspect", model, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_field_of_the_contract_is_there():
    found = inspect("fable")
    assert found["kind"] == "decoder"
    assert [{"role": f["role"], "path": f["path"]} for f in found["files"]] == [{"role": "decoder", "path": "model.onnx"}]
    assert found["inputs"][0] == {
        "file": "model.onnx", "name": "input_ids", "dtype": "i64", "shape": ["batch_size", "sequence_length"], "role": "token_ids",
    }
    assert [o["role"] for o in found["outputs"]][:3] == ["logits", "present_key", "present_value"]
    cache = {k: found["cache"][k] for k in ("layers", "kv_heads", "head_dim", "dtype", "growth", "bytes_per_token")}
    assert cache == {"layers": 8, "kv_heads": 2, "head_dim": 64, "dtype": "f32", "growth": "growing", "bytes_per_token": 8192}
    assert (found["vocab"], found["max_positions"]) == (4096, 1024)
    assert {k: found["special"][k] for k in ("bos", "eos", "pad", "decoder_start")} == {"bos": 0, "eos": [0], "pad": None, "decoder_start": None}
    assert found["backend"]["chosen"] in ("native", "ort", "reference") and found["backend"]["why"]
    assert isinstance(found["plan"], dict)
    assert found["weights"]["bytes"] == sum(found["weights"]["dtypes"].values())
    assert found["problems"] == []


def test_an_encoder_decoder_names_its_start_and_both_caches():
    found = inspect("en-zh")
    assert found["kind"] == "encoder-decoder"
    assert [f["role"] for f in found["files"]] == ["encoder", "decoder_merged"]
    assert (found["cache"]["layers"], found["cross_cache"]["layers"], found["cross_cache"]["growth"]) == (3, 3, "constant")
    assert found["special"]["decoder_start"] == 10538


def test_layers_that_differ_are_a_list():
    cache = inspect(FIXTURES / "forms" / "heads-per-layer")["cache"]
    assert [(c["layers"], c["kv_heads"], c["head_dim"]) for c in cache] == [(1, 2, 8), (1, 1, 16)]


def test_the_table_puts_the_layers_on_one_line():
    done = run("inspect", "fable")
    assert done.returncode == 0
    assert "past_key_values.{0..7}.key/.value" in done.stdout
    assert "\033" not in done.stdout  # no colors but on a terminal


@pytest.mark.parametrize(
    "arguments, status, sentence",
    [
        (["inspect"], 2, "MODEL is required"),
        (["inspect", "no-such-model"], 1, "no-such-model"),
        (["inspect", ROOT / "tests"], 1, "no .onnx file"),
        (["inspect", ROOT / "LICENSE"], 1, "text file"),
        (["inspect", FIXTURES / "forms" / "two-token-inputs"], 1, "kvik.json"),
    ],
)
def test_a_failure_is_a_sentence_on_standard_error(arguments, status, sentence):
    done = run(*arguments)
    assert done.returncode == status
    assert sentence in done.stderr
    assert done.stdout == ""
    if status == 1:
        assert done.stderr.count("\n") == 1


def test_models_lists_the_search_path():
    done = run("models", "--json", env={"KVIK_MODELS": str(FIXTURES / "zoo")})
    assert done.returncode == 0, done.stderr
    listed = {m["name"]: m for m in json.loads(done.stdout)}
    assert {"fable", "en-zh", "marian", "bert"} <= listed.keys()
    assert listed["bert"]["kind"] == "encoder"
    assert listed["fable"]["memory_bytes"] >= listed["fable"]["weights_bytes"] > 0
    assert any(m["advised"] for m in listed.values())
