"""The command line as scripts use it: JSON fields, exit statuses, one sentence per error."""
import json
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree

import onnx
import pytest
from command_line import FABLE, FORMS, KVIK, ROOT, kvik, refusal, succeed

ANSWERS = json.loads((ROOT / "tests/fixtures/models-expected/fable/expected.json").read_text())


@pytest.mark.parametrize("backend", ["native", "ort", "reference"])
def test_run_tells_the_expected_story_in_json(backend):
    case = ANSWERS["cases"][0]
    answer = json.loads(succeed("run", FABLE, case["prompt"], "-n", 16, "--backend", backend, "--json"))
    assert answer["prompt_ids"] == case["prompt_ids"]
    assert answer["ids"] == case["greedy_ids"][:16]
    assert answer["finish"] == "length" and answer["backend"] == backend
    assert {"load_ms", "prefill_ms", "first_token_ms", "decode_ms", "prefill_tokens_per_s", "decode_tokens_per_s"} <= answer["timing"].keys()
    assert {"weights_bytes", "kv_bytes", "peak_rss_bytes"} <= answer["memory"].keys()


def test_run_prints_the_text_alone_on_standard_output_and_never_the_prompt():
    answer = json.loads(succeed("run", FABLE, "Once upon a time", "-n", 8, "--json"))
    assert succeed("run", FABLE, "Once upon a time", "-n", 8) == answer["text"] + "\n"
    assert succeed("run", FABLE, "-", "-n", 8, text="Once upon a time") == answer["text"] + "\n"
    assert not answer["text"].startswith("Once")


def test_a_model_is_found_by_its_name_and_through_kvik_models(tmp_path):
    (tmp_path / "story").symlink_to(FABLE)
    first = json.loads(succeed("run", "fable", "The king", "-n", 4, "--json"))
    second = json.loads(succeed("run", "story", "The king", "-n", 4, "--json", environment={"KVIK_MODELS": str(tmp_path)}))
    assert first["ids"] == second["ids"]


def test_no_cache_gives_the_same_ids():
    with_cache = json.loads(succeed("run", FABLE, "The king", "-n", 6, "--json"))
    without = json.loads(succeed("run", FABLE, "The king", "-n", 6, "--json", "--no-cache"))
    assert with_cache["ids"] == without["ids"]


def test_the_second_start_uses_the_compile_cache(tmp_path):
    environment = {"KVIK_CACHE": str(tmp_path / "cache"), "KVIK_CACHE_BYTES": "50000000"}
    listed = json.loads(succeed("models", "--cache", "--json", environment=environment))
    assert listed == {"folder": str(tmp_path / "cache"), "bytes": 0, "max_bytes": 50000000, "files": []}
    arguments = ["run", FABLE, "The king", "-n", 8, "--json", "--log-level", "info"]
    without = kvik(*arguments, "--no-compile-cache", environment=environment)
    assert not (tmp_path / "cache").exists()
    first, second = (kvik(*arguments, environment=environment) for _ in range(2))
    assert "cached" in first.stderr and "from the compile cache" in second.stderr
    assert json.loads(without.stdout)["ids"] == json.loads(first.stdout)["ids"] == json.loads(second.stdout)["ids"]
    (file,) = json.loads(succeed("models", "--cache", "--json", environment=environment))["files"]
    assert "fable" in file["model"] and file["bytes"] == pathlib.Path(file["path"]).stat().st_size
    assert "1 file," in succeed("models", environment=environment)


