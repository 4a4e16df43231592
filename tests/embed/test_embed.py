"""kvik embed against the same arithmetic in numpy, on hidden states that ONNX Runtime computes from the same file."""
import json
import pathlib
import shutil
import struct

import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import FORMS, ROOT, kvik, refusal, succeed
from tokenizers import Tokenizer

ENCODER = ROOT / "tests/fixtures/zoo/bert"
TOKENIZER = ROOT / "tests/fixtures/tokenizers/wordpiece/tokenizer.json"
DECODER = FORMS / "hidden-states"
TEXTS = ["Hello world", "a", "one two three four five six", "", "  Hello   ", "the end of it."]
BACKENDS = ["native", "ort", "reference"]
MODES = {
    "cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len": "mean_sqrt_len_tokens",
    "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken",
}


def answer(*arguments, **more):
    return json.loads(succeed("embed", *arguments, "--json", **more))


def vectors(*arguments, **more):
    return np.array(answer(*arguments, **more)["embeddings"], np.float64)


def hidden_states(model: pathlib.Path, ids: list[int], output="last_hidden_state"):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feeds = {}
    for port in session.get_inputs():
        if "past" in port.name:
            feeds[port.name] = np.zeros([1, port.shape[1], 0, port.shape[3]], np.float32)
        else:
            value = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}[port.name]
            feeds[port.name] = np.array([value], np.int64)
    return session.run([output], feeds)[0][0].astype(np.float64)


def pooled(hidden, mode: str, skip=0):
    kept = hidden[skip:]
    weights = np.arange(1, len(hidden) + 1)[skip:, None]
    return {
        "cls": lambda: hidden[0], "max": lambda: kept.max(0), "mean": lambda: kept.mean(0),
        "mean_sqrt_len": lambda: kept.sum(0) / np.sqrt(len(kept)), "weightedmean": lambda: (kept * weights).sum(0) / weights.sum(),
        "lasttoken": lambda: hidden[-1],
    }[mode]()


def unit(vector):
    return vector / np.linalg.norm(vector)


def safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_json(path: pathlib.Path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def folder(tmp_path, poolings=("mean",), modules=("Normalize",), pooling_config=None, **files):
    """The encoder with a tokenizer and the files of sentence-transformers."""
    model = tmp_path / "model"
    shutil.copytree(ENCODER, model, copy_function=shutil.copyfile)
    model.chmod(0o755)
    shutil.copyfile(TOKENIZER, model / "tokenizer.json")
    if poolings:
        write_json(model / "1_Pooling/config.json", {f"pooling_mode_{MODES[p]}": True for p in poolings} | (pooling_config or {}))
        listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        for number, kind in enumerate(modules, 2):
            listed.append({"idx": number, "name": str(number), "path": f"{number}_{kind}", "type": f"sentence_transformers.models.{kind}"})
        write_json(model / "modules.json", listed)
    for name, value in files.items():
        write_json(model / f"{name}.json", value)
    return model


def token_ids(text: str) -> list[int]:
    return Tokenizer.from_file(str(TOKENIZER)).encode(text.strip()).ids


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_each_pooling_is_the_arithmetic_of_sentence_transformers(tmp_path, mode, backend):
    model = folder(tmp_path, [mode])
    found = vectors(model, "--backend", backend, text="\n".join(TEXTS) + "\n")
    expected = [unit(pooled(hidden_states(ENCODER / "model.onnx", token_ids(text)), mode)) for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_lines_in_are_lines_out(tmp_path):
    model = folder(tmp_path)
    lines = succeed("embed", model, text="\n".join(TEXTS) + "\n").splitlines()
    printed = np.array([[float(x) for x in line.split()] for line in lines])
    np.testing.assert_array_equal(printed.astype(np.float32), vectors(model, text="\n".join(TEXTS) + "\n").astype(np.float32))
    assert answer(model, "Hello")["tokens"] == [len(token_ids("Hello"))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_text_among_others_has_the_bits_that_it_has_alone(tmp_path, backend):
    model = folder(tmp_path)
    together = answer(model, "--backend", backend, text="\n".join(TEXTS) + "\n")["embeddings"]
    for i in (0, 2, 5):
        assert answer(model, TEXTS[i], "--backend", backend)["embeddings"] == [together[i]]


def test_several_poolings_are_joined_in_one_order(tmp_path):
    model = folder(tmp_path, ["mean", "cls"], modules=())
    hidden = hidden_states(ENCODER / "model.onnx", token_ids("Hello world"))
    expected = np.concatenate([pooled(hidden, "cls"), pooled(hidden, "mean")])
    np.testing.assert_allclose(vectors(model, "Hello world")[0], expected, atol=2e-5)
    np.testing.assert_allclose(vectors(model, "Hello world", "--pooling", "max+lasttoken")[0],
                               np.concatenate([pooled(hidden, "max"), pooled(hidden, "lasttoken")]), atol=2e-5)


def test_dense_layers_come_from_the_folder(tmp_path):
    rng = np.random.default_rng(1)
    weight, bias = rng.standard_normal((16, 64)), rng.standard_normal(16)
    model = folder(tmp_path, modules=("Dense", "Normalize"))
    write_json(model / "2_Dense/config.json", {"in_features": 64, "out_features": 16, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"})
    (model / "2_Dense/model.safetensors").write_bytes(safetensors({"linear.weight": weight, "linear.bias": bias}))
    mean = pooled(hidden_states(ENCODER / "model.onnx", token_ids("Hello")), "mean")
    expected = unit(np.tanh(weight.astype(np.float32).astype(float) @ mean + bias))
    np.testing.assert_allclose(vectors(model, "Hello")[0], expected, atol=2e-5)
    np.testing.assert_allclose(vectors(model, "Hello", "--no-normalize")[0], np.tanh(weight @ mean + bias), atol=5e-5)
    assert json.loads(succeed("inspect", model, "--json"))["embedding"] == {
        "pooling": "mean", "normalize": True, "dense": ["64 x 16"], "max_tokens": 64, "prompts": [], "default_prompt": None, "problem": None,
    }
    (model / "2_Dense/model.safetensors").unlink()
    (model / "2_Dense/pytorch_model.bin").write_bytes(b"")
    assert "2_Dense" in refusal("embed", model, "Hello") and "pytorch_model.bin" in refusal("embed", model, "Hello")


@pytest.mark.parametrize("damage", ["short", "offsets", "shape", "header", "names"])
def test_a_damaged_dense_layer_is_refused_in_one_sentence(tmp_path, damage):
    model = folder(tmp_path, modules=("Dense",))
    write_json(model / "2_Dense/config.json", {"activation_function": "torch.nn.modules.linear.Identity"})
    good = safetensors({"linear.weight": np.ones((4, 64))})
    bad = {
        "short": good[:5], "offsets": good.replace(b"[0, 1024]", b"[0, 9024]"), "shape": good.replace(b"[4, 64]", b"[9, 99]"),
        "header": struct.pack("<Q", 1 << 60) + good[8:], "names": good.replace(b"linear.weight", b"linear.height"),
    }[damage]
    (model / "2_Dense/model.safetensors").write_bytes(bad)
    assert refusal("embed", model, "Hello").count("\n") == 1
    (model / "2_Dense/model.safetensors").write_bytes(good)
    assert vectors(model, "Hello").shape == (1, 4)


def test_a_module_that_is_not_known_is_refused_by_name(tmp_path):
    assert "'LSTM'" in refusal("embed", folder(tmp_path, modules=("LSTM",)), "Hello")


def test_prompts_are_put_before_the_text(tmp_path):
    model = folder(tmp_path, config_sentence_transformers={"prompts": {"query": "one two: ", "passage": ""}, "default_prompt_name": "query"})
    hidden = hidden_states(ENCODER / "model.onnx", token_ids("one two: Hello"))
    np.testing.assert_allclose(vectors(model, "Hello")[0], unit(hidden.mean(0)), atol=2e-5)
    plain = unit(hidden_states(ENCODER / "model.onnx", token_ids("Hello")).mean(0))
    for name in ("passage", ""):
        np.testing.assert_allclose(vectors(model, "Hello", "--prompt", name)[0], plain, atol=2e-5)
    assert "passage, query" in refusal("embed", model, "Hello", "--prompt", "nothing")


def test_a_prompt_can_be_left_out_of_the_mean(tmp_path):
    model = folder(tmp_path, pooling_config={"include_prompt": False}, config_sentence_transformers={"prompts": {"query": "one two: "}})
    hidden = hidden_states(ENCODER / "model.onnx", token_ids("one two: Hello"))
    skipped = len(token_ids("one two: ")) - 1
    np.testing.assert_allclose(vectors(model, "Hello", "--prompt", "query")[0], unit(pooled(hidden, "mean", skipped)), atol=2e-5)


def test_long_texts_are_cut_as_the_tokenizers_package_cuts_them(tmp_path):
    model = folder(tmp_path, sentence_bert_config={"max_seq_length": 9, "do_lower_case": False})
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.enable_truncation(9)
    text = "one two three four five six seven"
    ids = tokenizer.encode(text).ids
    done = kvik("embed", model, text, "--json")
    found = json.loads(done.stdout)
    np.testing.assert_allclose(found["embeddings"][0], unit(hidden_states(ENCODER / "model.onnx", ids).mean(0)), atol=2e-5)
    assert found["tokens"] == [9] and "was truncated to 9" in done.stderr
    assert "the model accepts 9" in refusal("embed", model, text, "--no-truncate")
    write_json(model / "tokenizer_config.json", {"truncation_side": "left"})
    tokenizer.enable_truncation(9, direction="left")
    np.testing.assert_allclose(vectors(model, text)[0], unit(hidden_states(ENCODER / "model.onnx", tokenizer.encode(text).ids).mean(0)), atol=2e-5)


def test_without_other_limits_the_positions_of_the_graph_are_one(tmp_path):
    model = folder(tmp_path, tokenizer_config={"model_max_length": 1e30})
    assert answer(model, "one " * 100)["tokens"] == [64]


def test_lower_case_is_made_before_tokenizing(tmp_path):
    model = folder(tmp_path, sentence_bert_config={"max_seq_length": 64, "do_lower_case": True})
    tokenizer = json.loads(TOKENIZER.read_text()) | {"normalizer": None}  # this one made lower case itself
    write_json(model / "tokenizer.json", tokenizer)
    encoded = Tokenizer.from_str(json.dumps(tokenizer))
    assert encoded.encode("hello").ids != encoded.encode("HELLO").ids
    np.testing.assert_array_equal(vectors(model, "HELLO"), vectors(model, "hello"))


def test_ids_are_taken_as_they_are(tmp_path):
    model = folder(tmp_path)
    np.testing.assert_allclose(vectors(model, "--ids", "7,8,9")[0], unit(hidden_states(ENCODER / "model.onnx", [7, 8, 9]).mean(0)), atol=2e-5)
    assert "outside the vocabulary of 320" in refusal("embed", model, "--ids", "7,320")
    assert "no tokens" in refusal("embed", model, "--ids", "")


def test_fewer_dimensions_are_the_first_ones_normalized_again(tmp_path):
    model = folder(tmp_path)
    mean = hidden_states(ENCODER / "model.onnx", token_ids("Hello")).mean(0)
    np.testing.assert_allclose(vectors(model, "Hello", "--dimensions", 16)[0], unit(mean[:16]), atol=2e-5)
    assert "vectors have 64" in refusal("embed", model, "Hello", "--dimensions", 65)


def test_a_folder_without_pooling_files_needs_an_option():
    message = refusal("embed", ENCODER, "--ids", "7,8")
    assert "mean" in message and "lasttoken" in message and "--pooling" in message
    hidden = hidden_states(ENCODER / "model.onnx", [7, 8])
    np.testing.assert_allclose(vectors(ENCODER, "--ids", "7,8", "--pooling", "mean")[0], unit(hidden.mean(0)), atol=2e-5)
    np.testing.assert_allclose(vectors(ENCODER, "--ids", "7,8", "--pooling", "mean", "--no-normalize")[0], hidden.mean(0), atol=2e-5)
    assert "unknown" in refusal("embed", ENCODER, "--ids", "7,8", "--pooling", "median")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_decoder_without_its_head_embeds(backend):
    hidden = hidden_states(DECODER / "model.onnx", [3, 1, 4, 1, 5], "hidden_states")
    found = vectors(DECODER, "--ids", "3,1,4,1,5", "--pooling", "lasttoken", "--backend", backend)[0]
    np.testing.assert_allclose(found, unit(hidden[-1]), atol=2e-5)
    assert "use embed" in refusal("run", DECODER, "--ids", "3,1")


def with_output(source: pathlib.Path, target: pathlib.Path, value: str | None, name: str):
    """A copy of a graph with one more output: a value of it, or the mean of its hidden states."""
    model = onnx.load(str(source))
    if value is None:
        model.graph.node.append(onnx.helper.make_node("ReduceMean", [model.graph.output[0].name], [name], axes=[1], keepdims=0))
        shape = ["batch_size", 64]
    else:
        model.graph.node.append(onnx.helper.make_node("Identity", [value], [name]))
        shape = ["batch_size", "sequence_length", 64]
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    onnx.save(model, str(target))


def test_a_vector_that_the_graph_pools_is_the_default(tmp_path):
    model = folder(tmp_path, poolings=())
    with_output(ENCODER / "model.onnx", model / "model.onnx", None, "sentence_embedding")
    mean = hidden_states(ENCODER / "model.onnx", token_ids("Hello")).mean(0)
    np.testing.assert_allclose(vectors(model, "Hello")[0], mean, atol=2e-5)
    np.testing.assert_allclose(vectors(model, "Hello", "--pooling", "mean")[0], unit(mean), atol=2e-5)
    described = json.loads(succeed("inspect", model, "--json"))
    assert described["kind"] == "encoder" and described["embedding"]["pooling"] == "graph"
    assert described["outputs"][-1]["role"] == "sentence_embedding"


@pytest.mark.parametrize("backend", ["native", "ort"])
def test_of_the_hidden_states_of_all_layers_the_last_ones_are_taken(tmp_path, backend):
    model = folder(tmp_path)
    graph = onnx.load(str(ENCODER / "model.onnx")).graph
    first = next(node for node in graph.node if node.op_type == "LayerNormalization" or node.name.endswith("embeddings/LayerNorm/Add_1")).output[0]
    with_output(ENCODER / "model.onnx", model / "model.onnx", first, "hidden_states.0")
    changed = onnx.load(str(model / "model.onnx"))
    outputs = list(changed.graph.output)
    del changed.graph.output[:]
    changed.graph.output.extend(reversed(outputs))
    onnx.save(changed, str(model / "model.onnx"))
    expected = unit(hidden_states(ENCODER / "model.onnx", token_ids("Hello")).mean(0))
    np.testing.assert_allclose(vectors(model, "Hello", "--backend", backend)[0], expected, atol=2e-5)


def test_a_pooler_is_only_taken_when_asked_for(tmp_path):
    model = folder(tmp_path, poolings=())
    with_output(ENCODER / "model.onnx", model / "model.onnx", None, "pooler_output")
    assert "or graph" in refusal("embed", model, "Hello")
    np.testing.assert_allclose(vectors(model, "Hello", "--pooling", "graph")[0],
                               hidden_states(ENCODER / "model.onnx", token_ids("Hello")).mean(0), atol=2e-5)


def test_a_decoder_that_also_gives_hidden_states_generates_and_embeds(tmp_path):
    source = ROOT / "tests/fixtures/zoo/qwen2"
    model = tmp_path / "both"
    shutil.copytree(source, model, copy_function=shutil.copyfile)
    model.chmod(0o755)
    graph = onnx.load(str(source / "model.onnx")).graph
    head = next(node for node in reversed(graph.node) if node.op_type == "MatMul" and graph.output[0].name in node.output)
    with_output(source / "model.onnx", model / "model.onnx", head.input[0], "hidden_states")
    expected = [json.loads((source / "expected.json").read_text())["cases"][0][key] for key in ("prompt_ids", "greedy_ids")]
    prompt = ",".join(map(str, expected[0]))
    assert json.loads(succeed("run", model, "--ids", prompt, "-n", len(expected[1]), "--json"))["ids"] == expected[1]
    native, ort = (vectors(model, "--ids", prompt, "--pooling", "lasttoken", "--backend", b) for b in ("native", "ort"))
    np.testing.assert_allclose(native, ort, atol=2e-5)
    laws = json.loads(succeed("verify", model, "--json"))["laws"]
    assert {"batch = alone", "embeddings: batch = alone"} <= {law["name"] for law in laws}


def test_other_models_say_why_they_do_not_embed():
    assert "output hidden states" in refusal("embed", ROOT / "models/fable", "Hello")
    assert "output hidden states" in refusal("embed", ROOT / "models/en-zh", "Hello")


@pytest.mark.parametrize("model", [ENCODER, DECODER])
def test_verify_proves_that_a_batch_equals_each_text_alone(model):
    laws = {law["name"]: law for law in json.loads(succeed("verify", model, "--json"))["laws"]}
    for name in ("embeddings: batch = alone", "embeddings: one thread = many", "embeddings: scalar = vectors"):
        assert laws[name]["holds"] and laws[name]["exact"] and laws[name]["cases"] >= 4
    assert laws["embeddings: native = ort"]["holds"]


def test_invalid_files_are_one_error_message(tmp_path):
    for number, (name, value) in enumerate([
        ("modules", {"a": 1}), ("modules", [{"type": "x.Pooling", "path": "../../etc"}]), ("modules", "text"),
        ("config_sentence_transformers", {"prompts": [1]}), ("config_sentence_transformers", {"default_prompt_name": "x"}),
        ("sentence_bert_config", {"max_seq_length": "many"}),
    ]):
        model = folder(tmp_path / str(number))
        write_json(model / f"{name}.json", value)
        assert refusal("embed", model, "Hello").count("\n") == 1
