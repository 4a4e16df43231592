"""The native backend by the command line: its options, what they cost in quality, and what `inspect` shows of its plan."""
import json
import os
import pathlib
import subprocess

import numpy
import onnx
import onnx.numpy_helper
import pytest

KVIK = pathlib.Path(os.environ["KVIK_BINARY_DIR"]) / "kvik"
ROOT = pathlib.Path(__file__).resolve().parents[2]
FABLE = ROOT / "models" / "fable"
ZOO = ROOT / "tests" / "fixtures" / "zoo"
HELDOUT = ROOT / "tests/fixtures/models-expected/fable/heldout.txt"


def kvik(*arguments):
    return subprocess.run([KVIK, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def answer(*arguments):
    done = kvik(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(*arguments):
    done = kvik(*arguments)
    assert done.returncode == 1 and done.stderr.strip(), (done.returncode, done.stderr)
    return done.stderr


def story(*options):
    return answer("run", FABLE, "Once upon a time", "-n", 12, "--backend", "native", *options)


def test_auto_chooses_the_native_backend():
    found = answer("run", FABLE, "Once upon a time", "-n", 4)
    assert found["backend"] == "native" and answer("inspect", FABLE)["backend"]["chosen"] == "native"


# The card says 25.06; eight bits may cost half a percent, four bits four percent.
@pytest.mark.parametrize("weights, most", [("auto", 25.11), ("f32", 25.11), ("f16", 25.11), ("q8", 25.06 * 1.005), ("q4", 25.06 * 1.04)])
def test_quantized_weights_keep_the_perplexity_of_the_model_card(weights, most):
    assert 24.9 < answer("score", FABLE, HELDOUT, "--backend", "native", "--weights", weights)["perplexity"] <= most


def test_a_smaller_cache_tells_the_same_story():
    sizes = {}
    for kv in ("f32", "f16", "q8"):
        result = story("--kv", kv)
        assert result["ids"] == story()["ids"], kv
        sizes[kv] = result["memory"]["kv_bytes"]
    assert sizes["f32"] > sizes["f16"] > sizes["q8"]


def test_weights_use_the_memory_of_their_format():
    sizes = {weights: story("--weights", weights)["memory"]["weights_bytes"] for weights in ("f32", "f16", "q8", "q4")}
    assert sizes["f32"] == 2 * sizes["f16"] > 3 * sizes["q8"] and sizes["q8"] > sizes["q4"]


def test_speculation_gives_the_same_ids():
    run = ["run", FABLE, "Once upon a time", "-n", 60, "--ignore-eos"]
    for sampling in ([], ["--temperature", 1, "--seed", 4]):
        plain = answer(*run, *sampling)
        for proposer in (["--speculate", "lookup"], ["--draft", FABLE], ["--speculate", "lookup", "--draft", FABLE]):
            result = answer(*run, *sampling, *proposer)
            assert result["ids"] == plain["ids"] and result["text"] == plain["text"], proposer
            found = result["speculation"]
            assert found["proposed"] >= found["accepted"] >= 0 and found["tokens_per_run"] >= 1
    assert "speculation" not in plain


# Models of one family often differ in the rows that pad their embedding tables.
def test_a_draft_with_a_padded_vocabulary_is_used(tmp_path):
    model = onnx.load(FABLE / "model.onnx")
    table = next(each for each in model.graph.initializer if each.name.startswith("model.embed_tokens.weight"))
    rows = onnx.numpy_helper.to_array(table)
    padding = numpy.random.default_rng(1).normal(0, 3, (64, rows.shape[1])).astype(rows.dtype)  # likelier than any token
    table.CopyFrom(onnx.numpy_helper.from_array(numpy.concatenate([rows, padding]), table.name))
    next(each for each in model.graph.output if each.name == "logits").type.tensor_type.shape.dim[2].dim_value = len(rows) + 64
    padded = tmp_path / "padded"
    padded.mkdir()
    onnx.save(model, padded / "model.onnx")
    for file in FABLE.iterdir():
        if file.name != "model.onnx":
            text = file.read_text().replace('"vocab_size": 4096', '"vocab_size": 4160') if file.name == "config.json" else file.read_text()
            (padded / file.name).write_text(text)
    for target, draft in ((FABLE, padded), (padded, FABLE)):
        run = ["run", target, "Once upon a time", "-n", 40, "--ignore-eos"]
        plain, result = answer(*run), answer(*run, "--draft", draft, "--draft-weights", "auto")
        assert result["ids"] == plain["ids"]
        assert target != FABLE or result["speculation"]["accepted"] > 0
    other = tmp_path / "other"
    other.mkdir()
    for file in padded.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "their tokenizers differ" in refusal("run", FABLE, "a", "--draft", other)


def test_what_excludes_speculation_is_refused():
    assert "beams" in refusal("run", FABLE, "a", "--speculate", "lookup", "--beams", 2)
    assert "--no-cache" in refusal("run", FABLE, "a", "--speculate", "lookup", "--no-cache")
    assert "same vocabulary" in refusal("run", FABLE, "a", "--draft", ROOT / "tests/fixtures/forms/plain")
    assert kvik("run", FABLE, "a", "--speculate", "guess").returncode == 2


def test_every_fusion_can_be_turned_off():
    plan = answer("inspect", FABLE)["plan"]
    assert plan["fused"] and not plan["unfused"] and plan["attention"] == {"causal": 8}
    result = story()["ids"]
    for name in plan["fused"]:
        assert name not in answer("inspect", FABLE, "--no-fuse", name)["plan"]["fused"]
        assert story("--no-fuse", name)["ids"] == result, name


def test_bytes_per_token_follow_the_weights():
    read = {weights: answer("inspect", FABLE, "--weights", weights)["plan"]["bytes_per_token"] for weights in ("f32", "f16", "q8", "q4")}
    assert read["f32"] == 2 * read["f16"] and read["f16"] > read["q8"] > read["q4"] > 0


def test_unknown_values_are_refused_with_a_sentence():
    assert "unknown fusion 'magic'" in refusal("run", FABLE, "x", "--backend", "native", "--no-fuse", "magic")
    assert "no kernels for 'neon'" in refusal("run", FABLE, "x", "--backend", "native", "--isa", "neon") or os.uname().machine == "aarch64"


def test_a_weight_with_nan_is_named(tmp_path):
    model = onnx.load(ZOO / "qwen2" / "model.onnx")
    weight = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    values = onnx.numpy_helper.to_array(weight).copy()
    values.flat[5] = numpy.nan
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, tmp_path / "model.onnx")
    assert f"'{weight.name}' has a number that is not finite" in refusal("run", tmp_path, "--ids", "1,2,3", "-n", 1)


def test_profile_and_trace_say_where_the_time_goes(tmp_path):
    done = kvik("run", FABLE, "Once upon a time", "-n", 12, "--weights", "q8", "--profile", "--trace", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    table = done.stderr.splitlines()
    assert any(line.startswith("matmul q8 ") for line in table) and any(line.startswith("attend ") for line in table), done.stderr
    assert any(line.startswith("choose token") for line in table) and "memory reads" in table[-1]
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {"attend", "choose token"} <= {event["name"] for event in events}
    assert done.stdout == kvik("run", FABLE, "Once upon a time", "-n", 12, "--weights", "q8").stdout


@pytest.mark.parametrize("model, weights, formats", [(FABLE, "q4", ["q4 256x512", "q6 256x4096"]), (ZOO / "llama-int8", "auto", ["int8 "])])
def test_profile_names_the_format_of_each_matrix(model, weights, formats):
    done = kvik("run", model, "--ids", "5,6,7", "-n", 2, "--weights", weights, "--profile")
    assert done.returncode == 0, done.stderr
    for name in formats:
        assert f"\nmatmul {name}" in done.stderr


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path):
    assert "t.json" in refusal("run", FABLE, "Once", "-n", 2, "--trace", tmp_path / "missing" / "t.json")