def test_the_compile_cache_is_checked_and_cleared(tmp_path):
    environment = {"KVIK_CACHE": str(tmp_path), "KVIK_CACHE_BYTES": "5000000"}
    (tmp_path / "0.compiled").write_bytes(b"kvik compiled\n")
    (tmp_path / "mine.txt").write_text("not ours")
    assert json.loads(succeed("models", "--cache", "--json", environment=environment))["bytes"] == 14
    assert "damaged" in succeed("models", "--cache", environment=environment)
    assert len(json.loads(succeed("models", "--check-cache", "--json", environment=environment))["damaged"]) == 1
    (tmp_path / "1.compiled").write_bytes(b"")
    assert succeed("models", "--clear-cache", environment=environment) == "freed 0 bytes\n"
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    assert "KVIK_CACHE_BYTES" in refusal("models", "--cache", environment={"KVIK_CACHE_BYTES": "much"})
    succeed("run", FABLE, "The king", "-n", 2, "--no-compile-cache", environment={"KVIK_CACHE_BYTES": "much"})


def test_a_saved_prefix_is_not_computed_again(tmp_path):
    prefix = "Once upon a time there was a king who had three sons, and"
    n_saved = json.loads(succeed("run", FABLE, prefix, "--save-prefix", tmp_path / "prefix.kv", "--json"))["tokens"]
    fresh = json.loads(succeed("run", FABLE, prefix + " the youngest", "-n", 8, "--json"))
    reused = json.loads(succeed("run", FABLE, prefix + " the youngest", "-n", 8, "--json", "--prefix", tmp_path / "prefix.kv"))
    assert fresh["reused_tokens"] == 0 and reused["reused_tokens"] == n_saved
    assert reused["ids"] == fresh["ids"]
    assert "saved with another model" in refusal("run", FORMS / "plain", "--ids", "1", "--prefix", tmp_path / "prefix.kv")


def test_the_cache_stays_within_its_limit():
    free = json.loads(succeed("run", FABLE, "The king", "-n", 40, "--json"))
    assert json.loads(succeed("run", FABLE, "The king", "-n", 40, "--json", "--kv-bytes", "1MB"))["ids"] == free["ids"]
    assert "in use" in refusal("run", FABLE, "The king", "-n", 300, "--ignore-eos", "--kv-bytes", "1MB")
    assert "one page" in refusal("run", FABLE, "The king", "--kv-bytes", "1000")


def test_a_seed_gives_the_same_text_and_a_stop_text_ends_it():
    options = ("-n", 12, "--temperature", 1.1, "--top-k", 40, "--seed", 5, "--json")
    first = json.loads(succeed("run", FABLE, "The king", *options))
    assert json.loads(succeed("run", FABLE, "The king", *options))["ids"] == first["ids"]
    stop = first["text"][3:6]
    stopped = json.loads(succeed("run", FABLE, "The king", *options, "--stop", stop))
    assert stopped["finish"] == "stop" and stop not in stopped["text"]


@pytest.mark.parametrize("backend", ["native", "ort", "reference"])
def test_beams_give_the_ids_of_another_runtime(backend):
    model = ROOT / ".." / "shared" / "fixtures" / "models" / "tiny-random-gpt2"
    if not model.exists():
        pytest.skip("../shared is not beside this checkout")
    answer = json.loads(succeed("run", model, "--ids", "0,0,0,0,0,52,195,731,321,301,734,620", "-n", 8, "--beams", 4, "--length-penalty", 1, "--backend", backend, "--json"))
    assert answer["ids"] == [131, 131, 131, 181, 638, 638, 638, 638] and answer["finish"] == "length"


def test_beams_find_a_likelier_text_than_greedy_search():
    def likelihood(*options):
        answer = json.loads(succeed("run", FABLE, "Once upon a time", "-n", 12, *options, "--json"))
        ids = answer["prompt_ids"] + answer["ids"]
        return answer, json.loads(succeed("score", FABLE, "--ids", ",".join(map(str, ids)), "--json"))["sum_logprob"]

    greedy, least = likelihood()
    beams, more = likelihood("--beams", 4)
    assert greedy["ids"] != beams["ids"] and more > least
    assert succeed("run", FABLE, "Once upon a time", "-n", 12, "--beams", 4).rstrip("\n") == beams["text"]
    assert likelihood("--beams", 1)[0]["ids"] == greedy["ids"]


def test_a_folder_without_a_tokenizer_runs_by_ids():
    assert succeed("run", FORMS / "plain", "--ids", "13", "-n", 3).strip().count(",") == 2
    assert "token ids" in refusal("run", FORMS / "plain", "some text")


@pytest.mark.parametrize("arguments,sentence", [
    (("run", "no-such-model", "x"), "no-such-model"),
    (("run", FABLE, "--ids", "1,99999"), "outside the vocabulary of 4096"),
    (("run", FABLE, "--ids", "one"), "not a token id"),
    (("run", FABLE, "--ids", ""), "empty"),
    (("run", FABLE, "--ids", ",".join(["5"] * 1100)), "1100 tokens; the context has room for 1024"),
    (("run", FABLE, "x", "--context", "4", "--ids", "1,2,3,4,5"), "room for 4"),
    (("run", FABLE, "x", "--temperature", "-1"), "temperature"),
    (("run", FABLE, "x", "--top-p", "7"), "top_p"),
    (("run", FABLE, "x", "--beams", "2", "--temperature", "1"), "exclude each other"),
    (("run", FABLE, "x", "--beams", "2", "--no-cache"), "exclude each other"),
    (("run", FABLE, "--beams", "2", "--ids", ""), "empty"),
    (("run", FABLE, "--beams", "2", "--ids", ",".join(["5"] * 1100)), "1100 tokens; the context has room for 1024"),
    (("run", "en-zh", "Hello"), "use translate"),
    (("run", FABLE, "x", "--backend", "ort", "--ort-lib", ROOT / "README.md"), "README.md"),
    (("run", FABLE, "x", "--backend", "ort", "--ort-lib", "/nowhere/libonnxruntime.so"), "/nowhere/libonnxruntime.so"),
    (("run", ROOT / "docs", "x"), "docs"),
    (("score", FABLE, "--ids", "5"), "at least 2"),
    (("inspect", ROOT / "README.md"), "text file"),
])
def test_failures_print_one_sentence_and_return_1(arguments, sentence):
    assert sentence in refusal(*arguments)


def too_large_model(folder):
    """The plain decoder with a terabyte of matrices before its logits. Their file is a hole, which takes no room."""
    model = onnx.load(FORMS / "plain" / "model.onnx")
    last = next(node for node in model.graph.node if "logits" in node.output)
    weight = next(w for w in model.graph.initializer if w.name in last.input)
    width, wide = weight.dims[0], 1 << 30
    hidden, chain = next(name for name in last.input if name != weight.name), []
    for i in range((1 << 40) // (8 * width * wide) + 1):
        for name, dims in ((f"up_{i}", [width, wide]), (f"down_{i}", [wide, width])):
            huge = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=dims, data_location=onnx.TensorProto.EXTERNAL)
            for key, value in (("location", "huge.data"), ("length", str(4 * width * wide))):
                huge.external_data.add(key=key, value=value)
            model.graph.initializer.append(huge)
            chain.append(onnx.helper.make_node("MatMul", [hidden, name], [f"after_{name}"]))
            hidden = f"after_{name}"
    last.input[list(last.input).index(chain[0].input[0])] = hidden
    at = list(model.graph.node).index(last)
    for node in reversed(chain):
        model.graph.node.insert(at, node)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with open(folder / "huge.data", "wb") as file:
        file.truncate(4 * width * wide)
    return folder


@pytest.mark.parametrize("backend", ["native", "ort", "reference"])
def test_a_model_too_large_for_the_memory_is_refused_before_loading_with_the_figure(tmp_path, backend):
    sentence = refusal("run", too_large_model(tmp_path), "--ids", "1,2", "--backend", backend)
    assert re.search(r"take 1\d\d\d\.\d GB", sentence) and "of memory is free" in sentence


def test_a_model_without_cache_outputs_is_refused_unless_it_runs_natively(tmp_path):
    model = onnx.load(FORMS / "plain" / "model.onnx")
    del model.graph.output[1:]  # every present
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    for backend in ("ort", "reference"):
        assert "without a matching output" in refusal("run", tmp_path, "--ids", "1,2,3", "--backend", backend)
    ids = [json.loads(succeed("run", folder, "--ids", "1,2,3", "-n", 8, "--backend", "native", "--json"))["ids"] for folder in (tmp_path, FORMS / "plain")]
    assert ids[0] == ids[1]


RUNTIMES = {
    "ancient": ('extern "C" const void* api(unsigned) { return nullptr; } extern "C" const char* version() { return "1.2.0"; }'
                'struct Base { const void* (*api)(unsigned); const char* (*version)(); } base = {api, version};'
                'extern "C" const Base* OrtGetApiBase() { return &base; }', "1.2.0, which is too old"),
    "stranger": ('extern "C" int something_else() { return 0; }', "has no OrtGetApiBase"),
}


@pytest.mark.parametrize("kind", RUNTIMES)
def test_an_outdated_or_unrelated_library_is_refused(tmp_path, kind):
    source, sentence = RUNTIMES[kind]
    (tmp_path / "runtime.cc").write_text(source)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", tmp_path / "runtime.so", tmp_path / "runtime.cc"], check=True)
    assert sentence in refusal("run", FABLE, "x", "--backend", "ort", environment={"KVIK_ORT_LIB": str(tmp_path / "runtime.so")})


def test_a_library_for_another_machine_is_refused(tmp_path):
    library = bytearray(pathlib.Path(os.environ["KVIK_ORT_LIB"]).read_bytes()[:1 << 16])
    library[18:20] = (0x2B).to_bytes(2, "little")  # e_machine: SPARC v9
    (tmp_path / "foreign.so").write_bytes(library)
    for name, content in (("foreign.so", library), ("text.so", b"hello\n"), ("empty.so", b"")):
        (tmp_path / name).write_bytes(content)
        said = refusal("run", FABLE, "x", "--backend", "ort", "--ort-lib", tmp_path / name)
        assert name in said and "a library for this machine is needed" in said
        # With --backend auto, the reason why the runtime was not used is logged.
        assert "not run by ONNX Runtime" in kvik("run", FABLE, "x", "-n", 1, "--device", "cuda", "--ort-lib", tmp_path / name).stderr


@pytest.mark.parametrize("arguments", [(), ("run",), ("frobnicate",), ("run", FABLE, "x", "--no-such-option"), ("run", FABLE, "x", "--backend", "magic"),
                                       ("run", FABLE, "x", "-n", "-4"), ("bench", FABLE, "--rounds", "0")])
def test_wrong_usage_has_status_2(arguments):
    refusal(*arguments, status=2)


@pytest.mark.parametrize("command", ["run", "chat", "translate", "transcribe", "inspect", "verify", "score", "bench", "tokenize", "render"])
def test_every_command_explains_itself(command):
    assert "--json" in succeed(command, "--help") or command in ("render", "tokenize")


def test_missing_cuda_falls_back_to_the_cpu_with_a_warning():
    done = kvik("run", FABLE, "The king", "-n", 2, "--backend", "ort", "--device", "cuda", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["device"] == "cpu"
    assert "the CUDA provider was requested" in done.stderr and "running on the CPU" in done.stderr


def test_score_gives_log_probabilities_and_perplexity():
    answer = json.loads(succeed("score", FABLE, "--text", "Once upon a time there was a king.", "--json"))
    assert len(answer["logprobs"]) == answer["tokens"] - 1
    assert answer["sum_logprob"] == pytest.approx(sum(answer["logprobs"]))


def test_perplexity_matches_the_model_card():
    answer = json.loads(succeed("score", FABLE, ROOT / "tests/fixtures/models-expected/fable/heldout.txt", "--backend", "ort", "--json", timeout=600))
    assert answer["tokens"] == 5997
    assert answer["perplexity"] == pytest.approx(25.06, abs=0.05)


def test_verify_confirms_the_laws_of_a_correct_model():
    answer = json.loads(succeed("verify", FORMS / "plain", "--json"))
    laws = {law["name"]: law for law in answer["laws"]}
    assert {"cached = uncached", "any split of the prompt", "forked = fresh", "batch = alone"} <= laws.keys()
    assert all(law["holds"] and law["cases"] > 0 for law in answer["laws"])
    # What the native backend promises is equal bits; another backend may round otherwise.
    assert answer["backend"] == "native" and laws["one thread = many"]["exact"] and laws["scalar = vectors"]["exact"]
    assert "native = ort" in laws


def test_verify_compares_the_other_backends_too():
    for backend, law in (("ort", "ort = reference"), ("reference", "reference = ort")):
        answer = json.loads(succeed("verify", FORMS / "plain", "--backend", backend, "--json"))
        assert answer["laws"][-1]["name"] == law and answer["laws"][-1]["holds"]


def test_verify_allows_for_the_batch_sensitivity_of_a_file():
    # Not on ort: without VNNI its int8 kernels saturate, by more than any law can allow.
    answer = json.loads(succeed("verify", FORMS.parent / "zoo" / "llama-int8", "--backend", "reference", "--against", "none", "--json"))
    assert answer["tolerance"] > 0.25 and all(law["holds"] for law in answer["laws"])


@pytest.mark.parametrize("backend", ["native", "ort", "reference"])
def test_bench_measures_everything_it_names(backend):
    answer = json.loads(succeed("bench", FORMS / "plain", "--backend", backend, "--prompt", 8, "--tokens", 4, "--rounds", 1, "--depth", 20, "--json"))
    assert answer["bandwidth_gb_per_s"] > 0
    # The native backend takes whole pages.
    assert answer["cache_bytes"] >= answer["cache_bytes_by_formula"] if backend == "native" else answer["cache_bytes"] == answer["cache_bytes_by_formula"]
    for result in answer["results"]:
        assert {"what", "tokens_per_s", "bytes_per_token", "gb_per_s", "share_of_bandwidth", "p50_ms", "p95_ms"} <= result.keys()
    measured = " ".join(result["what"] for result in answer["results"])
    for what in ("prefill 8", "first token", "decode at depth 8", "decode at depth 20", "batch of 4", "fork"):
        assert what in measured, measured


def test_bench_plots_what_it_measured(tmp_path):
    plot = tmp_path / "bench.svg"
    succeed("bench", FORMS / "plain", "--prompt", 8, "--tokens", 4, "--rounds", 1, "--uncached", "--plot", plot)
    root = xml.etree.ElementTree.parse(plot).getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "uncached" in texts and "decode batch of 4" in texts
    assert "could not be written" in refusal("bench", FORMS / "plain", "--prompt", 4, "--tokens", 2, "--rounds", 1, "--plot", tmp_path / "no" / "b.svg")


def test_chat_keeps_a_conversation_and_saves_it(tmp_path):
    saved = tmp_path / "talk.json"
    talk = f"Once upon a time\n/stats\n/fork\nThen the king\n/back\n/save {saved}\n/undo\n/undo\n/nonsense\n/quit\n"
    done = kvik("chat", FABLE, "-n", 4, text=talk)
    assert done.returncode == 0, done.stderr
    assert [m["role"] for m in json.loads(saved.read_text())] == ["user", "assistant"]
    assert "nothing to undo" in done.stderr and "/nonsense" in done.stderr and "reused" in done.stderr


def test_a_saved_conversation_continues_without_recomputing(tmp_path):
    saved = tmp_path / "talk.json"
    stayed = kvik("chat", FABLE, "-n", 4, text=f"Once upon a time\n/save {saved}\nThen the king\n/quit\n")
    back = kvik("chat", FABLE, "-n", 4, text=f"/load {saved}\nThen the king\n/stats\n/quit\n")
    assert back.returncode == 0, back.stderr
    assert back.stdout.splitlines() == stayed.stdout.splitlines()[1:]
    computed, reused = map(int, re.search(r"(\d+) of the last prompt were computed and (\d+) reused", back.stderr).groups())
    assert reused > 4 and computed < 8
    cache = pathlib.Path(f"{saved}.kv")
    cache.write_bytes(cache.read_bytes()[:-1])
    damaged = kvik("chat", FABLE, "-n", 4, text=f"/load {saved}\nThen the king\n/quit\n")
    assert damaged.stdout == back.stdout and "will be recomputed" in damaged.stderr and "damaged" in damaged.stderr


def example(name, *arguments, model=FABLE, text=None):
    done = subprocess.run([KVIK.parent / f"example-{name}", model, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_work():
    assert len(example("story", "The king")) > 20
    turns = example("turns", text="Once upon a time\nAnd then the wolf\n")
    assert "(0 tokens reused" in turns and turns.count("tokens reused") == 2
    streams = example("streams", text="Once upon a time\nThe king\n").splitlines()
    options = ["-n", 40, "--temperature", 0.7, "--seed", 1, "--stop", "\n"]
    assert streams == [kvik("run", FABLE, prompt, *options).stdout.rstrip("\n") for prompt in ("Once upon a time", "The king")]
    search = example("search", "Once upon a time", 4, 3)
    assert "5012 forks" in search
    likelihoods = [float(line.split()[0]) for line in search.splitlines()[:3]]
    assert likelihoods == sorted(likelihoods, reverse=True)
    game = example("tree_search", 100, 1, model=ROOT / "models" / "connect-four")
    assert re.search(r"(X wins|O wins|a draw) after \d+ moves", game) and "equal bit for bit" in game
    known = [json.loads(line) for line in (ROOT / "tests/fixtures/models-expected/en-zh/expected.jsonl").read_text().splitlines()[:3]]
    lines = example("translate", model=ROOT / "models" / "en-zh", text="\n".join(entry["source"] for entry in known)).splitlines()
    assert [line.rsplit("  (", 1)[0] for line in lines] == [entry["beam4_text"] for entry in known]


def test_tokenize_answers_every_line_in_its_place():
    lines = ['{"ids":[1.5]}', '{"ids":[1099511627777]}', '{"ids":["a"]}', '{"text":5}', "nonsense", '{"text":"a","special":"x"}', '{"text":"a","special":false}', '{"ids":[65]}']
    answers = [json.loads(line) for line in succeed("tokenize", FABLE, "--json-lines", text="\n".join(lines) + "\n").splitlines()]
    assert ["error" in answer for answer in answers] == [True] * 6 + [False] * 2
    assert answers[6:] == [{"ids": [65]}, {"text": "a"}]
    assert not any("exception" in answer.get("error", "") for answer in answers)


def test_translate_answers_every_line_in_order():
    lines = "Hello!\n\nHow are you today?\n"
    assert succeed("translate", "en-zh", text=lines).split("\n")[1:3] == ["", succeed("translate", "en-zh", "How are you today?").strip()]
    results = json.loads(succeed("translate", "en-zh", "--json", "--beams", 4, text=lines))["results"]
    assert len(results) == 3 and results[1]["ids"] == []
    assert {"source_ids", "ids", "text", "score", "finish"} <= results[0].keys()


def test_translate_refuses_what_it_cannot_do():
    assert "no encoder" in refusal("translate", FABLE, "Hello")
    assert "--truncate" in refusal("translate", "en-zh", "word " * 400)
    assert succeed("translate", "en-zh", "word " * 400, "--truncate", "-n", 4)
